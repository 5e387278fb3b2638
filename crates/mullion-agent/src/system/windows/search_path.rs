//! The folders that programs are looked for in, read from the text of a `Path`.

/// Windows' own folders, then those of a `Path`, each once, with slashes and without one at the end. `variable` tells
/// what a variable of any spelling holds; nothing where there is none.
///
/// What is not absolute with its drive is left out: it would lead to wherever a program begins, and a share of another
/// computer to whoever answers for that.
pub(super) fn folders(path: &str, root: &str, variable: &dyn Fn(&str) -> String) -> Vec<String> {
    let own = [format!("{root}/System32"), root.to_owned()];
    let named = path.split(';').map(|folder| expanded(folder, variable));
    let mut found: Vec<String> = Vec::new();
    for folder in own.into_iter().chain(named) {
        let folder = folder.trim().trim_matches('"').replace('\\', "/");
        if !is_absolute(&folder) {
            continue;
        }
        let folder = folder.trim_end_matches('/');
        if !found.iter().any(|known| known.eq_ignore_ascii_case(folder)) {
            found.push(folder.to_owned());
        }
    }
    found
}

fn is_absolute(folder: &str) -> bool {
    let drive = folder
        .as_bytes()
        .first()
        .is_some_and(u8::is_ascii_alphabetic);
    drive && folder.get(1..).is_some_and(|rest| rest.starts_with(":/"))
}

/// A text with what its variables hold; one that nobody knows stays as it is written.
fn expanded(text: &str, variable: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let Some((name, behind)) = after.split_once('%') else {
            rest = &rest[before.len()..];
            break;
        };
        match variable(name) {
            // The second sign may begin another variable.
            held if held.is_empty() => {
                out.push('%');
                out.push_str(name);
                rest = &after[name.len()..];
            }
            held => {
                out.push_str(&held);
                rest = behind;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Windows has it: in any spelling.
    fn variable(name: &str) -> String {
        let known = [
            ("systemroot", r"D:\Windows"),
            ("programfiles", r"D:\Program Files"),
        ];
        let held = known
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        held.map(|(_, held)| (*held).to_owned()).unwrap_or_default()
    }

    fn found(path: &str) -> Vec<String> {
        let mut found = folders(path, r"D:\Windows", &variable);
        let own: Vec<_> = found.drain(..2).collect();
        assert_eq!(
            own,
            ["D:/Windows/System32", "D:/Windows"],
            "they come first"
        );
        found
    }

    #[test]
    fn variables_of_any_spelling_are_put_in() {
        let path = r"%SystemRoot%\system32;%systemroot%;%SystemRoot%\System32\Wbem;%SYSTEMROOT%\System32\WindowsPowerShell\v1.0\;%ProgramFiles%\containerd";
        assert_eq!(
            found(path),
            [
                "D:/Windows/System32/Wbem",
                "D:/Windows/System32/WindowsPowerShell/v1.0",
                "D:/Program Files/containerd",
            ]
        );
    }

    #[test]
    fn folders_of_others_come_after_windows_own_and_only_once() {
        assert_eq!(
            found(r#"C:\Tools\;; "C:\k" ;c:\tools;C:/k"#),
            ["C:/Tools", "C:/k"]
        );
        assert_eq!(found(""), [""; 0]);
    }

    #[test]
    fn what_is_not_absolute_is_left_out() {
        let path = r"bin;.;\k;C:k;\\server\share;%NONE%\bin;%;%%;50%;%NONE%SystemRoot%\x";
        assert_eq!(found(path), [""; 0]);
        assert_eq!(found(r"C:\100%;C:\%NONE%"), ["C:/100%", "C:/%NONE%"]);
    }
}
