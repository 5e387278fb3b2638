//! Archives made of bytes: a mutated header is refused by its checksum, so names, links and sizes are drawn instead.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use arbitrary::{Result, Unstructured};
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// Names that lead out of a folder where they are believed, beside harmless ones.
const NAMES: &[&str] = &[
    "a",
    "b",
    "dir",
    "dir/a",
    "dir/b",
    "link",
    "link/a",
    "link/link/a",
    "kubelet",
    "bin/kubelet",
    "index.json",
    "./a",
    ".",
    "",
    "/",
    "//a",
    "dir/../a",
    "..",
    "../outside",
    "../../outside",
    "dir/../../outside",
    "link/../../outside",
    "/outside",
    "a\0b",
    "a\nb",
    "\u{202e}a",
    "golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64/bin/go",
];

const KINDS: &[EntryType] = &[
    EntryType::Regular,
    EntryType::Regular,
    EntryType::Directory,
    EntryType::Symlink,
    EntryType::Symlink,
    EntryType::Link,
    EntryType::Char,
    EntryType::Fifo,
    EntryType::GNULongName,
    EntryType::GNULongLink,
    EntryType::GNUSparse,
    EntryType::XHeader,
    EntryType::XGlobalHeader,
];

/// Whether an input is an archive as it is, or the draft of one.
fn is_draft(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'#')
}

/// A tar file: the bytes themselves, or what they draw behind a `#`.
pub fn tar(bytes: &[u8]) -> Vec<u8> {
    if !is_draft(bytes) {
        return bytes.to_vec();
    }
    let mut builder = Builder::new(Vec::new());
    let mut source = Unstructured::new(&bytes[1..]);
    while !source.is_empty() && builder.get_ref().len() < 1 << 20 {
        if append(&mut builder, &mut source).is_err() {
            break;
        }
    }
    builder.into_inner().unwrap_or_default()
}

/// What every file of a bundle is that [`bundle_of`] makes; the corpus has its digest.
const BUNDLED: &[u8] = b"kubeadm";
/// How many files such a bundle has.
const FILES: usize = 3;

/// A bundle with that index, where the bytes are JSON: an index that changes its length would break a tar file. Else as
/// [`tar()`].
pub fn bundle_of(bytes: &[u8]) -> Vec<u8> {
    if bytes.first() != Some(&b'{') {
        return tar(bytes);
    }
    let mut builder = Builder::new(Vec::new());
    let files = std::iter::repeat_n(("file", BUNDLED), FILES);
    for (name, data) in std::iter::once(("mullion-bundle.json", bytes)).chain(files) {
        let mut header = Header::new_gnu();
        header.set_size(data.len() as u64);
        // Writing to memory cannot fail.
        let _ = builder.append_data(&mut header, name, data);
    }
    builder.into_inner().unwrap_or_default()
}

/// An archive of images with that document: an OCI layout's index where it is an object, what Docker writes where it is a
/// list. Else as [`tar()`].
pub fn images_of(bytes: &[u8]) -> Vec<u8> {
    const LAYOUT: (&str, &[u8]) = ("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    let files = match bytes.first() {
        Some(b'{') => vec![LAYOUT, ("index.json", bytes)],
        Some(b'[') => vec![("manifest.json", bytes)],
        _ => return tar(bytes),
    };
    let mut builder = Builder::new(Vec::new());
    for (name, data) in files {
        let mut header = Header::new_gnu();
        header.set_size(data.len() as u64);
        // Writing to memory cannot fail.
        let _ = builder.append_data(&mut header, name, data);
    }
    builder.into_inner().unwrap_or_default()
}

fn append(builder: &mut Builder<Vec<u8>>, source: &mut Unstructured<'_>) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(*source.choose(KINDS)?);
    header.set_mode(source.arbitrary::<u16>()?.into());
    header.set_uid(source.arbitrary::<u16>()?.into());
    header.set_gid(source.arbitrary::<u16>()?.into());
    header.set_mtime(source.arbitrary::<u32>()?.into());
    put(
        &mut header.as_old_mut().name,
        source.choose(NAMES)?.as_bytes(),
    );
    put(
        &mut header.as_old_mut().linkname,
        source.choose(NAMES)?.as_bytes(),
    );
    let length = source.int_in_range(0..=600)?;
    let data = source.bytes(usize::min(length, source.len()))?.to_vec();
    // Sometimes it says another length than it has.
    let claimed = match source.int_in_range(0..=15)? {
        0 => source.arbitrary::<u64>()? >> 31,
        _ => data.len() as u64,
    };
    header.set_size(claimed);
    header.set_cksum();
    // Written by hand: the builder would look at names and sizes first.
    let out = builder.get_mut();
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(&data);
    out.resize(out.len().next_multiple_of(512), 0);
    Ok(())
}

