//! The cluster that the file describes, checked.
//!
//! Everything here has passed the rules of this crate: names fit, networks do not overlap, a group's
//! machines can be named. Outside this crate the structs can be read but not built, so whoever holds
//! one holds a checked value.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};

use crate::networks::Settled;
use crate::raw::RawWindows;
use crate::value::{
    Address, ByteSize, ClusterName, Endpoint, GroupName, HostName, Jump, MachineName, Secret,
    SecretRef, Taint,
};
use crate::version::VersionWish;
use crate::words::{
    Admission, Backend, BuildPolicy, Cni, Driver, Edition, MachineAccess, Os, WindowsVersion,
};

/// A whole cluster, as wanted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Cluster {
    /// Labels everything that is made.
    pub name: ClusterName,
    /// The Kubernetes to install.
    pub kubernetes: Kubernetes,
    /// Who runs the API server.
    pub control_plane: ControlPlane,
    /// Networks of machines, pods and services.
    pub network: Network,
    /// The groups of machines, a load balancer's among them where one is needed.
    pub groups: Vec<Group>,
    /// Computers that carry machines, besides this one.
    pub hosts: Vec<Host>,
    /// Whether a `RuntimeClass` is made for each Windows build.
    pub runtime_classes: bool,
    /// The way out through a proxy.
    pub proxy: Proxy,
    /// Extra CA certificates.
    pub trust: Vec<PathBuf>,
    /// Where programs and images come from.
    pub artifacts: Artifacts,
    /// Container images that the nodes have from the start.
    pub images: Vec<Image>,
    /// The key for logging in to machines that are made.
    pub ssh_key: Secret,
    /// Add-ons by name.
    pub addons: Vec<String>,
    /// What admission policies do.
    pub policies: Admission,
    /// Suites that a run ends with.
    pub verify: Vec<String>,
}

/// The Kubernetes to install.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Kubernetes {
    /// As the file asks for it.
    #[serde(serialize_with = "as_text")]
    pub version: VersionWish,
    /// Feature gates for every component.
    pub feature_gates: BTreeMap<String, bool>,
    /// Files for kubeadm's `--patches`.
    pub patches: Vec<PathBuf>,
    /// Whether combinations that upstream calls unsupported are only warned about.
    pub allow_unsupported: bool,
}

/// Who runs the API server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ControlPlane {
    /// Machines of this cluster.
    Made {
        /// Where clients reach it, when the user keeps a load balancer or a name for it.
        endpoint: Option<Endpoint>,
    },
    /// A cluster that exists already and only gets workers.
    Existing {
        /// Its kubeconfig.
        kubeconfig: PathBuf,
        /// The context in it; the current one when none is named.
        context: Option<String>,
    },
}

/// Networks of machines, pods and services.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Network {
    /// The network plugin.
    pub cni: Cni,
    /// How it carries packets.
    pub backend: Backend,
    /// The VXLAN network identifier.
    pub vni: u32,
    /// The VXLAN port.
    pub port: u16,
    /// The pods' MTU; found from the machines' network when none is given.
    pub mtu: Option<u16>,
    /// Addresses of pods.
    pub pods: Ipv4Net,
    /// The prefix length of one node's share of them.
    pub pods_per_node: u8,
    /// Addresses of services.
    pub services: Ipv4Net,
    /// Addresses of machines that are made; always there where any is made.
    pub machines: Option<Ipv4Net>,
    /// From where those machines can be reached.
    pub machine_access: MachineAccess,
    /// The cluster's DNS domain.
    pub domain: String,
    /// DNS servers for names outside; the computer's own when empty.
    pub upstream_dns: Vec<IpAddr>,
    /// Whether `NetworkPolicy` is enforced.
    pub policy: bool,
}

/// What a machine of a group does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duty {
    /// Stands before several control planes; never a node.
    LoadBalancer,
    /// Runs the API server, etcd and the controllers.
    ControlPlane,
    /// Runs workloads.
    Worker,
}

/// Machines that are alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The first part of its machines' names.
    pub name: GroupName,
    /// What its machines do.
    pub duty: Duty,
    /// Their operating system.
    pub system: System,
    /// The numbers of its machines, ascending.
    pub numbers: Vec<u32>,
    /// What carries them.
    pub carrier: Carrier,
    /// The node's address where a machine has several.
    pub node_ip: Option<NodeIp>,
    /// Node labels.
    pub labels: BTreeMap<String, String>,
    /// Node taints, the Windows one included.
    pub taints: Vec<Taint>,
    /// Whether ordinary pods may be scheduled there.
    pub schedulable: bool,
    /// Commands before Kubernetes is laid down.
    pub before: Vec<Command>,
    /// Commands after the node is ready.
    pub after: Vec<Command>,
    /// Files laid down beside our own.
    pub files: Vec<FileCopy>,
}

