//! Images from a registry: manifests, then blobs by their digests, into an archive.

use std::path::PathBuf;

use fs_err as fs;
use mullion_spec::image::ImageReference;
use mullion_spec::words::Os;
use mullion_wire::Sha256Digest;
use serde_json::Value;

use super::archive::{Blob, Content, write_layout};
use crate::error::SupplyError;
use crate::fetch::{Expect, Fetch, FetchError, shown};
use crate::item::Item;
use crate::job::Job;
use crate::record::{Draft, Origin, Record};
use crate::store::{Entry, StoreError};

const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";
const MANIFEST_LIMIT: u64 = 4 << 20;

/// Where an image is, and by which name it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The registry's address, up to `/v2/`.
    base: String,
    repository: String,
    /// A tag or a digest.
    tag: String,
    /// The name that nodes ask for.
    name: String,
}

/// Why an image could not be pulled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PullError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PullError {
    pub(crate) fn into_supply(self, item: &Item) -> SupplyError {
        match self {
            Self::Fetch(source) => SupplyError::fetch(item, source),
            Self::Store(source) => source.into(),
        }
    }
}

impl Place {
    /// The registry that a reference names.
    pub(crate) fn upstream(reference: &str) -> Option<Self> {
        let image: ImageReference = reference.parse().ok()?;
        let server = match image.registry() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        // As container engines have it: only this computer itself is spoken to in the clear.
        let name = server.split(':').next().unwrap_or(server);
        let scheme = match name {
            "localhost" | "127.0.0.1" => "http",
            _ => "https",
        };
        Some(Self {
            base: format!("{scheme}://{server}"),
            repository: image.repository().to_owned(),
            tag: image.version().to_owned(),
            name: image.canonical(),
        })
    }

    /// The same image at a mirror, whose repositories are named after the registries.
    pub(crate) fn mirrored(reference: &str, mirror: &str) -> Option<Self> {
        let image: ImageReference = reference.parse().ok()?;
        Some(Self {
            base: mirror.trim_end_matches('/').to_owned(),
            repository: format!("{}/{}", image.registry(), image.repository()),
            tag: image.version().to_owned(),
            name: image.canonical(),
        })
    }

    /// The same image, by a digest.
    pub(crate) fn at(self, digest: &Sha256Digest) -> Self {
        Self {
            tag: format!("sha256:{digest}"),
            ..self
        }
    }

    fn address(&self, kind: &str, what: &str) -> String {
        format!("{}/v2/{}/{kind}/{what}", self.base, self.repository)
    }
}

/// The digest of what a registry has under a name; none where it cannot be asked, or does not have it.
pub(crate) fn digest(job: &Job<'_>, place: &Place) -> Result<Option<Sha256Digest>, FetchError> {
    let mut registry = Registry {
        fetch: Fetch::new(job.sources, job.attendant),
        place,
    };
    match registry.manifest(&place.tag) {
        Ok(manifest) => Ok(Some(Sha256Digest::of(&manifest.bytes))),
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error),
    }
}

/// An image that was pulled and does not have its place yet.
pub(crate) struct Pulled {
    new: PathBuf,
    record: Record,
    blobs: Vec<PathBuf>,
}

impl Pulled {
    /// The digest of its archive.
    pub(crate) const fn sha256(&self) -> &Sha256Digest {
        &self.record.sha256
    }

    /// Gives it its place in the cache.
    pub(crate) fn keep(self, entry: &Entry<'_>) -> Result<PathBuf, StoreError> {
        let kept = entry.keep(&self.new, self.record)?;
        for path in self.blobs {
            // A later pull of the same item removes what stays.
            let _ = fs::remove_file(path);
        }
        Ok(kept)
    }
}

/// Pulls an image for a system.
pub(crate) fn pull(
    job: &Job<'_>,
    entry: &Entry<'_>,
    place: &Place,
    os: Os,
    origin: Origin,
) -> Result<Pulled, PullError> {
    let mut registry = Registry {
        fetch: Fetch::new(job.sources, job.attendant),
        place,
    };
    job.say(format!("pulling {}", place.name));
    let top = registry.manifest(&place.tag)?;
    let (manifest, manifests) = registry.choose(top, os)?;

    let mut blobs = Vec::new();
    let mut paths = Vec::new();
    for one in manifests.iter().chain([&manifest]) {
        for digest in one.blobs() {
            let path = entry.partial(&format!("{digest}.blob"))?;
            if !paths.contains(&path) {
                let size = registry.blob(&digest, &path)?;
                blobs.push(Blob {
                    digest,
                    size,
                    content: Content::File(path.clone()),
                });
                paths.push(path);
            }
        }
    }
    blobs.extend(manifests.into_iter().map(|one| Blob::of_bytes(one.bytes)));
    let file = entry.item.default_file();
    let new = entry.temporary(&file)?;
    let go_on = || !job.attendant.is_called_off();
    let kind = manifest.kind();
    let top = Blob::of_bytes(manifest.bytes);
    let (sha256, size) =
        write_layout(&new, &place.name, &kind, top, blobs, &go_on).map_err(|error| {
            if crate::digest::is_stop(&error) {
                FetchError::CalledOff
            } else {
                FetchError::File(error)
            }
        })?;
    let draft = Draft::new(entry.item.clone(), file, origin);
    Ok(Pulled {
        new,
        record: draft.finish(sha256, size),
        blobs: paths,
    })
}

