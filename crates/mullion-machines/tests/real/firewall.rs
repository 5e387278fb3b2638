//! Packet rules: whose they are, and whom they keep out. Everything happens in network namespaces of the test's own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use mullion_machines::{Driver as _, Look as _, NetworkWish};
use mullion_plan::{ClusterUid, Identity, Unattended};
use mullion_spec::words::MachineAccess;

use crate::ground::apart;
use crate::networks::{
    bridge, cluster, driver, inside, no_outside, outside, reach_outside, run, traces, wish, within,
};

/// Rules of an administrator that a careless reader takes for ours: on our bridge, with our names, with spaces, quotes
/// and line breaks in their comments.
fn hostile_rules(bridge: &str) {
    run(&format!(
        "iptables -P FORWARD DROP
        iptables -N theirs
        iptables -A theirs -j RETURN
        iptables -A FORWARD -i {bridge} -m comment --comment 'my own rule' -j ACCEPT
        iptables -A FORWARD -o {bridge} -m comment --comment 'a \"quoted\" {bridge} -j ACCEPT' -j ACCEPT
        iptables -A FORWARD -i {bridge} -p tcp --dport 25 -j REJECT
        iptables -A FORWARD -o {bridge} -j theirs
        iptables -A FORWARD -m comment --comment 'x
-P FORWARD ACCEPT
-A FORWARD -i {bridge} -j ACCEPT' -j theirs
        iptables -A FORWARD -m comment --comment 'mullion-{bridge}' -j theirs
        iptables -A FORWARD -i {bridge} -j ACCEPT
        iptables -A INPUT -i {bridge} -m comment --comment mullion -j ACCEPT
        nft 'add table ip mullion; add chain ip mullion {bridge} {{ type filter hook forward priority 5; }}
             add rule ip mullion {bridge} oifname \"{bridge}\" accept comment \"table inet {bridge}\"'"
    ));
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_08_rules_of_others_are_neither_changed_nor_deleted() {
    apart(|| {
        outside();
        driver().make_network(&wish(), &Unattended).unwrap();
        let bridge = bridge();
        driver().remove_network(&cluster(), &Unattended).unwrap();
        hostile_rules(&bridge);
        let (before, rules) = (traces(), run("iptables -S FORWARD"));
        for access in [MachineAccess::Host, MachineAccess::Lan] {
            let wish = NetworkWish { access, ..wish() };
            for _ in 0..2 {
                driver().make_network(&wish, &Unattended).unwrap();
            }
            let found = driver().find(&cluster()).unwrap();
            assert_eq!(found.network_lacks, None);
            // Theirs stand as they stood, in front of the one jump to ours.
            let forward = run("iptables -S FORWARD");
            assert_eq!(forward, format!("{rules}-A FORWARD -j mullion-{bridge}\n"));
            driver().remove_network(&cluster(), &Unattended).unwrap();
            assert_eq!(traces(), before);
        }
        run("nft flush ruleset");
        no_outside();
    });
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_08_a_chain_that_somebody_else_leads_to_does_not_stop_down() {
    apart(|| {
        outside();
        run("iptables -P FORWARD DROP");
        driver().make_network(&wish(), &Unattended).unwrap();
        let chain = format!("mullion-{}", bridge());
        run(&format!("iptables -A FORWARD -i lo -j {chain}"));
        driver().remove_network(&cluster(), &Unattended).unwrap();
        let left = run("iptables -S");
        assert!(
            left.contains(&format!("-A FORWARD -i lo -j {chain}")),
            "{left}"
        );
        assert!(!left.contains(&format!("-A {chain}")), "{left}");
        run(&format!(
            "iptables -D FORWARD -i lo -j {chain} && iptables -X {chain}
             iptables -P FORWARD ACCEPT && nft delete table ip filter"
        ));
        no_outside();
    });
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_08_the_network_of_an_older_version_is_adopted_and_removed() {
    apart(|| {
        outside();
        run("iptables -P FORWARD DROP");
        let before = traces();
        driver().make_network(&wish(), &Unattended).unwrap();
        let bridge = bridge();
        // What an older version made.
        let older = format!(
            "nft delete table inet {bridge}
             iptables -D FORWARD -j mullion-{bridge} && iptables -F mullion-{bridge} && iptables -X mullion-{bridge}
             iptables -I FORWARD -i {bridge} -j ACCEPT && iptables -I FORWARD -o {bridge} -j ACCEPT
             echo '{{\"net/ipv4/ip_forward\":\"0\",\"fs/inotify/max_user_instances\":\"128\"}}' > /run/mullion-kernel.json"
        );
        run(&older);
        let found = driver().find(&cluster()).unwrap();
        // Whole, and open: planning closes it in place, and nothing else is to be done.
        assert_eq!(found.network, Some(wish().network));
        assert_eq!(found.network_lacks, None);
        assert_eq!(found.network_access, Some(MachineAccess::Lan));
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(traces(), before);

        driver().make_network(&wish(), &Unattended).unwrap();
        run(&older);
        driver().make_network(&wish(), &Unattended).unwrap();
        let found = driver().find(&cluster()).unwrap();
        assert_eq!(found.network_lacks, None);
        assert_eq!(found.network_access, Some(MachineAccess::Host));
        let forward = run("iptables -S FORWARD");
        assert!(!forward.contains("ACCEPT"), "{forward}");
        inside();
        reach_outside();
        run("ip netns delete machine");
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(traces(), before);
        run("iptables -P FORWARD ACCEPT && nft delete table ip filter");
        no_outside();
    });
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_08_a_user_who_may_not_read_the_rules_sees_what_the_label_says() {
    apart(|| {
        let identity = Some(Identity {
            id: ClusterUid::of(8),
            owner: 1000,
        });
        let label = || run("ip -json -details link show type bridge");
        for access in [MachineAccess::Host, MachineAccess::Lan, MachineAccess::Host] {
            // Root without sudo takes a network over, and does not become the one who made it.
            let owner = if label().contains("owner") { 0 } else { 1000 };
            let identity = identity
                .clone()
                .map(|identity| Identity { owner, ..identity });
            let wish = NetworkWish {
                access,
                identity,
                ..wish()
            };
            driver().make_network(&wish, &Unattended).unwrap();
            let word = if access == MachineAccess::Lan {
                "lan"
            } else {
                "host"
            };
            let label = label();
            assert!(
                label.contains(&format!(";owner=1000;access={word}\"")),
                "{label}"
            );
            let found = driver().find(&cluster()).unwrap();
            assert_eq!(found.network_identity.map(|found| found.owner), Some(1000));
        }
        driver().remove_network(&cluster(), &Unattended).unwrap();
    });
}

/// Whether a connection is made from a namespace, or from the computer itself.
fn connects(from: Option<&str>, to: SocketAddr) -> bool {
    let connect = || TcpStream::connect_timeout(&to, Duration::from_millis(700)).is_ok();
    match from {
        Some(name) => within(name, connect),
        None => connect(),
    }
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_08_machines_are_reachable_from_the_lan_only_if_the_file_says_so() {
    apart(|| {
        outside();
        let before = traces();
        driver().make_network(&wish(), &Unattended).unwrap();
        inside();
        // The LAN knows the way, as any computer in it can be told. So does a network of another cluster.
        run(
            "ip netns exec outside ip route add 10.77.0.0/24 via 10.215.0.1
             ip netns add neighbour
             ip link add next type veth peer name near netns neighbour
             ip address add 10.216.0.1/24 dev next && ip link set next up
             ip netns exec neighbour ip address add 10.216.0.2/24 dev near
             ip netns exec neighbour ip link set near up
             ip netns exec neighbour ip route add default via 10.216.0.1",
        );
        let machine = within("machine", || TcpListener::bind("10.77.0.11:6443").unwrap());
        let api = machine.local_addr().unwrap();
        let from = |name| connects(Some(name), api);
        let reach = |access| {
            let wish = NetworkWish { access, ..wish() };
            driver().make_network(&wish, &Unattended).unwrap();
            let found = driver().find(&cluster()).unwrap();
            assert_eq!(found.network_access, Some(access));
            assert_eq!(found.network_lacks, None);
            // In both cases the computer reaches its machines, and they reach the LAN and hear its answers.
            assert!(connects(None, api));
            reach_outside();
            (from("outside"), from("neighbour"))
        };
        assert_eq!(reach(MachineAccess::Host), (false, false));
        assert_eq!(reach(MachineAccess::Lan), (true, true));
        assert_eq!(reach(MachineAccess::Host), (false, false));
        // Rules of others that let them in do not override it.
        run(
            "iptables -I FORWARD -j ACCEPT && iptables -t nat -A PREROUTING -p tcp --dport 99 -j DNAT --to-destination 10.77.0.11:6443",
        );
        assert!(!from("outside"));
        assert!(!connects(Some("outside"), "10.215.0.1:99".parse().unwrap()));
        // A guard that somebody weakened is not taken for one.
        let bridge = bridge();
        run(&format!(
            "nft insert rule inet {bridge} access oifname {bridge} accept"
        ));
        assert!(from("outside"));
        let found = driver().find(&cluster()).unwrap();
        assert_eq!(found.network_access, Some(MachineAccess::Lan));
        driver().make_network(&wish(), &Unattended).unwrap();
        assert!(!from("outside"));
        // Nor is one that somebody put to sleep.
        run(&format!(
            "nft add table inet {bridge} '{{ flags dormant; }}'"
        ));
        assert!(from("outside"));
        let found = driver().find(&cluster()).unwrap();
        assert_eq!(found.network_access, Some(MachineAccess::Lan));
        driver().make_network(&wish(), &Unattended).unwrap();
        assert!(!from("outside"));
        // A socket keeps its namespace.
        drop(machine);
        run(
            "ip netns delete machine; ip netns delete neighbour; ip link delete next 2>/dev/null
             nft delete table ip filter; nft delete table ip nat",
        );
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(traces(), before);
        no_outside();
    });
}
