//! The file of the keys that root may log in to a machine with: the cluster's own, and those of the owner.

use std::fmt::Write as _;

/// The line above the key that we authorise.
const OUR_KEY: &str = "# The key of this cluster ends with `mullion-cluster`: mullion replaces it when \
    `access.sshKey` changes.";

/// The end of the key that we authorise, as a part of its comment: by it we know which key to replace.
const OUR_MARK: &str = "mullion-cluster";

/// The line above the key as older versions wrote it. They did not mark the key itself.
const OLDER_KEY: &str =
    "# The next line is the key of this cluster: mullion replaces it when `access.sshKey` changes.";

/// The authorised keys of a new machine; the first is the cluster's.
pub(super) fn first_keys(keys: &[String]) -> String {
    let Some((first, rest)) = keys.split_first() else {
        return String::new();
    };
    let mut text = authorized("", first);
    for key in rest {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", key.trim());
    }
    text
}

/// The authorised keys with that one as the cluster's: it replaces the key that has our mark, and every other line stays.
/// Where no key has it, the key is added below our comment line, or at the end.
pub(super) fn authorized(found: &str, key: &str) -> String {
    let key = key.trim();
    let ours = format!("{key} {OUR_MARK}");
    let mut lines: Vec<_> = found.lines().collect();
    let at = |lines: &[&str], wanted: &str| lines.iter().position(|line| line.trim() == wanted);
    let marked = lines.iter().position(|line| is_marked(line));
    let replaced;
    if let Some(marked) = marked {
        let options = options(lines[marked]);
        if lines[marked].trim_end() == format!("{options}{ours}") {
            return found.to_owned();
        }
        replaced = format!("{options}{ours}");
        lines[marked] = &replaced;
    } else if let Some(comment) = at(&lines, OLDER_KEY) {
        let is_key = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
        let below = comment + 1;
        let below_is_key = lines.get(below).is_some_and(is_key);
        lines[comment] = OUR_KEY;
        let there = at(&lines, key);
        match there.or(below_is_key.then_some(below)) {
            Some(former) => lines[former] = &ours,
            None => lines.insert(below, &ours),
        }
        // Older versions wrote their key right below the comment. The owner's keys follow it.
        if below_is_key && there.is_some_and(|there| there > below) {
            lines.remove(below);
        }
    } else if at(&lines, key).is_some() {
        return found.to_owned();
    } else if let Some(comment) = at(&lines, OUR_KEY) {
        // The owner removed the key. What is below is theirs.
        lines.insert(comment + 1, &ours);
    } else {
        lines.extend([OUR_KEY, &ours]);
    }
    lines.join("\n") + "\n"
}

/// What the owner wrote before the type of a key, such as `from="192.0.2.0/24" `: options have no blank outside of quotes.
fn options(line: &str) -> &str {
    const TYPES: [&str; 3] = ["ssh-", "ecdsa-", "sk-"];
    let mut is_quoted = false;
    let mut is_begin = true;
    for (at, letter) in line.char_indices() {
        let is_type = TYPES.iter().any(|kind| line[at..].starts_with(kind));
        if is_begin && !is_quoted && is_type {
            return &line[..at];
        }
        is_quoted ^= letter == '"';
        is_begin = letter.is_whitespace();
    }
    ""
}

