//! Fills a containerd store, so that no machine imports anything.
//!
//! The template's own containerd does it, on this computer, with a store inside the template. It runs in a
//! mount name space of its own and dies with the thread that started it: whatever happens, no process and no
//! mount stays behind.

mod import;

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mullion_plan::Attend;
use mullion_program::{Ended, SYSTEM_PATH, end_group, run};
use mullion_wire::Patience;
use mullion_wire::text::one_line;

use crate::error::TemplateError;
use crate::source::Source;
use crate::tree::Tree;

/// How long containerd may take to answer, or to end.
const ANSWERED_WITHIN: Duration = Duration::from_mins(1);

/// How long one question may take. `ctr` gives up by itself after that.
const ASKED_WITHIN: Duration = Duration::from_mins(1);

/// How long the program that asks may take; it ends by itself before.
const ENDED_WITHIN: Duration = Duration::from_secs(90);

/// How long a program has to undo what it began before it is ended at once.
const GRACE: Duration = Duration::from_secs(2);

/// How often it is asked whether it does.
const PAUSE: Duration = Duration::from_millis(50);

/// How many lines of a failed program are told.
const TAIL: usize = 10;

/// The name space of containerd that Kubernetes looks into.
const NAMESPACE: &str = "k8s.io";

/// What containerd's Kubernetes part puts on images that it knows.
const MANAGED: &str = "io.cri-containerd.image=managed";

/// What keeps kubelet from removing an image when the disk is full. It could not be pulled again as the same image:
/// a registry or mirror resolves its tag by then.
const PINNED: &str = "io.cri-containerd.pinned=pinned";

/// Parts of containerd that a store does not need, and that would look at this computer.
const DISABLED: [&str; 12] = [
    "io.containerd.cri.v1.images",
    "io.containerd.cri.v1.runtime",
    "io.containerd.grpc.v1.cri",
    "io.containerd.internal.v1.restart",
    "io.containerd.internal.v1.tracing",
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.snapshotter.v1.native",
    "io.containerd.snapshotter.v1.zfs",
];

/// Fills `<folder>/containerd` with the archives' images and gives their references.
pub(crate) fn fill(
    folder: &Path,
    archives: &[Source],
    patience: Patience,
    attendant: &dyn Attend,
) -> Result<BTreeSet<String>, TemplateError> {
    let folder = &fs_err::canonicalize(folder)?;
    let store = folder.join("containerd");
    fs_err::create_dir_all(&store)?;
    if archives.is_empty() {
        return Ok(BTreeSet::new());
    }
    let root = Tree::open(&folder.join("root"))?;
    // These run here: a link in the distribution's files must not make them programs of this computer.
    let program = |name: &'static str| {
        let path = root.real(Path::new("usr/local/bin").join(name));
        path.map_err(|_| TemplateError::MissingProgram(name))
    };
    let programs = (program("containerd")?, program("ctr")?);
    let containerd = Containerd::start(folder, &store, programs, patience, attendant)?;
    containerd.import(archives, attendant)?;
    let references = containerd.label()?;
    containerd.stop()?;
    // Its own name for itself: every machine's finds another.
    crate::lock::remove_tree(&store.join("io.containerd.grpc.v1.introspection"))?;
    Ok(references)
}

/// A containerd that lives as long as this value does.
#[derive(Debug)]
struct Containerd {
    ctr: PathBuf,
    /// Its socket, state and log, inside the template that grows: what a killed build leaves goes with it.
    runtime: PathBuf,
    child: Child,
    /// How much longer than usual everything may take.
    patience: Patience,
}

/// Where containerd listens. A socket's path has at most 107 characters, and the template's may be longer: both
/// sides work in the folder of the socket and name it by that.
const SOCKET: &str = "/proc/self/cwd/containerd.sock";

/// Whatever state it is given, containerd makes `/run/containerd` as well: here it does so in a folder that goes with
/// its name space. A template that is itself in memory must stay visible; then an empty folder is left.
const COVER: &str = r#"case $PWD in /run/*) ;; *) mount -t tmpfs none /run ;; esac && exec "$@""#;

