//! kubeadm: run once, cleared where it was cut off, and never heard with its secrets.

use std::rc::Rc;

use mullion_wire::{Event, Kubeadm, Request, Secret, Sha256Digest, write_line};

use super::fixtures::*;
use super::killed::outlive_every_kill;
use crate::system::memory::{Memory, Node};
use crate::system::{Activity, Ended, Files as _, Program, Services as _, SystemError};

const SECRET: &str = "abcdef.0123456789abcdef";
const CA: &str = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
/// [`CA`] in base64.
const CA_DATA: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmFHVnNiRzg9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";
const DISCOVERY: &str = "/run/mullion/discovery.conf";

/// Writes a file and the folders above it, each an operation.
fn deep_write(machine: &Memory, path: &str, text: &str) -> Result<(), SystemError> {
    let mut missing = Vec::new();
    let mut folder = crate::system::parent(path);
    while let Some(path) = folder {
        if machine.look(path)?.is_some() {
            break;
        }
        missing.push(path);
        folder = crate::system::parent(path);
    }
    for folder in missing.into_iter().rev() {
        machine.make_folder(folder, 0o755)?;
    }
    machine.write(path, text.as_bytes(), 0o600)
}

/// A kubeadm that does in small steps what the real one does, is as picky, and leaves as much behind.
fn kubeadm(
    machine: &Memory,
    program: &Program,
    on_line: &mut dyn FnMut(&str),
) -> Result<Ended, SystemError> {
    let step = program.args[0].as_str();
    on_line(&format!("[{step}] begun"));
    if step == "reset" {
        if machine.look("/etc/broken-reset")?.is_some() {
            return Ok(Ended::Status(1));
        }
        let _ = machine.stop("kubelet", &[].into())?;
        machine.remove("/etc/kubernetes/manifests/kube-apiserver.yaml")?;
        for name in ["admin", "kubelet", "bootstrap-kubelet"] {
            machine.remove(&format!("/etc/kubernetes/{name}.conf"))?;
        }
        return Ok(Ended::Status(0));
    }
    for left in [
        "/etc/kubernetes/kubelet.conf",
        "/etc/kubernetes/pki/ca.crt",
        "/etc/kubernetes/manifests/kube-apiserver.yaml",
        "/var/lib/etcd/member",
        "/var/lib/kubelet/pki",
        "/etc/cni/net.d/10-old.conflist",
    ] {
        if machine.look(left)?.is_some() {
            on_line(&format!("[preflight] {left} is there"));
            return Ok(Ended::Status(1));
        }
    }
    let config = program
        .args
        .iter()
        .position(|arg| arg == "--config")
        .unwrap();
    let config = &program.args[config + 1];
    let look = machine.look(config)?.unwrap();
    assert_eq!(look.mode, 0o600);
    assert_eq!(machine.look("/run/mullion")?.unwrap().mode, 0o700);
    assert!(!program.args.iter().any(|arg| arg.contains(SECRET)));
    if machine.look("/etc/no-api-server")?.is_some() {
        on_line(&format!("[join] the server is not there; token {SECRET}"));
        return Ok(Ended::Status(1));
    }
    deep_write(machine, "/etc/kubernetes/pki/ca.crt", CA)?;
    deep_write(machine, "/etc/kubernetes/bootstrap-kubelet.conf", SECRET)?;
    deep_write(machine, "/var/lib/kubelet/config.yaml", "kubelet")?;
    deep_write(machine, "/var/lib/kubelet/pki/kubelet.crt", "certificate")?;
    machine.start("kubelet")?;
    deep_write(machine, "/etc/kubernetes/kubelet.conf", "kubelet.conf")?;
    machine.remove("/etc/kubernetes/bootstrap-kubelet.conf")?;
    if step == "init" {
        deep_write(
            machine,
            "/etc/kubernetes/manifests/kube-apiserver.yaml",
            "pod",
        )?;
        deep_write(machine, "/var/lib/etcd/member/db", "data")?;
        deep_write(machine, "/etc/cni/net.d/10-old.conflist", "network")?;
        deep_write(
            machine,
            "/etc/kubernetes/admin.conf",
            "the admin's kubeconfig",
        )?;
        on_line(&format!("  kubeadm join 10.0.0.1:6443 --token {SECRET} \\"));
    } else {
        assert!(machine.look(DISCOVERY)?.is_some());
    }
    Ok(Ended::Status(0))
}