/// A manifest or an index.
struct Manifest {
    bytes: Vec<u8>,
    json: Value,
}

impl Manifest {
    fn is_index(&self) -> bool {
        self.json["manifests"].is_array()
    }

    fn kind(&self) -> String {
        let fallback = if self.is_index() {
            "application/vnd.oci.image.index.v1+json"
        } else {
            "application/vnd.oci.image.manifest.v1+json"
        };
        self.json["mediaType"].as_str().unwrap_or(fallback).into()
    }

    /// The blobs that it names: its configuration and its layers.
    fn blobs(&self) -> Vec<Sha256Digest> {
        let layers = self.json["layers"].as_array().into_iter().flatten();
        std::iter::once(&self.json["config"])
            .chain(layers)
            // A layer that lies elsewhere by licence is fetched by whoever runs the image.
            .filter(|blob| blob["urls"].as_array().is_none_or(Vec::is_empty))
            .filter_map(digest_of)
            .collect()
    }
}

fn digest_of(descriptor: &Value) -> Option<Sha256Digest> {
    let digest = descriptor["digest"].as_str()?;
    digest.strip_prefix("sha256:")?.parse().ok()
}

struct Registry<'a> {
    fetch: Fetch<'a>,
    place: &'a Place,
}

impl Registry<'_> {
    /// The manifest of a tag or a digest; one of a digest has it.
    fn manifest(&mut self, tag: &str) -> Result<Manifest, FetchError> {
        let address = self.place.address("manifests", tag);
        let answer = self.fetch.get(&address, &[("accept", ACCEPT)])?;
        let answer = if answer.status == 401 {
            let challenge = answer.header("www-authenticate").map(str::to_owned);
            self.log_in(challenge.as_deref(), &address)?;
            self.fetch.get(&address, &[("accept", ACCEPT)])?
        } else {
            answer
        };
        if let Some(refusal) = answer.refusal() {
            return Err(refusal);
        }
        let bytes = answer.bytes(MANIFEST_LIMIT)?;
        if let Some(expected) = tag.strip_prefix("sha256:") {
            let found = Sha256Digest::of(&bytes);
            let expected = expected.parse().map_err(|_| FetchError::Address {
                address: shown(&address),
            })?;
            if found != expected {
                return Err(FetchError::Digest {
                    address: shown(&address),
                    expected,
                    found,
                });
            }
        }
        let json: Value = serde_json::from_slice(&bytes).map_err(|_| FetchError::Unexpected {
            address: shown(&address),
            expected: "a manifest",
        })?;
        Ok(Manifest { bytes, json })
    }

    /// Of an index, the part for a system: its one manifest, or a smaller index and the manifests it names.
    fn choose(&mut self, top: Manifest, os: Os) -> Result<(Manifest, Vec<Manifest>), FetchError> {
        if !top.is_index() {
            return Ok((top, Vec::new()));
        }
        let os = os.to_string();
        let fits = |entry: &&Value| {
            entry["platform"]["os"] == os.as_str() && entry["platform"]["architecture"] == "amd64"
        };
        let entries = top.json["manifests"].as_array().into_iter().flatten();
        let chosen: Vec<_> = entries.filter(fits).cloned().collect();
        let mut manifests = Vec::new();
        for entry in &chosen {
            // Anything but a digest would name a manifest that nothing in the index vouches for.
            let digest = digest_of(entry).ok_or_else(|| FetchError::Unexpected {
                address: self.place.name.clone(),
                expected: "an index of digests",
            })?;
            manifests.push(self.manifest(&format!("sha256:{digest}"))?);
        }
        match (manifests.pop(), manifests.is_empty()) {
            (None, _) => Err(FetchError::NotFound {
                address: format!("{} for {os} on amd64", self.place.name),
            }),
            (Some(only), true) => Ok((only, Vec::new())),
            (Some(last), false) => {
                // Windows has one for each of its builds: the node takes its own.
                manifests.push(last);
                let mut json = top.json;
                json["manifests"] = Value::Array(chosen);
                let bytes = serde_json::to_vec(&json).unwrap_or_default();
                Ok((Manifest { bytes, json }, manifests))
            }
        }
    }

    fn blob(&mut self, digest: &Sha256Digest, path: &std::path::Path) -> Result<u64, FetchError> {
        let address = self.place.address("blobs", &format!("sha256:{digest}"));
        let expect = Expect::Sha256(digest.clone());
        match self.fetch.file(&address, path, &expect) {
            // What let us in has run out.
            Err(FetchError::Status { status: 401, .. }) => {
                let answer = self.fetch.get(&address, &[])?;
                let challenge = answer.header("www-authenticate").map(str::to_owned);
                self.log_in(challenge.as_deref(), &address)?;
                self.fetch.file(&address, path, &expect)
            }
            other => other,
        }
        .map(|got| got.size)
    }

    /// Gets a token that anybody may have.
    fn log_in(&mut self, challenge: Option<&str>, address: &str) -> Result<(), FetchError> {
        let refused = || FetchError::Status {
            address: shown(address),
            status: 401,
        };
        let challenge = challenge.and_then(Challenge::parse).ok_or_else(refused)?;
        let fetch = Fetch::new(self.fetch.sources, self.fetch.attendant);
        let text = fetch.text(&challenge.address(&self.place.repository), 1 << 20)?;
        let json: Value = serde_json::from_str(&text).map_err(|_| refused())?;
        let token = json["token"].as_str().or(json["access_token"].as_str());
        self.fetch
            .authorize(format!("Bearer {}", token.ok_or_else(refused)?));
        Ok(())
    }
}

