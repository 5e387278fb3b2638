//! A system in memory, for tests: it counts every operation that changes something, and can be killed at any of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use mullion_wire::{Definition, Disk, Facts, Firewall, Patience};

use super::registry::Value;
use super::{
    Account, Activity, Ended, Family, LogEntry, Owner, Paths, Program, Starved, System, SystemError,
};

mod faults;
mod files;
mod machinery;
mod windows;
mod windows_given;

pub use windows::{MemoryProgram, MemoryWindows};

/// What a program does in place of a real one.
pub type Script = Rc<dyn Fn(&Memory, &Program, &mut dyn FnMut(&str)) -> Result<Ended, SystemError>>;

/// What somebody else does on a machine.
pub type Meanwhile = Rc<dyn Fn(&Memory)>;

/// Something at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Its mode.
        mode: u32,
        /// Whose it is.
        owner: Owner,
        /// When it was written, by the count of operations.
        modified: i64,
        /// Its own number.
        number: u64,
    },
    /// A folder.
    Folder {
        /// Its mode.
        mode: u32,
    },
    /// A link.
    Link {
        /// Where it leads.
        target: String,
        /// Whose it is.
        owner: Owner,
    },
}

/// A service of the system's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryService {
    /// Whether it starts with the machine.
    pub is_enabled: bool,
    /// Whether it runs.
    pub activity: Activity,
    /// How often it was started.
    pub starts: u32,
    /// All files as they were when it was last started; definitions, as the manager had read them.
    pub saw: BTreeMap<String, Vec<u8>>,
    /// How Windows was told of it.
    pub definition: Option<Definition>,
    /// How that was when it was last started.
    pub ran_as: Option<Definition>,
    /// Whether it has to be ended when it is stopped.
    pub is_stubborn: bool,
    /// Who it runs as.
    pub account: Account,
    /// Whether somebody holds it, so that it does not go when it is removed.
    pub is_held: bool,
    /// What Windows keeps of its failures.
    pub failures: BTreeMap<String, Value>,
}

impl MemoryService {
    fn stopped() -> Self {
        Self {
            is_enabled: false,
            activity: Activity::Stopped,
            starts: 0,
            saw: BTreeMap::new(),
            definition: None,
            is_stubborn: false,
            account: Account::system(),
            ran_as: None,
            is_held: false,
            failures: BTreeMap::new(),
        }
    }
}

/// A system in memory.
pub struct Memory {
    family: Family,
    paths: Paths,
    patience: Cell<Patience>,
    inner: RefCell<Inner>,
}

struct Inner {
    host_name: String,
    nodes: BTreeMap<String, Node>,
    next_number: u64,
    services: BTreeMap<String, MemoryService>,
    /// Definitions of services as the manager has read them.
    definitions: BTreeMap<String, Vec<u8>>,
    loadable: BTreeSet<String>,
    modules: BTreeSet<String>,
    settings: BTreeMap<String, String>,
    firewall: BTreeMap<String, Firewall>,
    packages: BTreeSet<String>,
    windows: MemoryWindows,
    programs: BTreeMap<String, Script>,
    /// Programs that were started beside the agent, by their command lines.
    beside: Vec<Rc<MemoryProgram>>,
    /// Entries of the event log, and whether it takes none.
    events: Vec<(LogEntry, String)>,
    is_log_broken: bool,
    /// Services that do not come up.
    broken: BTreeSet<String>,
    is_kubelet_well: bool,
    starved: u64,
    /// How many programs are ended for want of memory with each start of a broken service.
    starved_by_services: u64,
    /// Who else holds the lock, and what it does before it lets it go to whoever waits.
    holder: Option<String>,
    meanwhile: Option<Meanwhile>,
    /// Operations that fail, by their first words.
    refused: BTreeSet<&'static str>,
    own_program: Option<&'static str>,
    operations: u64,
    kill_at: Option<u64>,
    is_dead: bool,
    log: Vec<String>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.inner.borrow();
        out.debug_struct("Memory")
            .field("host_name", &inner.host_name)
            .field("operations", &inner.operations)
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// A Linux machine with that host name and the folders that every one has.
    pub fn new(host_name: &str) -> Self {
        let text = str::to_owned;
        let paths = Paths {
            state: text("/var/lib/mullion"),
            lock: text("/run/mullion.lock"),
            secrets: text("/run/mullion"),
            kubernetes: text("/etc/kubernetes"),
            kubelet: text("/var/lib/kubelet"),
            etcd: text("/var/lib/etcd"),
            network: text("/etc/cni/net.d"),
            network_state: vec![text("/var/lib/cni"), text("/run/flannel")],
            container_socket: text("unix:///run/containerd/containerd.sock"),
        };
        let folders = ["/etc", "/run", "/usr/local/bin", "/var/lib"];
        Self::with(Family::Linux, paths, host_name, &folders)
    }

