//! What a cluster file brings along to vouch for artifacts, and how far its word counts.
//!
//! A file may come from somebody else, and so may the mirror, the certificates and the list of digests that it names.
//! The cache and the ledger serve every cluster of the user. So what only a file's own sources vouch for counts for
//! files that name the same sources: one hostile file neither replaces another cluster's programs nor forbids them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use mullion_rights::Opened;
use mullion_wire::Sha256Digest;

use crate::record::{Origin, Witness};

/// More than any list or file of certificates has.
const LIMIT: u64 = 16 << 20;

/// The sources of its own that a cluster file names.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    mirror: Option<String>,
    digests: Option<PathBuf>,
    trust: Vec<PathBuf>,
    /// The files' digests, read when they are first needed.
    read: Arc<OnceLock<Words>>,
}

/// Each source in words; none where the file names none.
#[derive(Debug)]
struct Words {
    mirror: Option<String>,
    digests: Option<String>,
    trust: Option<String>,
}

impl Claims {
    /// A mirror, a list of digests and files with certificates.
    pub fn new(mirror: Option<String>, digests: Option<PathBuf>, trust: Vec<PathBuf>) -> Self {
        Self {
            mirror,
            digests,
            trust,
            read: Arc::default(),
        }
    }

    fn words(&self) -> &Words {
        self.read.get_or_init(|| {
            let mirror = self.mirror.as_ref();
            let trust = self.trust.iter().map(|file| fingerprint(file));
            let trust = trust.collect::<Vec<_>>().join("+");
            Words {
                mirror: mirror.map(|mirror| format!("mirror {}", crate::fetch::shown(mirror))),
                digests: self.digests.as_deref().map(fingerprint),
                trust: (!trust.is_empty()).then_some(trust),
            }
        })
    }

    fn of_mirror(&self) -> Option<String> {
        let words = self.words();
        joined(&[
            words.mirror.clone(),
            words.trust.as_ref().map(|trust| format!("trust {trust}")),
        ])
    }

    fn of_trust(&self) -> Option<String> {
        let trust = self.words().trust.as_ref();
        joined(&[trust.map(|trust| format!("trust {trust}"))])
    }

    fn of_list(&self) -> Option<String> {
        let list = self.words().digests.as_ref();
        joined(&[list.map(|list| format!("digests {list}"))])
    }

    /// All sources that the file names, in words. None where it names none.
    pub fn whole(&self) -> Option<String> {
        joined(&[self.of_mirror(), self.of_list()])
    }

    /// The sources of the file that something of this origin depends on. None where it counts for every file.
    pub(crate) fn scope(&self, origin: &Origin) -> Option<String> {
        match origin {
            Origin::Upstream { witness, .. } | Origin::Mirror { witness, .. } => match witness {
                Witness::Catalog => None,
                Witness::DigestList => self.of_list(),
                Witness::MirrorRecord | Witness::MirrorChecksum | Witness::MirrorManifest => {
                    self.of_mirror()
                }
                Witness::Connection if matches!(origin, Origin::Mirror { .. }) => self.of_mirror(),
                // Upstream's word, over a connection that the file's certificates may have opened.
                Witness::ChecksumFile | Witness::Manifest | Witness::Connection => self.of_trust(),
            },
            Origin::Given => None,
            // Made of parts that may come from any of them.
            Origin::Archive { .. } | Origin::Build | Origin::Made => self.whole(),
        }
    }

    /// Every scope that an item of this file may have.
    pub(crate) fn scopes(&self) -> Vec<String> {
        let all = [
            self.of_trust(),
            self.of_mirror(),
            self.of_list(),
            self.whole(),
        ];
        let mut scopes: Vec<_> = all.into_iter().flatten().collect();
        scopes.sort();
        scopes.dedup();
        scopes
    }
}

fn joined(words: &[Option<String>]) -> Option<String> {
    let words: Vec<_> = words.iter().flatten().map(String::as_str).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// A file in a word. One that cannot be read vouches for nothing, and fails where it is used.
fn fingerprint(file: &Path) -> String {
    let bytes = Opened::by_invoker(file).and_then(|opened| opened.bytes(LIMIT));
    bytes.map_or_else(
        |_| "unreadable".into(),
        |bytes| Sha256Digest::of(&bytes).as_str()[..16].to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_10_what_a_file_vouches_for_depends_on_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let (list, roots) = (folder.path().join("list"), folder.path().join("roots"));
        fs_err::write(&list, "a").unwrap();
        fs_err::write(&roots, "b").unwrap();
        let plain = Claims::default();
        let mirror = Some("https://me:secret@m.example".into());
        let full = Claims::new(mirror, Some(list), vec![roots]);
        let address = String::new;
        for (origin, words) in [
            (
                Origin::Mirror {
                    address: address(),
                    witness: Witness::MirrorRecord,
                },
                ["mirror https://m.example", "trust "].as_slice(),
            ),
            (
                Origin::Mirror {
                    address: address(),
                    witness: Witness::DigestList,
                },
                &["digests "],
            ),
            (
                Origin::Upstream {
                    address: address(),
                    witness: Witness::ChecksumFile,
                },
                &["trust "],
            ),
            (Origin::Made, &["mirror ", "trust ", "digests "]),
        ] {
            assert_eq!(plain.scope(&origin), None);
            let scope = full.scope(&origin).unwrap();
            assert!(!scope.contains("secret"), "{scope}");
            assert_eq!(scope.split(", ").count(), words.len(), "{scope}");
            assert!(words.iter().all(|word| scope.contains(word)), "{scope}");
        }
        let catalog = Origin::Mirror {
            address: address(),
            witness: Witness::Catalog,
        };
        assert_eq!(full.scope(&catalog), None);
        assert_eq!(full.scopes().len(), 4);
        assert_eq!(plain.scopes(), Vec::<String>::new());
    }
}
