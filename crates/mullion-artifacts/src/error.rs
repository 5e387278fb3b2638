//! Why something could not be supplied, and what a person can do about it.

use std::io;
use std::path::PathBuf;

use mullion_plan::{ErrorClass, MAKE_ROOM, StepError, is_disk_full};
use mullion_wire::{Sha256Digest, error_chain};

use crate::build::BuildError;
use crate::bundle::BundleError;
use crate::fetch::FetchError;
use crate::item::Item;
use crate::process::ToolError;
use crate::store::StoreError;

/// Why a part, a root file system or a layer could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupplyError {
    /// The catalog's list has no such part.
    #[error("{item} is not among the artifacts of this cluster")]
    Unknown {
        /// What was asked for.
        item: Box<Item>,
    },
    /// Neither the cache nor the bundle has it, and nothing else may be asked.
    #[error("{item} is neither in the cache nor in a bundle, and nothing outside may be asked")]
    Offline {
        /// What was asked for.
        item: Box<Item>,
    },
    /// No source has it.
    #[error("{item} could not be had anywhere")]
    Nowhere {
        /// What was asked for.
        item: Box<Item>,
        /// What every source answered, in the order they were asked.
        tried: Vec<Tried>,
    },
    /// A source has something else for a version than what is known of it.
    #[error("{item} from {from} has the SHA-256 {found}, but by {by} it has {known}")]
    NewDigest {
        /// What was asked for.
        item: Box<Item>,
        /// Who has it.
        from: Box<str>,
        /// The digest of what they have.
        found: Sha256Digest,
        /// The digest that is known.
        known: Sha256Digest,
        /// Who says so.
        by: Box<str>,
        /// The file in which the known digest stands.
        file: Option<PathBuf>,
    },
    /// What is known of digests could not be read or written.
    #[error("the digests of what was fetched before cannot be used")]
    Ledger {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The user's list of digests could not be read.
    #[error("the list of digests {} cannot be read", file.display())]
    Digests {
        /// The list.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What a source gave is not what it should be.
    #[error("{item} could not be fetched")]
    Fetch {
        /// What was asked for.
        item: Box<Item>,
        /// Why.
        #[source]
        source: FetchError,
    },
    /// It could not be built.
    #[error("{item} could not be built")]
    Build {
        /// What was asked for.
        item: Box<Item>,
        /// Why.
        #[source]
        source: Box<BuildError>,
        /// What the sources before it answered.
        tried: Vec<Tried>,
    },
    /// An archive does not hold it.
    #[error("{archive} holds no file `{file}` for {item}")]
    NotInArchive {
        /// What was asked for.
        item: Box<Item>,
        /// The archive.
        archive: String,
        /// The name that was looked for.
        file: String,
    },
    /// The bundle could not be used.
    #[error("{item} could not be taken from the bundle")]
    Bundle {
        /// What was asked for.
        item: Box<Item>,
        /// Why.
        #[source]
        source: BundleError,
    },
    /// The cache could not be used.
    #[error(transparent)]
    Store(StoreError),
    /// The work was called off.
    #[error("called off")]
    CalledOff,
}

/// One source that was asked in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Which: `mirror`, `upstream`, `registry`, `archive`.
    pub source: &'static str,
    /// What it answered, with the causes.
    pub words: String,
    /// Whether it may answer better in a while.
    pub may_change: bool,
}

impl Tried {
    pub(crate) fn new(source: &'static str, error: &FetchError) -> Self {
        Self {
            source,
            words: error_chain(error).join(": "),
            may_change: error.is_transient(),
        }
    }
}

impl SupplyError {
    pub(crate) fn build(item: &Item, source: BuildError) -> Self {
        match source {
            error if error.is_called_off() => Self::CalledOff,
            BuildError::Store(error) => Self::Store(error),
            source => Self::Build {
                item: Box::new(item.clone()),
                source: Box::new(source),
                tried: Vec::new(),
            },
        }
    }

    pub(crate) fn fetch(item: &Item, source: FetchError) -> Self {
        match source {
            FetchError::CalledOff => Self::CalledOff,
            source => Self::Fetch {
                item: Box::new(item.clone()),
                source,
            },
        }
    }

