//! The node agent's program.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use mullion_agent::system::{Files as _, OnlyWindows as _, Own, System as _};
use mullion_agent::{Attendance, Outcome, attend, resume, serve};

/// Makes one machine what its blueprint says.
#[derive(Debug, Parser)]
#[command(name = "mullion-agent", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read one request from standard input, fulfil it, write events to standard output
    Serve {
        /// Seconds to wait for another agent that works on this machine
        #[arg(long, value_name = "SECONDS", default_value_t = WAIT)]
        wait: u64,
    },
    /// Go on with the blueprint that waited for a start of the machine; a task runs this at that start
    Resume {
        /// Seconds to wait for another agent that works on this machine
        #[arg(long, value_name = "SECONDS", default_value_t = WAIT)]
        wait: u64,
    },
    /// Print the SHA-256 digest of a file
    Digest {
        /// The file
        path: String,
    },
    /// Be the service that attends to a program: waits for what it needs, starts it, ends it
    Attend {
        /// The file that says to what
        file: String,
    },
    /// Print the version
    Version,
}

/// So long another agent is waited for: one that goes on after a start may start services that take minutes each.
const WAIT: u64 = 600;

fn code(outcome: Outcome) -> ExitCode {
    match outcome {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Failed => ExitCode::FAILURE,
    }
}

fn main() -> ExitCode {
    let system = Own::new();
    match Arguments::parse().command {
        Command::Serve { wait } => {
            let wait = Duration::from_secs(wait);
            let mut requests = io::stdin().lock();
            code(serve(&system, &mut requests, &mut io::stdout(), wait))
        }
        Command::Resume { wait } => {
            let wait = Duration::from_secs(wait);
            code(resume(&system, &mut io::stdout(), wait))
        }
        Command::Digest { path } => match system.digest(&path) {
            Ok(digest) => print(&digest.to_string()),
            Err(error) => {
                say(&error.to_string());
                ExitCode::FAILURE
            }
        },
        Command::Attend { file } => attend_to(&system, file),
        Command::Version => {
            let version = system
                .describe()
                .map_or_else(|_| mullion_agent::VERSION.to_owned(), |facts| facts.agent);
            print(&version)
        }
    }
}

/// How often what a program needs is looked at.
const PAUSE: Duration = Duration::from_secs(1);

fn attend_to(system: &Own, file: String) -> ExitCode {
    let service = match Attendance::read(system, &file) {
        Ok(attendance) => attendance.service().to_owned(),
        Err(error) => {
            say(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    let work = move |is_told_to_stop: &dyn Fn() -> bool| {
        attend(&Own::new(), &file, PAUSE, is_told_to_stop, &mut say)
    };
    match system.be_service(&service, Box::new(work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// For whoever reads the log. Nobody is told where even that cannot be said.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn print(line: &str) -> ExitCode {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
