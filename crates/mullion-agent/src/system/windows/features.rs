//! Optional features, by DISM's interface.

use std::collections::BTreeMap;
use std::ffi::c_void;

use mullion_wire::Feature;
use windows::Win32::Foundation::ERROR_SUCCESS_REBOOT_REQUIRED;
use windows::core::{Error, HRESULT, PCWSTR};

use super::super::{Holds, SystemError};
use super::call::{Library, Wide, failed};

const WHAT: &str = "an optional feature";
/// The Windows that runs, as DISM names it.
const ONLINE: &str = "DISM_{53BFAE52-B167-4E2F-A258-0A37B57FF845}";
/// Errors alone are logged.
const LOG_ERRORS: i32 = 0;
/// No package is named: the feature is Windows' own.
const NO_PACKAGE: i32 = 0;
/// What DISM says of a feature that there is not.
const UNKNOWN_FEATURE: u32 = 0x800f_080c;

type Initialize = unsafe extern "system" fn(i32, PCWSTR, PCWSTR) -> HRESULT;
type Shutdown = unsafe extern "system" fn() -> HRESULT;
type OpenSession = unsafe extern "system" fn(PCWSTR, PCWSTR, PCWSTR, *mut u32) -> HRESULT;
type CloseSession = unsafe extern "system" fn(u32) -> HRESULT;
type GetFeatureInfo =
    unsafe extern "system" fn(u32, PCWSTR, PCWSTR, i32, *mut *mut FeatureInfo) -> HRESULT;
type Delete = unsafe extern "system" fn(*mut c_void) -> HRESULT;
type EnableFeature = unsafe extern "system" fn(
    u32,
    PCWSTR,
    PCWSTR,
    i32,
    i32,
    *const PCWSTR,
    u32,
    i32,
    *const c_void,
    *const c_void,
    *const c_void,
) -> HRESULT;

/// The beginning of `DismFeatureInfo`, whose fields lie without gaps.
#[repr(C, packed)]
struct FeatureInfo {
    name: PCWSTR,
    state: i32,
}

/// DISM at work on the Windows that runs.
struct Session {
    library: Library,
    number: u32,
}

impl Session {
    fn open() -> Result<Self, SystemError> {
        let library = Library::load("dismapi.dll", WHAT)?;
        let initialize: Initialize = unsafe { library.entry("DismInitialize")? };
        let open: OpenSession = unsafe { library.entry("DismOpenSession")? };
        let none = PCWSTR::null();
        unsafe { initialize(LOG_ERRORS, none, none) }
            .ok()
            .map_err(failed("DismInitialize"))?;
        let online = Wide::new(ONLINE);
        let mut number = 0;
        let opened = unsafe { open(online.as_ptr(), none, none, &raw mut number) };
        let session = Self { library, number };
        opened.ok().map_err(failed("DismOpenSession"))?;
        Ok(session)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What is not closed here is closed with the process.
        unsafe {
            if let Ok(close) = self.library.entry::<CloseSession>("DismCloseSession") {
                let _ = close(self.number);
            }
            if let Ok(shutdown) = self.library.entry::<Shutdown>("DismShutdown") {
                let _ = shutdown();
            }
        }
    }
}

/// How a feature is.
pub(super) fn read(name: &str) -> Result<Feature, SystemError> {
    ask(&Session::open()?, name)
}

/// How features are. A session takes seconds to open, and one serves for all.
pub(super) fn read_all(names: &[&str]) -> Result<BTreeMap<String, Feature>, SystemError> {
    let session = Session::open()?;
    let found = names
        .iter()
        .map(|name| Ok(((*name).to_owned(), ask(&session, name)?)));
    found.collect()
}

fn ask(session: &Session, name: &str) -> Result<Feature, SystemError> {
    let ask: GetFeatureInfo = unsafe { session.library.entry("DismGetFeatureInfo")? };
    let wide = Wide::new(name);
    let mut info = std::ptr::null_mut();
    let answer = unsafe {
        ask(
            session.number,
            wide.as_ptr(),
            PCWSTR::null(),
            NO_PACKAGE,
            &raw mut info,
        )
    };
    if answer.0.cast_unsigned() == UNKNOWN_FEATURE {
        return Ok(Feature::Unknown);
    }
    answer
        .ok()
        .map_err(failed(format!("DismGetFeatureInfo {name}")))?;
    if info.is_null() {
        return Ok(Feature::Unknown);
    }
    let state = unsafe { (*info).state };
    if let Ok(delete) = unsafe { session.library.entry::<Delete>("DismDelete") } {
        // What is not given back is gone with the process.
        let _ = unsafe { delete(info.cast()) };
    }
    Ok(match state {
        // Installed, superseded, partly installed.
        4 | 6 | 7 => Feature::Enabled,
        5 => Feature::Pending,
        _ => Feature::Disabled,
    })
}

/// Enables a feature, with those that it needs.
pub(super) fn enable(name: &str) -> Result<Holds, SystemError> {
    let session = Session::open()?;
    let enable: EnableFeature = unsafe { session.library.entry("DismEnableFeature")? };
    let wide = Wide::new(name);
    let none = PCWSTR::null();
    let answer = unsafe {
        enable(
            session.number,
            wide.as_ptr(),
            none,
            NO_PACKAGE,
            // What is not on the disk may be fetched.
            0,
            std::ptr::null(),
            0,
            // With those that it needs.
            1,
            std::ptr::null(),
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    let code = answer.0.cast_unsigned();
    let wants_restart = [
        ERROR_SUCCESS_REBOOT_REQUIRED.0,
        HRESULT::from_win32(ERROR_SUCCESS_REBOOT_REQUIRED.0)
            .0
            .cast_unsigned(),
    ];
    if wants_restart.contains(&code) {
        return Ok(Holds::AfterRestart);
    }
    if answer.is_ok() {
        return Ok(Holds::Now);
    }
    Err(failed(format!("DismEnableFeature {name}"))(
        Error::from_hresult(answer),
    ))
}
