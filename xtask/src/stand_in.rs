//! What Windows machines, and what stands in for them, are brought.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mullion_artifacts::{RootWish, Sources, Store, supply_root};
use mullion_plan::Unattended;

use crate::{XtaskError, shims, tools, up, windows_agent};

/// The libraries that answer where a stand-in has nothing of its own.
pub(crate) const SHIMS: [&str; 6] = [
    "computenetwork",
    "dismapi",
    "hnetcfg",
    "iphlpapi",
    "pdh",
    "vmcompute",
];

/// Builds what is taken into `mullion` for Windows machines, and gives the folder that holds it and nothing else.
pub(crate) fn build() -> Result<PathBuf, XtaskError> {
    let folder = tools::target_folder()?.join("windows");
    fs_err::create_dir_all(&folder)?;
    let shims = shims::build()?;
    let mut files = vec![
        up::build_for_machines("mullion-standin")?,
        windows_agent::build()?,
    ];
    files.extend(SHIMS.map(|name| shims.join(format!("{name}.dll"))));
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    for entry in fs_err::read_dir(&folder)? {
        let entry = entry?;
        if !names.contains(&entry.file_name().as_os_str()) {
            fs_err::remove_file(entry.path())?;
        }
    }
    for file in &files {
        let target = folder.join(file.file_name().unwrap_or_default());
        let bytes = fs_err::read(file)?;
        // One that is the same stays as it is, so that nothing is built anew for it.
        if fs_err::read(&target).ok().as_ref() != Some(&bytes) {
            fs_err::write(&target, bytes)?;
        }
    }
    Ok(folder)
}

/// Puts what a stand-in is made of into one folder, for tests that make one: its root file system, its own
/// program, and the agent for Windows.
pub(crate) fn gather(folder: &Path, cache: &Path) -> Result<(), XtaskError> {
    let built = build()?;
    for name in ["mullion-standin", "mullion-agent.exe"] {
        symlink(built.join(name), folder.join(name))?;
    }
    Ok(symlink(root(cache)?, folder.join("root.tar"))?)
}

/// The root file system of stand-ins, as a tar file in the cache.
pub(crate) fn root(cache: &Path) -> Result<PathBuf, XtaskError> {
    let store = Store::open(cache).map_err(|error| XtaskError::part("the cache", error))?;
    let sources = Sources {
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        ..Sources::default()
    };
    supply_root(&store, &RootWish::stand_in(), &sources, &Unattended)
        .map_err(|error| XtaskError::part("the root file system of stand-ins", error))
}
