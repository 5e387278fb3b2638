//! Keeps secrets out of what is written down and shown.
//!
//! Whoever makes a secret registers it. Two kinds are known by their form besides, since they are made by
//! programs that print them: bootstrap tokens and private keys.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// What stands where a secret was.
pub const MASKED: &str = "[masked]";

/// Shorter ones would tear holes into ordinary words.
const SHORTEST: usize = 6;
/// A line of a longer secret that is masked by itself, since logs are read line by line.
const SHORTEST_LINE: usize = 16;

const KEY_BEGINS: &str = "-----BEGIN ";
const KEY_IS: &str = "PRIVATE KEY-----";
const KEY_ENDS: &str = "-----END ";

/// How private keys begin once more in base64, as in a kubeconfig.
const KEYS_IN_BASE64: [&str; 4] = [
    "LS0tLS1CRUdJTiBQUklWQVRFIEtFW",            // PRIVATE KEY
    "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRV",       // RSA PRIVATE KEY
    "LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFW",        // EC PRIVATE KEY
    "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUgS0VZ", // OPENSSH PRIVATE KEY
];

/// The secrets of a run. Copies are one set.
#[derive(Clone, Default)]
pub struct Mask(Arc<RwLock<BTreeSet<String>>>);

impl fmt::Debug for Mask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Mask({} secrets)", self.read().len())
    }
}

impl Mask {
    /// Knows no secret yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on that text is masked, and so are its long lines and its base64.
    pub fn register(&self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < SHORTEST {
            return;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(secret.to_owned());
        all.insert(base64(secret.as_bytes()));
        let lines = secret.lines().map(str::trim);
        all.extend(
            lines
                .filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"))
                .map(str::to_owned),
        );
    }

    /// The text without secrets.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        // The longest first: a secret may be a part of another.
        let secrets = self.read();
        let mut found: Vec<_> = secrets
            .iter()
            .filter(|secret| text.contains(secret.as_str()))
            .collect();
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in found {
            text = Cow::Owned(text.replace(secret.as_str(), MASKED));
        }
        drop(secrets);
        for rule in [private_keys, keys_in_base64, tokens] {
            if let Some(masked) = rule(&text) {
                text = Cow::Owned(masked);
            }
        }
        text
    }

