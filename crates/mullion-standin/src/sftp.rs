//! SFTP as Windows' OpenSSH speaks it: Windows paths, names without regard to case, nothing but the drive.
//!
//! The server is `russh-sftp`'s; here is what it answers. A path is read by [`crate::path`] and looked up by
//! [`crate::drive`], so no request leaves the drive. Modes are accepted and kept: the file system below has them. A
//! rename does not replace; `posix-rename@openssh.com` does, in one move.

mod answer;
mod opened;

use std::collections::BTreeMap;
use std::fs::{Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use russh_sftp::protocol::{
    Attrs, Data, FileAttributes, Handle, Name, OpenFlags, Packet, Status, StatusCode, Version,
};
use russh_sftp::server::{Config, Handler, StatusReply, run_with_config};
use rustix::fs::OFlags;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::drive::Drive;
use crate::path::DrivePath;
use answer::{done, named, refused, sent};
use opened::Opened;

/// The largest packet that is taken: OpenSSH's own limit, and room for what stands around the data.
const PACKET: u32 = 256 * 1024 + 1024;

/// The extensions that are understood, each with its version.
const EXTENSIONS: [(&str, &str); 2] = [(POSIX_RENAME, "1"), (FSYNC, "1")];
const POSIX_RENAME: &str = "posix-rename@openssh.com";
const FSYNC: &str = "fsync@openssh.com";

/// Nothing is waited for when it is opened: a pipe of Linux' own would keep the client for ever. Files do not care.
const AT_ONCE: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// How many files and folders one client may have open.
const OPEN_AT_ONCE: usize = 1024;

/// Serves one client until it goes.
pub async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    drive: Drive,
    home: DrivePath,
) {
    let (alive, gone) = oneshot::channel();
    let session = Session {
        drive,
        home,
        opened: BTreeMap::new(),
        next: 0,
        _alive: alive,
    };
    let config = Config {
        max_client_packet_len: PACKET,
    };
    run_with_config(stream, session, config).await;
    // The server works in a task of its own, and drops the session at its end.
    let _ = gone.await;
}

/// One client's session.
struct Session {
    drive: Drive,
    home: DrivePath,
    opened: BTreeMap<String, Opened>,
    next: u64,
    _alive: oneshot::Sender<()>,
}

impl Session {
    fn path(&self, text: &str) -> Result<DrivePath, StatusReply> {
        DrivePath::parse_sftp(text, &self.home).map_err(|error| refused(&error))
    }

    /// Where a path is, its links followed.
    fn place(&self, text: &str) -> Result<PathBuf, StatusReply> {
        let path = self.path(text)?;
        self.drive.locate(&path).map_err(|error| refused(&error))
    }

    /// Where a path is, a link at its end being what is meant.
    fn entry(&self, text: &str) -> Result<PathBuf, StatusReply> {
        let path = self.path(text)?;
        if path.parts().is_empty() {
            return Err(StatusCode::PermissionDenied.with_message("this is the drive itself"));
        }
        self.drive
            .locate_entry(&path)
            .map_err(|error| refused(&error))
    }

    fn keep(&mut self, id: u32, opened: Opened) -> Result<Handle, StatusReply> {
        if self.opened.len() >= OPEN_AT_ONCE {
            return Err(StatusCode::Failure.with_message("too many files are open"));
        }
        let handle = self.next.to_string();
        self.next += 1;
        self.opened.insert(handle.clone(), opened);
        Ok(Handle { id, handle })
    }

    fn opened(&mut self, handle: &str) -> Result<&mut Opened, StatusReply> {
        self.opened
            .get_mut(handle)
            .ok_or_else(|| StatusCode::Failure.with_message("no such handle"))
    }

    fn rename_to(&self, from: &str, to: &str, replace: bool) -> Result<(), StatusReply> {
        let (from, to) = (self.entry(from)?, self.entry(to)?);
        let is_other = || {
            let same = |path: &PathBuf| path.symlink_metadata().ok().map(|found| number(&found));
            same(&from) != same(&to)
        };
        if !replace && to.symlink_metadata().is_ok() && is_other() {
            return Err(StatusCode::Failure.with_message("the new name exists"));
        }
        sent(fs_err::rename(from, to))
    }
}

