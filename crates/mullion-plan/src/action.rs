//! What a step does, as data: the engine matches on [`Action`] and does nothing else.
//!
//! What a person reads follows from the action, here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use mullion_render::{Ground, InitDocument, JoinDocument, MachineDocument};
use mullion_spec::cluster::{Duty, System};
use mullion_spec::value::{MachineName, Taint};
use mullion_spec::words::{Driver, Edition, MachineAccess, Os, WindowsVersion, Word as _};
use mullion_wire::Sha256Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{Carried, Document};
use crate::documents::{ObjectSet, Rollout};
use crate::observed::{Place, Size};
use crate::wanted::{Part, TemplateId, UserCommand};

/// What was known to be there when a step was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Prior {
    /// Nothing.
    Absent,
    /// The thing, in another state.
    Different,
    /// Nobody could look.
    Unknown,
}

/// Whether the connection to a machine must be found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// It stays.
    Stays,
    /// The node's network replaces the adapter's, and with it every connection (Windows).
    Drops,
}

/// Whether etcd has to forget a machine too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Membership {
    /// It was a worker.
    NodeOnly,
    /// It was a control plane.
    NodeAndMember,
}

/// What a machine has to stand on for its documents to be right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedProfile {
    /// Its documents depend on nothing that an inspection finds.
    Any,
    /// This.
    Known(Ground),
    /// Nobody knows: its documents are rendered after the inspection.
    Unknown,
}

/// The system in a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TemplateSystem {
    /// A Linux.
    Linux {
        /// Its release, such as `debian-12`.
        release: String,
    },
    /// A Windows, or what stands in for it.
    Windows {
        /// Its version.
        #[schemars(with = "String")]
        version: WindowsVersion,
        /// Its edition.
        #[schemars(with = "String")]
        edition: Edition,
        /// Whether it has a desktop.
        desktop: bool,
    },
}

impl From<&System> for TemplateSystem {
    fn from(system: &System) -> Self {
        match system {
            System::Linux { release } => Self::Linux {
                release: release.clone(),
            },
            System::Windows(windows) => Self::Windows {
                version: windows.version,
                edition: windows.edition,
                desktop: windows.desktop,
            },
        }
    }
}

/// The names by which machines know each other, with their addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Names(pub BTreeMap<MachineName, IpAddr>);

