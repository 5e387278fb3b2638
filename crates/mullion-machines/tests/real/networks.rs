//! Networks, and whose they are.

use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::Duration;

use mullion_machines::nspawn::Nspawn;
use mullion_machines::{Driver as _, DriverError, Look as _, NetworkWish};
use mullion_plan::Unattended;
use mullion_spec::value::ClusterName;
use mullion_spec::words::MachineAccess;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::ground::apart;

pub(crate) fn run(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn cluster() -> ClusterName {
    "apart".parse().unwrap()
}

pub(crate) fn wish() -> NetworkWish {
    NetworkWish {
        cluster: cluster(),
        network: "10.77.0.0/24".parse().unwrap(),
        access: MachineAccess::Host,
        identity: None,
    }
}

pub(crate) fn driver() -> Nspawn {
    Nspawn::new("/run/place")
}

/// The bridge's name, as the driver chose it.
pub(crate) fn bridge() -> String {
    let line = "ip -brief link show type bridge";
    run(line).split_whitespace().next().unwrap().to_owned()
}

/// A way to the outside, through a name space that stands for it.
pub(crate) fn outside() {
    run("ip netns add outside
        ip link add out type veth peer name in netns outside
        ip address add 10.215.0.1/24 dev out && ip link set out up
        ip netns exec outside ip address add 10.215.0.2/24 dev in
        ip netns exec outside ip link set in up
        ip route add default via 10.215.0.2");
}

/// Takes the way to the outside away again.
pub(crate) fn no_outside() {
    run("ip netns delete outside; ip link delete out 2>/dev/null || true");
}

/// A machine's place in the network: a name space with a cable to the bridge.
pub(crate) fn inside() {
    let bridge = bridge();
    run(&format!(
        "ip netns add machine
        ip link add cable type veth peer name host0 netns machine
        ip link set cable master {bridge} up
        ip netns exec machine ip address add 10.77.0.11/24 dev host0
        ip netns exec machine ip link set host0 up
        ip netns exec machine ip route add default via 10.77.0.1"
    ));
}

/// Does something in a name space.
pub(crate) fn within<T: Send>(name: &str, action: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let space = fs_err::File::open(format!("/run/netns/{name}")).unwrap();
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(space.file().as_fd(), kind).unwrap();
            action()
        });
        thread.join().unwrap()
    })
}

/// A machine calls the outside, which has no route to the machines: only when the call comes with the
/// computer's address does an answer find back.
pub(crate) fn reach_outside() {
    let listener = within("outside", || TcpListener::bind("10.215.0.2:7").unwrap());
    let outside = listener.local_addr().unwrap();
    within("machine", || {
        TcpStream::connect_timeout(&outside, Duration::from_secs(3)).unwrap()
    });
    let caller = listener.accept().unwrap().1.ip();
    assert_eq!(caller, IpAddr::from([10, 215, 0, 1]));
}

