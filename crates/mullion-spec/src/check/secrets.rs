//! Secrets, which the file may only refer to, and variables, which it may not hold.

use super::Checker;
use crate::cluster::Licence;
use crate::finding::{Finding, Place};
use crate::hidden::{is_variable, login};
use crate::raw::{RawLicence, RawReference, RawSecret};
use crate::rules::shape as rule;
use crate::source::{Kind, Node, Path, Segment};
use crate::value::{Secret, SecretRef};

impl Checker<'_> {
    /// A secret that is made unless one is referred to.
    pub(super) fn secret(&mut self, path: &Path, raw: &RawSecret) -> Secret {
        match raw {
            RawSecret::Word(word) if word == "generated" => Secret::Generated,
            raw => self
                .reference(path, raw)
                .map_or(Secret::Generated, Secret::Given),
        }
    }

    /// A reference to a secret.
    pub(super) fn reference(&mut self, path: &Path, raw: &RawSecret) -> Option<SecretRef> {
        match raw {
            RawSecret::Reference(RawReference {
                env: Some(name),
                file: None,
            }) => self.variable_name(&path.key("env"), name),
            RawSecret::Reference(RawReference {
                env: None,
                file: Some(file),
            }) => Some(SecretRef::File(self.text(&path.key("file"), file).into())),
            RawSecret::Reference(RawReference {
                env: None,
                file: None,
            }) if self.says_otherwise(path) => None,
            RawSecret::Reference(_) => {
                let finding = Finding::new(&rule::BAD_VALUE, Place::Key(path.clone()))
                    .message(format!("`{path}` must name one place"))
                    .hint("write either `{env: NAME}` or `{file: PATH}`");
                self.reject(finding, path);
                None
            }
            RawSecret::Word(word) => {
                self.literal(path, word);
                None
            }
        }
    }

    /// Whether a reference has fields, but none that fits: each of them was reported already.
    fn says_otherwise(&self, path: &Path) -> bool {
        let value = self.root.value_at(path).map(|value| &value.kind);
        matches!(value, Some(Kind::Map(mapping))
            if mapping.entries().iter().any(|entry| entry.value.kind != Kind::Null))
    }

    fn variable_name(&mut self, path: &Path, name: &str) -> Option<SecretRef> {
        if is_variable(name) {
            return Some(SecretRef::Env(name.into()));
        }
        // Somebody may have put the secret itself here, so it is not repeated.
        let finding = Finding::new(&rule::BAD_VALUE, path.clone())
            .message(format!(
                "`{path}` is not the name of an environment variable"
            ))
            .hint("write a name such as `WINDOWS_PASSWORD`, without `$`");
        self.reject(finding, path);
        None
    }

    /// Reports a secret that stands in the file. The message never repeats it.
    fn literal(&mut self, path: &Path, word: &str) {
        let mut finding = Finding::new(&rule::LITERAL_SECRET, Place::Key(path.clone())).message(
            format!("`{path}` holds a secret instead of a reference to one"),
        );
        let looks_like_a_file = word.starts_with(['~', '/', '.']) && !word.contains('\n');
        finding = if looks_like_a_file {
            finding.hint("where a file is meant, write `{file: PATH}`")
        } else {
            finding.hint(rule::LITERAL_SECRET.remedy)
        };
        self.reject(finding, path);
    }

    /// How Windows is licensed.
    pub(super) fn licence(&mut self, path: &Path, raw: &RawLicence) -> Licence {
        match raw {
            RawLicence::Word(word) if word == "evaluation" => Licence::Evaluation,
            RawLicence::Word(word) => {
                let finding = if crate::shape::nearest(word, ["evaluation"]).is_some() {
                    Finding::new(&rule::UNKNOWN_WORD, path.clone())
                        .message(format!("`{path}` does not take this word"))
                        .label("did you mean `evaluation`?")
                        .hint("write `evaluation`")
                } else {
                    Finding::new(&rule::LITERAL_SECRET, Place::Key(path.clone()))
                        .message(format!("`{path}` holds a key instead of a reference to one"))
                        .hint("write `{key: {env: NAME}}` or `{key: {file: PATH}}` instead, and keep the key itself there")
                };
                self.reject(finding, path);
                Licence::Evaluation
            }
            RawLicence::Key(key) => key
                .key
                .as_ref()
                .and_then(|key| self.reference(&path.key("key"), key))
                .map_or(Licence::Evaluation, Licence::Key),
        }
    }

    /// A web address.
    pub(super) fn address(&mut self, path: &Path, text: &str) -> String {
        let rest = ["http://", "https://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or(""));
        if host.is_none_or(str::is_empty) {
            let finding = Finding::new(&rule::BAD_VALUE, path.clone())
                .message(format!("`{path}`: `{text}` is not a web address"))
                .hint("begin it with `http://` or `https://`");
            self.reject(finding, path);
        }
        text.to_owned()
    }

    /// Refuses what no text of the file may hold, whatever its field: `${NAME}`, except in commands,
    /// which a shell on the machine reads; and a password before the `@` of an address.
    pub(super) fn plain_texts(&mut self) {
        let root = self.root;
        self.plain_texts_in(root, "", &mut Path::top());
    }

    fn plain_texts_in(&mut self, node: &Node, field: &str, path: &mut Path) {
        match &node.kind {
            Kind::Scalar { text, .. } => self.plain_text(text, field, path),
            Kind::Null | Kind::Unread => {}
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.enter(Segment::Index(index));
                    self.plain_texts_in(item, field, path);
                    path.leave();
                }
            }
            Kind::Map(mapping) => {
                let entries = mapping.entries().iter();
                for entry in entries.filter(|entry| entry.key != "run") {
                    path.enter(Segment::Key(entry.key.clone()));
                    self.plain_texts_in(&entry.value, &entry.key, path);
                    path.leave();
                }
            }
        }
    }

    fn plain_text(&mut self, text: &str, field: &str, path: &Path) {
        let is_variable = has_variable(text);
        let hint = login::refused(field, text);
        if (!is_variable && hint.is_none()) || self.left_out.covers(path) {
            return;
        }
        self.findings.push_error(|| match hint {
            Some(hint) if !is_variable => {
                Finding::new(&rule::LITERAL_SECRET, Place::Key(path.clone()))
                    .message(format!("`{path}` holds a password"))
                    .hint(hint)
            }
            _ => Finding::new(&rule::VARIABLE, path.clone()).message(format!(
                "`{path}` holds a variable, and variables are not expanded"
            )),
        });
        self.left_out.insert(path);
    }
}

fn has_variable(text: &str) -> bool {
    text.split_once("${")
        .is_some_and(|(_, rest)| rest.contains('}'))
}
