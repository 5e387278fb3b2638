//! Names and passwords before the `@` of an address.

use std::ops::Range;

/// Fields that take an address, in any form.
const ADDRESSES: [&str; 12] = [
    "http",
    "https",
    "no",
    "mirror",
    "url",
    "jump",
    "address",
    "addresses",
    "ref",
    "endpoint",
    "host",
    "upstreamDNS",
];

/// Whether a field takes an address.
pub(super) fn is_address(field: &str) -> bool {
    ADDRESSES.contains(&field)
}

/// What to do instead, where a field holds a password in its address or beside its user's name.
pub(crate) fn refused(field: &str, text: &str) -> Option<&'static str> {
    let holds = match field {
        "user" => text.contains(':'),
        _ => is_address(field) && in_address(text).is_some(),
    };
    holds.then_some(match field {
        "user" | "jump" | "address" | "addresses" | "host" => {
            "leave the password out, and log in with a key: `ssh: {key: {file: PATH}}`"
        }
        "ref" => "leave the password out, and name an `archive` where the registry wants one",
        _ => "take an address that needs none, such as a forwarder on this computer that adds it",
    })
}

/// The login of a text that is an address as a whole, whatever else its password holds.
pub(super) fn in_address(text: &str) -> Option<Range<usize>> {
    login(text, 0..text.len())
}

/// The logins of addresses in a longer text.
pub(crate) fn in_words(text: &str) -> Vec<Range<usize>> {
    if !text.contains('@') {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let opening = word.len() - word.trim_start_matches(OPENING).len();
        found.extend(login(text, at + opening..at + word.len()));
        at += word.len();
    }
    found
}

/// What may stand before an address without being a part of it.
const OPENING: [char; 8] = ['"', '\'', '`', '[', '{', '(', '<', ','];

/// The login at the beginning of a part of a text that is one address.
fn login(text: &str, part: Range<usize>) -> Option<Range<usize>> {
    let whole = &text[part.clone()];
    // A password may hold an `@` itself: its end is the last one that can be.
    let mut ends = whole.match_indices('@').filter(|(at, _)| {
        let after = &whole.as_bytes()[at + 1..];
        !["sha256:", "sha512:"].iter().any(|digest| {
            after
                .get(..digest.len())
                .is_some_and(|after| after.eq_ignore_ascii_case(digest.as_bytes()))
        })
    });
    let first = ends.next()?.0;
    let last = ends.next_back().map_or(first, |(at, _)| at);
    let (start, has_scheme) = match whole[..first].find("//") {
        Some(at) if at == 0 || whole[..at].ends_with(':') => (at + 2, true),
        _ => (0, false),
    };
    [last, first].into_iter().find_map(|end| {
        let before = &whole[start..end];
        is_login(before, has_scheme).then(|| part.start + start..part.start + end)
    })
}

/// Whether what stands before an `@` lets somebody in.
fn is_login(before: &str, has_scheme: bool) -> bool {
    let (authority, is_past_slash) = match before.split_once('/') {
        Some((authority, _)) => (authority, true),
        None => (before, false),
    };
    let password = authority.split_once(':').map(|(_, password)| password);
    // `host/a@b` and `host:80/a@b` are an address whose path holds the `@`.
    let is_port = password.is_some_and(|password| password.bytes().all(|b| b.is_ascii_digit()));
    if is_past_slash && (password.is_none() || is_port) {
        return false;
    }
    // A drive letter is no user.
    let is_drive = password.is_some_and(|password| password.starts_with('\\'))
        && authority.find(':') == Some(1);
    if is_drive {
        return false;
    }
    password.is_some() || (has_scheme && !before.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_found_and_a_path_or_a_digest_is_not() {
        for (text, login) in [
            ("http://u:p@h", Some("u:p")),
            ("HTTP://u:p@h:80/x", Some("u:p")),
            ("socks5://u:p@h", Some("u:p")),
            ("u:p@h", Some("u:p")),
            ("//u:p@h", Some("u:p")),
            ("http://token@h", Some("token")),
            ("https://u:hun/pw@p", Some("u:hun/pw")),
            ("http://u:p@ss@h", Some("u:p@ss")),
            ("http://u:p w@h", Some("u:p w")),
            ("root:pw@bastion:22", Some("root:pw")),
            ("u:p@r/app@sha256:00", Some("u:p")),
            ("root@bastion:22", None),
            ("https://h/a@b", None),
            ("https://h:80/a@b", None),
            ("r:5000/app:1@sha256:00", None),
            ("git@h:a/b", None),
            (r"C:\a@b", None),
            ("http://h", None),
        ] {
            let found = in_address(text).map(|range| &text[range]);
            assert_eq!(found, login, "{text}");
        }
    }

    #[test]
    fn words_are_told_apart() {
        let text = "curl -x \"http://u:p@h\" a@b [x:y@z]";
        let found: Vec<_> = in_words(text).into_iter().map(|at| &text[at]).collect();
        assert_eq!(found, ["u:p", "x:y"]);
    }
}
