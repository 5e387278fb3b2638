//! What the file no longer has: machines, nodes without a machine, networks without machines.

use std::collections::{BTreeMap, BTreeSet};

use mullion_spec::value::MachineName;

use super::view::{Api, View};
use super::{Mark, Sheet, wanted_names};
use crate::action::{Action, Membership, SnapshotBefore};
use crate::address;
use crate::observed::{Inside, MachineFacts, Place, Power};
use crate::stage::Stage;

impl Sheet {
    pub(super) fn lay_retirement(&mut self, view: &View<'_>) {
        let wanted = wanted_names(&view.items);
        // Control planes leave one after another, so that etcd keeps its majority.
        let mut seat: Option<Mark> = None;
        let mut gone: BTreeMap<&Place, Vec<Mark>> = BTreeMap::new();
        let mut used: BTreeSet<_> = view
            .items
            .iter()
            .filter_map(|item| address::place(&item.machine))
            .collect();
        for (name, facts) in &view.observed.machines {
            if !facts.ours || wanted.contains(name) {
                continue;
            }
            if may_be_needed(view, facts) {
                used.insert(facts.place.clone());
                continue;
            }
            let last = self.lay_machine_retirement(view, name, facts, &mut seat);
            if facts.made {
                gone.entry(&facts.place).or_default().extend(last);
            }
        }
        self.lay_stale_nodes(view, &wanted, &mut seat);
        for (place, host) in &view.observed.hosts {
            if !host.has_network() || used.contains(place) {
                continue;
            }
            let action = Action::RemoveNetwork {
                place: place.clone(),
            };
            let reason = format!("no machine is on {place} any more");
            let needs = gone.remove(place).unwrap_or_default();
            self.push(Stage::Retire, None, action, reason, needs);
        }
    }

    /// Members of etcd that are to go but whose vote is needed until then: a silent API server cannot
    /// let them leave. Gives the steps to wait for.
    pub(super) fn lay_wakes(&mut self, view: &View<'_>) -> Vec<Mark> {
        let Api::Silent {
            members: Some(members),
            ..
        } = view.api
        else {
            return Vec::new();
        };
        let wanted = wanted_names(&view.items);
        let mut ends = Vec::new();
        for name in members.iter().filter(|name| !wanted.contains(name)) {
            let Some(facts) = view.observed.machines.get(name) else {
                continue;
            };
            if !facts.ours || facts.inside.is_some() {
                continue;
            }
            let reason = format!("{name} is needed until it can leave etcd");
            let mut needs = Vec::new();
            if facts.made && facts.power == Power::Off {
                needs.extend(self.networks.get(&facts.place).copied());
                let action = view.start();
                let start = self.push(Stage::Machines, Some(name), action, reason.clone(), needs);
                needs = vec![start];
            }
            let address = facts.address.map(|ip| ip.to_string()).unwrap_or_default();
            let action = Action::Reach { address };
            ends.push(self.push(Stage::Machines, Some(name), action, reason, needs));
        }
        ends
    }

    fn lay_machine_retirement(
        &mut self,
        view: &View<'_>,
        name: &MachineName,
        facts: &MachineFacts,
        seat: &mut Option<Mark>,
    ) -> Option<Mark> {
        let inside = facts.inside.as_ref();
        let belongs = inside.is_some_and(Inside::is_of_cluster);
        let (is_node, is_member) = match view.api {
            Api::Absent => (false, false),
            // Not known: what it says of itself decides.
            Api::Silent { .. } | Api::Hidden => {
                let is_member = match view.api {
                    Api::Silent {
                        members: Some(members),
                        ..
                    } => members.contains(name),
                    _ => inside.is_some_and(|inside| inside.control_plane),
                };
                (belongs || inside.is_none(), is_member)
            }
            Api::Known(cluster) => (
                cluster.nodes.contains_key(name.as_str()),
                cluster.members.contains(name),
            ),
        };
        let mut tail = None;
        let mut actions = Vec::new();
        if is_node {
            actions.push(Action::Drain);
        }
        let holds_data = is_member || inside.is_some_and(|inside| inside.control_plane);
        let may_save = holds_data && !matches!(view.api, Api::Absent);
        let keeps_etcd = may_save && (belongs || is_member);
        if keeps_etcd {
            let before = SnapshotBefore::Reset;
            actions.push(Action::SaveEtcd { before });
        }
        if belongs {
            actions.push(Action::Reset { keeps_etcd });
        }
        if is_node || is_member {
            let membership = membership(is_member);
            actions.push(Action::Forget { membership });
        }
        // A machine of the user's that does not answer is left alone: there is no way to tidy it.
        match inside {
            _ if facts.made => actions.push(Action::RemoveMachine),
            Some(inside) if inside.agent.is_some() => actions.push(Action::ReleaseMachine),
            _ => {}
        }
        for action in actions {
            let mut needs: Vec<_> = tail.into_iter().collect();
            if needs.is_empty() {
                needs.extend_from_slice(&self.control_plane);
                if is_member {
                    needs.extend(seat.take());
                }
            }
            let reason = format!("{name} is not in the file");
            tail = Some(self.push(Stage::Retire, Some(name), action, reason, needs));
        }
        if is_member {
            *seat = tail;
        }
        tail
    }

    /// Nodes and members of ours whose machine is gone.
    fn lay_stale_nodes(
        &mut self,
        view: &View<'_>,
        wanted: &BTreeSet<&MachineName>,
        seat: &mut Option<Mark>,
    ) {
        let Api::Known(cluster) = view.api else {
            return;
        };
        // In a cluster that several files share, a node without an id may be another file's.
        let is_alone = view.runs_control_plane();
        let nodes = cluster.nodes.iter();
        let nodes = nodes.filter(|(_, node)| node.ours && (is_alone || !node.without_id));
        let mut stale: BTreeSet<MachineName> =
            nodes.filter_map(|(name, _)| name.parse().ok()).collect();
        if is_alone {
            stale.extend(cluster.members.iter().cloned());
        }
        stale.retain(|name| {
            !wanted.contains(name)
                && !view
                    .observed
                    .machines
                    .get(name)
                    .is_some_and(|facts| facts.ours)
        });
        for name in stale {
            let is_member = cluster.members.contains(&name);
            let mut needs = self.control_plane.clone();
            if is_member {
                needs.extend(seat.take());
            }
            let membership = membership(is_member);
            let action = Action::Forget { membership };
            let reason = format!("{name} is neither in the file nor a machine");
            let id = self.push(Stage::Retire, Some(&name), action, reason, needs);
            if is_member {
                *seat = Some(id);
            }
        }
    }
}

/// Whether a machine may be one that the cluster cannot do without: it ran, nobody could look at it, and
/// the API server cannot be asked. The run after this one removes it.
fn may_be_needed(view: &View<'_>, facts: &MachineFacts) -> bool {
    let is_unseen = facts.inside.is_none() && facts.whole && facts.power != Power::New;
    is_unseen && matches!(view.api, Api::Silent { .. } | Api::Hidden)
}

const fn membership(is_member: bool) -> Membership {
    if is_member {
        Membership::NodeAndMember
    } else {
        Membership::NodeOnly
    }
}
