//! Calling Windows: texts in its form, failures in ours, and libraries that may not be there.

use std::io;

use windows::Win32::Foundation::{
    ERROR_CALL_NOT_IMPLEMENTED, ERROR_NOT_SUPPORTED, ERROR_SUCCESS, FreeLibrary, HMODULE,
    WIN32_ERROR,
};
use windows::Win32::System::LibraryLoader::{
    GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW,
};
use windows::core::{Error, HRESULT, PCSTR, PCWSTR, PWSTR};

use super::super::SystemError;

/// Text in Windows' form, with the zero at its end.
pub(super) struct Wide(Vec<u16>);

impl Wide {
    pub(super) fn new(text: &str) -> Self {
        Self(text.encode_utf16().chain([0]).collect())
    }

    /// Texts one after the other, each with its zero, and one more at the end.
    pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut units = Vec::new();
        for text in texts {
            units.extend(text.encode_utf16().chain([0]));
        }
        // An empty list is two zeros as well.
        units.extend([0, 0]);
        Self(units)
    }

    /// A path, with Windows' own separator.
    pub(super) fn path(path: &str) -> Self {
        Self::new(&path.replace('/', "\\"))
    }

    /// Where it is. Good for as long as this value is.
    pub(super) fn as_ptr(&self) -> PCWSTR {
        PCWSTR(self.0.as_ptr())
    }
}

/// The text that a pointer leads to; empty where it leads nowhere.
pub(super) unsafe fn text(pointer: PWSTR) -> String {
    if pointer.is_null() {
        return String::new();
    }
    String::from_utf16_lossy(unsafe { pointer.as_wide() })
}

/// The failure of a call, with what it was about.
pub(super) fn failed(call: impl Into<String>) -> impl FnOnce(Error) -> SystemError {
    move |error| SystemError::Call {
        call: call.into(),
        code: error.code().0.cast_unsigned(),
        source: io::Error::other(error.message()),
    }
}

/// Whether a call failed for this reason.
pub(super) fn is(error: &Error, reason: WIN32_ERROR) -> bool {
    error.code() == HRESULT::from_win32(reason.0)
}

/// Whether a call failed because this Windows does not have it.
pub(super) fn is_absent(error: &Error) -> bool {
    let reasons = [ERROR_NOT_SUPPORTED, ERROR_CALL_NOT_IMPLEMENTED];
    reasons.iter().any(|reason| is(error, *reason))
}

/// The outcome of a call that gives its failure back as a number.
pub(super) fn outcome(call: impl Into<String>, code: WIN32_ERROR) -> Result<(), SystemError> {
    if code == ERROR_SUCCESS {
        return Ok(());
    }
    Err(failed(call)(Error::from_hresult(HRESULT::from_win32(
        code.0,
    ))))
}

/// A library that a Windows may lack.
pub(super) struct Library {
    handle: HMODULE,
    name: &'static str,
    what: &'static str,
}

impl Library {
    /// Loads it, from Windows' own folder and nowhere else: beside a program may lie what others put there.
    pub(super) fn load(name: &'static str, what: &'static str) -> Result<Self, SystemError> {
        let wide = Wide::new(name);
        let loaded = unsafe { LoadLibraryExW(wide.as_ptr(), None, LOAD_LIBRARY_SEARCH_SYSTEM32) };
        match loaded {
            Ok(handle) => Ok(Self { handle, name, what }),
            Err(_) => Err(SystemError::NoLibrary {
                what,
                library: name,
                entry: None,
            }),
        }
    }

    /// A function in it. `F` is the type that its documentation gives it.
    pub(super) unsafe fn entry<F: Copy>(&self, entry: &str) -> Result<F, SystemError> {
        const {
            assert!(size_of::<F>() == size_of::<usize>());
        }
        let name = format!("{entry}\0");
        let found = unsafe { GetProcAddress(self.handle, PCSTR(name.as_ptr())) };
        match found {
            Some(function) => Ok(unsafe { std::mem::transmute_copy::<_, F>(&function) }),
            None => Err(SystemError::NoLibrary {
                what: self.what,
                library: self.name,
                entry: Some(entry.to_owned()),
            }),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // A library that does not go stays until the process ends.
        let _ = unsafe { FreeLibrary(self.handle) };
    }
}
