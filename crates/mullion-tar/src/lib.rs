//! Reads tar archives that others wrote, with a limit on what describes an entry.
//!
//! A long name, a link target or a pax header is an entry of its own before the entry that it describes. It may have any
//! size, and the `tar` crate reads it into memory. [`TarReader`] reads at most [`MOST`] bytes between the data of one
//! entry and the data of the next.
//!
//! # Current limitations
//!
//! A sparse file with a pax header is refused: its length in the archive cannot be known here. The data of an entry has no
//! limit: the caller sets one.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

use tar::{Archive, Entries, Entry};

/// The most that may describe one entry, in bytes. Linux' own limits for a path and its attributes are far below.
pub const MOST: u64 = 1 << 20;

/// The length of a block: a header has one, and data fills whole ones.
const BLOCK: u64 = 512;

/// A tar archive that someone else wrote.
pub struct TarReader<R: Read> {
    archive: Archive<Limited<R>>,
    bounds: Rc<Bounds>,
}

/// An entry of such an archive.
pub type TarEntry<'a, R> = Entry<'a, Limited<R>>;

/// The entries of such an archive, in its order.
pub struct TarEntries<'a, R: Read> {
    entries: Entries<'a, Limited<R>>,
    bounds: Rc<Bounds>,
    /// Where the data of the last entry ends.
    data_end: u64,
}

/// A reader that refuses to read beyond a position.
pub struct Limited<R> {
    inner: R,
    bounds: Rc<Bounds>,
}

/// Where a [`Limited`] is, and where it has to stop.
struct Bounds {
    position: Cell<u64>,
    end: Cell<u64>,
}

impl<R: Read> TarReader<R> {
    /// The archive that a reader gives from where it is.
    pub fn new(inner: R) -> Self {
        let bounds = Rc::new(Bounds {
            position: Cell::new(0),
            end: Cell::new(u64::MAX),
        });
        let limited = Limited {
            inner,
            bounds: Rc::clone(&bounds),
        };
        Self {
            archive: Archive::new(limited),
            bounds,
        }
    }

    /// The entries, by reading everything.
    pub fn entries(&mut self) -> io::Result<TarEntries<'_, R>> {
        let entries = self.archive.entries()?;
        Ok(TarEntries {
            entries,
            bounds: Rc::clone(&self.bounds),
            data_end: 0,
        })
    }

    /// The entries, by seeking over data that the caller does not read.
    pub fn entries_with_seek(&mut self) -> io::Result<TarEntries<'_, R>>
    where
        R: Seek,
    {
        let entries = self.archive.entries_with_seek()?;
        Ok(TarEntries {
            entries,
            bounds: Rc::clone(&self.bounds),
            data_end: 0,
        })
    }

    /// The reader that it reads from.
    pub fn into_inner(self) -> R {
        self.archive.into_inner().inner
    }
}

impl<'a, R: Read> Iterator for TarEntries<'a, R> {
    type Item = io::Result<TarEntry<'a, R>>;

    fn next(&mut self) -> Option<Self::Item> {
        let bounds = &self.bounds;
        bounds.end.set(self.data_end.saturating_add(MOST));
        let found = self.entries.next();
        bounds.end.set(u64::MAX);
        let described = found?.and_then(|mut entry| {
            let stored = stored(&mut entry)?.checked_next_multiple_of(BLOCK);
            let stored = stored.unwrap_or(u64::MAX);
            self.data_end = bounds.position.get().saturating_add(stored);
            Ok(entry)
        });
        Some(described)
    }
}

/// How many bytes of data an entry has in the archive.
fn stored<R: Read>(entry: &mut TarEntry<'_, R>) -> io::Result<u64> {
    if !entry.header().entry_type().is_gnu_sparse() {
        return Ok(entry.size());
    }
    // The size of the entry is that of the whole file, with its holes. A pax header may replace the other one.
    if entry.pax_extensions()?.is_some() {
        return Err(refused("a sparse file with a pax header"));
    }
    entry.header().entry_size()
}

