//! What is kept of a cluster between runs, in the user's own state folder.
//!
//! Everything here can be lost: machines are found by their labels, and a new login key is brought to them. What is
//! secret is readable by its owner alone.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use mullion_machines::read_record;
use mullion_plan::{ClusterUid, NoUid};
use mullion_spec::cluster::Login;
use mullion_spec::value::{ClusterName, MachineName};
use mullion_wire::Secret;
use serde::{Deserialize, Serialize};

/// The folder of one cluster.
#[derive(Debug, Clone)]
pub struct ClusterState {
    folder: PathBuf,
}

/// A key for logging in to machines that we make.
#[derive(Debug, Clone)]
pub struct LoginKey {
    /// The private key, in OpenSSH's form.
    pub private: PathBuf,
    /// The public key, one line.
    pub public: String,
}

/// A machine of the user's that we use, and how it is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Its address.
    pub address: String,
    /// How to log in.
    pub login: Login,
}

/// Why something could not be kept or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A file or folder.
    #[error("the state folder of the cluster cannot be used")]
    Files(#[from] std::io::Error),
    /// A file is there and does not hold what it should.
    #[error("`{}` is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        source: std::io::Error,
    },
    /// A newer version of this program wrote a file.
    #[error("a newer version of Mullion wrote `{}`: its version is `{version}`", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// A key could not be made.
    #[error("no login key could be made")]
    Key(#[source] mullion_ssh::TransportError),
}

const PRIVATE_KEY: &str = "id_ed25519";
const PUBLIC_KEY: &str = "id_ed25519.pub";
const KUBECONFIG: &str = "kubeconfig";
const FILE: &str = "cluster.yaml";
const PATHS: &str = "cluster.folder";
const TAKEN: &str = "taken.json";
const ID: &str = "id";
const CLUSTERS: &str = "clusters";