/// An operating system with what only it has.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum System {
    /// Debian or Ubuntu.
    Linux {
        /// The release as written: `12`, `24.04`.
        release: String,
    },
    /// Windows Server.
    Windows(Windows),
}

impl System {
    /// Which of the two it is.
    pub const fn os(&self) -> Os {
        match self {
            Self::Linux { .. } => Os::Linux,
            Self::Windows(_) => Os::Windows,
        }
    }
}

/// Windows Server of some release and edition.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Windows {
    /// The release.
    pub version: WindowsVersion,
    /// The edition.
    pub edition: Edition,
    /// With the desktop, instead of Server Core.
    pub desktop: bool,
    /// How it is set up.
    pub settings: WindowsSettings,
}

/// How a Windows machine is set up.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WindowsSettings {
    /// The time zone, by Windows' or the IANA name.
    pub timezone: String,
    /// The locale.
    pub locale: String,
    /// The licence.
    pub licence: Licence,
    /// The administrator's password.
    pub administrator_password: Secret,
    /// Updates to install, by KB number.
    pub updates: Vec<String>,
    /// The page file's size.
    pub page_file: ByteSize,
    /// Whether Defender leaves our programs alone.
    pub defender_exclusions: bool,
    /// Whether Hyper-V is enabled.
    pub hyperv: bool,
    /// Whether remote desktop is switched on.
    pub rdp: bool,
    /// `timezone`, `pageFile` and `rdp`, where the file itself has them: a default changes no machine that exists. Left out of
    /// what is serialized, so that a machine's fingerprint does not depend on whether a default is written.
    #[serde(skip)]
    pub written: BTreeSet<&'static str>,
}

impl Default for WindowsSettings {
    /// What a file has that says nothing of them.
    fn default() -> Self {
        let raw = RawWindows::default();
        Self {
            timezone: "UTC".into(),
            locale: "en-US".into(),
            licence: Licence::Evaluation,
            administrator_password: Secret::Generated,
            updates: raw.updates,
            page_file: ByteSize::gib(4),
            defender_exclusions: raw.defender_exclusions,
            hyperv: raw.hyperv,
            rdp: false,
            written: BTreeSet::new(),
        }
    }
}

impl WindowsSettings {
    /// Every setting by its name in the file, and whether it has another value than its default.
    pub fn chosen(&self) -> [(&'static str, bool); 9] {
        let usual = Self::default();
        [
            ("timezone", self.timezone != usual.timezone),
            ("locale", self.locale != usual.locale),
            ("licence", self.licence != usual.licence),
            (
                "administratorPassword",
                self.administrator_password != usual.administrator_password,
            ),
            ("updates", self.updates != usual.updates),
            ("pageFile", self.page_file != usual.page_file),
            (
                "defenderExclusions",
                self.defender_exclusions != usual.defender_exclusions,
            ),
            ("hyperv", self.hyperv != usual.hyperv),
            ("rdp", self.rdp != usual.rdp),
        ]
    }
}

/// How Windows is licensed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Licence {
    /// Evaluation: it ends.
    Evaluation,
    /// A product key, by reference.
    Key(SecretRef),
}

/// What carries a group's machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Carrier {
    /// We make them.
    Made {
        /// By this driver.
        driver: Driver,
        /// On this host; this computer when none is named.
        host: Option<HostName>,
        /// This large.
        size: Size,
        /// From this.
        origin: Origin,
        /// Whether they start when the computer that carries them starts.
        autostart: bool,
    },
    /// They exist already.
    Existing {
        /// The driver that reaches them.
        driver: Driver,
        /// One address a machine, in the order of the group's numbers.
        addresses: Vec<Address>,
        /// How to log in.
        login: Login,
    },
}

impl Carrier {
    /// The driver, whichever way.
    pub const fn driver(&self) -> Driver {
        match self {
            Self::Made { driver, .. } | Self::Existing { driver, .. } => *driver,
        }
    }

    /// Whether the machines are ours to make.
    pub const fn is_made(&self) -> bool {
        matches!(self, Self::Made { .. })
    }
}

/// How large a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Virtual processors.
    pub cpus: u32,
    /// Memory.
    pub memory: ByteSize,
    /// Disk.
    pub disk: ByteSize,
}

/// What a machine that we make is made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// The distribution's packages, or a stand-in that needs no media.
    Packages,
    /// Installation media of the user's.
    Media(Media),
    /// A template that exists already, by name.
    Template(String),
}

/// Installation media.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Media {
    /// What kind of file, and where it is.
    pub place: MediaPlace,
    /// Its digest, when the user pinned it.
    pub sha256: Option<String>,
}

/// Where installation media are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MediaPlace {
    /// An ISO file.
    Iso(PathBuf),
    /// An address to fetch it from.
    Url(String),
    /// A VHDX disk.
    Vhdx(PathBuf),
    /// A qcow2 disk.
    Qcow2(PathBuf),
}

