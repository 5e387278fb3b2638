//! `cargo xtask test`: everything that must hold before a change is taken.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::beside::Beside;
use crate::cache::Cache;
use crate::steps::{Outcome, Steps};
use crate::{XtaskError, fuzz, stand_in, tools, up, windows_tests};

/// One step that is one cargo command.
struct CargoStep {
    name: &'static str,
    command: &'static str,
    output: Output,
    /// What cargo is asked to do.
    arguments: &'static [&'static str],
    /// What stands after `--`.
    passed_on: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// What a command prints besides its findings.
#[derive(PartialEq, Eq)]
enum Output {
    /// Progress, which `--quiet` leaves out.
    Progress,
    /// Nothing: `--quiet` would leave out the findings.
    FindingsOnly,
}

/// The cheapest to repair, and the first.
const FORMAT: CargoStep = CargoStep {
    name: "format",
    command: "fmt",
    output: Output::FindingsOnly,
    arguments: &["--all", "--check"],
    passed_on: &[],
    environment: &[],
};

/// Tells tests that the programs which they check results with are installed: none is skipped for the lack of one.
const TOOLS_EXPECTED: (&str, &str) = ("MULLION_TEST_TOOLS", "1");

/// The other steps in their order.
const STEPS: &[CargoStep] = &[
    CargoStep {
        name: "clippy",
        command: "clippy",
        output: Output::Progress,
        arguments: &["--workspace", "--all-targets"],
        passed_on: &["-D", "warnings"],
        environment: &[],
    },
    CargoStep {
        name: "tests",
        command: "test",
        output: Output::Progress,
        arguments: &["--workspace"],
        passed_on: &[],
        environment: &[TOOLS_EXPECTED],
    },
    CargoStep {
        name: "documentation",
        command: "doc",
        output: Output::Progress,
        arguments: &["--workspace", "--no-deps"],
        passed_on: &[],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// What every change must pass.
    Usual,
    /// The long tests too, which are run before an issue is called resolved.
    Slow,
}

/// Runs every step, stops at the first that fails, and prints how long each took.
///
/// Kubernetes' programs take longest where they are built from source: that goes on beside everything that makes no
/// machine.
pub fn run(pace: Pace) -> Result<(), XtaskError> {
    let mut steps = Steps::default();
    steps.run("tools", || {
        tools::ensure_tested_with()?;
        tools::ensure_cargo_deny().map(|()| Outcome::Done)
    })?;
    steps.run(FORMAT.name, || run_cargo(&FORMAT))?;
    let scratch = tempfile::tempdir()?;
    let program = up::install_into(scratch.path(), &mut steps)?;
    let empty = tempfile::tempdir()?;
    let fetch = start_fetch(&program, empty.path(), &mut steps)?;
    for step in STEPS {
        steps.run(step.name, || run_cargo(step))?;
    }
    steps.run("licences, bans and sources", || {
        tools::run(&mut tools::cargo(&[
            "deny",
            "--workspace",
            "check",
            "licenses",
            "bans",
            "sources",
        ]))
        .map(|()| Outcome::Done)
    })?;
    steps.run("advisories", check_advisories)?;
    match fetch {
        Some(fetch) => {
            steps.run("the rest of Kubernetes' programs", || {
                fetch.wait().map(|()| Outcome::Done)
            })?;
            steps.run("Windows programs", || {
                windows_tests::run().map(|()| Outcome::Done)
            })?;
            steps.run("real machines", || {
                real_machines(&program, pace, &[]).map(|()| Outcome::Done)
            })?;
        }
        None => steps.run("real machines", || {
            Ok(Outcome::Skipped("they need root: run it with sudo".into()))
        })?,
    }
    // Last: it takes long, and seldom finds what the steps before did not.
    if pace == Pace::Slow {
        steps.run("fuzzing", || {
            fuzz::run(None, Some(fuzz::SLOW), None).map(|()| Outcome::Done)
        })?;
    }
    println!("\n{}", steps.summary());
    Ok(())
}

/// Runs the tests that make real machines and no other step: all of that pace, or those whose names hold one of `names`.
pub fn run_machines(pace: Pace, names: &[String]) -> Result<(), XtaskError> {
    if !rustix::process::geteuid().is_root() {
        return Err(XtaskError::NeedsRoot);
    }
    let mut steps = Steps::default();
    steps.run("tools", || {
        tools::ensure_tested_with().map(|()| Outcome::Done)
    })?;
    let scratch = tempfile::tempdir()?;
    let program = up::install_into(scratch.path(), &mut steps)?;
    real_machines(&program, pace, names)
}

/// Begins to get what the built-in cluster is made of; nothing where no machine can be made of it.
///
/// `empty` is a folder without a file, so that the built-in cluster is meant.
fn start_fetch(
    program: &Path,
    empty: &Path,
    steps: &mut Steps,
) -> Result<Option<Beside>, XtaskError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    steps.run("what this computer lacks", || {
        let mut doctor = Command::new(program);
        tools::run(doctor.args(["doctor", "--fix"]).current_dir(empty)).map(|()| Outcome::Done)
    })?;
    // Behind the steps that are waited for.
    let mut fetch = Command::new("nice");
    fetch.args(["-n", "10"]).arg(program);
    fetch.args(["artifacts", "fetch"]).current_dir(empty);
    Beside::start(fetch).map(Some)
}

