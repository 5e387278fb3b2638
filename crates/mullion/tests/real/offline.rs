//! A cluster from one file, where nothing else can be reached.

use std::path::Path;

use crate::lab::{BUILT_IN, Lab};
use crate::namespace::NetworkNamespace;
use crate::trial::Trial;

const NODES: [&str; 3] = ["cp1", "lin1", "win1"];

/// How many packets had nowhere to go: of its own, of its machines, and of IPv6.
fn refused(island: &NetworkNamespace) -> [u64; 3] {
    let count = |file: &str, row: &str, column: &str| -> u64 {
        let text = island.read(file);
        let mut lines = text.lines().filter(|line| line.starts_with(row));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let mut pairs = names.split(' ').zip(values.split(' '));
        let (_, value) = pairs.find(|(name, _)| *name == column).unwrap();
        value.parse().unwrap()
    };
    let own = count("/proc/net/snmp", "Ip:", "OutNoRoutes");
    let passed_on = count("/proc/net/netstat", "IpExt:", "InNoRoutes");
    // There is no such file where the kernel has no IPv6, and then nobody can try it.
    let six = if Path::new("/proc/net/snmp6").exists() {
        let text = island.read("/proc/net/snmp6");
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("Ip6OutNoRoutes"));
        count.unwrap().trim().parse().unwrap()
    } else {
        0
    };
    [own, passed_on, six]
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn a_bundle_is_all_that_is_needed() {
    let mut trial = Trial::begin("a_bundle_is_all_that_is_needed");
    // Not below the temporary folder, which may be memory.
    let store = tempfile::Builder::new()
        .prefix("mullion-island-")
        .tempdir_in("/var/tmp")
        .unwrap();
    let island = NetworkNamespace::new("mullion-island");
    assert_eq!(island.ip("route"), "");
    let mut lab = Lab::built_in("island");
    let bundle = store.path().join("bundle");
    let _ = lab
        .run(&["artifacts", "bundle", &bundle.display().to_string()])
        .good();
    let size = fs_err::metadata(&bundle).unwrap().len() >> 20;
    trial.lap(&format!("a bundle of {size} MiB"));

    let at = |name: &str| store.path().join(name).display().to_string();
    lab.environment.extend([
        ("XDG_CACHE_HOME".into(), at("cache")),
        ("MULLION_PLACE".into(), at("place")),
    ]);
    // Whatever leads outside would not, and must not be asked for.
    for name in [
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        lab.environment.push((name.into(), String::new()));
    }
    let offline = format!(
        "artifacts: {{offline: true, bundle: {}}}\n",
        bundle.display()
    );
    lab.write(&format!("{BUILT_IN}{offline}"));
    lab.through = island.enter();
    let _ = lab.up();
    trial.lap("up, with no cache and no template");
    lab.is_up(&NODES);
    lab.all_pods_run();
    let _ = lab.has_nothing_to_do();
    assert_eq!(refused(&island), [0, 0, 0], "somebody looked for a way out");
    trial.lap("all Ready, and nobody looked for a way out");
    let _ = lab.down();
    assert!(!lab.machine("").exists(), "machines are left");
    let links = island.ip("-brief link");
    assert_eq!(links.lines().count(), 1, "{links}");
    drop(lab);
    drop(island);
    no_mount_is_below(store.path());
    store.close().unwrap();
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}

/// Removing a folder removes what is mounted there too.
#[track_caller]
fn no_mount_is_below(folder: &Path) {
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
    let is_below = |line: &&str| {
        let point = line.split(' ').nth(4);
        point.is_some_and(|point| Path::new(point).starts_with(folder))
    };
    let below: Vec<_> = mounts.lines().filter(is_below).collect();
    assert!(below.is_empty(), "{below:#?}");
}
