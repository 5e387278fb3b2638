//! Keeps secrets out of what is written down and shown.
//!
//! Two places mask, and they cannot hide the same. A run ([`Mask`]) hides what was registered and what has the form of a
//! bootstrap token or a private key; the digests of its plan stay. The agent ([`mask_output`]) knows no secret by its
//! words, and hides besides what kubeadm and package managers write: values of flags, certificate keys, passwords in
//! addresses. It leaves private keys to the run: the run hides their lines by the line that they begin with.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use base64::prelude::{BASE64_STANDARD, Engine as _};

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

/// The word after one of these is a secret, whatever it looks like.
const BEFORE_SECRETS: &[&str] = &[
    "--token",
    "--discovery-token",
    "--tls-bootstrap-token",
    "--certificate-key",
    "--password",
    "token:",
    "password:",
    "certificateKey:",
    "client-key-data:",
];

/// Finds the secrets of one form in a text: their places, in their order.
type Rule = fn(&str) -> Vec<Range<usize>>;

/// The line of a program without secrets: bootstrap tokens, certificate keys, passwords in addresses.
///
/// Digests (`sha256:…`) stay: they are public, and people need them. A digest without that word has the form of a
/// certificate key, and is hidden.
pub fn mask_output(line: &str) -> Cow<'_, str> {
    let rules = [after_flags, logins_of_addresses, tokens, certificate_keys];
    hide(Cow::Borrowed(line), &rules)
}

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
        all.insert(BASE64_STANDARD.encode(secret));
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
        let rules = [|text: &str| private_keys(text).0, keys_in_base64, tokens];
        hide(text, &rules)
    }

    /// The lines without secrets; a key may go over several of them.
    pub fn lines(&self, lines: &[String]) -> Vec<String> {
        if lines.is_empty() {
            return Vec::new();
        }
        let text = lines.join("\n");
        self.apply(&text).split('\n').map(str::to_owned).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeSet<String>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Masks a text that comes line by line, of which a key may take several.
#[derive(Debug, Default)]
pub struct MaskedLines {
    is_in_key: bool,
}

impl MaskedLines {
    /// The line without secrets.
    pub fn apply(&mut self, mask: &Mask, line: &str) -> String {
        let (hidden, shown) = match (self.is_in_key, key_end(line)) {
            (true, None) => return MASKED.to_owned(),
            (true, Some(end)) => (MASKED, &line[end..]),
            (false, _) => ("", line),
        };
        self.is_in_key = private_keys(shown).1;
        format!("{hidden}{}", mask.apply(shown))
    }
}

/// The text with each place that one of the rules finds hidden.
fn hide<'a>(mut text: Cow<'a, str>, rules: &[Rule]) -> Cow<'a, str> {
    for rule in rules {
        let places = rule(&text);
        if places.is_empty() {
            continue;
        }
        let mut out = String::with_capacity(text.len());
        let mut shown = 0;
        for place in places {
            out.push_str(&text[shown..place.start]);
            out.push_str(MASKED);
            shown = place.end;
        }
        out.push_str(&text[shown..]);
        text = Cow::Owned(out);
    }
    text
}

/// Where a part of the text stands in it.
fn place_of(part: &str, text: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
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

/// Where the line that ends a private key ends; a line of another kind that was cut off ends it too.
fn key_end(text: &str) -> Option<usize> {
    let end = text.find(KEY_ENDS)? + KEY_ENDS.len();
    let after = text[end..].find(KEY_IS);
    Some(after.map_or(text.len(), |at| end + at + KEY_IS.len()))
}

/// From the beginning of each private key to its end; to the end of the text where it has none, which is said too.
fn private_keys(text: &str) -> (Vec<Range<usize>>, bool) {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some((start, body)) = key_start(&text[from..]) {
        let Some(end) = key_end(&text[from + body..]) else {
            places.push(from + start..text.len());
            return (places, true);
        };
        places.push(from + start..from + body + end);
        from += body + end;
    }
    (places, false)
}

fn keys_in_base64(text: &str) -> Vec<Range<usize>> {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let mut places = Vec::new();
    let mut from = 0;
    let next = |rest: &str| KEYS_IN_BASE64.iter().filter_map(|key| rest.find(key)).min();
    while let Some(at) = next(&text[from..]) {
        let start = from + at;
        let length = text[start..].bytes().take_while(|byte| is_base64(*byte));
        from = start + length.count();
        places.push(start..from);
    }
    places
}

/// The lengths of a bootstrap token's two parts.
const TOKEN: (usize, usize) = (6, 16);

/// Bootstrap tokens: six letters or digits, a dot, sixteen more, and no letter or digit around.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let mut places: Vec<Range<usize>> = Vec::new();
    for (dot, _) in text.match_indices('.') {
        let past = places.last().map_or(0, |last| last.end);
        let Some(start) = dot.checked_sub(TOKEN.0).filter(|start| *start >= past) else {
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
            places.push(start..end);
        }
    }
    places
}

