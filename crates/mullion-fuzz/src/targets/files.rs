//! Archives: read from a file, as they are in a run.

use crate::archives::{Yard, bundle_of, images_of, tar, tar_gz, zip};

fn within(
    archive: &[u8],
    name: &str,
    read: impl FnOnce(&Yard) -> Result<(), String>,
) -> Result<(), String> {
    let yard = Yard::with(archive, name).map_err(|error| error.to_string())?;
    // The yard has another name each time: that is no new way to be refused.
    let place = yard.inside().display().to_string();
    let above = yard.archive("").display().to_string();
    let result = read(&yard).map_err(|words| words.replace(&place, "").replace(&above, ""));
    yard.close(name);
    result
}

pub(super) fn bundle(bytes: &[u8]) -> Result<(), String> {
    within(&bundle_of(bytes), "x.bundle", |yard| {
        mullion_artifacts::fuzz::bundle(&yard.archive("x.bundle"), &yard.inside())
    })
}

pub(super) fn root_file_system(bytes: &[u8]) -> Result<(), String> {
    within(&tar(bytes), "x.tar", |yard| {
        mullion_template::fuzz::unpack(&yard.archive("x.tar"), &yard.inside())
    })
}

pub(super) fn image_layer(bytes: &[u8]) -> Result<(), String> {
    within(&tar(bytes), "x.tar", |yard| {
        let layer = yard.inside().join("layer.tar");
        mullion_artifacts::fuzz::layer(&yard.archive("x.tar"), &layer)
    })
}

pub(super) fn archive_names(bytes: &[u8]) -> Result<(), String> {
    let names = mullion_artifacts::archive_names(&images_of(bytes)[..]);
    names.map(drop).map_err(|error| error.to_string())
}

pub(super) fn archive_tar(bytes: &[u8]) -> Result<(), String> {
    let archive = tar_gz(bytes).map_err(|error| error.to_string())?;
    within(&archive, "x.tar.gz", |yard| {
        let program = yard.inside().join("program");
        mullion_artifacts::fuzz::archive_member(&yard.archive("x.tar.gz"), &program)
    })
}

pub(super) fn archive_zip(bytes: &[u8]) -> Result<(), String> {
    within(&zip(bytes), "x.zip", |yard| {
        let program = yard.inside().join("program");
        mullion_artifacts::fuzz::archive_member(&yard.archive("x.zip"), &program)
    })
}

pub(super) fn module_zip(bytes: &[u8]) -> Result<(), String> {
    mullion_artifacts::fuzz::module_zip(&zip(bytes))
}
