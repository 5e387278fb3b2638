use super::*;
use std::io::Write as _;

fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, path, text.as_bytes())
            .unwrap();
    }
    archive.into_inner().unwrap()
}

fn names(files: &[(&str, &str)]) -> Vec<String> {
    let names = archive_names(&tar(files)[..]).unwrap().unwrap();
    names.into_iter().collect()
}

const LAYOUT: (&str, &str) = ("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
const SAVED: (&str, &str) = (
    "manifest.json",
    r#"[{"Config":"c","RepoTags":["app:1","registry.lan:5000/team/app:2"],"Layers":[]},
        {"Config":"d","RepoTags":null,"Layers":[]}]"#,
);

#[test]
fn names_that_docker_wrote_are_completed() {
    let expected = ["docker.io/library/app:1", "registry.lan:5000/team/app:2"];
    assert_eq!(names(&[("blobs/x", "1"), SAVED]), expected);
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(&tar(&[SAVED])).unwrap();
    let zipped = zipped.finish().unwrap();
    let found = archive_names(&zipped[..]).unwrap().unwrap();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn names_of_an_oci_layout_are_taken_as_they_are() {
    let index = r#"{"manifests":[
        {"annotations":{"io.containerd.image.name":"docker.io/library/app:1",
                        "org.opencontainers.image.ref.name":"1"}},
        {"annotations":{"org.opencontainers.image.ref.name":"registry.lan/app:2"}},
        {"annotations":{"org.opencontainers.image.ref.name":"3"}},
        {"annotations":{}},
        {}]}"#;
    assert_eq!(
        names(&[LAYOUT, SAVED, ("./index.json", index)]),
        ["docker.io/library/app:1", "registry.lan/app:2"]
    );
}

#[test]
fn an_archive_may_have_no_name() {
    let none = r#"[{"Config":"c","RepoTags":null,"Layers":[]}]"#;
    assert_eq!(names(&[("manifest.json", none)]), [""; 0]);
    assert_eq!(names(&[LAYOUT, ("index.json", "{}")]), [""; 0]);
}

#[test]
fn promise_02_a_huge_name_in_an_archive_of_images_is_not_read_into_memory() {
    /// Counts what is read of endless zeros behind a header.
    struct Endless<'a>(&'a [u8], u64);
    impl Read for Endless<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let read = match self.0.read(into)? {
                0 => io::repeat(0).read(into)?,
                read => read,
            };
            self.1 += read as u64;
            Ok(read)
        }
    }
    for kind in [tar::EntryType::GNULongName, tar::EntryType::XHeader] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(64 << 20);
        header.set_cksum();
        let mut endless = Endless(header.as_bytes(), 0);
        let error = archive_names(&mut endless).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        assert!(endless.1 < 4 << 20, "{} bytes were read", endless.1);
    }
}

/// The error of an archive that must be refused as ambiguous.
fn refusal(archive: &[u8]) -> String {
    let error = archive_names(archive).expect_err("the archive was accepted");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    error.to_string()
}

const APP: &str = r#"{"annotations":{"io.containerd.image.name":"registry.lan/app:1"}}"#;
const PROXY: &str =
    r#"{"annotations":{"io.containerd.image.name":"registry.k8s.io/kube-proxy:v1.36.2"}}"#;