/// What tells a file from every other.
fn number(found: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (found.dev(), found.ino())
}

/// Opens a file as SFTP's flags say.
fn options(flags: OpenFlags, mode: Option<u32>) -> OpenOptions {
    let mut options = OpenOptions::new();
    let has = |flag| flags.contains(flag);
    options
        .read(has(OpenFlags::READ))
        .write(has(OpenFlags::WRITE) && !has(OpenFlags::APPEND))
        .append(has(OpenFlags::APPEND))
        .truncate(has(OpenFlags::TRUNCATE) && !has(OpenFlags::APPEND))
        .create(has(OpenFlags::CREATE))
        .create_new(has(OpenFlags::CREATE | OpenFlags::EXCLUDE))
        .mode(mode.unwrap_or(0o644) & 0o777)
        .custom_flags(AT_ONCE);
    options
}

/// Sets what a client asks for: size, mode and times. Owners are Windows' own matter, and are left.
fn set(file: &fs_err::File, attributes: &FileAttributes) -> io::Result<()> {
    if let Some(size) = attributes.size {
        file.set_len(size)?;
    }
    if let Some(mode) = attributes.permissions {
        file.set_permissions(Permissions::from_mode(mode & 0o777))?;
    }
    if let (Some(accessed), Some(modified)) = (attributes.atime, attributes.mtime) {
        let at =
            |seconds: u32| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.into());
        let times = std::fs::FileTimes::new()
            .set_accessed(at(accessed))
            .set_modified(at(modified));
        file.file().set_times(times)?;
    }
    Ok(())
}

impl Handler for Session {
    type Error = StatusReply;

    fn unimplemented(&self) -> StatusReply {
        StatusCode::OpUnsupported.into()
    }

