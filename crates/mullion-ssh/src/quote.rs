//! Words for a POSIX shell, and for programs on Windows.

/// The word as a shell reads it back: in single quotes unless it is plain.
pub fn quoted(word: &str) -> String {
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

/// The word as a program on Windows takes it out of its command line: in quotation marks unless it is plain; before a
/// mark, and before the last one, every backslash is doubled.
pub(crate) fn for_windows(word: &str) -> String {
    if !word.is_empty() && !word.contains([' ', '\t', '"']) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    let mut slashes = 0;
    for letter in word.chars() {
        match letter {
            '\\' => slashes += 1,
            '"' => {
                // One more than twice as many: the last escapes the mark.
                quoted.extend(std::iter::repeat_n('\\', slashes + 1));
                slashes = 0;
            }
            _ => slashes = 0,
        }
        quoted.push(letter);
    }
    quoted.extend(std::iter::repeat_n('\\', slashes));
    quoted.push('"');
    quoted
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Splits a line as programs on Windows do (`CommandLineToArgvW`, without its rule for the first word).
    pub(crate) fn split_as_windows(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        let mut slashes = 0;
        let mut is_quoted = false;
        for letter in line.chars() {
            if letter == '\\' {
                slashes += 1;
                continue;
            }
            let begun = slashes > 0 || letter == '"' || !letter.is_whitespace() || is_quoted;
            if begun {
                word.get_or_insert_default();
            }
            if let Some(word) = &mut word {
                let kept = if letter == '"' { slashes / 2 } else { slashes };
                word.extend(std::iter::repeat_n('\\', kept));
            }
            let is_escaped = slashes % 2 == 1;
            slashes = 0;
            match letter {
                '"' if !is_escaped => is_quoted = !is_quoted,
                letter if letter.is_whitespace() && !is_quoted => words.extend(word.take()),
                letter => word.get_or_insert_default().push(letter),
            }
        }
        if slashes > 0 {
            let last = word.get_or_insert_default();
            last.extend(std::iter::repeat_n('\\', slashes));
        }
        words.extend(word);
        words
    }

    #[test]
    fn a_program_on_windows_reads_every_word_back() {
        let words = [
            "",
            "a b",
            "\"",
            "\\",
            "a\\",
            "a b\\",
            "\\\"x\\\\\"",
            "tab\t",
            "%x%",
        ];
        let line: Vec<_> = words.iter().map(|word| for_windows(word)).collect();
        assert_eq!(split_as_windows(&line.join(" ")), words);
    }

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
