//! The program `mullion-fuzz`: fuzzes all targets or one, and is its own worker.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for a terminal"
)]

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mullion_fuzz::Target;
use mullion_fuzz::driver::{self, FuzzError, Outcome, Wish};
use mullion_fuzz::targets::TARGETS;
use mullion_fuzz::worker::{self, Effort};

/// Gives hostile input to everything that reads what others wrote.
#[derive(Debug, Parser)]
enum Arguments {
    /// Fuzz all targets or one, and print what came of each
    Run {
        /// The target; all of them where none is named
        target: Option<String>,
        /// How many seconds each target gets; a fixed number of inputs where nothing is said
        #[arg(long = "for", value_name = "SECONDS")]
        seconds: Option<u64>,
        /// The seed: another one makes other inputs
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The folder that gets inputs which fail
        #[arg(long, default_value = "target/fuzz")]
        crashes: PathBuf,
    },
    /// Read one input from a file, as the target does
    Repeat {
        /// The target
        target: String,
        /// The file
        file: PathBuf,
    },
    /// List the targets
    List,
    #[command(hide = true)]
    Work {
        target: String,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        inputs: Option<u64>,
        #[arg(long)]
        seconds: Option<u64>,
        #[arg(long)]
        folder: PathBuf,
    },
}

fn find(name: &str) -> Result<&'static Target, FuzzError> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.ok_or_else(|| FuzzError::Unknown {
        name: name.to_owned(),
        known: TARGETS.map(|target| target.name).join(", "),
    })
}

fn tell(outcome: &Outcome) {
    let name = outcome.target;
    match &outcome.result {
        Ok(tally) => println!(
            "{name:<22} {:>9} inputs, {:>8} taken, refused in {} ways",
            tally.inputs, tally.taken, tally.refusals
        ),
        Err(crash) => println!(
            "{name:<22} FAILED: {}\n  input: {}\n  repeat: cargo run -p mullion-fuzz -- repeat {name} {}",
            crash.why,
            crash.file.display(),
            crash.file.display()
        ),
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, FuzzError> {
    let of = |target: &Target| {
        let target = target.name;
        move |source: io::Error| FuzzError::Io { target, source }
    };
    match arguments {
        Arguments::List => {
            for target in &TARGETS {
                println!("{:<22} {}", target.name, target.about);
            }
        }
        Arguments::Run {
            target,
            seconds,
            seed,
            crashes,
        } => {
            let one = target.as_deref().map(find).transpose()?;
            let targets = one.map_or(&TARGETS[..], std::slice::from_ref);
            let program = std::env::current_exe().map_err(of(&targets[0]))?;
            let outcomes = driver::run(
                &Wish {
                    program: &program,
                    targets,
                    effort: seconds.map(|seconds| Effort::Time(Duration::from_secs(seconds))),
                    seed,
                    crashes: &crashes,
                    at_once: std::thread::available_parallelism().map_or(1, usize::from),
                },
                &tell,
            )?;
            // A target whose every input is refused shows nothing.
            let idle = |outcome: &&Outcome| matches!(outcome.result, Ok(tally) if tally.taken == 0);
            for outcome in outcomes.iter().filter(idle) {
                println!("{:<22} FAILED: it took no input at all", outcome.target);
            }
            let is_well =
                |outcome: &Outcome| matches!(outcome.result, Ok(tally) if tally.taken > 0);
            if !outcomes.iter().all(is_well) {
                return Ok(ExitCode::FAILURE);
            }
        }
        Arguments::Repeat { target, file } => {
            let target = find(&target)?;
            let input = fs_err::read(file).map_err(of(target))?;
            let folder = tempfile::tempdir().map_err(of(target))?;
            worker::once(target, &input, folder.path()).map_err(of(target))?;
            println!("nothing happened that must not");
        }
        Arguments::Work {
            target,
            seed,
            inputs,
            seconds,
            folder,
        } => {
            let target = find(&target)?;
            let effort = match (inputs, seconds) {
                (_, Some(seconds)) => Effort::Time(Duration::from_secs(seconds)),
                (inputs, None) => Effort::Inputs(inputs.unwrap_or(target.inputs)),
            };
            let tally = worker::work(target, effort, seed, &folder).map_err(of(target))?;
            println!("{} {} {}", tally.inputs, tally.taken, tally.refusals);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            eprintln!("error: {error}{}", cause.unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}
