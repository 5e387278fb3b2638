//! What the logic asks of an operating system: the ports, and the adapters that answer.
//!
//! The contract of every method:
//!
//! - **Paths** are absolute texts with `/` between their parts, on Windows after a drive's letter: `C:/k/kubelet.exe`.
//! - **Reading** (`look`, `read`, `services`, …) changes nothing, and an absent thing is a value, not an error.
//! - **Changing** is idempotent: what is so already is success.
//! - **Killed:** after any one call the system is in a state from which the same request, sent again, goes on. Only
//!   [`Files::rename`] is relied on to happen wholly or not at all.
//! - **Programs** never run longer than their deadline, and what they write reaches the caller line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mullion_wire::{Blueprint, Facts, File, Firewall, Package, Patience, Service, Sha256Digest};

mod account;
mod answers;
mod error;
#[cfg(unix)]
pub mod linux;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod only_windows;
mod pour;
mod program;
pub mod registry;
mod rehearsal;
mod starved;
mod streams;
#[cfg(any(windows, test))]
pub mod windows;

/// The system that the agent runs on.
#[cfg(unix)]
pub use linux::Linux as Own;
/// The system that the agent runs on.
#[cfg(windows)]
pub use windows::Windows as Own;

pub use account::Account;
pub use error::SystemError;
pub use only_windows::{
    EVENT_SOURCE, Holds, LogEntry, NetworkState, OnlyWindows, RunningProgram, ServiceEnd,
    ServiceWork,
};
pub use program::{LockWhile, Program, Proxy};
pub(crate) use rehearsal::Rehearsal;
pub use starved::Starved;

/// Which of the two systems it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
}

/// Where things are on a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The agent's state folder.
    pub state: String,
    /// The file whose lock keeps two agents apart.
    pub lock: String,
    /// The folder where secrets are while a program needs them; in memory where the system can.
    pub secrets: String,
    /// kubeadm's folder.
    pub kubernetes: String,
    /// kubelet's folder.
    pub kubelet: String,
    /// etcd's folder.
    pub etcd: String,
    /// The folder with configurations of the pod network.
    pub network: String,
    /// Folders with state of the pod network.
    pub network_state: Vec<String>,
    /// Where containerd listens, as kubeadm names it.
    pub container_socket: String,
}

impl Paths {
    /// Where things are on Windows. What is the agent's own is where only administrators make anything: in
    /// `C:/ProgramData` everybody could have been there first.
    pub fn of_windows() -> Self {
        let text = str::to_owned;
        Self {
            state: text("C:/Program Files/mullion"),
            lock: text("C:/Program Files/mullion.lock"),
            secrets: text("C:/Program Files/mullion-secrets"),
            kubernetes: text("C:/etc/kubernetes"),
            kubelet: text("C:/var/lib/kubelet"),
            etcd: text("C:/var/lib/etcd"),
            network: text("C:/etc/cni/net.d"),
            network_state: vec![text("C:/var/lib/cni"), text("C:/run/flannel")],
            container_socket: text("npipe:////./pipe/containerd-containerd"),
        }
    }
}

/// What stands at a path. A link at its end is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Permissions; 0 where the system has none.
    pub mode: u32,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// The file's own number, by which a file that was put in its place is told from it.
    pub number: u64,
    /// Whose it is.
    pub owner: Owner,
}

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// Something else: a device, a socket.
    Other,
}

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The user's that the agent runs as.
    Agent,
    /// Somebody else's.
    Other,
}

/// Whether something was there to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It was, and is gone.
    Gone,
    /// It was not there, or is a folder that is not empty.
    Nothing,
    /// It is still there, and nothing more can be done about it now: why.
    Stays(&'static str),
}

