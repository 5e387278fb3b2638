//! What only a Windows machine's blueprint holds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::blueprint::Protocol;

/// What only Windows has. Everything may be left out, and what is left out is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Windows {
    /// Optional features that are enabled, by DISM's names: `Containers`, `Microsoft-Hyper-V`. They stay after a revert.
    pub features: BTreeSet<String>,
    /// Values of the registry.
    pub registry: Vec<RegistryValue>,
    /// Variables of the machine's environment.
    pub environment: BTreeMap<String, String>,
    /// Folders that the machine's `Path` has, after what it has already.
    pub path: Vec<String>,
    /// Files of the blueprint with certificates of authorities that the whole machine trusts: they are in its store of
    /// root authorities.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub authorities: BTreeSet<String>,
    /// Files, not the blueprint's own, that only the system and administrators may open, where they are there.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub private_files: BTreeSet<String>,
    /// What Defender does not look into.
    pub exclusions: Exclusions,
    /// The host name; another one holds from the next start on.
    pub host_name: Option<String>,
    /// The time zone, by Windows' own name: `UTC`, `W. Europe Standard Time`.
    pub time_zone: Option<String>,
    /// The page file, in place of those that there are; another one holds from the next start on.
    pub page_file: Option<PageFile>,
    /// The ports that connections to elsewhere come from.
    pub dynamic_ports: Vec<DynamicPorts>,
    /// The network of HNS that is made before the pod network comes.
    pub network: Option<OverlayNetwork>,
}

/// A value of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryValue {
    /// Its key, with the short name of its hive: `HKLM\SYSTEM\CurrentControlSet\Services\hns\State`.
    pub key: String,
    /// Its name; empty for the key's own value.
    pub name: String,
    /// What it holds.
    pub data: RegistryData,
    /// Whether it is read at the start of the machine only: another one holds from the next start on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
}

/// What a value of the registry holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegistryData {
    /// A number (`REG_DWORD`).
    Dword(u32),
    /// Text (`REG_SZ`).
    String(String),
    /// Text with variables in it: `%SystemRoot%` (`REG_EXPAND_SZ`).
    Expandable(String),
    /// Texts, none of them empty (`REG_MULTI_SZ`).
    MultiString(Vec<String>),
}

/// How the service control manager is told of a service: on Windows no file does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Its name for people.
    pub display_name: String,
    /// The whole command line: a program whose path has blanks stands in quotes. A program that logs to nowhere is
    /// started through `kube-log-runner` here.
    pub command: String,
    /// Services, ours or Windows' own, that Windows starts before it.
    #[serde(default)]
    pub depends_on: BTreeSet<String>,
    /// When it is started, where it is to run at all: [`crate::ServiceState::Stopped`] is on demand, whatever is here.
    #[serde(default)]
    pub start: Start,
    /// What happens when it ends by itself.
    #[serde(default)]
    pub recovery: Recovery,
    /// Variables that it alone gets.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// When Windows starts a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// With the machine.
    #[default]
    Automatic,
    /// With the machine, a while after the others.
    Delayed,
    /// When somebody asks for it.
    OnDemand,
    /// Never: a service is found so, and no blueprint asks for it.
    Disabled,
}

impl Start {
    /// Whether it is started with the machine.
    pub const fn is_automatic(self) -> bool {
        matches!(self, Self::Automatic | Self::Delayed)
    }
}

/// What happens when a service ends by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recovery {
    /// It is started again after so many milliseconds: the first time, the second, …; the last holds for all that
    /// follow. Nothing is done where there are none.
    pub restart_after_ms: Vec<u32>,
    /// After so many seconds without a failure they count as none.
    pub reset_after_s: u32,
}

/// What Defender does not look into.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Exclusions {
    /// Folders and files.
    pub paths: BTreeSet<String>,
    /// Programs: what they open is not looked into.
    pub processes: BTreeSet<String>,
}

/// A page file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageFile {
    /// Where: `C:\pagefile.sys`.
    pub path: String,
    /// Its size at the start, in MiB; 0 for both leaves it to Windows.
    pub first_mib: u32,
    /// The most that it grows to, in MiB.
    pub most_mib: u32,
}

/// The ports that connections to elsewhere come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicPorts {
    /// Over what.
    pub protocol: Protocol,
    /// The first.
    pub first: u16,
    /// How many.
    pub count: u16,
}

/// A network of HNS of the type `Overlay`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverlayNetwork {
    /// Its name.
    pub name: String,
    /// Its addresses: `10.244.3.0/24`.
    pub subnet: String,
    /// The way out of it: `10.244.3.1`.
    pub gateway: String,
    /// What tells it from others on the wire (VNI, which HNS calls VSID): from 4096 on.
    pub vsid: u32,
    /// The UDP port of its packets: 4789, Windows takes no other where kube-proxy is to work.
    pub port: u16,
    /// The adapter that its packets go through.
    pub adapter: AdapterChoice,
}

/// Which adapter is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdapterChoice {
    /// The one of this name: `Ethernet`.
    Name(String),
    /// The one that has this address.
    Address(String),
    /// The one that leads out: with a gateway, the cheapest of them.
    Outward,
}
