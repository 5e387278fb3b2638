//! What is kept of a cluster between runs, in the user's own state folder.
//!
//! Everything here can be lost: machines are found by their labels, and a new login key is brought to them. What is
//! secret is readable by its owner alone.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

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
const CLUSTERS: &str = "clusters";

impl ClusterState {
    /// The folder of a cluster. Looking creates nothing: the first file that is kept creates the folder.
    pub fn of(state: &Path, cluster: &ClusterName) -> Self {
        let folder = state.join(CLUSTERS).join(cluster.as_str());
        Self { folder }
    }

    /// The folder of a cluster, where there is one.
    pub fn find(state: &Path, cluster: &ClusterName) -> Option<Self> {
        let found = Self::of(state, cluster);
        found.folder.is_dir().then_some(found)
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

    /// The login key, where there is one.
    pub fn find_login_key(&self) -> Option<LoginKey> {
        let private = self.folder.join(PRIVATE_KEY);
        let line = fs_err::read_to_string(self.folder.join(PUBLIC_KEY)).ok()?;
        let public = line.trim().to_owned();
        private.is_file().then_some(LoginKey { private, public })
    }

    /// The login key, made where there is none.
    pub fn login_key(&self) -> Result<LoginKey, StateError> {
        if let Some(key) = self.find_login_key() {
            return Ok(key);
        }
        let private = self.folder.join(PRIVATE_KEY);
        let public = self.folder.join(PUBLIC_KEY);
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
        Ok(read(&self.kubeconfig_path())?.map(Secret::new))
    }

    /// Where the admin's kubeconfig is kept.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.folder.join(KUBECONFIG)
    }

    /// Keeps the admin's kubeconfig.
    pub fn keep_kubeconfig(&self, text: &Secret) -> Result<(), StateError> {
        Ok(write_private(&self.kubeconfig_path(), text.reveal())?)
    }

    /// Keeps the host keys of a machine and of those on the way to it, as a file of OpenSSH's, and gives its path.
    pub fn keep_known_hosts(
        &self,
        machine: &MachineName,
        text: &str,
    ) -> Result<PathBuf, StateError> {
        let path = self.folder.join(format!("known_hosts.{machine}"));
        write_private(&path, text)?;
        Ok(path)
    }

    /// The cluster file of the last run, for commands that only name the cluster.
    pub fn file(&self) -> Result<Option<String>, StateError> {
        Ok(read(&self.folder.join(FILE))?)
    }

    /// Keeps the cluster file, and the folder that its paths begin in.
    pub fn keep_file(&self, text: &str, paths: &Path) -> Result<(), StateError> {
        write_private(&self.folder.join(PATHS), &paths.to_string_lossy())?;
        Ok(write_private(&self.folder.join(FILE), text)?)
    }

    /// The folder that the paths of the kept file begin in.
    pub fn paths(&self) -> Result<Option<PathBuf>, StateError> {
        Ok(read(&self.folder.join(PATHS))?.map(PathBuf::from))
    }

    /// The user's machines on which something of ours may lie, whatever the file says now.
    pub fn taken(&self) -> Result<BTreeMap<MachineName, Taken>, StateError> {
        let text = read(&self.folder.join(TAKEN))?.unwrap_or_else(|| "{}".into());
        Ok(serde_json::from_str(&text).map_err(std::io::Error::from)?)
    }

    /// Keeps which machines were taken.
    pub fn keep_taken(&self, taken: &BTreeMap<MachineName, Taken>) -> Result<(), StateError> {
        let text = serde_json::to_string(taken).map_err(std::io::Error::from)?;
        Ok(write_private(&self.folder.join(TAKEN), &text)?)
    }

    /// Removes the folder with everything in it.
    pub fn remove(self) -> Result<(), StateError> {
        match fs_err::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn read(path: &Path) -> std::io::Result<Option<String>> {
    match fs_err::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file that its owner alone can read, whole or not at all.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".new-{}", std::process::id()));
    let beside = PathBuf::from(beside);
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
        let state = ClusterState::of(folder.path(), &name);
        assert!(state.find_login_key().is_none());
        assert_eq!(state.kubeconfig().unwrap().map(|_| ()), None);
        assert!(!state.folder().exists(), "looking creates nothing");
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
        let machine = "cp1".parse().unwrap();
        for text in ["a\n", "b\n"] {
            let path = state.keep_known_hosts(&machine, text).unwrap();
            assert_eq!(fs_err::read_to_string(&path).unwrap(), text);
            assert_eq!(mode(&path), 0o600);
        }
        state.remove().unwrap();
        assert!(ClusterState::find(folder.path(), &name).is_none());
    }
}
