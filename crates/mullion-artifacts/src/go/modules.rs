//! Modules in Go's own cache: fetched, and held against the pinned sum.

use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_catalog::{Digest, GoModule};
use serde::Deserialize;

use super::{Go, toolchain, wrapper};
use crate::build::BuildError;
use crate::job::Job;
use crate::process::{self, ToolError};
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
    let ran = ran.map_err(|source| not_had(&name, source))?;
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

/// Why there is no module. The Go tool says it where its answer would be, and nothing to standard error.
fn not_had(name: &str, failure: ToolError) -> BuildError {
    if let ToolError::Failed { stdout, .. } = &failure
        && let Ok(download) = serde_json::from_slice::<Download>(stdout)
        && !download.error.is_empty()
    {
        return BuildError::Module {
            module: name.into(),
            words: download.error,
        };
    }
    BuildError::tool(format!("getting module {name}"), failure)
}

pub(super) fn read(path: &Path) -> Result<String, BuildError> {
    fs::read_to_string(path).map_err(|source| BuildError::io("reading a module's files", source))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use mullion_plan::Unattended;

    use super::*;
    use crate::process::Worth;

    #[test]
    fn a_module_that_cannot_be_had_says_why() {
        let says = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let ran = process::run("go mod download", &mut command, &Unattended, &mut |_| {
                Worth::Telling
            });
            not_had("x.invalid/y@v1.0.0", ran.unwrap_err())
        };
        // As `GOPROXY=off go mod download -json x.invalid/y@v1.0.0` of Go 1.26 does.
        let error = says(
            r#"echo '{"Path": "x.invalid/y", "Error": "module lookup disabled by GOPROXY=off"}'; exit 1"#,
        );
        assert_eq!(
            error.to_string(),
            "module x.invalid/y@v1.0.0 could not be had: module lookup disabled by GOPROXY=off"
        );
        let error = says("echo broken >&2; exit 1");
        assert_eq!(error.tail(), ["broken"]);
    }
}
