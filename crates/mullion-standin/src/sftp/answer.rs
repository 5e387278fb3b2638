//! Answers: what the system said, in SFTP's words.

use std::io;

use russh_sftp::protocol::{File, FileAttributes, Name, Status, StatusCode};
use russh_sftp::server::StatusReply;

use crate::path::PathError;

/// It was done.
pub(super) fn done(id: u32) -> Status {
    Status {
        id,
        status_code: StatusCode::Ok,
        error_message: "Ok".into(),
        language_tag: "en-US".into(),
    }
}

/// One name, as `realpath` gives it.
pub(super) fn named(id: u32, name: String) -> Name {
    let attrs = FileAttributes::empty();
    let file = File {
        longname: name.clone(),
        filename: name,
        attrs,
    };
    Name {
        id,
        files: vec![file],
    }
}

/// What the system gave, or its refusal.
pub(super) fn sent<T>(result: io::Result<T>) -> Result<T, StatusReply> {
    result.map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StatusCode::NoSuchFile,
            io::ErrorKind::PermissionDenied => StatusCode::PermissionDenied,
            _ => StatusCode::Failure,
        };
        // Without the path: it would be the machine's.
        let what = match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number).to_string(),
            None => error.kind().to_string(),
        };
        code.with_message(what)
    })
}

/// Why a path is not taken.
pub(super) fn refused(error: &PathError) -> StatusReply {
    let code = match error {
        PathError::LinkOut(_) => StatusCode::PermissionDenied,
        _ => StatusCode::NoSuchFile,
    };
    code.with_message(error.to_string())
}

/// The texts that an extension's data is made of, each behind its length.
pub(super) fn texts(mut data: &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    while !data.is_empty() {
        let (length, rest) = data.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (text, rest) = rest.split_at_checked(length)?;
        texts.push(String::from_utf8(text.to_vec()).ok()?);
        data = rest;
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_data_is_no_text() {
        assert_eq!(
            texts(b"\0\0\0\x01a\0\0\0\0"),
            Some(vec!["a".into(), String::new()])
        );
        for broken in [
            &b"\0\0"[..],
            b"\0\0\0\x02a",
            b"\xff\xff\xff\xffa",
            b"\0\0\0\x01\xff",
        ] {
            assert_eq!(texts(broken), None, "{broken:?}");
        }
    }
}
