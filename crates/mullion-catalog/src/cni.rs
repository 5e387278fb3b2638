//! Network plugins: versions, how each carries packets, and what Windows can use of it.

use std::collections::BTreeMap;

use mullion_spec::words::{Backend, Cni, Os, WindowsVersion};
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::number::Number;

/// `cni.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CniFile {
    pub(crate) cni: BTreeMap<Cni, CniRelease>,
    pub(crate) plugins: CniPlugins,
    pub(crate) policy: PolicyAgent,
}

/// The release of a network plugin that we install.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CniRelease {
    /// Its version.
    pub version: Number,
    /// Why that one.
    pub version_reason: String,
    /// Whether this release of Mullion can install it.
    pub available: bool,
    /// The version of the operator that installs it, where there is one.
    pub operator: Option<Number>,
    /// How `NetworkPolicy` is enforced with it, in words.
    pub policy: String,
    /// The systems on which it is enforced.
    pub policy_on: Vec<Os>,
    /// Whether Windows nodes run kube-proxy beside it.
    pub kube_proxy: bool,
    /// The oldest containerd that its Windows parts run on, where it asks for one.
    pub windows_minimum_containerd: Option<Number>,
    /// The Windows releases that it lists or, where it lists none, those that it does not refuse.
    #[serde(default)]
    pub windows: Vec<CniWindows>,
    /// What is known of Windows releases that it does not list.
    pub unlisted_windows: Option<String>,
    /// How it can carry packets; empty where it has a way of its own and takes no choice.
    #[serde(default)]
    pub backend: Vec<CniBackend>,
    /// What must hold whatever the backend.
    #[serde(default)]
    pub precondition: Vec<Precondition>,
    /// Where this was read.
    pub source: String,
}

/// A Windows release that a network plugin lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CniWindows {
    /// The release.
    pub release: WindowsVersion,
    /// The oldest revision it lists.
    pub minimum_revision: Option<u32>,
    /// Where this was read.
    pub source: String,
}

/// One way of a network plugin to carry packets between machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CniBackend {
    /// The way.
    pub backend: Backend,
    /// Whether a cluster with Windows nodes can use it.
    pub on_windows: bool,
    /// Why not.
    pub refusal: Option<String>,
    /// The kind of HNS network it makes on Windows.
    pub network: Option<HnsNetwork>,
    /// The name of that network, which kube-proxy must be told exactly.
    pub hns_network: Option<String>,
    /// The overlay that is made before the plugin makes its own.
    pub beforehand: Option<Beforehand>,
    /// What must hold with Windows nodes.
    pub needs: Vec<String>,
    /// Settings that must be off with Windows nodes.
    pub never: Vec<String>,
    /// Where this was read.
    pub source: String,
}

/// An overlay that no pod is in: making the first one cuts connections off, so it is made beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beforehand {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub subnet: String,
    /// The way out of it.
    pub gateway: String,
    /// Its network identifier.
    pub vsid: u32,
    /// Where this was read.
    pub source: String,
}

/// A kind of Windows host network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HnsNetwork {
    /// Packets travel inside others: kube-proxy needs a source address of its own.
    Overlay,
    /// Packets travel as they are.
    L2bridge,
}

/// What must hold before a network plugin can be installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precondition {
    /// The condition, in words.
    pub what: String,
    /// Where this was read.
    pub source: String,
}

/// The reference plugins that stand beside every network plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CniPlugins {
    /// Their version.
    pub version: Number,
    /// Those we lay down on Linux.
    pub linux: Vec<String>,
    /// Those that exist for Windows.
    pub windows: Vec<String>,
    /// Where this was read.
    pub source: String,
}

/// What enforces `NetworkPolicy` beside a network plugin that does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyAgent {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Number,
    /// The programs it calls.
    pub needs: Vec<String>,
    /// The flags that make it a policy agent and nothing else.
    pub flags: Vec<String>,
    /// Where this was read.
    pub source: String,
}

impl CniRelease {
    /// What is known of one of its ways to carry packets; none where it does not have that way.
    pub fn backend(&self, backend: Backend) -> Option<&CniBackend> {
        self.backend.iter().find(|known| known.backend == backend)
    }

    /// What it says of a Windows release; none where it does not list it.
    pub fn windows(&self, release: WindowsVersion) -> Option<&CniWindows> {
        self.windows.iter().find(|listed| listed.release == release)
    }
}

impl Catalog {
    /// The release of a network plugin that we install; none for [`Cni::None`].
    pub fn cni(&self, cni: Cni) -> Option<&CniRelease> {
        self.cni.cni.get(&cni)
    }

    /// The reference plugins.
    pub fn cni_plugins(&self) -> &CniPlugins {
        &self.cni.plugins
    }

    /// What enforces `NetworkPolicy` where the network plugin does not.
    pub fn policy_agent(&self) -> &PolicyAgent {
        &self.cni.policy
    }
}

#[cfg(test)]
mod tests {
    use mullion_spec::words::Word;

    use super::*;

    #[test]
    fn every_network_plugin_of_the_file_is_known() {
        for cni in Cni::ALL {
            assert_eq!(
                Catalog::builtin().cni(*cni).is_some(),
                *cni != Cni::None,
                "{cni}"
            );
        }
    }

    #[test]
    fn windows_takes_vxlan_and_no_ipip() {
        let backend = |cni, backend| {
            Catalog::builtin()
                .cni(cni)
                .and_then(|found| found.backend(backend))
        };
        let vxlan = backend(Cni::Flannel, Backend::Vxlan).unwrap();
        assert!(vxlan.on_windows);
        assert!(!backend(Cni::Calico, Backend::Ipip).unwrap().on_windows);
        assert!(backend(Cni::Flannel, Backend::Bgp).is_none());
    }
}
