//! Root authorities that a Windows machine trusts.

use mullion_wire::{Blueprint, Request, Sha256Digest};

use super::{
    AUTHORITY, HELLO, apply, ask_badly, ask_well, blueprint, check, check_untouched, facts, ready,
    text,
};
use crate::system::{Files as _, OnlyWindows as _};

/// Another one: `hello!`.
const LOUD: &str = "-----BEGIN CERTIFICATE-----\naGVsbG8h\n-----END CERTIFICATE-----\n";

/// The blueprint with another text in the file that is trusted.
fn trusting(pem: &str) -> Blueprint {
    let mut blueprint = blueprint();
    blueprint.files.retain(|file| file.path != AUTHORITY);
    blueprint.files.push(text(AUTHORITY, pem));
    blueprint
}

fn digests(certificates: &[&[u8]]) -> std::collections::BTreeSet<Sha256Digest> {
    let certificates = certificates.iter();
    certificates.map(|bytes| Sha256Digest::of(bytes)).collect()
}

#[test]
fn those_of_the_blueprint_are_trusted_until_they_are_dropped() {
    let machine = ready();
    let both = trusting(&format!("{HELLO}{LOUD}"));
    ask_well(&machine, &apply(&both));
    let trusted = || machine.windows_parts().trusted;
    assert_eq!(trusted(), digests(&[b"hello", b"hello!"]));
    check(both.clone())(&machine);
    ask_well(&machine, &apply(&trusting(LOUD)));
    assert_eq!(trusted(), digests(&[b"hello!"]));
    machine.distrust(&Sha256Digest::of(b"hello!")).unwrap();
    let drift = facts(&machine).drift.join("\n");
    assert!(drift.contains("trusted authority"), "{drift}");
    ask_well(&machine, &apply(&trusting(LOUD)));
    assert_eq!(trusted(), digests(&[b"hello!"]));
    ask_well(&machine, &Request::Revert);
    ask_well(&machine, &Request::Revert);
    check_untouched(&machine);
}

#[test]
fn one_that_was_trusted_before_stays_so() {
    let machine = ready();
    machine.put_trusted(b"hello");
    ask_well(&machine, &apply(&trusting(&format!("{HELLO}{LOUD}"))));
    ask_well(&machine, &Request::Revert);
    assert_eq!(machine.windows_parts().trusted, digests(&[b"hello"]));
}

#[test]
fn a_file_without_a_certificate_is_refused_and_facts_are_told_all_the_same() {
    let machine = ready();
    let words = format!(
        "{:?}",
        ask_badly(&machine, &apply(&trusting("no certificate\n")))
    );
    assert!(words.contains(AUTHORITY), "{words}");
    ask_well(&machine, &apply(&trusting(HELLO)));
    machine.write(AUTHORITY, b"spoilt", 0o644).unwrap();
    let drift = facts(&machine).drift.join("\n");
    assert!(drift.contains(AUTHORITY), "{drift}");
    let mut nowhere = blueprint();
    let windows = nowhere.windows.as_mut().unwrap();
    windows.authorities.insert("C:/nowhere.crt".to_owned());
    let words = format!("{:?}", ask_badly(&machine, &apply(&nowhere)));
    assert!(words.contains("not laid down"), "{words}");
}
