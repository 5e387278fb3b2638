//! A file that changes between runs, and commands that change it.

use std::process::{Command, Stdio};

use crate::lab::Lab;
use crate::network::services_are_reached;
use crate::trial::Trial;

const NODES: [&str; 2] = ["cp1", "lin1"];
const MORE: [&str; 3] = ["cp1", "lin1", "lin2"];

const PROXY: &str = "http://192.0.2.1:3128";
const AUTHORITY: &str = "authority.pem";

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn nodes_come_and_go_with_the_file() {
    let mut trial = Trial::begin("nodes_come_and_go_with_the_file");
    let lab = Lab::linux("file", 1);
    make_authority(&lab);
    lab.write(&outward());
    let _ = lab.up();
    lab.is_up(&NODES);
    let _ = lab.has_nothing_to_do();
    for machine in NODES {
        let login = lab.run(&["ssh", machine, "--", "echo $http_proxy"]).good();
        assert_eq!(login.out.trim(), PROXY, "{login}");
        for service in ["containerd", "kubelet"] {
            goes_through_proxy(&lab, machine, service);
        }
        assert!(trusts(&lab, machine), "{machine}");
    }
    let pods = lab.kubectl(&["get", "pods", "-A", "-o", "yaml"]).good();
    assert!(!pods.out.contains(PROXY), "where it would stay: {pods}");
    lab.serve(&NODES);
    services_are_reached(&lab, &NODES);
    trial.lap("up with one worker, a proxy, which is in nobody's way, and an authority");
    let script = "echo 192.0.2.5 registry.lan >> /etc/hosts";
    let _ = lab.run(&["ssh", "cp1", "--", script]).good();

    lab.write(&Lab::text(2));
    let status = lab.status();
    let differences = status["differences"].to_string();
    assert!(differences.contains("join lin2"), "{status:#}");
    let _ = lab.up();
    lab.is_up(&MORE);
    let _ = lab.has_nothing_to_do();
    for machine in MORE {
        let script =
            "cat /proc/$(systemctl show --property=MainPID --value containerd)/environ; env";
        let ran = lab.run(&["ssh", machine, "--", script]).good();
        assert!(!ran.out.to_lowercase().contains("_proxy="), "{ran}");
        assert!(!trusts(&lab, machine), "{machine}");
    }
    services_are_reached_again(&lab, &MORE);
    assert!(knows(&lab, "cp1", "lin2") && knows(&lab, "lin2", "lin1"));
    trial.lap(
        "the file says two and no way out: the second comes, and Services are reached from it",
    );

    lab.write(&Lab::text(1));
    let _ = lab.run(&["up"]).code(2).says(&["lin2", "--yes"]);
    lab.ready(&MORE);
    let _ = lab.run(&["up", "--yes"]).good();
    lab.is_up(&NODES);
    lab.ready(&NODES);
    let _ = lab.has_nothing_to_do();
    assert!(!lab.machine("lin2").exists());
    services_are_reached(&lab, &NODES);
    assert!(knows(&lab, "cp1", "registry.lan"), "it is the owner's");
    trial.lap("the file says one: the second goes, and Services are reached");

    let commented = "# mine\n".to_owned() + &Lab::text(1) + "# the end\n";
    lab.write(&commented);
    let _ = lab.run(&["node", "add", "lin", "--yes"]).good();
    let file = fs_err::read_to_string(lab.path("cluster.yaml")).unwrap();
    assert_eq!(
        file,
        commented
            .replace("linux: 1", "linux: 2")
            .replace("NAME", &lab.name)
    );
    lab.is_up(&MORE);
    trial.lap("node add");
    let _ = lab.run(&["node", "remove", "lin2", "--yes"]).good();
    lab.is_up(&NODES);
    trial.lap("node remove");
    let _ = lab.run(&["node", "reboot", "lin1", "--yes"]).good();
    // What was proven before it was proven again.
    let _ = lab.has_nothing_to_do();
    lab.is_up(&NODES);
    trial.lap("node reboot");
    let _ = lab.run(&["node", "reset", "lin1", "--yes"]).good();
    lab.is_up(&NODES);
    services_are_reached_again(&lab, &NODES);
    trial.lap("node reset");

    let _ = lab.down();
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}

/// The same cluster with a proxy, of which a command hears that runs before anything is laid down, and an authority.
fn outward() -> String {
    let hears = format!(r#"test "$http_proxy" = {PROXY}"#);
    let short = "machines: {linux: 1}";
    let long = format!(
        "machines:\n- {{name: cp, role: control-plane}}\n- {{name: lin, before: [{{run: '{hears}'}}]}}\n\
         proxy: {{http: \"{PROXY}\"}}\ntrust: [{{file: {AUTHORITY}}}]"
    );
    let text = Lab::text(1);
    assert!(text.contains(short), "{text}");
    text.replace(short, &long)
}

/// Makes an authority beside the file.
fn make_authority(lab: &Lab) {
    let line = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=ours -keyout key.pem";
    let status = Command::new("openssl")
        .args(line.split(' '))
        .arg("-out")
        .arg(lab.path(AUTHORITY))
        .current_dir(lab.path("."))
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success());
}

/// Whether programs of a machine trust the authority.
fn trusts(lab: &Lab, machine: &str) -> bool {
    let authority = fs_err::read_to_string(lab.path(AUTHORITY)).unwrap();
    let line = authority.lines().nth(1).unwrap();
    let bundle = "/etc/ssl/certs/ca-certificates.crt";
    let ran = lab.run(&["ssh", machine, "--", "cat", bundle]).good();
    ran.out.contains(line)
}

/// The process of a service goes out through the proxy, and not to the cluster's own networks.
fn goes_through_proxy(lab: &Lab, machine: &str, service: &str) {
    let script = format!(
        r"tr '\0' '\n' < /proc/$(systemctl show --property=MainPID --value {service})/environ"
    );
    let ran = lab.run(&["ssh", machine, "--", &script]).good();
    let value = |name: &str| {
        let mut lines = ran.out.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("{service} of {machine} has no {name}: {ran}"))
    };
    assert_eq!(value("HTTP_PROXY"), PROXY, "{ran}");
    let excepted: Vec<_> = value("NO_PROXY").split(',').collect();
    let address = lab.address(machine);
    let (machines, _) = address.rsplit_once('.').unwrap();
    let machines = format!("{machines}.0/");
    for network in ["10.244.0.0/16", "10.96.0.0/16", &machines] {
        let is_there = excepted.iter().any(|entry| entry.starts_with(network));
        assert!(is_there, "{network} of {machine}: {ran}");
    }
}

/// Whether a machine knows another by its name.
fn knows(lab: &Lab, machine: &str, other: &str) -> bool {
    let ran = lab.run(&["ssh", machine, "--", "cat", "/etc/hosts"]).good();
    let is_it = |line: &str| line.split_whitespace().nth(1) == Some(other);
    ran.out.lines().any(is_it)
}

/// A node that was reset has lost its pods, which nobody makes again.
fn services_are_reached_again(lab: &Lab, nodes: &[&str]) {
    let _ = lab
        .kubectl(&["delete", "namespace", crate::kube::SPACE])
        .good();
    lab.serve(nodes);
    services_are_reached(lab, nodes);
}
