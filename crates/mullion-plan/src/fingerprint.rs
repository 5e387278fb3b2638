//! Fingerprints: how two states of a thing are told apart without keeping either.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::wanted;

/// The first 16 hexadecimal digits of a SHA-256 over a value's JSON.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of a value: equal values have equal ones, on every computer.
    pub fn of(value: &impl Serialize) -> Self {
        // A value that JSON cannot hold (a path that is not UTF-8) is told apart by why.
        let bytes =
            serde_json::to_vec(value).unwrap_or_else(|error| error.to_string().into_bytes());
        let digest = Sha256::digest(&bytes);
        let mut text = String::with_capacity(16);
        for byte in digest.iter().take(8) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// The hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for Fingerprint {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

/// What went into a blueprint, topic by topic: a version number, or a fingerprint of settings.
///
/// Kept beside the fingerprint of the whole so that a plan can say *what* changed. Machines of one
/// group share it, so copies are cheap.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema)]
#[schemars(transparent)]
pub struct Topics(#[schemars(with = "BTreeMap<String, String>")] Arc<BTreeMap<String, String>>);

impl Topics {
    /// Those topics.
    pub fn new(topics: BTreeMap<String, String>) -> Self {
        Self(Arc::new(topics))
    }

    /// The value of one topic.
    pub fn get(&self, topic: &str) -> Option<&str> {
        self.0.get(topic).map(String::as_str)
    }

    /// Every topic whose value differs, with the old and the new value, in the order of their names.
    pub fn changes<'a>(
        &'a self,
        new: &'a Self,
    ) -> impl Iterator<Item = (&'a str, Option<&'a str>, Option<&'a str>)> {
        let gone = self
            .0
            .keys()
            .filter(|topic| !new.0.contains_key(*topic))
            .map(|topic| (topic.as_str(), self.get(topic), None));
        let changed = new
            .0
            .keys()
            .map(|topic| (topic.as_str(), self.get(topic), new.get(topic)))
            .filter(|(_, old, new)| old != new);
        changed.chain(gone)
    }
}

impl Serialize for Topics {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(out)
    }
}

impl<'de> Deserialize<'de> for Topics {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(from).map(Self::new)
    }
}

/// Everything one machine should be, known by its hash, with what went into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blueprint {
    /// The hash of the whole, this machine's own name and address included.
    pub fingerprint: Fingerprint,
    /// What machines of the group share.
    pub topics: Topics,
}

/// The topics that are about the user's images.
const IMAGE_TOPICS: [&str; 2] = [wanted::IMAGES, wanted::IMAGE_CONTENTS];

impl Blueprint {
    /// Whether the user's images in it are others than in that one.
    pub fn has_other_images(&self, other: &Self) -> bool {
        let differs = |topic| self.topics.get(topic) != other.topics.get(topic);
        IMAGE_TOPICS.into_iter().any(differs)
    }

    /// The same without the user's images: the state of a node that has everything else.
    #[must_use]
    pub fn without_images(&self) -> Self {
        let mut topics = self.topics.0.as_ref().clone();
        topics.retain(|topic, _| !IMAGE_TOPICS.contains(&topic.as_str()));
        Self {
            fingerprint: Fingerprint::of(&(&self.fingerprint, &topics)),
            topics: Topics::new(topics),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_beginning_of_sha_256() {
        // printf '"abc"' | sha256sum
        assert_eq!(Fingerprint::of(&"abc").as_str(), "6cc43f858fbb7633");
    }

    #[test]
    fn a_blueprint_without_images_is_another_one() {
        let with = |pairs: &[(&str, &str)]| Blueprint {
            fingerprint: Fingerprint::of(&"all"),
            topics: Topics::new(
                pairs
                    .iter()
                    .map(|(topic, value)| ((*topic).into(), (*value).into()))
                    .collect(),
            ),
        };
        let wanted = with(&[
            ("images", "1"),
            ("contents of images", "1"),
            ("duty", "worker"),
        ]);
        let without = wanted.without_images();
        assert_ne!(without.fingerprint, wanted.fingerprint);
        assert_eq!(without.topics, with(&[("duty", "worker")]).topics);
        assert!(wanted.has_other_images(&without));
        assert!(!wanted.has_other_images(&wanted.clone()));
        let older = with(&[("images", "1"), ("duty", "worker")]);
        assert!(wanted.has_other_images(&older));
    }

    #[test]
    fn changes_name_what_came_what_went_and_what_differs() {
        let topics = |pairs: &[(&str, &str)]| {
            Topics::new(
                pairs
                    .iter()
                    .map(|(topic, value)| ((*topic).into(), (*value).into()))
                    .collect(),
            )
        };
        let old = topics(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let new = topics(&[("b", "2"), ("c", "1"), ("d", "1")]);
        let changes: Vec<_> = old.changes(&new).collect();
        assert_eq!(
            changes,
            [
                ("b", Some("1"), Some("2")),
                ("d", None, Some("1")),
                ("a", Some("1"), None)
            ]
        );
    }
}
