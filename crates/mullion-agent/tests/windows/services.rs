//! The service control manager, with services that end in every way that services have.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mullion_agent::system::registry::Value;
use mullion_agent::system::windows::Windows as Own;
use mullion_agent::system::{
    Account, Activity, Ended, OnlyWindows as _, Program, Programs as _, Removed, Services as _,
    Stopped,
};
use mullion_wire::{Definition, Recovery, Start};

pub(crate) fn definition(command: &str) -> Definition {
    Definition {
        display_name: "Mullion test".into(),
        command: command.into(),
        depends_on: ["RpcSs".to_owned()].into(),
        start: Start::Delayed,
        recovery: Recovery {
            restart_after_ms: vec![10_000, 60_000],
            reset_after_s: 86_400,
        },
        environment: [("NODE_NAME".to_owned(), "win1".to_owned())].into(),
    }
}

/// The program that is a service, and how it is to end.
pub(crate) fn service(way: &str, name: &str, file: &str) -> String {
    let program = std::env::var("MULLION_TEST_SERVICE").unwrap();
    format!("{program} {way} {name} {file}")
}

/// How often a service was started that writes it down in a file.
pub(crate) fn starts(file: &str) -> usize {
    fs_err::read_to_string(file).map_or(0, |text| text.lines().count())
}

