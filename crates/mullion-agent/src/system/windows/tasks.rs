//! Task Scheduler, by the interface `ITaskService`.

use windows::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND};
use windows::Win32::System::Com::{
    CLSCTX_INPROC_SERVER, COINIT_MULTITHREADED, CoCreateInstance, CoInitializeEx,
};
use windows::Win32::System::TaskScheduler::{
    ITaskFolder, ITaskService, TASK_CREATE_OR_UPDATE, TASK_LOGON_SERVICE_ACCOUNT, TaskScheduler,
};
use windows::Win32::System::Variant::VARIANT;
use windows::core::{BSTR, Error};

use super::super::{Removed, SystemError};
use super::call::{failed, is};
use super::task::{NAME, USER, at_start};

/// The folder of all tasks.
fn folder() -> Result<ITaskFolder, Error> {
    // A thread that is in another apartment already serves as well.
    let _ = unsafe { CoInitializeEx(None, COINIT_MULTITHREADED) };
    let service: ITaskService =
        unsafe { CoCreateInstance(&TaskScheduler, None, CLSCTX_INPROC_SERVER) }?;
    let none = VARIANT::default;
    unsafe { service.Connect(&none(), &none(), &none(), &none()) }?;
    unsafe { service.GetFolder(&BSTR::from("\\")) }
}

pub(super) fn register(program: &str, arguments: &str) -> Result<(), SystemError> {
    let folder = folder().map_err(failed("ITaskService"))?;
    let registered = unsafe {
        folder.RegisterTask(
            &BSTR::from(NAME),
            &BSTR::from(at_start(program, arguments)),
            TASK_CREATE_OR_UPDATE.0,
            &VARIANT::from(BSTR::from(USER)),
            &VARIANT::default(),
            TASK_LOGON_SERVICE_ACCOUNT,
            &VARIANT::default(),
        )
    };
    registered
        .map(drop)
        .map_err(failed("ITaskFolder::RegisterTask"))
}

pub(super) fn remove() -> Result<Removed, SystemError> {
    let folder = folder().map_err(failed("ITaskService"))?;
    match unsafe { folder.DeleteTask(&BSTR::from(NAME), 0) } {
        Ok(()) => Ok(Removed::Gone),
        Err(error) if is_missing(&error) => Ok(Removed::Nothing),
        Err(error) => Err(failed("ITaskFolder::DeleteTask")(error)),
    }
}

/// Whether a failure says that there is no such task.
fn is_missing(error: &Error) -> bool {
    let reasons = [ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND];
    reasons.iter().any(|reason| is(error, *reason))
}
