//! The service control manager.

use std::thread;
use std::time::{Duration, Instant};

use mullion_wire::{Definition, Patience, Recovery, Start};
use windows::Win32::Foundation::{
    ERROR_INVALID_LEVEL, ERROR_MORE_DATA, ERROR_SERVICE_ALREADY_RUNNING,
    ERROR_SERVICE_DOES_NOT_EXIST, ERROR_SERVICE_MARKED_FOR_DELETE, ERROR_SERVICE_NOT_ACTIVE,
};
use windows::Win32::System::Services::{
    ChangeServiceConfig2W, ChangeServiceConfigW, ControlService, CreateServiceW, DeleteService,
    ENUM_SERVICE_STATUSW, ENUM_SERVICE_TYPE, EnumDependentServicesW, OpenSCManagerW, OpenServiceW,
    QUERY_SERVICE_CONFIGW, QueryServiceConfigW, QueryServiceStatusEx, SC_ACTION, SC_ACTION_TYPE,
    SC_HANDLE, SC_MANAGER_ALL_ACCESS, SC_MANAGER_CONNECT, SC_STATUS_PROCESS_INFO, SERVICE_ACTIVE,
    SERVICE_ALL_ACCESS, SERVICE_AUTO_START, SERVICE_BOOT_START, SERVICE_CONFIG,
    SERVICE_CONFIG_DELAYED_AUTO_START_INFO, SERVICE_CONFIG_FAILURE_ACTIONS,
    SERVICE_CONFIG_FAILURE_ACTIONS_FLAG, SERVICE_CONTROL_STOP, SERVICE_DELAYED_AUTO_START_INFO,
    SERVICE_DEMAND_START, SERVICE_DISABLED, SERVICE_ERROR, SERVICE_ERROR_NORMAL,
    SERVICE_FAILURE_ACTIONS_FLAG, SERVICE_FAILURE_ACTIONSW, SERVICE_NO_CHANGE,
    SERVICE_QUERY_CONFIG, SERVICE_QUERY_STATUS, SERVICE_RUNNING, SERVICE_START_PENDING,
    SERVICE_START_TYPE, SERVICE_STATUS, SERVICE_STATUS_CURRENT_STATE, SERVICE_STATUS_HANDLE,
    SERVICE_STATUS_PROCESS, SERVICE_STOP_PENDING, SERVICE_STOPPED, SERVICE_SYSTEM_START,
    SERVICE_WIN32_OWN_PROCESS, SetServiceStatus, StartServiceW,
};
use windows::core::{Error, Owned, PCWSTR, PWSTR};

use super::super::{Account, Removed, SystemError};
use super::call::{Wide, failed, is, is_absent, text};
use super::processes::Processes;
use super::recovery::Actions;

/// How often a service is looked at that changes its state.
const PAUSE: Duration = Duration::from_millis(100);
/// A service that takes longer to start is given up.
const DEADLINE: Duration = Duration::from_mins(2);
/// So soon after its processes Windows takes a service for stopped.
const NOTICED: Duration = Duration::from_secs(2);
/// The right to say how a service is: Windows has no such right to ask for.
const SET_STATUS: u32 = 0x8000;
/// So soon is a process gone that was ended.
const ENDING: Duration = Duration::from_secs(10);
/// A removed service that somebody still holds is waited for so long.
const REMOVAL: Duration = Duration::from_secs(30);

/// Why a service that was removed is still known.
const HELD: &str = "it is removed, and goes when the last program lets it go that holds it";

fn manager(access: u32) -> Result<Owned<SC_HANDLE>, SystemError> {
    unsafe {
        OpenSCManagerW(PCWSTR::null(), PCWSTR::null(), access).map(|handle| Owned::new(handle))
    }
    .map_err(failed("OpenSCManager"))
}

/// A service that is known.
pub(super) struct Control {
    handle: Owned<SC_HANDLE>,
    name: String,
}

/// What a service was found to be.
pub(super) struct Config {
    pub(super) display_name: String,
    pub(super) command: String,
    /// Delay is kept elsewhere.
    pub(super) start: Start,
    pub(super) account: Account,
}

