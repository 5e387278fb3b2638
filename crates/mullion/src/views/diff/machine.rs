//! How one machine differs from its blueprint, as text.

use std::fmt::Write as _;

use mullion_spec::render::Colour;
use mullion_wire::{Difference, DifferenceKind, Holding, Side};

use super::unified::{TextSide, painted, shown, unified};
use crate::console::{FAINT, STRONG};
use crate::views::findings::plural;

/// So many digits tell two digests apart.
const DIGITS: usize = 12;

/// Everything that differs on a machine, in the order in which `up` changes it.
pub fn machine_text(machine: &str, differences: &[Difference], colour: Colour) -> String {
    let count = match differences.len() {
        0 => "no difference".to_owned(),
        count => plural(count, "difference"),
    };
    let heading = painted(colour, STRONG, &format!("{machine}: {count}"));
    let mut out = format!("{heading}\n");
    let mut is_after_restart = false;
    for difference in differences {
        if difference.after_restart && !is_after_restart {
            is_after_restart = true;
            let words = format!("{machine}: once it was restarted");
            // Writing into a string cannot fail.
            let _ = writeln!(out, "{}", painted(colour, STRONG, &words));
        }
        out.push_str(&text(machine, difference, colour));
    }
    out
}

/// One difference: a unified diff of what is text, one line of everything else.
fn text(machine: &str, difference: &Difference, colour: Colour) -> String {
    let Difference {
        kind,
        name,
        now,
        after,
        ..
    } = difference;
    let mode = mode(now.as_ref(), after.as_ref());
    let lines = (lines(now.as_ref()), lines(after.as_ref()));
    let (Some(before), Some(later)) = lines else {
        return line(difference, mode, &words(difference), colour);
    };
    let is_text = *kind == DifferenceKind::File
        || [before, later].iter().any(|text| text.lines().count() > 1);
    if !is_text {
        return line(difference, mode, &words(difference), colour);
    }
    let place = match kind {
        DifferenceKind::File => name.clone(),
        kind => format!("{} {name}", kind.word()),
    };
    let header = |side: &Option<Side>, there: &str, absent: &str| {
        let words = if side.is_some() { there } else { absent };
        format!("{machine}:{place} ({words})")
    };
    let (now_header, after_header) = (
        header(now, "now", "absent"),
        header(after, "after", "removed"),
    );
    let diff = unified(
        TextSide {
            header: &now_header,
            text: before,
        },
        TextSide {
            header: &after_header,
            text: later,
        },
        colour,
    );
    let is_on_both = now.is_some() && after.is_some();
    match (diff.is_empty(), is_on_both, mode) {
        (true, true, None) => {
            let words = "what can be shown is the same: a hidden part or the owner differs";
            line(difference, None, words, colour)
        }
        (true, true, Some(mode)) => line(difference, None, &mode, colour),
        // An empty file comes or goes.
        (true, false, mode) => {
            let words = if after.is_some() {
                "new and empty"
            } else {
                "removed, and was empty"
            };
            line(difference, mode, words, colour)
        }
        (false, _, None) => diff,
        (false, _, Some(mode)) => line(difference, None, &mode, colour) + &diff,
    }
}

/// A difference in one line.
fn line(difference: &Difference, mode: Option<String>, words: &str, colour: Colour) -> String {
    let name = shown(&difference.name);
    let words: Vec<_> = std::iter::once(words.to_owned())
        .chain(mode)
        .filter(|words| !words.is_empty())
        .collect();
    let words = words.join(", ");
    let kind = painted(colour, FAINT, difference.kind.word());
    format!("{kind} {name}: {words}\n")
}

/// How permissions change, in words.
fn mode(now: Option<&Side>, after: Option<&Side>) -> Option<String> {
    let of = |side: Option<&Side>| side.and_then(|side| side.mode);
    match (of(now), of(after)) {
        (Some(now), Some(after)) if now != after => Some(format!("mode {now:04o} → {after:04o}")),
        (None, Some(after)) => Some(format!("mode {after:04o}")),
        _ => None,
    }
}

/// The text of a side; none where it holds something else. What is not there has no lines.
fn lines(side: Option<&Side>) -> Option<&str> {
    match side.map(|side| &side.holds) {
        None => Some(""),
        Some(Holding::Text(text)) => Some(text),
        Some(_) => None,
    }
}

