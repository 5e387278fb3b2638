//! Who may open a file: modes as Windows has them.

use windows::Win32::Foundation::{HLOCAL, LocalFree};
use windows::Win32::Security::Authorization::{
    ConvertSecurityDescriptorToStringSecurityDescriptorW,
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW, SDDL_REVISION_1,
    SE_FILE_OBJECT, SetNamedSecurityInfoW,
};
use windows::Win32::Security::{
    ACL, DACL_SECURITY_INFORMATION, GetSecurityDescriptorDacl, OBJECT_SECURITY_INFORMATION,
    OWNER_SECURITY_INFORMATION, PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR,
    SetFileSecurityW, UNPROTECTED_DACL_SECURITY_INFORMATION,
};
use windows::core::{BOOL, PWSTR};

use super::super::SystemError;
use super::call::{Wide, failed, outcome, text};
use super::sddl::{Access, INHERITED, PRIVATE_FILE, PRIVATE_FOLDER, access, bare, is_inherited};

/// A description of who may open something, in memory that Windows gave.
pub(super) struct Descriptor(PSECURITY_DESCRIPTOR);

impl Drop for Descriptor {
    fn drop(&mut self) {
        unsafe { LocalFree(Some(HLOCAL(self.0.0))) };
    }
}

impl Descriptor {
    /// From its short writing.
    pub(super) fn new(sddl: &str) -> Result<Self, SystemError> {
        let wide = Wide::new(sddl);
        let mut descriptor = PSECURITY_DESCRIPTOR::default();
        unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                wide.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                None,
            )
        }
        .map_err(failed(format!("ConvertStringSecurityDescriptor {sddl}")))?;
        Ok(Self(descriptor))
    }

    /// Where it is. Good for as long as this value is.
    pub(super) fn as_ptr(&self) -> PSECURITY_DESCRIPTOR {
        self.0
    }

    fn list(&self) -> Result<*const ACL, SystemError> {
        let (mut is_present, mut is_default) = (BOOL::default(), BOOL::default());
        let mut list = std::ptr::null_mut();
        unsafe {
            GetSecurityDescriptorDacl(
                self.0,
                &raw mut is_present,
                &raw mut list,
                &raw mut is_default,
            )
        }
        .map_err(failed("GetSecurityDescriptorDacl"))?;
        Ok(list)
    }
}

/// Whether a mode lets nobody in but its owner.
pub(super) fn is_private(mode: u32) -> bool {
    mode.trailing_zeros() >= 6
}

/// The short writing for a mode.
pub(super) fn sddl(mode: u32, is_folder: bool) -> &'static str {
    match (is_private(mode), is_folder) {
        (true, false) => PRIVATE_FILE,
        (true, true) => PRIVATE_FOLDER,
        (false, _) => INHERITED,
    }
}

/// The mode of something.
pub(super) fn mode(path: &str, is_folder: bool) -> Result<u32, SystemError> {
    Ok(match (access(&read(path)?), is_folder) {
        (Access::Private, false) => 0o600,
        (Access::Private, true) => 0o700,
        (Access::Inherited, false) => 0o644,
        (Access::Inherited, true) => 0o755,
        // Neither of ours, so that it differs from both.
        (Access::Other, false) => 0o640,
        (Access::Other, true) => 0o750,
    })
}

/// The short writing of who may open something, its owner included.
pub(super) fn read(path: &str) -> Result<String, SystemError> {
    let wide = Wide::path(path);
    let asked = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
    let mut descriptor = PSECURITY_DESCRIPTOR::default();
    let code = unsafe {
        GetNamedSecurityInfoW(
            wide.as_ptr(),
            SE_FILE_OBJECT,
            asked,
            None,
            None,
            None,
            None,
            &raw mut descriptor,
        )
    };
    outcome(format!("GetNamedSecurityInfo {path}"), code)?;
    let descriptor = Descriptor(descriptor);
    let mut written = PWSTR::null();
    unsafe {
        ConvertSecurityDescriptorToStringSecurityDescriptorW(
            descriptor.0,
            SDDL_REVISION_1,
            asked,
            &raw mut written,
            None,
        )
    }
    .map_err(failed(format!("ConvertSecurityDescriptor {path}")))?;
    let found = unsafe { text(written) };
    unsafe { LocalFree(Some(HLOCAL(written.0.cast()))) };
    Ok(found)
}

/// Gives something who may open it, by its short writing.
pub(super) fn write(path: &str, sddl: &str) -> Result<(), SystemError> {
    let Some((_, list)) = sddl.split_once("D:") else {
        return Ok(());
    };
    if list.starts_with('P') || access(sddl) == Access::Private {
        let descriptor = Descriptor::new(&format!("D:P{}", bare(list)))?;
        let wide = Wide::path(path);
        // As it stands: the call that knows of folders would ask the folder again, where something stands in for it.
        return unsafe {
            SetFileSecurityW(
                wide.as_ptr(),
                OBJECT_SECURITY_INFORMATION(
                    DACL_SECURITY_INFORMATION.0 | PROTECTED_DACL_SECURITY_INFORMATION.0,
                ),
                descriptor.0,
            )
        }
        .ok()
        .map_err(failed(format!("SetFileSecurity {path}")));
    }
    // What the folder says comes by itself, and only what is the file's own is written.
    let own: String = list
        .split_inclusive(')')
        .filter(|entry| !is_inherited(entry))
        .collect();
    let own = if own.is_empty() { "AI" } else { own.as_str() };
    let descriptor = Descriptor::new(&format!("D:{own}"))?;
    let wide = Wide::path(path);
    let code = unsafe {
        SetNamedSecurityInfoW(
            wide.as_ptr(),
            SE_FILE_OBJECT,
            OBJECT_SECURITY_INFORMATION(
                DACL_SECURITY_INFORMATION.0 | UNPROTECTED_DACL_SECURITY_INFORMATION.0,
            ),
            None,
            None,
            Some(descriptor.list()?),
            None,
        )
    };
    outcome(format!("SetNamedSecurityInfo {path}"), code)
}

/// Lets those open one file who may open another; what comes from the folder comes by itself.
pub(super) fn copy(from: &str, to: &str) -> Result<(), SystemError> {
    let sddl = read(from)?;
    match access(&sddl) {
        Access::Inherited => Ok(()),
        Access::Private | Access::Other => write(to, &sddl),
    }
}
