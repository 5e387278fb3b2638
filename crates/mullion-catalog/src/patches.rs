//! Patches: where a stand-in lacks what Windows has, and which lines of whose source make do without it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::catalog::Catalog;

/// One file of `patches`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatchFile {
    subject: PatchSubject,
    file: String,
    reason: String,
    until: String,
    tried: Vec<String>,
    source: String,
    edit: Vec<Edit>,
}

/// A change of one source file, by exact text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Patch {
    /// Its name, which is that of its data file.
    pub name: String,
    /// Whose source it changes.
    pub subject: PatchSubject,
    /// The file, below the subject's own folder; of Go, below `src`.
    pub file: String,
    /// Why it is needed.
    pub reason: String,
    /// When it can go.
    pub until: String,
    /// The versions of the subject that it was tried with; others may have moved.
    pub tried: Vec<String>,
    /// The changes, in the order they are made.
    pub edits: Vec<Edit>,
    /// Where this was read.
    pub source: String,
}

/// Whose source a patch changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatchSubject {
    /// Go's own library.
    Go,
    /// A Go module, by its path.
    Module(String),
}

/// One text for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// What is there.
    pub find: String,
    /// What takes its place.
    pub put: String,
    /// How often it is there: exactly so often.
    #[serde(default = "once")]
    pub times: usize,
}

const fn once() -> usize {
    1
}

impl Patch {
    pub(crate) fn of(name: &str, file: PatchFile) -> Self {
        Self {
            name: name.to_owned(),
            subject: file.subject,
            file: file.file,
            reason: file.reason,
            until: file.until,
            tried: file.tried,
            edits: file.edit,
            source: file.source,
        }
    }
}

/// What tells two sets of patches apart: what they change, and into what. Words about them do not count.
pub(crate) fn fingerprint(patches: &[Patch]) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for patch in patches {
        match &patch.subject {
            PatchSubject::Go => add("go"),
            PatchSubject::Module(path) => add(path),
        }
        add(&patch.file);
        for edit in &patch.edits {
            add(&edit.find);
            add(&edit.put);
        }
    }
    let mut text = String::new();
    for byte in hash.finalize().iter().take(4) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Catalog {
    /// Every patch.
    pub fn patches(&self) -> impl Iterator<Item = &Patch> {
        self.patches.iter()
    }

    /// A patch by its name.
    pub fn patch(&self, name: &str) -> Option<&Patch> {
        self.patches().find(|patch| patch.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_says_what_it_does_and_does_something() {
        for patch in Catalog::builtin().patches() {
            for words in [&patch.reason, &patch.until, &patch.source, &patch.file] {
                assert!(!words.is_empty(), "{}", patch.name);
            }
            assert!(!patch.tried.is_empty(), "{}", patch.name);
            assert!(!patch.edits.is_empty(), "{}", patch.name);
            for edit in &patch.edits {
                assert!(!edit.find.is_empty() && edit.times > 0, "{}", patch.name);
                assert_ne!(edit.find, edit.put, "{}", patch.name);
            }
        }
    }

    #[test]
    fn another_text_is_another_fingerprint_and_other_words_are_not() {
        let patches: Vec<_> = Catalog::builtin().patches().cloned().collect();
        let before = fingerprint(&patches);
        assert_eq!(before.len(), 8);
        let mut worded = patches.clone();
        worded[0].reason.push('!');
        worded[0].tried.push("2.0".into());
        assert_eq!(fingerprint(&worded), before);
        let mut put = patches.clone();
        put[0].edits[0].put.push(' ');
        assert_ne!(fingerprint(&put), before);
        assert_ne!(fingerprint(&patches[1..]), before);
        // Where one text ends and the next begins counts too.
        let mut moved = patches;
        let edit = &mut moved[0].edits[0];
        edit.put.insert_str(0, &edit.find.split_off(1));
        assert_ne!(fingerprint(&moved), before);
    }
}