/// What becomes of a thing, in words.
fn words(difference: &Difference) -> String {
    let (now, after) = (difference.now.as_ref(), difference.after.as_ref());
    match (now, after) {
        (None, None) => "differs".to_owned(),
        (None, Some(after)) => match (&after.holds, difference.kind) {
            (Holding::State(words), DifferenceKind::Folder) if words == "a folder" => {
                "new".to_owned()
            }
            (Holding::State(words), _) => shown(words).into_owned(),
            _ => format!("absent → {}", side_words(after)),
        },
        (Some(now), None) => format!("{} → removed", side_words(now)),
        (Some(now), Some(after)) => match (&now.holds, &after.holds) {
            // What is done with a service says what it was.
            (Holding::State(_), Holding::State(words))
                if difference.kind == DifferenceKind::Service =>
            {
                shown(words).into_owned()
            }
            (Holding::Private, Holding::Private) => {
                "differs; not shown, because not everyone on the machine may read it".to_owned()
            }
            // Where its mode changes, that follows.
            (holds, same) if holds == same && now.mode == after.mode => "another owner".to_owned(),
            (holds, same) if holds == same => String::new(),
            _ => format!("{} → {}", side_words(now), side_words(after)),
        },
    }
}

fn side_words(side: &Side) -> String {
    match &side.holds {
        Holding::Text(text) if text.is_empty() => "empty".to_owned(),
        Holding::Text(text) if text.lines().count() > 1 => plural(text.lines().count(), "line"),
        Holding::Text(text) => shown(text.trim_end_matches('\n')).into_owned(),
        Holding::State(words) => shown(words).into_owned(),
        Holding::Bytes { sha256, size } => {
            let digits = &sha256.as_str()[..DIGITS];
            format!("{} (sha256 {digits}…)", plural_bytes(*size))
        }
        Holding::Private => "private".to_owned(),
        _ => "something that this version cannot show".to_owned(),
    }
}

fn plural_bytes(size: u64) -> String {
    let ending = if size == 1 { "" } else { "s" };
    format!("{size} byte{ending}")
}

#[cfg(test)]
mod tests {
    use mullion_wire::{DifferenceKind as Kind, Sha256Digest};

    use super::*;

    fn difference(
        kind: DifferenceKind,
        name: &str,
        now: Option<Side>,
        after: Option<Side>,
    ) -> Difference {
        Difference {
            kind,
            name: name.into(),
            what: name.into(),
            now,
            after,
            after_restart: false,
        }
    }

    fn file(text: &str, mode: u32) -> Side {
        Side {
            mode: Some(mode),
            ..Side::text(text)
        }
    }

    fn shown_of(differences: &[Difference]) -> String {
        machine_text("lin1", differences, Colour::Plain)
    }

    #[test]
    fn a_file_is_a_unified_diff_under_its_machine_and_its_path() {
        let text = shown_of(&[
            difference(
                DifferenceKind::File,
                "/etc/motd",
                Some(file("welcome\n", 0o644)),
                Some(file("a node\n", 0o644)),
            ),
            difference(
                DifferenceKind::File,
                "/etc/new",
                None,
                Some(file("new\n", 0o600)),
            ),
            difference(
                DifferenceKind::File,
                "/etc/old",
                Some(file("old\n", 0o644)),
                None,
            ),
        ]);
        assert_eq!(
            text,
            "lin1: 3 differences\n\
             --- lin1:/etc/motd (now)\n+++ lin1:/etc/motd (after)\n@@ -1 +1 @@\n-welcome\n+a node\n\
             file /etc/new: mode 0600\n\
             --- lin1:/etc/new (absent)\n+++ lin1:/etc/new (after)\n@@ -0,0 +1 @@\n+new\n\
             --- lin1:/etc/old (now)\n+++ lin1:/etc/old (removed)\n@@ -1 +0,0 @@\n-old\n"
        );
    }

