//! File rights: Mullion runs as root for a user and touches files with that user's rights.
//!
//! ```text
//! act_for(invoker)   once, before any thread: every thread then opens and creates files as the invoking user
//! as_root()          this thread has root's file rights while the guard lives: machines, templates, their locks
//! as_invoker()       the invoking user's again: files that the cluster file names
//! as_default()       what threads have that asked for nothing
//! ```
//!
//! The kernel keeps a user and a group for file access for each thread (`setfsuid`). A thread that has the invoking
//! user's cannot read, create, replace or remove what that user could not, wherever a path or a link leads, and what it
//! creates belongs to that user. So nothing is ever given away afterwards. Code that forgets to ask for root fails with
//! "permission denied"; it does not act as root for a stranger's file.
//!
//! A process that no one elevated, or that root itself started, has one user: every call here then changes nothing.
//!
//! # Current limitations
//!
//! - Programs that are started run as root unless [`lower`] or [`lower_to_invoker`] is called on their command.
//! - A lowered program has no supplementary groups.
//! - A thread that is started under a guard keeps the guard's rights.

mod invoker;
mod opened;
mod path;
mod record;
mod replace;

use std::io;
use std::marker::PhantomData;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::unistd::{Gid, Uid, User, geteuid, setfsgid, setfsuid, setgroups};
use rustix::fs::Mode;
use rustix::process::umask;

pub use invoker::{Invoker, InvokerError, VARIABLES};
pub use opened::Opened;
pub use path::{Detour, belongs_to_root, can_use, no_detour};
pub use record::{open_record, read_record};
pub use replace::{draft_of, private_draft, private_folder, replace, replace_private, sync_folder};

static INVOKER: OnceLock<Invoker> = OnceLock::new();
static ROOT_BY_DEFAULT: AtomicBool = AtomicBool::new(false);

/// The user that root works for, where that is not root.
pub fn invoker() -> Option<&'static Invoker> {
    INVOKER.get()
}

/// From now on this thread, and every one that it starts, has the invoking user's file rights.
///
/// Call it once, as root, before there are other threads.
pub fn act_for(invoker: Invoker) -> io::Result<()> {
    let groups: Vec<_> = invoker.groups.iter().copied().map(Gid::from_raw).collect();
    setgroups(&groups)?;
    let invoker = INVOKER.get_or_init(|| invoker);
    let wanted = (invoker.user, invoker.group);
    set(wanted);
    if current() == wanted {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the kernel does not let root act for user {}",
        invoker.user
    )))
}

/// Threads have root's file rights again unless they ask for the invoking user's: the state folder is root's own.
pub fn default_to_root() {
    ROOT_BY_DEFAULT.store(true, Ordering::Relaxed);
    if INVOKER.get().is_some() {
        set((0, 0));
    }
}

/// Whether threads have root's file rights unless they ask for the invoking user's.
pub fn is_root_by_default() -> bool {
    ROOT_BY_DEFAULT.load(Ordering::Relaxed)
}

/// The thread has other file rights until this is dropped. Guards nest.
#[derive(Debug)]
#[must_use = "the rights end with this value"]
pub struct Guard {
    before: Option<(u32, u32)>,
    /// Rights are the thread's: the value must end where it began.
    _thread: PhantomData<*const ()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set(before);
        }
    }
}

/// Root's file rights, for this thread.
pub fn as_root() -> Guard {
    enter(invoker().map(|_| (0, 0)))
}

/// The invoking user's file rights, for this thread.
pub fn as_invoker() -> Guard {
    enter(invoker().map(|invoker| (invoker.user, invoker.group)))
}

/// The file rights that threads have by default, for this thread.
pub fn as_default() -> Guard {
    if is_root_by_default() {
        as_root()
    } else {
        as_invoker()
    }
}

/// From now on nothing that this process or a program of it creates can be written by the group or by others, unless
/// its mode is set afterwards. A stricter mask of the user's stays.
pub fn restrict_umask() {
    let others_write = Mode::WGRP | Mode::WOTH;
    let given = umask(others_write);
    umask(given | others_write);
}

/// The home folder that the computer's database gives the user of this process.
pub fn home() -> Option<PathBuf> {
    let user = User::from_uid(geteuid()).ok().flatten()?;
    Some(user.dir).filter(|home| home.is_absolute())
}

/// Lets a program run as the user whose file rights this thread has.
pub fn lower(command: &mut Command) -> &mut Command {
    let (user, group) = current();
    if user != 0 && geteuid().is_root() {
        command.uid(user).gid(group);
    }
    command
}

/// Lets a program run as the invoking user.
pub fn lower_to_invoker(command: &mut Command) -> &mut Command {
    let _rights = as_invoker();
    lower(command)
}

fn enter(wanted: Option<(u32, u32)>) -> Guard {
    let before = wanted.map(|wanted| {
        let before = current();
        set(wanted);
        // `act_for` tried it: a kernel that refuses now would let root act for a stranger.
        assert_eq!(current(), wanted, "the kernel changes file rights");
        before
    });
    Guard {
        before,
        _thread: PhantomData,
    }
}

/// The user and group of this thread's file access. The kernel answers a change to no user with the current one.
fn current() -> (u32, u32) {
    let none = u32::MAX;
    let user = setfsuid(Uid::from_raw(none));
    let group = setfsgid(Gid::from_raw(none));
    (user.as_raw(), group.as_raw())
}

fn set((user, group): (u32, u32)) {
    setfsgid(Gid::from_raw(group));
    setfsuid(Uid::from_raw(user));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_one_user_keeps_its_rights() {
        let before = current();
        for guard in [as_root(), as_invoker(), as_default()] {
            assert_eq!(current(), before);
            drop(guard);
        }
        let mut command = Command::new("true");
        assert!(lower(&mut command).status().unwrap().success());
        assert_eq!(current(), before);
    }
}
