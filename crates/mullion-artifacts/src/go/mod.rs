//! Programs out of Go modules.
//!
//! A wrapper module requires the one module whose programs are wanted, says again what only counts in a main module
//! (`go`, `godebug`, `exclude`, `replace`), and takes its go.sum along. Programs of one module share the wrapper and
//! are built one after another; its go.mod is written anew before each, because the Go tool adds to it what one
//! program needs, and that must not change the next. What was compiled stays in Go's own cache, so that a build that
//! was cut off goes on where it was.
//!
//! A program with patches has a wrapper of its own, in which copies take the place of what is patched.

mod build;
mod dirhash;
mod modules;
mod patch;
#[cfg(test)]
mod too_old;
mod toolchain;
mod version;
mod wrapper;

use std::path::{Path, PathBuf};
use std::process::Command;

use mullion_catalog::GoModule;

use crate::build::BuildError;
use crate::job::Job;
use crate::sources::GoCaches;
use crate::store::{GO_CACHES, make_folder};
use crate::trust;

pub(crate) use build::{build, parse_modules};
pub(crate) use dirhash::of_zip;
pub(crate) use modules::module;
pub use patch::Misfit;
pub use toolchain::{NEWEST, toolchain};
pub use version::{GoVersion, GoVersionError};

/// A Go that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Go {
    /// The program.
    pub program: PathBuf,
    /// Its version.
    pub version: GoVersion,
}

impl Go {
    /// The Go tool, in that folder, with nothing around it that could change what it makes.
    fn command(
        &self,
        job: &Job<'_>,
        folder: &Path,
        module: Option<&GoModule>,
    ) -> Result<Command, BuildError> {
        let sources = job.sources;
        let mut command = sources.tool(&self.program);
        command
            .current_dir(folder)
            // The folder is the wrapper's, whatever module or workspace lies above it.
            .envs([
                ("GO111MODULE", "on"),
                ("GOARCH", "amd64"),
                ("GOAMD64", "v1"),
                ("GOFLAGS", "-mod=mod"),
                ("GOTOOLCHAIN", "local"),
                ("GOWORK", "off"),
            ]);
        if !sources.environment.contains_key("HOME") {
            // Go wants a place for its caches.
            command.env("HOME", job.store.work("home")?);
        }
        keep_apart(&mut command, job);
        if let Some(folder) = trust::folder(job)? {
            // Read besides the system's own file.
            command.env(
                "SSL_CERT_DIR",
                format!("{}:/etc/ssl/certs", folder.display()),
            );
        }
        if let Some(proxy) = &sources.go.module_proxy {
            command.env("GOPROXY", proxy);
        }
        if let Some(module) = module
            && !module.in_checksum_database
        {
            command.env("GONOSUMDB", &module.path);
        }
        Ok(command)
    }
}

/// Lets Go write nothing into the user's folders where these are not ours, and read its settings there all the same.
fn keep_apart(command: &mut Command, job: &Job<'_>) {
    if job.sources.go.caches == GoCaches::Users {
        return;
    }
    let caches = job.store.folder().join(GO_CACHES);
    // Go would make it with the caller's mask, and root refuses a cache that a group can write to. Where it cannot be
    // made, Go says so.
    let _ = make_folder(&caches);
    let given = |name: &str| job.sources.environment.get(name).map(PathBuf::from);
    let settings = given("XDG_CONFIG_HOME").or_else(|| Some(given("HOME")?.join(".config")));
    if given("GOENV").is_none()
        && let Some(settings) = settings
    {
        command.env("GOENV", settings.join("go/env"));
    }
    command
        .env("GOPATH", caches.join("path"))
        .env_remove("GOMODCACHE")
        .env("GOCACHE", caches.join("build"))
        // Its counters go there.
        .env("XDG_CONFIG_HOME", caches.join("config"))
        // What cannot be written to cannot be removed by whom it is given to.
        .env("GOFLAGS", "-mod=mod -modcacherw");
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::sources::Sources;
    use crate::store::Store;

    #[test]
    fn go_writes_nothing_into_folders_that_are_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut sources = Sources {
            environment: [
                ("HOME", "/home/user"),
                ("GOMODCACHE", "/home/user/modules"),
                ("GOPATH", "/home/user/go"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            ..Sources::default()
        };
        let go = Go {
            program: "go".into(),
            version: NEWEST,
        };
        let variables = |sources: &Sources| {
            let job = Job {
                store: &store,
                sources,
                artifacts: &[],
                attendant: &mullion_plan::Unattended,
            };
            let command = go.command(&job, folder.path(), None).unwrap();
            move |name: &str| {
                let mut all = command.get_envs();
                let (_, value) = all.find(|(known, _)| *known == OsStr::new(name))?;
                value.map(PathBuf::from)
            }
        };
        let users = variables(&sources);
        assert_eq!(users("GOPATH"), Some("/home/user/go".into()));
        sources.go.caches = GoCaches::Ours;
        let ours = variables(&sources);
        for name in ["GOPATH", "GOCACHE", "XDG_CONFIG_HOME"] {
            let place = ours(name).unwrap();
            assert!(
                place.starts_with(folder.path()),
                "{name}: {}",
                place.display()
            );
        }
        assert_eq!(ours("GOMODCACHE"), None);
        assert_eq!(ours("GOENV"), Some("/home/user/.config/go/env".into()));
    }
}
