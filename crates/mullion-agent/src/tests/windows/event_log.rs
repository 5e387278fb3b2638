//! What the event log of Windows tells of the agent's work.

use mullion_wire::Request;

use super::{apply, ask_badly, ask_well, blueprint, check_untouched, ready};
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
fn a_log_that_takes_nothing_fails_nothing() {
    let machine = ready();
    machine.break_event_log();
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    assert!(changed > 0);
    ask_well(&machine, &Request::Revert);
    assert_eq!(machine.events(), []);
}
