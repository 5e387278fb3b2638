//! Running programs: never longer than their deadline, heard line by line, and ended with everything they started.

use std::io;
use std::os::windows::io::AsRawHandle as _;
use std::os::windows::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use windows::Win32::Foundation::{CloseHandle, HANDLE};
use windows::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject, TerminateJobObject,
};
use windows::Win32::System::Threading::CREATE_NO_WINDOW;
use windows::core::PCWSTR;

use super::super::streams::{feed, input, listen, watch};
use super::super::{Ended, LockWhile, Program, Programs, RunningProgram, SystemError};
use super::files::real;
use super::hive;
use super::own::Windows;
use super::search_path;

const SHELL: &str = "cmd.exe";
/// What `cmd.exe` takes before a line that it runs as it stands, without anybody's own settings.
const SHELL_ARGS: [&str; 3] = ["/D", "/S", "/C"];

const ENVIRONMENT: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";

/// A program with everything that it started.
struct Job(HANDLE);

impl Job {
    /// A job for a program that was just started. What that started before it was in the job is not: it would have to
    /// be quicker than this.
    fn of(child: &Child, ends: LockWhile) -> Result<Self, windows::core::Error> {
        let job = Self(unsafe { CreateJobObjectW(None, PCWSTR::null()) }?);
        if ends == LockWhile::AgentLives {
            // Where the agent is killed, the program goes with it.
            let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
            limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
            unsafe {
                SetInformationJobObject(
                    job.0,
                    JobObjectExtendedLimitInformation,
                    (&raw const limits).cast(),
                    u32::try_from(size_of_val(&limits)).unwrap_or_default(),
                )
            }?;
        }
        unsafe { AssignProcessToJobObject(job.0, HANDLE(child.as_raw_handle())) }?;
        Ok(job)
    }

    fn end(&self) {
        // It may have ended this very moment.
        let _ = unsafe { TerminateJobObject(self.0, 1) };
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Nothing is lost with a handle that does not close.
        let _ = unsafe { CloseHandle(self.0) };
    }
}

/// The folders of the machine's `Path` as it is now: the agent's own may be older.
fn folders() -> Vec<String> {
    let root = std::env::var("SystemRoot").unwrap_or_else(|_| r"C:\Windows".to_owned());
    // Windows finds a variable in any spelling; one that is younger than the agent is the machine's alone.
    let variable =
        |name: &str| std::env::var(name).unwrap_or_else(|_| hive::text(ENVIRONMENT, name));
    search_path::folders(&hive::text(ENVIRONMENT, "Path"), &root, &variable)
}

impl Programs for Windows {
    fn find_program(&self, name: &str) -> Option<String> {
        let is_program =
            |path: &String| fs_err::metadata(real(path)).is_ok_and(|found| found.is_file());
        let file = match name.rsplit_once('.') {
            Some((_, "exe")) => name.to_owned(),
            _ => format!("{name}.exe"),
        };
        if name.contains(['/', '\\']) {
            return Some(file).filter(is_program);
        }
        folders()
            .iter()
            .map(|folder| format!("{folder}/{file}"))
            .find(is_program)
    }

    fn run(&self, program: &Program, on_line: &mut dyn FnMut(&str)) -> Result<Ended, SystemError> {
        let Some(path) = self.find_program(&program.name) else {
            return Err(SystemError::NoProgram(program.name.clone()));
        };
        let not_started = |source| SystemError::NotStarted {
            program: program.name.clone(),
            source,
        };
        let (output, writer) = io::pipe().map_err(not_started)?;
        let mut command = Command::new(real(&path));
        if program.name == SHELL
            && let [switches @ .., line] = program.args.as_slice()
            && switches == SHELL_ARGS
        {
            // It takes its line as it stands, between two quotes.
            command.args(switches).raw_arg(format!("\"{line}\""));
        } else {
            command.args(&program.args);
        }
        command
            .env("PATH", folders().join(";").replace('/', "\\"))
            .current_dir("C:\\")
            .creation_flags(CREATE_NO_WINDOW.0)
            .stdin(input(program, self.lock.borrow().as_ref()).map_err(not_started)?)
            .stdout(writer.try_clone().map_err(not_started)?)
            .stderr(writer);
        for name in program.hidden(std::env::vars_os().map(|(name, _)| name)) {
            command.env_remove(name);
        }
        let mut child = command.spawn().map_err(not_started)?;
        // The command holds the writing end of the pipe, whose end is awaited.
        drop(command);
        // Without a job only the program itself can be ended.
        let job = Job::of(&child, program.lock).ok();
        if !program.input.is_empty() {
            feed(&mut child, program.input.clone());
        }
        let lines = listen(output).map_err(not_started)?;
        let end = &mut |child: &mut Child| end(job.as_ref(), child);
        watch(program, self.patience.get(), child, &lines, end, on_line).map(ended)
    }

    fn shell(&self, line: &str) -> Program {
        Program::new(SHELL, SHELL_ARGS.into_iter().chain([line]))
    }
}

/// Ends a program, with everything that it started where it has a job.
fn end(job: Option<&Job>, child: &mut Child) {
    match job {
        Some(job) => job.end(),
        None => {
            // It may have ended this very moment.
            let _ = child.kill();
        }
    }
}

fn ended(status: ExitStatus) -> Ended {
    Ended::Status(status.code().unwrap_or(-1))
}

/// A program that runs beside the agent.
struct Beside {
    child: Child,
    job: Option<Job>,
}

/// Starts a program that writes where the agent does, and ends with it.
pub(super) fn start(path: &str, args: &[String]) -> Result<Box<dyn RunningProgram>, SystemError> {
    let not_started = |source| SystemError::NotStarted {
        program: path.to_owned(),
        source,
    };
    let child = Command::new(real(path))
        .args(args)
        .current_dir("C:\\")
        .creation_flags(CREATE_NO_WINDOW.0)
        .stdin(Stdio::null())
        .spawn()
        .map_err(not_started)?;
    let job = Job::of(&child, LockWhile::AgentLives).ok();
    Ok(Box::new(Beside { child, job }))
}

impl RunningProgram for Beside {
    fn ended(&mut self) -> Result<Option<Ended>, SystemError> {
        let status = self.child.try_wait().map_err(SystemError::File)?;
        Ok(status.map(ended))
    }

    fn end(&mut self) {
        end(self.job.as_ref(), &mut self.child);
        let _ = self.child.wait();
    }
}
