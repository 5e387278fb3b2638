//! `mullion console`: what a machine wrote to its console.

use mullion_catalog::Judgement;
use mullion_wire::text::one_line;
use schemars::JsonSchema;
use serde::Serialize;

use super::ssh::told;
use super::validate::refuse;
use crate::arguments::ConsoleArguments;
use crate::console::{Console, FAINT, Format};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::workshop;

/// The last lines of a machine's console.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleDocument {
    /// The machine.
    pub machine: String,
    /// The lines, the oldest first.
    pub lines: Vec<String>,
}

/// Shows the last lines of a machine's console.
pub fn machine_console(
    console: &mut Console<'_>,
    judgement: &Judgement,
    wishes: &ConsoleArguments,
    environment: &Environment,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let machine = &wishes.machine;
    let adapter = workshop::open(model, environment)?;
    let lines = adapter
        .console_tail(machine, wishes.lines)
        .map_err(|error| told(model, machine, &error))?;
    // A booting system clears screens and moves cursors, and whoever has the machine may write anything.
    let lines: Vec<_> = lines
        .iter()
        .map(|line| one_line(line).into_owned())
        .collect();
    if console.format == Format::Json {
        let document = ConsoleDocument {
            machine: machine.to_string(),
            lines,
        };
        console.json("Console", &document)?;
        return Ok(0);
    }
    if lines.is_empty() {
        let nothing = format!("{machine} wrote nothing to its console yet");
        writeln!(console.err, "{}", console.styled_err(FAINT, &nothing))?;
    }
    for line in &lines {
        writeln!(console.out, "{line}")?;
    }
    Ok(0)
}