impl Control {
    /// A service; none where nobody knows it.
    pub(super) fn find(name: &str) -> Result<Option<Self>, SystemError> {
        Self::open(name, SERVICE_QUERY_CONFIG | SERVICE_QUERY_STATUS)
    }

    /// A service to be changed; its absence is an error.
    pub(super) fn take(name: &str) -> Result<Self, SystemError> {
        let found = Self::open(name, SERVICE_ALL_ACCESS)?;
        found.ok_or_else(|| SystemError::Nonsense(format!("there is no service `{name}`")))
    }

    fn open(name: &str, access: u32) -> Result<Option<Self>, SystemError> {
        let manager = manager(SC_MANAGER_CONNECT)?;
        let wide = Wide::new(name);
        match unsafe { OpenServiceW(*manager, wide.as_ptr(), access) } {
            Ok(handle) => Ok(Some(Self {
                handle: unsafe { Owned::new(handle) },
                name: name.to_owned(),
            })),
            Err(error) if is(&error, ERROR_SERVICE_DOES_NOT_EXIST) => Ok(None),
            Err(error) => Err(failed(format!("OpenService {name}"))(error)),
        }
    }

    fn failed(&self, call: &str) -> impl FnOnce(Error) -> SystemError {
        failed(format!("{call} {}", self.name))
    }

    /// Makes it known, by its definition.
    pub(super) fn create(name: &str, definition: &Definition) -> Result<Self, SystemError> {
        let manager = manager(SC_MANAGER_ALL_ACCESS)?;
        let wide = Wide::new(name);
        let display = Wide::new(&definition.display_name);
        let command = Wide::new(&definition.command);
        let depends = Wide::list(definition.depends_on.iter().map(String::as_str));
        let handle = unsafe {
            CreateServiceW(
                *manager,
                wide.as_ptr(),
                display.as_ptr(),
                SERVICE_ALL_ACCESS,
                SERVICE_WIN32_OWN_PROCESS,
                start_type(definition.start),
                SERVICE_ERROR_NORMAL,
                command.as_ptr(),
                PCWSTR::null(),
                None,
                depends.as_ptr(),
                PCWSTR::null(),
                PCWSTR::null(),
            )
        }
        .map_err(failed(format!("CreateService {name}")))?;
        Ok(Self {
            handle: unsafe { Owned::new(handle) },
            name: name.to_owned(),
        })
    }

    /// Makes its definition and its account these.
    pub(super) fn change(
        &self,
        definition: &Definition,
        account: &Account,
    ) -> Result<(), SystemError> {
        let display = Wide::new(&definition.display_name);
        let command = Wide::new(&definition.command);
        let depends = Wide::list(definition.depends_on.iter().map(String::as_str));
        let password = account.password().map(Wide::new);
        let password = password.as_ref();
        let account = Wide::new(account.name());
        unsafe {
            ChangeServiceConfigW(
                *self.handle,
                ENUM_SERVICE_TYPE(SERVICE_NO_CHANGE),
                start_type(definition.start),
                SERVICE_ERROR(SERVICE_NO_CHANGE),
                command.as_ptr(),
                PCWSTR::null(),
                None,
                depends.as_ptr(),
                account.as_ptr(),
                password.map_or(PCWSTR::null(), Wide::as_ptr),
                display.as_ptr(),
            )
        }
        .map_err(self.failed("ChangeServiceConfig"))
    }

    /// Sets only when it is started.
    pub(super) fn set_start(&self, start: Start) -> Result<(), SystemError> {
        let none = PCWSTR::null();
        unsafe {
            ChangeServiceConfigW(
                *self.handle,
                ENUM_SERVICE_TYPE(SERVICE_NO_CHANGE),
                start_type(start),
                SERVICE_ERROR(SERVICE_NO_CHANGE),
                none,
                none,
                None,
                none,
                none,
                none,
                none,
            )
        }
        .map_err(self.failed("ChangeServiceConfig"))
    }

