//! Container images as archives: an OCI layout in a tar file, as `ctr images import` reads it.
//!
//! An image is pulled where a registry can be reached, else made: one layer with the program and, where it needs
//! programs of the distribution, a layer of those below it, which the images share. What is made of the same inputs
//! has the same bytes: every time is the same, names are sorted, everything belongs to root.

mod archive;
mod base;
mod layer;
mod names;
mod registry;

use std::path::PathBuf;

use fs_err as fs;
use mullion_catalog::{ArtifactRef, ImageBuild};

use crate::build::BuildError;
use crate::error::SupplyError;
use crate::job::Job;
use crate::record::{Draft, Origin};
use crate::store::Entry;
use crate::supply;

pub(crate) use base::trim;
pub use names::archive_names;
pub(crate) use registry::{Challenge, Place, digest, pull};

/// Puts an image together from its program.
pub(crate) fn make(
    job: &Job<'_>,
    entry: &Entry<'_>,
    artifact: &ArtifactRef,
    build: &ImageBuild,
) -> Result<PathBuf, SupplyError> {
    let program = supply::program(job, artifact, &build.program)?;
    let base = base::supply(job, &build.needs)?;
    job.say(format!("making {}", entry.item));
    write(job, entry, artifact, build, &program, base)
        .map_err(|source| SupplyError::build(&entry.item, source))
}

fn write(
    job: &Job<'_>,
    entry: &Entry<'_>,
    artifact: &ArtifactRef,
    build: &ImageBuild,
    program: &std::path::Path,
    base: Option<PathBuf>,
) -> Result<PathBuf, BuildError> {
    let failed = |source| BuildError::io(format!("writing {}", entry.item), source);
    let go_on = || !job.attendant.is_called_off();
    let above = layer::Above::of(base.as_ref());
    let layer_file = entry.temporary("layer.tar")?;
    layer::of_program(program, &build.path, above, &layer_file, &go_on).map_err(failed)?;
    let mut layers = Vec::new();
    layers.extend(base);
    layers.push(layer_file.clone());

    let file = entry.item.default_file();
    let new = entry.temporary(&file)?;
    let image = archive::Image {
        // An image without an address has no name by which anybody could ask for it.
        reference: artifact.address.as_deref().unwrap_or(&artifact.name),
        entrypoint: &build.entrypoint,
        layers: &layers,
    };
    let (sha256, size) = image.write(&new, &go_on).map_err(failed)?;
    fs::remove_file(&layer_file).map_err(failed)?;
    let draft = Draft::new(entry.item.clone(), file, Origin::Made);
    Ok(entry.keep(&new, draft.finish(sha256, size))?)
}