fn node() -> Memory {
    let machine = machine();
    machine.put_program("kubeadm", Rc::new(kubeadm));
    machine.put_service("kubelet", true, Activity::Stopped);
    machine.put_service("containerd", true, Activity::Stopped);
    machine.put("/etc/kubernetes/patches", Node::Folder { mode: 0o755 });
    machine.put("/var/lib/etcd", Node::Folder { mode: 0o700 });
    machine
}

fn init() -> Request {
    Request::Kubeadm {
        step: Kubeadm::Init {
            config: Secret::new(format!(
                "token: {SECRET}\npatches: {{directory: /etc/kubernetes/patches}}\n"
            )),
            ignore: ["SystemVerification".to_owned(), "Swap".to_owned()].into(),
            upload_certs: true,
            patches: Some("/etc/kubernetes/patches".into()),
        },
    }
}

fn join_with(discovery: &str) -> Request {
    Request::Kubeadm {
        step: Kubeadm::Join {
            config: Secret::new(format!("token: {SECRET}\n")),
            discovery: Secret::new(discovery),
            discovery_path: DISCOVERY.into(),
            ignore: std::collections::BTreeSet::new(),
            patches: None,
        },
    }
}

fn join() -> Request {
    join_with(&format!(
        "clusters:\n- cluster:\n    certificate-authority-data: {CA_DATA}\n"
    ))
}

fn reset() -> Request {
    Request::Kubeadm {
        step: Kubeadm::Reset,
    }
}

fn admin(events: &[Event]) -> Option<String> {
    let done = events.iter().find_map(|event| match event {
        Event::Kubeadm { done } => Some(done),
        _ => None,
    })?;
    done.admin.as_ref().map(|admin| admin.reveal().to_owned())
}

/// No secret of a configuration is on the machine.
fn check_no_secrets(machine: &Memory) {
    let with_secret: Vec<_> = see(machine)
        .nodes
        .into_iter()
        .filter(|(_, (text, _))| text.contains(SECRET) || text.contains(CA_DATA))
        .map(|(path, _)| path)
        .collect();
    assert!(with_secret.is_empty(), "{with_secret:?}");
}

