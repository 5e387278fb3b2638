//! One run of a cluster at a time.
//!
//! The lock is the kernel's, on a file: it ends with the process that holds it, however that ends. What stands in the
//! file only tells who it is. There are two: one in the user's state folder, for every run, and one in the folder where
//! machines of this computer are, for runs that change those: other users have other state folders.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err::os::unix::fs::OpenOptionsExt as _;
use jiff::Timestamp;
use mullion_rights::{as_root, open_record, private_folder};
use mullion_spec::value::ClusterName;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// The folder of locks in a state folder, and in the one of machines.
const LOCKS: &str = "locks";
/// How often a lock is tried, and how long between: whoever only asks for its holder has it for a moment.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

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
    path: PathBuf,
    after: After,
}

/// What becomes of a lock's file after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// It stays, empty.
    Stays,
    /// It goes: of a cluster that is gone, nothing is left on this computer.
    Goes,
}

impl Lock {
    /// Takes the lock of a cluster in a state folder, or says who has it. Does not wait.
    pub fn take(state: &Path, cluster: &ClusterName, holder: &Holder) -> Result<Self, LockError> {
        Self::open(state, cluster, holder, After::Stays)
    }

    /// Takes the lock of a cluster in the folder of machines, whoever's state folder it is known in. Needs root.
    pub fn take_here(
        place: &Path,
        cluster: &ClusterName,
        holder: &Holder,
    ) -> Result<Self, LockError> {
        let _rights = as_root();
        // Others may look into this one.
        fs_err::create_dir_all(place).map_err(|source| LockError::File {
            path: place.into(),
            source,
        })?;
        Self::open(place, cluster, holder, After::Goes)
    }

    fn open(
        folder: &Path,
        cluster: &ClusterName,
        holder: &Holder,
        after: After,
    ) -> Result<Self, LockError> {
        let path = file_of(folder, cluster);
        let failed = |source| LockError::File {
            path: path.clone(),
            source,
        };
        for rest in (0..TRIES).rev() {
            let mut file = match open(&path) {
                // Whoever had it removed the folder meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && rest > 0 => continue,
                opened => opened.map_err(failed)?,
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_at(&file, &path) => {
                    // It is held all the same: on a full disk `down` makes room.
                    let _ = sign(&mut file, holder);
                    return Ok(Self { file, path, after });
                }
                // Whoever had it removed the file meanwhile: this lock is on one that nobody else sees.
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if rest > 0 => std::thread::sleep(PAUSE),
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(LockError::Held {
                        cluster: cluster.clone(),
                        holder: who(&mut file),
                    });
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
        Err(LockError::Held {
            cluster: cluster.clone(),
            holder: None,
        })
    }

    /// Who holds the lock of a cluster in a folder now; `None` where nobody does.
    pub fn holder(folder: &Path, cluster: &ClusterName) -> Option<Holder> {
        let mut file = open_record(&file_of(folder, cluster)).ok()??;
        is_held(&file).then(|| who(&mut file)).flatten()
    }

    /// The clusters whose lock in a folder somebody holds now.
    pub fn held(folder: &Path) -> BTreeSet<ClusterName> {
        let _rights = as_root();
        let entries = fs_err::read_dir(folder.join(LOCKS)).into_iter().flatten();
        let clusters = entries.filter_map(|entry| {
            let path = entry.ok()?.path();
            let cluster = path.file_stem()?.to_str()?.parse().ok()?;
            is_held(&open_record(&path).ok()??).then_some(cluster)
        });
        clusters.collect()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file gives the lock back; an old name in it would only puzzle.
        let _ = self.file.set_len(0);
        if self.after == After::Goes {
            // The folder of machines is root's.
            let _rights = as_root();
            // While it is held: whoever waits for this file looks again. One that cannot be removed does no harm, and
            // a folder with other locks in it stays.
            let _ = fs_err::remove_file(&self.path);
            if let Some(folder) = self.path.parent() {
                let _ = fs_err::remove_dir(folder);
            }
        }
    }
}

fn file_of(folder: &Path, cluster: &ClusterName) -> PathBuf {
    folder.join(LOCKS).join(format!("{cluster}.lock"))
}

fn open(path: &Path) -> io::Result<fs_err::File> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    fs_err::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Whether an open file is still the one at that path.
fn is_at(file: &fs_err::File, path: &Path) -> bool {
    let there = fs_err::metadata(path);
    there.is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino()))
}

fn is_held(file: &fs_err::File) -> bool {
    let taken = flock(file, FlockOperation::NonBlockingLockShared);
    matches!(taken, Err(rustix::io::Errno::WOULDBLOCK))
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

    #[test]
    fn whoever_only_asks_for_the_holder_is_in_nobodys_way() {
        let state = tempfile::tempdir().unwrap();
        let cluster: ClusterName = "demo".parse().unwrap();
        drop(Lock::take(state.path(), &cluster, &holder()).unwrap());
        // As `holder` does, and longer.
        let asking = fs_err::File::open(file_of(state.path(), &cluster)).unwrap();
        flock(&asking, FlockOperation::NonBlockingLockShared).unwrap();
        let asker = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            drop(asking);
        });
        Lock::take(state.path(), &cluster, &holder()).unwrap();
        asker.join().unwrap();
    }

    #[test]
    fn the_lock_beside_the_machines_is_one_for_all_users_and_leaves_nothing() {
        let computer = tempfile::tempdir().unwrap();
        let place = computer.path().join("mullion");
        let cluster: ClusterName = "demo".parse().unwrap();
        let lock = Lock::take_here(&place, &cluster, &holder()).unwrap();
        assert!(matches!(
            Lock::take_here(&place, &cluster, &holder()),
            Err(LockError::Held {
                holder: Some(_),
                ..
            })
        ));
        assert_eq!(Lock::held(&place), [cluster.clone()].into());
        let other = Lock::take_here(&place, &"other".parse().unwrap(), &holder()).unwrap();
        drop(lock);
        assert_eq!(Lock::holder(&place, &cluster), None);
        // A file that a killed run left is no lock.
        fs_err::write(file_of(&place, &cluster), "").unwrap();
        let again = Lock::take_here(&place, &cluster, &holder()).unwrap();
        drop((again, other));
        assert_eq!(fs_err::read_dir(&place).unwrap().count(), 0);
    }
}
