//! Whole clusters: ours, and the same by hand in the same run.
//!
//! They need root, and the cache filled: what is measured is warm. The peer is `bench/by-hand.sh`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::cases::Row;
use super::sample::Sample;
use super::{ROUNDS, by_ssh};
use crate::{XtaskError, tools};

/// One control plane and one worker, by hand.
pub const BY_HAND: &str = "the same by hand";
/// One control plane and one worker.
pub const UP: &str = "up of 1 worker";
/// The same with the template made too, of what the cache has.
pub const FULL: &str = "full up of 1 worker";
/// The built-in cluster: one control plane, one Linux worker, one stand-in for Windows.
pub const MIXED: &str = "up of 1 worker and 1 stand-in";
/// A stand-in, from its making to the first login.
pub const BOOT: &str = "stand-in, up to its login";
/// Up, when all is so.
pub const NOTHING_TO_DO: &str = "up with nothing to do";
/// One more worker.
pub const ADD: &str = "node add";
/// Everything removed.
pub const DOWN: &str = "down";
/// One control plane and eight workers.
pub const EIGHT: &str = "up of 8 workers";

/// The lines of the table about clusters.
pub const ROWS: &[Row] = &[
    Row::Share {
        peer: BY_HAND,
        ours: UP,
        limit: 0.75,
    },
    Row::Time {
        case: NOTHING_TO_DO,
        limit: Duration::from_secs(2),
    },
    Row::Time {
        case: DOWN,
        limit: Duration::from_secs(5),
    },
    Row::Time {
        case: BOOT,
        limit: Duration::from_secs(5),
    },
    // Most of `node add` is kubeadm's join, kubelet's certificate and flannel's pod: 3.8 of 4.7 s on two cores, where a
    // full `up` took 22 to 34 s and the share of single rounds lay between 0.17 and 0.31. A quicker full `up` makes the
    // share larger.
    Row::Share {
        peer: FULL,
        ours: ADD,
        limit: 0.3,
    },
    Row::Growth {
        from: UP,
        to: MIXED,
        limit: 1.3,
    },
    Row::Growth {
        from: UP,
        to: EIGHT,
        limit: 3.0,
    },
    Row::Share {
        peer: by_ssh::ANSIBLE,
        ours: by_ssh::PREPARE,
        limit: 0.3,
    },
    Row::Share {
        peer: by_ssh::ANSIBLE_AGAIN,
        ours: by_ssh::PREPARE_AGAIN,
        limit: 0.05,
    },
];

/// Times by their names.
#[derive(Debug, Default)]
pub struct Times(BTreeMap<&'static str, Vec<Duration>>);

impl Times {
    /// Runs a command, quietly, and keeps its time.
    pub fn take(&mut self, name: &'static str, command: &mut Command) -> Result<(), XtaskError> {
        let start = Instant::now();
        quietly(command)?;
        let took = start.elapsed();
        println!("   {:>7.1} s  {name}", took.as_secs_f64());
        self.0.entry(name).or_default().push(took);
        Ok(())
    }

    /// The times as samples of cases.
    pub fn samples(self) -> BTreeMap<&'static str, Sample> {
        let sample = |times| Sample {
            times,
            peak_bytes: None,
        };
        let samples = self.0.into_iter();
        samples.map(|(name, times)| (name, sample(times))).collect()
    }
}

/// Runs a command whose words are of interest only where it fails.
pub fn quietly(command: &mut Command) -> Result<(), XtaskError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|cause| XtaskError::Start {
        command: tools::shown(command),
        cause,
    })?;
    if output.status.success() {
        return Ok(());
    }
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(XtaskError::Ended {
        command: tools::shown(command),
        status: output.status,
    })
}

/// A cluster of the benchmark's own; it is gone with it.
#[derive(Debug)]
pub struct Bed {
    program: PathBuf,
    pub(super) folder: TempDir,
    /// What its commands find in their environment.
    environment: Vec<(&'static str, PathBuf)>,
}

impl Bed {
    /// A cluster of that file, which may name no other file below its folder.
    pub fn new(program: &Path, file: &str) -> Result<Self, XtaskError> {
        // Not below the temporary folder, which may be memory.
        let folder = tempfile::Builder::new()
            .prefix("mullion-bench-")
            .tempdir_in("/var/tmp")?;
        let bed = Self {
            program: program.to_owned(),
            environment: vec![("XDG_STATE_HOME", folder.path().join("state"))],
            folder,
        };
        bed.write(file)?;
        Ok(bed)
    }

