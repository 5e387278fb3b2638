//! `mullion completions`.

use clap::CommandFactory as _;

use crate::arguments::Arguments;
use crate::console::Console;
use crate::failure::Failure;

/// Writes completions for a shell.
pub fn completions(console: &mut Console<'_>, shell: clap_complete::Shell) -> Result<u8, Failure> {
    // The generator cannot report a closed pipe, so it writes into memory and we write once.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "mullion", &mut script);
    console.out.write_all(&script)?;
    Ok(0)
}