/// Everything that a network leaves.
pub(crate) fn traces() -> String {
    run(
        "ip -brief address; nft list ruleset; iptables -S; cat /proc/sys/net/ipv4/ip_forward; ls -A /run | grep -v netns; cat /proc/sys/fs/inotify/max_user_instances",
    ).trim().to_owned()
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn machines_reach_the_outside_with_the_computers_address() {
    apart(|| {
        outside();
        let before = traces();
        driver().make_network(&wish(), &Unattended).unwrap();
        inside();
        reach_outside();
        assert_eq!(
            driver().find(&cluster()).unwrap().network,
            Some(wish().network)
        );
        run("ip netns delete machine");
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(traces(), before);
        no_outside();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn packets_are_still_passed_on_where_somebody_else_has_a_bridge() {
    apart(|| {
        outside();
        driver().make_network(&wish(), &Unattended).unwrap();
        run("ip link add other type bridge");
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(run("cat /proc/sys/net/ipv4/ip_forward").trim(), "1");
        run("ip link delete other && echo 0 > /proc/sys/net/ipv4/ip_forward");
        no_outside();
    });
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_08_packets_are_still_passed_on_where_somebody_elses_rules_change_addresses() {
    apart(|| {
        outside();
        driver().make_network(&wish(), &Unattended).unwrap();
        let rule = "POSTROUTING -o out -m comment --comment 'my own' -j MASQUERADE";
        run(&format!("iptables -t nat -A {rule}"));
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(run("cat /proc/sys/net/ipv4/ip_forward").trim(), "1");
        run(&format!("iptables -t nat -C {rule}"));
        run("nft delete table ip nat; echo 0 > /proc/sys/net/ipv4/ip_forward");
        no_outside();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn machines_get_through_a_firewall_that_drops_what_passes() {
    apart(|| {
        outside();
        run("iptables -P FORWARD DROP");
        let before = traces();
        for _ in 0..2 {
            driver().make_network(&wish(), &Unattended).unwrap();
        }
        inside();
        reach_outside();
        let forward = run("iptables -S FORWARD");
        let chain = format!("mullion-{}", bridge());
        assert_eq!(
            forward.trim(),
            format!("-P FORWARD DROP\n-A FORWARD -j {chain}")
        );
        assert_eq!(
            run(&format!("iptables -S {chain} | grep -c ACCEPT")).trim(),
            "2"
        );
        run("ip netns delete machine");
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(traces(), before);
        run("iptables -P FORWARD ACCEPT && nft delete table ip filter");
        no_outside();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_computer_without_a_way_out_gives_none() {
    apart(|| {
        let before = traces();
        driver().make_network(&wish(), &Unattended).unwrap();
        assert_eq!(run("nft list tables ip"), "");
        assert_eq!(run("cat /proc/sys/net/ipv4/ip_forward").trim(), "0");
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(traces(), before);
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn somebody_elses_bridge_and_addresses_are_refused_and_left_alone() {
    apart(|| {
        driver().make_network(&wish(), &Unattended).unwrap();
        let bridge = bridge();
        driver().remove_network(&cluster(), &Unattended).unwrap();

        // The name is taken.
        run(&format!(
            "ip link add {bridge} type bridge && ip link set {bridge} alias mine up"
        ));
        let before = traces();
        let refused = driver().make_network(&wish(), &Unattended);
        assert!(
            matches!(refused, Err(DriverError::NotOurs { .. })),
            "{refused:?}"
        );
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(traces(), before);
        run(&format!("ip link delete {bridge}"));

        // The addresses are taken.
        run(
            "ip link add other type bridge && ip address add 10.77.0.200/16 dev other && ip link set other up",
        );
        let before = traces();
        let refused = driver().make_network(&wish(), &Unattended);
        assert!(
            matches!(refused, Err(DriverError::Taken { .. })),
            "{refused:?}"
        );
        assert_eq!(traces(), before);
        run("ip link delete other");
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_network_that_was_begun_is_finished_or_removed() {
    apart(|| {
        driver().make_network(&wish(), &Unattended).unwrap();
        let bridge = bridge();
        driver().remove_network(&cluster(), &Unattended).unwrap();
        let before = traces();
        let label = format!("ip link set {bridge} alias mullion.dev/cluster=apart");
        let address = format!("ip address add 10.77.0.1/24 dev {bridge}");
        let add = format!("ip link add {bridge} type bridge");
        // After each thing that a killed run could have done last.
        for done in [vec![&add], vec![&add, &label], vec![&add, &label, &address]] {
            for line in &done {
                run(line);
            }
            driver().remove_network(&cluster(), &Unattended).unwrap();
            assert_eq!(traces(), before, "{done:?}");
            for line in &done {
                run(line);
            }
            let begun = driver().find(&cluster()).unwrap();
            assert!(begun.network_lacks.is_some(), "{done:?}");
            driver().make_network(&wish(), &Unattended).unwrap();
            assert_eq!(
                driver().find(&cluster()).unwrap().network,
                Some(wish().network)
            );
            driver().remove_network(&cluster(), &Unattended).unwrap();
            assert_eq!(traces(), before, "{done:?}");
        }
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_network_that_lost_a_part_is_not_whole_until_it_is_made_again() {
    apart(|| {
        outside();
        run("iptables -P FORWARD DROP");
        let before = traces();
        let lacks = || driver().find(&cluster()).unwrap().network_lacks;
        assert_eq!(lacks(), None, "there is none");
        driver().make_network(&wish(), &Unattended).unwrap();
        let bridge = bridge();
        // What a killed run has not done yet, and what others take away.
        for loss in [
            format!("ip address flush dev {bridge}"),
            format!("ip link set {bridge} down"),
            "echo 0 > /proc/sys/net/ipv4/ip_forward".into(),
            "echo 128 > /proc/sys/fs/inotify/max_user_instances".into(),
            format!("nft delete table ip {bridge}"),
            format!("nft flush table ip {bridge}"),
            format!("nft insert rule ip {bridge} way-out return"),
            format!("nft add table ip {bridge} '{{ flags dormant; }}'"),
            format!("iptables -D FORWARD -j mullion-{bridge}"),
            format!("iptables -F mullion-{bridge}"),
            format!("iptables -I mullion-{bridge} -j DROP"),
        ] {
            assert_eq!(lacks(), None, "before {loss}");
            run(&loss);
            assert!(lacks().is_some(), "{loss}");
            driver().make_network(&wish(), &Unattended).unwrap();
        }
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
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn a_removal_that_was_cut_off_is_found_and_ended() {
    apart(|| {
        outside();
        run("iptables -P FORWARD DROP");
        let before = traces();
        driver().make_network(&wish(), &Unattended).unwrap();
        let bridge = bridge();
        let remove = || driver().remove_network(&cluster(), &Unattended).unwrap();
        remove();
        let chain = format!("mullion-{bridge}");
        let passes =
            format!("iptables -D FORWARD -j {chain}; iptables -F {chain}; iptables -X {chain}");
        let table = format!("nft delete table ip {bridge}");
        let by_hand = format!("ip link delete {bridge}");
        // After each thing that a killed run could have done last, and after what somebody did by hand.
        let guard = format!("nft delete table inet {bridge}");
        for done in [
            vec![&passes],
            vec![&passes, &table],
            vec![&passes, &table, &by_hand],
            vec![&by_hand],
            vec![&by_hand, &table, &guard],
        ] {
            driver().make_network(&wish(), &Unattended).unwrap();
            for line in &done {
                run(line);
            }
            assert!(
                driver().find(&cluster()).unwrap().network_lacks.is_some(),
                "{done:?}"
            );
            remove();
            assert_eq!(traces(), before, "{done:?}");
            assert_eq!(driver().find(&cluster()).unwrap().network_lacks, None);
        }
        run("iptables -P FORWARD ACCEPT && nft delete table ip filter");
        no_outside();
    });
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn the_last_network_puts_the_kernels_settings_back() {
    apart(|| {
        outside();
        let before = traces();
        let other = NetworkWish {
            cluster: "second".parse().unwrap(),
            network: "10.78.0.0/24".parse().unwrap(),
            access: MachineAccess::Host,
            identity: None,
        };
        driver().make_network(&wish(), &Unattended).unwrap();
        driver().make_network(&other, &Unattended).unwrap();
        driver().remove_network(&cluster(), &Unattended).unwrap();
        assert_eq!(run("cat /proc/sys/net/ipv4/ip_forward").trim(), "1");
        driver()
            .remove_network(&other.cluster, &Unattended)
            .unwrap();
        assert_eq!(traces(), before);
        no_outside();
    });
}
