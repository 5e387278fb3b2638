//! What one machine lacks, as a chain of links: each waits for the one before it.

use std::collections::BTreeSet;

use mullion_render::MachineDocument;
use mullion_spec::cluster::{Carrier, Duty};
use mullion_spec::words::Os;

use super::lasting;
use super::node::{entrance, entry, node, settling};
use super::view::{Item, Sight, View};
use crate::action::{Action, ExpectedProfile, Prior, StepKind, count};
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::observed::{Inside, Place, Size};
use crate::stage::Stage;
use crate::wanted::{self, UserCommand};

/// What a link waits for besides the link before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The machine's template.
    Template,
    /// The network on the machine's host.
    Network,
    /// Every part for a system.
    Stock(Os),
    /// The last steps of the control plane.
    ControlPlane,
    /// The last set of objects.
    Objects,
}

/// One step of a machine, before it is known what it waits for.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stage: Stage,
    pub(super) action: Action,
    pub(super) reason: String,
    pub(super) waits: &'static [Wait],
}

impl Link {
    pub(super) fn new(stage: Stage, action: Action, reason: impl Into<String>) -> Self {
        Self {
            stage,
            action,
            reason: reason.into(),
            waits: &[],
        }
    }

    /// Whether it makes the API server know a node that is one already.
    pub(super) fn is_registration(&self) -> bool {
        self.action.kind() == StepKind::Register
    }

    pub(super) fn waits(mut self, waits: &'static [Wait]) -> Self {
        self.waits = waits;
        self
    }
}

/// Everything that one machine lacks, in three parts that are laid at different moments.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Until it is what its blueprint says.
    pub(super) prepare: Vec<Link>,
    /// Until it is a node.
    pub(super) enter: Vec<Link>,
    /// Until the node is as wanted.
    pub(super) settle: Vec<Link>,
}

/// What the machine lacks.
pub(super) fn work(view: &View<'_>, item: &Item<'_>, is_founder: bool) -> Work {
    let mut arrive = arrival(view, item);
    let enter = entry(view, item, is_founder);
    let mut prepare = preparation(view, item, enter.is_empty());
    let is_restarted = arrive.iter().chain(&prepare).any(|link| {
        !matches!(
            link.action.kind(),
            StepKind::InstallAgent | StepKind::RunBefore
        )
    });
    let settle = settling(view, item, entrance(&enter), is_restarted);
    if !(arrive.is_empty() && prepare.is_empty() && enter.is_empty()) {
        let os = item.group().system.os();
        let (profile, reason) = expected(view, item);
        let action = Action::Inspect { os, profile };
        arrive.push(Link::new(Stage::Inspect, action, reason));
    }
    arrive.append(&mut prepare);
    Work {
        prepare: arrive,
        enter,
        settle,
    }
}

/// What a machine has to stand on for its documents, and why it is inspected.
fn expected(view: &View<'_>, item: &Item<'_>) -> (ExpectedProfile, &'static str) {
    let documents = view.documents_of(item);
    if documents.machine.known().is_none() {
        let reason = "what its documents depend on is not known";
        return (ExpectedProfile::Unknown, reason);
    }
    let reason = "nothing is laid down on a machine that was not looked at";
    match documents.ground {
        Some(ground) => (ExpectedProfile::Known(ground), reason),
        None => (ExpectedProfile::Any, reason),
    }
}

