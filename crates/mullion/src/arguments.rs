//! What the command line takes.
//!
//! Types only. A command is listed here when it works, not before.

use std::ffi::OsString;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::Ipv4Net;
use mullion_artifacts::PublicKey;
use mullion_plan::{ClusterUid, STAGES, Stage};
use mullion_spec::value::{ClusterName, GroupName, MachineName};

use crate::file::USUAL;

/// Turns a short cluster.yaml into a working Kubernetes cluster of Linux and Windows nodes.
#[derive(Debug, Parser)]
#[command(
    name = "mullion",
    version,
    disable_help_subcommand = true,
    after_help = "Begin with `mullion up`: without a file it makes the built-in cluster. For your own, `mullion init`."
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
    /// A cluster that exists already, by its name, from any folder
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "file")]
    pub cluster: Option<ClusterName>,
    /// Write results as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Show what programs say while they work
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

impl Global {
    /// The cluster file, also if the command line leaves it out. A cluster that is named has none: Mullion keeps a copy.
    pub fn cluster_file(&self) -> Option<&Path> {
        let file = self.file.as_deref().unwrap_or(Path::new(USUAL));
        self.cluster.is_none().then_some(file)
    }
}

/// What commands take that carry out a plan. Only they have deadlines that can be longer.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Waiting {
    /// Wait N times as long before giving up, such as 2 or 0.5. These keep their limits: a single SSH
    /// connection, API request or download, and the stop of a machine or a Windows service [default: 1; more while this computer is busy]
    #[arg(long, global = true, value_name = "N")]
    pub patience: Option<Patience>,
}

/// How much longer than usual a run waits before it gives up, in hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience(pub u32);

impl FromStr for Patience {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: f64 = text
            .parse()
            .map_err(|_| format!("`{text}` is not a number such as 2 or 0.5"))?;
        if !(0.1..=100.0).contains(&number) {
            return Err("it is between 0.1 and 100".into());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the value is between 10 and 10,000"
        )]
        let hundredths = (number * 100.0).round() as u32;
        Ok(Self(hundredths))
    }
}

impl Display for Patience {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", f64::from(self.0) / 100.0)
    }
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
    /// Make it so
    Up(UpArguments),
    /// Say what there is: machines, nodes, versions, and what differs from the file
    Status,
    /// Remove everything that `up` made
    Down(DownArguments),
    /// Add, remove, reset or reboot a node
    Node(NodeArguments),
    /// Log in to a machine, or run a command on it
    Ssh(SshArguments),
    /// Show what a machine wrote to its console
    Console(ConsoleArguments),
    /// Write the cluster's kubeconfig, or merge it into yours
    Kubeconfig(KubeconfigArguments),
    /// Run the matching kubectl with the cluster's kubeconfig
    Kubectl(KubectlArguments),
    /// List earlier runs, or show one
    Runs(RunsArguments),
    /// Fetch, build, list, bundle or verify programs and images
    Artifacts(ArtifactsArguments),
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
    /// Restore a cluster's network when the computer starts: the network's systemd unit runs it
    #[command(hide = true)]
    RestoreNetwork(RestoreNetworkArguments),
}

impl Command {
    /// How patient the command is, where that was said.
    pub const fn patience(&self) -> Option<Patience> {
        match self {
            Self::Up(arguments) => arguments.waiting.patience,
            Self::Down(arguments) => arguments.waiting.patience,
            Self::Node(arguments) => arguments.waiting.patience,
            _ => None,
        }
    }

    /// Whether the command makes networks and machines, or says what making them would do.
    pub const fn makes(&self) -> bool {
        matches!(
            self,
            Self::Validate | Self::Plan(_) | Self::Up(_) | Self::Node(_)
        )
    }

    /// Whether the command looks at what earlier runs left in the state folder.
    pub const fn uses_state(&self) -> bool {
        !matches!(
            self,
            Self::Init(_)
                | Self::Validate
                | Self::Catalog(_)
                | Self::Explain(_)
                | Self::Completions(_)
                | Self::Version
                | Self::RestoreNetwork(_)
        )
    }
}

/// What `restore-network` takes. Unit files hold it: what one version writes, later ones understand.
#[derive(Debug, Args)]
pub struct RestoreNetworkArguments {
    /// The cluster
    pub cluster: ClusterName,
    /// Its machine network
    pub network: Ipv4Net,
    /// From where its machines can be reached
    pub access: String,
    /// The cluster's id
    #[arg(requires = "owner")]
    pub id: Option<ClusterUid>,
    /// The number of the user who brought the cluster up
    pub owner: Option<u32>,
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
    /// Save the plan and its documents, for `up --plan`
    #[arg(long, value_name = "FILE", conflicts_with = "facts")]
    pub out: Option<PathBuf>,
    /// Show what the steps change: lines of files, settings, fields of objects
    #[arg(long, conflicts_with = "facts")]
    pub diff: bool,
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

/// What `up` takes.
#[derive(Debug, Args, Default)]
pub struct UpArguments {
    /// Do not ask before something is removed
    #[arg(long)]
    pub yes: bool,
    /// Only these machines or groups, and what they need
    #[arg(long, value_name = "MACHINE|GROUP")]
    pub only: Vec<String>,
    /// Stop after this stage
    #[arg(long, value_name = "STAGE", value_parser = stage)]
    pub until: Option<Stage>,
    /// Run exactly the plan that `plan --out` saved, and refuse where planning again gives another
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "until"])]
    pub plan: Option<PathBuf>,
    /// How long it waits.
    #[command(flatten)]
    pub waiting: Waiting,
}

