//! What a client has open: a file, or a folder that is being listed.

use std::fs::Metadata;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use russh_sftp::protocol::{File, FileAttributes, StatusCode};
use russh_sftp::server::StatusReply;

use super::answer::sent;

/// How many names one answer holds.
const NAMES: usize = 100;

/// A file or a folder.
pub(super) enum Opened {
    /// A file.
    File {
        /// The file.
        file: fs_err::File,
        /// Whether writes go to its end, wherever they are meant for.
        appends: bool,
    },
    /// What is still to be listed of a folder, last name first.
    Folder(Vec<File>),
}

impl Opened {
    /// A folder, with everything in it.
    pub(super) fn folder(place: &Path) -> Result<Self, StatusReply> {
        let mut files = Vec::new();
        for entry in sent(fs_err::read_dir(place))? {
            let entry = sent(entry)?;
            // A name that is no text cannot be Windows'.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // What a link leads to, where it leads somewhere; and what goes meanwhile is gone.
            let found = fs_err::metadata(entry.path()).or_else(|_| entry.metadata());
            if let Ok(found) = found {
                files.push(File::new(name, FileAttributes::from(&found)));
            }
        }
        files.sort_by(|one, other| other.filename.cmp(&one.filename));
        Ok(Self::Folder(files))
    }

    /// The next names of a folder, or its end.
    pub(super) fn next_entries(&mut self) -> Result<Vec<File>, StatusReply> {
        let Self::Folder(files) = self else {
            return Err(StatusCode::Failure.with_message("it is a file"));
        };
        if files.is_empty() {
            return Err(StatusCode::Eof.into());
        }
        let rest = files.len().saturating_sub(NAMES);
        let mut next = files.split_off(rest);
        next.reverse();
        Ok(next)
    }

    pub(super) fn file(&self) -> Result<&fs_err::File, StatusReply> {
        match self {
            Self::File { file, .. } => Ok(file),
            Self::Folder(_) => Err(StatusCode::Failure.with_message("it is a folder")),
        }
    }

    pub(super) fn metadata(&self) -> Result<Metadata, StatusReply> {
        sent(self.file()?.metadata())
    }

    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StatusReply> {
        let file = self.file()?.file();
        let mut data = vec![0; length];
        let mut read = 0;
        while read < length {
            match sent(file.read_at(&mut data[read..], offset.saturating_add(read as u64)))? {
                0 => break,
                more => read += more,
            }
        }
        if read == 0 && length > 0 {
            return Err(StatusCode::Eof.into());
        }
        data.truncate(read);
        Ok(data)
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), StatusReply> {
        match self {
            Self::File {
                file,
                appends: true,
            } => sent(file.write_all(data)),
            _ => sent(self.file()?.file().write_all_at(data, offset)),
        }
    }
}
