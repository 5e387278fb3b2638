//! The `xtask` program: reads the arguments and calls the library.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "xtask is a program for a terminal"
)]

use std::process::ExitCode;

use clap::Parser;
use xtask::XtaskError;
use xtask::bench::Extent;
use xtask::generate::{self, Mode};
use xtask::test::Pace;

/// What a developer of Mullion runs.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Arguments {
    /// Build and install `mullion`, install what this computer lacks, and bring up the built-in cluster
    Up,
    /// Install what tests need, then check format, lints, tests, documentation, dependencies, and real machines
    Test {
        /// Run the long tests too
        #[arg(long)]
        slow: bool,
    },
    /// Run only the tests that make real machines
    Machines {
        /// Run the long tests too
        #[arg(long)]
        slow: bool,
        /// Run the tests whose names contain one of these
        names: Vec<String>,
    },
    /// Measure, and print figures beside their limits
    Bench {
        /// Measure this one case in this process and print its figures as JSON
        #[arg(long, hide = true)]
        case: Option<String>,
        /// Make no machines
        #[arg(long, conflicts_with = "cold")]
        no_clusters: bool,
        /// Measure a cluster that is made from package registries alone, with nothing in any cache
        #[arg(long)]
        cold: bool,
    },
    /// Build the agent for Windows, and say where it is
    WindowsAgent,
    /// Build the DLLs that answer where a stand-in for Windows has nothing of its own
    Shims,
    /// Run the tests of what runs on Windows, here
    WindowsTests,
    /// Give hostile input to everything that reads what others wrote
    Fuzz {
        /// The target; all of them where none is named
        target: Option<String>,
        /// How long each target gets: `90s`, `10m`, `2h`; a fixed number of inputs where nothing is said
        #[arg(long = "for", value_name = "TIME", value_parser = xtask::fuzz::duration)]
        time: Option<std::time::Duration>,
        /// Another seed makes other inputs
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Write the generated reference files
    Gen {
        /// Write nothing; fail when a file differs from what would be written
        #[arg(long)]
        check: bool,
    },
}

fn run(arguments: &Arguments) -> Result<(), XtaskError> {
    match arguments {
        Arguments::Up => xtask::up::run(),
        Arguments::Test { slow: false } => xtask::test::run(Pace::Usual),
        Arguments::Test { slow: true } => xtask::test::run(Pace::Slow),
        Arguments::Machines { slow, names } => {
            let pace = if *slow { Pace::Slow } else { Pace::Usual };
            xtask::test::run_machines(pace, names)
        }
        Arguments::Bench {
            case: Some(name), ..
        } => xtask::bench::run_case(name),
        Arguments::Bench { cold: true, .. } => xtask::bench::run(Extent::Cold),
        Arguments::Bench {
            no_clusters: true, ..
        } => xtask::bench::run(Extent::WithoutClusters),
        Arguments::Bench { .. } => xtask::bench::run(Extent::All),
        Arguments::WindowsAgent => {
            println!("{}", xtask::windows_agent::build()?.display());
            Ok(())
        }
        Arguments::Shims => xtask::shims::run(),
        Arguments::WindowsTests => xtask::windows_tests::run(),
        Arguments::Fuzz { target, time, seed } => xtask::fuzz::run(target.as_deref(), *time, *seed),
        Arguments::Gen { check: false } => generate::run(Mode::Write),
        Arguments::Gen { check: true } => generate::run(Mode::Check),
    }
}

/// The one that `mullion` has, so that figures are its figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{}", error.render());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_hold_together() {
        Arguments::command().debug_assert();
    }
}
