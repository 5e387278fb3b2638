//! Starts a process for each target and tells what came of it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::worker::{CORPUS, Effort, INPUT, NOTE, Tally};
use crate::{Target, corpus};

/// Why fuzzing failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuzzError {
    /// There is no such target.
    #[error("there is no target `{name}`; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// This computer failed.
    #[error("cannot fuzz `{target}`")]
    Io {
        /// The target.
        target: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// An input that must not do what it does.
#[derive(Debug)]
pub struct Crash {
    /// The target.
    pub target: &'static str,
    /// What happened.
    pub why: String,
    /// The file that holds the input.
    pub file: PathBuf,
}

/// What came of a target.
#[derive(Debug)]
pub struct Outcome {
    /// The target.
    pub target: &'static str,
    /// What came of it.
    pub result: Result<Tally, Crash>,
}

/// What to run.
#[derive(Debug)]
pub struct Wish<'a> {
    /// This program, which is started again for each target.
    pub program: &'a Path,
    /// The targets.
    pub targets: &'a [Target],
    /// How long each goes on; nothing for its own number of inputs.
    pub effort: Option<Effort>,
    /// The seed.
    pub seed: u64,
    /// Where inputs that fail are written.
    pub crashes: &'a Path,
    /// How many processes run at a time.
    pub at_once: usize,
}

/// Runs targets, several at a time, and tells each as it ends.
pub fn run(wish: &Wish<'_>, tell: &(dyn Fn(&Outcome) + Sync)) -> Result<Vec<Outcome>, FuzzError> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..wish.at_once.max(1))
            .map(|_| {
                scope.spawn(|| -> Result<(), FuzzError> {
                    while let Some(target) = wish.targets.get(next.fetch_add(1, Ordering::SeqCst)) {
                        let result = run_one(wish, target).map_err(|source| FuzzError::Io {
                            target: target.name,
                            source,
                        })?;
                        let outcome = Outcome {
                            target: target.name,
                            result,
                        };
                        tell(&outcome);
                        if let Ok(mut outcomes) = outcomes.lock() {
                            outcomes.push(outcome);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for worker in workers {
            if let Ok(result) = worker.join() {
                result?;
            }
        }
        Ok(())
    })?;
    Ok(outcomes.into_inner().unwrap_or_default())
}

/// Who a worker is where we are root: an archive that gets out of its folder must not do harm.
const NOBODY: u32 = 65_534;

/// The command of a worker. Where we are root it is a copy of the program, which anyone may read, run by nobody.
fn worker(program: &Path, folder: &Path) -> io::Result<Command> {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        return Ok(Command::new(program));
    }
    let copy = folder.join("program");
    // A link where that is possible: the program is large.
    if fs_err::hard_link(program, &copy).is_err() {
        fs_err::copy(program, &copy)?;
    }
    fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    chown(folder, Some(NOBODY), Some(NOBODY))?;
    let mut command = Command::new(copy);
    command.uid(NOBODY).gid(NOBODY).env("TMPDIR", folder);
    Ok(command)
}

fn run_one(wish: &Wish<'_>, target: &Target) -> io::Result<Result<Tally, Crash>> {
    let folder = tempfile::tempdir()?;
    corpus::copy(target.name, &folder.path().join(CORPUS))?;
    let mut command = worker(wish.program, folder.path())?;
    command.args(["work", target.name]);
    command.arg("--seed").arg(wish.seed.to_string());
    match wish.effort.unwrap_or(Effort::Inputs(target.inputs)) {
        Effort::Inputs(most) => command.arg("--inputs").arg(most.to_string()),
        Effort::Time(most) => command.arg("--seconds").arg(most.as_secs().to_string()),
    };
    command.arg("--folder").arg(folder.path());
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .output()?;
    if output.status.success() {
        let tally = String::from_utf8_lossy(&output.stdout);
        let mut numbers = tally.split_whitespace().map_while(|word| word.parse().ok());
        let mut number = || numbers.next().unwrap_or(0);
        return Ok(Ok(Tally {
            inputs: number(),
            taken: number(),
            refusals: number(),
        }));
    }
    let note = fs_err::read_to_string(folder.path().join(NOTE)).ok();
    let said = String::from_utf8_lossy(&output.stderr);
    let why = note.unwrap_or_else(|| ending(output.status, &said));
    let input = fs_err::read(folder.path().join(INPUT))?;
    fs_err::create_dir_all(wish.crashes)?;
    let digest = mullion_wire::Sha256Digest::of(&input);
    let file = wish
        .crashes
        .join(format!("{}-{}", target.name, &digest.as_str()[..12]));
    fs_err::write(&file, &input)?;
    Ok(Err(Crash {
        target: target.name,
        why,
        file,
    }))
}

/// How a process ended that left no note: a stack overflow, or the system's own verdict.
fn ending(status: ExitStatus, said: &str) -> String {
    let last = said.trim().lines().last().unwrap_or_default();
    format!("ended by itself ({status}): {last}")
}