fn refused(what: &str) -> io::Error {
    let words = format!("the archive has {what}");
    io::Error::new(io::ErrorKind::InvalidData, words)
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Bounds { position, end } = &*self.bounds;
        let room = end.get().saturating_sub(position.get());
        let most = usize::try_from(room).map_or(into.len(), |room| room.min(into.len()));
        if most == 0 && !into.is_empty() {
            let what = format!("a name or a header of more than {MOST} bytes for one entry");
            return Err(refused(&what));
        }
        let read = self.inner.read(&mut into[..most])?;
        position.set(position.get() + read as u64);
        Ok(read)
    }
}

impl<R: Seek> Seek for Limited<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = self.inner.seek(to)?;
        self.bounds.position.set(position);
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use tar::{Builder, EntryType, Header};

    use super::*;

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_path("entry").unwrap();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        header.set_cksum();
        header
    }

    /// Counts what is read.
    struct Counting<R>(R, u64);

    impl<R: Read> Read for Counting<R> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(into)?;
            self.1 += read as u64;
            Ok(read)
        }
    }

    /// Reads every entry of blocks that endless zeros follow; gives the first error, and how much was read.
    fn error_of(blocks: &[u8]) -> (String, u64) {
        let mut archive = TarReader::new(Counting(blocks.chain(io::repeat(0)), 0));
        let error = archive.entries().unwrap().find_map(Result::err);
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        (error, archive.into_inner().1)
    }

    #[test]
    fn promise_02_what_describes_an_entry_has_a_limit() {
        for kind in [
            EntryType::GNULongName,
            EntryType::GNULongLink,
            EntryType::XHeader,
        ] {
            for size in [MOST + 1, 64 << 20] {
                let first = header(EntryType::Regular, 3 << 20);
                let data = vec![1; 3 << 20];
                let huge = header(kind, size);
                let blocks = [first.as_bytes(), &data[..], huge.as_bytes()].concat();
                let (error, read) = error_of(&blocks);
                assert!(
                    error.contains("more than 1048576 bytes"),
                    "{kind:?} {error}"
                );
                assert!(read <= blocks.len() as u64 + MOST, "{kind:?} {read}");
            }
        }
    }

    #[test]
    fn promise_02_the_map_of_a_sparse_file_has_a_limit() {
        let mut sparse = header(EntryType::GNUSparse, 0);
        sparse.as_gnu_mut().unwrap().isextended = [1];
        sparse.set_cksum();
        // Every block says that another follows.
        let mut block = [0; 512];
        block[504] = 1;
        let blocks = [&sparse.as_bytes()[..], &block.repeat(8 << 10)].concat();
        let (error, read) = error_of(&blocks);
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        assert!(read <= MOST, "{read}");
        // A size that a pax header gives could let an archive claim more data than it has.
        let mut tar = Builder::new(Vec::new());
        tar.append_pax_extensions([("size", &b"0"[..])]).unwrap();
        let mut sparse = header(EntryType::GNUSparse, 0);
        sparse.as_gnu_mut().unwrap().set_real_size(0);
        sparse.set_cksum();
        tar.append(&sparse, io::empty()).unwrap();
        let (error, _) = error_of(&tar.into_inner().unwrap());
        assert!(error.contains("sparse"), "{error}");
    }

    #[test]
    fn archives_with_long_names_and_large_data_are_read() {
        let long = "a/".repeat(2000) + "b";
        let data = vec![7; 5 << 20];
        let mut tar = Builder::new(Vec::new());
        for _ in 0..3 {
            let mut regular = header(EntryType::Regular, data.len() as u64);
            tar.append_pax_extensions([("comment", &b"c".repeat(100_000)[..])])
                .unwrap();
            tar.append_data(&mut regular, &long, &data[..]).unwrap();
        }
        let bytes = tar.into_inner().unwrap();
        for seeks in [false, true] {
            for reads in [false, true] {
                let mut archive = TarReader::new(Cursor::new(&bytes));
                let entries = if seeks {
                    archive.entries_with_seek()
                } else {
                    archive.entries()
                };
                let mut count = 0;
                for entry in entries.unwrap() {
                    let mut entry = entry.unwrap();
                    assert_eq!(entry.path_bytes(), long.as_bytes());
                    let mut found = Vec::new();
                    if reads {
                        entry.read_to_end(&mut found).unwrap();
                        assert!(found == data, "the data of entry {count}");
                    }
                    count += 1;
                }
                assert_eq!(count, 3, "{seeks} {reads}");
            }
        }
    }
}
