//! The Windows that the agent runs on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mullion_wire::{
    Blueprint, Definition, DynamicPorts, Facts, Feature, Firewall, OverlayNetwork, Package,
    Patience, Protocol, Sha256Digest,
};
use windows::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, GENERIC_READ, GENERIC_WRITE,
};
use windows::Win32::Storage::FileSystem::{FILE_SHARE_DELETE, FILE_SHARE_READ, OPEN_ALWAYS};
use windows::Win32::System::SystemInformation::GetTickCount64;

use super::super::registry::Value;
use super::super::{
    Account, Companions, Family, Files as _, FirewallState, Holds, LogEntry, Module, NetworkState,
    OnlyWindows, Owner, PackageLists, Packages, Paths, Removed, RunningProgram, ServiceWork,
    Settings, Starved, System, SystemError, answers,
};
use super::call::{failed, is};
use super::files::{open, real};
use super::permissions::Descriptor;
use super::processes::Processes;
use super::sddl::PRIVATE_FILE;
use super::{
    authorities, choice, describe, event_log, failures, features, firewall, hive, names, netsh,
    networks, permissions, programs, service_main, services, tasks,
};

/// A service whose processes take longer to stop does not stop by itself.
const STOPPING: Duration = Duration::from_mins(1);

/// How often a lock that somebody holds is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Starts that are further apart than so many seconds are told apart by their time.
const COARSE: u64 = 600;

/// Where Windows counts its starts.
const STARTS: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
/// Where Windows writes down when it was shut down.
const SHUTDOWN: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Windows";
/// Keys that are there while Windows waits for a start, and why it does.
const AWAITED: &[(&str, &str)] = &[
    (
        r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending",
        "features or updates were installed",
    ),
    (
        r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired",
        "updates were installed",
    ),
];

/// This computer's Windows.
#[derive(Debug)]
pub struct Windows {
    paths: Paths,
    /// The lock, once it is taken.
    pub(super) lock: RefCell<Option<File>>,
    /// So long a service may take to stop.
    pub(super) stopping: Duration,
    pub(super) patience: Cell<Patience>,
}

impl Default for Windows {
    fn default() -> Self {
        Self::new()
    }
}

impl Windows {
    /// The system that the agent runs on.
    pub fn new() -> Self {
        Self {
            paths: Paths::of_windows(),
            lock: RefCell::new(None),
            stopping: STOPPING,
            patience: Cell::default(),
        }
    }

    /// Gives services so much time to stop before they are ended.
    #[must_use]
    pub fn stopping_within(mut self, time: Duration) -> Self {
        self.stopping = time;
        self
    }
}

impl System for Windows {
    fn family(&self) -> Family {
        Family::Windows
    }

    fn boot(&self) -> Option<String> {
        let count = hive::number(STARTS, "BootId").map(|number| number.to_string());
        // Where nobody counts, the time of the start serves, coarse enough for a clock that is set right meanwhile.
        let count = count.or_else(|| {
            let running = Duration::from_millis(unsafe { GetTickCount64() });
            let started = SystemTime::now().checked_sub(running)?;
            let since = started.duration_since(UNIX_EPOCH).ok()?;
            Some(format!("at {}", since.as_secs() / COARSE))
        })?;
        // A count may stand still, where the service does not run that counts.
        let shutdown = hive::value(SHUTDOWN, "ShutdownTime").ok().flatten();
        Some(choice::start(&count, shutdown.as_ref()))
    }

    fn own_program(&self) -> Option<String> {
        let path = std::env::current_exe().ok()?;
        path.to_str().map(|path| path.replace('\\', "/"))
    }

    fn paths(&self) -> &Paths {
        &self.paths
    }

