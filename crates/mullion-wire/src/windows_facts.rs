//! What a Windows machine is and has, beside what every machine tells.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::message::Disk;

/// What only a Windows machine tells. What could not be found out is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowsFacts {
    /// The build: 20348.
    pub build: u32,
    /// The revision of the build, which updates raise: 3807.
    pub revision: u32,
    /// The edition: `ServerDatacenter`.
    pub edition: String,
    /// How much of it is installed: `Server Core`.
    pub installation: String,
    /// The licence.
    pub licence: Option<Licence>,
    /// Optional features that nodes ask for, by DISM's names.
    pub features: BTreeMap<String, Feature>,
    /// Adapters, without loopback.
    pub adapters: Vec<Adapter>,
    /// Memory and page files together, in bytes: what kubelet takes for memory.
    pub commit: Disk,
    /// Page files as they are set: `C:\pagefile.sys 4096 4096`.
    pub page_files: Vec<String>,
    /// The time zone.
    pub time_zone: String,
    /// Updates that are installed, by the names of their packages.
    pub updates: BTreeSet<String>,
    /// Services that nodes depend on: whether they run.
    pub services: BTreeMap<String, bool>,
    /// Networks of HNS.
    pub networks: Vec<HnsNetwork>,
    /// Versions that installed programs say they have.
    pub programs: BTreeMap<String, String>,
}

/// The state of a licence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Licence {
    /// What it is.
    pub state: LicenceState,
    /// Days until it ends; none where it does not.
    pub days_left: Option<u32>,
}

/// What a licence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LicenceState {
    /// There is none.
    Unlicensed,
    /// It holds; an evaluation's does for a time.
    Licensed,
    /// It is wanted and not there yet.
    Grace,
    /// It ran out: Windows complains, and an evaluation turns itself off every hour.
    Notification,
}

/// How an optional feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// It works.
    Enabled,
    /// It works after the next start.
    Pending,
    /// It is off.
    Disabled,
    /// This Windows has none of that name.
    Unknown,
}

/// A network adapter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Adapter {
    /// Its name: `Ethernet`.
    pub name: String,
    /// What it is, for people.
    pub description: String,
    /// Its hardware address: `52-54-00-12-34-56`.
    pub mac: String,
    /// Its addresses with their prefixes: `10.99.0.21/24`.
    pub addresses: Vec<String>,
    /// Its ways out.
    pub gateways: Vec<String>,
    /// Whether it is connected.
    pub is_up: bool,
    /// The cost of its routes: the lowest is taken.
    pub metric: u32,
}

/// A network of HNS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HnsNetwork {
    /// HNS' own name for it, a GUID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its type: `Overlay`, `NAT`.
    pub kind: String,
    /// Its addresses.
    pub subnets: Vec<String>,
}