/// Files and folders.
pub trait Files {
    /// What stands at a path.
    fn look(&self, path: &str) -> Result<Option<Look>, SystemError>;
    /// A small file, whole; links are followed.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SystemError>;
    /// The digest of a file of any size; never whole in memory.
    fn digest(&self, path: &str) -> Result<Sha256Digest, SystemError>;
    /// The names in a folder, sorted; none where there is no folder.
    fn list(&self, folder: &str) -> Result<Vec<String>, SystemError>;
    /// Makes one folder, its parent being there, or gives the one that is there this mode.
    fn make_folder(&self, path: &str, mode: u32) -> Result<(), SystemError>;
    /// Writes a file; it is on the disk when this returns. A kill may leave half of it.
    fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), SystemError>;
    /// Writes a file with the bytes of another of any size. As [`Files::write`] otherwise.
    fn copy(&self, from: &str, to: &str, mode: u32) -> Result<(), SystemError>;
    /// Moves what is in a file into a new one that no more may open, and leaves it empty, the same file: who appends to it
    /// goes on at its beginning, and loses at most what it writes in the instant before. A failure leaves it as it is; a
    /// kill may leave a part of the new one.
    fn pour(&self, from: &str, to: &str) -> Result<(), SystemError>;
    /// Writes a file that is another's twin: bytes, mode, owner, time; or a link with the same target.
    fn twin(&self, from: &str, to: &str) -> Result<(), SystemError>;
    /// Puts one path in another's place, wholly or not at all.
    fn rename(&self, from: &str, to: &str) -> Result<(), SystemError>;
    /// Gives a file a mode, and to the user that the agent runs as.
    fn set_mode(&self, path: &str, mode: u32) -> Result<(), SystemError>;
    /// Removes a file, a link, or a folder with everything in it. A program that runs, which Windows does not remove, is
    /// put aside and goes with the next start of the machine.
    fn remove(&self, path: &str) -> Result<Removed, SystemError>;
    /// Removes a folder if it is empty.
    fn remove_empty(&self, folder: &str) -> Result<Removed, SystemError>;
}

/// How a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceFacts {
    /// Whether it starts with the machine, or cannot be made to (a definition that says nothing about it).
    pub is_enabled: bool,
    /// Whether it runs.
    pub activity: Activity,
}

impl ServiceFacts {
    /// A service that nobody knows.
    pub const UNKNOWN: Self = Self {
        is_enabled: false,
        activity: Activity::Stopped,
    };
}

/// Whether a service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It runs.
    Running,
    /// It is being started.
    Starting,
    /// It does not run.
    Stopped,
}

/// How a service came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Stopped {
    /// As it was told to.
    ByItself,
    /// It did not, in the time that it had: these of its processes were ended.
    Ended(Vec<String>),
}

/// Services of the system's service manager, by name.
pub trait Services {
    /// How they are; one that is not known is [`ServiceFacts::UNKNOWN`].
    fn services(&self, names: &[&str]) -> Result<BTreeMap<String, ServiceFacts>, SystemError>;
    /// Whether a file at that path defines a service, so that the manager must read it anew.
    fn defines_service(&self, path: &str) -> bool;
    /// Lets the manager read its definitions anew.
    fn reload(&self) -> Result<(), SystemError>;
    /// Lets them start with the machine.
    fn enable(&self, names: &[&str]) -> Result<(), SystemError>;
    /// Lets them not start with the machine.
    fn disable(&self, names: &[&str]) -> Result<(), SystemError>;
    /// Starts one and waits until it says that it runs.
    fn start(&self, name: &str) -> Result<(), SystemError>;
    /// Stops one and waits until it has, and until nothing of it runs. `ours` are those whose definitions are ours.
    fn stop(&self, name: &str, ours: &BTreeSet<String>) -> Result<Stopped, SystemError>;
    /// Stops one where it runs, as [`Services::stop`] does, and starts it.
    fn restart(&self, name: &str, ours: &BTreeSet<String>) -> Result<Stopped, SystemError>;
    /// Its last lines; none where they cannot be had.
    fn service_log(&self, name: &str, lines: usize) -> Vec<String>;
}