fn stage(text: &str) -> Result<Stage, String> {
    let found = STAGES.iter().find(|row| row.word == text);
    found.map(|row| row.stage).ok_or_else(|| {
        let words: Vec<_> = STAGES.iter().map(|row| row.word).collect();
        format!("take one of {}", words.join(", "))
    })
}

/// What `down` takes.
#[derive(Debug, Args)]
pub struct DownArguments {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// The cache and etcd snapshots too, and templates that no machine lies over
    #[arg(long)]
    pub purge: bool,
    /// How long it waits.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// What `node` takes.
#[derive(Debug, Args)]
pub struct NodeArguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: NodeVerb,
    /// How long it waits.
    #[command(flatten)]
    pub waiting: Waiting,
}

/// What is done with a node.
#[derive(Debug, Subcommand)]
pub enum NodeVerb {
    /// Add machines to a group: the file is changed, then applied
    Add {
        /// The group, such as `lin`
        group: GroupName,
        /// How many
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Remove a machine: the file is changed, then applied
    Remove {
        /// The machine, such as `lin1`
        machine: MachineName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Take a machine out of the cluster and join it anew
    Reset {
        /// The machine
        machine: MachineName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Start a machine anew, and wait until its node is Ready
    Reboot {
        /// The machine
        machine: MachineName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// What `ssh` takes.
#[derive(Debug, Args)]
pub struct SshArguments {
    /// The machine
    pub machine: MachineName,
    /// A command to run there instead of a shell
    #[arg(last = true)]
    pub command: Vec<OsString>,
}

/// What `console` takes.
#[derive(Debug, Args)]
pub struct ConsoleArguments {
    /// The machine
    pub machine: MachineName,
    /// How many of the last lines
    #[arg(long, default_value_t = 50)]
    pub lines: usize,
}

/// What `kubeconfig` takes.
#[derive(Debug, Args)]
pub struct KubeconfigArguments {
    /// Merge it into this file instead of writing it out
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub merge: Option<Option<PathBuf>>,
    /// The name of its context [default: the cluster's name]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// What `kubectl` takes.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct KubectlArguments {
    /// Everything that kubectl takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// What `runs` takes.
#[derive(Debug, Args)]
pub struct RunsArguments {
    /// Something other than the list.
    #[command(subcommand)]
    pub verb: Option<RunsVerb>,
}

/// What is done with runs.
#[derive(Debug, Subcommand)]
pub enum RunsVerb {
    /// List them, the newest first
    List,
    /// Show one
    Show {
        /// Its name; the newest when none is given
        id: Option<String>,
        /// Write a page with a timeline of every machine and step
        #[arg(long, value_name = "FILE", num_args = 0..=1)]
        html: Option<Option<PathBuf>>,
    },
}

/// What `artifacts` takes.
#[derive(Debug, Args)]
pub struct ArtifactsArguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: ArtifactsVerb,
}

/// What is done with artifacts.
#[derive(Debug, Subcommand)]
pub enum ArtifactsVerb {
    /// Get everything that the cluster needs into the cache
    Fetch,
    /// Build everything that can be built from source, whatever can be had otherwise
    Build,
    /// List what the cluster needs, and what of it is in the cache
    List,
    /// Write one file with everything that the cluster needs, for work without a network
    Bundle {
        /// The file to write
        // Not `file`: the cluster file's option is called so.
        #[arg(id = "bundle", value_name = "FILE")]
        file: PathBuf,
    },
    /// Put everything in a bundle into the cache, held to a public key or a list of digests
    Import {
        /// The bundle
        #[arg(id = "bundle", value_name = "FILE")]
        bundle: PathBuf,
        /// The public key of the computer that wrote it, as `artifacts key` prints it there; trusted from now on
        #[arg(long, value_name = "KEY", conflicts_with = "digests")]
        bundle_key: Option<PublicKey>,
        /// A list of digests, as `sha256sum` writes them
        #[arg(long, value_name = "FILE")]
        digests: Option<PathBuf>,
    },
    /// Print the public key that bundles are signed with on this computer
    Key,
    /// Use the cache that `artifacts.cache` names, though it was not made on this computer
    Adopt,
    /// Read everything in the cache, or in a bundle, again and compare it with its digest
    Verify {
        /// A bundle to read instead of the cache
        #[arg(id = "bundle", value_name = "FILE")]
        bundle: Option<PathBuf>,
    },
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn only_commands_that_wait_take_a_patience() {
        let patience = |typed: &[&str]| {
            let typed = ["mullion"].iter().chain(typed);
            let arguments = Arguments::try_parse_from(typed);
            arguments.map(|arguments| arguments.command.patience())
        };
        for typed in [
            &["up", "--patience", "2"][..],
            &["down", "--patience", "2"],
            &["node", "--patience", "2", "add", "lin"],
            &["node", "reset", "lin1", "--patience", "2"],
        ] {
            assert_eq!(patience(typed).unwrap(), Some(Patience(200)), "{typed:?}");
        }
        for typed in [
            &["status", "--patience", "2"][..],
            &["plan", "--patience", "2"],
        ] {
            let error = patience(typed).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument);
        }
    }
}