impl Containerd {
    /// Starts it; `programs` are containerd and ctr.
    fn start(
        folder: &Path,
        store: &Path,
        programs: (PathBuf, PathBuf),
        patience: Patience,
        attendant: &dyn Attend,
    ) -> Result<Self, TemplateError> {
        let runtime = folder.join("runtime");
        fs_err::create_dir(&runtime)?;
        let config = runtime.join("config.toml");
        fs_err::write(&config, settings(store, &runtime))?;
        let log = fs_err::File::create(runtime.join("log"))?.into_parts().0;
        let child = program("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount"])
            .args(["sh", "-c", COVER, "sh"])
            .arg(&programs.0)
            .arg("--config")
            .arg(&config)
            .current_dir(&runtime)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|cause| TemplateError::Start {
                program: "setpriv".into(),
                cause,
            })?;
        let mut containerd = Self {
            ctr: programs.1,
            runtime,
            child,
            patience,
        };
        containerd.await_answer(attendant)?;
        Ok(containerd)
    }

    fn await_answer(&mut self, attendant: &dyn Attend) -> Result<(), TemplateError> {
        let begun = Instant::now();
        let limit = self.patience.times(ANSWERED_WITHIN);
        loop {
            if attendant.is_called_off() {
                return Err(TemplateError::CalledOff);
            }
            if self.child.try_wait()?.is_some() {
                let tail = tail_of(&self.runtime.join("log"));
                return Err(TemplateError::Store { tail });
            }
            if begun.elapsed() > limit {
                let tail = tail_of(&self.runtime.join("log"));
                return Err(too_slow("containerd to answer", limit, tail));
            }
            if self.runtime.join("containerd.sock").exists() && self.ask(&["version"]).is_ok() {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Puts on every image what containerd's Kubernetes part would put on it, and gives their references.
    fn label(&self) -> Result<BTreeSet<String>, TemplateError> {
        let listed = self.ask(&["images", "list", "--quiet"])?;
        let mut references = BTreeSet::new();
        for reference in listed
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            self.ask(&["images", "label", reference, MANAGED, PINNED])?;
            references.insert(reference.to_owned());
        }
        Ok(references)
    }

    /// Ends it as it wants to be ended, so that its files are complete.
    fn stop(mut self) -> Result<(), TemplateError> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .map_err(std::io::Error::from)?;
        let begun = Instant::now();
        let limit = self.patience.times(ANSWERED_WITHIN);
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > limit {
                let tail = tail_of(&self.runtime.join("log"));
                return Err(too_slow("containerd to end", limit, tail));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn ctr(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.ctr);
        command
            .env_clear()
            .env("PATH", SYSTEM_PATH)
            .process_group(0)
            .current_dir(&self.runtime)
            .args(["--address", SOCKET])
            .args(["--namespace", NAMESPACE])
            .args(args);
        command
    }

    fn ask(&self, args: &[&str]) -> Result<String, TemplateError> {
        let asked = self.patience.times(ASKED_WITHIN);
        let limit = self.patience.times(ENDED_WITHIN);
        let mut command = self.ctr(&["--timeout", &format!("{}ms", asked.as_millis())]);
        let begun = Instant::now();
        let ended = run(command.args(args), b"", limit).map_err(ctr_not_started)?;
        let words = args.join(" ");
        Err(match ended {
            Ended::Exited(exited) if exited.status.success() => {
                return Ok(String::from_utf8_lossy(&exited.stdout).into_owned());
            }
            Ended::Exited(exited) => {
                let tail = last(&lines_of(&exited.stderr));
                if begun.elapsed() >= asked {
                    too_slow(format!("`ctr {words}`"), asked, tail)
                } else {
                    let command = words;
                    TemplateError::Ctr { command, tail }
                }
            }
            Ended::TooSlow(_) => too_slow(format!("`ctr {words}`"), limit, String::new()),
            Ended::Cancelled => TemplateError::CalledOff,
        })
    }
}

/// What was not done by its deadline.
fn too_slow(what: impl Into<String>, limit: Duration, tail: String) -> TemplateError {
    TemplateError::TooSlow {
        what: what.into(),
        limit,
        tail: if tail.is_empty() { last(&[]) } else { tail },
    }
}

fn ctr_not_started(cause: std::io::Error) -> TemplateError {
    TemplateError::Start {
        program: "ctr".into(),
        cause,
    }
}

fn lines_of(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(|line| one_line(line).into_owned());
    lines.collect()
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // What it mounted goes with its name space.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = crate::lock::remove_tree(&self.runtime);
    }
}

