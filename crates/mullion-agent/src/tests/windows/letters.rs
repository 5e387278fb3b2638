//! Files whose paths change in nothing but the case of letters.

use mullion_wire::{Blueprint, Request};

use super::super::fixtures::{apply, ask_well, text};
use super::super::killed::outlive_every_kill;
use super::{blueprint, ready};
use crate::system::memory::Memory;

const EARLIER: &str = "C:/Tools/Own/x";
const NOW: &str = "C:/tools/own/X";

/// The blueprint with one more file.
fn with(path: &str, content: &str) -> Blueprint {
    let mut blueprint = blueprint();
    blueprint.files.push(text(path, content));
    blueprint
}

fn laid() -> Memory {
    let machine = ready();
    ask_well(&machine, &apply(&with(EARLIER, "ours\n")));
    machine
}

#[test]
fn a_file_whose_path_got_other_letters_stays() {
    let machine = laid();
    let (changed, events) = ask_well(&machine, &apply(&with(NOW, "ours\n")));
    assert_eq!(machine.file(EARLIER).as_deref(), Some("ours\n"));
    assert_eq!(changed, 0, "{events:?}");
    ask_well(&machine, &apply(&blueprint()));
    assert_eq!(machine.file(NOW), None, "nobody asks for it any more");
    assert_eq!(machine.file(EARLIER), None);
}

#[test]
fn other_letters_and_other_bytes_make_one_file_at_every_kill() {
    let next = with(NOW, "changed\n");
    outlive_every_kill(&laid, &apply(&next), &|machine| {
        assert_eq!(machine.file(NOW).as_deref(), Some("changed\n"));
        let nodes = machine.nodes();
        let ours = nodes.keys().filter(|path| path.eq_ignore_ascii_case(NOW));
        assert_eq!(ours.count(), 1);
    });
}

#[test]
fn what_was_there_before_comes_back_whatever_letters_it_was_laid_over_with() {
    let machine = ready();
    machine.put_file(EARLIER, b"theirs\n", 0o644);
    ask_well(&machine, &apply(&with(EARLIER, "ours\n")));
    ask_well(&machine, &apply(&with(NOW, "changed\n")));
    ask_well(&machine, &Request::Revert);
    assert_eq!(machine.file(EARLIER).as_deref(), Some("theirs\n"));
}