    /// The lines without secrets; a key may go over several of them.
    pub fn lines(&self, lines: &[String]) -> Vec<String> {
        if lines.is_empty() {
            return Vec::new();
        }
        let text = lines.join("\n");
        self.apply(&text).split('\n').map(str::to_owned).collect()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeSet<String>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Masks a text that comes line by line, of which a key may take several.
#[derive(Debug, Default)]
pub(crate) struct LineByLine {
    is_in_key: bool,
}

impl LineByLine {
    /// The line without secrets.
    pub(crate) fn apply(&mut self, mask: &Mask, line: &str) -> String {
        if self.is_in_key {
            match line.find(KEY_ENDS) {
                Some(end) => {
                    self.is_in_key = false;
                    let after = line[end + KEY_ENDS.len()..]
                        .find(KEY_IS)
                        .map_or("", |at| &line[end + KEY_ENDS.len() + at + KEY_IS.len()..]);
                    return format!("{MASKED}{}", mask.apply(after));
                }
                None => return MASKED.to_owned(),
            }
        }
        self.is_in_key = opens_key(line);
        mask.apply(line).into_owned()
    }
}

/// Where a private key begins: the place of its first dash, and of what follows its first line.
fn key_start(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(at) = text[from..].find(KEY_BEGINS) {
        let start = from + at;
        let rest = &text[start + KEY_BEGINS.len()..];
        // Only its kind stands between: `RSA `, `EC `, `OPENSSH `, or nothing.
        let kind = rest.find(KEY_IS).filter(|end| {
            *end <= 24
                && rest[..*end]
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b' ')
        });
        if let Some(end) = kind {
            return Some((start, start + KEY_BEGINS.len() + end + KEY_IS.len()));
        }
        from = start + KEY_BEGINS.len();
    }
    None
}

fn opens_key(line: &str) -> bool {
    let mut rest = line;
    while let Some((_, body)) = key_start(rest) {
        match rest[body..].find(KEY_ENDS) {
            Some(end) => rest = &rest[body + end + KEY_ENDS.len()..],
            None => return true,
        }
    }
    false
}

/// From the beginning of each private key to its end; to the end of the text where it has none.
fn private_keys(text: &str) -> Option<String> {
    let (first, _) = key_start(text)?;
    let mut out = text[..first].to_owned();
    let mut rest = &text[first..];
    while let Some((start, body)) = key_start(rest) {
        out.push_str(&rest[..start]);
        out.push_str(MASKED);
        rest = match rest[body..].find(KEY_ENDS) {
            Some(end) => {
                let end = body + end + KEY_ENDS.len();
                let after = rest[end..]
                    .find(KEY_IS)
                    .map_or(end, |at| end + at + KEY_IS.len());
                &rest[after..]
            }
            None => "",
        };
    }
    out.push_str(rest);
    Some(out)
}

fn keys_in_base64(text: &str) -> Option<String> {
    let next = |text: &str| {
        KEYS_IN_BASE64
            .iter()
            .filter_map(|prefix| text.find(prefix))
            .min()
    };
    next(text)?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = next(rest) {
        out.push_str(&rest[..start]);
        out.push_str(MASKED);
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        let end = rest.bytes().skip(start).position(|byte| !is_base64(byte));
        rest = end.map_or("", |length| &rest[start + length..]);
    }
    out.push_str(rest);
    Some(out)
}

/// The lengths of a bootstrap token's two parts.
const TOKEN: (usize, usize) = (6, 16);

/// Bootstrap tokens: six letters or digits, a dot, sixteen more, and no letter or digit around.
fn tokens(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let mut out = String::new();
    let mut kept = 0;
    for (dot, _) in text.match_indices('.') {
        let Some(start) = dot.checked_sub(TOKEN.0).filter(|start| *start >= kept) else {
            continue;
        };
        let end = dot + 1 + TOKEN.1;
        let is_token = bytes[start..dot].iter().all(is_part)
            && bytes
                .get(dot + 1..end)
                .is_some_and(|part| part.iter().all(is_part))
            && !is_word(start.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_word(bytes.get(end));
        if is_token {
            out.push_str(&text[kept..start]);
            out.push_str(MASKED);
            kept = end;
        }
    }
    if kept == 0 {
        return None;
    }
    out.push_str(&text[kept..]);
    Some(out)
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place > chunk.len() {
                out.push('=');
            } else {
                let letter = bits >> (18 - 6 * place) & 63;
                out.push(char::from(LETTERS[letter as usize]));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_registered_is_masked_everywhere_and_in_base64() {
        let mask = Mask::new();
        mask.register("hunter2-hunter2");
        let text = "password=hunter2-hunter2, again hunter2-hunter2; aHVudGVyMi1odW50ZXIy";
        let masked = "password=[masked], again [masked]; [masked]";
        assert_eq!(mask.apply(text), masked);
        mask.register("root");
        assert_eq!(mask.apply("root"), "root", "a short word is no secret");
        assert!(!format!("{mask:?}").contains("hunter2"));
    }

    #[test]
    fn a_secret_inside_of_another_leaves_no_rest() {
        let mask = Mask::new();
        mask.register("secret");
        mask.register("top-secret-indeed");
        assert_eq!(
            mask.apply("a top-secret-indeed b secret"),
            "a [masked] b [masked]"
        );
    }

    #[test]
    fn bootstrap_tokens_are_masked_and_what_only_looks_like_one_is_not() {
        let mask = Mask::new();
        for (text, masked) in [
            ("abcdef.0123456789abcdef", "[masked]"),
            (
                "--token=abcdef.0123456789abcdef --x",
                "--token=[masked] --x",
            ),
            ("\"a1b2c3.0123456789abcdef\".", "\"[masked]\"."),
            (
                "abcdef.0123456789abcdef,abcdef.0123456789abcdef",
                "[masked],[masked]",
            ),
            ("é abcdef.0123456789abcdef é", "é [masked] é"),
        ] {
            assert_eq!(mask.apply(text), masked, "{text}");
        }
        for text in [
            "xabcdef.0123456789abcdef",
            "abcdef.0123456789abcdef0",
            "abcdef.0123456789abcde",
            "ABCDEF.0123456789abcdef",
            "v1.36.4 of kubeadm.k8s.io",
            "éééééé.0123456789abcdef",
        ] {
            assert_eq!(mask.apply(text), text);
        }
    }

    #[test]
    fn private_keys_are_masked_whole_and_certificates_stay() {
        let mask = Mask::new();
        let key = "-----BEGIN EC PRIVATE KEY-----\nMHcC\nAQEE\n-----END EC PRIVATE KEY-----";
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----";
        assert_eq!(mask.apply(&format!("a\n{key}\nb")), "a\n[masked]\nb");
        assert_eq!(mask.apply(certificate), certificate);
        let both = format!("{certificate}\n{key}\n{key}!");
        assert_eq!(
            mask.apply(&both),
            format!("{certificate}\n[masked]\n[masked]!")
        );
        let open = "x -----BEGIN PRIVATE KEY-----\nMHcC";
        assert_eq!(
            mask.apply(open),
            "x [masked]",
            "what was cut off is masked to its end"
        );
    }

    #[test]
    fn private_keys_in_base64_are_masked() {
        let mask = Mask::new();
        for kind in ["", "RSA ", "EC ", "OPENSSH "] {
            let key = format!(
                "-----BEGIN {kind}PRIVATE KEY-----\nMHcC\n-----END {kind}PRIVATE KEY-----\n"
            );
            let text = format!("client-key-data: {}\nnext", base64(key.as_bytes()));
            assert_eq!(
                mask.apply(&text),
                "client-key-data: [masked]\nnext",
                "{kind}"
            );
        }
        assert_eq!(base64(b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
    }

    #[test]
    fn a_key_that_comes_line_by_line_is_masked() {
        let (mask, mut lines) = (Mask::new(), LineByLine::default());
        let told: Vec<_> = [
            "before",
            "-----BEGIN RSA PRIVATE KEY-----",
            "MIIEpAIBAAKCAQEA",
            "-----END RSA PRIVATE KEY----- after",
            "later",
        ]
        .iter()
        .map(|line| lines.apply(&mask, line))
        .collect();
        assert_eq!(
            told,
            ["before", "[masked]", "[masked]", "[masked] after", "later"]
        );
        let tail = ["a", "-----BEGIN PRIVATE KEY-----", "MHcC"].map(str::to_owned);
        assert_eq!(mask.lines(&tail), ["a", "[masked]"]);
    }

    #[test]
    fn lines_of_a_registered_key_are_masked_one_by_one() {
        let mask = Mask::new();
        mask.register("-----BEGIN X-----\nAAAABBBBCCCCDDDDEEEE\n-----END X-----\n");
        assert_eq!(
            mask.apply("read AAAABBBBCCCCDDDDEEEE here"),
            "read [masked] here"
        );
    }
}