/// Waits for the end of a program that writes to a log. A program that is cancelled is ended, and so is one that takes
/// longer than its limit.
pub(crate) fn await_end(
    what: &str,
    child: &mut Child,
    limit: Duration,
    log: &Path,
    attendant: &dyn Attend,
) -> Result<ExitStatus, TemplateError> {
    let begun = Instant::now();
    loop {
        if begun.elapsed() >= limit {
            end_group(child, GRACE);
            child.wait()?;
            return Err(too_slow(what, limit, tail_of(log)));
        }
        if attendant.is_called_off() {
            end_group(child, GRACE);
            return Err(TemplateError::CalledOff);
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(PAUSE);
    }
}

/// A program of this computer.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    // What a terminal sends when somebody presses Ctrl-C is for us alone.
    command
        .env_clear()
        .env("PATH", SYSTEM_PATH)
        .process_group(0);
    command
}

/// containerd's settings: a store, a socket, and nothing that looks at this computer.
fn settings(store: &Path, runtime: &Path) -> String {
    let quoted = |path: PathBuf| toml_string(&path.to_string_lossy());
    let disabled = DISABLED.map(toml_string).join(", ");
    let store = quoted(store.to_owned());
    let state = quoted(runtime.join("state"));
    let socket = toml_string(SOCKET);
    let ttrpc = toml_string(&format!("{SOCKET}.ttrpc"));
    let opt = quoted(runtime.join("opt"));
    format!(
        "version = 3\nroot = {store}\nstate = {state}\ndisabled_plugins = [{disabled}]\n\
         [grpc]\naddress = {socket}\n[ttrpc]\naddress = {ttrpc}\n\
         [plugins.'io.containerd.internal.v1.opt']\npath = {opt}\n"
    )
}

/// A text in TOML.
fn toml_string(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

pub(crate) fn tail_of(path: &Path) -> String {
    let text = fs_err::read_to_string(path).unwrap_or_default();
    last(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

fn last(lines: &[String]) -> String {
    let from = lines.len().saturating_sub(TAIL);
    let tail = lines[from..].join("; ");
    if tail.is_empty() {
        "it said nothing".into()
    } else {
        tail
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::ErrorClass;

    use super::*;

    /// A containerd whose `ctr` is another program.
    pub(super) fn containerd(
        folder: &Path,
        ctr: impl Into<PathBuf>,
        patience: Patience,
    ) -> Containerd {
        let runtime = folder.join("runtime");
        fs_err::create_dir(&runtime).unwrap();
        Containerd {
            ctr: ctr.into(),
            runtime,
            child: program("sleep").arg("600").spawn().unwrap(),
            patience,
        }
    }

    #[test]
    fn the_patience_of_the_run_reaches_every_question() {
        for (hundredths, given) in [(100, "60000ms"), (300, "180000ms")] {
            let folder = tempfile::tempdir().unwrap();
            let patience = Patience::of_hundredths(hundredths);
            let containerd = containerd(folder.path(), "/bin/echo", patience);
            let said = containerd.ask(&["version"]).unwrap();
            assert!(said.contains(&format!("--timeout {given} ")), "{said}");
        }
    }

    #[test]
    fn what_takes_too_long_is_tried_again_and_what_is_refused_is_not() {
        let hurried = Patience::of_hundredths(10);
        let folder = tempfile::tempdir().unwrap();
        let refusing = containerd(folder.path(), "/bin/false", hurried);
        let refused = refusing.ask(&["version"]).unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Refused, "{refused}");
        drop(refusing);
        let log = folder.path().join("log");
        fs_err::write(&log, "the last line").unwrap();
        let mut child = program("sleep").arg("600").spawn().unwrap();
        let limit = Duration::from_millis(1);
        let slow = await_end("Wine", &mut child, limit, &log, &Deaf).unwrap_err();
        assert_eq!(slow.class(), ErrorClass::NotYet, "{slow}");
        assert!(slow.to_string().contains("the last line"), "{slow}");
        assert!(child.try_wait().unwrap().is_some(), "it was ended");
    }

    /// Hears nothing, and never cancels.
    struct Deaf;

    impl Attend for Deaf {
        fn hear(&self, _: mullion_plan::News) {}

        fn is_called_off(&self) -> bool {
            false
        }
    }

    #[test]
    fn settings_survive_any_path() {
        let text = settings(Path::new("/a\"b\\c"), Path::new("/run/x"));
        assert!(text.contains(r#"root = "/a\"b\\c""#), "{text}");
        assert!(text.contains(r#"state = "/run/x/state""#), "{text}");
    }

    #[test]
    fn a_failure_shows_its_last_lines() {
        let lines: Vec<_> = (0..30).map(|number| number.to_string()).collect();
        assert!(last(&lines).starts_with("20; 21"));
        assert_eq!(last(&[]), "it said nothing");
    }
}
