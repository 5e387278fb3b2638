//! Secrets that programs write: found by their form, and hidden before anybody sees them.

use std::borrow::Cow;

/// What stands in a secret's place.
const HIDDEN: &str = "(hidden)";

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

/// The line without secrets: bootstrap tokens, certificate keys, passwords in addresses.
///
/// Digests (`sha256:…`) stay: they are public, and people need them.
pub(crate) fn mask(line: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    // Up to here `line` is in `masked`.
    let mut taken = 0;
    let mut is_next_secret = false;
    for (start, word) in words(line) {
        let is_secret = std::mem::take(&mut is_next_secret);
        let mut hide = |from: usize, to: usize| {
            masked.push_str(&line[taken..from]);
            masked.push_str(HIDDEN);
            taken = to;
        };
        if is_secret {
            hide(start, start + word.len());
            continue;
        }
        is_next_secret = BEFORE_SECRETS.contains(&word.trim_start_matches(['"', '\'']));
        if let Some((flag, value)) = word.split_once('=')
            && BEFORE_SECRETS.contains(&flag)
            && !value.is_empty()
        {
            hide(start + flag.len() + 1, start + word.len());
            continue;
        }
        for (from, to) in inside(word) {
            hide(start + from, start + to);
        }
    }
    if taken == 0 {
        return Cow::Borrowed(line);
    }
    masked.push_str(&line[taken..]);
    Cow::Owned(masked)
}

/// The words of a line with their places.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split_ascii_whitespace()
        .map(move |word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

/// The places of secrets inside one word, in their order.
fn inside(word: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    if let Some(place) = user_of_address(word) {
        found.push(place);
    }
    let past = found.last().map_or(0, |(_, end)| *end);
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut start = past;
    // Runs of letters and digits, with what stands between them.
    while start < word.len() {
        let bytes = word.as_bytes();
        if !bytes[start].is_ascii_alphanumeric() {
            start += 1;
            continue;
        }
        let run = |from: usize, is: &dyn Fn(u8) -> bool| {
            from + bytes[from..].iter().take_while(|byte| is(**byte)).count()
        };
        let end = run(start, &|byte| byte.is_ascii_alphanumeric());
        let is_all = |from: usize, to: usize| bytes[from..to].iter().all(|byte| is_letter(*byte));
        if end - start == 6 && is_all(start, end) && bytes.get(end) == Some(&b'.') {
            let last = run(end + 1, &|byte| byte.is_ascii_alphanumeric());
            if last - end == 17 && is_all(end + 1, last) {
                found.push((start, last));
                start = last;
                continue;
            }
        }
        let is_key = end - start == 64
            && bytes[start..end].iter().all(u8::is_ascii_hexdigit)
            && !word[..start].ends_with("sha256:");
        if is_key {
            found.push((start, end));
        }
        start = end;
    }
    found
}

/// The user and password in `http://user:password@host`.
fn user_of_address(word: &str) -> Option<(usize, usize)> {
    let start = word.find("://")? + 3;
    let host = word[start..]
        .find(['/', '?', '#'])
        .map_or(word.len(), |length| start + length);
    let at = word[start..host].rfind('@')?;
    Some((start, start + at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "f8902e114ef118304e561c3ecd4d0b543adc226b7a07f675f56564185ffe0c07";

    #[test]
    fn a_bootstrap_token_is_hidden_wherever_it_stands() {
        for (line, masked) in [
            ("abcdef.0123456789abcdef", "(hidden)"),
            (
                "  kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef \\",
                "  kubeadm join 10.0.0.1:6443 --token (hidden) \\",
            ),
            (
                "secret \"abcdef.0123456789abcdef\", made",
                "secret \"(hidden)\", made",
            ),
            ("--token=short", "--token=(hidden)"),
            ("token: \"odd one\"", "token: (hidden) one\""),
        ] {
            assert_eq!(mask(line), masked);
        }
    }

    #[test]
    fn a_certificate_key_is_hidden_alone_on_its_line_and_behind_its_flag() {
        assert_eq!(mask(KEY), "(hidden)");
        assert_eq!(
            mask(&format!("\t--control-plane --certificate-key {KEY}")),
            "\t--control-plane --certificate-key (hidden)"
        );
        assert_eq!(mask("--certificate-key abc"), "--certificate-key (hidden)");
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
            assert!(matches!(mask(&line), Cow::Borrowed(_)), "{line}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_hidden() {
        assert_eq!(
            mask("Err:1 http://me:pass@proxy.example:3128/debian bookworm"),
            "Err:1 http://(hidden)@proxy.example:3128/debian bookworm"
        );
        assert_eq!(mask("http://host/a@b"), "http://host/a@b");
    }

    #[test]
    fn several_secrets_of_a_line_are_all_hidden() {
        assert_eq!(
            mask("abcdef.0123456789abcdef,abcdef.0123456789abcdef end"),
            "(hidden),(hidden) end"
        );
    }
}
