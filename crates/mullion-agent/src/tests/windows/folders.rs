//! Folders and files that were there before: every user may have made them.

use mullion_wire::{Folder, Request};

use super::{
    THEIR_FOLDER, THEIRS, applied, apply, ask_badly, ask_well, blueprint, facts, machine, ready,
    seen, text,
};
use crate::system::memory::{Memory, Node};
use crate::system::{Files as _, Owner};

fn mode(machine: &Memory, path: &str) -> u32 {
    machine.look(path).unwrap().unwrap().mode
}

#[test]
fn a_folder_that_others_made_is_closed_and_given_back() {
    let machine = ready();
    assert_eq!(mode(&machine, THEIR_FOLDER), 0o750);
    ask_well(&machine, &apply(&blueprint()));
    assert_eq!(mode(&machine, THEIR_FOLDER), 0o700);
    // Whoever opens it again is told off, and what it was stays what it was.
    machine.set_mode(THEIR_FOLDER, 0o755).unwrap();
    ask_well(&machine, &apply(&blueprint()));
    assert_eq!(mode(&machine, THEIR_FOLDER), 0o700);
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!(changed, 0);
    ask_well(&machine, &Request::Revert);
    assert_eq!(mode(&machine, THEIR_FOLDER), 0o750);
    assert_eq!(seen(&machine), seen(&self::machine()));
}

#[test]
fn folders_above_ours_are_closed_too() {
    let machine = ready();
    let mut wanted = blueprint();
    wanted.folders = vec![Folder {
        path: "C:/new/below".into(),
        mode: 0o700,
    }];
    ask_well(&machine, &apply(&wanted));
    assert_eq!(mode(&machine, "C:/new"), 0o755);
    assert_eq!(mode(&machine, "C:/new/below"), 0o700);
}

#[test]
fn what_a_user_put_into_a_folder_of_the_system_s_is_refused_before_it_is_run() {
    let below = format!("{THEIR_FOLDER}/manifests");
    let planted = format!("{below}/theirs.yaml");
    let with = |mode, owner| {
        let machine = ready();
        machine.put(&below, Node::Folder { mode });
        let node = Node::File {
            bytes: b"theirs".to_vec(),
            mode: 0o644,
            owner,
            modified: 0,
            number: 1,
        };
        machine.put(&planted, node);
        machine
    };
    let machine = with(0o750, Owner::Other);
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(
        words.contains(&format!("`{planted}` belongs to a user")),
        "{words}"
    );
    // A new owner takes away nothing that the user was granted.
    let file = planted.replace('/', "\\");
    let hint = format!("`takeown /a /f \"{file}\"`, and then `icacls \"{file}\" /reset`");
    assert!(words.contains(&hint), "{words}");
    assert_eq!(mode(&machine, THEIR_FOLDER), 0o750);
    // To one that is closed already only those add whom it is of.
    for machine in [with(0o750, Owner::Agent), with(0o700, Owner::Other)] {
        ask_well(&machine, &apply(&blueprint()));
        assert_eq!(mode(&machine, THEIR_FOLDER), 0o700);
    }
}

fn link(owner: Owner) -> Node {
    let target = "C:/Users/theirs".to_owned();
    Node::Link { target, owner }
}

#[test]
fn a_link_that_a_user_put_into_a_folder_of_the_system_s_is_refused() {
    let planted = format!("{THEIR_FOLDER}/manifests");
    let machine = ready();
    machine.put(&planted, link(Owner::Other));
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(
        words.contains(&format!("`{planted}` belongs to a user")),
        "{words}"
    );
    // `takeown` and `icacls` would work on what it leads to.
    assert!(
        words.contains("then remove it") && !words.contains("takeown"),
        "{words}"
    );
    // kubelet makes some itself.
    machine.put(&planted, link(Owner::Agent));
    ask_well(&machine, &apply(&blueprint()));
    assert_eq!(mode(&machine, THEIR_FOLDER), 0o700);
}

#[test]
fn nothing_is_laid_down_below_a_link_that_is_of_a_user() {
    let machine = ready();
    let mut wanted = blueprint();
    wanted.folders.clear();
    let file = "C:/led/below/file";
    wanted.files.push(text(file, "ours\n"));
    machine.put("C:/led", link(Owner::Other));
    // Also where what it leads to has the folder already.
    for below in [None, Some(Node::Folder { mode: 0o755 })] {
        if let Some(node) = below {
            machine.put("C:/led/below", node);
        }
        let words = ask_badly(&machine, &apply(&wanted));
        assert!(words.contains("`C:/led` belongs to a user"), "{words}");
        assert_eq!(machine.look(file).unwrap(), None);
    }
    machine.put("C:/led", link(Owner::Agent));
    ask_well(&machine, &apply(&wanted));
    assert!(machine.look(file).unwrap().is_some());
}

#[test]
fn a_folder_that_leads_elsewhere_is_refused() {
    let machine = ready();
    machine.put(THEIR_FOLDER, link(Owner::Agent));
    let words = ask_badly(&machine, &apply(&blueprint()));
    assert!(
        words.contains(&format!("`{THEIR_FOLDER}` leads elsewhere")),
        "{words}"
    );
    assert!(words.contains("put a folder in the place of"), "{words}");
    assert!(!words.contains("in the way"), "{words}");
}

#[test]
fn a_file_in_the_place_of_a_folder_is_told_as_what_it_is() {
    let machine = ready();
    machine.put_file(THEIR_FOLDER, b"theirs\n", 0o644);
    let words = ask_badly(&machine, &apply(&blueprint()));
    let expected = format!("`{THEIR_FOLDER}` is in the way: it is no folder");
    assert!(words.contains(&expected), "{words}");
}

#[test]
fn a_file_of_keys_is_given_to_administrators() {
    let machine = applied();
    let owner = || machine.look(THEIRS).unwrap().unwrap().owner;
    let node = Node::File {
        bytes: b"theirs\n".to_vec(),
        mode: 0o600,
        owner: Owner::Other,
        modified: 0,
        number: 1,
    };
    machine.put(THEIRS, node);
    assert_eq!(facts(&machine).drift.len(), 1);
    let (changed, _) = ask_well(&machine, &apply(&blueprint()));
    assert_eq!((changed, owner()), (1, Owner::Agent));
}
