//! The processes of a service: the one that the service control manager started, and those that it started in turn.

use std::thread;
use std::time::{Duration, Instant};

use windows::Win32::Foundation::{CloseHandle, HANDLE, WAIT_OBJECT_0};
use windows::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows::Win32::System::Threading::{
    OpenProcess, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, TerminateProcess, WaitForSingleObject,
};

use super::super::SystemError;
use super::call::failed;
use super::choice::{Listed, of_service};

const PAUSE: Duration = Duration::from_millis(50);

struct Handle(HANDLE);

impl Drop for Handle {
    fn drop(&mut self) {
        // Nothing is lost with a handle that does not close.
        let _ = unsafe { CloseHandle(self.0) };
    }
}

/// A process that is held: its number is not given to another one meanwhile.
struct Held {
    id: u32,
    program: String,
    handle: Handle,
}

impl Held {
    fn is_gone(&self) -> bool {
        unsafe { WaitForSingleObject(self.handle.0, 0) == WAIT_OBJECT_0 }
    }
}

/// Processes of a service that were found to run.
pub(super) struct Processes(Vec<Held>);

impl Processes {
    /// Those of a service: the process of this number, and what runs below it of the programs that its command names.
    /// Others below it may be meant to outlive it, as containers do.
    pub(super) fn of_service(id: u32, command: &str) -> Result<Self, SystemError> {
        if id == 0 {
            return Ok(Self(Vec::new()));
        }
        let found = of_service(&all()?, id, command);
        let held = found.into_iter().filter_map(|process| {
            let rights = PROCESS_SYNCHRONIZE | PROCESS_TERMINATE;
            // One that cannot be opened has ended meanwhile.
            let handle = unsafe { OpenProcess(rights, false, process.id) }.ok()?;
            Some(Held {
                id: process.id,
                program: process.program,
                handle: Handle(handle),
            })
        });
        Ok(Self(held.collect()))
    }

    /// Whether none of them runs.
    pub(super) fn are_gone(&self) -> bool {
        self.0.iter().all(Held::is_gone)
    }

    /// Ends those that still run, and says which.
    pub(super) fn end(&self, within: Duration) -> Result<Vec<String>, SystemError> {
        let mut ended = Vec::new();
        for process in self.0.iter().filter(|process| !process.is_gone()) {
            let name = format!("{} (process {})", process.program, process.id);
            match unsafe { TerminateProcess(process.handle.0, 1) } {
                Ok(()) => ended.push(name),
                // It ended by itself meanwhile.
                Err(_) if process.is_gone() => {}
                Err(error) => return Err(failed(format!("TerminateProcess {name}"))(error)),
            }
        }
        let until = Instant::now() + within;
        while !self.are_gone() {
            if Instant::now() >= until {
                return Err(SystemError::Nonsense(format!(
                    "{} was ended and still runs",
                    ended.join(", ")
                )));
            }
            thread::sleep(PAUSE);
        }
        Ok(ended)
    }
}

/// Whether a process of this number runs.
pub(super) fn runs(id: u32) -> bool {
    if id == 0 {
        return false;
    }
    let opened = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, false, id) };
    opened.is_ok_and(|handle| {
        let handle = Handle(handle);
        unsafe { WaitForSingleObject(handle.0, 0) != WAIT_OBJECT_0 }
    })
}

/// Everything that runs.
fn all() -> Result<Vec<Listed>, SystemError> {
    let list = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) }
        .map(Handle)
        .map_err(failed("CreateToolhelp32Snapshot"))?;
    let mut entry = PROCESSENTRY32W {
        dwSize: size_of::<PROCESSENTRY32W>().try_into().unwrap_or_default(),
        ..PROCESSENTRY32W::default()
    };
    let mut found = Vec::new();
    let mut next = unsafe { Process32FirstW(list.0, &raw mut entry) };
    while next.is_ok() {
        let name = entry.szExeFile.split(|unit| *unit == 0).next();
        found.push(Listed {
            id: entry.th32ProcessID,
            parent: entry.th32ParentProcessID,
            program: String::from_utf16_lossy(name.unwrap_or_default()),
        });
        next = unsafe { Process32NextW(list.0, &raw mut entry) };
    }
    Ok(found)
}
