//! Command lines that Windows users write, for the Linux programs that stand in.
//!
//! | on Windows | in a stand-in |
//! |---|---|
//! | `cmd /c X`, also with `/s`, `/q`, `/d`, `/v:on`, a path or `.exe` | `/bin/sh -c X` |
//! | `cmd` by itself, or with `/k` | `/bin/sh` |
//! | everything else | as it is |
//!
//! What `cmd` would understand of X and `sh` does not (`dir`, `%PATH%`) stays what it is.

const SHELL: &str = "/bin/sh";

/// A command line as the Linux container runs it.
pub(in crate::cri) fn linux(words: Vec<String>) -> Vec<String> {
    let Some((program, rest)) = words.split_first() else {
        return words;
    };
    if !is_cmd(program) {
        return words;
    }
    let is_switch = |word: &&String| word.starts_with('/');
    let switches = rest.iter().take_while(is_switch).count();
    let runs = rest[..switches]
        .iter()
        .position(|switch| switch.eq_ignore_ascii_case("/c"));
    match runs {
        Some(place) => vec![SHELL.into(), "-c".into(), rest[place + 1..].join(" ")],
        None if switches == rest.len() => vec![SHELL.into()],
        None => words,
    }
}

/// `cmd`, `CMD.EXE`, `C:\Windows\System32\cmd.exe`
fn is_cmd(program: &str) -> bool {
    let name = program.rsplit(['\\', '/']).next().unwrap_or(program);
    ["cmd", "cmd.exe", "%comspec%"]
        .iter()
        .any(|cmd| name.eq_ignore_ascii_case(cmd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cmd_becomes_sh_and_the_rest_stays() {
        for (windows, expected) in [
            (
                &["cmd", "/c", "echo", "a b"][..],
                &["/bin/sh", "-c", "echo a b"][..],
            ),
            (&["cmd.exe", "/C", "exit 3"], &["/bin/sh", "-c", "exit 3"]),
            (
                &[r"C:\Windows\System32\CMD.exe", "/s", "/c", "x"],
                &["/bin/sh", "-c", "x"],
            ),
            (
                &["cmd", "/c", "type", "/f", "x"],
                &["/bin/sh", "-c", "type /f x"],
            ),
            (&["cmd", "/c"], &["/bin/sh", "-c", ""]),
            (&["cmd"], &["/bin/sh"]),
            (&["cmd", "/k"], &["/bin/sh"]),
            (&["cmd", "x"], &["cmd", "x"]),
            (
                &["powershell", "-Command", "ls"],
                &["powershell", "-Command", "ls"],
            ),
            (&["/agnhost", "netexec"], &["/agnhost", "netexec"]),
            (&["cmdlet", "/c"], &["cmdlet", "/c"]),
            (&[], &[]),
        ] {
            let words = windows.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(linux(words), expected, "{windows:?}");
        }
    }
}
