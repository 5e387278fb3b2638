//! Rules about networks: `E04…`.

use super::rules;

rules! {
    OVERLAP "E0401" "networks-overlap" Error
        "two networks overlap"
        why "An address must belong to a pod, a service or a machine; where two of the networks overlap, traffic goes to the wrong one and some of it nowhere."
        do "move one of the two"
        e.g. "machines: {linux: 1}\nnetwork: {podCIDR: 10.96.0.0/16, serviceCIDR: 10.96.0.0/20}\n";
    PODS_SMALL "E0402" "pod-network-small" Error
        "the pod network is too small"
        why "Every node takes a share of the pod network, of the size that `podCIDRSize` gives. Windows nodes take one too."
        do "widen `podCIDR`, or raise `podCIDRSize` for smaller shares"
        e.g. "machines: {linux: 9}\nnetwork: {podCIDR: 10.244.0.0/21}\n";
    MACHINES_SMALL "E0403" "machine-network-small" Error
        "the machine network is too small"
        why "Every machine that is made takes an address, and so do the gateway, the network itself and its broadcast. Where `machineCIDR` is null or left out, a free /24 is taken."
        do "widen `machineCIDR`"
        e.g. "machines: {linux: 9}\nnetwork: {machineCIDR: 10.99.0.0/29}\n";
    SERVICES_SIZE "E0404" "service-network-size" Error
        "the service network has an impossible size"
        why "Kubernetes takes a service network of at most 20 host bits (`/12`), and a cluster needs at least a few addresses for its own services (`/28`)."
        do "take a prefix between `/12` and `/28`"
        e.g. "machines: {linux: 1}\nnetwork: {serviceCIDR: 172.0.0.0/8}\n";
    VNI "E0405" "vni" Error
        "Windows takes no VXLAN identifier below 4096"
        why "HNS refuses smaller ones, and all nodes of one overlay share it: with flannel's default of 1 a Windows node joins and then carries no traffic."
        do "set `network.vni` to 4096, or leave it out"
        e.g. "machines: {linux: 1, windows: 1}\nnetwork: {vni: 1}\n";
    VXLAN_PORT "E0406" "vxlan-port" Error
        "Windows takes no VXLAN port but 4789"
        why "HNS sends and expects VXLAN on UDP 4789, and all nodes of one overlay share the port."
        do "set `network.port` to 4789, or leave it out"
        e.g. "machines: {linux: 1, windows: 1}\nnetwork: {port: 8472}\n";
    HOST_GW "E0407" "host-gw-segment" Error
        "`host-gw` needs all machines on one segment"
        why "The backend writes routes whose next hop is the other machine itself, which works only where every machine reaches every other without a router between."
        do "set `network.backend` to `vxlan`"
        e.g. "machines:\n  - {name: cp, role: control-plane}\n  - {name: old, driver: ssh, addresses: [192.0.2.10]}\nnetwork: {backend: host-gw}\n";
    BACKEND "E0408" "backend" Error
        "the network plugin has no such backend"
        why "Each network plugin carries packets in its own ways."
        do "take a backend that the message lists"
        e.g. "machines: {linux: 1}\nnetwork: {cni: flannel, backend: bgp}\n";
    BACKEND_WINDOWS "E0409" "backend-windows" Error
        "the backend does not work with Windows"
        why "On Windows, Calico carries packets by VXLAN, or by BGP without an overlay. IP in IP, cross-subnet VXLAN and the eBPF dataplane are Linux only. (Windows also needs strict affinity in Calico's address management, which Mullion sets.)"
        do "set `network.backend` to `vxlan`"
        e.g. "machines: {linux: 1, windows: 1}\nnetwork: {cni: calico, backend: ipip}\n";
    IPV6 "E0410" "ipv6" Error
        "IPv6 is not possible here"
        why "Windows has neither IPv6 nor dual stack on overlay networks, and this release makes IPv4 clusters only."
        do "give one IPv4 network, or an IPv4 address"
        e.g. "machines: {linux: 1, windows: 1}\nnetwork: {podCIDR: \"fd00:10:244::/56\"}\n";
    HOST_BITS "E0411" "host-bits" Error
        "the network's address has bits beyond its prefix"
        why "Kubernetes refuses a network that is written by one of its addresses."
        do "write the network's first address"
        e.g. "machines: {linux: 1}\nnetwork: {podCIDR: 10.244.1.0/16}\n";
    TAKEN "E0413" "network-taken" Error
        "the network is in use on this computer"
        why "A route of this computer leads to the same addresses. A network that lies inside the cluster's would be cut off from here, which is an error; of a wider one a part would be, which is a warning. Networks that the file leaves out move to a free range by themselves."
        do "choose another network, or leave the field out to have a free one chosen";
    ADDRESS_INSIDE "E0414" "address-inside" Error
        "an address lies inside one of the cluster's networks"
        why "A computer with an address out of the pod or service network cannot be reached once the cluster runs, be it a machine, a host, the API's endpoint or a DNS server. In the machine network, one that is made may get the same address."
        do "move the network, or give another address"
        e.g. "machines:\n  - {name: cp, role: control-plane, driver: ssh, addresses: [10.244.0.10]}\nnetwork: {podCIDR: 10.244.0.0/16}\n";
    POLICY "E0415" "policy-without-enforcer" Warning
        "nothing enforces NetworkPolicy"
        why "With `cni: none` Mullion installs no network plugin, so `policy: true` has no effect."
        do "set `network.policy` to false, and install a plugin that enforces policies"
        e.g. "machines: {linux: 1}\nnetwork: {cni: none, policy: true}\n";
    SHARE_SIZE "E0416" "node-share-size" Error
        "a node's share of the pod network has an impossible size"
        why "The share must be the pod network or a part of it, at most 16 bits smaller (kubeadm and kube-controller-manager allow no more), and a Windows node loses a few of its addresses to the gateway and the source address of its service proxy."
        do "leave `podCIDRSize` out for a `/24`"
        e.g. "machines: {linux: 1}\nnetwork: {podCIDRSize: 12}\n";
    SPECIAL_NETWORK "E0417" "special-network" Error
        "the network has a meaning of its own"
        why "Loopback, link-local, multicast and reserved addresses are not carried between computers, so that neither pods nor services nor machines can have them."
        do "take a private network, out of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
        e.g. "machines: {linux: 1}\nnetwork: {podCIDR: 169.254.0.0/16}\n";
    NO_NETWORK_TO_VERIFY "E0418" "no-network-to-verify" Warning
        "the suites cannot run without a network plugin"
        why "With `cni: none` nodes stay not ready until you install a plugin, so that nothing can be proven at the end of a run."
        do "leave `verify` out, and run the suites once your plugin is there"
        e.g. "machines: {linux: 1}\nnetwork: {cni: none, policy: false}\nverify: {after: [smoke]}\n";
    MOVED "E0419" "network-chosen" Note
        "a network other than the usual one is used"
        why "The usual machine, pod and service networks (10.99.0.0/24, 10.244.0.0/16 and 10.96.0.0/16) are used where they are free. Where this computer, another cluster or an address of the file has a part of one, Mullion chooses a free network in 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 or 10.0.0.0/8. A cluster keeps the networks that it was created with."
        do "to choose a network yourself, write it into the file before the cluster is created"
        e.g. "machines: {linux: 1}\nnetwork: {podCIDR: 10.96.0.0/16}\n";
    NO_FREE "E0420" "no-free-network" Error
        "no network is free"
        why "Mullion chooses networks that share no address with the networks of this computer, in 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 and 100.64.0.0/10. A network that the file names may lie inside a wider one."
        do "give the field a network that nobody needs from this computer";
}
