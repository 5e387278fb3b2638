//! Emptying a file that somebody appends to.

use std::fs::File;
use std::io;

/// Moves what is in one file to another. Never whole in memory.
pub(super) fn pour(from: &mut File, to: &mut File) -> io::Result<()> {
    io::copy(from, to)?;
    to.sync_data()?;
    // That took its time: what was written meanwhile comes along, and nothing slow is left to be done after it.
    io::copy(from, to)?;
    from.set_len(0)
}
