//! A cluster of a test's own: a folder with its file, a state folder, a name that nobody else has.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::computer;
use crate::ran::{Ran, Running};
use crate::trial::say;

/// No command may take longer: a test that waits for ever tells nothing.
pub(crate) const PATIENCE: Duration = Duration::from_mins(15);

/// Where machines of this computer are, as the program has it.
pub(crate) fn place() -> PathBuf {
    let named = std::env::var_os("MULLION_PLACE");
    named.map_or_else(|| "/var/lib/mullion".into(), PathBuf::from)
}

/// The file of [`Lab::built_in`].
pub(crate) const BUILT_IN: &str =
    "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\nmachines: {linux: 1, windows: 1}\n";

/// A cluster of a test's own. What was made is removed with it, also when the test failed.
pub(crate) struct Lab {
    folder: TempDir,
    pub(crate) name: String,
    /// What its commands find in their environment, besides this process's.
    pub(crate) environment: Vec<(String, String)>,
    /// The words of a program that runs its commands, where that is not this process.
    pub(crate) through: Vec<String>,
    ran: RefCell<Vec<Ran>>,
    count: Cell<usize>,
}

impl Lab {
    /// A cluster whose file is `text`, with `NAME` replaced by its name.
    pub(crate) fn new(word: &str, text: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("mullion-real-")
            .tempdir()
            .unwrap();
        let random: String = folder
            .path()
            .to_string_lossy()
            .bytes()
            .rev()
            .take(6)
            .map(|byte| char::from(byte.to_ascii_lowercase()))
            .collect();
        let lab = Self {
            name: format!("t-{word}-{random}"),
            environment: vec![(
                "XDG_STATE_HOME".into(),
                folder.path().join("state").display().to_string(),
            )],
            folder,
            through: Vec::new(),
            ran: RefCell::default(),
            count: Cell::default(),
        };
        computer::is_ours(&lab.name);
        fs_err::create_dir(lab.path("output")).unwrap();
        lab.write(text);
        lab
    }

    /// One control plane and so many workers, in a network that nobody has.
    pub(crate) fn linux(word: &str, workers: usize) -> Self {
        Self::new(word, &Self::text(workers))
    }

    /// The built-in cluster under a name of the test's own, in a network that nobody has: one control plane, one Linux
    /// worker and one stand-in for Windows.
    pub(crate) fn built_in(word: &str) -> Self {
        Self::new(word, BUILT_IN)
    }

    /// The file of [`Lab::linux`].
    pub(crate) fn text(workers: usize) -> String {
        format!(
            "metadata: {{name: NAME}}\nnetwork: {{machineCIDR: null}}\nmachines: {{linux: {workers}}}\n"
        )
    }

    /// Writes the cluster file anew.
    pub(crate) fn write(&self, text: &str) {
        let text = text.replace("NAME", &self.name);
        fs_err::write(self.path("cluster.yaml"), text).unwrap();
    }