    /// A Windows machine with that host name and the folders that every one has.
    pub fn windows(host_name: &str) -> Self {
        let folders = ["C:/Program Files", "C:/ProgramData", "C:/Windows/System32"];
        Self::with(Family::Windows, Paths::of_windows(), host_name, &folders)
    }

    fn with(family: Family, paths: Paths, host_name: &str, folders: &[&str]) -> Self {
        let memory = Self {
            family,
            paths,
            patience: Cell::default(),
            inner: RefCell::new(Inner {
                host_name: host_name.to_owned(),
                nodes: BTreeMap::new(),
                next_number: 1,
                services: BTreeMap::new(),
                definitions: BTreeMap::new(),
                loadable: BTreeSet::new(),
                modules: BTreeSet::new(),
                settings: BTreeMap::new(),
                firewall: BTreeMap::new(),
                packages: BTreeSet::new(),
                windows: MemoryWindows::new(host_name),
                programs: BTreeMap::new(),
                beside: Vec::new(),
                events: Vec::new(),
                is_log_broken: false,
                broken: BTreeSet::new(),
                is_kubelet_well: false,
                starved: 0,
                starved_by_services: 0,
                holder: None,
                meanwhile: None,
                refused: BTreeSet::new(),
                own_program: Some(match family {
                    Family::Linux => mullion_wire::AGENT_ON_LINUX,
                    Family::Windows => mullion_wire::AGENT_ON_WINDOWS,
                }),
                operations: 0,
                kill_at: None,
                is_dead: false,
                log: Vec::new(),
            }),
        };
        for folder in folders {
            memory.put(folder, Node::Folder { mode: 0o755 });
        }
        memory
    }

    /// Puts something at a path, folders above it included; not an operation.
    pub fn put(&self, path: &str, node: Node) {
        let path = self.spelled(path);
        let mut inner = self.inner.borrow_mut();
        let mut folder = super::parent(&path);
        while let Some(path) = folder {
            let made = Node::Folder { mode: 0o755 };
            inner.nodes.entry(path.to_owned()).or_insert(made);
            folder = super::parent(path);
        }
        inner.nodes.insert(path, node);
    }

    /// Puts a file at a path; not an operation.
    pub fn put_file(&self, path: &str, bytes: &[u8], mode: u32) {
        let number = self.inner.borrow_mut().number();
        let modified = self.inner.borrow().operations.cast_signed();
        self.put(
            path,
            Node::File {
                bytes: bytes.to_vec(),
                mode,
                owner: Owner::Agent,
                modified,
                number,
            },
        );
    }

    /// Lets a service be known, without a definition in a file.
    pub fn put_service(&self, name: &str, is_enabled: bool, activity: Activity) {
        let service = MemoryService {
            is_enabled,
            activity,
            ..MemoryService::stopped()
        };
        let mut inner = self.inner.borrow_mut();
        inner.services.insert(name.to_owned(), service);
    }

    /// Gives the kernel a setting.
    pub fn put_setting(&self, name: &str, value: &str) {
        let mut inner = self.inner.borrow_mut();
        inner.settings.insert(name.to_owned(), value.to_owned());
    }

    /// Lets a module be loaded by whoever asks.
    pub fn put_module(&self, name: &str) {
        self.inner.borrow_mut().loadable.insert(name.to_owned());
    }

    /// Gives the machine a program.
    pub fn put_program(&self, name: &str, script: Script) {
        self.put_file(&self.program_path(name), name.as_bytes(), 0o755);
        let mut inner = self.inner.borrow_mut();
        inner.programs.insert(name.to_owned(), script);
    }

    /// Where programs are.
    fn program_path(&self, name: &str) -> String {
        match self.family {
            Family::Linux => format!("/usr/local/bin/{name}"),
            Family::Windows => format!("C:/k/{name}.exe"),
        }
    }

    /// Lets kubelet answer well, or not.
    pub fn set_kubelet_health(&self, is_well: bool) {
        self.inner.borrow_mut().is_kubelet_well = is_well;
    }

    /// What is at every path.
    pub fn nodes(&self) -> BTreeMap<String, Node> {
        self.inner.borrow().nodes.clone()
    }