/// Until somebody can log in.
fn arrival(view: &View<'_>, item: &Item<'_>) -> Vec<Link> {
    let name = item.name();
    let reach = |reason: String| {
        let address = item.address.clone();
        Link::new(Stage::Machines, Action::Reach { address }, reason)
    };
    let Carrier::Made {
        driver,
        host,
        size,
        autostart,
        ..
    } = &item.group().carrier
    else {
        return match item.sight {
            Sight::Seen(_) => Vec::new(),
            _ => vec![reach(format!("nobody has looked at {name} yet"))],
        };
    };
    let start =
        |reason: String| Link::new(Stage::Machines, view.start(), reason).waits(&[Wait::Network]);
    match item.sight {
        Sight::Seen(_) => Vec::new(),
        Sight::Blind if item.is_off() => vec![
            start(format!("{name} is off")),
            reach(format!("{name} is off")),
        ],
        Sight::Blind => vec![reach(format!("nobody has looked at {name} yet"))],
        Sight::Fresh if item.is_made() => vec![
            start(format!("{name} never ran")),
            reach(format!("{name} never ran")),
        ],
        Sight::Fresh => {
            // Both are there whenever the obstacles are gone; without them nothing can be made.
            let (Some(template), Some(network), Some(address)) =
                (view.template(item), view.network, item.made_address)
            else {
                return Vec::new();
            };
            let reason = match item.facts {
                None => format!("{name} does not exist"),
                Some(_) => format!("the making of {name} was cut off"),
            };
            let make = Action::MakeMachine {
                place: Place::from(host.as_ref()),
                driver: *driver,
                template: template.clone(),
                os: item.group().system.os(),
                size: Size::from(*size),
                address,
                network,
                autostart: *autostart,
                names: view.names.clone(),
                name_servers: view.wanted.cluster.network.upstream_dns.clone(),
            };
            vec![
                Link::new(Stage::Machines, make, reason.clone())
                    .waits(&[Wait::Template, Wait::Network]),
                start(reason.clone()),
                reach(reason),
            ]
        }
    }
}

/// Until it is what its blueprint says. `is_entered` where nothing is to be done to make it a node.
fn preparation(view: &View<'_>, item: &Item<'_>, is_entered: bool) -> Vec<Link> {
    let name = item.name();
    let wish = &view.wishes[item.wish];
    let mut links: Vec<_> = agent(view, item).into_iter().collect();
    let mut link = |action, reason: String| links.push(Link::new(Stage::Prepare, action, reason));

    let commands = pending(&wish.before, item.sight, |inside| &inside.before);
    if !commands.is_empty() {
        let reason = pending_reason(commands.len());
        let variables = view.documents_of(item).variables.clone();
        let action = Action::RunBefore {
            commands,
            variables,
        };
        link(action, reason);
    }

    let wanted_features = wanted::features(item.group());
    let is_missing = |feature: &&str| match item.sight {
        Sight::Seen(inside) => !inside.features.contains(*feature),
        _ => true,
    };
    let features: Vec<String> = wanted_features
        .into_iter()
        .filter(is_missing)
        .map(str::to_owned)
        .collect();
    let application = application(view, item);
    // A node that is as wanted is not cut off from its pods for what its system wants: its owner decides when.
    let is_settled = is_entered && application.is_none();
    let reboots = match item.sight {
        Sight::Seen(inside) => inside.reboot_pending && !(inside.reboot_of_system && is_settled),
        _ => false,
    };
    if !features.is_empty() {
        let reason = match item.sight {
            Sight::Seen(_) => format!("{name} lacks {}", features.join(", ")),
            _ => unseen_reason(item, "features"),
        };
        link(Action::EnableFeatures { features }, reason);
    } else if reboots {
        link(Action::Reboot, format!("{name} waits for a reboot"));
    }
    links.extend(application);
    links
}

fn agent(view: &View<'_>, item: &Item<'_>) -> Option<Link> {
    let name = item.name();
    let os = item.group().system.os();
    let wanted = view.wanted.agent_version(os);
    let (prior, reason) = match item.sight {
        Sight::Seen(inside) => match (&inside.agent, wanted) {
            (None, _) => (Prior::Absent, format!("{name} has no agent")),
            (Some(found), Some(wanted)) if found != wanted => (
                Prior::Different,
                format!("the agent changes from {found} to {wanted}"),
            ),
            _ => return None,
        },
        unseen => (prior(unseen), unseen_reason(item, "agent")),
    };
    let version = wanted.map(str::to_owned);
    let action = Action::InstallAgent { os, version, prior };
    Some(stocked(item, Link::new(Stage::Prepare, action, reason)))
}

