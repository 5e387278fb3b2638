//! A machine in memory: files in a map, commands answered by a closure, faults on request.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mullion_plan::{Attend, News, Unattended, Unit};
use mullion_wire::Sha256Digest;

use mullion_ssh::Lines;
use mullion_ssh::Probe;
use mullion_ssh::Shell;
use mullion_ssh::{Cause, TransportError};
use mullion_ssh::{Command, Exit, Put, Stdin, Stream, Upload};
use mullion_ssh::{ReadTransport, Transport};

/// How often a command that takes its time looks whether it is called off.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Files by path.
pub type Files = BTreeMap<String, StoredFile>;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Permissions.
    pub mode: u32,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What it writes, piece by piece.
    pub output: Vec<(Stream, Vec<u8>)>,
    /// How long it takes after that.
    pub takes: Duration,
    /// How it ends: a status, or the name of a signal.
    pub ending: Result<i32, String>,
}

impl Answer {
    /// Writes nothing, and ends with that status.
    pub fn exit(status: i32) -> Self {
        Self {
            output: Vec::new(),
            takes: Duration::ZERO,
            ending: Ok(status),
        }
    }

    /// Writes nothing, and is ended by that signal.
    pub fn signal(name: impl Into<String>) -> Self {
        Self {
            ending: Err(name.into()),
            ..Self::exit(0)
        }
    }

    /// Writes this to standard output.
    #[must_use]
    pub fn out(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.output.push((Stream::Out, bytes.into()));
        self
    }

    /// Writes this to standard error.
    #[must_use]
    pub fn err(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.output.push((Stream::Err, bytes.into()));
        self
    }

    /// Takes so long.
    #[must_use]
    pub fn takes(mut self, time: Duration) -> Self {
        self.takes = time;
        self
    }
}

/// What is wrong with the machine or the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nobody answers.
    Refuse,
    /// The connection breaks after the next so many lines, and stays broken. An upload counts as one line.
    Lose {
        /// The lines that still come.
        after: usize,
    },
    /// Every line takes so long.
    Slow {
        /// So long.
        each: Duration,
    },
    /// What is sent arrives changed.
    Corrupt,
}

/// Answers commands; `None` for what it does not know.
type Script = dyn Fn(&Command, &mut Files) -> Option<Answer> + Send + Sync;

/// A machine in memory.
pub struct Memory {
    place: String,
    script: Box<Script>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: Files,
    heard: Vec<Command>,
    fault: Option<Fault>,
}

