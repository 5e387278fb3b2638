//! A cluster on a company's network: private ranges that this computer has routes to, as by a VPN.

use serde_json::Value;

use crate::lab::Lab;
use crate::namespace::NetworkNamespace;
use crate::network::services_are_reached;
use crate::trial::Trial;

const NODES: [&str; 3] = ["cp1", "lin1", "win1"];

/// The text that Mullion takes where there is no file: no network is named.
const NO_FILE: &str = "machines: {linux: 1, windows: 1}\n";

/// A network namespace whose way out has routes to 10.0.0.0/8 and 172.16.0.0/12.
fn company() -> NetworkNamespace {
    let company = NetworkNamespace::new("mullion-company");
    for line in [
        "link add vpn0 type veth peer name far0",
        "address add 198.51.100.1/24 dev vpn0",
        "link set vpn0 up",
        "link set far0 up",
        "route add 10.0.0.0/8 via 198.51.100.2",
        "route add 172.16.0.0/12 via 198.51.100.2",
    ] {
        company.ip(line);
    }
    company
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_cluster_comes_up_beside_routes_to_private_networks() {
    let mut trial = Trial::begin("a_cluster_comes_up_beside_routes_to_private_networks");
    let company = company();
    // Under a name of the test's own: the developer's built-in cluster may be up.
    let mut lab = Lab::new("routes", &format!("metadata: {{name: NAME}}\n{NO_FILE}"));
    lab.through = company.enter();
    let kept = lab.kept().join("networks.json");

    let chosen =
        "`machineCIDR` 192.168.0.0/24, `podCIDR` 100.127.0.0/16, `serviceCIDR` 100.126.0.0/16";
    let why = "this computer reaches 10.0.0.0/8 by `vpn0`";
    let _ = lab.run(&["plan"]).good().says(&[chosen, why]);
    assert!(!kept.exists(), "a look keeps nothing");
    let _ = lab.up().says(&[chosen, why, "is up after"]);
    trial.lap("up");

    lab.is_up(&NODES);
    for node in NODES {
        assert!(lab.address(node).starts_with("192.168.0."), "{node}");
    }
    lab.serve(&NODES);
    let pods = lab.list(&["pods", "--namespace=proof"]);
    let addresses = pods
        .iter()
        .map(|pod| pod["status"]["podIP"].as_str().unwrap());
    for address in addresses {
        assert!(address.starts_with("100.127."), "{address}");
    }
    for node in NODES {
        let (address, _) = lab.service(node);
        assert!(address.starts_with("100.126."), "{address}");
    }
    services_are_reached(&lab, &NODES);
    trial.lap("pods and Services are reached in the networks that were chosen");

    // Other routes, and a cluster that stays where it is.
    let text = fs_err::read_to_string(&kept).unwrap();
    let networks: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(networks["version"], 1);
    assert_eq!(networks["machines"], "192.168.0.0/24");
    company.ip("route delete 10.0.0.0/8");
    company.ip("route add 192.168.0.0/16 via 198.51.100.2");
    let _ = lab
        .has_nothing_to_do()
        .says(&["`machineCIDR` 192.168.0.0/24"]);
    // A cluster of an earlier version kept nothing: what is there tells.
    fs_err::remove_file(&kept).unwrap();
    let plan = lab.run(&["plan"]);
    assert!(
        plan.err.contains("`machineCIDR` 192.168.0.0/24") || plan.out.contains("192.168.0.0/24"),
        "{plan}"
    );
    assert!(!kept.exists(), "a look keeps nothing");
    fs_err::write(&kept, &text).unwrap();
    trial.lap("other routes: nothing to do");

    // A second cluster beside it, by the shortest file, takes another network.
    let mut second = Lab::new(
        "beside",
        "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\nmachines: {linux: 1}\n",
    );
    second.through.clone_from(&lab.through);
    second.environment.clone_from(&lab.environment);
    company.ip("route add 10.0.0.0/8 via 198.51.100.2");
    let _ = second
        .run(&["plan"])
        .good()
        .says(&["`machineCIDR` 100.125.0.0/24, `podCIDR` 100.127.0.0/16"]);
    drop(second);

    let _ = lab.down();
    let links = company.ip("-brief link");
    assert_eq!(links.lines().count(), 3, "{links}");
    drop(lab);
    drop(company);
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}
