//! Programs of a computer have a limit of time: `mullion-program` ends them at it. Where the product makes a command of
//! its own, the list below says what ends it.

use crate::files::{Breach, Exception, File, line_of, with_exceptions};
use crate::paths::{Glob, naming};
use crate::sources;

/// Files that make commands, each with what ends the program.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        subject: "crates/mullion-program/src/lib.rs",
        reason: "it is what holds the limit",
    },
    Exception {
        subject: "crates/mullion-machines/src/nspawn/exec.rs",
        reason: "`run_with` gives the command to `mullion-program`; `boot.rs` starts a machine with it, which lives on",
    },
    Exception {
        subject: "crates/mullion-artifacts/src/sources.rs",
        reason: "`process::run` runs what it makes",
    },
    Exception {
        subject: "crates/mullion-artifacts/src/distribution.rs",
        reason: "`process::run` runs what it makes",
    },
    Exception {
        subject: "crates/mullion-artifacts/src/go/build.rs",
        reason: "`process::run` runs what it makes",
    },
    Exception {
        subject: "crates/mullion-artifacts/src/go/mod.rs",
        reason: "`process::run` runs what it makes",
    },
    Exception {
        subject: "crates/mullion-rights/src/lib.rs",
        reason: "it sets the user of commands that others make and run",
    },
    Exception {
        subject: "crates/mullion-artifacts/src/process.rs",
        reason: "`run` has a limit for each tool",
    },
    Exception {
        subject: "crates/mullion-template/src/images.rs",
        reason: "`mullion-program` or `await_end` ends what it makes; containerd is ended by `stop` and by its guard",
    },
    Exception {
        subject: "crates/mullion/src/doctor/probe/programs.rs",
        reason: "each question has a deadline, which `mullion-program` holds",
    },
    Exception {
        subject: "crates/mullion/src/elevation.rs",
        reason: "sudo asks the user for a password, and then is this program: the user ends it",
    },
    Exception {
        subject: "crates/mullion/src/commands/kubectl.rs",
        reason: "the user's own command at the terminal",
    },
    Exception {
        subject: "crates/mullion/src/commands/ssh.rs",
        reason: "the user's own session at the terminal",
    },
    Exception {
        subject: "crates/mullion-agent/src/system/linux/programs.rs",
        reason: "`watch` ends it at the limit that each program carries",
    },
    Exception {
        subject: "crates/mullion-agent/src/system/windows/programs.rs",
        reason: "`watch` ends it at the limit that each program carries; one beside the agent ends with it",
    },
    Exception {
        subject: "crates/mullion-standin/src/shell.rs",
        reason: "the command of an SSH session, which ends with the session",
    },
];

const LISTED_IN: &str = "xtask/tests/tidy/programs.rs";

/// Every place that starts a program says what ends it.
pub(crate) fn limited(files: &[File]) -> Vec<Breach> {
    with_exceptions(LISTED_IN, EXCEPTIONS, makers(files))
}

/// Files that name `process::Command`. Commands for other machines are `mullion_ssh`'s, and have their limits there.
fn makers(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let is_tool =
        |path: &str| path.starts_with("xtask/") || path.starts_with("crates/mullion-fuzz/");
    // The extensions of a command, such as `CommandExt`, are found too.
    let makes = |path: &[String], glob: Glob| {
        let is_named = |pair: &[String]| pair[0] == "process" && pair[1].starts_with("Command");
        let is_all = glob == Glob::Yes && path.last().is_some_and(|name| name == "process");
        (is_all || path.windows(2).any(is_named)).then(String::new)
    };
    for (file, tokens) in sources::of_product(files) {
        // What developers run, they end.
        if is_tool(&file.path) {
            continue;
        }
        let first = naming(&file.text, &tokens, makes).into_iter().next();
        breaches.extend(first.map(|(place, _)| {
            let line = line_of(&file.text, place);
            Breach::new(
                file,
                line,
                "starts programs and is not in the list of what ends them",
            )
        }));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_08_a_program_without_a_limit_is_found() {
        let told = |path: &str, text: &str| makers(&[File::new(path, text)]).len();
        let direct = "fn a() { std::process::Command::new(\"ip\").output(); }";
        assert_eq!(told("crates/mullion-kube/src/a.rs", direct), 1);
        let imported = "use std::process::{Child, Command};\nfn a() { Command::new(\"ip\"); }";
        assert_eq!(told("crates/mullion-kube/src/a.rs", imported), 1);
        assert_eq!(told("crates/mullion-kube/tests/a.rs", imported), 0);
        let renamed = "use std::process as p;\nfn a() { p::Command::new(\"ip\"); }";
        assert_eq!(told("crates/mullion-kube/src/a.rs", renamed), 1);
        let other = "use mullion_ssh::Command;\nuse std::process::{Child, Stdio};";
        assert_eq!(told("crates/mullion-kube/src/a.rs", other), 0);
    }
}
