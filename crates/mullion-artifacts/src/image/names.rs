//! Reads the names in an archive of images, as `ctr images import` gives them to what it imports.
//!
//! containerd reads an archive with Go's `archive/tar` and `encoding/json`. Where those may read another name than this
//! module does, the archive is refused: an image that no check saw could replace one that runs with all rights.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use mullion_spec::image::ImageReference;
use mullion_tar::{TarEntry, TarReader};
use mullion_wire::text::visible;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The most that is read of one document in an archive; containerd reads as much.
const LIMIT: u64 = 20 << 20;

/// The most that is unpacked of a compressed archive: a few bytes can come to any number.
const UNPACKED: u64 = 64 << 30;

/// What a document in an archive may say of an image's name.
const NAME: &str = "io.containerd.image.name";
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// The documents that name images.
const LAYOUT_FILE: &str = "oci-layout";
const INDEX_FILE: &str = "index.json";
const SAVED_FILE: &str = "manifest.json";

/// The keys that are read in those documents.
const VERSION_KEY: &str = "imageLayoutVersion";
const MANIFESTS_KEY: &str = "manifests";
const ANNOTATIONS_KEY: &str = "annotations";
const TAGS_KEY: &str = "RepoTags";

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A zstd frame that decoders skip begins with a byte from 0x50 to 0x5f, then with this.
const ZSTD_SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layout {
    image_layout_version: String,
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
}

/// The names of the images in an archive, as Docker or an OCI tool wrote it; `None` for a form that is not read here.
/// containerd keeps no image without a name.
///
/// An archive that programs can read in different ways is an error of the kind [`io::ErrorKind::InvalidData`].
pub fn archive_names(mut reader: impl Read) -> io::Result<Option<BTreeSet<String>>> {
    let mut head = Vec::new();
    reader.by_ref().take(8).read_to_end(&mut head)?;
    let is_zstd = head.starts_with(&ZSTD)
        || head.first().is_some_and(|first| first & 0xf0 == 0x50)
            && head[1..].starts_with(&ZSTD_SKIPPED);
    let is_gzip = head.starts_with(&GZIP);
    let reader = io::BufReader::with_capacity(1 << 16, head.chain(reader));
    if is_zstd {
        return Ok(None);
    }
    if !is_gzip {
        return of_tar(reader).map(Some);
    }
    let mut unpacked = MultiGzDecoder::new(reader).take(UNPACKED);
    let names = of_tar(&mut unpacked)?;
    if unpacked.limit() == 0 {
        return Err(refused("it has more than 64 GiB when it is decompressed"));
    }
    Ok(Some(names))
}

fn of_tar(reader: impl Read) -> io::Result<BTreeSet<String>> {
    let (mut layout, mut index, mut saved) = (None::<Layout>, None::<Index>, None::<Vec<Saved>>);
    let mut archive = TarReader::new(reader);
    for entry in archive.entries()? {
        let mut entry = entry?;
        check_entry(&mut entry)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let Some(name) = document_at(&entry.path_bytes())? else {
            continue;
        };
        let is_second = match name {
            LAYOUT_FILE => layout
                .replace(document(entry, name, check_layout)?)
                .is_some(),
            INDEX_FILE => index.replace(document(entry, name, check_index)?).is_some(),
            _ => saved.replace(document(entry, name, check_saved)?).is_some(),
        };
        if is_second {
            return Err(refused(&format!("it holds `{name}` twice")));
        }
    }
    // As containerd does: an OCI layout counts more than what Docker writes beside it.
    if layout.is_some_and(|layout| !layout.image_layout_version.is_empty()) {
        let index =
            index.ok_or_else(|| io::Error::other("it is an OCI layout without index.json"))?;
        let names = index.manifests.iter().filter_map(name_of);
        return Ok(names.collect());
    }
    let saved = saved.ok_or_else(|| {
        io::Error::other(
            "it has neither `oci-layout` nor `manifest.json`: it is no archive of images",
        )
    })?;
    let tags = saved.into_iter().filter_map(|one| one.repo_tags).flatten();
    let names = tags.map(|tag| match tag.parse::<ImageReference>() {
        Ok(reference) => reference.canonical(),
        Err(_) => tag,
    });
    Ok(names.collect())
}

/// Refuses an entry whose name, kind or length another program may read differently.
fn check_entry<R: Read>(entry: &mut TarEntry<'_, R>) -> io::Result<()> {
    let path = entry.path_bytes().into_owned();
    let refuse = |what: &str| Err(refused(&format!("its entry {} has {what}", shown(&path))));
    if path.is_empty() || path.contains(&0) {
        return refuse("no plain name");
    }
    let kind = entry.header().entry_type();
    if kind.is_gnu_sparse() {
        return refuse("the form of a sparse file");
    }
    // The `tar` crate reads such a header only in a block of a known format; Go reads it in any.
    if kind.is_gnu_longname() || kind.is_gnu_longlink() || kind.is_pax_local_extensions() {
        return refuse("an extension header in a block of an unknown format");
    }
    if !has_plain_format(entry.header().as_bytes()) {
        return refuse("a header of an unknown format");
    }
    // Go takes the next block for a header.
    let has_no_data = matches!(kind.as_byte(), b'1'..=b'6') || path.ends_with(b"/");
    if has_no_data && entry.size() != 0 {
        return refuse("data, although its kind has none");
    }
    let mut keys = BTreeSet::new();
    for record in entry.pax_extensions()?.into_iter().flatten() {
        let Ok(record) = record else {
            return refuse("a pax record that is malformed");
        };
        let key = record.key_bytes();
        if key.starts_with(b"GNU.sparse.") {
            return refuse("the form of a sparse file, by a pax record `GNU.sparse`");
        }
        // Go takes the last of two, and the header's own value where a record has none.
        let is_read = key == b"path" || key == b"size";
        if is_read && record.value_bytes().is_empty() {
            return refuse("a pax record without a value");
        }
        if !keys.insert(key.to_owned()) {
            return refuse("a pax record twice");
        }
    }
    Ok(())
}

