//! Secrets, which the file may only refer to, and variables, which it may not hold.

use super::Checker;
use crate::cluster::Licence;
use crate::finding::{Finding, Place};
use crate::raw::{RawLicence, RawReference, RawSecret};
use crate::rules::shape as rule;
use crate::source::{Kind, Node, Path};
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

    fn variable_name(&mut self, path: &Path, name: &str) -> Option<SecretRef> {
        let plain = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if plain {
            return Some(SecretRef::Env(name.into()));
        }
        // Somebody may have put the secret itself here, so it is not repeated.
        self.hide(path);
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
        self.hide(path);
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

    /// Keeps a value's text out of everything that is shown.
    pub(super) fn hide(&mut self, path: &Path) {
        self.hidden.push(self.root.value_span(path));
    }

    /// How Windows is licensed.
    pub(super) fn licence(&mut self, path: &Path, raw: &RawLicence) -> Licence {
        match raw {
            RawLicence::Word(word) if word == "evaluation" => Licence::Evaluation,
            RawLicence::Word(word) => {
                let finding = if crate::shape::nearest(word, ["evaluation"]).is_some() {
                    Finding::new(&rule::UNKNOWN_WORD, path.clone())
                        .message(format!("`{path}` does not take `{word}`"))
                        .label("did you mean `evaluation`?")
                        .hint("write `evaluation`")
                } else {
                    self.hide(path);
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

    /// A web address, which may not carry a password.
    pub(super) fn address(&mut self, path: &Path, text: &str) -> String {
        let rest = ["http://", "https://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or(""));
        match host {
            Some(host)
                if host
                    .rsplit_once('@')
                    .is_some_and(|(user, _)| user.contains(':')) =>
            {
                self.hide(path);
                let finding = Finding::new(&rule::LITERAL_SECRET, Place::Key(path.clone()))
                    .message(format!("`{path}` holds a password"))
                    .hint("take an address that needs none, such as a forwarder on this computer that adds it");
                self.reject(finding, path);
            }
            Some(host) if !host.is_empty() => {}
            _ => {
                let finding = Finding::new(&rule::BAD_VALUE, path.clone())
                    .message(format!("`{path}`: `{text}` is not a web address"))
                    .hint("begin it with `http://` or `https://`");
                self.reject(finding, path);
            }
        }
        text.to_owned()
    }

    /// Refuses `${NAME}` everywhere but in commands, which a shell on the machine reads.
    pub(super) fn variables(&mut self) {
        let root = self.root;
        self.variables_in(root, &Path::top());
    }

    fn variables_in(&mut self, node: &Node, path: &Path) {
        match &node.kind {
            Kind::Scalar { text, .. } if has_variable(text) => {
                self.reject(
                    Finding::new(&rule::VARIABLE, path.clone()).message(format!(
                        "`{path}` holds a variable, and variables are not expanded"
                    )),
                    path,
                );
            }
            Kind::Scalar { .. } | Kind::Null | Kind::Unread => {}
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.variables_in(item, &path.index(index));
                }
            }
            Kind::Map(entries) => {
                for entry in entries.iter().filter(|entry| entry.key != "run") {
                    self.variables_in(&entry.value, &path.key(&entry.key));
                }
            }
        }
    }
}

fn has_variable(text: &str) -> bool {
    text.split_once("${")
        .is_some_and(|(_, rest)| rest.contains('}'))
}
