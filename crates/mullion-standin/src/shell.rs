//! The login shell: what `cmd` is to Windows' OpenSSH.
//!
//! A line is run by `cmd.exe /c` under Wine, with the standard streams and the exit code of this process. A Unix process
//! has eight bits for its exit code, so 300 becomes 44. Only standard error goes through our hands: the first program
//! after a while starts Wine's services, they keep that stream for as long as they live, and sshd would wait for its
//! end. An interactive `cmd` has a terminal, which nobody waits for, and becomes this very process.
//!
//! When whoever asked has gone, the line ends, with every program that it started: Windows' OpenSSH has them in one job,
//! here they are one process group. Linux' sshd would let them run on.
//!
//! The line must reach `cmd` as it was typed, quotes included, and Wine does not do that by itself: it rebuilds a command
//! line from the arguments, and writes `\"` for each quote, which `cmd` does not undo. So the line travels in variables
//! of the environment, and `cmd` is asked to run `%MULLION_LINE_0%`: it puts variables in before it looks at quotes and
//! signs. It does so once, so what is itself a variable of the line (`%PATH%`) stays in the argument, between the pieces
//! of the line: `%MULLION_LINE_0%%PATH%%MULLION_LINE_1%`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::drive::Drive;
use crate::settings::{Settings, SettingsError};

/// What is always set: Wine is quiet, text is UTF-8, and no desktop is looked for.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("WINEDEBUG", "-all"),
    ("LC_ALL", "C.UTF-8"),
    ("XDG_RUNTIME_DIR", "/run"),
];

/// What the pieces of a line are called.
const PIECE: &str = "MULLION_LINE_";

/// One start of `cmd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    program: PathBuf,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    folder: PathBuf,
}

