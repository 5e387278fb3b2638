//! The commands that pages show for real machines, run as they stand there.
//!
//! They are in blocks marked `machines`, of the same form as those marked `console`, which other tests run: a line that
//! begins with `$` is run, and what follows is found in its output, where `[..]` stands for anything within a line.

use std::path::Path;

use crate::lab::Lab;
use crate::trial::Trial;

/// The commands of a page, each with the lines that it shows.
fn commands(page: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let mut commands: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    let mut is_within = false;
    for line in page.lines() {
        match line {
            "```machines" => is_within = true,
            "```" => is_within = false,
            _ if !is_within || line.is_empty() || line == "..." => {}
            _ => {
                if let Some(command) = line.strip_prefix("$ mullion ") {
                    let words = command.split(' ').map(str::to_owned).collect();
                    commands.push((words, Vec::new()));
                } else if let Some((_, shown)) = commands.last_mut() {
                    shown.push(line.to_owned());
                }
            }
        }
    }
    commands
}

/// Whether a line is as a page shows it.
fn is_as_shown(line: &str, shown: &str) -> bool {
    let mut parts = shown.split("[..]");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || shown.ends_with("[..]")
}

#[test]
fn lines_are_compared_with_what_is_shown() {
    assert!(is_as_shown("a b c", "a [..] c"));
    assert!(is_as_shown("a b c", "a [..]"));
    assert!(!is_as_shown("a b c d", "a [..] c"));
    assert!(!is_as_shown("b c", "a [..]"));
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test runs it"]
fn what_pages_show_of_real_machines_is_what_happens() {
    let mut trial = Trial::begin("what_pages_show_of_real_machines_is_what_happens");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let commands = commands(&fs_err::read_to_string(page).unwrap());
    assert!(commands.len() > 5, "{commands:?}");
    // Not the built-in cluster itself: the developer's may be up.
    let mut lab = Lab::built_in("page");
    let own = lab.path("kubeconfig").display().to_string();
    lab.environment.push(("KUBECONFIG".into(), own));
    for (words, shown) in commands {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let ran = lab.run(&words).good();
        let said = format!("{}{}", ran.out, ran.err);
        for shown in shown {
            let is_there = said
                .lines()
                .any(|line| is_as_shown(line.trim_end(), &shown));
            assert!(is_there, "`{shown}` is not there: {ran}");
        }
        trial.lap(&words.join(" "));
    }
    trial.nothing_is_left();
}