/// What a snapshot of etcd comes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotBefore {
    /// The machine is emptied or removed. etcd must be able to do without it.
    Reset,
    /// Certificates are renewed.
    Renewal,
    /// Certificates are renewed while the API server is silent. etcd may be as silent: then the step says so, and the
    /// renewal goes on without a snapshot.
    Repair,
    /// The whole cluster goes. Where there can be no snapshot, the step says so, and the machines are reset without one.
    Removal,
}

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $word:literal $({ $($(#[$fdoc:meta])* $field:ident : $type:ty),+ $(,)? })?),+ $(,)?) => {
        /// What a step does. The machine it does it to stands in the step.
        ///
        /// Every action names a state to reach: where it is so already, the step does nothing.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
        #[serde(tag = "kind", rename_all_fields = "camelCase")]
        pub enum Action {
            $($(#[$doc])* #[serde(rename = $word)] $name $({ $($(#[$fdoc])* $field: $type),+ })?),+
        }

        /// An action without its data: the key of past durations, and the first part of step ids.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum StepKind {
            $($(#[$doc])* #[serde(rename = $word)] $name),+
        }

        impl StepKind {
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its word, as in `join/win1`.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }
        }

        impl Action {
            /// The action without its data.
            pub const fn kind(&self) -> StepKind {
                match self { $(Self::$name { .. } => StepKind::$name),+ }
            }
        }
    };
}

actions! {
    /// A part is in the cache, and its digest is right.
    Fetch = "fetch" {
        /// The part.
        part: Part,
    },
    /// Every part for a system is in the cache: what needs them all waits for this one step.
    CheckStock = "stock" {
        /// The parts.
        parts: Vec<Part>,
    },
    /// A template is finished, with its parts inside.
    BuildTemplate = "template" {
        /// The template.
        template: TemplateId,
        /// The driver it is for.
        driver: Driver,
        /// The system in it.
        system: TemplateSystem,
        /// The parts it holds.
        parts: Vec<Part>,
        /// The images of the user's that it holds, each with the digest of its archive; none where it comes from a registry.
        #[schemars(with = "BTreeMap<String, Option<String>>")]
        images: BTreeMap<String, Option<Sha256Digest>>,
        /// The configuration of containerd inside a stand-in; none for other systems.
        containerd: Option<Carried<String>>,
    },
    /// A host has the machines' network: bridge, address, way out.
    MakeNetwork = "host-network" {
        /// The host.
        #[schemars(with = "String")]
        place: Place,
        /// The network.
        #[schemars(with = "String")]
        network: Ipv4Net,
        /// From where its machines can be reached.
        access: MachineAccess,
    },
    /// A machine exists, with our label on it.
    MakeMachine = "make" {
        /// The host.
        #[schemars(with = "String")]
        place: Place,
        /// The driver.
        driver: Driver,
        /// The template it is cloned from.
        template: TemplateId,
        /// The system in it.
        os: Os,
        /// How large it is.
        size: Size,
        /// Its address.
        address: Ipv4Addr,
        /// The network of that address; the gateway is its first.
        #[schemars(with = "String")]
        network: Ipv4Net,
        /// Whether it starts when its host starts.
        autostart: bool,
        /// The names by which machines know each other.
        names: Carried<Names>,
        /// The servers that it asks for names; its host's where there are none.
        #[schemars(with = "Vec<String>")]
        name_servers: Vec<IpAddr>,
    },
    /// A machine runs.
    StartMachine = "start" {
        /// The names by which machines know each other.
        names: Carried<Names>,
        /// The servers that it asks for names; its host's where there are none.
        #[schemars(with = "Vec<String>")]
        name_servers: Vec<IpAddr>,
    },
    /// A machine starts when its host starts, or does not.
    SetAutostart = "autostart" {
        /// Whether it does.
        autostart: bool,
    },
    /// A login on the machine works, and its host key is pinned.
    Reach = "reach" {
        /// Where it is.
        address: String,
    },
    /// Build, disk, memory, host name and clock of the machine are good enough, and it stands on what its documents were
    /// rendered for. Where that was not known, its documents are rendered now, and shown.
    Inspect = "inspect" {
        /// The system it should have.
        os: Os,
        /// What it stands on.
        profile: ExpectedProfile,
    },
    /// The agent answers on the machine.
    InstallAgent = "agent" {
        /// The system that it is for.
        os: Os,
        /// Its version; any will do when none is named.
        version: Option<String>,
        /// What was there.
        prior: Prior,
    },
    /// The user's commands before Kubernetes have run.
    RunBefore = "before" {
        /// Those that have not run yet, in order.
        commands: Vec<UserCommand>,
        /// The variables that they are told.
        variables: BTreeMap<String, String>,
    },
    /// Windows features are installed.
    EnableFeatures = "features" {
        /// Those that are missing.
        features: Vec<String>,
    },
    /// The machine was started anew, and answers.
    Reboot = "reboot",
    /// The machine is what its blueprint says.
    ApplyBlueprint = "apply" {
        /// What the machine should be.
        document: Document<MachineDocument>,
    },
    /// The API server answers; where a machine is named, its own one does, and etcd on it.
    AwaitApi = "api" {
        /// Where.
        endpoint: String,
    },
    /// The first control plane is up. A machine that holds a control plane's data is left as it is, and
    /// waited for; where another cluster answers at the endpoint, nothing is begun.
    Init = "init" {
        /// Where clients reach it.
        endpoint: String,
        /// What kubeadm is told.
        document: Document<InitDocument>,
        /// What was there.
        prior: Prior,
    },
    /// A node takes no new pods, and those it had run elsewhere.
    Drain = "drain",
    /// A snapshot of etcd is in the state folder, before a control plane is emptied or removed, or gets new certificates.
    SaveEtcd = "snapshot" {
        /// What comes after it.
        before: SnapshotBefore,
    },
    /// The certificates that kubeadm issued to a control plane have more than a tenth of their life left, and its
    /// programs use them. The admin's kubeconfig that is kept has the new certificate.
    Renew = "renew" {
        /// Where its own API server has to answer afterwards; none where the whole cluster is awaited.
        endpoint: Option<String>,
    },
    /// Nothing of a cluster is left on the machine; a control plane has left etcd.
    Reset = "reset" {
        /// Whether etcd must go on without the machine. Then etcd is asked again right before.
        keeps_etcd: bool,
    },
    /// The API server knows the node no more.
    Forget = "forget" {
        /// Whether it was a member of etcd.
        membership: Membership,
    },
    /// The machine is a node of the cluster, with a token that lives minutes.
    Join = "join" {
        /// As what.
        #[schemars(with = "String")]
        duty: Duty,
        /// Where the API server is.
        endpoint: String,
        /// What kubeadm is told.
        document: Document<JoinDocument>,
        /// Taints that it registers with, so that no pod is quicker than they are.
        #[schemars(with = "BTreeSet<String>")]
        taints: BTreeSet<Taint>,
        /// What was there.
        prior: Prior,
    },
    /// The API server knows the node of a machine that is one: its kubelet is restarted and registers it again. It has
    /// the labels and taints of its role.
    Register = "register" {
        /// Labels that kubeadm gives to a node of that role.
        labels: BTreeMap<String, String>,
        /// Taints that it joined with.
        #[schemars(with = "BTreeSet<String>")]
        taints: BTreeSet<Taint>,
        /// What was there: nothing, or a node without the labels of its role.
        prior: Prior,
    },
    /// A set of objects is applied.
    ApplyObjects = "objects" {
        /// Its name.
        set: String,
        /// What is in it.
        objects: Carried<ObjectSet>,
    },
    /// A set of objects is gone.
    RemoveObjects = "no-objects" {
        /// Its name.
        set: String,
    },
    /// The node's certificates are approved.
    ApproveCertificates = "certificates",
    /// The node has its labels and taints, and takes pods.
    Mark = "mark" {
        /// The labels it should have.
        labels: BTreeMap<String, String>,
        /// The taints it should have.
        #[schemars(with = "BTreeSet<String>")]
        taints: BTreeSet<Taint>,
        /// Labels of ours that it should not have any more.
        drop_labels: BTreeSet<String>,
        /// Taints of ours that it should not have any more.
        #[schemars(with = "BTreeSet<String>")]
        drop_taints: BTreeSet<Taint>,
    },
    /// The node's own network is up, and the machine is reached again.
    AwaitNodeNetwork = "node-network" {
        /// What becomes of the connection.
        connection: Connection,
    },
    /// The node is Ready.
    AwaitReady = "ready",
    /// The user's commands after the node is ready have run.
    RunAfter = "after" {
        /// Those that have not run yet, in order.
        commands: Vec<UserCommand>,
        /// The variables that they are told.
        variables: BTreeMap<String, String>,
    },
    /// A machine that existed before us is as it was: blueprint and agent are gone.
    ReleaseMachine = "release",
    /// Nothing of the machine is left.
    RemoveMachine = "remove",
    /// The machines' network is gone from a host.
    RemoveNetwork = "no-host-network" {
        /// The host.
        #[schemars(with = "String")]
        place: Place,
    },
    /// A suite of checks has passed.
    Verify = "verify" {
        /// The suite.
        suite: String,
        /// What has to be rolled out.
        rollouts: Vec<Rollout>,
    },
}

impl Action {
    /// The commands of the user's that it runs, in order.
    pub fn commands(&self) -> &[UserCommand] {
        match self {
            Self::RunBefore { commands, .. } | Self::RunAfter { commands, .. } => commands,
            _ => &[],
        }
    }

    /// The commands of the user's that its title does not hold whole.
    pub fn commands_beside_title(&self) -> &[UserCommand] {
        match self.commands() {
            [command] if command.shown().chars().count() <= LONGEST_IN_TITLE => &[],
            commands => commands,
        }
    }

    /// Whether it looks or waits, and leaves everything as it is.
    pub const fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::CheckStock { .. }
                | Self::Reach { .. }
                | Self::Inspect { .. }
                | Self::AwaitApi { .. }
                | Self::AwaitNodeNetwork { .. }
                | Self::AwaitReady
                | Self::Verify { .. }
        )
    }

    /// What a person reads before it happens.
    pub fn title(&self, machine: Option<&MachineName>) -> String {
        // Cluster-wide actions never print it.
        let on = machine.map_or("the cluster", MachineName::as_str);
        match self {
            Self::Fetch { part } => format!("get {part}"),
            Self::CheckStock { parts } => {
                format!("check that every part for {} is there", system_of(parts))
            }
            Self::BuildTemplate { template, .. } => format!("build template {}", template.name),
            Self::MakeNetwork {
                place,
                network,
                access,
                ..
            } => match access {
                MachineAccess::Host => format!("make network {network} on {place}"),
                MachineAccess::Lan => {
                    format!("make network {network} on {place}, reachable from other networks")
                }
            },
            Self::MakeMachine { size, address, .. } => format!("make {on} ({size}) at {address}"),
            Self::StartMachine { .. } => format!("start {on}"),
            Self::SetAutostart { autostart: true } => format!("start {on} when its host starts"),
            Self::SetAutostart { autostart: false } => {
                format!("no longer start {on} when its host starts")
            }
            Self::Reach { address } => format!("wait for a login on {on} at {address}"),
            Self::Inspect {
                os,
                profile: ExpectedProfile::Unknown,
            } => format!("check that {on} is fit to be a {os} node, then render its documents"),
            Self::Inspect { os, .. } => format!("check that {on} is fit to be a {os} node"),
            Self::InstallAgent { .. } => format!("install the agent on {on}"),
            Self::RunBefore { commands, .. } | Self::RunAfter { commands, .. } => {
                format!(
                    "run {} (from `{}`) on {on}",
                    named(commands),
                    self.kind().word()
                )
            }
            Self::EnableFeatures { features, .. } => {
                format!("install {} on {on}", features.join(", "))
            }
            Self::Reboot => format!("reboot {on}"),
            Self::ApplyBlueprint { .. } => format!("lay down files, settings and services on {on}"),
            Self::AwaitApi { endpoint } => format!("wait for the API server at {endpoint}"),
            Self::Init { document, .. } => match document.known().map(|init| init.kubernetes()) {
                Some(version) => format!("start Kubernetes {version} on {on}"),
                None => format!("start Kubernetes on {on}"),
            },
            Self::Drain => format!("drain {on}"),
            Self::SaveEtcd { before } => {
                let what = match before {
                    SnapshotBefore::Reset => format!("{on} is emptied"),
                    SnapshotBefore::Renewal => format!("the certificates of {on} are renewed"),
                    SnapshotBefore::Repair => {
                        format!("the certificates of {on} are renewed, if etcd answers")
                    }
                    SnapshotBefore::Removal => "the cluster is removed, if etcd answers".into(),
                };
                format!("save a snapshot of etcd in the state folder before {what}")
            }
            Self::Renew { .. } => {
                format!("renew the certificates of {on} and restart its control plane")
            }
            Self::Reset { .. } => format!("reset {on}"),
            Self::Forget {
                membership: Membership::NodeOnly,
            } => format!("delete node {on}"),
            Self::Forget {
                membership: Membership::NodeAndMember,
            } => {
                format!("delete node {on} and its membership of etcd")
            }
            Self::Join {
                duty: Duty::ControlPlane,
                ..
            } => format!("join {on} as a control plane"),
            Self::Join { .. } => format!("join {on} to the cluster"),
            Self::Register {
                prior: Prior::Different,
                ..
            } => format!("give node {on} the labels of its role"),
            Self::Register { .. } => {
                format!("restart kubelet on {on} so that it registers its node again")
            }
            Self::ApplyObjects { set, .. } => format!("apply objects {set}"),
            Self::RemoveObjects { set } => format!("delete objects {set}"),
            Self::ApproveCertificates => format!("approve the certificates of {on}"),
            Self::Mark { .. } => format!("set labels and taints of {on}"),
            Self::AwaitNodeNetwork {
                connection: Connection::Stays,
            } => {
                format!("wait for the network of {on}")
            }
            Self::AwaitNodeNetwork {
                connection: Connection::Drops,
            } => {
                format!("wait for the network of {on} and reach it again")
            }
            Self::AwaitReady => format!("wait until {on} is Ready"),
            Self::ReleaseMachine => format!("leave {on} as it was found"),
            Self::RemoveMachine => format!("remove {on}"),
            Self::RemoveNetwork { place } => format!("remove the machines' network from {place}"),
            Self::Verify { suite, .. } => format!("run suite {suite}"),
        }
    }

    /// The step's name: its kind, and what it is about.
    pub(crate) fn id(&self, machine: Option<&MachineName>) -> String {
        let mut id = String::with_capacity(32);
        id.push_str(self.kind().word());
        id.push('/');
        match self {
            Self::Fetch { part } => id.push_str(&part.key()),
            Self::CheckStock { parts } => id.push_str(system_of(parts)),
            Self::BuildTemplate { template, .. } => id.push_str(&template.to_string()),
            Self::MakeNetwork { place, .. } | Self::RemoveNetwork { place } => {
                id.push_str(place.as_str());
            }
            Self::ApplyObjects { set, .. } | Self::RemoveObjects { set } => id.push_str(set),
            Self::Verify { suite, .. } => id.push_str(suite),
            _ => id.push_str(machine.map_or("cluster", MachineName::as_str)),
        }
        id
    }
}

/// The system that parts are for: all of one step are for one.
fn system_of(parts: &[Part]) -> &'static str {
    parts.first().map_or("no system", |part| part.os.word())
}

/// The longest command that a title holds whole, in letters.
const LONGEST_IN_TITLE: usize = 60;

/// Commands in a title: one command by its text, several by their number.
fn named(commands: &[UserCommand]) -> String {
    let [command] = commands else {
        return count(commands.len(), "command", "commands");
    };
    let shown = command.shown();
    match shown.char_indices().nth(LONGEST_IN_TITLE) {
        Some((end, _)) => format!("`{}…`", &shown[..end]),
        None => format!("`{shown}`"),
    }
}

pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {many}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn promise_12_a_title_shows_the_users_command_as_it_runs_and_what_it_hides() {
        let command = |run: &str| UserCommand {
            run: run.into(),
            fingerprint: crate::Fingerprint::of(&run),
        };
        let lin1 = "lin1".parse().ok();
        let title = |runs: &[&str]| {
            let commands = runs.iter().map(|run| command(run)).collect();
            Action::RunBefore {
                commands,
                variables: BTreeMap::new(),
            }
            .title(lin1.as_ref())
        };
        assert_eq!(
            title(&["apt-get install -y nfs-common"]),
            "run `apt-get install -y nfs-common` (from `before`) on lin1"
        );
        assert_eq!(
            title(&["true\u{1b}[8m\nrm -rf /\u{202e}"]),
            r"run `$'true\x1b[8m\nrm -rf /\u202e'` (from `before`) on lin1"
        );
        assert_eq!(title(&["a", "b"]), "run 2 commands (from `before`) on lin1");
        let long = "x".repeat(LONGEST_IN_TITLE + 1);
        assert_eq!(
            title(&[&long]),
            format!("run `{}…` (from `before`) on lin1", &long[1..])
        );
    }

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        let words: BTreeSet<_> = StepKind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(words.len(), StepKind::ALL.len());
        for kind in StepKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
    }
}
