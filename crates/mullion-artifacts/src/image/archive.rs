//! The archive: an OCI layout in one tar file.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_spec::image::ImageReference;
use mullion_wire::{Hashing, Sha256Digest};
use serde_json::{Value, json};
use tar::{Builder, EntryType};

use super::layer::header;
use crate::digest::{Asking, hash_file};

/// The moment that everything here was made at.
const CREATED: &str = "1970-01-01T00:00:00Z";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image that is made here.
pub(super) struct Image<'a> {
    /// The name by which it is asked for.
    pub(super) reference: &'a str,
    pub(super) entrypoint: &'a [String],
    /// Uncompressed, the lowest first.
    pub(super) layers: &'a [PathBuf],
}

/// A blob: its digest, its length, and where its bytes are.
pub(super) struct Blob {
    pub(super) digest: Sha256Digest,
    pub(super) size: u64,
    pub(super) content: Content,
}

pub(super) enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl Blob {
    pub(super) fn of_bytes(bytes: Vec<u8>) -> Self {
        Self {
            digest: Sha256Digest::of(&bytes),
            size: bytes.len() as u64,
            content: Content::Bytes(bytes),
        }
    }

    fn of_file(path: &Path, go_on: &dyn Fn() -> bool) -> io::Result<Self> {
        let (digest, size) = hash_file(path, &mut |_| go_on())?
            .ok_or_else(|| io::Error::other(crate::digest::Stopped))?;
        Ok(Self {
            digest,
            size,
            content: Content::File(path.to_owned()),
        })
    }

    fn descriptor(&self, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": format!("sha256:{}", self.digest), "size": self.size})
    }
}

impl Image<'_> {
    /// Writes the archive, and gives its digest and length.
    pub(super) fn write(
        &self,
        to: &Path,
        go_on: &dyn Fn() -> bool,
    ) -> io::Result<(Sha256Digest, u64)> {
        let layers = self
            .layers
            .iter()
            .map(|path| Blob::of_file(path, go_on))
            .collect::<io::Result<Vec<_>>>()?;
        let ids: Vec<_> = layers
            .iter()
            .map(|layer| format!("sha256:{}", layer.digest))
            .collect();
        let history = vec![json!({"created": CREATED, "created_by": "mullion"}); layers.len()];
        let config = Blob::of_bytes(json_bytes(&json!({
            "created": CREATED,
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": self.entrypoint,
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": ids},
            "history": history,
        }))?);
        let manifest = Blob::of_bytes(json_bytes(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(CONFIG),
            "layers": layers.iter().map(|layer| layer.descriptor(LAYER)).collect::<Vec<_>>(),
        }))?);
        let mut blobs = vec![config];
        blobs.extend(layers);
        write_layout(to, self.reference, MANIFEST, manifest, blobs, go_on)
    }
}

/// The tag or the digest that a reference names.
fn version(reference: &str) -> String {
    let image = reference.parse::<ImageReference>();
    image.map_or_else(|_| "latest".into(), |image| image.version().to_owned())
}

/// Writes an OCI layout with one manifest and the blobs it names.
pub(super) fn write_layout(
    to: &Path,
    reference: &str,
    kind: &str,
    manifest: Blob,
    blobs: Vec<Blob>,
    go_on: &dyn Fn() -> bool,
) -> io::Result<(Sha256Digest, u64)> {
    let mut entry = manifest.descriptor(kind);
    entry["annotations"] = json!({
        // containerd's own way to be told the whole name; the other is what the layout's specification has.
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": version(reference),
    });
    entry["platform"] = json!({"architecture": "amd64", "os": "linux"});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    let file = BufWriter::new(fs::File::create(to)?);
    let mut tar = Builder::new(Hashing::new(file));
    let mut add = |path: &str, bytes: &[u8]| {
        let mut header = header(EntryType::Regular, 0o644, bytes.len() as u64);
        tar.append_data(&mut header, path, bytes)
    };
    add(
        "oci-layout",
        &json_bytes(&json!({"imageLayoutVersion": "1.0.0"}))?,
    )?;
    add("index.json", &json_bytes(&index)?)?;
    let mut blobs = blobs;
    blobs.insert(0, manifest);
    blobs.sort_by(|a, b| a.digest.cmp(&b.digest));
    blobs.dedup_by(|a, b| a.digest == b.digest);
    for blob in blobs {
        let path = format!("blobs/sha256/{}", blob.digest);
        let mut header = header(EntryType::Regular, 0o644, blob.size);
        match blob.content {
            Content::Bytes(bytes) => tar.append_data(&mut header, path, bytes.as_slice())?,
            Content::File(file) => {
                let mut ask = |_| go_on();
                let reader = Asking {
                    inner: fs::File::open(file)?,
                    go_on: &mut ask,
                    done: 0,
                    next: 0,
                };
                tar.append_data(&mut header, path, reader)?;
            }
        }
    }
    let (mut file, digest, size) = tar.into_inner()?.finish();
    io::Write::flush(&mut file)?;
    Ok((digest, size))
}

fn json_bytes(value: &Value) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_layout_names_the_tag_or_the_digest() {
        let digest = format!("sha256:{}", "5a".repeat(32));
        for (reference, expected) in [
            ("r.example:5000/a:1.2", "1.2"),
            ("r.example:5000/a", "latest"),
            (
                format!("r.example:5000/a@{digest}").as_str(),
                digest.as_str(),
            ),
        ] {
            assert_eq!(version(reference), expected);
        }
    }
}