/// Whether a header block has a format that all programs read alike: ustar, GNU or the oldest one.
fn has_plain_format(block: &[u8; 512]) -> bool {
    // The bytes that have another meaning in another format, where programs that write archives leave zeros.
    let unused = match &block[257..265] {
        b"ustar\x0000" => &block[500..],
        b"ustar  \0" => &block[345..],
        _ => &block[257..],
    };
    unused.iter().all(|byte| *byte == 0)
}

/// Which of the documents an entry is, if it is one.
fn document_at(path: &[u8]) -> io::Result<Option<&'static str>> {
    let cleaned = cleaned(path);
    let documents = [LAYOUT_FILE, INDEX_FILE, SAVED_FILE];
    let mut documents = documents.into_iter();
    let Some(name) = documents.find(|name| name.as_bytes() == cleaned) else {
        return Ok(None);
    };
    if path.strip_prefix(b"./").unwrap_or(path) != name.as_bytes() {
        let shown = shown(path);
        return Err(refused(&format!(
            "its entry {shown} is `{name}`, spelled differently"
        )));
    }
    Ok(Some(name))
}

/// A path as Go's `path.Clean` gives it.
fn cleaned(path: &[u8]) -> Vec<u8> {
    let is_rooted = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            b".." if is_rooted => {}
            part => parts.push(part),
        }
    }
    let relative = parts.join(&b'/');
    if is_rooted {
        [b"/", &relative[..]].concat()
    } else if relative.is_empty() {
        b".".to_vec()
    } else {
        relative
    }
}

/// The name of an image in an OCI layout. A bare tag is none: containerd puts the day of the import before it.
fn name_of(image: &Descriptor) -> Option<String> {
    let annotations = image.annotations.as_ref()?;
    let name = match annotations.get(NAME).filter(|name| !name.is_empty()) {
        Some(name) => name,
        None => annotations.get(REF_NAME)?,
    };
    name.contains(['/', ':', '@']).then(|| name.clone())
}

/// Reads a document in which every key has one meaning.
fn document<T: DeserializeOwned>(
    entry: impl Read,
    name: &str,
    check: impl Fn(&Value) -> Result<(), String>,
) -> io::Result<T> {
    let in_document = |error: serde_json::Error| {
        // The kind tells a document that is malformed from a file that cannot be read.
        let kind = error.io_error_kind().unwrap_or(io::ErrorKind::InvalidData);
        io::Error::new(kind, format!("`{name}`: {error}"))
    };
    let mut reader = serde_json::Deserializer::from_reader(io::BufReader::new(entry.take(LIMIT)));
    let value = UniqueKeys
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(in_document)?;
    check(&value).map_err(|what| refused(&format!("`{name}` has {what}")))?;
    serde_json::from_value(value).map_err(in_document)
}

fn check_layout(layout: &Value) -> Result<(), String> {
    check_key(layout, VERSION_KEY)
}

fn check_index(index: &Value) -> Result<(), String> {
    check_key(index, MANIFESTS_KEY)?;
    let manifests = index.get(MANIFESTS_KEY).and_then(Value::as_array);
    let mut manifests = manifests.into_iter().flatten();
    manifests.try_for_each(|manifest| check_key(manifest, ANNOTATIONS_KEY))
}

fn check_saved(saved: &Value) -> Result<(), String> {
    let mut images = saved.as_array().into_iter().flatten();
    images.try_for_each(|image| check_key(image, TAGS_KEY))
}

/// Refuses an object with another spelling of a key: Go takes both for the same one.
fn check_key(value: &Value, key: &str) -> Result<(), String> {
    let mut keys = value.as_object().into_iter().flat_map(Map::keys);
    let other = keys.find(|other| *other != key && folded(other) == folded(key));
    other.map_or(Ok(()), |other| {
        let shown = shown(other.as_bytes());
        Err(format!(
            "the key {shown}, which containerd takes for `{key}`"
        ))
    })
}

/// A key as Go's `encoding/json` compares it. Two letters beyond ASCII fold to letters of ASCII.
fn folded(key: &str) -> String {
    let letters = key.chars().map(|letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    });
    letters.collect()
}

/// Reads a JSON value, and refuses an object that has a key twice.
#[derive(Clone, Copy)]
struct UniqueKeys;

impl<'de> DeserializeSeed<'de> for UniqueKeys {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            if values.contains_key(&key) {
                let shown = shown(key.as_bytes());
                return Err(A::Error::custom(format!("the key {shown} is there twice")));
            }
            let value = object.next_value_seed(self)?;
            values.insert(key, value);
        }
        Ok(values.into())
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The beginning of a name from the archive, with every letter visible.
fn shown(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let begin: String = name.chars().take(200).collect();
    format!("`{}`", visible(&begin))
}

#[cfg(test)]
mod tests {
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
            let saved = format!(
                r#"[{{"RepoTags":["app:1"],"{key}":["registry.k8s.io/kube-proxy:v1.36.2"]}}]"#
            );
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
}