#[test]
fn a_service_is_defined_as_asked_and_leaves_nothing() {
    let (own, name) = (Own::new(), "mullion-test-defined");
    assert_eq!(own.definition(name).unwrap(), None);
    let mut wanted = definition(r#""C:\Program Files\none.exe" --flag="a b""#);
    own.define(name, &wanted, &Account::system()).unwrap();
    assert_eq!(own.definition(name).unwrap().as_ref(), Some(&wanted));
    wanted.command.push_str(" --v=2");
    wanted.depends_on.clear();
    wanted.environment.clear();
    wanted.start = Start::OnDemand;
    wanted.recovery = Recovery::default();
    own.define(name, &wanted, &Account::system()).unwrap();
    assert_eq!(own.definition(name).unwrap().as_ref(), Some(&wanted));
    let facts = own.services(&[name]).unwrap()[name];
    assert_eq!(
        (facts.is_enabled, facts.activity),
        (false, Activity::Stopped)
    );
    wanted.start = Start::Disabled;
    own.define(name, &wanted, &Account::system()).unwrap();
    assert_eq!(own.definition(name).unwrap().as_ref(), Some(&wanted));
    own.enable(&[name]).unwrap();
    assert!(own.services(&[name]).unwrap()[name].is_enabled);
    assert_eq!(own.undefine(name).unwrap(), Removed::Gone);
    assert_eq!(own.undefine(name).unwrap(), Removed::Nothing);
    assert_eq!(own.definition(name).unwrap(), None);
}

#[test]
fn what_windows_keeps_of_failures_comes_back() {
    let (own, name) = (Own::new(), "mullion-test-failures");
    let wanted = definition(r"C:\none.exe");
    own.define(name, &wanted, &Account::system()).unwrap();
    let numbers = |all: &[u32]| Value {
        kind: 3,
        bytes: all.iter().copied().flat_map(u32::to_le_bytes).collect(),
    };
    // A program that is run, and a reboot.
    let theirs: BTreeMap<_, _> = [
        (
            "FailureActions",
            numbers(&[60, 1, 1, 2, 20, 3, 1000, 2, 5000]),
        ),
        ("FailureCommand", Value::string(r"C:\tell.exe")),
        ("RebootMessage", Value::string("it failed")),
        ("FailureActionsOnNonCrashFailures", Value::dword(1)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for values in [theirs.clone(), BTreeMap::new(), theirs] {
        own.set_failures(name, &values).unwrap();
        assert_eq!(own.failures(name).unwrap(), values);
        own.define(name, &wanted, &Account::system()).unwrap();
        assert_eq!(own.definition(name).unwrap().as_ref(), Some(&wanted));
    }
    own.undefine(name).unwrap();
}

#[test]
fn mode_14_a_service_is_the_system_s_own_whoever_it_was_made_for() {
    let (own, name) = (Own::new(), "mullion-test-account");
    let wanted = definition(r"C:\none.exe");
    own.define(name, &wanted, &Account::system()).unwrap();
    assert_eq!(own.account(name).unwrap(), Account::system());
    own.undefine(name).unwrap();
    let by_others = ["create", name, "binPath=", r"C:\none.exe"];
    let theirs = r"NT AUTHORITY\LocalService";
    let account = ["obj=", theirs];
    let made = Program::new("sc.exe", by_others.into_iter().chain(account));
    assert_eq!(own.run(&made, &mut |_| {}).unwrap(), Ended::Status(0));
    assert_eq!(own.account(name).unwrap(), Account::new(theirs));
    own.define(name, &wanted, &Account::system()).unwrap();
    assert_eq!(own.account(name).unwrap(), Account::system());
    // And theirs again where it is given back.
    for account in [theirs, r"NT SERVICE\mullion-test-account"].map(Account::new) {
        own.define(name, &wanted, &account).unwrap();
        assert_eq!(own.account(name).unwrap(), account);
    }
    own.undefine(name).unwrap();
}

/// Starts, restarts, stops and removes a service; gives back how it stopped.
fn live(own: &Own, name: &str, command: &str) -> Stopped {
    own.define(name, &definition(command), &Account::system())
        .unwrap();
    let activity = || own.services(&[name]).unwrap()[name].activity;
    let file = format!(r"C:\{name}.txt");
    own.start(name).unwrap();
    assert_eq!(activity(), Activity::Running);
    own.start(name).unwrap();
    assert_eq!(starts(&file), 1);
    let first = own.service_started(name).unwrap().unwrap();
    assert_eq!(own.service_started(name).unwrap(), Some(first));
    let restarted = own.restart(name, &[name.to_owned()].into()).unwrap();
    assert_eq!(activity(), Activity::Running);
    assert!(own.service_started(name).unwrap() > Some(first));
    assert_eq!(starts(&file), 2);
    let stopped = own.stop(name, &[name.to_owned()].into()).unwrap();
    assert_eq!(activity(), Activity::Stopped);
    assert_eq!(own.service_started(name).unwrap(), None);
    assert_eq!(
        own.stop(name, &[name.to_owned()].into()).unwrap(),
        Stopped::ByItself
    );
    // However it stopped, it is started again when it fails the next time.
    let found = own.definition(name).unwrap();
    assert_eq!(found, Some(definition(command)));
    assert_eq!(
        matches!(restarted, Stopped::Ended(_)),
        matches!(stopped, Stopped::Ended(_))
    );
    own.undefine(name).unwrap();
    fs_err::remove_file(file).unwrap();
    stopped
}

#[test]
#[ignore = "needs a program that is a service, named by MULLION_TEST_SERVICE; cargo xtask test runs it"]
fn a_service_starts_restarts_and_stops() {
    let own = Own::new();
    for (name, way) in [
        ("mullion-test-alone", "by-itself"),
        ("mullion-test-silent", "silently"),
    ] {
        let command = service(way, name, &format!(r"C:\{name}.txt"));
        assert_eq!(live(&own, name, &command), Stopped::ByItself, "{way}");
    }
}

#[test]
#[ignore = "needs a program that is a service, named by MULLION_TEST_SERVICE; cargo xtask test runs it"]
fn a_service_below_another_program_stops_too() {
    let (own, program) = (Own::new(), std::env::var("MULLION_TEST_SERVICE").unwrap());
    for (name, way) in [
        ("mullion-test-below", "by-itself"),
        ("mullion-test-below-silent", "silently"),
    ] {
        let below = service(way, name, &format!(r"C:\{name}.txt"));
        let command = format!("{program} run {below}");
        assert_eq!(live(&own, name, &command), Stopped::ByItself, "{way}");
    }
}

#[test]
#[ignore = "needs a program that is a service, named by MULLION_TEST_SERVICE; cargo xtask test runs it"]
fn a_service_that_does_not_stop_is_ended_with_the_program_below_it() {
    let (program, name) = (
        std::env::var("MULLION_TEST_SERVICE").unwrap(),
        "mullion-test-never",
    );
    let own = Own::new().stopping_within(Duration::from_secs(2));
    let below = service("never", name, &format!(r"C:\{name}.txt"));
    let begun = Instant::now();
    let Stopped::Ended(ended) = live(&own, name, &format!("{program} run {below}")) else {
        panic!("it ended by itself");
    };
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(
        ended.iter().all(|one| one.starts_with("service.exe (")),
        "{ended:?}"
    );
    assert!(begun.elapsed() < Duration::from_mins(1));
}
