//! Being a service: what the service control manager is told, and what it says.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use windows::Win32::Foundation::{
    ERROR_CALL_NOT_IMPLEMENTED, ERROR_FAILED_SERVICE_CONTROLLER_CONNECT,
    ERROR_SERVICE_SPECIFIC_ERROR, NO_ERROR,
};
use windows::Win32::System::Services::{
    RegisterServiceCtrlHandlerExW, SERVICE_ACCEPT_SHUTDOWN, SERVICE_ACCEPT_STOP,
    SERVICE_CONTROL_INTERROGATE, SERVICE_CONTROL_SHUTDOWN, SERVICE_CONTROL_STOP, SERVICE_RUNNING,
    SERVICE_STATUS, SERVICE_STATUS_CURRENT_STATE, SERVICE_STATUS_HANDLE, SERVICE_STOPPED,
    SERVICE_TABLE_ENTRYW, SERVICE_WIN32_OWN_PROCESS, SetServiceStatus, StartServiceCtrlDispatcherW,
};
use windows::core::PWSTR;

use super::super::{ServiceEnd, ServiceWork, SystemError};
use super::call::{Wide, failed, is};

/// The one service of this process. Windows calls back with nothing in hand.
static SERVICE: OnceLock<(Wide, ServiceWork)> = OnceLock::new();
static IS_TOLD_TO_STOP: AtomicBool = AtomicBool::new(false);

/// Is a service until it is told to stop or its work ends. Where nobody started it as one, the work is done all the
/// same, until somebody ends the process.
pub(super) fn run(name: &str, work: ServiceWork) -> Result<(), SystemError> {
    let (name, _) = SERVICE.get_or_init(|| (Wide::new(name), work));
    let table = [
        SERVICE_TABLE_ENTRYW {
            lpServiceName: PWSTR(name.as_ptr().0.cast_mut()),
            lpServiceProc: Some(main),
        },
        SERVICE_TABLE_ENTRYW::default(),
    ];
    match unsafe { StartServiceCtrlDispatcherW(table.as_ptr()) } {
        Err(error) if is(&error, ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) => {
            work_on();
            Ok(())
        }
        told => told.map_err(failed("StartServiceCtrlDispatcher")),
    }
}

fn is_told_to_stop() -> bool {
    IS_TOLD_TO_STOP.load(Ordering::SeqCst)
}

fn work_on() -> ServiceEnd {
    SERVICE
        .get()
        .map_or(ServiceEnd::Failed, |(_, work)| work(&is_told_to_stop))
}

unsafe extern "system" fn main(_count: u32, _words: *mut PWSTR) {
    let Some((name, _)) = SERVICE.get() else {
        return;
    };
    let handler = unsafe { RegisterServiceCtrlHandlerExW(name.as_ptr(), Some(hear), None) };
    // Without a handle nobody can be told anything; the service control manager gives the service up by itself.
    let Ok(handle) = handler else {
        return;
    };
    tell(handle, SERVICE_RUNNING, ServiceEnd::Told);
    let end = work_on();
    tell(handle, SERVICE_STOPPED, end);
}

unsafe extern "system" fn hear(
    control: u32,
    _kind: u32,
    _data: *mut std::ffi::c_void,
    _context: *mut std::ffi::c_void,
) -> u32 {
    match control {
        SERVICE_CONTROL_STOP | SERVICE_CONTROL_SHUTDOWN => {
            IS_TOLD_TO_STOP.store(true, Ordering::SeqCst);
            NO_ERROR.0
        }
        SERVICE_CONTROL_INTERROGATE => NO_ERROR.0,
        _ => ERROR_CALL_NOT_IMPLEMENTED.0,
    }
}

fn tell(handle: SERVICE_STATUS_HANDLE, state: SERVICE_STATUS_CURRENT_STATE, end: ServiceEnd) {
    let has_failed = end == ServiceEnd::Failed;
    let status = SERVICE_STATUS {
        dwServiceType: SERVICE_WIN32_OWN_PROCESS,
        dwCurrentState: state,
        dwControlsAccepted: if state == SERVICE_RUNNING {
            SERVICE_ACCEPT_STOP | SERVICE_ACCEPT_SHUTDOWN
        } else {
            0
        },
        // A failure, so that Windows does what the definition says about those.
        dwWin32ExitCode: if has_failed {
            ERROR_SERVICE_SPECIFIC_ERROR.0
        } else {
            NO_ERROR.0
        },
        dwServiceSpecificExitCode: u32::from(has_failed),
        ..SERVICE_STATUS::default()
    };
    // Nobody else could be told.
    let _ = unsafe { SetServiceStatus(handle, &raw const status) };
}
