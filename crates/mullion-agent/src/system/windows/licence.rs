//! The licence of Windows, by the software licensing interface.

use std::ffi::c_void;
use std::slice;

use mullion_wire::Licence;
use windows::Win32::Foundation::{HLOCAL, LocalFree};
use windows::core::{GUID, HRESULT, PCWSTR};

use super::super::SystemError;
use super::call::{Library, failed};
use super::products;

/// Windows itself, as the licensing service names it.
static WINDOWS: GUID = GUID::from_u128(0x55c9_2734_d682_4d71_983e_d6ec_3f16_059f);

type Open = unsafe extern "system" fn(*mut *mut c_void) -> HRESULT;
type Close = unsafe extern "system" fn(*mut c_void) -> HRESULT;
type GetStatus = unsafe extern "system" fn(
    *mut c_void,
    *const GUID,
    *const GUID,
    PCWSTR,
    *mut u32,
    *mut *mut Status,
) -> HRESULT;

/// `SL_LICENSING_STATUS`.
#[repr(C)]
struct Status {
    product: GUID,
    state: i32,
    minutes_left: u32,
    grace_days: u32,
    reason: HRESULT,
    expiry: u64,
}

/// The licence; none where this Windows tells nothing of it.
pub(super) fn read() -> Result<Option<Licence>, SystemError> {
    let library = Library::load("slc.dll", "the licence")?;
    let open: Open = unsafe { library.entry("SLOpen")? };
    let close: Close = unsafe { library.entry("SLClose")? };
    let ask: GetStatus = unsafe { library.entry("SLGetLicensingStatusInformation")? };
    let mut handle = std::ptr::null_mut();
    unsafe { open(&raw mut handle) }
        .ok()
        .map_err(failed("SLOpen"))?;
    let mut count = 0;
    let mut list: *mut Status = std::ptr::null_mut();
    let answer = unsafe {
        ask(
            handle,
            &raw const WINDOWS,
            std::ptr::null(),
            PCWSTR::null(),
            &raw mut count,
            &raw mut list,
        )
    };
    let _ = unsafe { close(handle) };
    answer
        .ok()
        .map_err(failed("SLGetLicensingStatusInformation"))?;
    if list.is_null() {
        return Ok(None);
    }
    let found = unsafe { slice::from_raw_parts(list, count as usize) };
    let told = found.iter();
    let licence = products::counted(told.map(|status| (status.state, status.minutes_left)));
    unsafe { LocalFree(Some(HLOCAL(list.cast()))) };
    Ok(licence)
}