    #[allow(
        clippy::disallowed_types,
        reason = "the type is the trait's; nothing here depends on its order"
    )]
    async fn init(
        &mut self,
        _: u32,
        _: std::collections::HashMap<String, String>,
    ) -> Result<Version, StatusReply> {
        let mut version = Version::new();
        let known = EXTENSIONS.map(|(name, number)| (name.to_owned(), number.to_owned()));
        version.extensions.extend(known);
        Ok(version)
    }

    async fn open(
        &mut self,
        id: u32,
        filename: String,
        flags: OpenFlags,
        attributes: FileAttributes,
    ) -> Result<Handle, StatusReply> {
        let place = self.place(&filename)?;
        if place.is_dir() {
            return Err(StatusCode::Failure.with_message("it is a folder"));
        }
        let was_there = place.exists();
        let opened = options(flags, attributes.permissions).open(&place);
        let file = fs_err::File::from_parts(sent(opened)?, place);
        if let (Some(mode), false) = (attributes.permissions, was_there) {
            // Whatever the mask of this process is.
            sent(file.set_permissions(Permissions::from_mode(mode & 0o777)))?;
        }
        let appends = flags.contains(OpenFlags::APPEND);
        self.keep(id, Opened::File { file, appends })
    }

    async fn close(&mut self, id: u32, handle: String) -> Result<Status, StatusReply> {
        match self.opened.remove(&handle) {
            Some(_) => Ok(done(id)),
            None => Err(StatusCode::Failure.with_message("no such handle")),
        }
    }

    async fn read(
        &mut self,
        id: u32,
        handle: String,
        offset: u64,
        len: u32,
    ) -> Result<Data, StatusReply> {
        // A packet has to hold it.
        let data = self
            .opened(&handle)?
            .read(offset, len.min(PACKET - 1024) as usize)?;
        Ok(Data { id, data })
    }

    async fn write(
        &mut self,
        id: u32,
        handle: String,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<Status, StatusReply> {
        self.opened(&handle)?.write(offset, &data)?;
        Ok(done(id))
    }

    async fn lstat(&mut self, id: u32, path: String) -> Result<Attrs, StatusReply> {
        let path = self.path(&path)?;
        let place = self.drive.locate_entry(&path);
        let place = place.map_err(|error| refused(&error))?;
        let attrs = FileAttributes::from(&sent(fs_err::symlink_metadata(place))?);
        Ok(Attrs { id, attrs })
    }

    async fn stat(&mut self, id: u32, path: String) -> Result<Attrs, StatusReply> {
        let found = sent(fs_err::metadata(self.place(&path)?))?;
        let attrs = FileAttributes::from(&found);
        Ok(Attrs { id, attrs })
    }

    async fn fstat(&mut self, id: u32, handle: String) -> Result<Attrs, StatusReply> {
        let attrs = FileAttributes::from(&self.opened(&handle)?.metadata()?);
        Ok(Attrs { id, attrs })
    }

    async fn setstat(
        &mut self,
        id: u32,
        path: String,
        attributes: FileAttributes,
    ) -> Result<Status, StatusReply> {
        let place = self.place(&path)?;
        let needs_writing = attributes.size.is_some();
        let opened = OpenOptions::new()
            .read(true)
            .write(needs_writing)
            .custom_flags(AT_ONCE)
            .open(&place);
        let file = fs_err::File::from_parts(sent(opened)?, place);
        sent(set(&file, &attributes))?;
        Ok(done(id))
    }

    async fn fsetstat(
        &mut self,
        id: u32,
        handle: String,
        attributes: FileAttributes,
    ) -> Result<Status, StatusReply> {
        sent(set(self.opened(&handle)?.file()?, &attributes))?;
        Ok(done(id))
    }

    async fn opendir(&mut self, id: u32, path: String) -> Result<Handle, StatusReply> {
        let folder = Opened::folder(&self.place(&path)?)?;
        self.keep(id, folder)
    }

    async fn readdir(&mut self, id: u32, handle: String) -> Result<Name, StatusReply> {
        let files = self.opened(&handle)?.next_entries()?;
        Ok(Name { id, files })
    }

    async fn remove(&mut self, id: u32, filename: String) -> Result<Status, StatusReply> {
        sent(fs_err::remove_file(self.entry(&filename)?))?;
        Ok(done(id))
    }

    async fn mkdir(
        &mut self,
        id: u32,
        path: String,
        attributes: FileAttributes,
    ) -> Result<Status, StatusReply> {
        let place = self.entry(&path)?;
        sent(fs_err::create_dir(&place))?;
        if let Some(mode) = attributes.permissions {
            let mode = Permissions::from_mode(mode & 0o777);
            sent(fs_err::set_permissions(place, mode))?;
        }
        Ok(done(id))
    }

    async fn rmdir(&mut self, id: u32, path: String) -> Result<Status, StatusReply> {
        sent(fs_err::remove_dir(self.entry(&path)?))?;
        Ok(done(id))
    }

    async fn realpath(&mut self, id: u32, path: String) -> Result<Name, StatusReply> {
        Ok(named(id, self.path(&path)?.sftp()))
    }

    async fn rename(
        &mut self,
        id: u32,
        oldpath: String,
        newpath: String,
    ) -> Result<Status, StatusReply> {
        self.rename_to(&oldpath, &newpath, false)?;
        Ok(done(id))
    }

    async fn extended(
        &mut self,
        id: u32,
        request: String,
        data: Vec<u8>,
    ) -> Result<Packet, StatusReply> {
        let texts = answer::texts(&data);
        match (request.as_str(), texts.as_deref()) {
            (POSIX_RENAME, Some([from, to])) => self.rename_to(from, to, true)?,
            (FSYNC, Some([handle])) => sent(self.opened(handle)?.file()?.sync_all())?,
            (POSIX_RENAME | FSYNC, _) => return Err(StatusCode::BadMessage.into()),
            _ => return Err(self.unimplemented()),
        }
        Ok(Packet::Status(done(id)))
    }
}

#[cfg(test)]
mod tests;
