//! One run of a cluster at a time.
//!
//! The lock is the kernel's, on a file in the state folder: it ends with the process that holds it, however that
//! ends. What stands in the file only tells who it is.

use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err::os::unix::fs::OpenOptionsExt as _;
use jiff::Timestamp;
use mullion_spec::value::ClusterName;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::private::private_folder;

/// The folder of locks in a state folder.
const LOCKS: &str = "locks";

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// What was typed.
    pub command: String,
    /// The process.
    pub pid: u32,
    /// The computer.
    pub host: String,
    /// Since when.
    pub since: Timestamp,
}

impl Holder {
    /// This process.
    pub fn this_process(command: &str, now: Timestamp) -> Self {
        Self {
            command: command.into(),
            pid: std::process::id(),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            since: now,
        }
    }
}

/// Why a lock is not ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another run of the cluster holds it.
    #[error("another run of cluster `{cluster}` goes on{}", by(holder.as_ref()))]
    Held {
        /// The cluster.
        cluster: ClusterName,
        /// Who, where that could be read.
        holder: Option<Holder>,
    },
    /// The file cannot be used.
    #[error("the lock `{}` cannot be taken", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

fn by(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| {
        let Holder {
            command,
            pid,
            host,
            since,
        } = holder;
        format!(": `{command}` (process {pid} on {host}, since {since:.0})")
    })
}

/// The right to run a cluster's plan, as long as it lives.
#[derive(Debug)]
pub struct Lock {
    file: fs_err::File,
}

impl Lock {
    /// Takes the lock of a cluster, or says who has it. Does not wait.
    pub fn take(state: &Path, cluster: &ClusterName, holder: &Holder) -> Result<Self, LockError> {
        let folder = state.join(LOCKS);
        let path = folder.join(format!("{cluster}.lock"));
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        private_folder(&folder).map_err(failed)?;
        // The file is never removed: who removed it would take it from under somebody who has just opened it.
        let mut file = fs_err::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::Held {
                    cluster: cluster.clone(),
                    holder: who(&mut file),
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        sign(&mut file, holder).map_err(failed)?;
        Ok(Self { file })
    }

    /// Who holds the lock of a cluster now; `None` where nobody does.
    pub fn holder(state: &Path, cluster: &ClusterName) -> Option<Holder> {
        let path = state.join(LOCKS).join(format!("{cluster}.lock"));
        let mut file = fs_err::File::open(path).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => who(&mut file),
            _ => None,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file gives the lock back; an old name in it would only puzzle.
        let _ = self.file.set_len(0);
    }
}

fn sign(file: &mut fs_err::File, holder: &Holder) -> io::Result<()> {
    let text = serde_json::to_string(holder)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

/// Reads who holds a lock. The holder signs just after taking it, so the first look may come too early.
fn who(file: &mut fs_err::File) -> Option<Holder> {
    for _ in 0..5 {
        let mut text = String::new();
        file.rewind().ok()?;
        file.read_to_string(&mut text).ok()?;
        if let Ok(holder) = serde_json::from_str(&text) {
            return Some(holder);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn holder() -> Holder {
        Holder {
            command: "mullion up".into(),
            pid: 4711,
            host: "laptop".into(),
            since: "2026-01-07T08:57:30.5Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_second_run_of_a_cluster_is_told_who_holds_the_lock() {
        let state = tempfile::tempdir().unwrap();
        let cluster: ClusterName = "demo".parse().unwrap();
        let lock = Lock::take(state.path(), &cluster, &holder()).unwrap();
        let error = Lock::take(state.path(), &cluster, &holder()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "another run of cluster `demo` goes on: `mullion up` (process 4711 on laptop, since 2026-01-07T08:57:30Z)"
        );
        assert_eq!(Lock::holder(state.path(), &cluster), Some(holder()));
        let other = "other".parse().unwrap();
        Lock::take(state.path(), &other, &holder()).unwrap();
        drop(lock);
        assert_eq!(Lock::holder(state.path(), &cluster), None);
        Lock::take(state.path(), &cluster, &holder()).unwrap();
    }

    #[test]
    fn nobody_else_can_read_who_runs_what() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("state");
        let cluster: ClusterName = "demo".parse().unwrap();
        let _lock = Lock::take(&state, &cluster, &holder()).unwrap();
        let mode = |path: &Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state.join("locks")), 0o700);
        assert_eq!(mode(&state.join("locks/demo.lock")), 0o600);
    }

    #[test]
    fn a_lock_that_was_not_signed_yet_is_held_by_somebody() {
        let state = tempfile::tempdir().unwrap();
        let cluster: ClusterName = "demo".parse().unwrap();
        let lock = Lock::take(state.path(), &cluster, &holder()).unwrap();
        lock.file.set_len(0).unwrap();
        let error = Lock::take(state.path(), &cluster, &holder()).unwrap_err();
        assert_eq!(error.to_string(), "another run of cluster `demo` goes on");
    }
}