/// Whether the kernel has a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// It works: loaded, or built in.
    Usable,
    /// It is not loaded, and may be.
    Unloaded,
    /// This system loads no modules itself (a container), and what the kernel has cannot be seen from here.
    Hidden,
}

/// How a firewall group of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirewallState {
    /// As wanted.
    Set,
    /// Absent or different.
    Different,
    /// The firewall's service does not run: nothing can be seen or set until it does.
    Stopped,
    /// The system has nothing to set it with.
    NoMeans,
}

/// Files and services that a system needs so that modules, settings and firewall hold after a start, too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Companions {
    /// The files.
    pub files: Vec<File>,
    /// The services.
    pub services: Vec<Service>,
}

/// Kernel modules, kernel settings and the firewall.
pub trait Settings {
    /// Whether the kernel has a module.
    fn module(&self, name: &str) -> Result<Module, SystemError>;
    /// Loads a module.
    fn load_module(&self, name: &str) -> Result<(), SystemError>;
    /// The value of a setting, blanks as one blank; `None` where the kernel does not know it.
    fn setting(&self, name: &str) -> Result<Option<String>, SystemError>;
    /// Gives a setting a value.
    fn set(&self, name: &str, value: &str) -> Result<(), SystemError>;
    /// Whether a firewall group is as wanted.
    fn firewall(&self, wanted: &Firewall) -> Result<FirewallState, SystemError>;
    /// Whether there is a firewall group of that name; none where the system cannot tell.
    fn has_firewall(&self, group: &str) -> Result<bool, SystemError>;
    /// Makes a firewall group as wanted, in place of what it was.
    fn set_firewall(&self, wanted: &Firewall) -> Result<(), SystemError>;
    /// Removes a firewall group.
    fn remove_firewall(&self, group: &str) -> Result<Removed, SystemError>;
    /// What makes all of these hold after a start.
    fn companions(&self, blueprint: &Blueprint) -> Result<Companions, SystemError>;
}

/// How the lists of packages are, before packages are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageLists {
    /// They are taken as they are, where there are any.
    Kept,
    /// Their sources changed: they are fetched anew.
    Stale,
}

/// Packages of the distribution.
pub trait Packages {
    /// The names of those that are not present.
    fn missing(&self, packages: &[Package]) -> Result<Vec<String>, SystemError>;
    /// Whether a file at that path says where packages come from, so that it is laid down before they are installed.
    fn precedes_packages(&self, path: &str) -> bool;
    /// Installs packages.
    fn install(
        &self,
        names: &[String],
        lists: PackageLists,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError>;
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Status(i32),
    /// By a signal.
    Signal(i32),
}

impl Ended {
    /// Whether it says that all went well.
    pub fn is_well(self) -> bool {
        self == Self::Status(0)
    }

    /// Whether it was killed, or says so of a program that it ran, as shells do.
    pub fn is_killed(self) -> bool {
        matches!(self, Self::Signal(9) | Self::Status(137))
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) => write!(out, "ended with status {status}"),
            Self::Signal(signal) => write!(out, "was ended by signal {signal}"),
        }
    }
}

/// Programs.
pub trait Programs {
    /// Where a program is.
    fn find_program(&self, name: &str) -> Option<String>;
    /// Runs a program; `on_line` hears what it writes, both streams in their order.
    fn run(&self, program: &Program, on_line: &mut dyn FnMut(&str)) -> Result<Ended, SystemError>;
    /// The program that runs a command line as the user of this system would write it.
    fn shell(&self, line: &str) -> Program;
}

