//! Words for a POSIX shell.

/// The word as a shell reads it back: in single quotes unless it is plain.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Words as one command line.
pub(crate) fn joined<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.into_iter().map(quoted).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_stay_as_they_are() {
        assert_eq!(joined(["ls", "-l", "/etc/a.conf"]), "ls -l /etc/a.conf");
    }

    #[test]
    fn everything_else_is_in_single_quotes() {
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("$HOME`id`"), "'$HOME`id`'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("a\nb"), "'a\nb'");
        assert_eq!(quoted("~root"), "'~root'");
    }

    #[test]
    fn a_shell_reads_every_word_back() {
        let words = [
            "", "'", "\\", "a'b\"c", "$(id)", "*", "ü ñ", "\n", "-n", "!", "~",
        ];
        let line = format!("printf '%s\\0' {}", joined(words));
        let output = std::process::Command::new("sh")
            .args(["-c", &line])
            .output();
        let mut expected = words.join("\0").into_bytes();
        expected.push(0);
        assert_eq!(output.unwrap().stdout, expected);
    }
}