    /// The text of a file.
    pub fn file(&self, path: &str) -> Option<String> {
        match self.node(path)? {
            Node::File { bytes, .. } => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Node::Folder { .. } | Node::Link { .. } => None,
        }
    }

    /// How services are.
    pub fn all_services(&self) -> BTreeMap<String, MemoryService> {
        self.inner.borrow().services.clone()
    }

    /// The settings.
    pub fn all_settings(&self) -> BTreeMap<String, String> {
        self.inner.borrow().settings.clone()
    }

    /// The firewall groups.
    pub fn all_firewalls(&self) -> BTreeMap<String, Firewall> {
        self.inner.borrow().firewall.clone()
    }

    /// The modules that are loaded, and the packages that are installed.
    pub fn loaded_and_installed(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let inner = self.inner.borrow();
        (inner.modules.clone(), inner.packages.clone())
    }

    /// Every operation so far.
    pub fn log(&self) -> Vec<String> {
        self.inner.borrow().log.clone()
    }

    /// Counts one operation, which does not happen where the agent is killed at it.
    fn operate(&self, words: String) -> Result<(), SystemError> {
        let mut inner = self.inner.borrow_mut();
        if inner.is_dead {
            return Err(killed());
        }
        inner.operations += 1;
        if inner.kill_at == Some(inner.operations) {
            inner.is_dead = true;
            inner.log.push(format!("killed before: {words}"));
            return Err(killed());
        }
        let first = words.split(' ').next().unwrap_or_default();
        if inner.refused.contains(first) {
            return Err(SystemError::Nonsense(format!("no `{first}` here")));
        }
        inner.log.push(words);
        Ok(())
    }

    /// Whether the agent lives to read something.
    fn live(&self) -> Result<(), SystemError> {
        if self.inner.borrow().is_dead {
            return Err(killed());
        }
        Ok(())
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

fn killed() -> SystemError {
    SystemError::File(io::Error::other("the agent was killed"))
}

impl System for Memory {
    fn family(&self) -> Family {
        self.family
    }

    fn boot(&self) -> Option<String> {
        Some(self.inner.borrow().windows.starts.to_string())
    }

    fn paths(&self) -> &Paths {
        &self.paths
    }

    fn own_program(&self) -> Option<String> {
        self.inner.borrow().own_program.map(str::to_owned)
    }

    fn host_name(&self) -> Result<String, SystemError> {
        self.live()?;
        Ok(self.inner.borrow().host_name.clone())
    }

    fn describe(&self) -> Result<Facts, SystemError> {
        Ok(Facts {
            agent: crate::VERSION.to_owned(),
            host_name: self.host_name()?,
            os: match self.family {
                Family::Linux => "linux",
                Family::Windows => "windows",
            }
            .to_owned(),
            disk: Disk {
                total: 64 << 30,
                free: 16 << 30,
            },
            ..Facts::default()
        })
    }

    fn be_patient(&self, patience: Patience) {
        self.patience.set(patience);
    }

    fn patience(&self) -> Patience {
        self.patience.get()
    }

    fn reboot_pending(&self) -> Option<String> {
        self.windows_wants_restart()
    }

    fn lock(&self, _words: &str, wait: Duration) -> Result<(), SystemError> {
        self.live()?;
        if !wait.is_zero() {
            self.wait_for_holder();
        }
        if let Some(holder) = &self.inner.borrow().holder {
            let holder = holder.clone();
            return Err(SystemError::Busy { holder });
        }
        self.put_file(&self.paths.lock, b"the agent", 0o600);
        Ok(())
    }

    fn answers(&self, _port: u16, _path: &str) -> bool {
        self.inner.borrow().is_kubelet_well
    }

    fn starved(&self) -> Starved {
        Starved {
            ended: self.inner.borrow().starved,
            limit_met: None,
        }
    }

    fn clear_pods(
        &self,
        kept: Option<&str>,
        _on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        self.operate("clear pods".to_owned())?;
        let networks = &mut self.inner.borrow_mut().windows.networks;
        networks.retain(|name, _| Some(name.as_str()) == kept);
        Ok(())
    }

    fn renew_pods(
        &self,
        _kept: Option<&str>,
        _on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        self.operate("renew pods".to_owned())
    }

    fn end_static_pod(&self, program: &str) -> Result<(), SystemError> {
        self.operate(format!("end {program}"))
    }

    fn await_static_pod(&self, program: &str, _patience: Duration) -> Result<bool, SystemError> {
        self.live()?;
        Ok(!self.inner.borrow().broken.contains(program))
    }
}
