//! Programs out of Go modules.
//!
//! A wrapper module requires the one module whose programs are wanted, says again what only counts in a main module
//! (`go`, `godebug`, `exclude`, `replace`), and takes its go.sum along. Programs of one module share the wrapper and
//! are built one after another; its go.mod is written anew before each, because the Go tool adds to it what one
//! program needs, and that must not change the next. What was compiled stays in Go's own cache, so that a build that
//! was cut off goes on where it was.

mod build;
mod dirhash;
mod modules;
mod toolchain;
mod version;
mod wrapper;

use std::path::{Path, PathBuf};
use std::process::Command;

use mullion_catalog::GoModule;

use crate::build::BuildError;
use crate::job::Job;
use crate::trust;

pub(crate) use build::build;
pub(crate) use modules::module;
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
