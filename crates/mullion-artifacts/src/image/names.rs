//! The names in an archive of images, as `ctr images import` gives them to what it imports.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, Read};

use flate2::read::MultiGzDecoder;
use mullion_spec::image::ImageReference;
use mullion_tar::TarReader;
use serde::Deserialize;

/// The most that is read of one document in an archive; containerd reads as much.
const LIMIT: u64 = 20 << 20;

/// The most that is unpacked of a compressed archive: a few bytes can come to any number.
const UNPACKED: u64 = 64 << 30;

/// What a document in an archive may say of an image's name.
const NAME: &str = "io.containerd.image.name";
const REF_NAME: &str = "org.opencontainers.image.ref.name";

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

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
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
}

/// The names of the images in an archive, as Docker or an OCI tool wrote it; `None` for a form that is not read here.
/// containerd keeps no image without a name.
pub fn archive_names(reader: impl Read) -> io::Result<Option<BTreeSet<String>>> {
    let mut reader = io::BufReader::with_capacity(1 << 16, reader);
    let head = reader.fill_buf()?;
    if head.starts_with(&ZSTD) {
        return Ok(None);
    }
    if head.starts_with(&GZIP) {
        return of_tar(MultiGzDecoder::new(reader).take(UNPACKED)).map(Some);
    }
    of_tar(reader).map(Some)
}

fn of_tar(reader: impl Read) -> io::Result<BTreeSet<String>> {
    let (mut layout, mut index, mut saved) = (None::<Layout>, None::<Index>, None::<Vec<Saved>>);
    let mut archive = TarReader::new(reader);
    for entry in archive.entries()? {
        let entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path()?.into_owned();
        let path = path.strip_prefix(".").unwrap_or(&path).to_path_buf();
        match path.to_str() {
            Some("oci-layout") => layout = Some(document(entry)?),
            Some("index.json") => index = Some(document(entry)?),
            Some("manifest.json") => saved = Some(document(entry)?),
            _ => {}
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

/// The name of an image in an OCI layout. A bare tag is none: containerd puts the day of the import before it.
fn name_of(image: &Descriptor) -> Option<String> {
    let annotations = image.annotations.as_ref()?;
    let name = match annotations.get(NAME).filter(|name| !name.is_empty()) {
        Some(name) => name,
        None => annotations.get(REF_NAME)?,
    };
    name.contains(['/', ':', '@']).then(|| name.clone())
}

fn document<T: for<'de> Deserialize<'de>>(entry: impl Read) -> io::Result<T> {
    Ok(serde_json::from_reader(entry.take(LIMIT))?)
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
