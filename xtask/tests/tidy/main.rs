//! Tidy tests: the rules of `docs/architecture.md` and of the house style, held over the whole repository.
//!
//! A rule is a pure function from files to breaches, with tests of its own that show it finding one. The
//! test below runs every rule over the repository and tells all breaches at once.

mod catalogue;
mod crate_docs;
mod crates;
mod docs;
mod drivers;
mod executor;
mod failure_modes;
mod files;
mod length;
mod names;
mod paths;
mod programs;
mod promises;
mod purity;
mod rust;
mod shells;
mod sources;
mod unfinished;
mod unsafety;
mod way;

use std::fmt::Write as _;

use files::{Breach, File};

/// A rule, by the sentence that it holds.
type Rule = (&'static str, fn(&[File]) -> Vec<Breach>);

const RULES: &[Rule] = &[
    (
        "a crate uses only crates above it in the table",
        crates::dependency_order,
    ),
    (
        "every crate is in the table, under its folder's name",
        crates::known_crates,
    ),
    (
        "`docs/architecture.md` has one row a crate, in order, and at most 110 lines",
        crates::architecture,
    ),
    (
        "library crates do not print, read the environment or exit",
        purity::quiet_libraries,
    ),
    (
        "pure crates touch no file, clock, process or network",
        purity::pure_crates,
    ),
    (
        "drivers are named in the spec, the catalog and their own module only",
        drivers::named_in_place,
    ),
    (
        "the adapter uses every field of every action",
        executor::uses_every_field,
    ),
    ("nothing goes through PowerShell", shells::no_powershell),
    (
        "every program that the product starts has something that ends it",
        programs::limited,
    ),
    (
        "a crate's documentation ends with its current limitations",
        crate_docs::limitations,
    ),
    ("back-ticked paths in documents exist", docs::paths_exist),
    (
        "back-ticked crate names in documents are in the table",
        docs::crates_exist,
    ),
    (
        "no Rust file above 700 lines without a stated reason",
        length::short_files,
    ),
    (
        "no folder, file or module is named after nothing",
        names::telling_names,
    ),
    (
        "every rule of the error catalogue is applied",
        catalogue::applied_rules,
    ),
    (
        "an ignored test states its reason, and nothing is left unfinished",
        unfinished::finished,
    ),
    (
        "every failure mode of Windows nodes has its row, and its test where one is promised",
        failure_modes::in_step,
    ),
    (
        "every promise of `docs/security.md` has a test that is named after it",
        promises::tested,
    ),
    (
        "`cargo xtask test` runs every test of a promise",
        promises::asked_for,
    ),
    (
        "unsafe code stands where Windows is called, and nowhere else",
        unsafety::in_its_place,
    ),
    (
        "the way of `network.vni` in `docs/architecture.md` has every file that knows it, ten at most",
        way::of_one_setting,
    ),
];

/// Every breach of every rule, under the rule's sentence. Empty when there is none.
fn report(rules: &[Rule], files: &[File]) -> String {
    let mut out = String::new();
    for (sentence, rule) in rules {
        let breaches = rule(files);
        if !breaches.is_empty() {
            let _ = writeln!(out, "\n{sentence}:");
        }
        for breach in breaches {
            let _ = writeln!(out, "  {breach}");
        }
    }
    out
}

#[test]
fn the_repository_is_tidy() {
    let files = files::of_repository(&xtask::tools::repository());
    assert!(files.len() > 10, "the repository was not found");
    let report = report(RULES, &files);
    assert!(report.is_empty(), "{report}");
}

#[test]
fn a_report_names_the_rule_the_place_and_every_breach() {
    let rules: [Rule; 2] = [
        ("nothing is empty", |files| {
            files
                .iter()
                .map(|file| Breach::new(file, 1, "is empty"))
                .collect()
        }),
        ("nothing is wrong", |_| Vec::new()),
    ];
    let files = [File::new("a.rs", ""), File::new("b.rs", "")];
    assert_eq!(
        report(&rules, &files),
        "\nnothing is empty:\n  a.rs:1: is empty\n  b.rs:1: is empty\n"
    );
}
