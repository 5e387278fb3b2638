//! `mullion console`: what a machine wrote to its console.

use mullion_catalog::Judgement;
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
    let hands = workshop::open(model, environment)?;
    let lines = hands
        .console_tail(machine, wishes.lines)
        .map_err(|error| told(model, machine, &error))?;
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
        writeln!(console.out, "{}", printable(line))?;
    }
    Ok(0)
}

/// A line that changes nothing but the next line of a terminal: a booting system clears screens and moves cursors.
fn printable(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                // A sequence ends with a letter; what introduces it goes too.
                if letters
                    .next_if(|next| matches!(next, '[' | '(' | ')'))
                    .is_some()
                {
                    while letters
                        .next()
                        .is_some_and(|next| !next.is_ascii_alphabetic() && next != '~')
                    {
                    }
                } else {
                    letters.next();
                }
            }
            '\t' => out.push('\t'),
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn colours_and_cursors_of_a_console_are_left_out() {
        assert_eq!(
            printable("\u{1b}[0;32m  OK  \u{1b}[0m] Started\r \u{1b}[2J\u{1b}7x\ty\u{1b}"),
            "  OK  ] Started x\ty"
        );
    }
}
