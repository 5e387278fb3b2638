//! Who may open a file: modes as Windows has them.

use std::fs::OpenOptions;
use std::os::windows::fs::OpenOptionsExt as _;
use std::os::windows::io::AsRawHandle as _;

use windows::Win32::Foundation::{HANDLE, HLOCAL, LocalFree};
use windows::Win32::Security::Authorization::{
    ConvertSecurityDescriptorToStringSecurityDescriptorW,
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW, GetSecurityInfo,
    SDDL_REVISION_1, SE_FILE_OBJECT, SetNamedSecurityInfoW,
};
use windows::Win32::Security::{
    ACL, DACL_SECURITY_INFORMATION, GetSecurityDescriptorDacl, OBJECT_SECURITY_INFORMATION,
    OWNER_SECURITY_INFORMATION, PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR,
    SE_RESTORE_NAME, SE_TAKE_OWNERSHIP_NAME, SetFileSecurityW,
    UNPROTECTED_DACL_SECURITY_INFORMATION,
};
use windows::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, READ_CONTROL,
};
use windows::core::{BOOL, PWSTR};

use super::super::{Owner, SystemError};
use super::call::{Wide, failed, outcome, text};
use super::files::real;
use super::privileges;
use super::sddl::{
    Access, CLOSED_FOLDER, INHERITED, PRIVATE_FILE, PRIVATE_FOLDER, SHARED_FOLDER, access, bare,
    is_inherited, is_of_administrators, own_flags, owner,
};

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
fn is_private(mode: u32) -> bool {
    mode.trailing_zeros() >= 6
}

/// The short writing for a mode.
pub(super) fn sddl(mode: u32, is_folder: bool) -> &'static str {
    match (is_private(mode), is_folder) {
        (true, false) => PRIVATE_FILE,
        (true, true) => PRIVATE_FOLDER,
        (false, false) => INHERITED,
        (false, true) if mode & 0o002 == 0 => CLOSED_FOLDER,
        (false, true) => SHARED_FOLDER,
    }
}

/// The mode of something, and whose it is.
pub(super) fn seen(path: &str, is_folder: bool) -> Result<(u32, Owner), SystemError> {
    let found = read(path)?;
    let mode = match (access(&found), is_folder) {
        (Access::Private, false) => 0o600,
        (Access::Private, true) => 0o700,
        (Access::Closed, true) => 0o755,
        (Access::Shared, true) => 0o1777,
        // A file's list that says so was made up: see there.
        (Access::Inherited | Access::Closed | Access::Shared, false) => 0o644,
        // None of ours, so that it differs from all of them.
        (Access::Other, false) => 0o640,
        (Access::Inherited | Access::Other, true) => 0o750,
    };
    Ok((mode, whose(&found)))
}

fn whose(found: &str) -> Owner {
    if is_of_administrators(found) {
        Owner::Agent
    } else {
        Owner::Other
    }
}

/// Whose a link itself is, whoever has what it leads to.
pub(super) fn owner_of_link(path: &str) -> Result<Owner, SystemError> {
    let mut options = OpenOptions::new();
    options
        .access_mode(READ_CONTROL.0)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS.0 | FILE_FLAG_OPEN_REPARSE_POINT.0);
    let link = options.open(real(path)).map_err(SystemError::File)?;
    let asked = OWNER_SECURITY_INFORMATION;
    let mut descriptor = PSECURITY_DESCRIPTOR::default();
    let code = unsafe {
        GetSecurityInfo(
            HANDLE(link.as_raw_handle()),
            SE_FILE_OBJECT,
            asked,
            None,
            None,
            None,
            None,
            Some(&raw mut descriptor),
        )
    };
    outcome(format!("GetSecurityInfo {path}"), code)?;
    Ok(whose(&written(path, &Descriptor(descriptor), asked)?))
}

