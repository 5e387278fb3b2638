//! Layers: tar files whose bytes follow from their contents alone.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};

use fs_err as fs;
use mullion_tar::TarReader;
use tar::{Builder, EntryType, Header};

use crate::digest::Asking;

/// What lies below a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Above {
    /// Nothing: the layer brings the few folders and files that programs expect.
    Nothing,
    /// A distribution's files.
    Distribution,
}

impl Above {
    pub(super) const fn of(base: Option<&PathBuf>) -> Self {
        match base {
            Some(_) => Self::Distribution,
            None => Self::Nothing,
        }
    }
}

/// Files that programs read even where they are alone in their image.
pub(super) const ACCOUNTS: &[(&str, &str)] = &[
    (
        "etc/group",
        "root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n",
    ),
    ("etc/nsswitch.conf", "hosts: files dns\n"),
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n\
         nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
    ),
];

const FOLDERS: &[(&str, u32)] = &[
    ("etc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/lib", 0o755),
    ("var/tmp", 0o1777),
];

/// One thing in a layer.
#[derive(Debug, Clone)]
enum Thing<'a> {
    Folder(u32),
    Text(&'a str),
    Program(&'a Path),
}

/// Writes a layer with a program at its place.
pub(super) fn of_program(
    program: &Path,
    place: &str,
    above: Above,
    to: &Path,
    go_on: &dyn Fn() -> bool,
) -> io::Result<()> {
    let place = place.trim_start_matches('/');
    let mut things = BTreeMap::new();
    if above == Above::Nothing {
        things.extend(
            FOLDERS
                .iter()
                .map(|(path, mode)| ((*path).to_owned(), Thing::Folder(*mode))),
        );
        things.extend(
            ACCOUNTS
                .iter()
                .map(|(path, text)| ((*path).to_owned(), Thing::Text(text))),
        );
    }
    for folder in Path::new(place).ancestors().skip(1) {
        let folder = folder.to_string_lossy();
        if !folder.is_empty() {
            let known = things.entry(folder.into_owned());
            known.or_insert(Thing::Folder(0o755));
        }
    }
    things.insert(place.to_owned(), Thing::Program(program));

    let mut tar = Builder::new(BufWriter::new(fs::File::create(to)?));
    for (path, thing) in &things {
        match thing {
            Thing::Folder(mode) => {
                let mut header = header(EntryType::Directory, *mode, 0);
                tar.append_data(&mut header, format!("{path}/"), io::empty())?;
            }
            Thing::Text(text) => {
                let mut header = header(EntryType::Regular, 0o644, text.len() as u64);
                tar.append_data(&mut header, path, text.as_bytes())?;
            }
            Thing::Program(file) => {
                let file = fs::File::open(*file)?;
                let mut header = header(EntryType::Regular, 0o755, file.metadata()?.len());
                let mut ask = |_| go_on();
                let reader = Asking {
                    inner: file,
                    go_on: &mut ask,
                    done: 0,
                    next: 0,
                };
                tar.append_data(&mut header, path, reader)?;
            }
        }
    }
    finish(tar)
}

pub(super) fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

pub(super) fn finish(tar: Builder<BufWriter<fs::File>>) -> io::Result<()> {
    tar.into_inner()?.flush()
}

/// What is left of a distribution's files in a layer that images stand on.
pub(super) struct Trim<'a> {
    /// Paths, and everything below them, that are left out.
    pub(super) without: &'a [&'a str],
    /// Links to a neighbour that are added where the neighbour is there and nothing of the name is.
    pub(super) links: &'a [(&'a str, &'a str)],
}

/// More than any file of a layer has: each is read into memory.
const LARGEST: u64 = 1 << 30;

/// One entry of a layer, kept until all are sorted.
struct Kept {
    kind: EntryType,
    mode: u32,
    owner: (u64, u64),
    link: Option<PathBuf>,
    data: Vec<u8>,
}

impl Trim<'_> {
    /// Writes a layer of what is in a tar file, sorted by name, every time the same.
    pub(super) fn write(&self, from: &Path, to: &Path, go_on: &dyn Fn() -> bool) -> io::Result<()> {
        let mut ask = |_| go_on();
        let reader = Asking {
            inner: fs::File::open(from)?,
            go_on: &mut ask,
            done: 0,
            next: 0,
        };
        let mut kept = BTreeMap::new();
        let mut archive = TarReader::new(io::BufReader::new(reader));
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = cleaned(&entry.path()?);
            let kind = entry.header().entry_type();
            let is_kept = matches!(
                kind,
                EntryType::Regular | EntryType::Directory | EntryType::Symlink | EntryType::Link
            );
            if path.as_os_str().is_empty() || !is_kept || self.leaves_out(&path) {
                continue;
            }
            let link = entry.link_name()?.map(|link| match kind {
                // A hard link names a path of the archive.
                EntryType::Link => cleaned(&link),
                _ => link.into_owned(),
            });
            if entry.size() > LARGEST {
                return Err(io::Error::other("a file that is larger than any"));
            }
            let mut data = Vec::new();
            entry.read_to_end(&mut data)?;
            let header = entry.header();
            let entry = Kept {
                kind,
                mode: header.mode()? & 0o7777,
                owner: (header.uid()?, header.gid()?),
                link,
                data,
            };
            kept.insert(path, entry);
        }
        for (path, target) in self.links {
            let path = PathBuf::from(path);
            // A link to what is not there would only mislead.
            if !kept.contains_key(&path.with_file_name(target)) {
                continue;
            }
            kept.entry(path).or_insert_with(|| Kept {
                kind: EntryType::Symlink,
                mode: 0o777,
                owner: (0, 0),
                link: Some(PathBuf::from(target)),
                data: Vec::new(),
            });
        }
        for (path, text) in ACCOUNTS {
            kept.entry(PathBuf::from(path)).or_insert_with(|| Kept {
                kind: EntryType::Regular,
                mode: 0o644,
                owner: (0, 0),
                link: None,
                data: text.as_bytes().to_vec(),
            });
        }
        write_kept(&kept, to)
    }

    fn leaves_out(&self, path: &Path) -> bool {
        self.without.iter().any(|out| path.starts_with(out))
    }
}

fn write_kept(kept: &BTreeMap<PathBuf, Kept>, to: &Path) -> io::Result<()> {
    let mut tar = Builder::new(BufWriter::new(fs::File::create(to)?));
    // A hard link must come after the file it names, whatever the names are.
    let (links, others): (Vec<_>, Vec<_>) = kept
        .iter()
        .partition(|(_, entry)| entry.kind == EntryType::Link);
    for (path, entry) in others.into_iter().chain(links) {
        let mut header = header(entry.kind, entry.mode, entry.data.len() as u64);
        header.set_uid(entry.owner.0);
        header.set_gid(entry.owner.1);
        match &entry.link {
            Some(link) => tar.append_link(&mut header, path, link)?,
            None => tar.append_data(&mut header, path, entry.data.as_slice())?,
        }
    }
    finish(tar)
}

/// A path below the root, without `./` and whatever leads elsewhere.
fn cleaned(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}