impl Start {
    /// A line, or an interactive `cmd` where there is none.
    pub fn new(settings: &Settings, line: Option<&str>) -> Result<Self, SettingsError> {
        let mut environment: BTreeMap<String, String> = ENVIRONMENT
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let prefix = settings.prefix.display().to_string();
        environment.insert("WINEPREFIX".into(), prefix);
        environment.extend(settings.environment.clone());
        let mut arguments = vec!["cmd.exe".to_owned()];
        if let Some(line) = line {
            let (argument, pieces) = disguise(line);
            arguments.extend(["/s".into(), "/c".into(), argument]);
            environment.extend(pieces);
        }
        Ok(Self {
            program: settings.program.clone(),
            arguments,
            environment,
            folder: folder(settings)?,
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(&self.environment)
            .current_dir(&self.folder);
        command
    }

    /// Becomes that program. Returns only when it cannot.
    pub fn become_it(&self) -> io::Error {
        self.command().exec()
    }

    /// Runs that program to its end, and gives its exit code; what killed it, as shells tell it, where it has none.
    pub fn run(&self) -> io::Result<u8> {
        let (errors, theirs) = io::pipe()?;
        // Its end of the pipe must not stay open here.
        let mut child = self.command().stderr(theirs).process_group(0).spawn()?;
        if let Ended::GivenUp(group) = pass_errors(&child, errors)? {
            // What has ended already is no failure.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = child.wait()?;
        let code = status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(code.unwrap_or_default().to_le_bytes()[0])
    }
}

/// Why a program is watched no longer.
enum Ended {
    /// It has ended.
    ByItself,
    /// Nobody is there any more who could be told what it writes. Its group still runs.
    GivenUp(Pid),
}

/// Passes on what comes on a program's standard error until the program has ended: not until the stream has, which others
/// may keep. Everything that the program wrote is passed on.
fn pass_errors(child: &Child, errors: PipeReader) -> io::Result<Ended> {
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| io::Error::other("a process without a number"))?;
    let program = pidfd_open(number, PidfdFlags::empty())?;
    let mut piece = vec![0; 64 * 1024];
    let out = io::stdout();
    let mut errors = Some(errors);
    loop {
        let source = errors.as_ref().map_or(program.as_fd(), AsFd::as_fd);
        let mut watched = [
            PollFd::from_borrowed_fd(source, PollFlags::IN),
            PollFd::new(&program, PollFlags::IN),
            // Nothing is asked of it; that nobody reads it any more is told all the same.
            PollFd::new(&out, PollFlags::empty()),
        ];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let [has_errors, is_over, is_given_up] =
            watched.each_ref().map(|one| !one.revents().is_empty());
        if is_given_up && !is_over {
            return Ok(Ended::GivenUp(number));
        }
        if let Some(stream) = errors.as_mut().filter(|_| has_errors) {
            match stream.read(&mut piece)? {
                0 => errors = None,
                // Where nobody listens any more, the program must not wait for it.
                read => drop(io::stderr().write_all(&piece[..read])),
            }
        } else if is_over {
            return Ok(Ended::ByItself);
        }
    }
}

/// The home, or the drive where there is none.
fn folder(settings: &Settings) -> Result<PathBuf, SettingsError> {
    let drive = Drive::open(&settings.drive())?;
    let home = drive.locate(&settings.home()?).ok();
    let home = home.filter(|home| home.is_dir());
    Ok(home.unwrap_or_else(|| drive.folder().to_owned()))
}

/// The argument that stands for a line, and the variables that it needs.
fn disguise(line: &str) -> (String, BTreeMap<String, String>) {
    let mut argument = String::new();
    let mut pieces = BTreeMap::new();
    let mut hide = |argument: &mut String, text: &str| {
        if !text.is_empty() {
            let name = format!("{PIECE}{}", pieces.len());
            let _ = write!(argument, "%{name}%");
            pieces.insert(name, text.to_owned());
        }
    };
    let mut hidden_to = 0;
    let mut place = 0;
    while let Some(begin) = line[place..].find('%').map(|found| place + found) {
        let Some(length) = variable(&line[begin + 1..]) else {
            place = begin + 1;
            continue;
        };
        let end = begin + 1 + length + 1;
        hide(&mut argument, &line[hidden_to..begin]);
        argument.push_str(&line[begin..end]);
        (hidden_to, place) = (end, end);
    }
    hide(&mut argument, &line[hidden_to..]);
    (argument, pieces)
}

/// How long the variable's name is, if what stands behind a `%` is one with its closing `%`. A single letter is what
/// `for` counts with.
fn variable(text: &str) -> Option<usize> {
    let length = text.find('%')?;
    let inner = &text[..length];
    let (name, form) = inner.split_once(':').unwrap_or((inner, ""));
    let is_name = name.len() > 1
        && name.starts_with(|letter: char| letter == '_' || letter.is_ascii_alphabetic())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "_()".contains(letter));
    let is_form = !form.contains(|letter: char| letter == '"' || letter.is_whitespace());
    (is_name && is_form).then_some(length)
}

/// The arguments of our own SFTP server, if a line starts it: OpenSSH starts its subsystems through the login shell, and
/// this one is a program of the machine.
pub fn sftp_arguments<'a>(line: &'a str, own: &Path) -> Option<Vec<&'a str>> {
    let mut words = line.split_whitespace();
    let program = words.next().map(Path::new)?;
    let is_own = program.is_absolute() && program.file_name() == own.file_name();
    (is_own && words.next() == Some("sftp")).then(|| words.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `cmd` makes of the argument: each variable replaced once, unknown ones left.
    fn expanded(line: &str, known: &[(&str, &str)]) -> String {
        let (argument, pieces) = disguise(line);
        assert!(
            !argument.contains(['"', ' ']) && !argument.ends_with('\\'),
            "Wine would change {argument}"
        );
        let mut out = String::new();
        let mut rest = argument.as_str();
        while let Some((before, behind)) = rest.split_once('%') {
            let (name, after) = behind.split_once('%').expect("a pair");
            let value = pieces.get(name).map(String::as_str).or_else(|| {
                let found = known.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| *value)
            });
            out.push_str(before);
            match value {
                Some(value) => out.push_str(value),
                None => out.extend(["%", name, "%"]),
            }
            rest = after;
        }
        out + rest
    }

    #[test]
    fn a_line_reaches_cmd_as_it_was_typed() {
        for line in [
            "ver",
            "echo hi",
            r#""C:\Program Files\a b\x.exe" "one two" three"#,
            r#"echo "a" & echo 'b' | find "c" > C:\out.txt"#,
            r#"for %i in ("a b" c) do echo "%i""#,
            r"dir C:\k\",
            r#"echo \"x\\" "#,
            "echo 100% sure",
            "echo ünï 語",
            "  two  blanks  ",
            "",
            "%",
            "%%",
        ] {
            assert_eq!(expanded(line, &[]), line);
        }
    }

    #[test]
    fn variables_of_the_line_are_still_cmds_to_replace() {
        let known = [
            ("PATH", r"C:\Windows"),
            ("ProgramFiles(x86)", "P"),
            ("OS:~0,3", "Win"),
        ];
        for (line, expected) in [
            ("echo %PATH%", r"echo C:\Windows"),
            (
                r#"set "PATH=%PATH%;C:\k" & x"#,
                r#"set "PATH=C:\Windows;C:\k" & x"#,
            ),
            ("%ProgramFiles(x86)%", "P"),
            ("echo %OS:~0,3%", "echo Win"),
            ("echo %NOPE%", "echo %NOPE%"),
            ("%PATH%%PATH%", r"C:\WindowsC:\Windows"),
        ] {
            assert_eq!(expanded(line, &known), expected, "{line}");
        }
    }

    fn settings(folder: &Path) -> Settings {
        fs_err::create_dir_all(folder.join("drive_c/users/administrator")).unwrap();
        Settings {
            prefix: folder.to_owned(),
            ..Settings::default()
        }
    }

    #[test]
    fn a_login_begins_at_home_or_on_the_drive() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(folder.path());
        let start = Start::new(&settings, Some("ver")).unwrap();
        let drive = fs_err::canonicalize(folder.path().join("drive_c")).unwrap();
        assert_eq!(start.folder, drive.join("users/administrator"));
        assert_eq!(start.arguments, ["cmd.exe", "/s", "/c", "%MULLION_LINE_0%"]);
        assert_eq!(start.environment["WINEDEBUG"], "-all");
        settings.home = r"C:\gone".into();
        settings
            .environment
            .insert("WINEDEBUG".into(), "+relay".into());
        let interactive = Start::new(&settings, None).unwrap();
        assert_eq!(interactive.folder, drive);
        assert_eq!(interactive.arguments, ["cmd.exe"]);
        assert_eq!(interactive.environment["WINEDEBUG"], "+relay");
    }

    #[test]
    fn the_subsystem_is_known_by_its_own_program() {
        let own = Path::new("/usr/local/bin/mullion-standin");
        assert_eq!(
            sftp_arguments("/usr/local/bin/mullion-standin sftp --config /x", own),
            Some(vec!["--config", "/x"])
        );
        for line in [
            "mullion-standin sftp",
            "/usr/local/bin/mullion-standin",
            "/usr/local/bin/mullion-standin cri",
            "sftp",
            "",
        ] {
            assert_eq!(sftp_arguments(line, own), None, "{line}");
        }
    }
}