    /// Tells Windows one more thing about it; `false` where this Windows does not take it.
    fn tell<T>(&self, level: SERVICE_CONFIG, what: &T) -> Result<bool, SystemError> {
        let told = unsafe {
            ChangeServiceConfig2W(*self.handle, level, Some(std::ptr::from_ref(what).cast()))
        };
        match told {
            Ok(()) => Ok(true),
            Err(error) if is(&error, ERROR_INVALID_LEVEL) || is_absent(&error) => Ok(false),
            Err(error) => Err(self.failed("ChangeServiceConfig2")(error)),
        }
    }

    /// Says what happens when it ends by itself.
    pub(super) fn set_recovery(&self, recovery: &Recovery) -> Result<bool, SystemError> {
        let told = self.set_actions(recovery)?;
        // A program that ends with an error has failed as well as one that crashed.
        self.set_after_errors(!recovery.restart_after_ms.is_empty())?;
        Ok(told)
    }

    /// Says whether ending with an error is a failure too.
    pub(super) fn set_after_errors(&self, is_failure: bool) -> Result<bool, SystemError> {
        let flag = SERVICE_FAILURE_ACTIONS_FLAG {
            fFailureActionsOnNonCrashFailures: is_failure.into(),
        };
        self.tell(SERVICE_CONFIG_FAILURE_ACTIONS_FLAG, &flag)
    }

    /// Says what starts it again.
    pub(super) fn set_actions(&self, recovery: &Recovery) -> Result<bool, SystemError> {
        self.set_failures(&Actions::from(recovery), None, None)
    }

    /// Says everything that is done when it fails, with the command that is run and the message of a reboot: an empty one
    /// is none, and one that is not given stays.
    pub(super) fn set_failures(
        &self,
        wanted: &Actions,
        command: Option<&str>,
        message: Option<&str>,
    ) -> Result<bool, SystemError> {
        let (command, message) = (command.map(Wide::new), message.map(Wide::new));
        let pointer = |text: &Option<Wide>| {
            let text = text.as_ref().map(Wide::as_ptr);
            text.map_or(PWSTR::null(), |text| PWSTR(text.0.cast_mut()))
        };
        let mut actions: Vec<_> = wanted
            .each
            .iter()
            .map(|(kind, delay)| SC_ACTION {
                Type: SC_ACTION_TYPE(kind.cast_signed()),
                Delay: *delay,
            })
            .collect();
        // An empty list is told by its pointer too.
        let count = u32::try_from(actions.len()).unwrap_or_default();
        if actions.is_empty() {
            actions.push(SC_ACTION::default());
        }
        self.tell(
            SERVICE_CONFIG_FAILURE_ACTIONS,
            &SERVICE_FAILURE_ACTIONSW {
                dwResetPeriod: wanted.reset_after_s,
                lpRebootMsg: pointer(&message),
                lpCommand: pointer(&command),
                cActions: count,
                lpsaActions: actions.as_mut_ptr(),
            },
        )
    }

    /// Says whether it waits a while after the start of the machine.
    pub(super) fn set_delayed(&self, is_delayed: bool) -> Result<bool, SystemError> {
        let info = SERVICE_DELAYED_AUTO_START_INFO {
            fDelayedAutostart: is_delayed.into(),
        };
        self.tell(SERVICE_CONFIG_DELAYED_AUTO_START_INFO, &info)
    }

    pub(super) fn config(&self) -> Result<Config, SystemError> {
        let mut needed = 0;
        // Asked with no room first, it tells how much it needs.
        let _ = unsafe { QueryServiceConfigW(*self.handle, None, 0, &raw mut needed) };
        // Of eight bytes each, so that what is put there stands where it may.
        let mut room = vec![0_u64; (needed as usize).div_ceil(8).max(1)];
        let config = room.as_mut_ptr().cast::<QUERY_SERVICE_CONFIGW>();
        unsafe { QueryServiceConfigW(*self.handle, Some(config), needed, &raw mut needed) }
            .map_err(self.failed("QueryServiceConfig"))?;
        let config = unsafe { &*config };
        Ok(Config {
            display_name: unsafe { text(config.lpDisplayName) },
            command: unsafe { text(config.lpBinaryPathName) },
            start: match config.dwStartType {
                SERVICE_AUTO_START | SERVICE_BOOT_START | SERVICE_SYSTEM_START => Start::Automatic,
                SERVICE_DISABLED => Start::Disabled,
                _ => Start::OnDemand,
            },
            account: Account::new(&unsafe { text(config.lpServiceStartName) }),
        })
    }

