//! Which control planes a plan may empty: etcd must be able to do without each of them, one after another.

use std::collections::BTreeSet;

use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;

use crate::action::{Action, Membership, StepKind};
use crate::etcd::{EtcdFacts, Health, MemberFacts, Risk};
use crate::observed::{ClusterFacts, Inside, Observed, Power};
use crate::obstacle::Obstacle;
use crate::step::Step;

/// What the steps would do to etcd that it does not survive. The steps are in the order in which they were laid.
/// `is_worker` says which machines the file wants as workers or load balancers.
pub(super) fn endangered(
    observed: &Observed,
    steps: &[Step],
    is_worker: impl Fn(&MachineName) -> bool,
) -> BTreeSet<Obstacle> {
    let mut obstacles = BTreeSet::new();
    let Some(cluster) = &observed.cluster else {
        // No cluster was found, perhaps because the kubeconfig is lost. Mullion cannot ask etcd then.
        let emptied = steps
            .iter()
            .filter(|step| matches!(step.action, Action::Reset { .. } | Action::RemoveMachine))
            .filter_map(|step| step.machine.clone());
        let unknown = emptied.filter(|machine| may_hold_etcd(observed, machine));
        return unknown
            .map(|machine| Obstacle::EtcdUnknown { machine })
            .collect();
    };
    let mut etcd = Etcd::new(observed, cluster, is_worker);
    for step in steps {
        let Some(machine) = &step.machine else {
            continue;
        };
        match &step.action {
            Action::Join {
                duty: Duty::ControlPlane,
                ..
            } => etcd.joins(machine),
            Action::Reset { .. } | Action::RemoveMachine => {
                obstacles.extend(etcd.leaves(observed, machine));
            }
            Action::Forget {
                membership: Membership::NodeAndMember,
            } => obstacles.extend(etcd.leaves(observed, machine)),
            action if cures(action.kind()) => etcd.is_cured(machine),
            _ => {}
        }
    }
    obstacles
}

/// Whether a machine may hold all of etcd: a control plane of a cluster, one that lost its kubelet's configuration or its
/// authority, or one that has run and that nobody could look into. A control plane that kubeadm did not finish has joined
/// no cluster yet.
fn may_hold_etcd(observed: &Observed, machine: &MachineName) -> bool {
    let facts = observed.machines.get(machine);
    facts.is_some_and(|facts| {
        let may_hold = match &facts.inside {
            Some(inside) => {
                inside.control_plane && (inside.joined.is_some() || inside.is_damaged())
            }
            None => facts.power != Power::New,
        };
        facts.ours && facts.whole && may_hold
    })
}

/// Whether the step may bring a member back. Whether it did is asked again before anything is emptied.
fn cures(kind: StepKind) -> bool {
    matches!(
        kind,
        StepKind::StartMachine
            | StepKind::Reach
            | StepKind::Reboot
            | StepKind::ApplyBlueprint
            | StepKind::Renew
    )
}

/// The members, as the steps change them.
struct Etcd<'a> {
    cluster: &'a ClusterFacts,
    /// Not known where etcd could not be asked.
    facts: Option<EtcdFacts>,
    /// Whether etcd itself listed them. Otherwise the machines did, and health is not known.
    is_asked: bool,
    /// Machines that were emptied, each judged once.
    gone: BTreeSet<MachineName>,
}

impl<'a> Etcd<'a> {
    fn new(
        observed: &Observed,
        cluster: &'a ClusterFacts,
        is_worker: impl Fn(&MachineName) -> bool,
    ) -> Self {
        let mut facts = cluster.etcd.clone();
        let is_asked = facts.is_some();
        if !cluster.answers {
            // The plan waits for the API server first. Only machines that it starts or repairs before count as healthy.
            let unknown = || {
                let unseen = observed.machines.iter();
                let unseen = unseen.filter(|(_, facts)| facts.inside.is_none());
                let unseen = unseen.map(|(machine, _)| machine);
                // A worker that is off is started, and would count as a member that recovered.
                let unseen = unseen
                    .filter(|machine| may_hold_etcd(observed, machine) && !is_worker(machine));
                EtcdFacts {
                    members: cluster
                        .members
                        .iter()
                        .chain(unseen)
                        .map(unhealthy)
                        .collect(),
                }
            };
            let said = facts.get_or_insert_with(unknown);
            for member in said.members.values_mut() {
                // What it waits for is what the plan waits for. Any other word of etcd's stands.
                if member.health == Health::Leaderless {
                    member.health = Health::Healthy;
                }
            }
        }
        Self {
            cluster,
            facts,
            is_asked,
            gone: BTreeSet::new(),
        }
    }

    fn joins(&mut self, machine: &MachineName) {
        if let Some(facts) = &mut self.facts {
            // A join that finds a member on the machine adds no second one.
            let mut members = facts.members.values();
            let is_member = members.any(|member| member.machine.as_ref() == Some(machine));
            if !is_member {
                facts.members.extend([healthy(machine)]);
            }
        }
        self.gone.remove(machine);
    }

    fn is_cured(&mut self, machine: &MachineName) {
        let members = self.facts.iter_mut();
        let members = members.flat_map(|facts| facts.members.values_mut());
        for member in members.filter(|member| member.machine.as_ref() == Some(machine)) {
            member.health = Health::Healthy;
        }
    }

    /// Takes a machine out, and says why it must not go.
    fn leaves(&mut self, observed: &Observed, machine: &MachineName) -> Option<Obstacle> {
        let facts = observed.machines.get(machine);
        let inside = facts.and_then(|facts| facts.inside.as_ref());
        if !self.holds_data(inside, machine) || !self.gone.insert(machine.clone()) {
            return None;
        }
        let machine = machine.clone();
        let joined = inside.and_then(|inside| inside.joined.as_ref());
        if joined.is_some_and(|joined| *joined != self.cluster.id) {
            return Some(Obstacle::OtherControlPlane { machine });
        }
        let Some(facts) = &mut self.facts else {
            return Some(Obstacle::EtcdUnknown { machine });
        };
        let verdict = facts.may_lose(&machine);
        facts
            .members
            .retain(|_, member| !member.may_be_of(&machine));
        match verdict {
            Ok(()) => None,
            Err(Risk::Last) => Some(Obstacle::LastMember { machine }),
            Err(Risk::NoMajority { .. }) if !self.is_asked => {
                Some(Obstacle::EtcdUnknown { machine })
            }
            Err(Risk::NoMajority { healthy, others }) => Some(Obstacle::NoMajority {
                machine,
                healthy,
                others,
            }),
            Err(Risk::Unmatched { member }) => Some(Obstacle::UnknownMember { machine, member }),
        }
    }

    /// Whether etcd's data are, or may be, on a machine.
    fn holds_data(&self, inside: Option<&Inside>, machine: &MachineName) -> bool {
        let facts = self.facts.as_ref();
        inside.is_some_and(|inside| inside.control_plane)
            || self.cluster.members.contains(machine)
            || facts.is_some_and(|facts| facts.has_member_of(machine))
    }
}

/// A healthy member on a machine, under an id that etcd gives to none.
fn healthy(machine: &MachineName) -> (String, MemberFacts) {
    member(machine, Health::Healthy)
}

fn unhealthy(machine: &MachineName) -> (String, MemberFacts) {
    member(machine, Health::Unhealthy)
}

fn member(machine: &MachineName, health: Health) -> (String, MemberFacts) {
    let member = MemberFacts {
        name: machine.to_string(),
        machine: Some(machine.clone()),
        voting: true,
        health,
    };
    (format!("of {machine}"), member)
}