    fn host_name(&self) -> Result<String, SystemError> {
        names::host_name()
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
        let awaited = AWAITED.iter();
        let mut reasons: Vec<_> = awaited
            .filter(|(key, _)| hive::has_key(key).unwrap_or(false))
            .map(|(_, why)| (*why).to_owned())
            .collect();
        let name = names::awaited_host_name();
        reasons.extend(name.map(|name| format!("the host name changes to `{name}`")));
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    fn lock(&self, words: &str, wait: Duration) -> Result<(), SystemError> {
        let path = &self.paths.lock;
        let until = Instant::now() + wait;
        // Nobody but administrators opens it: whoever does, and shares it with nobody, keeps every agent from its work.
        let private = Descriptor::new(PRIVATE_FILE)?;
        // Whoever has it open lets others read and remove it, and not write.
        let shared = FILE_SHARE_READ | FILE_SHARE_DELETE;
        // One that was removed and is still open refuses access until it is closed.
        let held = [ERROR_SHARING_VIOLATION, ERROR_ACCESS_DENIED];
        loop {
            let opened = open(
                path,
                &private,
                GENERIC_READ | GENERIC_WRITE,
                shared,
                OPEN_ALWAYS,
            );
            let error = match opened {
                Ok(mut file) => {
                    if permissions::seen(path, false)? != (0o600, Owner::Agent) {
                        // It was there before.
                        permissions::set_mode(path, 0o600, false)?;
                    }
                    let holder = format!("process {}, {words}\n", std::process::id());
                    // The words are for people; the lock holds without them.
                    let _ = file.set_len(0);
                    let _ = file.write_all(holder.as_bytes());
                    let _ = file.seek(std::io::SeekFrom::End(0));
                    *self.lock.borrow_mut() = Some(file);
                    return Ok(());
                }
                Err(error) => error,
            };
            if !held.iter().any(|reason| is(&error, *reason)) {
                return Err(failed(format!("CreateFile {path}"))(error));
            }
            if Instant::now() >= until {
                let holder = fs_err::read_to_string(real(path)).unwrap_or_default();
                return Err(SystemError::Busy {
                    holder: match holder.trim() {
                        "" => "it does not say who it is".to_owned(),
                        holder => holder.to_owned(),
                    },
                });
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    fn answers(&self, port: u16, path: &str) -> bool {
        answers::well(port, path)
    }

    fn starved(&self) -> Starved {
        // Windows ends nothing for want of memory: what asks for more is refused.
        Starved::default()
    }

    fn renew_pods(
        &self,
        kept: Option<&str>,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        // No pod of a Windows node is static.
        self.clear_pods(kept, on_line)
    }

    fn clear_pods(
        &self,
        kept: Option<&str>,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        // One that runs on keeps no network from going: it is told.
        let shims = Processes::shims_of_pods()
            .and_then(|shims| shims.end(self.patience().times(self.stopping)));
        match shims {
            Ok(ended) if ended.is_empty() => {}
            Ok(ended) => on_line(&format!("ended {}", ended.join(", "))),
            Err(error) => on_line(&format!("containers of pods may run on: {error}")),
        }
        networks::clear(kept, on_line)
    }
}

/// Windows has no modules and no settings by name; the firewall keeps its rules itself.
impl Settings for Windows {
    fn module(&self, _name: &str) -> Result<Module, SystemError> {
        Ok(Module::Hidden)
    }

    fn load_module(&self, name: &str) -> Result<(), SystemError> {
        Err(SystemError::NoSetting(name.to_owned()))
    }

    fn setting(&self, _name: &str) -> Result<Option<String>, SystemError> {
        Ok(None)
    }

    fn set(&self, name: &str, _value: &str) -> Result<(), SystemError> {
        Err(SystemError::NoSetting(name.to_owned()))
    }

    fn firewall(&self, wanted: &Firewall) -> Result<FirewallState, SystemError> {
        firewall::state(wanted)
    }

    fn has_firewall(&self, group: &str) -> Result<bool, SystemError> {
        // A group that is as one without any rule is none.
        let none = Firewall {
            group: group.to_owned(),
            open: Vec::new(),
        };
        Ok(firewall::state(&none)? == FirewallState::Different)
    }

    fn set_firewall(&self, wanted: &Firewall) -> Result<(), SystemError> {
        firewall::set(wanted)
    }

    fn remove_firewall(&self, group: &str) -> Result<Removed, SystemError> {
        firewall::remove(group)
    }

    fn companions(&self, _blueprint: &Blueprint) -> Result<Companions, SystemError> {
        Ok(Companions::default())
    }
}

/// Windows has no packages of a distribution.
impl Packages for Windows {
    fn missing(&self, packages: &[Package]) -> Result<Vec<String>, SystemError> {
        let names = packages.iter().map(|package| package.name.clone());
        Ok(names.collect())
    }

    fn precedes_packages(&self, _path: &str) -> bool {
        false
    }

    fn install(
        &self,
        names: &[String],
        _lists: PackageLists,
        _on_line: &mut dyn FnMut(&str),
    ) -> Result<(), SystemError> {
        Err(SystemError::NoPackages(names.to_vec()))
    }
}

impl OnlyWindows for Windows {
    fn descriptor(&self, path: &str) -> Result<Option<String>, SystemError> {
        let is_there = self.look(path)?.is_some();
        is_there.then(|| permissions::read(path)).transpose()
    }

    fn set_descriptor(&self, folder: &str, descriptor: &str) -> Result<(), SystemError> {
        permissions::put_back(folder, descriptor)
    }

    fn value(&self, key: &str, name: &str) -> Result<Option<Value>, SystemError> {
        hive::value(key, name)
    }

    fn set_value(&self, key: &str, name: &str, value: &Value) -> Result<(), SystemError> {
        hive::set_value(key, name, value)
    }

    fn remove_value(&self, key: &str, name: &str) -> Result<Removed, SystemError> {
        hive::remove_value(key, name)
    }

    fn has_key(&self, key: &str) -> Result<bool, SystemError> {
        hive::has_key(key)
    }

    fn remove_empty_key(&self, key: &str) -> Result<Removed, SystemError> {
        hive::remove_empty_key(key)
    }

    fn definition(&self, name: &str) -> Result<Option<Definition>, SystemError> {
        services::definition(name)
    }

    fn define(
        &self,
        name: &str,
        definition: &Definition,
        account: &Account,
    ) -> Result<(), SystemError> {
        services::define(name, definition, account)
    }

    fn failures(&self, name: &str) -> Result<BTreeMap<String, Value>, SystemError> {
        failures::read(name)
    }

    fn set_failures(
        &self,
        name: &str,
        values: &BTreeMap<String, Value>,
    ) -> Result<(), SystemError> {
        failures::write(name, values)
    }

    fn account(&self, name: &str) -> Result<Account, SystemError> {
        services::account(name)
    }

    fn service_started(&self, name: &str) -> Result<Option<u64>, SystemError> {
        services::started(name)
    }

    fn undefine(&self, name: &str) -> Result<Removed, SystemError> {
        services::undefine(name)
    }

    fn feature(&self, name: &str) -> Result<Feature, SystemError> {
        features::read(name)
    }

    fn enable_feature(&self, name: &str) -> Result<Holds, SystemError> {
        features::enable(name)
    }

    fn next_host_name(&self) -> Result<String, SystemError> {
        names::next_host_name()
    }

    fn set_host_name(&self, name: &str) -> Result<(), SystemError> {
        names::set_host_name(name)
    }

    fn time_zone(&self) -> Result<String, SystemError> {
        names::time_zone()
    }

    fn set_time_zone(&self, name: &str) -> Result<(), SystemError> {
        names::set_time_zone(name)
    }

    fn dynamic_ports(&self, protocol: Protocol) -> Result<DynamicPorts, SystemError> {
        netsh::read(self, protocol)
    }

    fn set_dynamic_ports(&self, wanted: DynamicPorts) -> Result<(), SystemError> {
        netsh::set(self, wanted)
    }

    fn network(&self, wanted: &OverlayNetwork) -> Result<NetworkState, SystemError> {
        networks::state(wanted)
    }

    fn has_network(&self, name: &str) -> Result<bool, SystemError> {
        networks::has(name)
    }

    fn make_network(&self, wanted: &OverlayNetwork) -> Result<(), SystemError> {
        networks::make(wanted)
    }

    fn remove_network(&self, name: &str) -> Result<Removed, SystemError> {
        networks::remove(name)
    }

    fn trusts(&self, certificate: &Sha256Digest) -> Result<bool, SystemError> {
        authorities::has(certificate)
    }

    fn trust(&self, certificate: &[u8]) -> Result<(), SystemError> {
        authorities::add(certificate)
    }

    fn distrust(&self, certificate: &Sha256Digest) -> Result<Removed, SystemError> {
        authorities::remove(certificate)
    }

    fn schedule_start(&self, program: &str, arguments: &str) -> Result<(), SystemError> {
        tasks::register(program, arguments)
    }

    fn unschedule_start(&self) -> Result<Removed, SystemError> {
        tasks::remove()
    }

    fn log_event(&self, entry: LogEntry, words: &str) -> Result<(), SystemError> {
        event_log::write(entry, words)
    }

    fn start_program(
        &self,
        path: &str,
        args: &[String],
    ) -> Result<Box<dyn RunningProgram>, SystemError> {
        programs::start(path, args)
    }

    fn be_service(&self, name: &str, work: ServiceWork) -> Result<(), SystemError> {
        service_main::run(name, work)
    }
}
