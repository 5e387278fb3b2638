//! What the cache holds: parts, root file systems, and layers that images share.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use mullion_plan::{Part, PartKind};
use serde::{Deserialize, Serialize};

/// One thing in the cache or in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Item {
    /// A program, image or archive.
    Part(Part),
    /// A distribution's root file system.
    Root {
        /// The suite, for people.
        suite: String,
        /// The fingerprint of the wish.
        fingerprint: String,
    },
    /// An image layer with programs of the distribution.
    Layer {
        /// The suite, for people.
        suite: String,
        /// The fingerprint of the wish.
        fingerprint: String,
    },
}

impl Item {
    /// Its folder, below the cache's own.
    pub fn folder(&self) -> PathBuf {
        match self {
            Self::Part(part) => {
                // Two images of the user's never share a folder: no reference has a `+` of its own.
                let apart = |text: &str| text.replace('/', "+").replace(':', "++");
                let folder = format!("{}@{}", apart(&part.name), apart(&part.version));
                ["parts", &part.os.to_string(), kind_word(part.kind)]
                    .iter()
                    .map(|word| (*word).to_owned())
                    .chain([plain(&folder)])
                    .collect()
            }
            Self::Root { suite, fingerprint } => keyed("roots", suite, fingerprint),
            Self::Layer { suite, fingerprint } => keyed("layers", suite, fingerprint),
        }
    }

    /// The name of its file, where nobody names another.
    pub fn default_file(&self) -> String {
        match self {
            Self::Part(part) => match (part.kind, part.os) {
                (PartKind::Program, mullion_spec::words::Os::Windows) => {
                    format!("{}.exe", plain(&part.name))
                }
                (PartKind::Program, _) => plain(&part.name),
                (PartKind::Image, _) => format!("{}.tar", plain(&part.name)),
                (PartKind::Archive, _) => format!("{}.archive", plain(&part.name)),
            },
            Self::Root { .. } => "root.tar".into(),
            Self::Layer { .. } => "layer.tar".into(),
        }
    }

    /// Whether a file of that name may be this item's. Of archives only the beginning is known.
    pub(crate) fn may_be_called(&self, file: &str) -> bool {
        match self {
            Self::Part(part) if part.kind == PartKind::Archive => {
                let name = part.name.strip_suffix("-archive").unwrap_or(&part.name);
                file.starts_with(name)
            }
            _ => file == self.default_file(),
        }
    }

    /// The part, if it is one.
    pub fn part(&self) -> Option<&Part> {
        match self {
            Self::Part(part) => Some(part),
            Self::Root { .. } | Self::Layer { .. } => None,
        }
    }

    /// The name of its lock file. Locks lie beside the folders, not in them, so that removing an item never takes
    /// away the lock that somebody waits for.
    pub(crate) fn lock_name(&self) -> String {
        let folder = self.folder();
        let words = folder
            .components()
            .map(|word| word.as_os_str().to_string_lossy());
        words.collect::<Vec<_>>().join("+")
    }
}

impl From<Part> for Item {
    fn from(part: Part) -> Self {
        Self::Part(part)
    }
}

impl Display for Item {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => part.fmt(out),
            Self::Root { suite, fingerprint } => write!(out, "root of {suite} {fingerprint}"),
            Self::Layer { suite, fingerprint } => write!(out, "layer of {suite} {fingerprint}"),
        }
    }
}

fn keyed(top: &str, suite: &str, fingerprint: &str) -> PathBuf {
    PathBuf::from(top).join(plain(&format!("{suite}-{fingerprint}")))
}

pub(crate) const fn kind_word(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Program => "program",
        PartKind::Image => "image",
        PartKind::Archive => "archive",
    }
}

/// A name as one component of a path: nothing in it leads elsewhere, whoever wrote it.
pub(crate) fn plain(name: &str) -> String {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || "._@+-".contains(letter);
    let plain: String = name
        .chars()
        .map(|letter| if keep(letter) { letter } else { '_' })
        .collect();
    if plain.is_empty() || plain.starts_with('.') {
        format!("_{plain}")
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use mullion_spec::words::Os;

    use super::*;

    fn part(name: &str, version: &str) -> Part {
        Part {
            name: name.into(),
            os: Os::Linux,
            kind: PartKind::Program,
            version: version.into(),
        }
    }

    #[test]
    fn a_part_lies_where_its_name_says() {
        let item = Item::from(part("kubeadm", "1.36.4"));
        assert_eq!(
            item.folder(),
            PathBuf::from("parts/linux/program/kubeadm@1.36.4")
        );
        assert_eq!(item.default_file(), "kubeadm");
    }

    #[test]
    fn images_of_different_names_have_different_folders() {
        let names = [
            "r.example/a/b",
            "r.example/a_b",
            "r.example:1/a",
            "r.example/1/a",
        ];
        let folders: std::collections::BTreeSet<_> = names
            .iter()
            .map(|name| Item::from(part(name, "1")).folder())
            .collect();
        assert_eq!(folders.len(), names.len(), "{folders:?}");
        let digest = Item::from(part("a", "sha256:12")).folder();
        assert_ne!(digest, Item::from(part("a", "sha256_12")).folder());
    }

    #[test]
    fn no_name_leads_out_of_the_cache() {
        for name in ["../../etc", "..", "a/b", ""] {
            let folder = Item::from(part(name, "../1")).folder();
            assert_eq!(folder.components().count(), 4, "{}", folder.display());
            assert!(!folder.to_string_lossy().contains("/.."), "{name}");
        }
    }

    #[test]
    fn an_item_reads_back_as_it_was_written() {
        for item in [
            Item::from(part("kubeadm", "1.36.4")),
            Item::Root {
                suite: "bookworm".into(),
                fingerprint: "abc".into(),
            },
        ] {
            let text = serde_json::to_string(&item).unwrap();
            assert_eq!(serde_json::from_str::<Item>(&text).unwrap(), item);
        }
    }
}
