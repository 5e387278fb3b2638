//! A driver is named in the spec, the catalog and its own module. Everyone else asks for capabilities.

use crate::files::{Breach, Exception, File, line_of, stale};
use crate::sources;

/// The drivers, save `ssh`: that is the name of a transport too.
const DRIVERS: &[&str] = &["nspawn", "wine", "qemu", "libvirt", "hyperv", "kubevirt"];

/// The crates where drivers are words of the file or rows of the data.
const AT_HOME: &[&str] = &["mullion-spec", "mullion-catalog"];

/// Files, or folders ending in `/`, that may name drivers.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        subject: "crates/mullion-standin/",
        reason: "there Wine is the program that runs Windows programs, whichever driver carries the machine",
    },
    Exception {
        subject: "crates/mullion-template/src/",
        reason: "there Wine is the program that a template of stand-ins holds",
    },
    Exception {
        subject: "xtask/src/bench/clusters.rs",
        reason: "it writes cluster files, where drivers are words",
    },
    Exception {
        subject: "xtask/src/windows_runner.rs",
        reason: "there Wine is the program that runs Windows programs in tests",
    },
];

const LISTED_IN: &str = "xtask/tests/tidy/drivers.rs";

/// Drivers are named where they belong, comments and strings included.
pub(crate) fn named_in_place(files: &[File]) -> Vec<Breach> {
    with_exceptions(files, EXCEPTIONS)
}

fn with_exceptions(files: &[File], exceptions: &[Exception]) -> Vec<Breach> {
    let found = named_anywhere_else(files);
    let covers = |exception: &Exception, path: &str| {
        let subject = exception.subject;
        path == subject || (subject.ends_with('/') && path.starts_with(subject))
    };
    let mut breaches: Vec<_> = found
        .iter()
        .filter(|breach| {
            !exceptions
                .iter()
                .any(|exception| covers(exception, &breach.path))
        })
        .cloned()
        .collect();
    breaches.extend(stale(LISTED_IN, exceptions, |exception| {
        found.iter().any(|breach| covers(exception, &breach.path))
    }));
    breaches
}

fn named_anywhere_else(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, _) in sources::of_product(files) {
        if file
            .crate_name()
            .is_some_and(|name| AT_HOME.contains(&name))
        {
            continue;
        }
        breaches.extend(
            names(&file.text)
                .into_iter()
                .filter(|(place, driver)| {
                    !is_own_module(&file.path, driver) && !file.source().is_test(*place)
                })
                .map(|(place, driver)| {
                    Breach::new(
                        file,
                        line_of(&file.text, place),
                        format!("names the driver `{driver}`"),
                    )
                }),
        );
    }
    breaches
}

/// The one place that knows which word is which code.
const REGISTRY: &str = "crates/mullion-machines/src/lib.rs";

/// Whether a file is the driver's module: `<driver>.rs` or below a folder `<driver>`.
fn is_own_module(path: &str, driver: &str) -> bool {
    path == REGISTRY
        || path
            .strip_prefix("crates/mullion-machines/src/")
            .and_then(|rest| rest.strip_prefix(driver))
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// The drivers that a text names, with their places.
///
/// A name counts as a word by itself or as a part of a name in snake case or camel case (`has_wine`,
/// `WineMachine`, `HyperVHost`), without regard to case; `winedbg` is another word.
fn names(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut start = 0;
    for word in text.split(|letter: char| !letter.is_ascii_alphanumeric()) {
        let humps = humps(word);
        let named = DRIVERS.iter().filter(|driver| {
            let is_driver = |text: &str| text.eq_ignore_ascii_case(driver);
            let pair = |pair: &[&str]| is_driver(&pair.concat());
            is_driver(word)
                || humps.iter().any(|hump| is_driver(hump))
                || humps.windows(2).any(pair)
        });
        found.extend(named.map(|driver| (start, *driver)));
        // Every separator may have a width of its own.
        let end = start + word.len();
        start = end + text[end..].chars().next().map_or(0, char::len_utf8);
    }
    found
}

/// The parts of a word in camel case: `HyperVHost` gives `Hyper`, `V`, `Host`.
fn humps(word: &str) -> Vec<&str> {
    let bytes = word.as_bytes();
    let begins = |place: usize| {
        let is_upper = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_uppercase);
        let ends_capitals =
            is_upper(place - 1) && bytes.get(place + 1).is_some_and(u8::is_ascii_lowercase);
        is_upper(place) && (!is_upper(place - 1) || ends_capitals)
    };
    let mut parts = Vec::new();
    let mut start = 0;
    for place in 1..word.len() {
        if begins(place) {
            parts.push(&word[start..place]);
            start = place;
        }
    }
    parts.push(&word[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<String> {
        named_anywhere_else(&[File::new(path, text)])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_driver_named_in_code_comment_or_string_is_found() {
        let text =
            "// For QEMU only.\nif driver == \"wine\" {}\nmatch driver { Driver::Nspawn => {} }\n";
        assert_eq!(
            told("crates/mullion-plan/src/steps.rs", text),
            [
                "crates/mullion-plan/src/steps.rs:1: names the driver `qemu`",
                "crates/mullion-plan/src/steps.rs:2: names the driver `wine`",
                "crates/mullion-plan/src/steps.rs:3: names the driver `nspawn`",
            ]
        );
    }

    #[test]
    fn names_are_found_inside_names_and_not_inside_words() {
        let driver_of = |text| {
            names(text)
                .into_iter()
                .map(|(_, driver)| driver)
                .collect::<Vec<_>>()
        };
        for text in [
            "has_wine",
            "WineMachine",
            "start-wine",
            "WINE",
            "…wine…",
            "FakeWineV2",
        ] {
            assert_eq!(driver_of(text), ["wine"], "{text}");
        }
        assert_eq!(driver_of("HyperVHost hyperv"), ["hyperv", "hyperv"]);
        assert_eq!(driver_of("KubeVirt"), ["kubevirt"]);
        for text in ["winedbg", "swine", "ssh", "hyper-v", "Hypervisor"] {
            assert!(driver_of(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn spec_catalog_own_module_and_tests_may_name_it() {
        for path in [
            "crates/mullion-spec/src/words.rs",
            "crates/mullion-catalog/src/lib.rs",
            "crates/mullion-machines/src/wine/start.rs",
            "crates/mullion-machines/src/wine.rs",
            "crates/mullion-plan/tests/plans.rs",
            "docs/drivers.md",
        ] {
            assert!(told(path, "// wine").is_empty(), "{path}");
        }
        assert_eq!(
            told("crates/mullion-machines/src/qemu/start.rs", "// wine").len(),
            1
        );
        assert!(
            told(
                "crates/mullion-plan/src/a.rs",
                "#[cfg(test)]\nmod tests { const A: &str = \"wine\"; }"
            )
            .is_empty()
        );
    }

    #[test]
    fn an_exception_covers_its_file_and_must_be_needed() {
        let files = [
            File::new("crates/mullion/src/doctor/needs.rs", "// wine"),
            File::new("crates/mullion/src/view.rs", "// wine"),
        ];
        let needed = Exception {
            subject: "crates/mullion/src/doctor/",
            reason: "looks for programs",
        };
        let stale = Exception {
            subject: "crates/mullion/src/init.rs",
            reason: "was needed",
        };
        let told: Vec<_> = with_exceptions(&files, &[needed, stale])
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "crates/mullion/src/view.rs:1: names the driver `wine`",
                "xtask/tests/tidy/drivers.rs:1: the exception for `crates/mullion/src/init.rs` is no longer needed: remove it",
            ]
        );
    }
}
