//! Privileges that a process has and does not use unless it says so.

use windows::Win32::Foundation::{
    CloseHandle, ERROR_NOT_ALL_ASSIGNED, ERROR_SUCCESS, GetLastError, HANDLE, LUID, SetLastError,
};
use windows::Win32::Security::{
    AdjustTokenPrivileges, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW, SE_PRIVILEGE_ENABLED,
    TOKEN_ADJUST_PRIVILEGES, TOKEN_PRIVILEGES, TOKEN_QUERY,
};
use windows::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};
use windows::core::PCWSTR;

use super::super::SystemError;
use super::call::{failed, outcome};

/// What says who this process is.
struct Token(HANDLE);

impl Drop for Token {
    fn drop(&mut self) {
        // The process ends soon, and the handle with it.
        let _ = unsafe { CloseHandle(self.0) };
    }
}

/// A privilege that is in use, until this value is gone.
struct InUse<'a> {
    token: &'a Token,
    before: TOKEN_PRIVILEGES,
}

impl<'a> InUse<'a> {
    fn new(token: &'a Token, name: PCWSTR) -> Result<Self, SystemError> {
        let shown = || String::from_utf16_lossy(unsafe { name.as_wide() });
        let mut number = LUID::default();
        unsafe { LookupPrivilegeValueW(PCWSTR::null(), name, &raw mut number) }
            .map_err(failed(format!("LookupPrivilegeValue {}", shown())))?;
        let wanted = TOKEN_PRIVILEGES {
            PrivilegeCount: 1,
            Privileges: [LUID_AND_ATTRIBUTES {
                Luid: number,
                Attributes: SE_PRIVILEGE_ENABLED,
            }],
        };
        let mut before = TOKEN_PRIVILEGES::default();
        let mut written = 0;
        let call = format!("AdjustTokenPrivileges {}", shown());
        // It succeeds for a privilege that the process does not have, and says so only there.
        unsafe { SetLastError(ERROR_SUCCESS) };
        unsafe {
            AdjustTokenPrivileges(
                token.0,
                false,
                Some(&raw const wanted),
                u32::try_from(size_of::<TOKEN_PRIVILEGES>()).unwrap_or_default(),
                Some(&raw mut before),
                Some(&raw mut written),
            )
        }
        .map_err(failed(call.clone()))?;
        let code = unsafe { GetLastError() };
        if code == ERROR_NOT_ALL_ASSIGNED {
            return outcome(call, code).map(|()| Self { token, before });
        }
        Ok(Self { token, before })
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        // Of one that was in use before nothing was changed, and nothing is to be put back.
        if self.before.PrivilegeCount == 0 {
            return;
        }
        // One that stays in use is no reason to fail: what it was needed for is done.
        let _ = unsafe {
            AdjustTokenPrivileges(
                self.token.0,
                false,
                Some(&raw const self.before),
                0,
                None,
                None,
            )
        };
    }
}

/// Does something with privileges that Windows leaves unused, and leaves them as they were before.
pub(super) fn with<T>(
    names: &[PCWSTR],
    work: impl FnOnce() -> Result<T, SystemError>,
) -> Result<T, SystemError> {
    let mut handle = HANDLE::default();
    unsafe {
        OpenProcessToken(
            GetCurrentProcess(),
            TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY,
            &raw mut handle,
        )
    }
    .map_err(failed("OpenProcessToken"))?;
    let token = Token(handle);
    let names = names.iter();
    let _in_use = names
        .map(|name| InUse::new(&token, *name))
        .collect::<Result<Vec<_>, _>>()?;
    work()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use windows::Win32::Security::{
        PRIVILEGE_SET, PrivilegeCheck, SE_CREATE_TOKEN_NAME, SE_RESTORE_NAME, SE_SYSTEMTIME_NAME,
    };
    use windows::core::BOOL;

    use super::*;

    fn is_in_use(name: PCWSTR) -> bool {
        let mut handle = HANDLE::default();
        unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut handle) }.unwrap();
        let token = Token(handle);
        let mut number = LUID::default();
        unsafe { LookupPrivilegeValueW(PCWSTR::null(), name, &raw mut number) }.unwrap();
        let mut asked = PRIVILEGE_SET {
            PrivilegeCount: 1,
            Control: 1,
            Privilege: [LUID_AND_ATTRIBUTES {
                Luid: number,
                Attributes: SE_PRIVILEGE_ENABLED,
            }],
        };
        let mut answer = BOOL::default();
        unsafe { PrivilegeCheck(token.0, &raw mut asked, &raw mut answer) }.unwrap();
        answer.as_bool()
    }

    #[test]
    fn privileges_are_in_use_for_as_long_as_they_are_needed() {
        let names = [SE_SYSTEMTIME_NAME, SE_RESTORE_NAME];
        let all = || names.map(is_in_use);
        assert_eq!(all(), [false, false]);
        let during = with(&names, || Ok(all())).unwrap();
        assert_eq!(during, [true, true]);
        assert_eq!(all(), [false, false]);
        // One that is in use already stays so.
        let inner = || with(&names[..1], || Ok(())).map(|()| all());
        assert_eq!(with(&names, inner).unwrap(), [true, true]);
        assert_eq!(all(), [false, false]);
        let failed: Result<(), _> = with(&names, || Err(SystemError::Nonsense("no".into())));
        assert!(failed.is_err());
        assert_eq!(all(), [false, false]);
    }

    #[test]
    fn a_privilege_that_the_process_lacks_is_told_by_its_name() {
        let error = with(&[SE_CREATE_TOKEN_NAME], || Ok(())).unwrap_err();
        assert!(
            error.to_string().contains("SeCreateTokenPrivilege"),
            "{error}"
        );
    }
}
