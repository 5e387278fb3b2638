//! Archives that somebody wrote to reach files outside.

use std::os::unix::fs::MetadataExt as _;

use mullion_plan::Unattended;
use mullion_wire::Sha256Digest;
use tar::{Builder, Header};

use super::*;

/// A root file system to be, files outside of it, and an archive.
struct Stage {
    folder: tempfile::TempDir,
    tar: Builder<Vec<u8>>,
}

const SECRET: &str = "root's own";

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["root", "outside/inner"] {
            fs_err::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs_err::write(folder.path().join("outside/shadow"), SECRET).unwrap();
        Self {
            folder,
            tar: Builder::new(Vec::new()),
        }
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    fn root(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path)
    }

    /// Adds an entry whose name is written as it is, as no honest program would.
    fn add(&mut self, kind: EntryType, name: &str, link: Option<&Path>, data: &[u8]) -> &mut Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(if kind == EntryType::Directory {
            0o755
        } else {
            0o4755
        });
        header.set_uid(u64::from(rustix::process::geteuid().as_raw()));
        header.set_gid(u64::from(rustix::process::getegid().as_raw()));
        header.set_mtime(1_000_000);
        header.set_size(data.len() as u64);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        if let Some(link) = link {
            let link = link.to_str().unwrap().as_bytes();
            header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        }
        header.set_cksum();
        self.tar.append(&header, data).unwrap();
        self
    }

    fn unpack(&mut self) -> Result<(), TemplateError> {
        let tar = std::mem::replace(&mut self.tar, Builder::new(Vec::new()));
        let file = self.folder.path().join("root.tar");
        fs_err::write(&file, tar.into_inner().unwrap()).unwrap();
        let tree = Tree::open(&self.folder.path().join("root")).unwrap();
        unpack(&file.into(), &tree, &Unattended)
    }

    /// Nothing outside is another than it was.
    fn assert_outside_is_untouched(&self) {
        let outside = self.outside();
        let shadow = fs_err::read_to_string(outside.join("shadow")).unwrap();
        assert_eq!(shadow, SECRET);
        let found = fs_err::metadata(outside.join("shadow")).unwrap();
        assert_eq!((found.nlink(), found.mode() & 0o4000), (1, 0));
        let names = |path: &Path| fs_err::read_dir(path).unwrap().count();
        assert_eq!((names(&outside), names(&outside.join("inner"))), (2, 0));
    }
}

#[test]
fn promise_10_a_link_in_an_archive_never_leads_out_of_the_tree() {
    use EntryType::{Directory, Link, Regular, Symlink};
    for up in [false, true] {
        let mut stage = Stage::new();
        let outside = if up {
            PathBuf::from("../outside")
        } else {
            stage.outside()
        };
        stage
            .add(Symlink, "etc", Some(&outside), b"")
            .add(Regular, "etc/shadow", None, b"evil")
            .add(Directory, "etc/inner/new", None, b"")
            .add(Symlink, "file", Some(&outside.join("shadow")), b"")
            .add(Regular, "file", None, b"evil")
            .add(Link, "hard", Some(Path::new("etc/shadow")), b"");
        // Whether it is unpacked inside or refused: what is outside stays.
        let _ = stage.unpack();
        stage.assert_outside_is_untouched();
    }
}

#[test]
fn promise_10_a_hard_link_to_a_file_outside_is_refused() {
    for absolute in [true, false] {
        let mut stage = Stage::new();
        let target = if absolute {
            stage.outside().join("shadow")
        } else {
            PathBuf::from("../outside/shadow")
        };
        stage.add(EntryType::Link, "shadow", Some(&target), b"");
        assert!(stage.unpack().is_err());
        stage.assert_outside_is_untouched();
    }
}

#[test]
fn promise_10_names_that_are_absolute_or_go_up_stay_inside() {
    let mut stage = Stage::new();
    let absolute = stage.outside().join("inner/new");
    stage.add(EntryType::Regular, absolute.to_str().unwrap(), None, b"x");
    stage.unpack().unwrap();
    let inside = absolute.strip_prefix("/").unwrap().to_str().unwrap();
    assert!(stage.root(inside).is_file());
    for name in ["../outside/inner/new", "a/../../outside/inner/new"] {
        let error = stage.add(EntryType::Regular, name, None, b"x").unpack();
        let error = error.unwrap_err();
        assert!(matches!(error, TemplateError::Unpack { .. }), "{error:?}");
    }
    stage.assert_outside_is_untouched();
}