/// Whether a line of authorised keys is one that we wrote.
fn is_marked(line: &str) -> bool {
    let mut words = line.split_whitespace();
    !line.trim_start().starts_with('#') && words.next_back() == Some(OUR_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_key_of_the_cluster_takes_the_place_of_the_former() {
        let first = first_keys(&["ssh-ed25519 AAAA1 a\n".into(), "ssh-ed25519 BBBB b".into()]);
        assert_eq!(
            first,
            format!("{OUR_KEY}\nssh-ed25519 AAAA1 a mullion-cluster\nssh-ed25519 BBBB b\n")
        );
        assert_eq!(authorized(&first, "ssh-ed25519 AAAA1 a\n"), first);
        let owners = format!("# mine\nssh-rsa CCCC\n\n{first}ssh-rsa DDDD");
        assert_eq!(
            authorized(&owners, "ssh-ed25519 AAAA2 a\n"),
            format!(
                "# mine\nssh-rsa CCCC\n\n{OUR_KEY}\nssh-ed25519 AAAA2 a mullion-cluster\nssh-ed25519 BBBB b\nssh-rsa DDDD\n"
            )
        );
        assert_eq!(first_keys(&[]), "");
        // Our key is known wherever the owner moved it, and keeps the options that they wrote before it.
        let options = "from=\"192.0.2.0/24\",command=\"echo ssh-rsa\" ";
        let moved = format!("{options}ssh-rsa AAAA1 a mullion-cluster\nssh-rsa BBBB\n{OUR_KEY}\n");
        assert_eq!(authorized(&moved, "ssh-rsa AAAA1 a"), moved);
        assert_eq!(
            authorized(&moved, "ssh-rsa AAAA2 a"),
            format!("{options}ssh-rsa AAAA2 a mullion-cluster\nssh-rsa BBBB\n{OUR_KEY}\n")
        );
    }

    #[test]
    fn where_no_line_of_ours_is_the_key_is_added() {
        for older in ["ssh-rsa CCCC\n", "ssh-rsa CCCC"] {
            assert_eq!(authorized(older, "ssh-rsa CCCC"), older);
            let added = authorized(older, "ssh-rsa DDDD");
            let wanted = |key: &str| format!("ssh-rsa CCCC\n{OUR_KEY}\n{key} mullion-cluster\n");
            assert_eq!(added, wanted("ssh-rsa DDDD"));
            // From then on it is ours to replace.
            assert_eq!(authorized(&added, "ssh-rsa EEEE"), wanted("ssh-rsa EEEE"));
        }
    }

    #[test]
    fn a_key_that_somebody_removed_is_added_and_no_other_line_goes() {
        for rest in [
            "",
            "\nssh-rsa CCCC\n",
            "# mine\nssh-rsa CCCC\n",
            "ssh-rsa CCCC\n",
        ] {
            assert_eq!(
                authorized(&format!("{OUR_KEY}\n{rest}"), "ssh-rsa DDDD"),
                format!("{OUR_KEY}\nssh-rsa DDDD mullion-cluster\n{rest}")
            );
        }
    }

    #[test]
    fn a_key_that_an_older_version_wrote_is_replaced_and_marked() {
        let ours = format!("{OUR_KEY}\nssh-rsa DDDD mullion-cluster\n");
        for (older, wanted) in [
            ("ssh-rsa AAAA\nssh-rsa CCCC\n", "ssh-rsa CCCC\n"),
            ("ssh-rsa DDDD\nssh-rsa CCCC\n", "ssh-rsa CCCC\n"),
            ("", ""),
            ("# mine\nssh-rsa CCCC\n", "# mine\nssh-rsa CCCC\n"),
        ] {
            let older = format!("{OLDER_KEY}\n{older}");
            let marked = authorized(&older, "ssh-rsa DDDD");
            assert_eq!(marked, format!("{ours}{wanted}"));
            assert_eq!(authorized(&marked, "ssh-rsa DDDD"), marked);
        }
        // The key stands elsewhere, so what is below the line is the owner's.
        assert_eq!(
            authorized(
                &format!("ssh-rsa DDDD\n{OLDER_KEY}\nssh-rsa CCCC\n"),
                "ssh-rsa DDDD"
            ),
            format!("ssh-rsa DDDD mullion-cluster\n{OUR_KEY}\nssh-rsa CCCC\n")
        );
    }

    #[test]
    fn a_replaced_key_of_an_older_version_goes_where_the_new_one_stands_further_below() {
        for (older, wanted) in [
            (
                "ssh-rsa AAAA\nssh-rsa DDDD\n",
                "ssh-rsa DDDD mullion-cluster\n",
            ),
            (
                "ssh-rsa AAAA\nssh-rsa CCCC\nssh-rsa DDDD\n",
                "ssh-rsa CCCC\nssh-rsa DDDD mullion-cluster\n",
            ),
            // What is right below the comment is no key.
            (
                "# mine\nssh-rsa DDDD\n",
                "# mine\nssh-rsa DDDD mullion-cluster\n",
            ),
        ] {
            let found = authorized(&format!("{OLDER_KEY}\n{older}"), "ssh-rsa DDDD");
            assert_eq!(found, format!("{OUR_KEY}\n{wanted}"), "{older}");
        }
    }
}
