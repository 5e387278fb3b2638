//! Images of archives: imported once, remembered, and removed with everything else.

use std::collections::BTreeMap;
use std::rc::Rc;

use mullion_wire::{Event, ImageArchive, Request, Sha256Digest};

use super::fixtures::*;
use super::killed::outlive_every_kill;
use crate::system::memory::Memory;
use crate::system::{Ended, Files as _, Program, SystemError};

/// Where this containerd keeps the names of its images, a line each.
const IMAGES: &str = "/var/lib/images";
const PAUSE: &str = "registry.k8s.io/pause:3.10";
const OTHERS: &str = "one:1\ntwo:2";
const THEIRS: &str = "registry.lan/theirs:1";

/// A `ctr` whose archives hold the names of their images, each with a digest behind `=` where it has another than its name.
fn ctr(
    machine: &Memory,
    program: &Program,
    on_line: &mut dyn FnMut(&str),
) -> Result<Ended, SystemError> {
    let text = |path: &str| -> Result<String, SystemError> {
        let bytes = machine.read(path)?.unwrap_or_default();
        Ok(String::from_utf8(bytes).unwrap())
    };
    let args: Vec<_> = program.args.iter().map(String::as_str).collect();
    assert_eq!(args[..3], ["--namespace", "k8s.io", "images"]);
    let there = text(IMAGES)?;
    match args[3] {
        "list" if args.last() == Some(&"--quiet") => there.lines().map(name_of).for_each(on_line),
        "list" => {
            on_line("REF TYPE DIGEST SIZE");
            let rows = there.lines().map(|line| {
                let digest = line.split_once('=').map_or(line, |(_, digest)| digest);
                format!("{} manifest sha256:{digest} 1", name_of(line))
            });
            rows.for_each(|row| on_line(&row));
        }
        "import" => {
            assert!(args.contains(&"io.cri-containerd.pinned=pinned"));
            let came = text(args.last().unwrap())?;
            if came.contains("broken") {
                on_line("ctr: unrecognized image format");
                return Ok(Ended::Status(1));
            }
            let lines = there.lines().chain(came.lines());
            let all: BTreeMap<_, _> = lines.map(|line| (name_of(line), line)).collect();
            let all: Vec<_> = all.into_values().collect();
            keep(machine, &all)?;
            if came.contains("half") {
                on_line("ctr: invalid image name");
                return Ok(Ended::Status(1));
            }
        }
        "remove" => {
            let left: Vec<_> = there
                .lines()
                .filter(|line| !args.contains(&name_of(line)))
                .collect();
            keep(machine, &left)?;
        }
        other => panic!("{other}"),
    }
    Ok(Ended::Status(0))
}

fn name_of(line: &str) -> &str {
    line.split('=').next().unwrap_or(line)
}

/// The same on a full disk.
fn full(
    machine: &Memory,
    program: &Program,
    on_line: &mut dyn FnMut(&str),
) -> Result<Ended, SystemError> {
    if program.args.iter().any(|argument| argument == "import") {
        on_line("ctr: no space left on device");
        return Ok(Ended::Status(1));
    }
    ctr(machine, program, on_line)
}

/// It has them all, or those from before.
fn keep(machine: &Memory, names: &[&str]) -> Result<(), SystemError> {
    let new = format!("{IMAGES}.new");
    machine.write(&new, names.join("\n").as_bytes(), 0o600)?;
    machine.rename(&new, IMAGES)
}

fn bare() -> Memory {
    let machine = machine();
    machine.put_program("ctr", Rc::new(ctr));
    machine.put_file(IMAGES, THEIRS.as_bytes(), 0o600);
    machine
}

fn archive(content: &str, reference: Option<&str>) -> ImageArchive {
    ImageArchive {
        reference: reference.map(str::to_owned),
        sha256: Sha256Digest::of(content.as_bytes()),
        size: content.len() as u64,
        exact: false,
    }
}

fn archives() -> Vec<ImageArchive> {
    vec![
        archive(PAUSE, Some(PAUSE)),
        archive(OTHERS, None),
        archive("not needed", Some(THEIRS)),
    ]
}

fn lacked(machine: &Memory) -> usize {
    let request = Request::MissingImages {
        archives: archives(),
    };
    let (_, events) = ask_well(machine, &request);
    let missing = events.into_iter().find_map(|event| match event {
        Event::Missing { sha256, .. } => Some(sha256),
        _ => None,
    });
    missing.unwrap().len()
}

