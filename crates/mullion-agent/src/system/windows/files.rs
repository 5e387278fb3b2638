//! Files and folders.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::windows::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, symlink_dir, symlink_file,
};
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _};
use std::path::PathBuf;

use mullion_wire::Sha256Digest;
use windows::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_ALREADY_EXISTS, ERROR_SHARING_VIOLATION, ERROR_USER_MAPPED_FILE,
    GENERIC_ACCESS_RIGHTS, GENERIC_WRITE, HANDLE,
};
use windows::Win32::Security::SECURITY_ATTRIBUTES;
use windows::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_ATTRIBUTE_NORMAL,
    FILE_CREATION_DISPOSITION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_READ_ATTRIBUTES, FILE_SHARE_MODE, FILE_SHARE_READ, GetFileInformationByHandle,
    MOVEFILE_DELAY_UNTIL_REBOOT, MoveFileExW,
};
use windows::core::PCWSTR;

use super::super::pour::pour;
use super::super::{Files, Kind, Look, Owner, Removed, SystemError, aside};
use super::call::{Wide, failed, is};
use super::own::Windows;
use super::permissions::{self, Descriptor};
use super::sddl::INHERITED;

/// Between 1601, from where Windows counts, and 1970, in hundreds of nanoseconds.
const TO_1970: i64 = 116_444_736_000_000_000;

/// A path as Windows writes it.
pub(super) fn real(path: &str) -> PathBuf {
    PathBuf::from(path.replace('/', "\\"))
}

fn if_there<T>(result: io::Result<T>) -> Result<Option<T>, SystemError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(SystemError::File(error)),
    }
}

/// The file's own number; 0 where it cannot be told.
fn number(path: &str) -> u64 {
    let mut options = OpenOptions::new();
    options
        .access_mode(FILE_READ_ATTRIBUTES.0)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS.0 | FILE_FLAG_OPEN_REPARSE_POINT.0);
    let Ok(file) = options.open(real(path)) else {
        return 0;
    };
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    let handle = HANDLE(file.as_raw_handle());
    match unsafe { GetFileInformationByHandle(handle, &raw mut found) } {
        Ok(()) => u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow),
        Err(_) => 0,
    }
}

/// What something that is made lets in from its first moment on.
fn attributes(descriptor: &Descriptor) -> SECURITY_ATTRIBUTES {
    SECURITY_ATTRIBUTES {
        nLength: u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or_default(),
        lpSecurityDescriptor: descriptor.as_ptr().0,
        bInheritHandle: false.into(),
    }
}

/// A new file that nobody else can have prepared, with its permissions from the first moment on.
fn create(path: &str, mode: u32) -> Result<File, SystemError> {
    match fs_err::remove_file(real(path)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(SystemError::File(error)),
        _ => {}
    }
    let sddl = match permissions::sddl(mode, false) {
        // Without an own list a file takes what its folder says.
        INHERITED => "O:BA",
        own => own,
    };
    let descriptor = Descriptor::new(sddl)?;
    open(
        path,
        &descriptor,
        GENERIC_WRITE,
        FILE_SHARE_READ,
        CREATE_NEW,
    )
    .map_err(failed(format!("CreateFile {path}")))
}

/// Opens a file, or makes one that lets those in whom the descriptor names.
pub(super) fn open(
    path: &str,
    descriptor: &Descriptor,
    access: GENERIC_ACCESS_RIGHTS,
    shared: FILE_SHARE_MODE,
    how: FILE_CREATION_DISPOSITION,
) -> windows::core::Result<File> {
    let attributes = attributes(descriptor);
    let wide = Wide::path(path);
    let handle = unsafe {
        CreateFileW(
            wide.as_ptr(),
            access.0,
            shared,
            Some(&raw const attributes),
            how,
            FILE_ATTRIBUTE_NORMAL,
            None,
        )
    }?;
    Ok(unsafe { File::from_raw_handle(handle.0) })
}

/// Whether somebody runs or holds what is at a path.
fn is_in_use(error: &io::Error) -> bool {
    let reasons = [
        ERROR_ACCESS_DENIED,
        ERROR_SHARING_VIOLATION,
        ERROR_USER_MAPPED_FILE,
    ];
    // `fs_err` keeps the cause inside.
    let code = error.raw_os_error().or_else(|| {
        let inner = error.get_ref()?.source()?;
        inner.downcast_ref::<io::Error>()?.raw_os_error()
    });
    code.is_some_and(|code| reasons.iter().any(|reason| reason.0.cast_signed() == code))
}

