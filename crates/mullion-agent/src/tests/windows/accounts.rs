//! Services of others, and who they run as.

use mullion_wire::Request;

use super::{apply, ask_badly, ask_well, blueprint, definition, ready};
use crate::system::memory::Memory;
use crate::system::{Account, Activity};

/// A machine on which somebody made a containerd that runs as this account.
fn machine(account: &str) -> Memory {
    let machine = ready();
    machine.put_defined("containerd", definition("theirs.exe"), Activity::Running);
    machine.give_to("containerd", account);
    machine
}

#[test]
fn a_service_of_others_gets_its_account_back() {
    for name in [r"NT AUTHORITY\LocalService", r"NT SERVICE\containerd"] {
        let machine = machine(name);
        let before = machine.all_services()["containerd"].clone();
        ask_well(&machine, &apply(&blueprint()));
        let ours = machine.all_services()["containerd"].clone();
        assert!(ours.account.is_the_systems());
        assert_ne!(ours.definition, before.definition);
        ask_well(&machine, &apply(&blueprint()));
        ask_well(&machine, &Request::Revert);
        let after = machine.all_services()["containerd"].clone();
        assert_eq!(after.account, Account::new(name));
        assert_eq!(after.definition, before.definition);
        assert_eq!(after.activity, Activity::Running);
    }
}

#[test]
fn a_service_with_a_password_is_not_taken_over() {
    let machine = machine(r".\builder");
    let before = machine.all_services();
    let operations = machine.log().len();
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(words.contains(r"runs as `.\builder`"), "{words}");
    assert_eq!(machine.all_services(), before);
    assert_eq!(machine.log().len(), operations, "nothing was changed");
    // Whoever names the system otherwise means it.
    machine.give_to("containerd", r".\LocalSystem");
    ask_well(&machine, &apply(&blueprint()));
}