fn supplied() -> Memory {
    let machine = bare();
    bring(&machine, &[PAUSE.into(), OTHERS.into()]);
    machine
}

fn import() -> Request {
    Request::Import {
        archives: archives(),
    }
}

fn names(machine: &Memory) -> Vec<String> {
    let bytes = machine.read(IMAGES).unwrap().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn what_containerd_lacks_is_imported_once() {
    let machine = bare();
    assert_eq!(lacked(&machine), 2, "one is there already");
    let words = ask_badly(&machine, &import());
    assert!(words.contains(PAUSE), "{words}");
    let machine = supplied();
    assert_eq!(lacked(&machine), 0, "the store has them");
    let (changed, _) = ask_well(&machine, &import());
    assert_eq!(changed, 2);
    assert_eq!(names(&machine), ["one:1", PAUSE, THEIRS, "two:2"]);
    // Their archives are gone, and nobody asks for them.
    let store = machine.list("/var/lib/mullion/store").unwrap();
    assert!(store.is_empty(), "{store:?}");
    assert_eq!(lacked(&machine), 0);
    assert_eq!(ask_well(&machine, &import()).0, 0);
    // What somebody removed is lacked again.
    machine.put_file(IMAGES, b"two:2", 0o600);
    assert_eq!(lacked(&machine), 3);
}

#[test]
fn one_archive_may_hold_several_images_of_the_file() {
    for there in ["", "one:1", "two:2"] {
        let machine = bare();
        machine.put_file(IMAGES, there.as_bytes(), 0o600);
        bring(&machine, &[OTHERS.into()]);
        let archives = ["one:1", "two:2"].map(|name| archive(OTHERS, Some(name)));
        let request = Request::Import {
            archives: archives.into(),
        };
        assert_eq!(ask_well(&machine, &request).0, 1);
        assert_eq!(names(&machine), ["one:1", "two:2"]);
        assert_eq!(ask_well(&machine, &request).0, 0);
        let store = machine.list("/var/lib/mullion/store").unwrap();
        assert!(store.is_empty(), "{store:?}");
    }
}

#[test]
fn another_archive_of_the_same_name_is_imported_and_the_former_one_again() {
    // The machine has the image from its template.
    let machine = bare();
    let user = |content: &str| ImageArchive {
        exact: true,
        ..archive(content, Some(THEIRS))
    };
    let (one, two) = (format!("{THEIRS}\none:1"), THEIRS.to_owned());
    for content in [&one, &two, &one] {
        let archives = vec![user(content)];
        bring(&machine, &[content.clone().into()]);
        let request = Request::Import { archives };
        assert_eq!(ask_well(&machine, &request).0, 1, "{content}");
        // Once is enough.
        assert_eq!(ask_well(&machine, &request).0, 0, "{content}");
    }
    ask_well(&machine, &Request::Revert);
    assert_eq!(names(&machine), [THEIRS]);
}

/// An archive of the user's that also holds another image of the name that the machine has already.
const HIDING: &str = "app:1\nregistry.k8s.io/pause:3.10=evil";

/// A machine with the cluster's own image, and a request to import an archive of the user's for these images.
fn hiding(content: &str, named: &[&str]) -> (Memory, Request) {
    let machine = bare();
    machine.put_file(IMAGES, format!("{PAUSE}\n{THEIRS}").as_bytes(), 0o600);
    bring(&machine, &[content.into()]);
    let archives = named.iter().map(|image| ImageArchive {
        exact: true,
        ..archive(content, Some(image))
    });
    let archives = archives.collect();
    (machine, Request::Import { archives })
}

#[test]
fn promise_10_an_import_replaces_no_image_that_the_file_does_not_name_with_the_archive() {
    for content in [HIDING.to_owned(), format!("{HIDING}\nhalf")] {
        let (machine, request) = hiding(&content, &["app:1"]);
        // It is refused each time, also where the replaced image was not brought again.
        for _ in 0..2 {
            let words = ask_badly(&machine, &request);
            assert!(words.contains("`app:1` replaced"), "{words}");
            assert!(words.contains(PAUSE), "{words}");
            assert!(!names(&machine).iter().any(|name| name.contains("evil")));
            bring(&machine, &[content.clone().into()]);
        }
        ask_well(&machine, &Request::Revert);
        assert_eq!(names(&machine), [THEIRS]);
    }
    // The file may name it with the archive, and others may bring the image that is there.
    let (machine, request) = hiding(HIDING, &["app:1", PAUSE]);
    assert_eq!(ask_well(&machine, &request).0, 1);
    assert_eq!(ask_well(&machine, &request).0, 0);
    let same = format!("app:1\n{PAUSE}");
    let (machine, request) = hiding(&same, &["app:1"]);
    assert_eq!(ask_well(&machine, &request).0, 1);
    assert_eq!(names(&machine), ["app:1", PAUSE, THEIRS]);
}

#[test]
fn an_image_that_was_pulled_anew_after_a_cut_off_import_is_blamed_on_the_archive_once_at_most() {
    const CONTENT: &str = "app:1";
    for kill in 1.. {
        let (machine, request) = hiding(CONTENT, &[CONTENT]);
        machine.kill_at(kill);
        ask(&machine, &request);
        let was_killed = machine.is_dead();
        machine.revive();
        let pull = || {
            let mut lines = names(&machine);
            lines.retain(|line| name_of(line) != PAUSE);
            lines.push(format!("{PAUSE}=newer"));
            machine.put_file(IMAGES, lines.join("\n").as_bytes(), 0o600);
            bring(&machine, &[CONTENT.into()]);
        };
        pull();
        ask(&machine, &request);
        pull();
        ask_well(&machine, &request);
        if !was_killed {
            break;
        }
    }
}

#[test]
fn promise_10_an_import_that_was_cut_off_replaces_no_image_either() {
    for kill in 1.. {
        let (machine, request) = hiding(HIDING, &["app:1"]);
        machine.kill_at(kill);
        ask(&machine, &request);
        let was_killed = machine.is_dead();
        machine.revive();
        // The file does not name the archive any more.
        bring(&machine, &["two:2".into()]);
        let archives = vec![archive("two:2", Some("two:2"))];
        ask(&machine, &Request::Import { archives });
        let left = names(&machine);
        let has_evil = left.iter().any(|line| line.contains("evil"));
        assert!(!has_evil, "killed at {kill}: {left:?}");
        if !was_killed {
            break;
        }
    }
}

#[test]
fn an_archive_that_containerd_does_not_take_is_told_with_its_words() {
    let machine = bare();
    bring(&machine, &[b"broken".to_vec()]);
    let request = Request::Import {
        archives: vec![archive("broken", Some(PAUSE))],
    };
    let words = ask_badly(&machine, &request);
    assert!(words.contains("unrecognized image format"), "{words}");
}

#[test]
fn an_import_that_fails_forgets_nothing_that_came_before() {
    let machine = bare();
    let user = |content: &str| ImageArchive {
        exact: true,
        ..archive(content, Some(THEIRS))
    };
    let (one, two) = (format!("{THEIRS}\none:1"), format!("{THEIRS}\ntwo:2"));
    for content in [&one, &two] {
        bring(&machine, &[content.clone().into()]);
        let archives = vec![user(content)];
        assert_eq!(ask_well(&machine, &Request::Import { archives }).0, 1);
    }
    // Somebody removed the image, and containerd does not take it again.
    machine.put_file(IMAGES, b"one:1\ntwo:2", 0o600);
    machine.put_program("ctr", Rc::new(full));
    bring(&machine, &[two.clone().into()]);
    let request = Request::Import {
        archives: vec![user(&two)],
    };
    let words = ask_badly(&machine, &request);
    assert!(words.contains("no space left"), "{words}");
    machine.put_program("ctr", Rc::new(ctr));
    ask_well(&machine, &Request::Revert);
    assert!(names(&machine).is_empty(), "{:?}", names(&machine));
}

#[test]
fn an_import_outlives_every_kill() {
    outlive_every_kill(&supplied, &import(), &|machine| {
        assert_eq!(names(machine), ["one:1", PAUSE, THEIRS, "two:2"]);
    });
}

#[test]
fn a_machine_that_is_given_back_keeps_its_own_images_alone() {
    let begin = || {
        let machine = supplied();
        ask_well(&machine, &import());
        machine
    };
    outlive_every_kill(&begin, &Request::Revert, &|machine| {
        assert_eq!(names(machine), [THEIRS]);
    });
}

#[test]
fn images_of_an_import_that_was_cut_off_go_too() {
    for kill in 1.. {
        let machine = supplied();
        machine.kill_at(kill);
        ask(&machine, &import());
        let was_killed = machine.is_dead();
        machine.revive();
        ask_well(&machine, &Request::Revert);
        assert_eq!(names(&machine), [THEIRS], "killed at {kill}");
        if !was_killed {
            break;
        }
    }
}
