//! Linux with systemd, and Debian's packages where packages are asked for.

use std::cell::{Cell, RefCell};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err::os::unix::fs::OpenOptionsExt as _;
use mullion_wire::{Facts, Patience};

use super::{Family, OnlyWindows, Paths, Starved, System, SystemError};

mod describe;
mod files;
pub(crate) mod fuzz;
mod memory;
mod packages;
mod pods;
mod programs;
mod rules;
mod services;
mod settings;
mod static_pods;

/// How often a lock that somebody holds is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// This computer's Linux.
#[derive(Debug)]
pub struct Linux {
    /// Every path is below this one: `/`, or a scratch folder in tests.
    root: PathBuf,
    paths: Paths,
    /// The lock, once it is taken.
    lock: RefCell<Option<File>>,
    patience: Cell<Patience>,
}

impl Default for Linux {
    fn default() -> Self {
        Self::new()
    }
}

impl Linux {
    /// The system that the agent runs on.
    pub fn new() -> Self {
        Self::below(Path::new("/"))
    }

    /// A system whose files, programs and kernel settings are all below a folder.
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            paths: Paths {
                state: "/var/lib/mullion".to_owned(),
                lock: "/run/mullion.lock".to_owned(),
                secrets: "/run/mullion".to_owned(),
                kubernetes: "/etc/kubernetes".to_owned(),
                kubelet: "/var/lib/kubelet".to_owned(),
                etcd: "/var/lib/etcd".to_owned(),
                network: "/etc/cni/net.d".to_owned(),
                network_state: vec!["/var/lib/cni".to_owned(), "/run/flannel".to_owned()],
                container_socket: "unix:///run/containerd/containerd.sock".to_owned(),
            },
            lock: RefCell::new(None),
            patience: Cell::default(),
        }
    }

    /// Where a path of the system is on this computer.
    fn real(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a small file of the kernel's or the distribution's; empty where there is none.
    fn text(&self, path: &str) -> String {
        fs_err::read_to_string(self.real(path)).unwrap_or_default()
    }
}

/// It has none of that.
impl OnlyWindows for Linux {}

impl System for Linux {
    fn family(&self) -> Family {
        Family::Linux
    }

    fn boot(&self) -> Option<String> {
        let boot = self.text("/proc/sys/kernel/random/boot_id");
        Some(boot.trim().to_owned()).filter(|boot| !boot.is_empty())
    }

    fn own_program(&self) -> Option<String> {
        let path = std::env::current_exe().ok()?;
        path.to_str().map(str::to_owned)
    }

    fn paths(&self) -> &Paths {
        &self.paths
    }

    fn host_name(&self) -> Result<String, SystemError> {
        let name = rustix::system::uname();
        Ok(name.nodename().to_string_lossy().into_owned())
    }

    fn describe(&self) -> Result<Facts, SystemError> {
        describe::describe(self)
    }

    fn be_patient(&self, patience: Patience) {
        self.patience.set(patience);
    }

    fn patience(&self) -> Patience {
        self.patience.get()
    }

    fn reboot_pending(&self) -> Option<String> {
        ["/run/reboot-required", "/var/run/reboot-required"]
            .iter()
            .find_map(|path| {
                let words = fs_err::read_to_string(self.real(path)).ok()?;
                let packages = self.text(&format!("{path}.pkgs"));
                let packages: Vec<_> = packages.split_whitespace().collect();
                Some(if packages.is_empty() {
                    words.trim().to_owned()
                } else {
                    format!("packages were updated: {}", packages.join(", "))
                })
            })
    }

    fn lock(&self, words: &str, wait: Duration) -> Result<(), SystemError> {
        let path = self.real(&self.paths.lock);
        let until = Instant::now() + wait;
        loop {
            let mut options = fs_err::OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options.mode(0o600);
            let file = options.open(&path).map_err(SystemError::File)?;
            let (mut file, _) = file.into_parts();
            match file.try_lock() {
                // A revert removes the file that it holds: the lock of a removed file keeps nobody out.
                Ok(()) if is_still_at(&file, &path) => {
                    let holder = format!("process {}, {words}\n", std::process::id());
                    // The words are for people; the lock holds without them.
                    let _ = file.set_len(0);
                    let _ = file.rewind();
                    let _ = file.write_all(holder.as_bytes());
                    *self.lock.borrow_mut() = Some(file);
                    return Ok(());
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    let mut holder = String::new();
                    let _ = file.read_to_string(&mut holder);
                    return Err(SystemError::Busy {
                        holder: match holder.trim() {
                            "" => "it does not say who it is".to_owned(),
                            holder => holder.to_owned(),
                        },
                    });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(SystemError::File(error)),
            }
        }
    }

    fn answers(&self, port: u16, path: &str) -> bool {
        super::answers::well(port, path)
    }

    fn starved(&self) -> Starved {
        memory::starved(|path| self.text(path))
    }

    fn clear_pods(
        &self,
        _kept: Option<&str>,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        pods::clear(self, on_line)
    }

    fn renew_pods(
        &self,
        _kept: Option<&str>,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        pods::renew(self, on_line)
    }

    fn end_static_pod(&self, program: &str) -> Result<(), SystemError> {
        static_pods::end(self, program)
    }

    fn await_static_pod(&self, program: &str, patience: Duration) -> Result<bool, SystemError> {
        static_pods::wait(self, program, patience)
    }
}

/// Whether a path still is the file that was opened.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs_err::metadata(path)) {
        (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Nothing where a thing is not there, its failure otherwise.
fn if_there<T>(result: std::io::Result<T>) -> Result<Option<T>, SystemError> {
    match result {
        Ok(value) => Ok(Some(value)),
        // A file in place of a folder above it: below it there is nothing.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(SystemError::File(error)),
    }
}

/// A new file that nobody else can have prepared, with its mode from the first moment on.
fn create(path: &Path, mode: u32) -> std::io::Result<fs_err::File> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options.open(path)
}
