//! What the command line takes.
//!
//! Types only. A command is listed here when it works, not before.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Turns a short cluster.yaml into a working Kubernetes cluster of Linux and Windows nodes.
#[derive(Debug, Parser)]
#[command(
    name = "mullion",
    version,
    disable_help_subcommand = true,
    after_help = "Begin with `mullion init`, then `mullion validate` and `mullion plan`."
)]
pub struct Arguments {
    /// What all commands take.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What all commands take.
#[derive(Debug, Args)]
pub struct Global {
    /// The cluster file; `-` reads standard input [default: ./cluster.yaml; without one, the built-in cluster]
    #[arg(
        short,
        long,
        global = true,
        value_name = "FILE",
        env = "MULLION_FILE",
        hide_env_values = true
    )]
    pub file: Option<PathBuf>,
    /// Write results as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented cluster file
    Init(InitArguments),
    /// Find every mistake of the cluster file at once
    Validate,
    /// Say what would change, and why
    Plan(PlanArguments),
    /// Say what this computer lacks, and install it
    Doctor(DoctorArguments),
    /// List what works with what
    Catalog(CatalogArguments),
    /// Explain an error code, or the cluster file
    Explain(ExplainArguments),
    /// Write completions for a shell
    Completions(CompletionsArguments),
    /// Say which version this is
    Version,
}

/// What `init` takes.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// What kind of cluster; asked for on a terminal, else `local`
    #[arg(long, value_enum, conflicts_with = "spec")]
    pub profile: Option<Profile>,
    /// A cluster in the words of `KubeInit`: DISTRIBUTION-DRIVER-CONTROLPLANES-WORKERS-HYPERVISORS, such as `k8s-ssh-1-2-1`
    #[arg(long, value_name = "WORDS")]
    pub spec: Option<String>,
    /// With --spec: the workers' operating system
    #[arg(long, value_enum, requires = "spec", default_value = "linux")]
    pub compute_os: ComputeOs,
    /// The cluster's name [default: the folder's name, else `demo`]
    #[arg(long)]
    pub name: Option<String>,
    /// Overwrite a file that is there
    #[arg(long)]
    pub force: bool,
}

/// A kind of cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Linux and Windows on this computer, the Windows one a stand-in
    Local,
    /// A real Windows Server in a virtual machine
    WindowsVm,
    /// Machines that you have already
    ExistingMachines,
}

/// The workers' operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ComputeOs {
    /// Linux workers
    Linux,
    /// Windows workers
    Windows,
}

/// What `plan` takes.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// Write the plan to a file, as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Draw the steps and what waits for what, as SVG
    #[arg(long, value_name = "FILE")]
    pub graph: Option<PathBuf>,
    /// Exit with 8 when something would change, 0 when nothing would
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Plan against recorded facts instead of looking at this computer
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
}

/// What `doctor` takes.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Install what is missing (Debian and Ubuntu; for others, print the commands)
    #[arg(long)]
    pub fix: bool,
}

/// What `catalog` takes.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CatalogArguments {
    /// Only this subject
    pub subject: Option<String>,
    /// Something other than the list.
    #[command(subcommand)]
    pub question: Option<CatalogQuestion>,
}

/// A question to the catalog.
#[derive(Debug, Subcommand)]
pub enum CatalogQuestion {
    /// Explain whether things go together, such as `kubernetes=1.36 windows=2019`
    Why {
        /// What should go together, each as WHAT=WHICH
        #[arg(required = true, value_name = "WHAT=WHICH", value_parser = pair)]
        pairs: Vec<(String, String)>,
    },
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((what, which)) if !what.is_empty() && !which.is_empty() => {
            Ok((what.into(), which.into()))
        }
        _ => Err("write it as WHAT=WHICH, such as windows=2022".into()),
    }
}

/// What `explain` takes.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// A code such as E0302, or a rule's name; `file` for every field of the cluster file; without one, all rules are listed
    pub code: Option<String>,
}

/// What `completions` takes.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
