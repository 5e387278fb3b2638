//! Keys whose names say that a secret follows.

use std::collections::BTreeMap;

use crate::shape::{field_names, nearest};

/// Parts of such names, in small letters, none doubled: `pasw` is in `Password`, `passwd` and `pasword`.
const PARTS: [&str; 9] = [
    "pasw",
    "pswd",
    "pwd",
    "pasphrase",
    "pascode",
    "secret",
    "token",
    "licen",
    "credential",
];

/// Names that a misspelt one is compared with.
const WHOLE: [&str; 8] = [
    "administratorPassword",
    "password",
    "passphrase",
    "secret",
    "token",
    "licence",
    "sshKey",
    "key",
];

/// Words that stand in the place of a secret and are none.
const HARMLESS: [&str; 8] = [
    "generated",
    "evaluation",
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
];

/// More misspelt names than a file has; those beyond are taken for secrets unseen.
const MOST_GUESSES: usize = 500;

/// Whether a name says by its letters that a secret follows.
pub(super) fn says_secret(name: &str) -> bool {
    // Only the last part of `windows.administratorPassword` or `example.com/key` names the value.
    let last = name.rsplit(['.', '/']).next().unwrap_or(name);
    let mut letters = String::with_capacity(last.len());
    for letter in last.chars().flat_map(char::to_lowercase) {
        if letter.is_alphanumeric() && !letters.ends_with(letter) {
            letters.push(letter);
        }
    }
    let is_public = ["host", "pub", "authorized", "known"]
        .iter()
        .any(|public| letters.starts_with(public));
    let is_key = (letters.ends_with("key") || letters.ends_with("keys")) && !is_public;
    is_key || letters.ends_with("pas") || PARTS.iter().any(|part| letters.contains(part))
}

/// Whether a word in the place of a secret is none.
pub(super) fn is_harmless(text: &str) -> bool {
    text.trim().is_empty() || HARMLESS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Whether a key below a secret is one of ours, or a slip of one: then it is no secret itself.
pub(super) fn is_own_key(key: &str) -> bool {
    const OWN: [&str; 6] = ["env", "file", "key", "value", "name", "path"];
    says_secret(key) || nearest(key, OWN).is_some()
}

/// Judges names, misspelt ones too, and remembers what it found.
#[derive(Debug, Default)]
pub(super) struct Names {
    guesses: BTreeMap<String, bool>,
}

impl Names {
    /// Whether a key says that a secret follows.
    pub(super) fn says_secret(&mut self, name: &str) -> bool {
        if says_secret(name) {
            return true;
        }
        if field_names().contains(name) {
            return false;
        }
        if let Some(guess) = self.guesses.get(name) {
            return *guess;
        }
        if self.guesses.len() >= MOST_GUESSES {
            return true;
        }
        let guess = nearest(name, WHOLE).is_some();
        self.guesses.insert(name.to_owned(), guess);
        guess
    }
}

/// Whether a text can be the name of an environment variable.
pub(crate) fn is_variable(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a text can be a path, and is no file's content.
pub(super) fn is_path(text: &str) -> bool {
    text.len() <= 255 && !text.contains(['\n', '\r']) && !text.contains("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_hold() {
        let mut names = Names::default();
        for secret in [
            "administratorPassword",
            "adminPassword",
            "PASSWORD",
            "pasword",
            "api_token",
            "licence",
            "license",
            "licnece",
            "key",
            "sshKey",
            "ssh_key",
            "private-key",
            "windows.administratorPassword",
            "userPass",
        ] {
            assert!(names.says_secret(secret), "{secret}");
        }
        for harmless in [
            "hostKey",
            "publicKey",
            "machines",
            "user",
            "netwrok",
            "locale",
            "rdpp",
        ] {
            assert!(!names.says_secret(harmless), "{harmless}");
        }
    }

    #[test]
    fn the_fields_of_a_file_that_hold_secrets_are_these() {
        let secret: Vec<_> = field_names()
            .iter()
            .filter(|name| Names::default().says_secret(name))
            .collect();
        assert_eq!(
            secret,
            ["administratorPassword", "key", "licence", "sshKey"]
        );
    }
}