/// How to log in to a computer that exists already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Login {
    /// The user.
    pub user: String,
    /// The private key; the user's SSH agent when none is named.
    pub key: Option<SecretRef>,
    /// The port.
    pub port: u16,
    /// A computer to go through: `user@host:port`.
    pub jump: Option<Jump>,
    /// The host key to expect where none is given for the address.
    pub host_key: Option<String>,
    /// The host keys to expect, by address: of machines, and of the computer to go through.
    pub host_keys: BTreeMap<String, String>,
}

/// Which of a machine's addresses is the node's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeIp {
    /// This one.
    Address(IpAddr),
    /// The one in this network.
    Network(IpNet),
    /// The one on this adapter.
    Adapter(String),
}

/// A command of the user's on a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Command {
    /// The command line.
    pub run: String,
}

/// A file of the user's for a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileCopy {
    /// On the user's computer.
    pub from: PathBuf,
    /// On the machine.
    pub to: String,
    /// Permissions in octal, on Linux.
    pub mode: Option<u32>,
}

/// A computer that carries machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Host {
    /// Its name in the file.
    pub name: HostName,
    /// Where it is.
    pub address: Address,
    /// How to log in.
    pub login: Login,
}

/// The way out through a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Proxy {
    /// For plain HTTP.
    pub http: Option<String>,
    /// For HTTPS.
    pub https: Option<String>,
    /// What goes without it.
    pub no: Vec<String>,
}

/// Where programs and images come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Artifacts {
    /// The cache folder; the user's own when none is named.
    pub cache: Option<PathBuf>,
    /// A bundle to take them from.
    pub bundle: Option<PathBuf>,
    /// A mirror to take them from.
    pub mirror: Option<String>,
    /// A list of digests that the mirror is held to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digests: Option<PathBuf>,
    /// Whether nothing outside may be asked.
    pub offline: bool,
    /// When programs are built from source.
    pub build: BuildPolicy,
}

/// A container image that nodes have from the start.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Image {
    /// Its name, with registry and tag.
    pub reference: String,
    /// An archive to take it from, instead of a registry.
    pub archive: Option<PathBuf>,
    /// For nodes of which system.
    pub os: Os,
}

/// One machine of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine<'a> {
    /// Group and number.
    pub name: MachineName,
    /// Its place in the group, from 0: the index into a list of addresses.
    pub index: usize,
    /// What it shares with its group.
    pub group: &'a Group,
}

impl Machine<'_> {
    /// The address that the user gave, for a machine that exists already.
    pub fn given_address(&self) -> Option<&Address> {
        match &self.group.carrier {
            Carrier::Existing { addresses, .. } => addresses.get(self.index),
            Carrier::Made { .. } => None,
        }
    }
}

impl Group {
    /// Its machines, by ascending number.
    pub fn machines(&self) -> impl Iterator<Item = Machine<'_>> {
        self.numbers
            .iter()
            .enumerate()
            .map(|(index, number)| Machine {
                name: self.name.machine(*number),
                index,
                group: self,
            })
    }
}

impl Cluster {
    /// Every machine, group by group in the order of the file.
    pub fn machines(&self) -> impl Iterator<Item = Machine<'_>> {
        self.groups.iter().flat_map(Group::machines)
    }

    /// The machine of that name, with its group.
    pub fn machine(&self, name: &MachineName) -> Option<Machine<'_>> {
        // By the name's own number: a cluster may have thousands of machines.
        self.groups.iter().find_map(|group| {
            let number = name.as_str().strip_prefix(group.name.as_str())?;
            let number = number.parse().ok()?;
            let index = group.numbers.iter().position(|one| *one == number)?;
            let is_it = group.name.machine(number) == *name;
            is_it.then(|| Machine {
                name: name.clone(),
                index,
                group,
            })
        })
    }

    /// Its networks; that of machines only where any is made.
    pub fn networks(&self) -> Settled {
        let is_made = |group: &Group| group.carrier.is_made() && !group.numbers.is_empty();
        let makes_machines = self.groups.iter().any(is_made);
        Settled {
            machines: self.network.machines.filter(|_| makes_machines),
            pods: Some(self.network.pods),
            services: Some(self.network.services),
        }
    }

    /// The operating systems that its machines have.
    pub fn systems(&self) -> BTreeSet<Os> {
        self.groups
            .iter()
            .filter(|group| !group.numbers.is_empty())
            .map(|group| group.system.os())
            .collect()
    }

    /// The Windows releases that its machines have.
    pub fn windows_versions(&self) -> BTreeSet<WindowsVersion> {
        self.groups
            .iter()
            .filter_map(|group| match &group.system {
                System::Windows(windows) if !group.numbers.is_empty() => Some(windows.version),
                _ => None,
            })
            .collect()
    }
}

fn as_text<T: std::fmt::Display, S: serde::Serializer>(
    value: &T,
    out: S,
) -> Result<S::Ok, S::Error> {
    out.collect_str(value)
}