#[test]
fn promise_10_devices_are_left_out_and_no_archive_fills_the_disk() {
    let mut stage = Stage::new();
    stage
        .add(EntryType::Block, "dev/sda", None, b"")
        .add(EntryType::Char, "dev/mem", None, b"")
        .add(EntryType::Fifo, "dev/pipe", None, b"")
        .add(EntryType::Regular, "usr/bin/su", None, b"x");
    stage.unpack().unwrap();
    assert!(!stage.root("dev").exists());
    let su = fs_err::metadata(stage.root("usr/bin/su")).unwrap();
    assert_eq!(su.mode() & 0o7777, 0o4755);

    // A file of no bytes that claims to be larger than any disk.
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_path("huge").unwrap();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    let sparse = header.as_gnu_mut().unwrap();
    sparse.sparse[0].offset.copy_from_slice(b"77777777777\0");
    sparse.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
    // In base 256, for sizes that eight digits of base 8 cannot hold: an exabyte.
    sparse.realsize = [0x80, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0];
    header.set_cksum();
    stage.tar.append(&header, std::io::empty()).unwrap();
    assert!(stage.unpack().is_err());
    let written = fs_err::metadata(stage.root("huge")).map_or(0, |found| found.blocks());
    assert!(written < 1 << 20, "{written}");
}

#[test]
fn promise_02_a_root_file_system_with_a_huge_header_is_refused() {
    for (size, is_read) in [(100_000, true), (2 << 20, false)] {
        let mut stage = Stage::new();
        let comment = vec![b'c'; size];
        stage
            .tar
            .append_pax_extensions([("comment", &comment[..])])
            .unwrap();
        stage.add(EntryType::Regular, "file", None, b"x");
        let unpacked = stage.unpack();
        assert_eq!(unpacked.is_ok(), is_read, "{size}: {unpacked:?}");
        assert_eq!(stage.root("file").exists(), is_read);
    }
}

#[test]
fn promise_10_a_root_file_system_is_held_to_its_digest_while_it_is_unpacked() {
    let mut stage = Stage::new();
    stage.add(EntryType::Regular, "usr/bin/su", None, b"x");
    stage.unpack().unwrap();
    let file = stage.folder.path().join("root.tar");
    let tree = Tree::open(&stage.root("")).unwrap();
    let recorded = Sha256Digest::of(&fs_err::read(&file).unwrap());
    let source = Source::held_to(&file, recorded);
    unpack(&source, &tree, &Unattended).unwrap();
    // Behind the end of the archive, where no reader of archives looks.
    let mut longer = fs_err::read(&file).unwrap();
    longer.extend([1; 4096]);
    fs_err::write(&file, longer).unwrap();
    let error = unpack(&source, &tree, &Unattended).unwrap_err();
    assert!(matches!(error, TemplateError::Changed { .. }), "{error:?}");
}

#[test]
fn promise_10_what_is_written_into_a_root_file_system_stays_in_it() {
    let stage = Stage::new();
    let outside = stage.outside();
    for name in ["etc", "usr", "var", "root", "opt"] {
        std::os::unix::fs::symlink(&outside, stage.root(name)).unwrap();
    }
    let tree = Tree::open(&stage.root("")).unwrap();
    // An absolute link leads to the same path inside, and so do the folders that are made on the way.
    let dressed = crate::dress::dress(&tree);
    let _ = tree.append("etc/passwd", "evil\n");
    let _ = tree.remove("etc/inner");
    let _ = tree.write("etc/shadow", "evil", 0o4755);
    stage.assert_outside_is_untouched();
    assert!(
        dressed.is_err()
            || stage
                .root("")
                .join(outside.strip_prefix("/").unwrap())
                .is_dir()
    );
    // What would run on this computer is the tree's own.
    assert!(tree.real("etc/shadow").is_err());
}
