//! The `h1:` sum of a module's zip, as go.sum holds it.

use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use mullion_wire::Sha256Digest;
use zip::ZipArchive;

/// The sum without its `h1:`; `None` where `go_on` said to stop.
///
/// It is the SHA-256 over one line for each file, sorted by name: the file's own SHA-256, two blanks, its name.
pub(crate) fn of_zip<R: Read + Seek>(
    zip: &mut ZipArchive<R>,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> io::Result<Option<String>> {
    let mut lines = Vec::with_capacity(zip.len());
    let mut done = 0;
    for index in 0..zip.len() {
        let file = zip.by_index(index).map_err(io::Error::other)?;
        let name = file.name().map_err(io::Error::other)?.into_owned();
        if name.contains('\n') {
            return Err(io::Error::other("a file name with a line break"));
        }
        let (digest, length) = Sha256Digest::of_reader(file)?;
        lines.push((name, digest));
        done += length;
        if index % 64 == 0 && !go_on(done) {
            return Ok(None);
        }
    }
    lines.sort();
    Ok(Some(of_lines(&lines)))
}

/// The same of a folder in which a module's files are, each under the name that it has in the zip.
pub(crate) fn of_folder(
    folder: &Path,
    prefix: &str,
    name: &dyn Fn(&Path) -> PathBuf,
) -> io::Result<String> {
    let mut lines = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(at) = folders.pop() {
        for entry in fs_err::read_dir(folder.join(&at))? {
            let entry = entry?;
            let inner = at.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(inner);
            } else if kind.is_file() {
                let file = fs_err::File::open(entry.path())?;
                let (digest, _) = Sha256Digest::of_reader(io::BufReader::new(file))?;
                lines.push((format!("{prefix}{}", name(&inner).display()), digest));
            } else {
                return Err(io::Error::other("a link in a module's folder"));
            }
        }
    }
    lines.sort();
    Ok(of_lines(&lines))
}

fn of_lines(lines: &[(String, Sha256Digest)]) -> String {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    for (name, digest) in lines {
        hash.update(format!("{digest}  {name}\n"));
    }
    BASE64_STANDARD.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use super::*;

    #[test]
    fn the_sum_is_the_one_that_the_go_tool_computes() {
        // The example of golang.org/x/mod/sumdb/dirhash: files `xyz` and `abc`, hash of
        // "<sha256 of "data for abc">  abc\n<sha256 of "data for xyz">  xyz\n".
        let mut bytes = Cursor::new(Vec::new());
        let mut zip = zip::ZipWriter::new(&mut bytes);
        for name in ["xyz", "abc"] {
            zip.start_file(name, zip::write::SimpleFileOptions::default())
                .unwrap();
            write!(zip, "data for {name}").unwrap();
        }
        zip.finish().unwrap();
        let mut zip = ZipArchive::new(bytes).unwrap();
        let abc = Sha256Digest::of(b"data for abc");
        let xyz = Sha256Digest::of(b"data for xyz");
        let expected = of_lines(&[("abc".into(), abc), ("xyz".into(), xyz)]);
        assert_eq!(of_zip(&mut zip, &mut |_| true).unwrap().unwrap(), expected);
        assert_eq!(expected.len(), 44);
    }
}