/// Lets a file be written, or no longer. It is an attribute, and says nothing of who may.
fn set_read_only(path: &str, is_so: bool) -> io::Result<()> {
    let mut permissions = fs_err::symlink_metadata(real(path))?.permissions();
    #[allow(clippy::permissions_set_readonly_false, reason = "it is no mode here")]
    permissions.set_readonly(is_so);
    fs_err::set_permissions(real(path), permissions)
}

/// Removes what was found at a path. Of a link to a folder, a junction included, what it leads to stays.
fn take_away(path: &str, found: &Metadata) -> io::Result<()> {
    let at = real(path);
    if found.file_type().is_symlink_dir() {
        return fs_err::remove_dir(at);
    }
    if found.is_dir() {
        return fs_err::remove_dir_all(at);
    }
    match fs_err::remove_file(&at) {
        Err(_) if found.permissions().readonly() => {
            set_read_only(path, false)?;
            fs_err::remove_file(at)
        }
        removed => removed,
    }
}

/// Removes a program that made room, where nobody runs it any more.
fn remove_aside(path: &str) {
    let aside = aside(path);
    if let Ok(found) = fs_err::symlink_metadata(real(&aside))
        && !found.is_dir()
    {
        // It stays while it runs; the next change of the path tries again.
        let _ = take_away(&aside, &found);
    }
}

/// Puts a program aside that runs, and lets Windows remove it at its next start. Where nothing can be done about it,
/// the failure of its removal is told.
fn remove_later(path: &str, error: io::Error) -> Result<(), SystemError> {
    let aside = aside(path);
    if fs_err::rename(real(path), real(&aside)).is_err() {
        return Err(SystemError::File(error));
    }
    let wide = Wide::path(&aside);
    unsafe { MoveFileExW(wide.as_ptr(), PCWSTR::null(), MOVEFILE_DELAY_UNTIL_REBOOT) }
        .map_err(failed(format!("MoveFileEx {aside}")))
}

