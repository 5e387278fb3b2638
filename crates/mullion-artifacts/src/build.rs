//! Builds: why one fails, and the one that needs no Go.

use std::io;
use std::path::PathBuf;

use mullion_catalog::{ArtifactRef, CBuild};

use crate::fetch::FetchError;
use crate::go::{self, GoVersion, Misfit};
use crate::job::Job;
use crate::process::{self, ToolError, Worth};
use crate::record::{Draft, Origin};
use crate::store::{Entry, StoreError};

/// Why something could not be built from source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A tool failed.
    #[error("{doing} failed")]
    Tool {
        /// What was being done.
        doing: String,
        /// How the tool failed, with its last lines.
        #[source]
        source: ToolError,
    },
    /// The settings of apt cannot hold the path of the certificates.
    #[error("apt cannot be given the certificates in `{}`: the path has a quotation mark, a backslash or a control character", file.display().to_string().escape_debug())]
    CertificatePath {
        /// The file.
        file: PathBuf,
    },
    /// A module could not be had.
    #[error("module {module} could not be had: {words}")]
    Module {
        /// The module and its version.
        module: String,
        /// The Go tool's words.
        words: String,
    },
    /// A module is not the one that the catalog pins.
    #[error("module {module} has the sum {found}, but {pinned} is pinned")]
    Sum {
        /// The module and its version.
        module: String,
        /// The pinned sum.
        pinned: String,
        /// The sum of what was served.
        found: String,
    },
    /// A patch looks for text that is not there any more.
    #[error(transparent)]
    Patch(Box<Misfit>),
    /// No Go that is known here is new enough.
    #[error("module {module} needs Go {needs}, and the newest to be had is {newest}")]
    GoTooOld {
        /// The module and its version.
        module: String,
        /// What it needs.
        needs: GoVersion,
        /// What there is.
        newest: GoVersion,
    },
    /// What was given as Go is not Go.
    #[error("{} is not Go: it said `{said}`", program.display())]
    NotGo {
        /// The program.
        program: PathBuf,
        /// Its answer.
        said: String,
    },
    /// There is no Go, and none may be fetched.
    #[error("there is no Go {newest} here, and nothing outside may be asked")]
    NoGoOffline {
        /// The version that would be fetched.
        newest: GoVersion,
    },
    /// Go could not be fetched.
    #[error("Go {newest} could not be fetched")]
    Toolchain {
        /// The version.
        newest: GoVersion,
        /// Why.
        #[source]
        source: Box<FetchError>,
    },
    /// The Go in the cache is not the one that was fetched.
    #[error("the Go in {} was changed after it was fetched", folder.display())]
    ToolchainChanged {
        /// Its folder.
        folder: PathBuf,
    },
    /// The keys of a distribution are not on this computer.
    #[error("the keys that vouch for the packages of {suite} are not in {}", file.display())]
    Keys {
        /// The suite.
        suite: String,
        /// Where they should be.
        file: PathBuf,
        /// The package that brings them.
        package: &'static str,
    },
    /// A file could not be read or written.
    #[error("{doing} failed")]
    Io {
        /// What was being done.
        doing: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The cache could not be used.
    #[error(transparent)]
    Store(StoreError),
    /// The work was called off.
    #[error("called off")]
    CalledOff,
}

impl BuildError {
    /// A tool that was called off is no failure of the tool.
    pub(crate) fn tool(doing: impl Into<String>, source: ToolError) -> Self {
        match source {
            ToolError::CalledOff { .. } => Self::CalledOff,
            source => Self::Tool {
                doing: doing.into(),
                source,
            },
        }
    }

    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        if crate::digest::is_stop(&source) {
            return Self::CalledOff;
        }
        Self::Io {
            doing: doing.into(),
            source,
        }
    }

    pub(crate) fn is_called_off(&self) -> bool {
        match self {
            Self::CalledOff | Self::Store(StoreError::CalledOff) => true,
            Self::Toolchain { source, .. } => source.is_called_off(),
            _ => false,
        }
    }

    /// The last lines of the tool that failed.
    pub fn tail(&self) -> &[String] {
        match self {
            Self::Tool { source, .. } => source.tail(),
            _ => &[],
        }
    }
}

impl From<StoreError> for BuildError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::CalledOff => Self::CalledOff,
            error => Self::Store(error),
        }
    }
}

/// Builds a C program out of a module's folder.
pub(crate) fn c(
    job: &Job<'_>,
    entry: &Entry<'_>,
    artifact: &ArtifactRef,
    build: &CBuild,
) -> Result<PathBuf, BuildError> {
    let place = job.store.work("c")?;
    let fetched = go::module(job, &build.module, &place)?;
    let file = (artifact.file.clone()).unwrap_or_else(|| entry.item.default_file());
    let new = entry.temporary(&file)?;
    let mut command = job.sources.tool("gcc");
    command
        .current_dir(&fetched.folder)
        // Neither the place of the module nor the moment of the build may show in the program.
        .arg(format!("-ffile-prefix-map={}=.", fetched.folder.display()))
        .args(&build.flags)
        .arg("-o")
        .arg(&new)
        .arg(&build.file);
    process::run("gcc", &mut command, job.attendant, &mut |_| Worth::Telling)
        .map_err(|source| BuildError::tool(format!("compiling {}", build.file), source))?;
    let mut draft = Draft::new(entry.item.clone(), file, Origin::Build);
    draft.modules = vec![fetched.module];
    Ok(entry.hash_and_keep(&new, draft, job.attendant)?)
}
