//! Ports that a Windows node opens inwards.

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;

/// `firewall.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FirewallFile {
    pub(crate) port: Vec<OpenPort>,
}

/// A port, or a range of ports, that a Windows node opens inwards on every network profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenPort {
    /// The rule's name.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// The port, or the first and the last with a hyphen between.
    pub ports: String,
    /// The choice that opens it.
    pub when: PortWhen,
    /// Where this was read.
    pub source: String,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The choice that opens a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortWhen {
    /// It is always open.
    Always,
    /// The network plugin carries packets by VXLAN.
    BackendVxlan,
    /// The network plugin announces routes by BGP.
    BackendBgp,
    /// A load balancer asks kube-proxy for its health.
    LoadBalancer,
    /// Remote management is wanted.
    Winrm,
    /// Remote Desktop is wanted.
    Rdp,
    /// The metrics exporter is installed.
    Exporter,
}

impl Protocol {
    /// The word in a rule.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl OpenPort {
    /// The first and the last port; the same number twice for a single one, and none for text that is no port.
    pub fn range(&self) -> Option<(u16, u16)> {
        let (first, last) = self
            .ports
            .split_once('-')
            .unwrap_or((&self.ports, &self.ports));
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

impl Catalog {
    /// The ports that a Windows node opens for a set of choices; those that are always open are among them.
    pub fn open_ports(&self, choices: &[PortWhen]) -> impl Iterator<Item = &OpenPort> {
        let ports = self.firewall.port.iter();
        ports.filter(move |port| port.when == PortWhen::Always || choices.contains(&port.when))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_opens_its_port_and_no_other() {
        let names = |choices: &[PortWhen]| {
            let ports = Catalog::builtin().open_ports(choices);
            ports.map(|port| port.name.clone()).collect::<Vec<_>>()
        };
        let always = names(&[]);
        assert!(always.contains(&"kubelet".into()) && !always.contains(&"rdp".into()));
        assert_eq!(names(&[PortWhen::BackendVxlan]).len(), always.len() + 1);
    }
}
