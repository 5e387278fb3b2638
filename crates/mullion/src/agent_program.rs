//! The agent's program for Linux machines: inside this program, or beside it.

use std::borrow::Cow;
use std::path::Path;

use crate::failure::{Class, Failure};

/// Empty where the build was given none.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mullion-agent"));
const NAME: &str = "mullion-agent";

/// Finds it; `program` is the file of the running program.
pub fn find(program: Option<&Path>) -> Result<Cow<'static, [u8]>, Failure> {
    if !EMBEDDED.is_empty() {
        return Ok(Cow::Borrowed(EMBEDDED));
    }
    // Our own program, wherever it is installed.
    let _rights = mullion_rights::as_root();
    let beside = program.and_then(Path::parent).and_then(|folder| {
        // A test's program is one folder deeper than what it tests.
        let folders = [Some(folder), folder.parent()];
        let mut files = folders
            .into_iter()
            .flatten()
            .map(|folder| folder.join(NAME));
        files.find(|file| file.is_file())
    });
    let missing = || {
        Failure::new(
            Class::OurBug,
            "the agent for Linux machines is neither inside this program nor beside it",
        )
        .hint("install mullion with `cargo xtask up`, which puts it inside")
    };
    let path = beside.ok_or_else(missing)?;
    let bytes = fs_err::read(path).map_err(|error| missing().because(&error))?;
    Ok(Cow::Owned(bytes))
}