impl Memory {
    /// A machine without files. What the script does not answer is answered by a few commands that every machine has
    /// (`true`, `false`, `cat`, `sha256sum`), and else by status 127.
    pub fn new(
        place: impl Into<String>,
        script: impl Fn(&Command, &mut Files) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            place: place.into(),
            script: Box::new(script),
            state: Mutex::default(),
        }
    }

    /// Lets something be wrong, until [`Memory::mend`].
    pub fn strike(&self, fault: Fault) {
        self.lock().fault = Some(fault);
    }

    /// Everything is well again.
    pub fn mend(&self) {
        self.lock().fault = None;
    }

    /// The files as they are.
    pub fn files(&self) -> Files {
        self.lock().files.clone()
    }

    /// Lays a file down.
    pub fn lay(&self, path: impl Into<String>, bytes: impl Into<Vec<u8>>, mode: u32) {
        let bytes = bytes.into();
        self.lock()
            .files
            .insert(path.into(), StoredFile { bytes, mode });
    }

    /// Every command so far, in order.
    pub fn heard(&self) -> Vec<Command> {
        self.lock().heard.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more line comes or goes, unless something is wrong.
    fn pass(&self, doing: &str) -> Result<(), TransportError> {
        let fault = {
            let mut state = self.lock();
            let fault = state.fault;
            if let Some(Fault::Lose { after }) = &mut state.fault {
                *after = after.saturating_sub(1);
            }
            fault
        };
        match fault {
            Some(Fault::Lose { after: 0 }) => Err(TransportError::Lost {
                place: self.place.clone(),
                doing: doing.to_owned(),
                source: Cause::new("the connection was closed"),
            }),
            Some(Fault::Slow { each }) => {
                std::thread::sleep(each);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether anybody answers at all.
    fn reach(&self, doing: &str) -> Result<(), TransportError> {
        match self.lock().fault {
            Some(Fault::Refuse) => Err(TransportError::Unreachable {
                place: self.place.clone(),
                source: Cause::new("connection refused"),
            }),
            Some(Fault::Lose { after: 0 }) => Err(TransportError::Lost {
                place: self.place.clone(),
                doing: doing.to_owned(),
                source: Cause::new("the connection was closed"),
            }),
            _ => Ok(()),
        }
    }

    fn check(
        &self,
        doing: &str,
        attendant: &dyn Attend,
        began: Instant,
        deadline: Option<Duration>,
    ) -> Result<(), TransportError> {
        if attendant.is_called_off() {
            return Err(TransportError::CalledOff {
                place: self.place.clone(),
                doing: doing.to_owned(),
            });
        }
        match deadline {
            Some(after) if began.elapsed() >= after => Err(TransportError::Deadline {
                place: self.place.clone(),
                command: doing.to_owned(),
                after,
            }),
            _ => Ok(()),
        }
    }

    fn perform(
        &self,
        command: &Command,
        attendant: &dyn Attend,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Exit, TransportError> {
        let doing = command.to_string();
        let began = Instant::now();
        let check = || self.check(&doing, attendant, began, command.deadline);
        check()?;
        self.reach(&doing)?;
        let answer = {
            let mut state = self.lock();
            state.heard.push(command.clone());
            let answer = (self.script)(command, &mut state.files);
            answer.unwrap_or_else(|| usual(command, &state.files))
        };
        // Lines are put together as those of a real machine are.
        let mut lines = Vec::new();
        let (mut out, mut err) = (Lines::default(), Lines::default());
        for (stream, bytes) in &answer.output {
            let splitter = match stream {
                Stream::Out => &mut out,
                Stream::Err => &mut err,
            };
            splitter.take(bytes, &mut |line| lines.push((*stream, line.to_owned())));
        }
        out.finish(&mut |line| lines.push((Stream::Out, line.to_owned())));
        err.finish(&mut |line| lines.push((Stream::Err, line.to_owned())));
        for (stream, line) in lines {
            check()?;
            self.pass(&doing)?;
            on_line(stream, &line);
        }
        let since = Instant::now();
        while since.elapsed() < answer.takes {
            check()?;
            self.reach(&doing)?;
            let left = answer.takes.saturating_sub(since.elapsed());
            std::thread::sleep(left.min(ASK_EVERY));
        }
        self.pass(&doing)?;
        match answer.ending {
            Ok(status) => Ok(Exit { status }),
            Err(signal) => Err(TransportError::Signal {
                place: self.place.clone(),
                command: doing,
                signal,
            }),
        }
    }
}

/// What every machine has.
fn usual(command: &Command, files: &Files) -> Answer {
    let args: Vec<_> = command.args.iter().map(String::as_str).collect();
    let read = |path: &str| files.get(path).map(|file| file.bytes.clone());
    let given = match &command.stdin {
        Stdin::Empty => Vec::new(),
        Stdin::Bytes(bytes) => bytes.clone(),
    };
    let none = |path: &str| Answer::exit(1).err(format!("{path}: No such file or directory\n"));
    match (command.program.as_str(), &args[..]) {
        ("true", []) => Answer::exit(0),
        ("false", []) => Answer::exit(1),
        ("cat", []) => Answer::exit(0).out(given),
        ("cat", [path]) => {
            read(path).map_or_else(|| none(path), |bytes| Answer::exit(0).out(bytes))
        }
        ("sha256sum", []) => Answer::exit(0).out(format!("{}  -\n", Sha256Digest::of(&given))),
        ("sha256sum", ["--", path]) => read(path).map_or_else(
            || none(path),
            |bytes| Answer::exit(0).out(format!("{}  {path}\n", Sha256Digest::of(&bytes))),
        ),
        (program, _) => Answer::exit(127).err(format!("{program}: not found\n")),
    }
}

impl ReadTransport for Memory {
    fn place(&self) -> &str {
        &self.place
    }

    fn probe(
        &self,
        probe: &Probe,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Exit, TransportError> {
        self.perform(&probe.command(&Shell::Posix), &Unattended, on_line)
    }

    fn read_file(&self, path: &str, limit: u64) -> Result<Vec<u8>, TransportError> {
        let path = Shell::Posix.absolute(path)?;
        self.reach(&path)?;
        self.pass(&path)?;
        let place = self.place.clone();
        match self.lock().files.get(&path) {
            None => Err(TransportError::NoFile { place, path }),
            Some(file) if file.bytes.len() as u64 > limit => {
                Err(TransportError::TooLarge { place, path, limit })
            }
            Some(file) => Ok(file.bytes.clone()),
        }
    }
}

impl Transport for Memory {
    fn run(
        &self,
        command: &Command,
        attendant: &dyn Attend,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Exit, TransportError> {
        self.perform(command, attendant, on_line)
    }

    fn put(
        &self,
        upload: &Upload,
        source: &mut dyn Read,
        attendant: &dyn Attend,
    ) -> Result<Put, TransportError> {
        let path = Shell::Posix.absolute(&upload.path)?;
        let doing = format!("put {path}");
        self.check(&doing, attendant, Instant::now(), None)?;
        self.reach(&doing)?;
        if let Some(file) = self.lock().files.get_mut(&path)
            && Sha256Digest::of(&file.bytes) == upload.sha256
        {
            file.mode = upload.mode;
            return Ok(Put::AlreadyThere);
        }
        let unread = |source| TransportError::Source {
            place: self.place.clone(),
            path: path.clone(),
            source,
        };
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).map_err(unread)?;
        let size = bytes.len() as u64;
        if size != upload.size {
            let words = format!("it has {size} bytes instead of {}", upload.size);
            return Err(unread(io::Error::other(words)));
        }
        self.pass(&doing)?;
        self.check(&doing, attendant, Instant::now(), None)?;
        attendant.hear(News::Amount {
            done: size,
            total: Some(size),
            unit: Unit::Bytes,
        });
        let mut state = self.lock();
        if state.fault == Some(Fault::Corrupt) {
            bytes.push(0);
        }
        let found = Sha256Digest::of(&bytes);
        if found != upload.sha256 {
            return Err(TransportError::Digest {
                place: self.place.clone(),
                path,
                expected: upload.sha256.clone(),
                found: found.to_string(),
            });
        }
        let mode = upload.mode;
        state.files.insert(path, StoredFile { bytes, mode });
        Ok(Put::Sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mullion_ssh::Class;

    fn machine() -> Memory {
        Memory::new("memory", |command, files| match command.program.as_str() {
            "install" => {
                let file = StoredFile {
                    bytes: b"done".to_vec(),
                    mode: 0o644,
                };
                files.insert("/done".into(), file);
                Some(Answer::exit(0).out("one\ntwo\n").err("hm\n"))
            }
            _ => None,
        })
    }

    #[test]
    fn a_command_may_change_files_and_is_remembered() {
        let machine = machine();
        let output = machine.output(&Command::new("install")).unwrap();
        assert_eq!(
            (output.out.as_str(), output.err.as_str()),
            ("one\ntwo\n", "hm\n")
        );
        assert_eq!(machine.read_file("/done", 10).unwrap(), b"done");
        assert_eq!(machine.heard(), [Command::new("install")]);
    }

    #[test]
    fn what_nobody_answers_is_not_found() {
        let output = machine().output(&Command::new("reboot")).unwrap();
        assert_eq!(output.exit.status, 127);
        let error = machine()
            .succeed(&Command::new("reboot"), &Unattended)
            .unwrap_err();
        assert_eq!(error.tail(), ["reboot: not found"]);
    }

    #[test]
    fn each_fault_is_an_error_of_its_class() {
        let machine = machine();
        machine.strike(Fault::Refuse);
        let error = machine.output(&Command::new("true")).unwrap_err();
        assert_eq!(error.class(), Class::Unreachable);
        machine.mend();

        machine.strike(Fault::Lose { after: 1 });
        let mut heard = Vec::new();
        let lost = machine.run(&Command::new("install"), &Unattended, &mut |_, line| {
            heard.push(line.to_owned());
        });
        assert_eq!(lost.unwrap_err().class(), Class::Lost);
        assert_eq!(heard, ["one"]);
        let error = machine.answer(&Probe::Alive).unwrap_err();
        assert_eq!(error.class(), Class::Lost);
        machine.mend();

        machine.strike(Fault::Corrupt);
        let error = machine.put_bytes("/a", b"abc", 0o644).unwrap_err();
        assert!(matches!(error, TransportError::Digest { .. }), "{error}");
        machine.mend();
        assert_eq!(machine.put_bytes("/a", b"abc", 0o644).unwrap(), Put::Sent);
    }

    #[test]
    fn a_slow_machine_meets_deadlines() {
        let machine = machine();
        machine.strike(Fault::Slow {
            each: Duration::from_millis(30),
        });
        let command = Command::new("install").within(Duration::from_millis(40));
        let error = machine.output(&command).unwrap_err();
        assert_eq!(error.class(), Class::Late);
    }
}
