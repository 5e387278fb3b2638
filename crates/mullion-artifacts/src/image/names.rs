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
        // Go reads `-0` as a number, and the `tar` crate takes the header's own size in its place.
        if key == b"size" && !record.value_bytes().iter().all(u8::is_ascii_digit) {
            return refuse("a size that is no plain number");
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
mod tests;