    /// A path in the lab's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program's state folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.path("state/mullion")
    }

    /// What the program keeps of this cluster.
    pub(crate) fn kept(&self) -> PathBuf {
        self.state().join("clusters").join(&self.name)
    }

    /// The folder of a machine.
    pub(crate) fn machine(&self, machine: &str) -> PathBuf {
        let named = self
            .environment
            .iter()
            .find(|(name, _)| name == "MULLION_PLACE");
        let place = named.map_or_else(place, |(_, place)| place.into());
        let machines = place.join("clusters").join(&self.name).join("machines");
        machines.join(machine)
    }

    /// The program, about to be run in the lab's folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let program = program().display().to_string();
        let mut words = self.through.iter().cloned().chain([program]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("MULLION_FILE")
            .env("NO_COLOR", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Starts a command, and does not wait for it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.start_command(&mut self.command(arguments))
    }

    /// Starts that command, and does not wait for it.
    pub(crate) fn start_command(&self, command: &mut Command) -> Running {
        self.count.set(self.count.get() + 1);
        let files = self.path("output").join(self.count.get().to_string());
        Running::start(command, &files.display().to_string())
    }

    /// Waits for a command that was started.
    #[track_caller]
    pub(crate) fn end(&self, running: Running) -> Ran {
        let ran = running.end(PATIENCE);
        self.ran.borrow_mut().push(ran.clone());
        ran
    }

    /// Runs a command.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.end(self.start(arguments))
    }

    /// Runs a command with that on its standard input.
    #[track_caller]
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let file = self.path("output/input");
        fs_err::write(&file, input).unwrap();
        let mut command = self.command(arguments);
        command.stdin(fs_err::File::open(&file).unwrap().into_parts().0);
        let running = self.start_command(&mut command);
        self.end(running)
    }

    /// Brings the cluster up.
    #[track_caller]
    pub(crate) fn up(&self) -> Ran {
        self.run(&["up"]).good()
    }

    /// Removes the cluster.
    #[track_caller]
    pub(crate) fn down(&self) -> Ran {
        self.run(&["down", "--yes"]).good()
    }

    /// What `status` says.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.run(&["status", "--json"]).good().json()
    }

    /// All machines of the file are nodes, Ready, and nothing differs from the file.
    #[track_caller]
    pub(crate) fn is_up(&self, machines: &[&str]) {
        let status = self.status();
        let found = status["machines"].as_array().unwrap();
        let names: Vec<_> = found
            .iter()
            .filter_map(|machine| machine["name"].as_str())
            .collect();
        assert_eq!(names, machines, "{status:#}");
        for machine in found {
            let is_node = machine["name"]
                .as_str()
                .is_some_and(|name| !name.starts_with("lb"));
            if is_node {
                assert_eq!(machine["node"]["ready"], true, "{status:#}");
                assert_eq!(
                    machine["node"]["trouble"],
                    serde_json::json!([]),
                    "{status:#}"
                );
            }
            assert_eq!(machine["answers"], true, "{status:#}");
        }
        assert_eq!(status["apiServer"], "answers", "{status:#}");
        assert_eq!(status["differences"], serde_json::json!([]), "{status:#}");
    }

    /// `up` finds nothing to do, and leaves no run behind.
    #[track_caller]
    pub(crate) fn has_nothing_to_do(&self) -> Ran {
        let runs = self.runs().len();
        let ran = self.run(&["up"]).good().says(&["nothing to do"]);
        assert_eq!(self.runs().len(), runs, "a run was made");
        ran
    }

    /// The folders of its runs, the oldest first.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let entries = fs_err::read_dir(self.state().join("runs"));
        let entries = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path());
        let mut runs: Vec<_> = entries.collect();
        runs.sort();
        runs
    }

    /// Everything that was ever written to a terminal.
    pub(crate) fn said(&self) -> String {
        self.ran.borrow().iter().map(ToString::to_string).collect()
    }

    /// The address of a machine, as `status` tells it.
    #[track_caller]
    pub(crate) fn address(&self, machine: &str) -> String {
        let status = self.status();
        let found = status["machines"].as_array().unwrap();
        let machine = found.iter().find(|found| found["name"] == machine);
        let address = machine.and_then(|machine| machine["address"].as_str());
        address.unwrap_or_else(|| panic!("{status:#}")).to_owned()
    }
}

impl Lab {
    /// Keeps what runs wrote where the build keeps its files: a test that fails by chance is explained by nothing else.
    fn keep_journals(&self) {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&self.name);
        for run in self.runs() {
            let to = kept.join(run.file_name().unwrap_or_default());
            let files = fs_err::read_dir(&run).into_iter().flatten().flatten();
            let _ = fs_err::create_dir_all(&to);
            for file in files {
                let _ = fs_err::copy(file.path(), to.join(file.file_name()));
            }
        }
        say(&format!(
            "            its journals are in {}",
            kept.display()
        ));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let is_kept = std::env::var_os("MULLION_KEEP").is_some();
        if std::thread::panicking() && is_kept {
            self.folder.disable_cleanup(true);
            say(&format!(
                "            cluster `{}` is left; its folder is {}",
                self.name,
                self.folder.path().display()
            ));
            return;
        }
        if std::thread::panicking() {
            self.keep_journals();
        }
        // By its name: the file may be one that the program refuses.
        for arguments in [
            ["down", "--yes"].as_slice(),
            &["down", "--yes", "--cluster", &self.name],
        ] {
            match self.start(arguments).wait(PATIENCE) {
                Ok(ran) if ran.code == 0 && !self.machine("").exists() => return,
                Ok(ran) | Err(ran) => say(&format!("            not removed:\n{ran}")),
            }
        }
    }
}

/// The program that is tried.
pub(crate) fn program() -> PathBuf {
    let given = std::env::var_os("MULLION_PROGRAM").map(PathBuf::from);
    given.unwrap_or_else(|| env!("CARGO_BIN_EXE_mullion").into())
}
