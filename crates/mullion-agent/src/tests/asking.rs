//! Requests that are refused, and what facts tell.

use mullion_wire::{Event, Facts, Patience, Request, UserCommand, write_line, write_request};

use super::fixtures::*;
use crate::system::memory::{Memory, Node};
use crate::system::{Ended, Owner, System as _};

fn facts(machine: &Memory) -> Facts {
    let (_, events) = ask_well(machine, &Request::Facts);
    match &events[0] {
        Event::Facts { facts } => (**facts).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_newer_request_is_refused_with_both_versions_and_a_remedy() {
    let (_, events) = ask_line(&machine(), "{\"version\":99,\"ask\":\"dance\"}\n");
    let words = failure(&events);
    assert!(
        words.contains("version 99") && words.contains("up to version 1"),
        "{words}"
    );
    assert!(words.contains("mullion up"), "{words}");
}

#[test]
fn a_newer_blueprint_is_refused_before_anything_is_touched() {
    let machine = machine();
    let mut newer = blueprint();
    newer.version = 7;
    let words = ask_badly(&machine, &apply(&newer));
    assert!(
        words.starts_with("the blueprint speaks version 7"),
        "{words}"
    );
    assert!(machine.log().is_empty());
}

#[test]
fn a_machine_that_was_prepared_as_one_is_not_prepared_as_another() {
    let machine = machine();
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    let before = machine.log().len();
    let mut other = blueprint();
    other.machine = "lin2".into();
    let words = ask_badly(&machine, &apply(&other));
    assert!(
        words.starts_with("the blueprint is for `lin2` and this machine is `lin1`"),
        "{words}"
    );
    assert_eq!(machine.log().len(), before, "nothing was touched");
}

#[test]
fn a_machine_that_existed_before_us_keeps_its_host_name() {
    let machine = Memory::new("db7.example.org");
    let mut small = blueprint();
    small.files.clear();
    small.services.clear();
    small.packages.clear();
    small.modules.clear();
    small.sysctls.clear();
    ask_well(&machine, &apply(&small));
}

#[test]
fn nonsense_is_refused() {
    for line in [
        "",
        "\n",
        "{}",
        "hello\n",
        "{\"version\":1,\"ask\":\"dance\"}\n",
    ] {
        let (_, events) = ask_line(&machine(), line);
        failure(&events);
    }
    let long = "x".repeat(3 * 1024 * 1024);
    let (_, events) = ask_line(&machine(), &long);
    assert!(failure(&events).contains("longer than"));
}

#[test]
fn blueprints_that_cannot_be_are_refused() {
    let changes: [fn(&mut mullion_wire::Blueprint); 6] = [
        |blueprint| blueprint.files[0].path = "etc/relative".into(),
        |blueprint| blueprint.files[0].path = "/etc/../shadow".into(),
        |blueprint| blueprint.files[0].path = "/var/lib/mullion/state.json".into(),
        |blueprint| blueprint.files[0] = blueprint.files[1].clone(),
        |blueprint| blueprint.modules = ["--remove".to_owned()].into(),
        |blueprint| blueprint.services[1].after = ["kubelet".to_owned()].into(),
    ];
    for change in changes {
        let mut bad = blueprint();
        change(&mut bad);
        let machine = machine();
        let words = ask_badly(&machine, &apply(&bad));
        assert!(words.starts_with("the blueprint cannot be"), "{words}");
        assert!(machine.log().is_empty());
    }
}

#[test]
fn a_second_agent_is_told_who_is_at_work() {
    let machine = machine();
    machine.hold_lock("process 42, running kubeadm");
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(words.contains("process 42, running kubeadm"), "{words}");
    // Looking is always possible.
    ask_well(&machine, &Request::Facts);
}

/// A connection whose other end goes while an agent waits for its turn.
struct Lost {
    heard: Vec<u8>,
    /// So many lines are heard.
    lines: usize,
}

impl std::io::Write for Lost {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.heard.split(|byte| *byte == b'\n').count() > self.lines {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.heard.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_agent_is_as_patient_as_who_asks() {
    let machine = machine();
    let patient = Patience::of_hundredths(300);
    let line = write_request(&Request::Facts, patient).unwrap();
    ask_line(&machine, &line);
    assert_eq!(machine.patience(), patient);
}

#[test]
fn what_was_asked_for_by_somebody_who_is_gone_is_not_begun_after_others_had_their_turn() {
    let line = mullion_wire::write_line(&apply(&blueprint())).unwrap();
    // The first line says that another agent is at work, the second that it is over.
    for (lines, is_done) in [(1, false), (2, true)] {
        let machine = machine();
        bring(&machine, &[program("c"), program("k")]);
        machine.hold_lock_for("another reset", std::rc::Rc::new(|_: &Memory| {}));
        let mut events = Lost {
            heard: Vec::new(),
            lines,
        };
        let wait = std::time::Duration::from_secs(1);
        let outcome = crate::serve(&machine, &mut line.as_bytes(), &mut events, wait);
        // Once it has begun it goes on to its end, whoever listens.
        assert_eq!(outcome == crate::Outcome::Done, is_done);
        assert_eq!(facts(&machine).blueprint.is_some(), is_done);
    }
}

#[test]
fn facts_name_the_blueprint_as_long_as_all_of_it_is_so() {
    let machine = machine();
    assert_eq!(facts(&machine).blueprint, None);
    bring(&machine, &[program("c"), program("k")]);
    ask_well(&machine, &apply(&blueprint()));
    let found = facts(&machine);
    assert_eq!(found.blueprint, Some(blueprint().digest()));
    assert_eq!(found.mark.unwrap().0, serde_json::json!({"seen": 1}));

    machine.put_file("/etc/motd", b"by hand\n", 0o644);
    machine.put_setting("net.ipv4.ip_forward", "0");
    let _ = crate::system::Services::stop(&machine, "containerd", &[].into()).unwrap();
    let found = facts(&machine);
    assert_eq!(found.blueprint, None);
    assert_eq!(
        found.drift,
        [
            "`/etc/motd` was changed",
            "`net.ipv4.ip_forward` is not `1`",
            "the service `containerd` does not run"
        ]
    );
    ask_well(&machine, &apply(&blueprint()));
    assert!(facts(&machine).blueprint.is_some());
}

#[test]
fn facts_change_nothing_on_a_machine_that_nobody_touched() {
    let machine = machine();
    facts(&machine);
    assert!(machine.log().is_empty(), "{:?}", machine.log());
}

#[test]
fn kubelet_is_asked_for_its_version_once() {
    let machine = machine();
    let version = |_: &Memory, program: &crate::system::Program, on_line: &mut dyn FnMut(&str)| {
        assert_eq!(program.args, ["--version"]);
        on_line("Kubernetes v1.36.4");
        Ok(Ended::Status(0))
    };
    machine.put_program("kubelet", std::rc::Rc::new(version));
    bring(&machine, &[]);
    for _ in 0..2 {
        assert_eq!(facts(&machine).kubelet.as_deref(), Some("v1.36.4"));
    }
    let runs = machine
        .log()
        .iter()
        .filter(|line| line.starts_with("run "))
        .count();
    assert_eq!(runs, 1);
}

#[test]
fn what_kubelet_complains_of_is_told_and_nothing_is_changed() {
    let machine = machine();
    // Somebody else may be at work here: nobody waits to be told.
    machine.hold_lock("kubeadm join");
    let (changed, events) = ask_well(&machine, &Request::KubeletLog);
    assert_eq!(changed, 0);
    let lines = events.iter().filter_map(|event| match event {
        Event::Output { line } => Some(line.as_str()),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 10, "{lines:?}");
    assert_eq!(lines[9], "kubelet: line 10 of kubelet");
    assert!(machine.log().is_empty(), "{:?}", machine.log());
}

#[test]
fn commands_run_once_each_and_a_failed_one_again() {
    let machine = machine();
    let shell =
        |machine: &Memory, program: &crate::system::Program, on_line: &mut dyn FnMut(&str)| {
            on_line("token abcdef.0123456789abcdef");
            let is_bad = program.args[1] == "bad" && machine.file("/etc/mended").is_none();
            Ok(Ended::Status(i32::from(is_bad)))
        };
    machine.put_program("sh", std::rc::Rc::new(shell));
    let command = |run: &str| UserCommand {
        run: run.into(),
        mark: format!("mark of {run}"),
    };
    let request = Request::Run {
        commands: vec![command("good"), command("bad"), command("last")],
        list: "before".into(),
    };
    let (_, events) = ask(&machine, &request);
    let words = failure(&events);
    assert!(
        words.starts_with("command 2 of `before` ended with status 1"),
        "{words}"
    );
    let said = events
        .iter()
        .map(|event| write_line(event).unwrap())
        .collect::<String>();
    assert!(!said.contains("0123456789abcdef"), "{said}");
    assert_eq!(
        facts(&machine).ran["before"],
        ["mark of good".to_owned()].into()
    );
    machine.put_file("/etc/mended", b"", 0o644);
    let (changed, _) = ask_well(&machine, &request);
    assert_eq!(changed, 2, "the first is not run again");
    assert_eq!(ask_well(&machine, &request).0, 0);
    assert_eq!(facts(&machine).ran["before"].len(), 3);
}

#[test]
fn a_damaged_or_newer_state_is_told_and_not_overwritten() {
    let machine = machine();
    for (state, words) in [
        ("{\"version\":", "cannot be read"),
        ("{\"version\":9}", "speaks version 9"),
    ] {
        machine.put_file("/var/lib/mullion/state.json", state.as_bytes(), 0o600);
        let told = ask_badly(&machine, &apply(&blueprint()));
        assert!(told.contains(words), "{told}");
        assert_eq!(machine.file("/var/lib/mullion/state.json").unwrap(), state);
    }
}

#[test]
fn promise_06_a_state_that_is_no_file_is_told_and_not_taken_for_missing() {
    let windows = Memory::windows("win1");
    for (machine, path) in [
        (machine(), "/var/lib/mullion/state.json"),
        (windows, "C:/Program Files/mullion/state.json"),
    ] {
        let link = Node::Link {
            target: "/nowhere".into(),
            owner: Owner::Agent,
        };
        for node in [Node::Folder { mode: 0o700 }, link] {
            machine.put(path, node);
            // A request that would change something takes its turn first.
            let all = || {
                let mut nodes = machine.nodes();
                nodes.retain(|path, _| !path.contains(".lock"));
                nodes
            };
            let before = all();
            for request in [Request::Facts, Request::Revert] {
                let told = ask_badly(&machine, &request);
                assert!(told.contains(path), "{told}");
            }
            assert_eq!(all(), before);
        }
    }
}

#[test]
fn whose_a_machine_is_outlives_what_is_wrong_with_it() {
    let whole = machine();
    bring(&whole, &[program("c"), program("k")]);
    ask_well(&whole, &apply(&blueprint()));
    let claim = facts(&whole).claim;
    assert!(claim.is_some());
    whole.put_file("/etc/containerd/config.toml", b"changed", 0o644);
    let drifted = facts(&whole);
    assert_eq!((drifted.mark, drifted.claim), (None, claim.clone()));

    // Cut off in the middle of its first apply.
    let cut = machine();
    bring(&cut, &[program("c"), program("k")]);
    cut.kill_at(12);
    ask(&cut, &apply(&blueprint()));
    cut.revive();
    let found = facts(&cut);
    assert_eq!((found.mark, found.claim), (None, claim));
}