/// The values of flags and fields that hold secrets.
fn after_flags(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut is_next_secret = false;
    for word in text.split_ascii_whitespace() {
        if std::mem::take(&mut is_next_secret) {
            places.push(place_of(word, text));
            continue;
        }
        is_next_secret = BEFORE_SECRETS.contains(&word.trim_start_matches(['"', '\'']));
        if let Some((flag, value)) = word.split_once('=')
            && BEFORE_SECRETS.contains(&flag)
            && !value.is_empty()
        {
            places.push(place_of(value, text));
        }
    }
    places
}

/// The user and password in each address.
fn logins_of_addresses(text: &str) -> Vec<Range<usize>> {
    let words = text.split_ascii_whitespace();
    let logins = words.filter_map(|word| Some(&word[login_of_address(word)?]));
    logins.map(|login| place_of(login, text)).collect()
}

/// Where the user and password stand in `http://user:password@host`.
pub fn login_of_address(address: &str) -> Option<Range<usize>> {
    let (_, rest) = address.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    Some(place_of(host.rsplit_once('@')?.0, address))
}

/// Words of 64 hexadecimal digits, other than digests that say so.
fn certificate_keys(text: &str) -> Vec<Range<usize>> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .map(|word| place_of(word, text))
        .filter(|place| !text[..place.start].ends_with("sha256:"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "f8902e114ef118304e561c3ecd4d0b543adc226b7a07f675f56564185ffe0c07";

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
            let text = format!("client-key-data: {}\nnext", BASE64_STANDARD.encode(key));
            assert_eq!(
                mask.apply(&text),
                "client-key-data: [masked]\nnext",
                "{kind}"
            );
        }
    }

    #[test]
    fn a_key_that_comes_line_by_line_is_masked() {
        let (mask, mut lines) = (Mask::new(), MaskedLines::default());
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
    #[test]
    fn a_bootstrap_token_of_output_is_hidden_wherever_it_stands() {
        for (line, masked) in [
            ("abcdef.0123456789abcdef", "[masked]"),
            (
                "  kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef \\",
                "  kubeadm join 10.0.0.1:6443 --token [masked] \\",
            ),
            (
                "secret \"abcdef.0123456789abcdef\", made",
                "secret \"[masked]\", made",
            ),
            ("--token=short", "--token=[masked]"),
            ("token: \"odd one\"", "token: [masked] one\""),
        ] {
            assert_eq!(mask_output(line), masked);
        }
    }

    #[test]
    fn a_certificate_key_is_hidden_alone_on_its_line_and_behind_its_flag() {
        assert_eq!(mask_output(KEY), "[masked]");
        assert_eq!(
            mask_output(&format!("\t--control-plane --certificate-key {KEY}")),
            "\t--control-plane --certificate-key [masked]"
        );
        assert_eq!(
            mask_output("--certificate-key abc"),
            "--certificate-key [masked]"
        );
    }

    #[test]
    fn digests_and_ordinary_words_stay() {
        for line in [
            format!("--discovery-token-ca-cert-hash sha256:{KEY}"),
            "[init] Using Kubernetes version: v1.36.4".to_owned(),
            "kube-apiserver.yaml 127.0.0.1:10248 registry.k8s.io/pause:3.10.2".to_owned(),
            "plugin.0123456789abcdefg abcdef.0123456789ABCDEF".to_owned(),
            "größer → ünïcode".to_owned(),
            String::new(),
        ] {
            assert!(matches!(mask_output(&line), Cow::Borrowed(_)), "{line}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_hidden() {
        assert_eq!(
            mask_output("Err:1 http://me:pass@proxy.example:3128/debian bookworm"),
            "Err:1 http://[masked]@proxy.example:3128/debian bookworm"
        );
        assert_eq!(mask_output("http://host/a@b"), "http://host/a@b");
    }

    #[test]
    fn several_secrets_of_a_line_are_all_hidden() {
        assert_eq!(
            mask_output("abcdef.0123456789abcdef,abcdef.0123456789abcdef end"),
            "[masked],[masked] end"
        );
    }

    #[test]
    fn a_run_shows_digests_and_an_agent_leaves_private_keys_to_the_run() {
        assert_eq!(Mask::new().apply(KEY), KEY);
        let begins = "-----BEGIN EC PRIVATE KEY-----";
        assert_eq!(mask_output(begins), begins);
    }
}
