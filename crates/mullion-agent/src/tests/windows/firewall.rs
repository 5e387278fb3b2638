//! Our group of the firewall's: who takes it away, and a firewall whose service does not run.

use mullion_wire::Request;

use super::accounts::told;
use super::{applied, apply, ask_well, blueprint, facts, ready};
use crate::system::memory::Memory;
use crate::system::{Removed, Settings as _};

const STATE_FILE: &str = "C:/Program Files/mullion/state.json";
const DRIFT: [&str; 1] = ["the firewall group `mullion` is not as wanted"];

fn drift(machine: &Memory) -> Vec<String> {
    facts(machine).drift
}

#[test]
fn a_group_that_somebody_deleted_is_told_and_made_anew() {
    let machine = applied();
    assert_eq!(drift(&machine), Vec::<String>::new());
    assert_eq!(machine.remove_firewall("mullion").unwrap(), Removed::Gone);
    assert_eq!(drift(&machine), DRIFT);
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!(changed, 1);
    assert!(machine.all_firewalls().contains_key("mullion"));
    assert_eq!(drift(&machine), Vec::<String>::new());
    // Another port is another group.
    let mut other = blueprint().firewall.unwrap();
    other.open[0].last += 1;
    machine.set_firewall(&other).unwrap();
    assert_eq!(drift(&machine), DRIFT);
}

#[test]
fn what_could_not_be_set_is_told_once_the_firewall_s_service_runs() {
    let machine = ready();
    machine.break_service("mpssvc");
    let (_, events) = ask_well(&machine, &apply(&blueprint()));
    let words = told(&events);
    assert!(
        words.contains("the firewall's service does not run"),
        "{words}"
    );
    assert!(!words.contains("no program"), "{words}");
    // An apply could not do more now.
    assert_eq!(drift(&machine), Vec::<String>::new());
    machine.mend_service("mpssvc");
    assert_eq!(drift(&machine), DRIFT);
    ask_well(&machine, &apply(&blueprint()));
    assert_eq!(drift(&machine), Vec::<String>::new());
    machine.break_service("mpssvc");
    let (_, events) = ask_well(&machine, &Request::Revert);
    assert!(told(&events).contains("firewall group mullion stays"));
    assert_eq!(machine.windows_parts().time_zone, "Pacific Standard Time");
}

#[test]
fn what_an_older_agent_wrote_down_tells_nothing_of_the_firewall_and_is_read() {
    let machine = applied();
    let text = machine.file(STATE_FILE).unwrap();
    let mut state: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kept = state["applied"].as_object_mut().unwrap();
    assert!(kept.remove("firewall").is_some());
    machine.put_file(STATE_FILE, state.to_string().as_bytes(), 0o600);
    machine.remove_firewall("mullion").unwrap();
    assert_eq!(drift(&machine), Vec::<String>::new());
    // It is written down with the next apply.
    ask_well(&machine, &apply(&blueprint()));
    machine.remove_firewall("mullion").unwrap();
    assert_eq!(drift(&machine), DRIFT);
}
