//! Where machines are on the disk, and the labels on them.

use std::io::{ErrorKind, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err::File;
use ipnet::Ipv4Net;
use mullion_plan::{Size, TemplateId};
use mullion_spec::value::{ClusterName, MachineName};
use serde::{Deserialize, Serialize};

use crate::error::DriverError;

/// The folder that holds clusters and their machines.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    clusters: PathBuf,
}

/// The folder of one machine.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub(super) folder: PathBuf,
}

/// The form of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LabelVersion {
    #[serde(rename = "mullion.dev/machine/v1")]
    V1,
}

/// What a machine is to whoever logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Guise {
    /// Linux, which it is.
    #[default]
    Linux,
    /// Windows: a stand-in, of which the template makes it one.
    Windows,
}

impl Guise {
    /// Who logs in.
    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Linux => "root",
            Self::Windows => "Administrator",
        }
    }
}

/// What a machine's folder says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Label {
    pub(super) version: LabelVersion,
    pub(super) cluster: ClusterName,
    pub(super) name: MachineName,
    #[serde(default)]
    pub(super) guise: Guise,
    pub(super) template: TemplateId,
    /// The template's folder.
    pub(super) template_path: PathBuf,
    pub(super) address: Ipv4Addr,
    pub(super) network: Ipv4Net,
    pub(super) size: Size,
    /// Whether its making was finished.
    pub(super) whole: bool,
    /// Whether it was ever started.
    pub(super) ran: bool,
    /// Its public host key.
    pub(super) host_key: Option<String>,
}

/// The file that is a machine's label.
const LABEL: &str = "machine.json";

/// What a machine has on the real disk, beside its clone: containerd, kubelet and etcd do not work on an overlay.
pub(super) const ON_DISK: [(&str, &str); 3] = [
    ("containerd", "/var/lib/containerd"),
    ("kubelet", "/var/lib/kubelet"),
    ("etcd", "/var/lib/etcd"),
];

impl Ground {
    pub(super) fn new(place: &Path) -> Self {
        Self {
            clusters: place.join("clusters"),
        }
    }

    /// The folder of a machine, there or not.
    pub(super) fn home(&self, cluster: &ClusterName, machine: &MachineName) -> Home {
        let folder = self.machines(cluster).join(machine.as_str());
        Home { folder }
    }

    fn machines(&self, cluster: &ClusterName) -> PathBuf {
        self.cluster(cluster).join("machines")
    }

    /// The folder of a cluster, there or not.
    pub(super) fn cluster(&self, cluster: &ClusterName) -> PathBuf {
        self.clusters.join(cluster.as_str())
    }

    /// The clusters that have a folder.
    pub(super) fn clusters(&self) -> Result<Vec<ClusterName>, DriverError> {
        let names = names(&self.clusters)?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The machines of a cluster that have a folder.
    pub(super) fn machines_of(
        &self,
        cluster: &ClusterName,
    ) -> Result<Vec<MachineName>, DriverError> {
        let names = names(&self.machines(cluster))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Removes a cluster's folders once nothing is in them.
    pub(super) fn tidy(&self, cluster: &ClusterName) {
        let machines = self.machines(cluster);
        // One that is not empty stays.
        let mut folder = Some(machines.as_path());
        while let Some(path) = folder.filter(|path| path.starts_with(&self.clusters)) {
            if fs_err::remove_dir(path).is_err_and(|error| error.kind() != ErrorKind::NotFound) {
                break;
            }
            folder = path.parent();
        }
    }
}

impl Home {
    /// What the machine changed in its clone of the template.
    pub(super) fn upper(&self) -> PathBuf {
        self.on_disk("upper")
    }

    /// Where the overlay keeps its own files.
    pub(super) fn work(&self) -> PathBuf {
        self.on_disk("work")
    }

    /// Where the clone is mounted, in the machine's own name space.
    pub(super) fn root(&self) -> PathBuf {
        self.on_disk("root")
    }

    /// A folder of the machine's disk.
    pub(super) fn on_disk(&self, name: &str) -> PathBuf {
        self.disk().join(name)
    }

    /// The machine's disk: everything that it writes.
    pub(super) fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// Makes the machine's disk, with nothing of the template yet.
    pub(super) fn make_disk(&self) -> Result<(), DriverError> {
        let disk = self.disk();
        fs_err::create_dir(&disk)?;
        // Programs in it may run as anybody: no other user of this computer gets at them.
        fs_err::set_permissions(&disk, std::fs::Permissions::from_mode(0o700))?;
        for name in ["upper", "work", "root", "kubelet", "etcd"] {
            fs_err::create_dir(self.on_disk(name))?;
        }
        // It is what the machine has as `/`.
        let everybody = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(self.upper(), everybody)?;
        let own = std::fs::Permissions::from_mode(0o700);
        Ok(fs_err::set_permissions(self.on_disk("etcd"), own)?)
    }

    /// What it writes to its console.
    pub(super) fn console(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    /// Whether the folder is there.
    pub(super) fn exists(&self) -> bool {
        self.folder.is_dir()
    }

    /// The machine's label; nothing where there is none that we can read.
    pub(super) fn label(&self) -> Result<Option<Label>, DriverError> {
        match fs_err::read(self.folder.join(LABEL)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts the label on the machine: the old one or the new one is there, never half of one.
    pub(super) fn put_label(&self, label: &Label) -> Result<(), DriverError> {
        let text = serde_json::to_vec_pretty(label).map_err(std::io::Error::from)?;
        let draft = self.folder.join("machine.json.new");
        let mut file = File::create(&draft)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs_err::rename(&draft, self.folder.join(LABEL))?;
        Ok(File::open(&self.folder)?.sync_all()?)
    }

    /// Removes everything, the label last: a removal that is cut off is still found.
    pub(super) fn remove(&self) -> Result<(), DriverError> {
        for name in names(&self.folder)? {
            if name != LABEL {
                remove(&self.folder.join(name))?;
            }
        }
        remove(&self.folder)
    }
}

/// Removes a file or a folder with all that is in it. What is not there is success.
pub(super) fn remove(path: &Path) -> Result<(), DriverError> {
    let removed = match fs_err::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs_err::remove_dir_all(path),
        Ok(_) => fs_err::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The names in a folder; none where it is not there.
fn names(folder: &Path) -> Result<Vec<String>, DriverError> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
