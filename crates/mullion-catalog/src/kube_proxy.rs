//! kube-proxy: what it is told on Windows, per Kubernetes minor.

use mullion_spec::version::Minor;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::cni::HnsNetwork;

/// `kube_proxy.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KubeProxyFile {
    pub(crate) windows_flag: Vec<KubeProxyFlag>,
    pub(crate) minor: Vec<KubeProxyWay>,
}

/// A flag of a Windows kube-proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubeProxyFlag {
    /// The flag, with its value where that is always the same.
    pub flag: String,
    /// In which networks it is needed.
    pub when: FlagWhen,
    /// Where this was read.
    pub source: String,
}

/// In which networks a flag is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlagWhen {
    /// In every one.
    Always,
    /// In an overlay.
    Overlay,
    /// In a bridge.
    L2bridge,
}

/// How kube-proxy runs on Windows with a Kubernetes minor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubeProxyWay {
    /// The Kubernetes minor.
    pub minor: Minor,
    /// Feature gates to pass, such as `WinDSR=true`; a locked gate is not among them.
    pub windows_gates: Vec<String>,
    /// Why these.
    pub reason: String,
    /// Where this was read.
    pub source: String,
}

impl FlagWhen {
    /// The word that lists show.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Overlay => "in an overlay",
            Self::L2bridge => "in a bridge",
        }
    }
}

impl Catalog {
    /// How kube-proxy runs on Windows with a Kubernetes minor.
    pub fn kube_proxy(&self, minor: Minor) -> Option<&KubeProxyWay> {
        self.kube_proxy.minor.iter().find(|way| way.minor == minor)
    }

    /// The flags of a Windows kube-proxy in a kind of network.
    pub fn kube_proxy_flags(&self, network: HnsNetwork) -> impl Iterator<Item = &KubeProxyFlag> {
        let flags = self.kube_proxy.windows_flag.iter();
        flags.filter(move |flag| match flag.when {
            FlagWhen::Always => true,
            FlagWhen::Overlay => network == HnsNetwork::Overlay,
            FlagWhen::L2bridge => network == HnsNetwork::L2bridge,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_for_direct_server_return_is_passed_only_where_it_is_off() {
        let gates = |minor| {
            &Catalog::builtin()
                .kube_proxy(Minor::one(minor))
                .unwrap()
                .windows_gates
        };
        assert_eq!(gates(32).as_slice(), ["WinDSR=true"]);
        assert!(gates(33).is_empty() && gates(36).is_empty());
    }

    #[test]
    fn only_an_overlay_needs_a_source_address() {
        let has = |network| {
            Catalog::builtin()
                .kube_proxy_flags(network)
                .any(|flag| flag.flag == "--source-vip")
        };
        assert!(has(HnsNetwork::Overlay));
        assert!(!has(HnsNetwork::L2bridge));
    }
}
