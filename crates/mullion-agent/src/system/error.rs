//! Why a system did not do what it was asked.

use std::io;
use std::time::Duration;

use super::Ended;

/// Why the system did not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// A file; the cause names it.
    #[error(transparent)]
    File(io::Error),
    /// A program could not be started.
    #[error("`{program}` cannot be started")]
    NotStarted {
        /// Its name.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A program is not on this machine.
    #[error("there is no program `{0}` on this machine")]
    NoProgram(String),
    /// A program took too long.
    #[error("`{program}` was ended: it took longer than {} s", deadline.as_secs())]
    TooLong {
        /// Its name.
        program: String,
        /// What it was given.
        deadline: Duration,
        /// The last lines it wrote.
        tail: Vec<String>,
    },
    /// A program failed.
    #[error("`{program}` {ended}")]
    Failed {
        /// The program and its arguments.
        program: String,
        /// How it ended.
        ended: Ended,
        /// The last lines it wrote.
        tail: Vec<String>,
    },
    /// Somebody else holds the lock.
    #[error("another agent is at work here: {holder}")]
    Busy {
        /// Who, and at what.
        holder: String,
    },
    /// The kernel has no such setting.
    #[error("the kernel has no setting `{0}`")]
    NoSetting(String),
    /// Packages are missing, and the system has no package manager that the agent knows.
    #[error("packages are missing and this system has no `apt-get`: {}", .0.join(", "))]
    NoPackages(Vec<String>),
    /// Something was asked for that only Windows has.
    #[error("this system does not have {0}: only Windows does")]
    OnlyWindows(&'static str),
    /// A call of Windows' failed.
    #[error("`{call}` failed with 0x{code:08x}")]
    Call {
        /// Which, and on what.
        call: String,
        /// What it gave back.
        code: u32,
        /// What Windows says about that.
        #[source]
        source: io::Error,
    },
    /// A library of Windows' is not there, or lacks what is called in it.
    #[error("{what} needs `{library}`{}, which this Windows does not have", entry.as_ref().map(|entry| format!(" with `{entry}`")).unwrap_or_default())]
    NoLibrary {
        /// What it is needed for.
        what: &'static str,
        /// The library.
        library: &'static str,
        /// The function in it, where the library is there.
        entry: Option<String>,
    },
    /// What was found or wanted makes no sense.
    #[error("{0}")]
    Nonsense(String),
}

impl SystemError {
    /// How the program ended that failed.
    pub fn ended(&self) -> Option<Ended> {
        match self {
            Self::Failed { ended, .. } => Some(*ended),
            _ => None,
        }
    }

    /// The last lines of the program that failed.
    pub fn tail(&self) -> &[String] {
        match self {
            Self::TooLong { tail, .. } | Self::Failed { tail, .. } => tail,
            _ => &[],
        }
    }
}
