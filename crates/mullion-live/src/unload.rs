//! Taking the agent away from a Windows machine, where a program that runs cannot be removed.

use std::time::Duration;

use mullion_plan::{Attend, ErrorClass, StepError};
use mullion_ssh::{Command, Stream, Transport};

use super::talk::lost;

/// So often it is tried, with such a pause: an agent that waited for the last one finds nothing to do and ends.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 300 });

/// Removes the agent, those that made room for a newer one while they ran, and its folder, where nobody keeps anything
/// else in it.
pub(super) fn from_windows(
    session: &dyn Transport,
    machine: &str,
    agent: &str,
    attendant: &dyn Attend,
) -> Result<(), StepError> {
    let path = agent.replace('/', "\\");
    let (folder, name) = path.rsplit_once('\\').unwrap_or((".", &path));
    let run = |command: Command| {
        let mut lines = Vec::new();
        let exit = session.run(&command, attendant, &mut |stream, line| {
            if stream == Stream::Out {
                lines.push(line.trim_end().to_owned());
            }
        });
        exit.map(|exit| (exit, lines))
            .map_err(|error| lost(machine, &error))
    };
    for _ in 0..TRIES {
        let old = format!("{path}.*.{}", mullion_ssh::ASIDE);
        // What these two end with says nothing, where a program runs or a folder is not empty: it is looked.
        let _ = run(Command::new("del").args(["/f", "/q", &path, &old]))?;
        let _ = run(Command::new("rmdir").arg(folder))?;
        let (listed, names) = run(Command::new("dir").args(["/b", folder]))?;
        let is_ours = |found: &String| found.starts_with(name);
        if !listed.is_success() || !names.iter().any(is_ours) {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    let words = format!("the agent on {machine} still runs, and cannot be removed");
    Err(StepError::new(ErrorClass::NotYet, words))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mullion_plan::Unattended;
    use mullion_testkit::transport::memory::{Answer, Files, Memory};

    use super::*;

    const AGENT: &str = mullion_wire::AGENT_ON_WINDOWS;
    const FOLDER: &str = r"C:\Program Files\mullion-agent";

    /// A machine whose agent runs for so many more commands that would remove it.
    fn machine(runs: usize, others: &[&str]) -> Memory {
        let left = AtomicUsize::new(runs);
        let answer = move |command: &Command, files: &mut Files| {
            let runs =
                || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            Some(match command.program.as_str() {
                "del" => {
                    let is_running = runs().is_ok();
                    for path in &command.args[2..] {
                        let (start, end) = path.split_once('*').unwrap_or((path, ""));
                        files.retain(|path, _| {
                            is_running || !path.starts_with(start) || !path.ends_with(end)
                        });
                    }
                    Answer::exit(0)
                }
                "rmdir" => Answer::exit(0),
                "dir" if files.is_empty() => Answer::exit(1),
                "dir" => {
                    let names = files.keys().map(|path| &path[FOLDER.len() + 1..]);
                    Answer::exit(0).out(names.collect::<Vec<_>>().join("\r\n"))
                }
                _ => return None,
            })
        };
        let memory = Memory::new("win1", answer);
        memory.lay(AGENT.replace('/', "\\"), "agent", 0o755);
        let old = format!(r"{FOLDER}\mullion-agent.exe.1.{}", mullion_ssh::ASIDE);
        memory.lay(old, "agent before", 0o755);
        for name in others {
            memory.lay(format!(r"{FOLDER}\{name}"), "theirs", 0o644);
        }
        memory
    }

    fn unload(machine: &Memory) -> Result<(), StepError> {
        from_windows(machine, "win1", AGENT, &Unattended)
    }

    #[test]
    fn an_agent_that_ends_soon_is_removed_with_its_folder() {
        let machine = machine(3, &[]);
        unload(&machine).unwrap();
        assert!(machine.files().is_empty());
        let heard = machine.heard();
        let rmdir = Command::new("rmdir").arg(FOLDER);
        assert!(heard.contains(&rmdir), "{heard:?}");
    }

    #[test]
    fn what_others_keep_in_the_folder_stays() {
        let machine = machine(0, &["notes.txt"]);
        unload(&machine).unwrap();
        assert_eq!(machine.files().len(), 1);
    }

    #[test]
    fn an_agent_that_runs_on_is_not_called_removed() {
        let error = unload(&machine(1_000, &[])).unwrap_err();
        assert_eq!(error.class, ErrorClass::NotYet);
    }
}