impl Files for Windows {
    fn look(&self, path: &str) -> Result<Option<Look>, SystemError> {
        let Some(found) = if_there(fs_err::symlink_metadata(real(path)))? else {
            return Ok(None);
        };
        let kind = if found.is_symlink() {
            Kind::Link
        } else if found.is_dir() {
            Kind::Folder
        } else if found.is_file() {
            Kind::File
        } else {
            Kind::Other
        };
        let time = i64::try_from(found.last_write_time()).unwrap_or(i64::MAX);
        let (mode, owner) = match kind {
            // What it leads to has one, if it is there at all.
            Kind::Link => (0o777, permissions::owner_of_link(path)?),
            kind => permissions::seen(path, kind == Kind::Folder)?,
        };
        Ok(Some(Look {
            kind,
            size: found.len(),
            mode,
            modified: time.saturating_sub(TO_1970).saturating_mul(100),
            number: number(path),
            owner,
        }))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SystemError> {
        if_there(fs_err::read(real(path)))
    }

    fn digest(&self, path: &str) -> Result<Sha256Digest, SystemError> {
        let file = fs_err::File::open(real(path)).map_err(SystemError::File)?;
        let (digest, _) = Sha256Digest::of_reader(file).map_err(SystemError::File)?;
        Ok(digest)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, SystemError> {
        let Some(entries) = if_there(fs_err::read_dir(real(folder)))? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(SystemError::File)?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn make_folder(&self, path: &str, mode: u32) -> Result<(), SystemError> {
        let descriptor = Descriptor::new(permissions::sddl(mode, true))?;
        let attributes = attributes(&descriptor);
        let wide = Wide::path(path);
        match unsafe { CreateDirectoryW(wide.as_ptr(), Some(&raw const attributes)) } {
            Err(error) if !is(&error, ERROR_ALREADY_EXISTS) => {
                return Err(failed(format!("CreateDirectory {path}"))(error));
            }
            _ => {}
        }
        if permissions::seen(path, true)? == (mode, Owner::Agent) {
            return Ok(());
        }
        permissions::set_mode(path, mode, true)
    }

    fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), SystemError> {
        let mut file = create(path, mode)?;
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(SystemError::File)
    }

    fn copy(&self, from: &str, to: &str, mode: u32) -> Result<(), SystemError> {
        let mut source = fs_err::File::open(real(from)).map_err(SystemError::File)?;
        let mut file = create(to, mode)?;
        io::copy(&mut source, &mut file)
            .and_then(|_| file.sync_all())
            .map_err(SystemError::File)
    }

    fn pour(&self, from: &str, to: &str) -> Result<(), SystemError> {
        // Who holds it need not share its removal, and so it cannot be renamed.
        let source = OpenOptions::new().read(true).write(true).open(real(from));
        let mut source = source.map_err(SystemError::File)?;
        let mut file = create(to, 0o600)?;
        let poured = permissions::copy(from, to)
            .and_then(|()| pour(&mut source, &mut file).map_err(SystemError::File));
        drop(file);
        if poured.is_err() {
            // What is the matter is told; half of a file says less.
            let _ = fs_err::remove_file(real(to));
        }
        poured
    }

    fn twin(&self, from: &str, to: &str) -> Result<(), SystemError> {
        let found = fs_err::symlink_metadata(real(from)).map_err(SystemError::File)?;
        self.remove(to)?;
        if found.is_symlink() {
            let target = fs_err::read_link(real(from)).map_err(SystemError::File)?;
            let made = if found.file_type().is_symlink_dir() {
                symlink_dir(target, real(to))
            } else {
                symlink_file(target, real(to))
            };
            return made.map_err(SystemError::File);
        }
        // Bytes, attributes and time; who may open it is written after it.
        fs_err::copy(real(from), real(to)).map_err(SystemError::File)?;
        let is_read_only = found.permissions().readonly();
        if is_read_only {
            set_read_only(to, false).map_err(SystemError::File)?;
        }
        permissions::copy(from, to)?;
        let file = OpenOptions::new().write(true).open(real(to));
        let file = file.map_err(SystemError::File)?;
        let time = found.modified().map_err(SystemError::File)?;
        file.set_modified(time).map_err(SystemError::File)?;
        file.sync_all().map_err(SystemError::File)?;
        if is_read_only {
            set_read_only(to, true).map_err(SystemError::File)?;
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), SystemError> {
        remove_aside(to);
        // What may not be written may not be replaced either.
        let there = fs_err::symlink_metadata(real(to));
        if there.is_ok_and(|there| there.is_file() && there.permissions().readonly()) {
            set_read_only(to, false).map_err(SystemError::File)?;
        }
        let error = match fs_err::rename(real(from), real(to)) {
            Ok(()) => return Ok(()),
            Err(error) if is_in_use(&error) => error,
            Err(error) => return Err(SystemError::File(error)),
        };
        // A program that runs may be renamed and not replaced. Killed in between, the same request finds the file
        // absent and puts it there.
        let (to, aside) = (real(to), real(&aside(to)));
        if fs_err::rename(&to, &aside).is_err() {
            return Err(SystemError::File(error));
        }
        fs_err::rename(real(from), &to).map_err(|error| {
            // What was there is better than nothing.
            let _ = fs_err::rename(&aside, &to);
            SystemError::File(error)
        })
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<(), SystemError> {
        let found = fs_err::symlink_metadata(real(path)).map_err(SystemError::File)?;
        permissions::set_mode(path, mode, found.is_dir())
    }

    fn remove(&self, path: &str) -> Result<Removed, SystemError> {
        let is_aside = path.ends_with(&aside(""));
        if !is_aside {
            remove_aside(path);
        }
        let Some(found) = if_there(fs_err::symlink_metadata(real(path)))? else {
            return Ok(Removed::Nothing);
        };
        match take_away(path, &found) {
            Err(error) if is_in_use(&error) && found.is_file() && !is_aside => {
                remove_later(path, error)?;
                Ok(Removed::Gone)
            }
            removed => Ok(if_there(removed)?.map_or(Removed::Nothing, |()| Removed::Gone)),
        }
    }

    fn remove_empty(&self, folder: &str) -> Result<Removed, SystemError> {
        match fs_err::remove_dir(real(folder)) {
            Ok(()) => Ok(Removed::Gone),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DirectoryNotEmpty | ErrorKind::NotFound | ErrorKind::NotADirectory
                ) =>
            {
                Ok(Removed::Nothing)
            }
            Err(error) => Err(SystemError::File(error)),
        }
    }
}