fn put(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text[..length]);
}

/// The same, compressed where it is a draft.
pub fn tar_gz(bytes: &[u8]) -> io::Result<Vec<u8>> {
    if !is_draft(bytes) {
        return Ok(bytes.to_vec());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&tar(bytes))?;
    encoder.finish()
}

/// A zip file: the bytes themselves, or what they draw behind a `#`.
pub fn zip(bytes: &[u8]) -> Vec<u8> {
    if !is_draft(bytes) {
        return bytes.to_vec();
    }
    let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    let mut source = Unstructured::new(&bytes[1..]);
    while !source.is_empty() {
        if append_zip(&mut writer, &mut source).is_err() {
            break;
        }
    }
    let mut made = writer
        .finish()
        .map_or_else(|_| Vec::new(), io::Cursor::into_inner);
    // A zip is read from its end: bytes of the draft at places of their own break its tables, not only its data.
    if let [.., place, value] = bytes
        && place % 4 == 0
        && !made.is_empty()
    {
        let at = made.len() - 1 - usize::from(*place).min(made.len() - 1);
        made[at] = *value;
    }
    made
}

fn append_zip(
    writer: &mut zip::ZipWriter<io::Cursor<Vec<u8>>>,
    source: &mut Unstructured<'_>,
) -> Result<()> {
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .unix_permissions(source.arbitrary::<u16>()?.into());
    let name = *source.choose(NAMES)?;
    let failed = |_| arbitrary::Error::IncorrectFormat;
    match source.int_in_range(0..=4)? {
        0 => writer.add_directory(name, options).map_err(failed),
        1 => {
            let target = *source.choose(NAMES)?;
            writer.add_symlink(name, target, options).map_err(failed)
        }
        _ => {
            writer.start_file(name, options).map_err(failed)?;
            let length = source.int_in_range(0..=600)?;
            let data = source.bytes(usize::min(length, source.len()))?;
            // Equal bytes become next to nothing, and so a large file of a small archive.
            let times = if length % 5 == 0 { 2_000 } else { 1 };
            for _ in 0..times {
                let written = writer.write_all(data);
                written.map_err(|_| arbitrary::Error::IncorrectFormat)?;
            }
            Ok(())
        }
    }
}

/// A folder in which one archive is read: nothing may appear beside the part that it may write to.
pub struct Yard {
    folder: tempfile::TempDir,
}

/// The part of a yard that may be written to.
const INSIDE: &str = "inside/deep";

impl Yard {
    /// A new one, with the archive in it.
    pub fn with(archive: &[u8], name: &str) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        fs_err::create_dir_all(folder.path().join(INSIDE))?;
        fs_err::write(folder.path().join(name), archive)?;
        Ok(Self { folder })
    }

    /// The archive.
    pub fn archive(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where it may write.
    pub fn inside(&self) -> PathBuf {
        self.folder.path().join(INSIDE)
    }

    /// Sees that nothing is outside, and takes everything away.
    pub fn close(self, name: &str) {
        let names = |path: &Path| -> Vec<_> {
            let entries = fs_err::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name()).collect()
        };
        let root = self.folder.path();
        let mut found = names(root);
        found.sort();
        let mut expected = vec![std::ffi::OsString::from("inside"), name.into()];
        expected.sort();
        assert_eq!(found, expected, "something was written outside");
        assert_eq!(
            names(&root.join("inside")),
            ["deep"],
            "something was written outside"
        );
        assert!(
            !Path::new("/outside").exists(),
            "something was written outside"
        );
        // Folders without permissions would stay.
        open_up(&self.inside());
    }
}

fn open_up(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let is_folder = fs_err::symlink_metadata(folder).is_ok_and(|meta| meta.is_dir());
    if !is_folder {
        return;
    }
    let _ = fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_make_archives_with_hostile_entries() {
        let draft: Vec<u8> = std::iter::once(b'#')
            .chain((0..4_000_u32).map(|number| (number * 37 % 251) as u8))
            .collect();
        let made = tar(&draft);
        let headers = made
            .chunks(512)
            .filter(|block| block.get(257..262) == Some(b"ustar"));
        assert!(headers.count() > 2);
        assert!(!zip(&draft).is_empty());
        assert!(tar_gz(&draft).unwrap().starts_with(&[0x1f, 0x8b]));
        assert_eq!(tar(b"as it is"), b"as it is");
    }
}
