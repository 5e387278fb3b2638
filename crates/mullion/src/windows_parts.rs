//! What Windows machines are brought, inside this program where its build was given it.

use std::collections::BTreeMap;
use std::io::Read as _;

use mullion_live::{Agent, WindowsOutfit};

use crate::failure::{Class, Failure};

/// Empty where the build was given none.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/windows.tar"));

const AGENT: &str = "mullion-agent.exe";
const STAND_IN: &str = "mullion-standin";

/// Takes it out; nothing where there is none.
pub fn find() -> Result<Option<WindowsOutfit>, Failure> {
    if EMBEDDED.is_empty() {
        return Ok(None);
    }
    let broken = |words: &str| Failure::new(Class::OurBug, words.to_owned());
    let unread = |error: std::io::Error| {
        broken("what Windows machines are brought cannot be taken out of this program")
            .because(&error)
    };
    let mut files = BTreeMap::new();
    let mut archive = mullion_tar::TarReader::new(EMBEDDED);
    for entry in archive.entries().map_err(unread)? {
        let mut entry = entry.map_err(unread)?;
        let name = entry.path().map_err(unread)?.display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(unread)?;
        files.insert(name, bytes);
    }
    let mut take = |name: &str| {
        let missing = || broken(&format!("this program was built without `{name}`"));
        files.remove(name).ok_or_else(missing)
    };
    Ok(Some(WindowsOutfit {
        agent: Agent::new(take(AGENT)?.into(), env!("CARGO_PKG_VERSION")),
        stand_in: take(STAND_IN)?.into(),
        shims: files
            .into_iter()
            .map(|(name, bytes)| (name, bytes.into()))
            .collect(),
    }))
}
