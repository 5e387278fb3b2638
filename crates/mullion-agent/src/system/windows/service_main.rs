//! Being a service: what the service control manager is told, and what it says.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windows::Win32::Foundation::{E_INVALIDARG, ERROR_FAILED_SERVICE_CONTROLLER_CONNECT};
use windows::core::Error;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{
    ServiceControlHandlerResult, ServiceStatusHandle, register,
};
use windows_service::service_dispatcher;

use super::super::{ServiceEnd, ServiceWork, SystemError};
use super::call::{failed, is};

/// The one service of this process. Windows calls back with nothing in hand.
static SERVICE: OnceLock<(String, ServiceWork)> = OnceLock::new();
static IS_TOLD_TO_STOP: AtomicBool = AtomicBool::new(false);

/// Is a service until it is told to stop or its work ends. Where nobody started it as one, the work is done all the
/// same, until somebody ends the process.
pub(super) fn run(name: &str, work: ServiceWork) -> Result<(), SystemError> {
    let (name, _) = SERVICE.get_or_init(|| (name.to_owned(), work));
    let started = service_dispatcher::start(name, main).map_err(|error| match error {
        windows_service::Error::Winapi(error) => Error::from(error),
        other => Error::new(E_INVALIDARG, other.to_string()),
    });
    match started {
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

extern "system" fn main(_count: u32, _words: *mut *mut u16) {
    let Some((name, _)) = SERVICE.get() else {
        return;
    };
    // `register` frees its handler at every stop and shutdown, and Windows may send a second one. A plain function owns
    // no memory, so nothing is freed twice: a closure that captures something must not stand here.
    // Without a handle nobody can be told anything; the service control manager gives the service up by itself.
    let Ok(handle) = register(name, hear) else {
        return;
    };
    tell(handle, ServiceState::Running, ServiceEnd::Told);
    let end = work_on();
    tell(handle, ServiceState::Stopped, end);
}

fn hear(control: ServiceControl) -> ServiceControlHandlerResult {
    match control {
        ServiceControl::Stop | ServiceControl::Shutdown => {
            IS_TOLD_TO_STOP.store(true, Ordering::SeqCst);
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    }
}

fn tell(handle: ServiceStatusHandle, state: ServiceState, end: ServiceEnd) {
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: if state == ServiceState::Running {
            ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN
        } else {
            ServiceControlAccept::empty()
        },
        // A failure, so that Windows does what the definition says about those.
        exit_code: if end == ServiceEnd::Failed {
            ServiceExitCode::ServiceSpecific(1)
        } else {
            ServiceExitCode::NO_ERROR
        },
        checkpoint: 0,
        wait_hint: Duration::ZERO,
        process_id: None,
    };
    // Nobody else could be told.
    let _ = handle.set_service_status(status);
}