    /// Gives the cluster another file.
    pub fn write(&self, file: &str) -> Result<(), XtaskError> {
        Ok(fs_err::write(
            self.folder.path().join("cluster.yaml"),
            file,
        )?)
    }

    /// Gives it a cache, a place for machines and a cache of Go's that hold nothing yet.
    #[must_use]
    pub fn cold(mut self) -> Self {
        for (name, folder) in [
            ("XDG_CACHE_HOME", "cache"),
            ("GOCACHE", "go-build"),
            ("GOPATH", "go"),
        ] {
            self.environment
                .push((name, self.folder.path().join(folder)));
        }
        self.without_templates()
    }

    /// Gives it a place for machines that holds no template yet.
    #[must_use]
    pub fn without_templates(mut self) -> Self {
        let place = self.folder.path().join("place");
        self.environment.push(("MULLION_PLACE", place));
        self
    }

    /// `mullion` with these arguments, in the cluster's folder.
    pub fn mullion(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .envs(self.environment.iter().cloned());
        command
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // A failed benchmark has said why; this must not hide it.
        let _ = quietly(&mut self.mullion(&["down", "--yes"]));
        // The module cache is written without leave to be removed.
        let mut writable = Command::new("chmod");
        let _ = quietly(writable.args(["-R", "u+w"]).arg(self.folder.path()));
    }
}

/// A file of one control plane and so many workers, in a network that nobody has.
pub fn file_of(name: &str, workers: usize) -> String {
    format!(
        "metadata: {{name: {name}}}\nnetwork: {{machineCIDR: null}}\nmachines:\n\
         - {{name: cp, role: control-plane, count: 1}}\n- {{name: lin, count: {workers}}}\n"
    )
}

/// A file of one control plane, one worker and one stand-in for Windows.
pub fn mixed_file(name: &str) -> String {
    let linux = file_of(name, 1);
    format!("{linux}- {{name: win, os: windows, driver: wine, count: 1}}\n")
}

/// Measures clusters of ours beside the same by hand. `programs` is a folder with Kubernetes' programs.
pub fn measure(times: &mut Times, program: &Path, programs: &Path) -> Result<(), XtaskError> {
    let hand = ByHand::new(programs)?;
    quietly(&mut hand.command("template"))?;
    for round in 0..ROUNDS {
        times.take(BY_HAND, &mut hand.command("up"))?;
        quietly(&mut hand.command("down"))?;
        let bed = Bed::new(program, &file_of("bench-one", 1))?;
        times.take(UP, &mut bed.mullion(&["up", "--yes"]))?;
        times.take(NOTHING_TO_DO, &mut bed.mullion(&["up", "--yes"]))?;
        times.take(ADD, &mut bed.mullion(&["node", "add", "lin", "--yes"]))?;
        times.take(DOWN, &mut bed.mullion(&["down", "--yes"]))?;
        let bed = Bed::new(program, &mixed_file("bench-mixed"))?;
        if round == 0 {
            // The first one makes the stand-in's template.
            quietly(&mut bed.mullion(&["up", "--yes"]))?;
            quietly(&mut bed.mullion(&["down", "--yes"]))?;
        }
        let boot = ["up", "--yes", "--only=win", "--until=machines"];
        times.take(BOOT, &mut bed.mullion(&boot))?;
        quietly(&mut bed.mullion(&["down", "--yes"]))?;
        times.take(MIXED, &mut bed.mullion(&["up", "--yes"]))?;
        quietly(&mut bed.mullion(&["down", "--yes"]))?;
        let bed = Bed::new(program, &file_of("bench-full", 1))?.without_templates();
        times.take(FULL, &mut bed.mullion(&["up", "--yes"]))?;
        drop(bed);
        let bed = Bed::new(program, &file_of("bench-many", 8))?;
        times.take(EIGHT, &mut bed.mullion(&["up", "--yes"]))?;
    }
    Ok(())
}

/// The script that does by hand what we do; what it left is gone with it.
struct ByHand<'a> {
    folder: TempDir,
    programs: &'a Path,
}

impl<'a> ByHand<'a> {
    fn new(programs: &'a Path) -> Result<Self, XtaskError> {
        let folder = tempfile::Builder::new()
            .prefix("mullion-by-hand-")
            .tempdir_in("/var/tmp")?;
        Ok(Self { folder, programs })
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new("bash");
        command
            .arg(tools::repository().join("bench/by-hand.sh"))
            .arg(verb)
            .env("WORK", self.folder.path())
            .env("BIN", self.programs);
        command
    }
}

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        let _ = quietly(&mut self.command("down"));
    }
}
