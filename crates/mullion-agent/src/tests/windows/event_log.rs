//! What the event log of Windows tells of the agent's work.

use mullion_wire::{Request, UserCommand};

use super::{apply, ask_badly, ask_well, blueprint, check_untouched, fresh, ready};
use crate::system::{LogEntry, OnlyWindows as _};

const SOURCE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\Mullion";

#[test]
fn what_was_applied_what_failed_and_what_was_put_back_is_logged() {
    let machine = ready();
    machine.break_service("containerd");
    ask_badly(&machine, &apply(&blueprint()));
    machine.mend_service("containerd");
    ask_well(&machine, &apply(&blueprint()));
    ask_well(&machine, &Request::Facts);
    ask_well(&machine, &Request::Revert);
    let (entries, words): (Vec<_>, Vec<_>) = machine.events().into_iter().unzip();
    let expected = [LogEntry::Failed, LogEntry::Applied, LogEntry::PutBack];
    assert_eq!(entries, expected, "facts change nothing");
    assert!(words[0].contains("containerd"), "{}", words[0]);
    for part in ["the blueprint of win1", "started anew", "page file"] {
        assert!(words[1].contains(part), "{}", words[1]);
    }
}

#[test]
fn the_source_is_there_from_apply_to_revert() {
    let machine = ready();
    ask_well(&machine, &apply(&blueprint()));
    let types = machine.value(SOURCE, "TypesSupported").unwrap().unwrap();
    assert_eq!(types.number(), Some(7));
    let file = machine.value(SOURCE, "EventMessageFile").unwrap().unwrap();
    assert!(file.text().unwrap().ends_with("EventCreate.exe"));
    ask_well(&machine, &Request::Revert);
    assert!(!machine.has_key(SOURCE).unwrap());
    check_untouched(&machine);
}

#[test]
fn features_before_any_blueprint_are_logged_under_a_known_source() {
    let machine = fresh();
    let source = || machine.has_key(SOURCE).unwrap();
    let enable = |name: &str| Request::Enable {
        features: [name.to_owned()].into(),
    };
    ask_badly(&machine, &enable("Container"));
    ask_well(&machine, &enable("Containers"));
    let (entries, words): (Vec<_>, Vec<_>) = machine.events().into_iter().unzip();
    assert_eq!(entries, [LogEntry::Failed, LogEntry::Applied]);
    assert!(words[1].contains("features Containers"), "{}", words[1]);
    assert!(source());
    ask_well(&machine, &Request::Revert);
    assert!(!source());
    check_untouched(&machine);
}

#[test]
fn nothing_is_logged_before_the_source_is_known() {
    let machine = ready();
    ask_badly(&machine, &apply(&crate::tests::fixtures::blueprint()));
    let fails = Request::Run {
        list: "before".into(),
        // There is no program to run it.
        commands: vec![UserCommand {
            run: "theirs".into(),
            mark: "theirs".into(),
        }],
    };
    ask_badly(&machine, &fails);
    assert_eq!(machine.events(), []);
    assert!(!machine.has_key(SOURCE).unwrap());
}

#[test]
fn a_log_that_takes_nothing_fails_nothing() {
    let machine = ready();
    machine.break_event_log();
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    assert!(changed > 0);
    ask_well(&machine, &Request::Revert);
    assert_eq!(machine.events(), []);
}
