//! What is kept of a cluster between runs, in the user's own state folder.
//!
//! Everything here can be lost: machines are found by their labels, and a new login key is brought to them. What is
//! secret is readable by its owner alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use mullion_plan::{ClusterUid, NoUid};
use mullion_rights::{read_record, replace_private};
use mullion_spec::cluster::{Cluster, Login};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::Os;
use mullion_ssh::Key;
use mullion_wire::Secret;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The folder of one cluster.
#[derive(Debug, Clone)]
pub struct ClusterState {
    folder: PathBuf,
    /// Outside of the folder: they outlive the cluster.
    snapshots: PathBuf,
}

/// A key for logging in to machines that we make.
#[derive(Debug, Clone)]
pub struct LoginKey {
    /// The private key.
    pub private: Key,
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
    /// What it runs; earlier versions did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<Os>,
}

impl Taken {
    /// What it runs; where nobody wrote it down, as the user of its login says.
    pub fn os(&self) -> Os {
        self.os.unwrap_or(if self.login.user == "Administrator" {
            Os::Windows
        } else {
            Os::Linux
        })
    }
}

/// The form of the files that say a version: [`ClusterState::keep_versioned`] writes it.
const VERSION: u32 = 1;

/// The content of a file, beside the version of its form.
#[derive(Debug, Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    content: T,
}

/// The suites that passed since the last change.
#[derive(Debug, Serialize, Deserialize)]
struct Proofs {
    passed: BTreeSet<String>,
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
const FILE_FOLDER: &str = "cluster.file-folder";
const REAL_FILE_FOLDER: &str = "cluster.real-file-folder";
const TAKEN: &str = "taken.json";
const PROOFS: &str = "proofs.json";
const ID: &str = "id";
const SNAPSHOTS: &str = "snapshots";
const BEFORE: &str = "-before-";
const DATABASE: &str = ".db";
const CLUSTERS: &str = "clusters";

impl ClusterState {
    /// The folder of a cluster. Looking creates nothing: the first file that is kept creates the folder.
    pub fn of(state: &Path, cluster: &ClusterName) -> Self {
        Self {
            folder: state.join(CLUSTERS).join(cluster.as_str()),
            snapshots: state.join(SNAPSHOTS).join(cluster.as_str()),
        }
    }