/// The tests that every change must pass: a cluster from nothing to nothing with everything that must work in between,
/// also after a restart of the computer, one that the adapter makes step by step, one in which a plan is shown, saved and run,
/// one of both systems, one whose making is killed again and again, what the README
/// shows, the contract of the drivers that carry all of them, its networks, routes to private networks, a stand-in for
/// Windows, every promise of `docs/security.md` that needs root, and how the command asks for root.
const USUAL: [&str; 13] = [
    "whole::",
    "ports::",
    "shown::",
    "windows::",
    "killed::",
    "what_pages_show",
    "the_driver_keeps_its_contract",
    "networks::",
    "routes::",
    "stand_in::",
    "promise_",
    "elevation::",
    "a_removal_is_one_document",
];

/// The tests that make real machines: they need root, and packages that `doctor --fix` installs.
///
/// The long ones, which build programs anew or break machines in every way, are run with `--slow` alone.
fn real_machines(program: &Path, pace: Pace, names: &[String]) -> Result<(), XtaskError> {
    let cache = Cache::ask(program)?;
    let (programs, parts) = (tempfile::tempdir()?, tempfile::tempdir()?);
    cache.link_programs(programs.path())?;
    cache.link_parts(parts.path())?;
    let stand_in = tempfile::tempdir()?;
    stand_in::gather(stand_in.path(), cache.folder())?;
    let mut tests = ignored_tests(pace, names);
    tests
        .env("MULLION_PROGRAM", program)
        .env("MULLION_TEST_AGENT", up::agent_program()?)
        .env("MULLION_TEST_BIN", programs.path())
        .env("MULLION_TEST_PARTS", parts.path())
        .env("MULLION_TEST_STAND_IN", stand_in.path());
    tools::run(&mut tests)
}

fn ignored_tests(pace: Pace, names: &[String]) -> Command {
    // Whatever fails, the rest is told too: another run of all takes long.
    let mut tests = tools::cargo(&["test", "--quiet", "--no-fail-fast"]);
    match pace {
        Pace::Usual => tests.args([
            "--package=mullion",
            "--package=mullion-machines",
            "--package=mullion-artifacts",
        ]),
        // Its own are those of Windows programs, which were run before.
        Pace::Slow => tests
            .args(["--workspace", "--exclude=xtask"])
            .env("MULLION_SLOW", "1"),
    };
    if pace == Pace::Usual {
        tests.args(["--test=real", "--test=cli"]);
    }
    // They share this computer's networks and cores, so they take turns.
    tests.args(["--", "--ignored", "--test-threads=1"]);
    match pace {
        _ if !names.is_empty() => tests.args(names),
        Pace::Usual => tests.args(USUAL),
        Pace::Slow => &mut tests,
    };
    tests
}

fn run_cargo(step: &CargoStep) -> Result<Outcome, XtaskError> {
    let mut command = tools::cargo(&[step.command]);
    // Progress is for someone who watches; a log gets warnings, failures and the tests' own lines.
    if step.output == Output::Progress && !stderr().is_terminal() {
        command.arg("--quiet");
    }
    command.args(step.arguments);
    if !step.passed_on.is_empty() {
        command.arg("--").args(step.passed_on);
    }
    command.envs(step.environment.iter().copied());
    tools::run(&mut command).map(|()| Outcome::Done)
}

/// Known vulnerabilities, where the database can be reached.
///
/// Fetching and checking are two commands, so that a network that is not there is never taken for an
/// advisory, nor the other way round.
fn check_advisories() -> Result<Outcome, XtaskError> {
    let mut fetch = tools::cargo(&["deny", "--workspace", "fetch", "db"]);
    fetch.stdin(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0");
    let fetched = fetch.output().map_err(|cause| XtaskError::Start {
        command: tools::shown(&fetch),
        cause,
    })?;
    if !fetched.status.success() {
        return Ok(Outcome::Skipped(
            "the advisory database cannot be reached".into(),
        ));
    }
    tools::run(&mut tools::cargo(&[
        "deny",
        "--workspace",
        "--offline",
        "check",
        "advisories",
    ]))
    .map(|()| Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_and_documentation_take_no_warning() {
        let step = |name| STEPS.iter().find(|step| step.name == name).unwrap();
        assert_eq!(step("clippy").passed_on, ["-D", "warnings"]);
        assert_eq!(
            step("documentation").environment,
            [("RUSTDOCFLAGS", "-D warnings")]
        );
    }

    #[test]
    fn every_step_covers_the_whole_workspace() {
        for step in STEPS.iter().chain([&FORMAT]) {
            assert!(
                step.arguments.contains(&"--workspace") || step.arguments.contains(&"--all"),
                "{}",
                step.name
            );
        }
    }
}
