//! What was found on this computer. Facts only: nothing here says whether they are good.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mullion_catalog::Family;
use schemars::JsonSchema;
use serde::Serialize;

use crate::surroundings::Route;

/// What was found on this computer, as far as the catalog's requirements ask for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Computer {
    /// The distribution.
    pub system: Distribution,
    /// Who runs this.
    pub user: User,
    /// The name of the first process; none where it is hidden.
    pub first_process: Option<String>,
    /// The kernel.
    pub kernel: Kernel,
    /// The control groups.
    pub cgroups: Cgroups,
    /// The accelerators of virtual machines, by the requirement that asks for them.
    pub accelerators: BTreeMap<String, AcceleratorFound>,
    /// Where programs are, by name.
    pub programs: BTreeMap<String, PathBuf>,
    /// What programs said of their version, by name.
    pub versions: BTreeMap<String, String>,
    /// The versions of packages that could be installed, by name.
    pub candidates: BTreeMap<String, String>,
    /// The paths asked for that exist.
    pub paths: BTreeSet<String>,
    /// The memory; none where the kernel does not tell.
    pub memory: Option<Memory>,
    /// The disks under the folders that we fill.
    pub disks: Vec<Disk>,
    /// Whether the file system under the machines' folder can hold them to the size of their disks.
    pub disk_limits: DiskLimits,
    /// UDP ports that somebody listens on.
    pub udp_ports: BTreeSet<u16>,
    /// Networks that routes lead to, without the default route.
    pub routes: Vec<Route>,
    /// The clock.
    pub clock: Clock,
    /// The installation media that the cluster file names.
    pub media: Vec<Medium>,
    /// The variables asked for that are set. Never their values: these may hold passwords.
    pub variables: BTreeSet<String>,
}

/// The distribution, by its `os-release`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Distribution {
    /// Its name and version, for people.
    pub name: String,
    /// Its family; none where we know no package names for it.
    #[schemars(with = "Option<String>")]
    pub family: Option<Family>,
}

/// Who runs this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The effective user id; 0 is root.
    pub id: u32,
    /// The capabilities in effect, one bit each.
    pub capabilities: u64,
    /// The capabilities that root could have here, one bit each.
    pub bounding: u64,
}

impl User {
    /// Whether this is root.
    pub fn is_root(&self) -> bool {
        self.id == 0
    }
}

/// The kernel, as far as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kernel {
    /// Its release.
    pub release: String,
    /// File systems asked for that it has.
    pub filesystems: BTreeSet<String>,
    /// Modules asked for that are loaded, or built in and visible.
    pub loaded: BTreeSet<String>,
    /// Modules asked for that could be loaded, or are built in; none where the list cannot be read.
    pub loadable: Option<BTreeSet<String>>,
    /// Options asked for that are set; none where the configuration cannot be read.
    pub options: Option<BTreeMap<String, Made>>,
    /// Its namespaces.
    pub namespaces: BTreeSet<String>,
}

/// How a part of the kernel is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// A part of the kernel itself.
    BuiltIn,
    /// A module, which may or may not be installed.
    Module,
}

/// The control groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cgroups {
    /// Which of the two kinds is mounted.
    pub version: CgroupVersion,
    /// The controllers that can be used.
    pub controllers: BTreeSet<String>,
}

/// Which kind of control groups is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupVersion {
    /// None.
    None,
    /// Version 1 alone.
    V1,
    /// Version 1 for the controllers, version 2 beside it.
    Hybrid,
    /// Version 2 alone.
    V2,
}

/// What became of an accelerator of virtual machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "result", content = "detail", rename_all = "kebab-case")]
pub enum AcceleratorFound {
    /// There is no device.
    Absent,
    /// The device cannot be opened.
    Refused(String),
    /// The device opens; without the program nothing more can be said.
    Opened,
    /// A virtual machine could not be run with it.
    Failed(String),
    /// A virtual machine started, and did not finish in this many seconds.
    TooSlow(u64),
    /// A virtual machine ran to its end.
    Proven,
}

/// The memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// All of it, in MiB.
    pub total_mib: u64,
    /// What programs could have now, in MiB.
    pub available_mib: u64,
}

/// A disk under a folder that we fill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// What the folder is for.
    pub holds: Holds,
    /// The folder.
    pub folder: PathBuf,
    /// Free space, in MiB; none where the file system does not tell.
    pub free_mib: Option<u64>,
}

/// Whether a file system can hold machines to the size of their disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiskLimits {
    /// Whether it can.
    pub available: bool,
    /// What was seen.
    pub seen: String,
}

/// What a folder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// Programs, images, templates.
    Cache,
    /// Machines and records of runs.
    State,
}

/// The clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    /// Seconds since 1970, UTC.
    pub unix_seconds: u64,
    /// Whether it follows a time server; none where nobody tells.
    pub synchronised: Option<bool>,
}

/// An installation medium that the cluster file names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Medium {
    /// Where it should be.
    pub path: PathBuf,
    /// Its size in MiB; none where there is no such file.
    pub size_mib: Option<u64>,
}