    pub(super) fn status(&self) -> Result<SERVICE_STATUS_PROCESS, SystemError> {
        let mut room = [0; size_of::<SERVICE_STATUS_PROCESS>()];
        let (level, mut needed) = (SC_STATUS_PROCESS_INFO, 0);
        unsafe { QueryServiceStatusEx(*self.handle, level, Some(&mut room), &raw mut needed) }
            .map_err(self.failed("QueryServiceStatusEx"))?;
        // The room is of bytes, which may stand where no structure may.
        Ok(unsafe {
            room.as_ptr()
                .cast::<SERVICE_STATUS_PROCESS>()
                .read_unaligned()
        })
    }

    /// Waits until it is in a state, or leaves the one that leads there.
    fn wait(
        &self,
        verb: &str,
        wanted: SERVICE_STATUS_CURRENT_STATE,
        way: SERVICE_STATUS_CURRENT_STATE,
        deadline: Duration,
    ) -> Result<(), SystemError> {
        let until = Instant::now() + deadline;
        loop {
            let status = self.status()?;
            if status.dwCurrentState == wanted {
                return Ok(());
            }
            if status.dwCurrentState != way {
                return Err(SystemError::Nonsense(format!(
                    "the service `{}` was {verb} and ended with {} ({})",
                    self.name, status.dwWin32ExitCode, status.dwServiceSpecificExitCode
                )));
            }
            if Instant::now() >= until {
                return Err(SystemError::TooLong {
                    program: self.name.clone(),
                    deadline,
                    tail: Vec::new(),
                });
            }
            thread::sleep(PAUSE);
        }
    }

    pub(super) fn start(&self, patience: Patience) -> Result<(), SystemError> {
        match unsafe { StartServiceW(*self.handle, None) } {
            Err(error) if !is(&error, ERROR_SERVICE_ALREADY_RUNNING) => {
                return Err(self.failed("StartService")(error));
            }
            _ => {}
        }
        let deadline = patience.times(DEADLINE);
        self.wait("started", SERVICE_RUNNING, SERVICE_START_PENDING, deadline)
    }

    /// Stops it, and waits until none of its processes runs: their files are replaced next. Gives back those that
    /// outlived their time and were ended.
    pub(super) fn stop(
        &self,
        within: Duration,
        patience: Patience,
    ) -> Result<Vec<String>, SystemError> {
        let deadline = patience.times(DEADLINE);
        // One that is being started takes no word until it runs or has failed.
        if self.status()?.dwCurrentState == SERVICE_START_PENDING {
            let _ = self.wait("started", SERVICE_RUNNING, SERVICE_START_PENDING, deadline);
        }
        let processes = Processes::of_service(self.status()?.dwProcessId, &self.config()?.command)?;
        let mut status = SERVICE_STATUS::default();
        let told = unsafe { ControlService(*self.handle, SERVICE_CONTROL_STOP, &raw mut status) };
        if let Err(error) = told
            && !is(&error, ERROR_SERVICE_NOT_ACTIVE)
        {
            // It may have been told already, or be gone without a word.
            let state = self.status()?.dwCurrentState;
            let is_stopping = [SERVICE_STOPPED, SERVICE_STOP_PENDING].contains(&state);
            if !is_stopping && !processes.are_gone() {
                return Err(self.failed("ControlService stop")(error));
            }
        }
        let until = Instant::now() + patience.times(within);
        let mut gone_since = None;
        while Instant::now() < until {
            if processes.are_gone() {
                let since = *gone_since.get_or_insert_with(Instant::now);
                if self.status()?.dwCurrentState == SERVICE_STOPPED {
                    return Ok(Vec::new());
                }
                if since.elapsed() >= NOTICED {
                    self.speak_for_the_dead(deadline)?;
                    return Ok(Vec::new());
                }
            }
            thread::sleep(PAUSE);
        }
        self.end(&processes, deadline)
    }