    /// The folder of a cluster, where something of its name is there; what is no folder is refused when it is read.
    pub fn find(state: &Path, cluster: &ClusterName) -> Option<Self> {
        let found = Self::of(state, cluster);
        match fs_err::symlink_metadata(&found.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            _ => Some(found),
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

    /// The login key, where there is one.
    pub fn find_login_key(&self) -> Result<Option<LoginKey>, StateError> {
        if self.read(PRIVATE_KEY)?.is_none() {
            return Ok(None);
        }
        Ok(self.read(PUBLIC_KEY)?.map(|line| LoginKey {
            private: Key::File(self.folder.join(PRIVATE_KEY)),
            public: line.trim().to_owned(),
        }))
    }

    /// The login key, made where there is none.
    pub fn login_key(&self) -> Result<LoginKey, StateError> {
        if let Some(key) = self.find_login_key()? {
            return Ok(key);
        }
        let private = self.folder.join(PRIVATE_KEY);
        let public = self.folder.join(PUBLIC_KEY);
        let pair = mullion_ssh::generate_key().map_err(StateError::Key)?;
        write_text(&private, pair.private.reveal())?;
        // Last: a private key without its public one is made anew.
        write_text(&public, &format!("{}\n", pair.public))?;
        Ok(LoginKey {
            private: Key::File(private),
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
        Ok(write_text(&self.kubeconfig_path(), text.reveal())?)
    }

    /// Keeps the host keys of a machine and of those on the way to it, as a file of OpenSSH's, and gives its path.
    pub fn keep_known_hosts(
        &self,
        machine: &MachineName,
        text: &str,
    ) -> Result<PathBuf, StateError> {
        let path = self.folder.join(format!("known_hosts.{machine}"));
        write_text(&path, text)?;
        Ok(path)
    }

    /// The cluster file of the last run, for commands that only name the cluster.
    pub fn file(&self) -> Result<Option<String>, StateError> {
        self.read(FILE)
    }

    /// Keeps the cluster file, the folder that its paths begin in, the folder that it was in, and the folder of the file
    /// that it led to.
    pub fn keep_file(
        &self,
        text: &str,
        paths: &Path,
        (folder, real_folder): (&Path, &Path),
    ) -> Result<(), StateError> {
        for (name, folder) in [
            (PATHS, paths),
            (FILE_FOLDER, folder),
            (REAL_FILE_FOLDER, real_folder),
        ] {
            write_text(&self.folder.join(name), &folder.to_string_lossy())?;
        }
        Ok(write_text(&self.folder.join(FILE), text)?)
    }

    /// The folder that the paths of the kept file begin in.
    pub fn paths(&self) -> Result<Option<PathBuf>, StateError> {
        Ok(self.read(PATHS)?.map(PathBuf::from))
    }

    /// The folder that the kept file was in. Older versions did not write it down: then it is the one that its paths begin
    /// in.
    pub fn file_folder(&self) -> Result<Option<PathBuf>, StateError> {
        match self.read(FILE_FOLDER)? {
            Some(folder) => Ok(Some(folder.into())),
            None => self.paths(),
        }
    }

    /// The folder of the file that the kept file led to. Older versions did not keep it: then it is the one that the kept
    /// file was in.
    pub fn real_file_folder(&self) -> Result<Option<PathBuf>, StateError> {
        match self.read(REAL_FILE_FOLDER)? {
            Some(folder) => Ok(Some(folder.into())),
            None => self.file_folder(),
        }
    }

    /// The user's machines on which something of ours may lie, whatever the file says now.
    pub fn taken(&self) -> Result<BTreeMap<MachineName, Taken>, StateError> {
        // A machine of this name would have an object.
        let taken = self.read_json(TAKEN, |version| !version.is_object())?;
        Ok(taken.unwrap_or_default())
    }

    /// Those of them that the file no longer has: only they are logged in to as an earlier file said.
    pub fn left(&self, cluster: &Cluster) -> Result<BTreeMap<MachineName, Taken>, StateError> {
        let mut taken = self.taken()?;
        for machine in cluster.machines() {
            taken.remove(&machine.name);
        }
        Ok(taken)
    }

    /// Keeps which machines were taken.
    pub fn keep_taken(&self, taken: &BTreeMap<MachineName, Taken>) -> Result<(), StateError> {
        self.keep_json(TAKEN, taken)
    }

    /// The suites that passed since the last change from here; none where no change from here was written down.
    pub fn proofs(&self) -> Result<Option<BTreeSet<String>>, StateError> {
        let proofs = self.read_versioned(PROOFS)?;
        Ok(proofs.map(|proofs: Proofs| proofs.passed))
    }

    /// Keeps which suites passed since the last change.
    pub fn keep_proofs(&self, passed: &BTreeSet<String>) -> Result<(), StateError> {
        let passed = passed.clone();
        self.keep_versioned(PROOFS, Proofs { passed })
    }

    /// Keeps a snapshot of etcd under that name, which is there whole or not at all. `write` fails where the snapshot is
    /// not whole.
    pub fn keep_snapshot(
        &self,
        name: &str,
        write: impl FnOnce(&mut (dyn Write + Send)) -> std::io::Result<()>,
    ) -> Result<PathBuf, StateError> {
        let path = self.snapshots.join(name);
        Ok(replace_private(&path, |file| write(file)).map(|()| path)?)
    }

    /// The snapshots of etcd that are kept, the oldest first.
    pub fn snapshots(&self) -> Result<Vec<PathBuf>, StateError> {
        let entries = match fs_err::read_dir(&self.snapshots) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let is_ours = name.to_str().is_some_and(is_snapshot);
            if is_ours && entry.file_type()?.is_file() {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    }

    /// Removes those snapshots of etcd, and their folder where nothing else is in it.
    pub fn remove_snapshots(&self, paths: &[PathBuf]) -> Result<(), StateError> {
        for path in paths {
            fs_err::remove_file(path)?;
        }
        match fs_err::remove_dir(&self.snapshots) {
            Err(error)
                if !matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Err(error.into())
            }
            _ => Ok(()),
        }
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
        Ok(write_text(&self.id_path(), &format!("{id}\n"))?)
    }

    /// The text of a file; nothing where it is not there.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, StateError> {
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

    /// The content of a file of JSON; nothing where it is not there. `is_newer` judges the version that it says.
    fn read_json<T: DeserializeOwned>(
        &self,
        name: &str,
        is_newer: impl FnOnce(&Value) -> bool,
    ) -> Result<Option<T>, StateError> {
        let Some(text) = self.read(name)? else {
            return Ok(None);
        };
        let path = self.folder.join(name);
        let damaged = |error: serde_json::Error| StateError::Damaged {
            path: path.clone(),
            source: error.into(),
        };
        let value: Value = serde_json::from_str(&text).map_err(damaged)?;
        if let Some(version) = value.get("version").filter(|version| is_newer(version)) {
            return Err(StateError::Newer {
                path,
                version: version.to_string(),
            });
        }
        serde_json::from_value(value).map(Some).map_err(damaged)
    }

    fn keep_json(&self, name: &str, content: &impl Serialize) -> Result<(), StateError> {
        let text = serde_json::to_string(content).map_err(std::io::Error::from)?;
        Ok(write_text(&self.folder.join(name), &text)?)
    }

    /// The content of a file that says its version; nothing where it is not there.
    pub(super) fn read_versioned<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, StateError> {
        let read = self.read_json(name, |version| *version != VERSION)?;
        Ok(read.map(|read: Versioned<T>| read.content))
    }

    /// Keeps something beside the version of its form.
    pub(super) fn keep_versioned(
        &self,
        name: &str,
        content: impl Serialize,
    ) -> Result<(), StateError> {
        let version = VERSION;
        self.keep_json(name, &Versioned { version, content })
    }

    /// Whether everything that is kept can be read.
    pub fn check(&self) -> Result<(), StateError> {
        self.file()?;
        self.paths()?;
        self.file_folder()?;
        self.real_file_folder()?;
        self.kubeconfig()?;
        self.taken()?;
        self.proofs()?;
        self.networks()?;
        self.addresses()?;
        self.grounds()?;
        self.id()?;
        Ok(())
    }

    /// Removes the folder with everything in it. Snapshots of etcd stay.
    pub fn remove(self) -> Result<(), StateError> {
        match fs_err::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// What a snapshot is called that is saved before a machine is emptied.
pub(super) fn snapshot_name(time: &str, machine: &MachineName) -> String {
    format!("{time}{BEFORE}{machine}{DATABASE}")
}

fn is_snapshot(name: &str) -> bool {
    name.ends_with(DATABASE) && name.contains(BEFORE)
}

/// Writes a text that its owner alone can read, whole or not at all.
fn write_text(path: &Path, text: &str) -> std::io::Result<()> {
    replace_private(path, |out| out.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests;
