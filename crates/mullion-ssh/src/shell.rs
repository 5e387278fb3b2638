//! What reads commands on a machine, and how words reach a program through it.

use crate::command::Command;
use crate::error::TransportError;
use crate::quote;

/// What reads commands on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shell {
    /// A POSIX shell, with the core utilities beside it.
    #[default]
    Posix,
    /// Windows' `cmd`, as its OpenSSH server starts it. It has nothing that tells a file's digest alike on all systems:
    /// the agent does, which is brought there first.
    Cmd {
        /// Where the agent is.
        agent: String,
    },
}

impl Shell {
    /// A command as one line that the shell reads back as its words.
    pub(crate) fn line(&self, command: &Command) -> Result<String, TransportError> {
        match self {
            Self::Posix => Ok(command.line()),
            Self::Cmd { .. } => {
                cmd_line(&command.program, &command.args).ok_or_else(|| TransportError::Words {
                    command: command.to_string(),
                })
            }
        }
    }

    /// A path that means the same wherever a command begins.
    pub fn absolute(&self, path: &str) -> Result<String, TransportError> {
        let is_good = match self {
            Self::Posix => path.starts_with('/') && !path.contains('\0'),
            Self::Cmd { .. } => is_windows_path(path),
        };
        if is_good {
            Ok(path.to_owned())
        } else {
            let path = path.to_owned();
            Err(TransportError::Path { path })
        }
    }
}

/// What a shell ends with where there is no such program.
pub const NO_PROGRAM: i32 = 127;

/// Absolute with its drive, and of characters that no shell reads as anything else. Both slashes are good.
fn is_windows_path(path: &str) -> bool {
    let drive = path.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    let rest = path.get(1..).unwrap_or_default();
    let is_plain = |letter: char| !letter.is_control() && !"\"%^&|<>!?*:;,=`'".contains(letter);
    drive
        && (rest.starts_with(":\\") || rest.starts_with(":/"))
        && rest.chars().skip(1).all(is_plain)
}

/// A path as SFTP servers on Windows take it: `/C:/folder/file`.
pub(crate) fn sftp_path(path: &str) -> String {
    format!("/{}", path.replace('\\', "/"))
}

/// A path as `cmd`'s own commands take it.
pub(crate) fn cmd_path(path: &str) -> String {
    format!("\"{}\"", path.replace('/', "\\"))
}

/// The words as one line for `cmd`: quoted as programs on Windows split their line, then every character that `cmd`
/// itself reads is escaped. Nothing where a word cannot be said: a line is all there is.
fn cmd_line(program: &str, args: &[String]) -> Option<String> {
    let is_sayable = |word: &str| !word.contains(['\n', '\r', '\0']);
    if !is_sayable(program) || !args.iter().all(|word| is_sayable(word)) {
        return None;
    }
    // The program's name is read by `cmd`, for which an escaped quotation mark is none.
    let name = if program.contains(' ') && !program.contains('"') {
        cmd_path(program)
    } else {
        escaped(program)
    };
    let words = args.iter().map(|word| escaped(&quote::for_windows(word)));
    let words: Vec<_> = std::iter::once(name).chain(words).collect();
    let line = words.join(" ");
    Some(if is_windows_path(program) {
        // `cmd` has many statuses for a program that is not there; this is the one of other shells.
        let path = cmd_path(program);
        format!("if exist {path} ({line}) else exit {NO_PROGRAM}")
    } else {
        line
    })
}

fn escaped(word: &str) -> String {
    let mut escaped = String::with_capacity(word.len());
    for letter in word.chars() {
        if "()%!^\"<>&|".contains(letter) {
            escaped.push('^');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `cmd` hands on: a caret is left out and what follows it stands for itself.
    fn read_by_cmd(line: &str) -> String {
        let mut out = String::new();
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '^' => out.extend(letters.next()),
                '&' | '|' | '<' | '>' | '%' => panic!("`cmd` reads {letter} in {line}"),
                letter => out.push(letter),
            }
        }
        out
    }

    #[test]
    fn every_word_reaches_a_program_on_windows_as_it_is() {
        let words = [
            "plain",
            "",
            "a b",
            "%PATH%",
            "a&b|c<d>e",
            "^",
            "say \"hi\"",
            "C:\\folder\\",
            "C:\\a b\\",
            "\\\\\"",
            "!x!",
            "ü ñ",
            "(a)",
        ];
        let args: Vec<String> = words.iter().map(ToString::to_string).collect();
        let line = cmd_line("agent.exe", &args).unwrap();
        let handed = read_by_cmd(&line);
        let split = quote::tests::split_as_windows(&handed);
        assert_eq!(split[0], "agent.exe");
        assert_eq!(split[1..], words, "{line}");
    }

    #[test]
    fn a_program_that_is_not_there_has_one_status() {
        assert_eq!(
            cmd_line("C:/a b/c.exe", &["serve".into()]).unwrap(),
            r#"if exist "C:\a b\c.exe" ("C:\a b\c.exe" serve) else exit 127"#
        );
    }

    #[test]
    fn a_line_cannot_be_ended_by_a_word() {
        let shell = Shell::Cmd { agent: "x".into() };
        let error = shell
            .line(&Command::new("echo").arg("a\nformat"))
            .unwrap_err();
        assert!(matches!(error, TransportError::Words { .. }), "{error}");
    }

    #[test]
    fn a_windows_path_has_a_drive_and_nothing_that_a_shell_reads() {
        for good in ["C:\\a\\b.exe", "c:/a b/c", "D:\\ü"] {
            assert!(is_windows_path(good), "{good}");
        }
        for bad in [
            "",
            "C:",
            "C:a",
            "\\a",
            "/a",
            "\\\\host\\share",
            "C:\\a&b",
            "C:\\%x%",
            "C:\\a\"b",
            "C:\\a\nb",
            "C:\\a:stream",
        ] {
            assert!(!is_windows_path(bad), "{bad}");
        }
        assert_eq!(sftp_path("C:\\a\\b"), "/C:/a/b");
        assert_eq!(cmd_path("C:/a b/c"), "\"C:\\a b\\c\"");
    }
}
