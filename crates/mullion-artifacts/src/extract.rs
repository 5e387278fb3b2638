//! Programs out of archives.

use std::io::{self, Read as _};
use std::path::Path;

use flate2::read::GzDecoder;
use fs_err as fs;
use mullion_tar::TarReader;

use crate::digest::Asking;

/// Writes the file of that name, wherever it lies in an archive, to a path; `false` where there is none.
pub(crate) fn member(
    archive: &Path,
    name: &str,
    to: &Path,
    go_on: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let file = fs::File::open(archive)?;
    let is_zip = archive
        .extension()
        .is_some_and(|word| word.eq_ignore_ascii_case("zip"));
    let mut ask = |_| go_on();
    if is_zip {
        return of_zip(file, name, to, &mut ask);
    }
    let reader = Asking {
        inner: file,
        go_on: &mut ask,
        done: 0,
        next: 0,
    };
    of_tar(GzDecoder::new(io::BufReader::new(reader)), name, to)
}

fn of_tar(reader: impl io::Read, name: &str, to: &Path) -> io::Result<bool> {
    let mut archive = TarReader::new(reader);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let is_it = entry.header().entry_type().is_file()
            && entry.path()?.file_name().is_some_and(|found| found == name);
        if is_it {
            copy(&mut entry, to)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// More than any program has. An archive may claim sizes that no disk has.
const LIMIT: u64 = 4 << 30;

fn copy(from: &mut impl io::Read, to: &Path) -> io::Result<()> {
    let mut from = io::Read::by_ref(from).take(LIMIT + 1);
    let copied = io::copy(&mut from, &mut fs::File::create_new(to)?)?;
    if copied > LIMIT {
        return Err(io::Error::other("a program that is larger than any"));
    }
    Ok(())
}

fn of_zip(
    file: fs::File,
    name: &str,
    to: &Path,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> io::Result<bool> {
    let mut archive = zip::ZipArchive::new(file).map_err(io::Error::other)?;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(io::Error::other)?;
        let is_it = entry.is_file()
            && entry.name().map_err(io::Error::other)?.rsplit('/').next() == Some(name);
        if is_it {
            let mut reader = Asking {
                inner: entry,
                go_on,
                done: 0,
                next: 0,
            };
            copy(&mut reader, to)?;
            return Ok(true);
        }
    }
    Ok(false)
}