    /// What kind of failure it is; decides whether it is tried again.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::CalledOff | Self::Store(StoreError::CalledOff) => ErrorClass::Interrupted,
            Self::Nowhere { tried, .. } if tried.iter().any(|one| one.may_change) => {
                ErrorClass::Unreachable
            }
            Self::Fetch { source, .. } if source.is_transient() => ErrorClass::Unreachable,
            _ => ErrorClass::Refused,
        }
    }

    /// The last lines of the tool that failed.
    pub fn tail(&self) -> &[String] {
        match self {
            Self::Build { source, .. } => source.tail(),
            _ => &[],
        }
    }

    /// What a person can do about it.
    pub fn hints(&self) -> Vec<String> {
        let bundle = "on a computer with a way out run `mullion artifacts bundle`, carry the file here and take it in with \
                      `mullion artifacts import`";
        match self {
            _ if is_disk_full(self, self.tail().iter().map(String::as_str)) => {
                vec![MAKE_ROOM.into()]
            }
            Self::Offline { .. } => vec![bundle.into(), "or set `artifacts.offline: false`".into()],
            Self::Nowhere { .. } => vec![
                "see whether the addresses above can be reached from here, through `proxy` where there is one".into(),
                format!("or {bundle}"),
            ],
            Self::Fetch {
                source: FetchError::Digest { .. },
                ..
            } => vec!["what was served is not what is pinned: do not use it; look at the mirror or the proxy".into()],
            Self::Fetch {
                source: FetchError::Trust { .. },
                ..
            } => vec!["`trust` wants files with certificates in PEM form".into()],
            Self::Build { source, .. } => source.hints(),
            Self::Bundle { source, .. } => source.hints(),
            Self::NewDigest { file, .. } => {
                let mut hints = vec![
                    "a version has one digest: do not use what was served before you know why it has another".to_owned(),
                ];
                hints.extend(file.as_ref().map(|file| {
                    format!(
                        "if the new one is right, remove `{}` and run it again",
                        file.display()
                    )
                }));
                hints
            }
            Self::Ledger { .. } => vec![
                "use the mullion that wrote the file; or remove it, and what is fetched next counts as the first".into(),
            ],
            Self::Store(error) => error.hints(),
            _ => Vec::new(),
        }
    }

    /// The same as a failed step.
    pub fn to_step_error(&self) -> StepError {
        let mut error = StepError::new(self.class(), self.to_string());
        if let Some(source) = std::error::Error::source(self) {
            error = error.because(source);
        }
        if let Self::Nowhere { tried, .. } | Self::Build { tried, .. } = self {
            let tried = tried.iter();
            error
                .causes
                .extend(tried.map(|one| format!("{}: {}", one.source, one.words)));
        }
        for hint in self.hints() {
            error = error.hint(hint);
        }
        error.tail(self.tail().iter().cloned())
    }
}

impl BuildError {
    /// What a person can do about it.
    pub fn hints(&self) -> Vec<String> {
        match self {
            _ if is_disk_full(self, self.tail().iter().map(String::as_str)) => {
                vec![MAKE_ROOM.into()]
            }
            Self::Tool {
                source: ToolError::Start { tool, .. },
                ..
            } => {
                let package = match tool.as_str() {
                    "gcc" => "gcc and libc6-dev",
                    "mmdebstrap" => "mmdebstrap",
                    _ => return Vec::new(),
                };
                vec![format!("install {package}, or run `mullion doctor --fix`")]
            }
            Self::Tool {
                source:
                    ToolError::Failed {
                        starved: Some(_), ..
                    },
                ..
            } => vec![LESS.into()],
            Self::Module { .. } => vec![PROXY.into()],
            Self::Toolchain { newest, .. } => vec![
                PROXY.into(),
                format!("or install Go {newest} from https://go.dev/dl/ and put it in PATH"),
            ],
            Self::Sum { .. } => {
                vec!["what the module proxy serves is not what is pinned: do not use it; look at GOPROXY".into()]
            }
            Self::ToolchainChanged { folder } => vec![format!(
                "find out who changed it, then remove `{}`: it is fetched again",
                folder.display()
            )],
            Self::Store(error) => error.hints(),
            Self::CertificatePath { .. } => {
                vec!["keep the cache in a folder whose path has no such character".into()]
            }
            Self::Keys { package, .. } => vec![format!("install {package}")],
            Self::Patch(misfit) => vec![
                format!("the patch is there because: {}", misfit.reason),
                format!(
                    "it was tried with {}: take one of these versions",
                    misfit.tried.join(", ")
                ),
            ],
            Self::GoTooOld { .. } => vec!["name a newer Go".into()],
            _ => Vec::new(),
        }
    }
}

/// What helps where memory ran out on this computer.
const LESS: &str = "let this computer have more memory for it: end what else runs on it, fewer or smaller machines \
                    among that, then run it again: it goes on where it was";

/// What helps when the module proxy gives nothing.
const PROXY: &str = "see whether the module proxy can be reached from here: the one that GOPROXY names, or \
                     proxy.golang.org, through `proxy` where there is one";

impl From<StoreError> for SupplyError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::CalledOff => Self::CalledOff,
            error => Self::Store(error),
        }
    }
}