impl ClusterState {
    /// The folder of a cluster, made where there is none.
    pub fn open(state: &Path, cluster: &ClusterName) -> Result<Self, StateError> {
        let folder = state.join(CLUSTERS).join(cluster.as_str());
        let mut builder = std::fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| {
                let words = format!("cannot make the folder `{}`: {error}", folder.display());
                std::io::Error::new(error.kind(), words)
            })?;
        Ok(Self { folder })
    }

    /// The folder of a cluster, where something of its name is there; what is no folder is refused when it is read.
    pub fn find(state: &Path, cluster: &ClusterName) -> Option<Self> {
        let folder = state.join(CLUSTERS).join(cluster.as_str());
        match fs_err::symlink_metadata(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            _ => Some(Self { folder }),
        }
    }

    /// Every cluster that left something.
    pub fn all(state: &Path) -> Vec<ClusterName> {
        let Ok(entries) = fs_err::read_dir(state.join(CLUSTERS)) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The login key, made where there is none.
    pub fn login_key(&self) -> Result<LoginKey, StateError> {
        let private = self.folder.join(PRIVATE_KEY);
        let public = self.folder.join(PUBLIC_KEY);
        if self.read(PRIVATE_KEY)?.is_some()
            && let Some(line) = self.read(PUBLIC_KEY)?
        {
            let public = line.trim().to_owned();
            return Ok(LoginKey { private, public });
        }
        let pair = mullion_ssh::generate_key().map_err(StateError::Key)?;
        write_private(&private, pair.private.reveal())?;
        // Last: a private key without its public one is made anew.
        write_private(&public, &format!("{}\n", pair.public))?;
        Ok(LoginKey {
            private,
            public: pair.public,
        })
    }

    /// The admin's kubeconfig, where one was kept.
    pub fn kubeconfig(&self) -> Result<Option<Secret>, StateError> {
        Ok(self.read(KUBECONFIG)?.map(Secret::new))
    }

    /// Where the admin's kubeconfig is kept.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.folder.join(KUBECONFIG)
    }

    /// Keeps the admin's kubeconfig.
    pub fn keep_kubeconfig(&self, text: &Secret) -> Result<(), StateError> {
        Ok(write_private(&self.kubeconfig_path(), text.reveal())?)
    }

    /// The cluster file of the last run, for commands that only name the cluster.
    pub fn file(&self) -> Result<Option<String>, StateError> {
        self.read(FILE)
    }

    /// Keeps the cluster file, and the folder that its paths begin in.
    pub fn keep_file(&self, text: &str, paths: &Path) -> Result<(), StateError> {
        write_private(&self.folder.join(PATHS), &paths.to_string_lossy())?;
        Ok(write_private(&self.folder.join(FILE), text)?)
    }

    /// The folder that the paths of the kept file begin in.
    pub fn paths(&self) -> Result<Option<PathBuf>, StateError> {
        Ok(self.read(PATHS)?.map(PathBuf::from))
    }

    /// The user's machines on which something of ours may lie, whatever the file says now.
    pub fn taken(&self) -> Result<BTreeMap<MachineName, Taken>, StateError> {
        let Some(text) = self.read(TAKEN)? else {
            return Ok(BTreeMap::new());
        };
        let path = self.folder.join(TAKEN);
        let damaged = |error: serde_json::Error| StateError::Damaged {
            path: path.clone(),
            source: error.into(),
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(damaged)?;
        // A machine of this name would have an object.
        if let Some(version) = value.get("version").filter(|version| !version.is_object()) {
            return Err(StateError::Newer {
                path,
                version: version.to_string(),
            });
        }
        serde_json::from_value(value).map_err(damaged)
    }

    /// Keeps which machines were taken.
    pub fn keep_taken(&self, taken: &BTreeMap<MachineName, Taken>) -> Result<(), StateError> {
        let text = serde_json::to_string(taken).map_err(std::io::Error::from)?;
        Ok(write_private(&self.folder.join(TAKEN), &text)?)
    }

    /// The cluster's id, where it has one.
    pub fn id(&self) -> Result<Option<ClusterUid>, StateError> {
        let Some(text) = self.read(ID)? else {
            return Ok(None);
        };
        let id = text.trim().parse();
        let id = id.map_err(|error: NoUid| StateError::Damaged {
            path: self.id_path(),
            source: std::io::Error::new(ErrorKind::InvalidData, error),
        });
        id.map(Some)
    }

    /// Where the cluster's id is kept.
    pub fn id_path(&self) -> PathBuf {
        self.folder.join(ID)
    }

    /// Keeps the cluster's id.
    pub fn keep_id(&self, id: &ClusterUid) -> Result<(), StateError> {
        Ok(write_private(&self.id_path(), &format!("{id}\n"))?)
    }

    /// The text of a file; nothing where it is not there.
    fn read(&self, name: &str) -> Result<Option<String>, StateError> {
        let path = self.folder.join(name);
        let Some(bytes) = read_record(&path)? else {
            // A folder that is a link to nowhere is there, and may hold all of it again tomorrow.
            return match fs_err::metadata(&self.folder) {
                Err(error) if self.folder.is_symlink() => Err(error.into()),
                _ => Ok(None),
            };
        };
        let text = String::from_utf8(bytes).map_err(|error| StateError::Damaged {
            path,
            source: std::io::Error::new(ErrorKind::InvalidData, error),
        })?;
        Ok(Some(text))
    }

    /// Removes the folder with everything in it.
    pub fn remove(self) -> Result<(), StateError> {
        match fs_err::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Writes a file that its owner alone can read, whole or not at all.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    // A file that is left from a process of the same number would keep its mode.
    let _ = fs_err::remove_file(&beside);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs_err::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secrets_are_readable_by_their_owner_alone_and_survive() {
        let folder = tempfile::tempdir().unwrap();
        let name: ClusterName = "demo".parse().unwrap();
        assert!(ClusterState::find(folder.path(), &name).is_none());
        let state = ClusterState::open(folder.path(), &name).unwrap();
        let key = state.login_key().unwrap();
        assert_eq!(state.login_key().unwrap().public, key.public);
        state.keep_kubeconfig(&Secret::new("a: b")).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&key.private), 0o600);
        assert_eq!(mode(&state.kubeconfig_path()), 0o600);
        assert_eq!(mode(state.folder()), 0o700);
        assert_eq!(
            ClusterState::all(folder.path()),
            std::slice::from_ref(&name)
        );
        assert_eq!(state.kubeconfig().unwrap().unwrap().reveal(), "a: b");
        assert_eq!(
            (state.file().unwrap(), state.paths().unwrap()),
            (None, None)
        );
        state
            .keep_file("machines: {}", Path::new("/srv/lab"))
            .unwrap();
        assert_eq!(state.file().unwrap().unwrap(), "machines: {}");
        assert_eq!(state.paths().unwrap().unwrap(), Path::new("/srv/lab"));
        state.remove().unwrap();
        assert!(ClusterState::find(folder.path(), &name).is_none());
    }

    #[test]
    fn promise_06_state_that_cannot_be_read_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let name: ClusterName = "demo".parse().unwrap();
        let state = ClusterState::open(folder.path(), &name).unwrap();
        let all = |state: &ClusterState| {
            [
                (TAKEN, state.taken().map(|_| ())),
                (ID, state.id().map(|_| ())),
                (FILE, state.file().map(|_| ())),
                (PATHS, state.paths().map(|_| ())),
                (KUBECONFIG, state.kubeconfig().map(|_| ())),
                (PRIVATE_KEY, state.login_key().map(|_| ())),
            ]
        };
        let told = |error: StateError| {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(ToString::to_string).unwrap_or_default();
            format!("{error}: {cause}")
        };
        for make in ["mkdir", "mkfifo", "ln -s nowhere"] {
            for name in [TAKEN, ID, FILE, PATHS, KUBECONFIG, PRIVATE_KEY] {
                let path = state.folder().join(name);
                let line = format!("{make} '{}'", path.display());
                let made = std::process::Command::new("sh")
                    .args(["-c", &line])
                    .status();
                assert!(made.unwrap().success());
            }
            for (name, result) in all(&state) {
                let error = told(result.unwrap_err());
                assert!(error.contains(name), "{make} {name}: {error}");
            }
            for name in [TAKEN, ID, FILE, PATHS, KUBECONFIG, PRIVATE_KEY] {
                let path = state.folder().join(name);
                let _ = fs_err::remove_file(&path).or_else(|_| fs_err::remove_dir(&path));
            }
        }
        for text in ["", "{\"a\":", "[]", "{\"lin1\":{}}"] {
            fs_err::write(state.folder().join(TAKEN), text).unwrap();
            let error = told(state.taken().unwrap_err());
            assert!(error.contains(TAKEN), "{text}: {error}");
        }
        let newer = r#"{"version":2,"machines":[]}"#;
        fs_err::write(state.folder().join(TAKEN), newer).unwrap();
        assert!(matches!(state.taken(), Err(StateError::Newer { .. })));
        fs_err::write(state.folder().join(ID), "not an id").unwrap();
        assert!(matches!(state.id(), Err(StateError::Damaged { .. })));
        // A folder that is no folder.
        fs_err::remove_dir_all(state.folder()).unwrap();
        fs_err::os::unix::fs::symlink("nowhere", state.folder()).unwrap();
        let found = ClusterState::find(folder.path(), &name).unwrap();
        for (_, result) in all(&found).into_iter().take(5) {
            assert!(told(result.unwrap_err()).contains("demo"));
        }
        assert!(ClusterState::open(folder.path(), &name).is_err());
    }

    #[test]
    fn promise_09_the_id_of_a_cluster_is_kept_with_its_state() {
        let folder = tempfile::tempdir().unwrap();
        let name: ClusterName = "demo".parse().unwrap();
        let state = ClusterState::open(folder.path(), &name).unwrap();
        assert_eq!(state.id().unwrap(), None);
        let id = ClusterUid::of(0xfeed);
        state.keep_id(&id).unwrap();
        assert_eq!(state.id().unwrap(), Some(id));
    }
}
