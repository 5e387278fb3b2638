//! What fuzzing calls: readers of what others wrote, each with what must hold of its answer. A refusal says why.

use std::path::{Component, Path};

use crate::cri;
use crate::path::{DrivePath, relative};
use crate::settings::Settings;

/// A Windows path, as kubelet, a shell or an SFTP client writes it.
pub fn windows_path(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let home = DrivePath::parse(r"C:\Users\a").map_err(|error| error.to_string())?;
    let _ = relative(&text);
    let read = DrivePath::parse(&text);
    let by_sftp = DrivePath::parse_sftp(&text, &home);
    for path in [&read, &by_sftp].into_iter().flatten() {
        stays_inside(path);
        assert_eq!(DrivePath::parse(&path.windows()).as_ref(), Ok(path));
        assert_eq!(
            DrivePath::parse_sftp(&path.sftp(), &home).as_ref(),
            Ok(path)
        );
    }
    let _ = DrivePath::from_machine("/srv/c", &text);
    let _ = DrivePath::from_linux(&text);
    by_sftp.map(|_| ()).map_err(|error| error.to_string())
}

fn stays_inside(path: &DrivePath) {
    let below = path.below("/srv/c");
    let rest = Path::new(&below).strip_prefix("/srv/c");
    let mut parts = rest.map(Path::components).ok().into_iter().flatten();
    let is_inside = parts.all(|part| matches!(part, Component::Normal(_)));
    assert!(below.starts_with("/srv/c") && is_inside, "{below:?}");
}

/// Messages between kubelet and the container runtime: the first byte chooses the call.
pub fn runtime_messages(bytes: &[u8]) -> Result<(), String> {
    cri::fuzz(bytes)
}

/// The table of images and the settings of a stand-in.
pub fn tables(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let images = cri::Images::parse(text).map(|_| ());
    let settings = Settings::parse(text).map(|_| ());
    settings.or_else(|_| images.map_err(|error| error.to_string()))
}