/// An operating system.
pub trait System: Files + Services + Settings + Packages + Programs + OnlyWindows {
    /// Which of the two systems it is.
    fn family(&self) -> Family;
    /// Where things are.
    fn paths(&self) -> &Paths;
    /// Where the agent's own program is.
    fn own_program(&self) -> Option<String>;
    /// What tells this start of the machine from others; none where it cannot be told.
    fn boot(&self) -> Option<String>;
    /// The host name.
    fn host_name(&self) -> Result<String, SystemError>;
    /// The system's half of the facts; what the agent itself knows is left empty.
    fn describe(&self) -> Result<Facts, SystemError>;
    /// Makes every deadline here longer or shorter.
    fn be_patient(&self, patience: Patience);
    /// How patient it is.
    fn patience(&self) -> Patience;
    /// Whether the system waits for a reboot, and why.
    fn reboot_pending(&self) -> Option<String>;
    /// Takes the lock that keeps agents apart, until this value is gone. `words` tell others who holds it.
    fn lock(&self, words: &str, wait: Duration) -> Result<(), SystemError>;
    /// Whether something on this machine answers well to an HTTP request.
    fn answers(&self, port: u16, path: &str) -> bool;
    /// What it counts of memory that ran out.
    fn starved(&self) -> Starved;
    /// Ends containers that nobody watches any more, and removes links, rules and sets of a pod network, and networks
    /// but the one of that name.
    fn clear_pods(
        &self,
        kept: Option<&str>,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError>;
    /// Takes their network from the pods that the API server knows, so that kubelet gives it to them again. Static pods
    /// are left alone. Networks go but the one of that name.
    fn renew_pods(
        &self,
        kept: Option<&str>,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError>;
    /// Ends the processes of static pods that run a program, and returns when they have ended. Those of other pods are
    /// left alone.
    fn end_static_pod(&self, _program: &str) -> Result<(), SystemError> {
        Err(no_control_plane())
    }
    /// Whether a static pod runs a program, now or within that time.
    fn await_static_pod(&self, _program: &str, _patience: Duration) -> Result<bool, SystemError> {
        Err(no_control_plane())
    }
}

fn no_control_plane() -> SystemError {
    SystemError::Nonsense("this system runs no control plane".to_owned())
}

/// So many last lines of a program are kept.
pub const TAIL_LINES: usize = 20;

/// Keeps the last lines of many.
#[derive(Debug, Default)]
pub struct Tail(std::collections::VecDeque<String>);

impl Tail {
    /// Takes one more line.
    pub fn push(&mut self, line: &str) {
        if self.0.len() == TAIL_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    /// The last lines.
    pub fn into_lines(self) -> Vec<String> {
        self.0.into()
    }
}

/// Runs a program that must end well; gives back what it wrote.
pub(crate) fn run_well(
    system: &(impl Programs + ?Sized),
    program: &Program,
    on_line: &mut dyn FnMut(&str),
) -> Result<(), SystemError> {
    let mut tail = Tail::default();
    let ended = system.run(program, &mut |line| {
        tail.push(line);
        on_line(line);
    })?;
    if ended.is_well() {
        return Ok(());
    }
    let mut words = vec![program.name.as_str()];
    words.extend(program.args.iter().map(String::as_str));
    Err(SystemError::Failed {
        program: words.join(" "),
        ended,
        tail: tail.into_lines(),
    })
}

/// The parent folder of a path, where it has one.
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        // `C:` alone is wherever a program stands on that drive.
        (drive, "") if drive.ends_with(':') => None,
        (drive, _) if drive.ends_with(':') => Some(&path[..=drive.len()]),
        (parent, _) => Some(parent),
    }
}

/// Where a program is put that runs and has to make room: Windows lets it be renamed, not replaced.
pub(crate) fn aside(path: &str) -> String {
    format!("{path}.mullion-old")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_parent_up_to_the_root_or_the_drive() {
        assert_eq!(parent("/etc/motd"), Some("/etc"));
        assert_eq!(parent("/etc"), Some("/"));
        assert_eq!(parent("/"), None);
        assert_eq!(parent("C:/k/kubelet.exe"), Some("C:/k"));
        assert_eq!(parent("C:/k"), Some("C:/"));
        assert_eq!(parent("C:/"), None);
    }
}
