//! One change that an apply makes: as words for people, and as the thing that is changed.

use mullion_wire::{DifferenceKind, Protocol, Sha256Digest};

/// What an apply does with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceChange {
    Defined,
    Removed,
    Enabled,
    Disabled,
    Started,
    Restarted,
    Stopped,
}

impl ServiceChange {
    /// The change in one word.
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Self::Defined => "defined",
            Self::Removed => "removed",
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Started => "started",
            Self::Restarted => "restarted",
            Self::Stopped => "stopped",
        }
    }
}

/// Which thing of the machine is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    File(String),
    Folder(String),
    Package(String),
    KernelModule(String),
    /// A setting, and the value that it gets.
    KernelSetting(String, String),
    Firewall(String),
    Service(String, ServiceChange),
    Feature(String),
    /// A value's key and its name.
    RegistryValue(String, String),
    PathFolder(String),
    Authority(Sha256Digest),
    Permissions(String),
    HostName(String),
    TimeZone(String),
    /// The ports' protocol, and the first of them.
    DynamicPorts(Protocol, u16),
    Network(String),
}

impl Change {
    /// The change in words, as an apply reports it.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::File(path) | Self::Folder(path) => path.clone(),
            Self::Package(name) => format!("package {name}"),
            Self::KernelModule(name) => format!("module {name}"),
            Self::KernelSetting(name, value) => format!("{name} = {value}"),
            Self::Firewall(group) => format!("firewall group {group}"),
            Self::Service(name, change) => format!("service {name} {}", change.verb()),
            Self::Feature(name) => format!("feature {name}"),
            Self::RegistryValue(key, name) => format!("registry value {key}\\{name}"),
            Self::PathFolder(folder) => format!("folder {folder} of the Path"),
            // Its file may be gone by the time that it is taken out.
            Self::Authority(sha256) => format!("trusted authority with sha256 {sha256}"),
            Self::Permissions(path) => format!("permissions of {path}"),
            Self::HostName(name) => format!("host name {name}"),
            Self::TimeZone(name) => format!("time zone {name}"),
            Self::DynamicPorts(protocol, first) => {
                let protocol = protocol_word(*protocol);
                format!("dynamic {protocol} ports from {first}")
            }
            Self::Network(name) => format!("network {name}"),
        }
    }

    /// What kind of thing it is.
    pub(crate) const fn kind(&self) -> DifferenceKind {
        match self {
            Self::File(_) => DifferenceKind::File,
            Self::Folder(_) => DifferenceKind::Folder,
            Self::Package(_) => DifferenceKind::Package,
            Self::KernelModule(_) => DifferenceKind::KernelModule,
            Self::KernelSetting(..) => DifferenceKind::KernelSetting,
            Self::Firewall(_) => DifferenceKind::Firewall,
            Self::Service(..) => DifferenceKind::Service,
            Self::Feature(_) => DifferenceKind::Feature,
            Self::RegistryValue(..) => DifferenceKind::RegistryValue,
            Self::PathFolder(_) => DifferenceKind::PathFolder,
            Self::Authority(_) => DifferenceKind::Authority,
            Self::Permissions(_) => DifferenceKind::Permissions,
            Self::HostName(_) => DifferenceKind::HostName,
            Self::TimeZone(_) => DifferenceKind::TimeZone,
            Self::DynamicPorts(..) => DifferenceKind::DynamicPorts,
            Self::Network(_) => DifferenceKind::Network,
        }
    }

    /// The thing's name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(name)
            | Self::Folder(name)
            | Self::Package(name)
            | Self::KernelModule(name)
            | Self::KernelSetting(name, _)
            | Self::Firewall(name)
            | Self::Service(name, _)
            | Self::Feature(name)
            | Self::PathFolder(name)
            | Self::Permissions(name)
            | Self::HostName(name)
            | Self::TimeZone(name)
            | Self::Network(name) => name.clone(),
            Self::RegistryValue(key, name) => format!("{key}\\{name}"),
            Self::Authority(sha256) => sha256.to_string(),
            Self::DynamicPorts(protocol, _) => protocol_word(*protocol).to_owned(),
        }
    }
}

/// A protocol as people write it.
pub(crate) const fn protocol_word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    }
}