/// What a registry wants before it answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Challenge {
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

impl Challenge {
    /// Reads `Bearer realm="…",service="…",scope="…"`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, mut rest) = text.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        while let Some((name, after)) = rest.split_once('=') {
            let (value, next) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_once(',').unwrap_or((after, "")),
            };
            match name.trim_matches([' ', ',']) {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                "scope" => scope = Some(value.to_owned()),
                _ => {}
            }
            rest = next;
        }
        Some(Self {
            realm: realm?,
            service,
            scope,
        })
    }

    pub(crate) fn address(&self, repository: &str) -> String {
        let scope = self
            .scope
            .clone()
            .unwrap_or_else(|| format!("repository:{repository}:pull"));
        let mut address = format!("{}?scope={}", self.realm, percent(&scope));
        if let Some(service) = &self.service {
            address.push_str("&service=");
            address.push_str(&percent(service));
        }
        address
    }
}

/// A value as a query holds it.
fn percent(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_its_registry() {
        let place = Place::upstream("registry.k8s.io/coredns/coredns:v1.14.2").unwrap();
        assert_eq!(
            place.address("manifests", &place.tag),
            "https://registry.k8s.io/v2/coredns/coredns/manifests/v1.14.2"
        );
        let place = Place::upstream("docker.io/busybox").unwrap();
        assert_eq!(
            place.address("manifests", &place.tag),
            "https://registry-1.docker.io/v2/library/busybox/manifests/latest"
        );
        let place = Place::mirrored("registry.k8s.io/pause:3.10", "https://m.example/").unwrap();
        assert_eq!(
            place.address("manifests", &place.tag),
            "https://m.example/v2/registry.k8s.io/pause/manifests/3.10"
        );
        let digest = "6a2f1e8d6f4ad1a5c6cf8a3d6a9e1c0b7d5f3e2a1b0c9d8e7f6a5b4c3d2e1f00";
        let place = Place::upstream(&format!("r.example:5000/a/b:1.0@sha256:{digest}")).unwrap();
        assert_eq!(
            place.address("manifests", &place.tag),
            format!("https://r.example:5000/v2/a/b/manifests/sha256:{digest}")
        );
        assert_eq!(place.name, format!("r.example:5000/a/b@sha256:{digest}"));
        assert!(
            Place::upstream("localhost:5000/a:b")
                .unwrap()
                .base
                .starts_with("http://")
        );
    }

    #[test]
    fn a_challenge_leads_to_the_token() {
        let text = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull""#;
        let challenge = Challenge::parse(text).unwrap();
        assert_eq!(
            challenge.address("x"),
            "https://auth.example/token?scope=repository:a/b:pull&service=registry.example"
        );
        assert_eq!(Challenge::parse("Basic realm=\"x\""), None);
        let short = Challenge::parse("Bearer realm=\"https://a/t\"").unwrap();
        assert_eq!(
            short.address("a/b"),
            "https://a/t?scope=repository:a/b:pull"
        );
    }
}