    #[test]
    fn everything_else_is_one_line() {
        let state = |words: &str| Some(Side::state(words));
        let value = |text: &str| Some(Side::text(text));
        let bytes = |letter: &[u8]| {
            Some(Side {
                holds: Holding::Bytes {
                    sha256: Sha256Digest::of(letter),
                    size: letter.len() as u64,
                },
                mode: Some(0o755),
            })
        };
        let private = |mode| {
            Some(Side {
                holds: Holding::Private,
                mode: Some(mode),
            })
        };
        let folder = |mode| {
            Some(Side {
                mode: Some(mode),
                ..Side::state("a folder")
            })
        };
        let text = shown_of(&[
            difference(
                Kind::Service,
                "kubelet",
                state("running"),
                state("restarted"),
            ),
            difference(
                Kind::KernelSetting,
                "net.ipv4.ip_forward",
                value("0"),
                value("1"),
            ),
            difference(Kind::KernelModule, "overlay", None, state("loaded")),
            difference(Kind::PathFolder, r"C:\k", state("in the Path"), None),
            difference(Kind::File, "/usr/bin/kubelet", bytes(b"a"), bytes(b"bb")),
            difference(Kind::File, "/etc/key", private(0o644), private(0o600)),
            difference(
                Kind::File,
                "/etc/moded",
                Some(file("same\n", 0o600)),
                Some(file("same\n", 0o644)),
            ),
            difference(
                Kind::File,
                "/etc/owned",
                Some(file("same\n", 0o644)),
                Some(file("same\n", 0o644)),
            ),
            difference(
                Kind::File,
                "/etc/linked",
                state("a link"),
                Some(file("text\n", 0o644)),
            ),
            difference(Kind::Folder, "/opt/a", None, folder(0o700)),
            difference(Kind::Folder, "/opt/b", folder(0o755), folder(0o700)),
            difference(Kind::RegistryValue, r"HKLM\a\b", None, value("REG_DWORD 1")),
            difference(Kind::Firewall, "mullion", None, None),
        ]);
        assert_eq!(
            text,
            "lin1: 13 differences\n\
             service kubelet: restarted\n\
             kernel setting net.ipv4.ip_forward: 0 → 1\n\
             kernel module overlay: loaded\n\
             folder of the Path C:\\k: in the Path → removed\n\
             file /usr/bin/kubelet: 1 byte (sha256 ca978112ca1b…) → 2 bytes (sha256 3b64db95cb55…)\n\
             file /etc/key: differs; not shown, because not everyone on the machine may read it, mode 0644 → 0600\n\
             file /etc/moded: mode 0600 → 0644\n\
             file /etc/owned: what can be shown is the same: a hidden part or the owner differs\n\
             file /etc/linked: a link → text, mode 0644\n\
             folder /opt/a: new, mode 0700\n\
             folder /opt/b: mode 0755 → 0700\n\
             registry value HKLM\\a\\b: absent → REG_DWORD 1\n\
             firewall mullion: differs\n"
        );
    }

    #[test]
    fn a_definition_of_a_service_and_rules_of_a_firewall_are_diffs_too() {
        let text = shown_of(&[difference(
            DifferenceKind::Service,
            "kubelet",
            Some(Side::text("command: a\nstart: automatic\n")),
            Some(Side::text("command: b\nstart: automatic\n")),
        )]);
        assert!(text.contains("--- lin1:service kubelet (now)\n"), "{text}");
        assert!(text.contains("-command: a\n+command: b\n start: automatic\n"));
    }

    #[test]
    fn what_comes_after_a_restart_has_a_heading_of_its_own() {
        let mut later = difference(
            DifferenceKind::Service,
            "containerd",
            Some(Side::state("stopped")),
            Some(Side::state("started")),
        );
        later.after_restart = true;
        let feature = difference(
            DifferenceKind::Feature,
            "Containers",
            Some(Side::state("disabled")),
            Some(Side::state("enabled")),
        );
        assert_eq!(
            machine_text("win1", &[feature, later], Colour::Plain),
            "win1: 2 differences\nfeature Containers: disabled → enabled\n\
             win1: once it was restarted\nservice containerd: started\n"
        );
        assert_eq!(shown_of(&[]), "lin1: no difference\n");
    }

    #[test]
    fn promise_12_names_of_a_machine_show_what_they_hide() {
        let hostile = "a\u{1b}[2Jb\u{202e}";
        let text = shown_of(&[
            difference(
                DifferenceKind::Service,
                hostile,
                Some(Side::state(hostile)),
                Some(Side::state(hostile)),
            ),
            difference(
                DifferenceKind::File,
                hostile,
                Some(file(hostile, 0o644)),
                Some(file("b", 0o644)),
            ),
        ]);
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{202e}'),
            "{text}"
        );
    }
}
