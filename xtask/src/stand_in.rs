//! What a stand-in for Windows is made of, for tests that make one.

use std::os::unix::fs::symlink;
use std::path::Path;

use mullion_artifacts::{Distribution, RootWish, Sources, Store, Variant, supply_root};
use mullion_catalog::Catalog;
use mullion_plan::Unattended;

use crate::{XtaskError, up, windows_agent};

/// Puts its parts into one folder: the root file system with Wine, its own program, and the agent for Windows.
pub(crate) fn gather(folder: &Path, cache: &Path) -> Result<(), XtaskError> {
    let program = up::build_for_machines("mullion-standin")?;
    symlink(program, folder.join("mullion-standin"))?;
    symlink(windows_agent::build()?, folder.join("mullion-agent.exe"))?;
    let inside = Catalog::builtin().stand_in_root();
    let wish = RootWish {
        distribution: Distribution::Debian,
        suite: inside.suite.clone(),
        packages: inside.packages.iter().cloned().collect(),
        variant: Variant::Minimal,
    };
    let store = Store::open(cache).map_err(|error| XtaskError::part("the cache", error))?;
    let sources = Sources {
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        ..Sources::default()
    };
    let root = supply_root(&store, &wish, &sources, &Unattended)
        .map_err(|error| XtaskError::part("the root file system with Wine", error))?;
    Ok(symlink(root, folder.join("root.tar"))?)
}