    /// Ends its processes, and waits until it is known as stopped.
    fn end(&self, processes: &Processes, deadline: Duration) -> Result<Vec<String>, SystemError> {
        let ended = processes.end(ENDING)?;
        let until = Instant::now() + NOTICED;
        while self.status()?.dwCurrentState != SERVICE_STOPPED && Instant::now() < until {
            thread::sleep(PAUSE);
        }
        self.speak_for_the_dead(deadline)?;
        Ok(ended)
    }

    /// Says that the service has stopped, where none of its processes is left to say so and nobody has noticed.
    ///
    /// What stands in for the service control manager watches no processes. A service that ends before it said that it
    /// has stopped, as kubelet does when it is quick, is being stopped for ever, and kubeadm, which waits for its end,
    /// fails. Windows hears of the end itself, and would take this from nobody but the service.
    fn speak_for_the_dead(&self, deadline: Duration) -> Result<(), SystemError> {
        if self.status()?.dwCurrentState == SERVICE_STOPPED {
            return Ok(());
        }
        let status = SERVICE_STATUS {
            dwServiceType: SERVICE_WIN32_OWN_PROCESS,
            dwCurrentState: SERVICE_STOPPED,
            ..SERVICE_STATUS::default()
        };
        if let Ok(Some(service)) = Self::open(&self.name, SET_STATUS) {
            // Whether it is taken shows in the look at the service.
            let _ = unsafe {
                SetServiceStatus(
                    SERVICE_STATUS_HANDLE((*service.handle).0),
                    &raw const status,
                )
            };
        }
        self.wait("stopped", SERVICE_STOPPED, SERVICE_STOP_PENDING, deadline)
    }

    /// Services that run and need this one, in the order in which they are stopped.
    pub(super) fn dependents(&self) -> Result<Vec<String>, SystemError> {
        let (mut needed, mut count) = (0, 0);
        let asked = |room: Option<*mut ENUM_SERVICE_STATUSW>,
                     size,
                     needed: &mut u32,
                     count: &mut u32| unsafe {
            EnumDependentServicesW(*self.handle, SERVICE_ACTIVE, room, size, needed, count)
        };
        match asked(None, 0, &mut needed, &mut count) {
            Ok(()) => return Ok(Vec::new()),
            Err(error) if is(&error, ERROR_MORE_DATA) => {}
            Err(error) => return Err(self.failed("EnumDependentServices")(error)),
        }
        let mut room = vec![0_u64; (needed as usize).div_ceil(8)];
        let first = room.as_mut_ptr().cast::<ENUM_SERVICE_STATUSW>();
        asked(Some(first), needed, &mut needed, &mut count)
            .map_err(self.failed("EnumDependentServices"))?;
        let found = unsafe { std::slice::from_raw_parts(first, count as usize) };
        Ok(found
            .iter()
            .map(|service| unsafe { text(service.lpServiceName) })
            .collect())
    }

    /// Removes it, and waits until nobody knows it, or for as long as is sensible while somebody holds it.
    pub(super) fn remove(self) -> Result<Removed, SystemError> {
        match unsafe { DeleteService(*self.handle) } {
            // Somebody else, or an agent that was killed, has removed it, and it is still held.
            Err(error) if !is(&error, ERROR_SERVICE_MARKED_FOR_DELETE) => {
                return Err(self.failed("DeleteService")(error));
            }
            _ => {}
        }
        let name = self.name.clone();
        // It goes with the last handle.
        drop(self);
        let until = Instant::now() + REMOVAL;
        while Self::find(&name)?.is_some() {
            if Instant::now() >= until {
                return Ok(Removed::Stays(HELD));
            }
            thread::sleep(PAUSE);
        }
        Ok(Removed::Gone)
    }
}

fn start_type(start: Start) -> SERVICE_START_TYPE {
    match start {
        Start::Automatic | Start::Delayed => SERVICE_AUTO_START,
        Start::OnDemand => SERVICE_DEMAND_START,
        Start::Disabled => SERVICE_DISABLED,
    }
}
