//! What a Linux machine is below containerd and kubelet: packages, kernel modules and settings, ports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::document::File;
use mullion_spec::cluster::{Carrier, Duty};
use mullion_spec::words::{Backend, Cni};
use mullion_wire::{Firewall, Named, OpenPort, Package, Protocol};

use crate::API_PORT;
use crate::error::RenderError;
use crate::setting::{Seat, Setting};

pub(crate) fn text_file(path: impl Into<String>, text: impl Into<Arc<str>>) -> File {
    File {
        path: path.into(),
        content: Named::Text(text.into()),
        mode: 0o644,
    }
}

/// A package of the distribution, and the program by which it counts as present.
pub(crate) fn package(name: &str, program: &str) -> Package {
    Package {
        name: name.into(),
        program: Some(program.into()),
    }
}

/// Packages that a node needs, with who calls them. Templates hold them already, so they are for machines that existed
/// before us.
pub(crate) fn node_packages() -> Vec<Package> {
    [
        // kubeadm asks for it in older minors (1.32: preflight `FileExisting-ip`); people look with it.
        ("iproute2", "ip"),
        // The plugin `portmap` and kubelet; kubeadm asks for it in older minors.
        ("iptables", "iptables"),
        // The kernel's modules.
        ("kmod", "modprobe"),
        // Kubelet's volumes; kubeadm asks for both programs of this package.
        ("mount", "losetup"),
        // The agent's own rules for the ports.
        ("nftables", "nft"),
        // containerd's shim.
        ("runc", "runc"),
        // kubeadm asks for it in older minors.
        ("util-linux", "nsenter"),
    ]
    .map(|(name, program)| package(name, program))
    .into()
}

/// Kernel modules. A system container has the kernel of the computer around it, and cannot load any.
pub(crate) fn modules(
    setting: &Setting<'_>,
    seat: Seat<'_>,
) -> Result<BTreeSet<String>, RenderError> {
    if seat.ground()?.is_container() {
        return Ok(BTreeSet::new());
    }
    let mut modules = vec!["br_netfilter", "nf_conntrack", "overlay"];
    if uses_vxlan(setting) {
        modules.push("vxlan");
    }
    Ok(modules.into_iter().map(str::to_owned).collect())
}

/// Kernel settings.
pub(crate) fn sysctls(seat: Seat<'_>) -> Result<BTreeMap<String, String>, RenderError> {
    let mut settings = vec![
        // Each node has dozens of watchers; system containers draw from one allowance together.
        ("fs.inotify.max_user_instances", "8192"),
        ("fs.inotify.max_user_watches", "524288"),
        // Service addresses work between pods of one node, too.
        ("net.bridge.bridge-nf-call-iptables", "1"),
        // Asked for by kubeadm's preflight.
        ("net.ipv4.ip_forward", "1"),
    ];
    if !seat.ground()?.is_container() {
        // What kubelet would set: in a system container they would be the settings of the computer around it.
        settings.extend([
            ("kernel.panic", "10"),
            ("kernel.panic_on_oops", "1"),
            ("vm.overcommit_memory", "1"),
        ]);
    }
    let settings = settings.into_iter();
    Ok(settings
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

/// The ports that a machine which existed before us must let in. Machines that we make are in a network of their own,
/// which has no other computers.
pub(crate) fn firewall(setting: &Setting<'_>, seat: Seat<'_>) -> Option<Firewall> {
    let Carrier::Existing { login, .. } = &seat.group.carrier else {
        return None;
    };
    let port = |name: &str, protocol, first, last| OpenPort {
        name: name.into(),
        protocol,
        first,
        last,
    };
    let tcp = |name: &str, number| port(name, Protocol::Tcp, number, number);
    let mut open = vec![tcp("ssh", login.port)];
    // kubernetes.io: Ports and Protocols.
    match seat.group.duty {
        Duty::LoadBalancer => open.push(tcp("api", setting.endpoint.port)),
        Duty::ControlPlane => {
            open.push(tcp("api", API_PORT));
            open.push(port("etcd", Protocol::Tcp, 2379, 2380));
        }
        Duty::Worker => {}
    }
    if seat.group.duty != Duty::LoadBalancer {
        open.push(tcp("kubelet", 10250));
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            open.push(port("node-ports", protocol, 30000, 32767));
        }
        if uses_vxlan(setting) {
            let number = setting.cluster().network.port;
            open.push(port("vxlan", Protocol::Udp, number, number));
        }
    }
    open.sort();
    Some(Firewall {
        group: "mullion".into(),
        open,
    })
}

pub(crate) fn uses_vxlan(setting: &Setting<'_>) -> bool {
    let network = &setting.cluster().network;
    network.cni != Cni::None && network.backend == Backend::Vxlan
}