/// Gives something to administrators, and a mode.
pub(super) fn set_mode(path: &str, mode: u32, is_folder: bool) -> Result<(), SystemError> {
    if !is_of_administrators(&read(path)?) {
        give(path, "BA")?;
    }
    write(path, sddl(mode, is_folder), is_folder)
}

/// Gives a folder back who may open it and whose it was.
pub(super) fn put_back(path: &str, sddl: &str) -> Result<(), SystemError> {
    write(path, sddl, true)?;
    match owner(sddl) {
        Some(before) if owner(&read(path)?) != Some(before) => give(path, before),
        _ => Ok(()),
    }
}

/// Gives something to an owner, in Windows' short writing. First of all where that is to be done: an owner may change
/// who is let in, whoever that is now, and who is not let in may not.
fn give(path: &str, owner: &str) -> Result<(), SystemError> {
    let descriptor = Descriptor::new(&format!("O:{owner}"))?;
    let wide = Wide::path(path);
    privileges::with(&[SE_TAKE_OWNERSHIP_NAME, SE_RESTORE_NAME], || {
        unsafe { SetFileSecurityW(wide.as_ptr(), OWNER_SECURITY_INFORMATION, descriptor.0) }
            .ok()
            .map_err(failed(format!("SetFileSecurity {path}")))
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
    written(path, &Descriptor(descriptor), asked)
}

/// The short writing of so much of what was read of something.
fn written(
    path: &str,
    descriptor: &Descriptor,
    asked: OBJECT_SECURITY_INFORMATION,
) -> Result<String, SystemError> {
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

/// Gives something who may open it, by its short writing. What is in a folder and takes what the folder says gets it too.
fn write(path: &str, sddl: &str, is_folder: bool) -> Result<(), SystemError> {
    let Some((_, list)) = sddl.split_once("D:") else {
        return Ok(());
    };
    if !list.starts_with('P') && access(sddl) != Access::Private {
        // What the folder says comes by itself, and only what is the file's own is written.
        let own: String = list
            .split_inclusive(')')
            .filter(|entry| !is_inherited(entry))
            .collect();
        let own = if own.is_empty() { "AI" } else { own.as_str() };
        let descriptor = Descriptor::new(&format!("D:{own}"))?;
        return spread(path, &descriptor, UNPROTECTED_DACL_SECURITY_INFORMATION);
    }
    let descriptor = Descriptor::new(&format!("D:{}{}", own_flags(list), bare(list)))?;
    if is_folder {
        spread(path, &descriptor, PROTECTED_DACL_SECURITY_INFORMATION)?;
    }
    let wide = Wide::path(path);
    // As it stands: the call that knows of folders would ask the folder again, where something stands in for it.
    unsafe {
        SetFileSecurityW(
            wide.as_ptr(),
            OBJECT_SECURITY_INFORMATION(
                DACL_SECURITY_INFORMATION.0 | PROTECTED_DACL_SECURITY_INFORMATION.0,
            ),
            descriptor.0,
        )
    }
    .ok()
    .map_err(failed(format!("SetFileSecurity {path}")))
}

/// The call that knows of folders, and tells what is in them.
fn spread(
    path: &str,
    descriptor: &Descriptor,
    how: OBJECT_SECURITY_INFORMATION,
) -> Result<(), SystemError> {
    let wide = Wide::path(path);
    let code = unsafe {
        SetNamedSecurityInfoW(
            wide.as_ptr(),
            SE_FILE_OBJECT,
            OBJECT_SECURITY_INFORMATION(DACL_SECURITY_INFORMATION.0 | how.0),
            None,
            None,
            Some(descriptor.list()?),
            None,
        )
    };
    outcome(format!("SetNamedSecurityInfo {path}"), code)
}

/// Lets those open one file who may open another. What comes from the folder comes by itself: it need not be the same.
pub(super) fn copy(from: &str, to: &str) -> Result<(), SystemError> {
    write(to, &read(from)?, false)
}
