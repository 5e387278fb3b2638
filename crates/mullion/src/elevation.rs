//! Root, for the steps that need it: asked for once, and what the user should own stays theirs.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use crate::console::{Console, Presence};
use crate::environment::Environment;
use crate::failure::{Class, Failure};

/// The variable that tells the elevated process whose files it writes.
pub const OWNER: &str = "MULLION_OWNER";

/// Whose the user's files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The user's group.
    pub group: u32,
}

impl Owner {
    /// Whoever runs this process.
    pub fn of_process() -> Self {
        Self {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }

    /// Reads `1000:1000`.
    pub fn read(text: &str) -> Option<Self> {
        let (user, group) = text.split_once(':')?;
        Some(Self {
            user: user.parse().ok()?,
            group: group.parse().ok()?,
        })
    }
}

/// What comes of asking for root.
#[derive(Debug, PartialEq, Eq)]
pub enum Elevation {
    /// We are root already.
    Root,
    /// The command was run to its end as root; this was its exit code.
    Done(u8),
}

/// Root, or the command run again as root by `sudo`, or how to do that.
///
/// `reasons` are the steps that need it.
pub fn elevate(
    console: &mut Console<'_>,
    environment: &Environment,
    arguments: &[OsString],
    reasons: &[String],
) -> Result<Elevation, Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(Elevation::Root);
    }
    let typed: Vec<_> = arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let typed = typed.join(" ");
    let mut words = String::from("root is needed to");
    for (index, reason) in reasons.iter().enumerate() {
        let _ = write!(words, "{} {reason}", if index == 0 { "" } else { "," });
    }
    if console.presence == Presence::Unattended {
        return Err(Failure::new(Class::ThisComputer, words)
            .hint(format!("type `sudo {typed}`, or run it as root")));
    }
    writeln!(console.err, "{words}; asking sudo once")?;
    console.err.flush()?;
    let program = std::env::current_exe()?;
    let mut sudo = Command::new("sudo");
    sudo.arg("--");
    sudo.arg("env");
    for (name, value) in handed_on(environment) {
        let mut pair = OsString::from(name);
        pair.push("=");
        pair.push(value);
        sudo.arg(pair);
    }
    sudo.arg(program);
    sudo.args(arguments.iter().skip(1));
    let status = sudo.status().map_err(|error| {
        Failure::new(Class::ThisComputer, "sudo could not be started")
            .because(&error)
            .hint(format!("run as root: {typed}"))
    })?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Elevation::Done(code.unwrap_or(130)))
}

/// What the elevated process must know of ours: whose folders it writes to, and everything that we looked at.
fn handed_on(environment: &Environment) -> Vec<(&'static str, OsString)> {
    let owner = Owner::of_process();
    let mut pairs: Vec<_> = environment
        .values
        .iter()
        .filter(|(name, _)| **name != "PATH")
        .map(|(name, value)| (*name, value.clone()))
        .collect();
    pairs.push((OWNER, format!("{}:{}", owner.user, owner.group).into()));
    pairs
}

/// Gives what root wrote in the user's own folders to the user.
pub fn give_back(owner: Option<Owner>, folders: &[&Path]) {
    let Some(owner) = owner else { return };
    for folder in folders {
        give(owner, folder);
    }
}

fn give(owner: Owner, path: &Path) {
    let Ok(found) = path.symlink_metadata() else {
        return;
    };
    if found.uid() == 0 {
        // What cannot be given stays root's, and is readable all the same where it was before.
        let _ = std::os::unix::fs::lchown(path, Some(owner.user), Some(owner.group));
    }
    if found.is_dir()
        && let Ok(entries) = fs_err::read_dir(path)
    {
        for entry in entries.flatten() {
            give(owner, &entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_two_numbers() {
        let owner = Owner {
            user: 1000,
            group: 100,
        };
        assert_eq!(Owner::read("1000:100"), Some(owner));
        for bad in ["", "1000", "root:root", "1:2:3"] {
            assert_eq!(Owner::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_elevated_process_gets_the_users_folders_and_not_the_users_path() {
        let environment = Environment::new("/work".into(), |name| match name {
            "HOME" => Some("/home/user".into()),
            "PATH" => Some("/bin".into()),
            _ => None,
        });
        let names: Vec<_> = handed_on(&environment)
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert!(names.contains(&"HOME") && names.contains(&OWNER));
        assert!(!names.contains(&"PATH"));
    }
}
