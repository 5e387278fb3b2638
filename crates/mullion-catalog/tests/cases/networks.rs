//! Networks and addresses.

use super::{existing, found, told};

/// A cluster of two workers with a network.
fn network(fields: &str) -> String {
    format!("machines: {{linux: 2}}\nnetwork: {{{fields}}}\n")
}

#[test]
fn a_node_s_share_keeps_kubeadm_s_limits() {
    found(&network("podCIDR: 11.0.0.0/8, podCIDRSize: 24"), &[]);
    found(&network("podCIDR: 11.0.0.0/8, podCIDRSize: 25"), &["E0416"]);
    assert!(told(&network("podCIDR: 11.0.0.0/8, podCIDRSize: 25")).contains("from 10 to 24"));
    // One node and one share of the whole network.
    let alone = |fields: &str| {
        format!("machines:\n  - {{name: cp, role: control-plane}}\nnetwork: {{{fields}}}\n")
    };
    found(&alone("podCIDR: 10.244.0.0/24, podCIDRSize: 24"), &[]);
    found(
        &network("podCIDR: 10.244.0.0/24, podCIDRSize: 24"),
        &["E0402"],
    );
    found(
        &alone("podCIDR: 10.244.0.0/28, podCIDRSize: 12"),
        &["E0416"],
    );
    assert!(
        told(&alone("podCIDR: 10.244.0.0/28, podCIDRSize: 12")).contains("write `podCIDRSize: 28`")
    );
}

#[test]
fn a_pod_network_that_no_share_fits_is_what_must_change() {
    for fields in [
        "podCIDR: 10.244.0.0/32",
        "podCIDR: 10.244.0.0/29, podCIDRSize: 30",
    ] {
        found(&network(fields), &["E0416"]);
        assert!(
            told(&network(fields)).contains("widen `podCIDR` to a /22 or wider"),
            "{}",
            told(&network(fields))
        );
    }
}

#[test]
fn networks_are_written_as_go_reads_them_and_are_ordinary() {
    found(&network("podCIDR: 010.244.0.0/16"), &["E0208"]);
    found(&network("serviceCIDR: 10.96.0.0/016"), &["E0208"]);
    for net in [
        "127.0.0.0/16",
        "224.0.0.0/16",
        "169.254.0.0/16",
        "0.0.0.0/8",
        "240.0.0.0/16",
        "0.0.0.0/0",
    ] {
        found(&network(&format!("podCIDR: {net}")), &["E0417"]);
        found(&network(&format!("serviceCIDR: {net}")), &["E0417"]);
        found(&network(&format!("machineCIDR: {net}")), &["E0417"]);
    }
}

#[test]
fn a_proxy_needs_no_exceptions_for_the_cluster_itself() {
    found(
        "machines: {linux: 1, windows: 1}\nproxy: {https: \"http://proxy.example:3128\"}\n",
        &[],
    );
}

/// The usual networks, written: only a network that the file leaves out moves.
const WRITTEN: &str =
    "machineCIDR: 10.99.0.0/24, podCIDR: 10.244.0.0/16, serviceCIDR: 10.96.0.0/16";

#[test]
fn addresses_stay_out_of_the_cluster_s_networks() {
    let machine = |address: &str| {
        format!(
            "machines:\n  - {{name: cp, role: control-plane}}\n  - {{name: old, driver: ssh, addresses: [\"{address}\"]}}\n"
        )
    };
    let written = |file: &str| format!("{file}network: {{{WRITTEN}}}\n");
    for address in ["10.99.0.7", "10.244.3.4", "10.96.0.10"] {
        found(&written(&machine(address)), &["E0414"]);
        found(&machine(address), &["E0419"]);
    }
    found(
        "machines:\n  - {name: cp, role: control-plane, driver: ssh, addresses: [10.99.0.7]}\n",
        &[],
    );
    let host = |address: &str| {
        format!("machines: {{linux: 1}}\nhosts: [{{name: h1, address: \"{address}\"}}]\n")
    };
    // A host that carries nothing is refused besides.
    found(&written(&host("10.99.0.7")), &["E0414", "E0904"]);
    found(&host("10.99.0.7"), &["E0419", "E0904"]);
    found(&host("2001:db8::1"), &["E0904"]);
    found(&host("127.0.0.1"), &["E0904"]);
    found(&host("224.0.0.1"), &["E0321", "E0904"]);
    for address in ["10.244.0.1", "10.96.0.1"] {
        let endpoint =
            format!("machines: {{linux: 1}}\ncontrolPlane: {{endpoint: \"{address}:6443\"}}\n");
        found(&written(&endpoint), &["E0414"]);
        found(&endpoint, &["E0419"]);
        let server = format!("upstreamDNS: [{address}]");
        found(&network(&format!("{server}, {WRITTEN}")), &["E0414"]);
        found(&network(&server), &["E0419"]);
    }
    let servers = "upstreamDNS: [10.99.0.1, 192.0.2.53]";
    found(&network(&format!("{servers}, {WRITTEN}")), &[]);
    // A machine network that is chosen contains no DNS server.
    found(&network(servers), &["E0419"]);
    found(&machine("2001:db8::1"), &["E0410"]);
    for address in [
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "localhost",
    ] {
        found(&machine(address), &["E0321"]);
    }
    found(&existing("count: 1"), &[]);
    // An address that cannot be read is not an address that the proxy is asked for.
    let unread = format!(
        "{}proxy: {{https: \"http://proxy.example:3128\"}}\n",
        machine("192.0.2.300")
    );
    assert!(!told(&unread).contains("0.0.0.0,"), "{}", told(&unread));
    found(
        "machines:\n  - {name: cp, role: control-plane}\n  - {name: old, driver: ssh, addresses: [a.example, A.EXAMPLE]}\n",
        &["E0315"],
    );
}

#[test]
fn a_node_s_address_is_one_machine_s_and_of_an_ordinary_form() {
    for (text, expected) in [
        ("198.51.100.7", None),
        ("198.51.100.0/24", None),
        ("10.0.0.0/8", None),
        ("eth0", None),
        ("vEthernet (Ethernet 2)", None),
        ("10.0.0.300", Some("E0208")),
        ("10.0.0.0/33", Some("E0208")),
        ("010.0.0.0/24", Some("E0208")),
        ("fd00::zz/64", Some("E0208")),
        ("2001:db8:1", Some("E0208")),
        ("2001:db8::1", Some("E0410")),
        ("2001:db8::/64", Some("E0410")),
        ("10.244.1.1", Some("E0414")),
        ("10.96.4.0/24", Some("E0414")),
        ("10.99.0.5", Some("E0414")),
        ("127.0.0.1", Some("E0321")),
    ] {
        let expected: Vec<_> = expected.into_iter().collect();
        let file = existing(&format!("nodeIP: \"{text}\""));
        let file = format!("{file}network: {{{WRITTEN}}}\n");
        found(&file, &expected);
    }
    found(&existing("nodeIP: 10.0.0.0/8"), &["E0419"]);
    found(
        "machines:\n  - {name: cp, role: control-plane}\n  - {name: lin, count: 2, nodeIP: 10.99.0.5}\n",
        &["E0319"],
    );
}

#[test]
fn a_free_network_for_machines_has_its_limit() {
    let file = |count: u32| {
        format!(
            "machines: {{linux: {count}}}\nnetwork: {{machineCIDR: null, podCIDR: 11.0.0.0/8}}\n"
        )
    };
    found(&file(252), &[]);
    found(&file(253), &["E0403"]);
    assert!(told(&file(253)).contains("set `machineCIDR` to a /23 or wider"));
}