fn facts(machine: &Memory) -> mullion_wire::Facts {
    let (_, events) = ask_well(machine, &Request::Facts);
    match &events[0] {
        Event::Facts { facts } => (**facts).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_init_gives_the_admin_and_a_second_one_runs_nothing() {
    let machine = node();
    let (changed, events) = ask_well(&machine, &init());
    assert_eq!(changed, 1);
    assert_eq!(admin(&events).unwrap(), "the admin's kubeconfig");
    check_no_secrets(&machine);
    let found = facts(&machine);
    assert_eq!(found.joined, Some(Sha256Digest::of(b"hello")));
    assert!(found.control_plane);

    let runs = |machine: &Memory| {
        machine
            .log()
            .iter()
            .filter(|line| line.starts_with("run"))
            .count()
    };
    let before = runs(&machine);
    let (changed, events) = ask_well(&machine, &init());
    assert_eq!((changed, runs(&machine)), (0, before));
    assert_eq!(admin(&events).unwrap(), "the admin's kubeconfig");
}

#[test]
fn what_kubeadm_writes_is_heard_without_its_secrets() {
    let machine = node();
    let (_, events) = ask_well(&machine, &init());
    let said: String = events
        .iter()
        .map(|event| write_line(event).unwrap())
        .collect();
    assert!(said.contains("--token [masked]"), "{said}");
    assert!(!said.contains(SECRET), "{said}");
}

#[test]
fn a_failed_join_tells_kubeadms_and_kubelets_last_lines_without_secrets() {
    let machine = node();
    machine.put_file("/etc/no-api-server", b"", 0o644);
    let words = ask_badly(&machine, &join());
    assert!(
        words.starts_with("`kubeadm join` ended with status 1"),
        "{words}"
    );
    assert!(
        words.contains("the server is not there; token [masked]"),
        "{words}"
    );
    assert!(words.contains("kubelet: line 10 of kubelet"), "{words}");
    check_no_secrets(&machine);
    assert_eq!(facts(&machine).joined, None);
    machine.set_kubelet_health(true);
    let words = ask_badly(&machine, &join());
    assert!(!words.contains("kubelet: line"), "{words}");

    machine.remove("/etc/no-api-server").unwrap();
    ask_well(&machine, &join());
    assert_eq!(facts(&machine).joined, Some(Sha256Digest::of(b"hello")));
}

#[test]
fn memory_that_ran_out_is_told_with_what_to_do() {
    let machine = node();
    machine.put_program(
        "kubeadm",
        Rc::new(|machine, _, _| {
            machine.starve();
            Ok(Ended::Signal(9))
        }),
    );
    let words = ask_badly(&machine, &join());
    let said = "memory ran out on lin1\n[\"`kubeadm join` was ended by signal 9\"]";
    assert!(words.starts_with(said), "{words}");
    let (_, events) = ask(&machine, &join());
    let hint = events.iter().find_map(|event| match event {
        Event::Failed { hint, .. } => hint.clone(),
        _ => None,
    });
    assert!(hint.unwrap().contains("more memory"));
}

#[test]
fn a_join_runs_once_and_refuses_another_cluster() {
    let machine = node();
    ask_well(&machine, &join());
    assert_eq!(ask_well(&machine, &join()).0, 0);
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCllubGwKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    let other = join_with(&format!("certificate-authority-data: {pem}\n"));
    let words = ask_badly(&machine, &other);
    assert!(
        words.starts_with("this machine is a node of another cluster"),
        "{words}"
    );
}

#[test]
fn a_node_whose_agent_lost_its_memory_is_taken_as_it_is() {
    let machine = node();
    ask_well(&machine, &join());
    machine.set_kubelet_health(true);
    machine.remove("/var/lib/mullion").unwrap();
    assert_eq!(ask_well(&machine, &join()).0, 0);
    machine.remove("/var/lib/mullion").unwrap();
    machine.set_kubelet_health(false);
    let words = ask_badly(&machine, &join());
    assert!(words.contains("not by this agent"), "{words}");
}

#[test]
fn a_control_plane_of_others_is_never_wiped() {
    for path in ["/etc/kubernetes/admin.conf", "/var/lib/etcd/member/db"] {
        let machine = node();
        machine.put_file(path, b"theirs", 0o600);
        let words = ask_badly(&machine, &init());
        assert!(words.contains("not by this agent"), "{words}");
        assert_eq!(machine.file(path).unwrap(), "theirs");
        assert!(!machine.log().iter().any(|line| line.starts_with("run")));
    }
}

#[test]
fn a_finished_control_plane_that_lacks_a_file_is_never_wiped() {
    let machine = node();
    ask_well(&machine, &init());
    machine.remove("/etc/kubernetes/kubelet.conf").unwrap();
    let words = ask_badly(&machine, &init());
    assert!(
        words.contains("`/etc/kubernetes/kubelet.conf` is missing"),
        "{words}"
    );
    assert_eq!(machine.file("/var/lib/etcd/member/db").unwrap(), "data");
}

#[test]
fn preflight_errors_are_ignored_by_name_only() {
    let machine = node();
    let mut args = Vec::new();
    let log = machine.log().len();
    ask_well(&machine, &init());
    assert!(machine.log().len() > log);
    machine.put_program(
        "kubeadm",
        Rc::new(|_, program, on_line| {
            on_line(&program.args.join(" "));
            Ok(Ended::Status(1))
        }),
    );
    ask_well(&machine, &reset());
    let (_, events) = ask(&machine, &init());
    for event in &events {
        if let Event::Output { line } = event {
            args.push(line.clone());
        }
    }
    assert_eq!(
        args,
        [
            "init --upload-certs --config /run/mullion/kubeadm.yaml --ignore-preflight-errors=Swap,SystemVerification"
        ]
    );
    let Request::Kubeadm {
        step: Kubeadm::Init { config, .. },
    } = init()
    else {
        unreachable!("made above");
    };
    let all = Request::Kubeadm {
        step: Kubeadm::Init {
            config,
            ignore: ["ALL".to_owned()].into(),
            upload_certs: false,
            patches: None,
        },
    };
    assert!(ask_badly(&machine, &all).contains("never `ALL`"));
}

#[test]
fn patches_that_kubeadm_would_not_apply_are_refused() {
    let machine = node();
    let with = |config: &str, folder: &str| Request::Kubeadm {
        step: Kubeadm::Init {
            config: Secret::new(config),
            ignore: std::collections::BTreeSet::new(),
            upload_certs: false,
            patches: Some(folder.into()),
        },
    };
    let folder = "/etc/kubernetes/patches";
    assert!(ask_badly(&machine, &with("a: 1", folder)).contains("is not named"));
    assert!(ask_badly(&machine, &with("directory: /nowhere", "/nowhere")).contains("is not there"));
}

#[test]
fn a_reset_leaves_nothing_that_breaks_the_next_init_and_twice_is_harmless() {
    let machine = node();
    let before = see(&machine).nodes;
    ask_well(&machine, &init());
    ask_well(&machine, &reset());
    let left: Vec<_> = see(&machine)
        .nodes
        .into_iter()
        .filter(|(path, (text, _))| {
            !before.contains_key(path)
                && text != "(folder)"
                && !path.starts_with("/var/lib/mullion")
                && path != "/run/mullion.lock"
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let found = facts(&machine);
    assert_eq!((found.joined, found.control_plane), (None, false));
    assert_eq!(
        machine.all_services()["kubelet"].activity,
        Activity::Stopped
    );
    let operations = machine.log().len();
    assert_eq!(ask_well(&machine, &reset()).0, 0);
    assert_eq!(machine.log().len(), operations);
    ask_well(&machine, &init());
}

#[test]
fn a_reset_goes_on_where_kubeadm_fails_or_is_missing() {
    let machine = node();
    ask_well(&machine, &init());
    machine.put_file("/etc/broken-reset", b"", 0o644);
    let (_, events) = ask_well(&machine, &reset());
    let told = events.iter().any(|event| {
        matches!(event, Event::Doing { words } if words.contains("the rest is done without it"))
    });
    assert!(told, "{events:?}");
    assert!(!facts(&machine).control_plane);
}

#[test]
fn the_admin_is_read_where_there_is_one() {
    let machine = node();
    let read = Request::Kubeadm {
        step: Kubeadm::ReadAdmin,
    };
    assert!(ask_badly(&machine, &read).contains("`/etc/kubernetes/admin.conf` is not there"));
    ask_well(&machine, &init());
    let (_, events) = ask_well(&machine, &read);
    assert_eq!(admin(&events).unwrap(), "the admin's kubeconfig");
}

/// Folders that kubeadm makes stay after a reset, and a join after a killed one may find them.
fn check_end(machine: &Memory) {
    check_no_secrets(machine);
    assert_eq!(
        machine.all_services()["kubelet"].activity,
        Activity::Running
    );
    assert!(facts(machine).joined.is_some());
}

/// A machine with every folder that kubeadm makes: a reset leaves them.
fn with_folders() -> Memory {
    let machine = node();
    for folder in [
        "/run/mullion",
        "/var/lib/mullion",
        "/var/lib/kubelet",
        "/etc/kubernetes/manifests",
        "/etc/cni/net.d",
    ] {
        machine.put(folder, Node::Folder { mode: 0o755 });
    }
    machine.put("/run/mullion", Node::Folder { mode: 0o700 });
    // A reset that follows a kill starts it; it stays.
    machine.put_service("containerd", true, Activity::Running);
    machine
}

#[test]
fn an_init_outlives_every_kill() {
    outlive_every_kill(&with_folders, &init(), &check_end);
}

#[test]
fn a_join_outlives_every_kill() {
    outlive_every_kill(&with_folders, &join(), &check_end);
}

#[test]
fn a_reset_outlives_every_kill() {
    let begin = || {
        let machine = with_folders();
        ask_well(&machine, &init());
        machine
    };
    let check = |machine: &Memory| assert!(!facts(machine).control_plane);
    outlive_every_kill(&begin, &reset(), &check);
}

fn hold(files: &[(&str, &str)]) -> Request {
    let files = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), Secret::new(*text)))
        .collect();
    Request::Kubeadm {
        step: Kubeadm::HoldAuthority { files },
    }
}

#[test]
fn authorities_are_laid_down_for_a_join_and_read_where_all_are_there() {
    let machine = node();
    let names = [
        "ca.crt",
        "ca.key",
        "etcd/ca.crt",
        "etcd/ca.key",
        "front-proxy-ca.crt",
        "front-proxy-ca.key",
        "sa.key",
        "sa.pub",
    ];
    let read = Request::Kubeadm {
        step: Kubeadm::ReadAuthority,
    };
    assert!(ask_badly(&machine, &read).contains("`/etc/kubernetes/pki/ca.crt` is not there"));
    let mut files: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
    files.push(("../../shadow", "not a certificate"));
    ask_well(&machine, &hold(&files));
    let seen = see(&machine).nodes;
    assert_eq!(
        seen["/etc/kubernetes/pki/etcd/ca.key"],
        ("etcd/ca.key".into(), 0o600)
    );
    assert_eq!(seen["/etc/kubernetes/pki/sa.pub"].1, 0o644);
    assert!(!seen.values().any(|(text, _)| text == "not a certificate"));
    let (_, events) = ask_well(&machine, &read);
    let Event::Authority { files } = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(files.len(), names.len());
    assert_eq!(files["sa.key"].reveal(), "sa.key");
    // What a join that never came would have used goes with a reset.
    ask_well(&machine, &reset());
    assert!(!see(&machine).nodes.contains_key("/etc/kubernetes/pki"));
}

#[test]
fn authorities_never_replace_those_of_a_node() {
    let files = [("ca.crt", "another")];
    let joined = node();
    ask_well(&joined, &join());
    ask_well(&joined, &hold(&files));
    assert_eq!(joined.file("/etc/kubernetes/pki/ca.crt").unwrap(), CA);
    let strange = node();
    strange.put_file("/etc/kubernetes/pki/ca.crt", b"theirs", 0o644);
    strange.put_file("/var/lib/etcd/member/db", b"theirs", 0o600);
    ask_well(&strange, &hold(&files));
    assert_eq!(
        strange.file("/etc/kubernetes/pki/ca.crt").unwrap(),
        "theirs"
    );
}

#[test]
fn a_kubelet_of_the_cluster_that_does_not_run_is_told_and_started() {
    let machine = node();
    let mut blueprint = super::fixtures::blueprint();
    let kubelets = blueprint.services.iter().find(|one| one.name == "kubelet");
    // One that works when the machine starts, and ends: nobody expects it to run.
    let mut at_start = kubelets.unwrap().clone();
    at_start.name = "at-start".into();
    blueprint.services.push(at_start);
    let contents = [super::fixtures::program("c"), super::fixtures::program("k")];
    super::fixtures::bring(&machine, &contents);
    machine.put_service("at-start", false, Activity::Stopped);
    ask_well(&machine, &super::fixtures::apply(&blueprint));
    // kubeadm starts it: until then nobody else does.
    let kubelet = |machine: &Memory| machine.all_services()["kubelet"].activity;
    assert_eq!(kubelet(&machine), Activity::Stopped);
    assert_eq!(facts(&machine).drift, Vec::<String>::new());
    ask_well(&machine, &init());
    machine.put_service("kubelet", true, Activity::Stopped);
    assert_eq!(
        facts(&machine).drift,
        ["the service `kubelet` does not run"]
    );
    ask_well(&machine, &super::fixtures::apply(&blueprint));
    assert_eq!(kubelet(&machine), Activity::Running);
    assert_eq!(facts(&machine).drift, Vec::<String>::new());
}

fn register() -> Request {
    Request::Kubeadm {
        step: Kubeadm::Register,
    }
}

#[test]
fn promise_04_a_registration_restarts_kubelet_and_touches_nothing_of_the_cluster() {
    for begin in [init(), join()] {
        let machine = node();
        let _ = ask_well(&machine, &begin);
        let before = see(&machine);
        let begun = machine.log().len();
        let (changed, _) = ask_well(&machine, &register());
        assert_eq!(changed, 1);
        assert_eq!(see(&machine), before, "files and services are as they were");
        let log = machine.log();
        let place = |words: &str| {
            let found = log[begun..].iter().position(|line| line == words);
            found.unwrap_or_else(|| panic!("no `{words}` in {:?}", &log[begun..]))
        };
        assert!(place("stop kubelet") < place("renew pods"));
        assert!(place("renew pods") < place("start kubelet"));
        let runs = log[begun..].iter().filter(|line| line.starts_with("run"));
        assert_eq!(runs.count(), 0, "kubeadm is not run");
    }
}

#[test]
fn promise_04_only_a_node_registers() {
    let empty = node();
    let words = ask_badly(&empty, &register());
    assert!(words.contains("kubelet.conf"), "{words}");
    let half = node();
    half.put_file("/etc/no-api-server", b"", 0o644);
    let _ = ask_badly(&half, &join());
    let begun = half.log().len();
    let _ = ask_badly(&half, &register());
    let log = half.log();
    assert!(
        !log[begun..].iter().any(|line| line.contains("kubelet")),
        "{log:?}"
    );
}

#[test]
fn promise_04_facts_name_the_node_and_the_end_of_its_certificate() {
    // That of a kubelet `lin1` that was good for the first day of 2020.
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBSjCB8gIBATAKBggqhkjOPQQDAjAyMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMx\n\
        GTAXBgNVBAMMEHN5c3RlbTpub2RlOmxpbjEwHhcNMjAwMTAxMDAwMDAwWhcNMjAw\n\
        MTAyMDAwMDAwWjAyMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxGTAXBgNVBAMMEHN5\n\
        c3RlbTpub2RlOmxpbjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASpPab4v+cf\n\
        kGc9vnRNeFGufKwGyFjND9nM7MyETYaQFA/Ke8+6+uTCwFftdoVCHJQ0dUXL7KUV\n\
        8bLrHW3Oi/dNMAoGCCqGSM49BAMCA0cAMEQCIHmoiaSeCPTzItb7ZS+YmPIpLJY0\n\
        zEr5SfDLC2x8BD6RAiAeR1azpYbIfRpRMi9xK6//XJVO8lQKKwkTa1N48FQEGw==\n\
        -----END CERTIFICATE-----\n";
    let machine = node();
    let _ = ask_well(&machine, &join());
    assert_eq!(facts(&machine).node, None);
    let path = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    machine.put_file(path, CERTIFICATE.as_bytes(), 0o600);
    let found = facts(&machine);
    assert_eq!(found.node.as_deref(), Some("lin1"));
    assert_eq!(found.certificate_expires, Some(1_577_923_200));
    assert_eq!(found.expired, None, "this machine's clock does not decide");
}