fn index_of(images: &str) -> String {
    format!(r#"{{"manifests":[{images}]}}"#)
}

/// An entry, by a header that a test changed.
fn entry(path: &str, text: &str, change: impl Fn(&mut [u8; 512])) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    let mut block = *header.as_bytes();
    block[..path.len()].copy_from_slice(path.as_bytes());
    change(&mut block);
    let mut header = tar::Header::from_byte_slice(&block).clone();
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// An archive of files, then of other entries.
fn with_entries(files: &[(&str, &str)], entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = tar(files);
    bytes.truncate(bytes.len() - 1024);
    bytes.extend(entries.concat());
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

#[test]
fn promise_10_no_second_spelling_of_a_key_hides_a_name() {
    let both = format!("{APP},{PROXY}");
    for key in ["Manifests", "MANIFESTS", "manife\u{17f}ts", "manifests"] {
        let index = format!(r#"{{"manifests":[{APP}],"{key}":[{both}]}}"#);
        let error = refusal(&tar(&[LAYOUT, ("index.json", &index)]));
        assert!(error.contains(&format!("key `{key}`")), "{error}");
        assert!(error.contains("`index.json`"), "{error}");
    }
    // An escape spells a key like its letter does.
    let index = format!(r#"{{"manifests":[{APP}],"\u006danifests":[{both}]}}"#);
    refusal(&tar(&[LAYOUT, ("index.json", &index)]));
    let proxy = PROXY.replace("annotations", "Annotations");
    let index = index_of(&format!("{},{}", &APP[..APP.len() - 1], &proxy[1..]));
    let error = refusal(&tar(&[LAYOUT, ("index.json", &index)]));
    assert!(error.contains("`Annotations`"), "{error}");
    let twice = r#"{"annotations":{"io.containerd.image.name":"registry.lan/app:1",
                                   "io.containerd.image.name":"registry.k8s.io/kube-proxy:v1"}}"#;
    let error = refusal(&tar(&[LAYOUT, ("index.json", &index_of(twice))]));
    assert!(error.contains("twice"), "{error}");
    for key in ["repotags", "Repotags", "RepoTag\u{17f}", "RepoTags"] {
        let saved =
            format!(r#"[{{"RepoTags":["app:1"],"{key}":["registry.k8s.io/kube-proxy:v1.36.2"]}}]"#);
        let error = refusal(&tar(&[("manifest.json", &saved)]));
        assert!(error.contains(&format!("key `{key}`")), "{error}");
    }
    // containerd would read index.json where manifest.json is judged.
    let layout = r#"{"imageLayoutVersion":"","ImageLayoutVersion":"1.0.0"}"#;
    let index = index_of(PROXY);
    let files = [("oci-layout", layout), SAVED, ("index.json", &*index)];
    let error = refusal(&tar(&files));
    assert!(error.contains("`ImageLayoutVersion`"), "{error}");
    // What containerd does not read may have any spelling; keys of annotations differ by case.
    let index = format!(
        r#"{{"schemaVersion":2,"Size":1.5,"x":[null,true,-1],"manifests":[{}]}}"#,
        r#"{"annotations":{"io.containerd.image.name":"r.lan/a:1","Io.Containerd.Image.Name":"r.lan/b:1"}}"#
    );
    assert_eq!(names(&[LAYOUT, ("index.json", &index)]), ["r.lan/a:1"]);
}

#[test]
fn keys_fold_as_they_do_in_go() {
    assert_eq!(folded("Repo\u{17f}\u{212a}K\u{130}"), "reposkk\u{130}");
}

#[test]
fn promise_10_no_second_document_hides_a_name() {
    let (benign, evil) = (index_of(APP), index_of(PROXY));
    let spellings = [
        "x/../index.json",
        "x//../index.json",
        ".//index.json",
        "././index.json",
        "index.json/.",
        "index.json/",
        "index.json",
        "./index.json",
    ];
    for spelling in spellings {
        let others = [LAYOUT, ("index.json", &*benign)];
        let bytes = with_entries(&others, &[entry(spelling, &evil, |_| {})]);
        let error = refusal(&bytes);
        assert!(error.contains("index.json"), "{spelling} {error}");
    }
    let hidden = r#"[{"RepoTags":["registry.k8s.io/kube-proxy:v1.36.2"]}]"#;
    for (path, text) in [
        ("manifest.json", hidden),
        ("oci-layout", r#"{"imageLayoutVersion":""}"#),
    ] {
        let files = [LAYOUT, SAVED, ("index.json", &*benign), (path, text)];
        let error = refusal(&tar(&files));
        assert!(error.contains("twice"), "{error}");
    }
    let elsewhere = [LAYOUT, ("index.json", &*benign), ("a/index.json", &*evil)];
    assert_eq!(names(&elsewhere), ["registry.lan/app:1"]);
}

#[test]
fn paths_are_cleaned_as_they_are_in_go() {
    for (path, expected) in [
        ("", "."),
        ("./", "."),
        ("a/..", "."),
        ("../a", "../a"),
        ("a/../../b", "../b"),
        ("../../a", "../../a"),
        ("/../a", "/a"),
        ("/", "/"),
        ("a//b/./c/", "a/b/c"),
    ] {
        assert_eq!(cleaned(path.as_bytes()), expected.as_bytes(), "{path}");
    }
}

#[test]
fn promise_10_no_header_of_a_tar_archive_hides_a_name() {
    let (benign, evil) = (index_of(APP), index_of(PROXY));
    let others = [LAYOUT, ("index.json", &*benign)];
    let hidden = |entries: &[Vec<u8>]| refusal(&with_entries(&others, entries));
    let plain = |path: &str| entry(path, &evil, |_| {});
    let with_pax = |records: &[(&str, &str)], behind: Vec<u8>| {
        let mut archive = tar::Builder::new(Vec::new());
        let records = records.iter().map(|(key, value)| (*key, value.as_bytes()));
        archive.append_pax_extensions(records).unwrap();
        let mut pax = archive.into_inner().unwrap();
        pax.truncate(pax.len() - 1024);
        hidden(&[pax, behind])
    };
    for (records, path, words) in [
        (
            &[("path", "a"), ("path", "index.json")][..],
            "entry",
            "twice",
        ),
        (&[("path", "")], "index.json", "no plain name"),
        (&[("size", "")], "entry", "without a value"),
        (&[("size", "-0")], "entry", "no plain number"),
        (
            &[("comment", "a\n9 path=a"), ("path", "index.json")],
            "entry",
            "malformed",
        ),
    ] {
        let error = with_pax(records, plain(path));
        assert!(error.contains(words), "{error}");
    }
    let length = evil.len().to_string();
    let sparse = [
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.name", "index.json"),
        ("GNU.sparse.realsize", &*length),
    ];
    let map = format!("1\n0\n{length}\n");
    let data = format!("{map}{}{evil}", "\0".repeat(512 - map.len()));
    let error = with_pax(&sparse, entry("entry", &data, |_| {}));
    assert!(error.contains("sparse"), "{error}");
    // An extension header in a block of the oldest format.
    let old = |kind: u8| {
        move |block: &mut [u8; 512]| {
            block[156] = kind;
            block[257..].fill(0);
        }
    };
    for (kind, text) in [(b'x', "19 path=index.json\n"), (b'L', "index.json\0")] {
        let error = hidden(&[entry("extension", text, old(kind)), plain("entry")]);
        assert!(error.contains("extension header"), "{error}");
    }
    let bytes = with_entries(&others, &[entry("entry", "x", old(b'0'))]);
    let names = archive_names(&bytes[..]).unwrap();
    assert_eq!(names, Some(["registry.lan/app:1".to_owned()].into()));
    // The data of a folder, which Go takes for the next entry.
    let data = plain("index.json");
    let folder = |block: &mut [u8; 512]| {
        block[156] = b'5';
        block[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    };
    let error = hidden(&[entry("folder", "", folder), data.clone()]);
    assert!(error.contains("data"), "{error}");
    // A prefix that Go reads in a GNU header with an unreadable time, and one of `star`.
    let gnu = |block: &mut [u8; 512]| block[345..360].copy_from_slice(b"x/../x/../x/../");
    let star = |block: &mut [u8; 512]| {
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[345..476].copy_from_slice(format!("{}.", "./".repeat(65)).as_bytes());
        block[476..500].copy_from_slice(b"00000000000 00000000000 ");
        block[508..].copy_from_slice(b"tar\0");
    };
    let error = hidden(&[entry("x/../index.json", &evil, gnu)]);
    assert!(error.contains("unknown format"), "{error}");
    let error = hidden(&[entry("index.json", &evil, star)]);
    assert!(error.contains("unknown format"), "{error}");
    // A long name that ends earlier in Go.
    let long = entry("long", "index.json\0x", |block| block[156] = b'L');
    let error = hidden(&[long, plain("entry")]);
    assert!(error.contains("no plain name"), "{error}");
    let sparse = |block: &mut [u8; 512]| {
        block[156] = b'S';
        block[483..494].fill(b'0');
    };
    let error = hidden(&[entry("entry", "", sparse)]);
    assert!(error.contains("sparse"), "{error}");
}

#[test]
fn promise_10_a_zstd_frame_before_the_names_is_seen() {
    let frame = |block: &mut [u8; 512]| block[..4].copy_from_slice(b"\x5f\x2a\x4d\x18");
    let mut bytes = entry("name", "x", frame);
    bytes.extend(tar(&[SAVED]));
    assert_eq!(archive_names(&bytes[..]).unwrap(), None);
}

#[test]
fn archives_of_common_tools_are_read() {
    let long = format!("blobs/{}/x", "a".repeat(150));
    let mut archive = tar::Builder::new(Vec::new());
    let mut folder = tar::Header::new_ustar();
    folder.set_entry_type(tar::EntryType::Directory);
    folder.set_size(0);
    archive
        .append_data(&mut folder, "blobs/", io::empty())
        .unwrap();
    archive
        .append_pax_extensions([("mtime", &b"1.5"[..]), ("path", b"blobs/y")])
        .unwrap();
    for mut header in [tar::Header::new_ustar(), tar::Header::new_gnu()] {
        header.set_size(1);
        archive.append_data(&mut header, &long, &b"x"[..]).unwrap();
    }
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    archive
        .append_link(&mut link, "a/layer.tar", "../b/layer.tar")
        .unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(SAVED.1.len() as u64);
    archive
        .append_data(&mut header, SAVED.0, SAVED.1.as_bytes())
        .unwrap();
    let bytes = archive.into_inner().unwrap();
    assert_eq!(archive_names(&bytes[..]).unwrap().unwrap().len(), 2);
}

#[test]
fn what_is_no_archive_of_images_is_told() {
    for (files, words) in [
        (&[LAYOUT][..], "without index.json"),
        (&[("hello", "x")][..], "no archive of images"),
        (&[("manifest.json", "{}")][..], "expected a sequence"),
    ] {
        let error = archive_names(&tar(files)[..]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(archive_names(&b"planned"[..]).is_err());
    assert_eq!(archive_names(&ZSTD[..]).unwrap(), None);
}
