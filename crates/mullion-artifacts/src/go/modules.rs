//! Modules in Go's own cache: fetched, and held against the pinned sum.

use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_catalog::{Digest, GoModule};
use serde::Deserialize;

use super::{Go, toolchain, wrapper};
use crate::build::BuildError;
use crate::job::Job;
use crate::process;
use crate::record::Module;

/// A module in Go's cache, and a Go that can build it.
pub(crate) struct Fetched {
    pub(crate) go: Go,
    /// The folder with its files.
    pub(crate) folder: PathBuf,
    pub(crate) module: Module,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Download {
    dir: PathBuf,
    sum: String,
    error: String,
}

/// Gets a module, sees that its sum is the pinned one, and finds a Go that is new enough for it.
pub(crate) fn module(
    job: &Job<'_>,
    wanted: &GoModule,
    place: &Path,
) -> Result<Fetched, BuildError> {
    let name = format!("{}@{}", wanted.path, wanted.version);
    let mut go = toolchain::find(job)?;
    job.say(format!("getting module {name}"));
    let mut command = go.command(job, place, Some(wanted))?;
    command.args(["mod", "download", "-json", &name]);
    let ran = process::run(
        "go mod download",
        &mut command,
        job.attendant,
        &mut |line| job.pass_on(line),
    );
    let ran = ran.map_err(|source| BuildError::tool(format!("getting module {name}"), source))?;
    let unreadable = || BuildError::Module {
        module: name.clone(),
        words: "the Go tool's answer was not understood".into(),
    };
    let download: Download = serde_json::from_slice(&ran.stdout).map_err(|_| unreadable())?;
    if !download.error.is_empty() {
        return Err(BuildError::Module {
            module: name,
            words: download.error,
        });
    }
    let found = download.sum.strip_prefix("h1:").ok_or_else(unreadable)?;
    if let Digest::GoSum(pinned) = &wanted.sum
        && pinned != found
    {
        return Err(BuildError::Sum {
            module: name,
            pinned: format!("h1:{pinned}"),
            found: download.sum,
        });
    }
    let needs = wrapper::go_line(&read(&download.dir.join("go.mod"))?);
    if let Some(needs) = needs
        && needs > go.version
    {
        if needs > toolchain::NEWEST {
            return Err(BuildError::GoTooOld {
                module: name,
                needs,
                newest: toolchain::NEWEST.max(go.version),
            });
        }
        job.say(format!("{name} needs Go {needs}, here is {}", go.version));
        go = toolchain::fetch(job)?;
    }
    Ok(Fetched {
        go,
        folder: download.dir,
        module: Module {
            path: wanted.path.clone(),
            version: wanted.version.clone(),
            sum: download.sum,
        },
    })
}

pub(super) fn read(path: &Path) -> Result<String, BuildError> {
    fs::read_to_string(path).map_err(|source| BuildError::io("reading a module's files", source))
}
