//! The closed sets of words that `cluster.yaml` may use.
//!
//! Each set is one enum, written in the file exactly as [`Word::word`] gives it. The raw types take
//! them as they are, so that the JSON Schema lists the words and a misspelt one gets its neighbour
//! as a suggestion.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value out of a closed set, with the word that stands for it in the file.
pub trait Word: Sized + Copy + 'static {
    /// Every value, in the order they are documented.
    const ALL: &'static [Self];
    /// The word in `cluster.yaml`.
    fn word(self) -> &'static str;
    /// The value that a word stands for.
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.word() == word)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl Word for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];
            fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.word())
            }
        }
    };
}

words! {
    /// What a machine does in the cluster.
    Role {
        /// Runs the API server, etcd and the controllers.
        ControlPlane = "control-plane",
        /// Runs workloads.
        Worker = "worker",
    }
}

words! {
    /// An operating system.
    Os {
        /// Debian or Ubuntu.
        Linux = "linux",
        /// Windows Server.
        Windows = "windows",
    }
}

words! {
    /// What carries machines.
    Driver {
        /// System containers on this computer.
        Nspawn = "nspawn",
        /// A stand-in for Windows on this computer, for rehearsals.
        Wine = "wine",
        /// QEMU machines on this computer.
        Qemu = "qemu",
        /// Machines that exist already.
        Ssh = "ssh",
        /// Machines on libvirt hosts.
        Libvirt = "libvirt",
        /// Machines on Hyper-V hosts.
        Hyperv = "hyperv",
        /// Machines in an existing cluster.
        Kubevirt = "kubevirt",
    }
}

words! {
    /// A network plugin.
    Cni {
        /// Flannel, on both systems.
        Flannel = "flannel",
        /// Calico, by its operator.
        Calico = "calico",
        /// Antrea.
        Antrea = "antrea",
        /// None is installed; nodes stay not ready until you install one.
        None = "none",
    }
}

words! {
    /// How a network plugin carries packets between machines.
    Backend {
        /// VXLAN: an overlay, works across any network.
        Vxlan = "vxlan",
        /// Routes on the machines themselves: one layer-2 segment only (flannel).
        HostGw = "host-gw",
        /// Routes announced by BGP (Calico).
        Bgp = "bgp",
        /// IP in IP (Calico, Linux only).
        Ipip = "ipip",
        /// The eBPF dataplane (Calico, Linux only).
        Ebpf = "ebpf",
    }
}

words! {
    /// From where machines that are made can be reached.
    MachineAccess {
        /// This computer and the cluster's own machines; nothing else opens a connection to them.
        Host = "host",
        /// Also every network that has a route through this computer.
        Lan = "lan",
    }
}

words! {
    /// A Windows Server release.
    WindowsVersion {
        /// Windows Server 2019, build 17763.
        V2019 = "2019",
        /// Windows Server 2022, build 20348.
        V2022 = "2022",
        /// Windows Server 2025, build 26100.
        V2025 = "2025",
    }
}

words! {
    /// A Windows Server edition.
    Edition {
        /// Windows Server Standard.
        Standard = "standard",
        /// Windows Server Datacenter.
        Datacenter = "datacenter",
    }
}

words! {
    /// When programs are built from source.
    BuildPolicy {
        /// Only what cannot be had otherwise.
        Auto = "auto",
        /// Everything.
        Always = "always",
        /// Nothing.
        Never = "never",
    }
}

words! {
    /// What admission policies do with a manifest that would not run.
    Admission {
        /// No policies are installed.
        Off = "off",
        /// It is written to the audit log.
        Audit = "audit",
        /// The user is warned.
        Warn = "warn",
        /// It is refused.
        Enforce = "enforce",
        /// It is repaired.
        Mutate = "mutate",
    }
}
