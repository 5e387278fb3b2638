//! The processes of a service: the one that the service control manager started, and those that it started in turn; and
//! those that hold containers of pods.

use std::ffi::c_void;
use std::thread;
use std::time::{Duration, Instant};

use windows::Win32::Foundation::{
    CloseHandle, FILETIME, HANDLE, NTSTATUS, UNICODE_STRING, WAIT_OBJECT_0,
};
use windows::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows::Win32::System::Threading::{
    GetProcessTimes, OpenProcess, PROCESS_ACCESS_RIGHTS, PROCESS_QUERY_LIMITED_INFORMATION,
    PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, TerminateProcess, WaitForSingleObject,
};

use super::super::SystemError;
use super::call::{Library, failed};
use super::choice::{Listed, SHIM, holds_pod, of_service};

/// `ProcessCommandLineInformation`: a `UNICODE_STRING`, and what it leads to behind it.
const COMMAND_LINE: i32 = 60;
/// The longest that it can be, in units of eight bytes.
const LONGEST: usize = (size_of::<UNICODE_STRING>() + u16::MAX as usize) / 8 + 1;

type Query = unsafe extern "system" fn(HANDLE, i32, *mut c_void, u32, *mut u32) -> NTSTATUS;

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
        let found = of_service(&all()?, id, command).into_iter();
        let rights = PROCESS_SYNCHRONIZE | PROCESS_TERMINATE;
        Ok(Self(
            found.filter_map(|process| hold(process, rights)).collect(),
        ))
    }

    /// Those that hold containers of pods. HCS ends a container with the last hold of it.
    pub(super) fn shims_of_pods() -> Result<Self, SystemError> {
        let mut found = all()?;
        found.retain(|process| process.program.eq_ignore_ascii_case(SHIM));
        let rights = PROCESS_SYNCHRONIZE | PROCESS_TERMINATE | PROCESS_QUERY_LIMITED_INFORMATION;
        let mut shims = Vec::new();
        for shim in found
            .into_iter()
            .filter_map(|process| hold(process, rights))
        {
            match command_line(&shim) {
                Ok(command) if holds_pod(&command) => shims.push(shim),
                Ok(_) => {}
                // It ended by itself meanwhile.
                Err(_) if shim.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self(shims))
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

/// Holds a process; one that cannot be opened has ended meanwhile.
fn hold(process: Listed, rights: PROCESS_ACCESS_RIGHTS) -> Option<Held> {
    let handle = unsafe { OpenProcess(rights, false, process.id) }.ok()?;
    Some(Held {
        id: process.id,
        program: process.program,
        handle: Handle(handle),
    })
}

/// What a process was started with.
fn command_line(process: &Held) -> Result<String, SystemError> {
    let ntdll = Library::load("ntdll.dll", "the command line of a process")?;
    let query: Query = unsafe { ntdll.entry("NtQueryInformationProcess")? };
    // Of units that are aligned as what is written into them.
    let mut room = vec![0_u64; LONGEST];
    let size = u32::try_from(size_of_val(room.as_slice())).unwrap_or_default();
    let mut written = 0;
    unsafe {
        query(
            process.handle.0,
            COMMAND_LINE,
            room.as_mut_ptr().cast(),
            size,
            &raw mut written,
        )
    }
    .ok()
    .map_err(failed("NtQueryInformationProcess"))?;
    let found = unsafe { room.as_ptr().cast::<UNICODE_STRING>().read() };
    if found.Buffer.is_null() {
        return Ok(String::new());
    }
    let length = usize::from(found.Length) / size_of::<u16>();
    let units = unsafe { std::slice::from_raw_parts(found.Buffer.0, length) };
    Ok(String::from_utf16_lossy(units))
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

/// When a process that runs was started; none where it does not run. Numbers are given again, times are not.
pub(super) fn started(id: u32) -> Result<Option<u64>, SystemError> {
    if !runs(id) {
        return Ok(None);
    }
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, false, id) }
        .map(Handle)
        .map_err(failed("OpenProcess"))?;
    let mut times = [FILETIME::default(); 4];
    let [made, ended, kernel, user] = &mut times;
    unsafe { GetProcessTimes(handle.0, made, ended, kernel, user) }
        .map_err(failed("GetProcessTimes"))?;
    let high = u64::from(made.dwHighDateTime);
    Ok(Some(high << 32 | u64::from(made.dwLowDateTime)))
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