/// The link, waiting for its parts. A machine whose template holds them waits too: what it is told names their digests,
/// and those are the cache's.
fn stocked(item: &Item<'_>, link: Link) -> Link {
    link.waits(match wanted::part_systems(item.group()) {
        [Os::Linux] => &[Wait::Stock(Os::Linux)],
        [Os::Windows] => &[Wait::Stock(Os::Windows)],
        _ => &[Wait::Stock(Os::Linux), Wait::Stock(Os::Windows)],
    })
}

fn application(view: &View<'_>, item: &Item<'_>) -> Option<Link> {
    let document = &view.documents_of(item).machine;
    let reason = match item.sight {
        Sight::Seen(
            inside @ Inside {
                blueprint: Some(applied),
                ..
            },
        ) => {
            let Some(document) = document.known() else {
                // A control plane that nobody can look at hides its address: what works stays as it is.
                if item.duty() == Duty::LoadBalancer {
                    return None;
                }
                // What it should be is known once it was inspected.
                return Some(applying(item, document, unseen_reason(item, "profile")));
            };
            if applied.is(document) {
                let wanted = view.wanted.kubernetes;
                let found = node(view, item)?
                    .kubernetes
                    .filter(|found| *found != wanted)?;
                format!("the node runs Kubernetes {found}, and {wanted} is wanted")
            } else {
                let changes = applied.describe(document);
                let notes = [
                    lasting::left_to_join(item, inside, applied, document),
                    lasting::left_installed(inside, applied, document),
                ];
                let reason = format!("blueprint changed: {changes}");
                let parts = [reason].into_iter().chain(notes.into_iter().flatten());
                parts.collect::<Vec<_>>().join("; ")
            }
        }
        Sight::Seen(inside) if !inside.drift.is_empty() => describe_drift(&inside.drift),
        Sight::Seen(_) => format!("no blueprint is wholly applied to {}", item.name()),
        _ => unseen_reason(item, "blueprint"),
    };
    Some(applying(item, document, reason))
}

fn applying(item: &Item<'_>, document: &Document<MachineDocument>, reason: String) -> Link {
    let document = document.clone();
    let link = Link::new(Stage::Prepare, Action::ApplyBlueprint { document }, reason);
    if item.duty() == Duty::LoadBalancer {
        link
    } else {
        stocked(item, link)
    }
}

pub(super) fn pending(
    commands: &[UserCommand],
    sight: Sight<'_>,
    done: impl Fn(&Inside) -> &BTreeSet<Fingerprint>,
) -> Vec<UserCommand> {
    let is_pending = |command: &&UserCommand| match sight {
        Sight::Seen(inside) => !done(inside).contains(&command.fingerprint),
        _ => true,
    };
    commands.iter().filter(is_pending).cloned().collect()
}

pub(super) fn pending_reason(number: usize) -> String {
    let have = if number == 1 { "has" } else { "have" };
    format!(
        "{} {have} not run yet",
        count(number, "command", "commands")
    )
}

/// What is known of something inside a machine that nobody saw.
pub(super) fn prior(sight: Sight<'_>) -> Prior {
    match sight {
        Sight::Blind => Prior::Unknown,
        Sight::Fresh | Sight::Seen(_) => Prior::Absent,
    }
}

fn unseen_reason(item: &Item<'_>, what: &str) -> String {
    let name = item.name();
    match item.sight {
        Sight::Fresh => format!("{name} is new"),
        _ => format!("nobody has looked at the {what} of {name} yet"),
    }
}

/// The first thing that is no longer as it was, and how many more.
fn describe_drift(drift: &[String]) -> String {
    let first = drift.first().map_or("", String::as_str);
    match drift.len().saturating_sub(1) {
        0 => first.to_owned(),
        more => format!("{first}, and {more} more"),
    }
}
