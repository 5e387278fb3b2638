//! The command line as a page, and as manual pages.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};
use mullion::arguments::Arguments;

/// Every command with its help, as one page.
pub(super) fn reference() -> String {
    let mut text = String::from(
        "# Command line\n\n\
         What `mullion` takes. Exit codes: 0 done, 2 usage, 3 the file, 4 this computer, 5 a machine or the cluster,\n\
         6 a check failed, 8 changes pending (`plan --detailed-exitcode`), 70 a bug of ours, 130 interrupted.\n",
    );
    for command in every() {
        let name = command
            .get_bin_name()
            .unwrap_or_else(|| command.get_name())
            .to_owned();
        let help = command
            .clone()
            .term_width(100)
            .render_long_help()
            .to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = write!(
            text,
            "\n## `{name}`\n\n```text\n{}\n```\n",
            help.join(
                "
"
            )
            .trim_end()
        );
    }
    text
}

/// A manual page for every command, by its name.
pub(super) fn manual() -> Vec<(String, String)> {
    every()
        .into_iter()
        .map(|command| {
            let name = command
                .get_bin_name()
                .unwrap_or_else(|| command.get_name())
                .replace(' ', "-");
            let mut page = Vec::new();
            // Writing into memory does not fail.
            let _ = clap_mangen::Man::new(command).render(&mut page);
            (name, String::from_utf8_lossy(&page).into_owned())
        })
        .collect()
}

/// The program and all its commands, outermost first.
fn every() -> Vec<Command> {
    let mut root = Arguments::command();
    root.build();
    let mut found = Vec::new();
    collect(&root, &mut found);
    found
}

fn collect(command: &Command, found: &mut Vec<Command>) {
    found.push(command.clone());
    for inner in command
        .get_subcommands()
        .filter(|inner| inner.get_name() != "help" && !inner.is_hide_set())
    {
        collect(inner, found);
    }
}
