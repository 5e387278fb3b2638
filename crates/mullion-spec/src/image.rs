//! References of container images: registry, repository, tag and digest.
//!
//! The grammar is that of the distribution specification, read by `oci-spec`: `name:tag@sha256:…` is one reference, and
//! `nginx` is `docker.io/library/nginx:latest`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use oci_spec::distribution::Reference;

/// A reference of a container image, with what people leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference {
    reference: Reference,
    is_pinned: bool,
}

/// A text that names no container image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImageReferenceError(String);

impl ImageReference {
    /// The registry: a host, and a port where it has one.
    pub fn registry(&self) -> &str {
        self.reference.registry()
    }

    /// The repository, without the registry.
    pub fn repository(&self) -> &str {
        self.reference.repository()
    }

    /// What a registry is asked for: the digest where there is one, else the tag.
    pub fn version(&self) -> &str {
        let digest = self.reference.digest();
        digest.or(self.reference.tag()).unwrap_or("latest")
    }

    /// Whether the text itself has a tag or a digest.
    pub const fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    /// The name that container runtimes keep the image under: they leave out a tag beside a digest.
    pub fn canonical(&self) -> String {
        let (registry, repository) = (self.registry(), self.repository());
        let mark = if self.reference.digest().is_some() {
            '@'
        } else {
            ':'
        };
        format!("{registry}/{repository}{mark}{}", self.version())
    }
}

impl FromStr for ImageReference {
    type Err = ImageReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let reference: Reference =
            text.parse()
                .map_err(|error: oci_spec::distribution::ParseError| {
                    ImageReferenceError(error.to_string())
                })?;
        let last = text.rsplit('/').next().unwrap_or(text);
        Ok(Self {
            is_pinned: last.contains([':', '@']),
            reference,
        })
    }
}

impl Display for ImageReference {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.reference.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:6a2f1e8d6f4ad1a5c6cf8a3d6a9e1c0b7d5f3e2a1b0c9d8e7f6a5b4c3d2e1f00";

    #[test]
    fn a_tag_beside_a_digest_is_one_reference() {
        let text = format!("localhost:5000/team/app:1.0@{DIGEST}");
        let image: ImageReference = text.parse().unwrap();
        assert_eq!(image.registry(), "localhost:5000");
        assert_eq!(image.repository(), "team/app");
        assert_eq!(image.version(), DIGEST);
        assert_eq!(
            image.canonical(),
            format!("localhost:5000/team/app@{DIGEST}")
        );
        assert_eq!(image.to_string(), text);
    }

    #[test]
    fn what_people_leave_out_is_filled_in() {
        for (text, canonical, is_pinned) in [
            ("nginx", "docker.io/library/nginx:latest", false),
            ("nginx:1", "docker.io/library/nginx:1", true),
            ("team/app:1", "docker.io/team/app:1", true),
            ("r.example:5000/app", "r.example:5000/app:latest", false),
            ("localhost/app:1", "localhost/app:1", true),
            (
                "registry.k8s.io/pause:3.10",
                "registry.k8s.io/pause:3.10",
                true,
            ),
        ] {
            let image: ImageReference = text.parse().unwrap();
            assert_eq!(image.canonical(), canonical, "{text}");
            let host = canonical.split('/').next();
            assert_eq!(Some(image.registry()), host, "{text}");
            assert_eq!(image.is_pinned(), is_pinned, "{text}");
        }
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for text in [
            "",
            "App:1",
            "a b:1",
            "app:",
            "app@sha256:12",
            "https://r.example/app:1",
            "r.example/app:1/../x",
            "app:1@md5:00112233445566778899aabbccddeeff",
        ] {
            assert!(text.parse::<ImageReference>().is_err(), "{text}");
        }
    }
}
