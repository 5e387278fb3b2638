//! Putting a file in the place of another on Windows, where a program that runs can be renamed and neither replaced nor
//! removed.

use crate::shell::cmd_path;

/// Runs a line of `cmd`; says whether it succeeded, and what it wrote.
type Cmd<'a, E> = dyn FnMut(&str) -> Result<(bool, String), E> + 'a;

/// The ending of a program that made room while it ran.
pub const ASIDE: &str = "mullion-old";

/// Puts a file in another's place. What is there and runs is renamed first, and removed where it has ended; what cannot
/// be removed yet is when the next one makes room. Gives back what was said against it.
pub(super) fn replace<E>(
    part: &str,
    path: &str,
    mark: &str,
    cmd: &mut Cmd<'_, E>,
) -> Result<Result<(), String>, E> {
    let to_place = format!("move /y {} {}", cmd_path(part), cmd_path(path));
    let (is_done, said) = cmd(&to_place)?;
    if is_done {
        return Ok(Ok(()));
    }
    let aside = format!("{path}.{mark}.{ASIDE}");
    let (is_aside, _) = cmd(&format!("move /y {} {}", cmd_path(path), cmd_path(&aside)))?;
    if !is_aside {
        return Ok(Err(said));
    }
    let (is_done, said) = cmd(&to_place)?;
    if !is_done {
        cmd(&format!("move /y {} {}", cmd_path(&aside), cmd_path(path)))?;
        return Ok(Err(said));
    }
    cmd(&format!(
        "del /f /q {}",
        cmd_path(&format!("{path}.*.{ASIDE}"))
    ))?;
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::convert::Infallible;

    use super::*;

    const PATH: &str = r"C:\a b\agent.exe";
    const PART: &str = r"C:\a b\agent.exe.part.exe";

    /// A disk of files, each with what it holds, some of which run.
    #[derive(Default)]
    struct Disk {
        files: BTreeMap<String, &'static str>,
        running: BTreeSet<&'static str>,
        /// Nothing is ever moved to this path.
        is_full: bool,
    }

    impl Disk {
        fn runs(&self, path: &str) -> bool {
            let content = self.files.get(path);
            content.is_some_and(|content| self.running.contains(content))
        }

        fn cmd(&mut self, line: &str) -> bool {
            let paths: Vec<_> = line.split('"').skip(1).step_by(2).collect();
            match (line.split(' ').next(), paths.as_slice()) {
                (Some("move"), [from, to]) => {
                    if self.runs(to) || (self.is_full && *from == PART) {
                        return false;
                    }
                    let Some(content) = self.files.remove(*from) else {
                        return false;
                    };
                    self.files.insert((*to).to_owned(), content);
                    true
                }
                (Some("del"), [pattern]) => {
                    let (start, end) = pattern.split_once('*').unwrap();
                    let running = &self.running;
                    self.files.retain(|path, content| {
                        running.contains(content)
                            || !path.starts_with(start)
                            || !path.ends_with(end)
                    });
                    true
                }
                _ => panic!("{line}"),
            }
        }

        fn replace(&mut self, content: &'static str, mark: &str) -> Result<(), String> {
            self.files.insert(PART.into(), content);
            let mut cmd = |line: &str| Ok::<_, Infallible>((self.cmd(line), "denied".to_owned()));
            let Ok(replaced) = replace(PART, PATH, mark, &mut cmd);
            replaced
        }
    }

    #[test]
    fn a_program_that_runs_makes_room_and_goes_once_it_has_ended() {
        let mut disk = Disk::default();
        disk.replace("first", "1").unwrap();
        disk.running.insert("first");
        disk.replace("second", "2").unwrap();
        assert_eq!(disk.files[PATH], "second");
        assert_eq!(disk.files.len(), 2, "the first runs on: {:?}", disk.files);
        disk.running = ["second"].into();
        disk.replace("third", "3").unwrap();
        assert_eq!(disk.files[PATH], "third");
        assert_eq!(disk.files.len(), 2, "{:?}", disk.files);
        assert!(disk.files.values().all(|content| *content != "first"));
    }

    #[test]
    fn what_cannot_be_replaced_is_as_it_was() {
        let mut disk = Disk {
            is_full: true,
            ..Disk::default()
        };
        disk.files.insert(PATH.into(), "first");
        assert_eq!(disk.replace("second", "2"), Err("denied".to_owned()));
        assert_eq!(disk.files[PATH], "first");
    }
}
