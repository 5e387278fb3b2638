//! Steps that were cut off in the middle: what a real one leaves behind.

use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;

use super::state::{State, certificates};
use mullion_plan::Kubeadm;
use mullion_plan::Step;
use mullion_plan::{Action, Connection};

impl State {
    /// Does the first half of a step that could have been done whole. Where a step has no halves (a file
    /// is fetched beside its place and then renamed), nothing happens.
    pub(super) fn perform_half(&mut self, step: &Step) {
        self.forget_proofs();
        match &step.machine {
            Some(machine) => self.half_on(machine, step),
            None => {
                // Objects are there in part: their fingerprint is written last.
                if let Action::ApplyObjects { set, .. } = &step.action
                    && let Some(etcd) = &mut self.etcd
                {
                    etcd.objects.remove(set);
                }
            }
        }
    }

    fn half_on(&mut self, name: &MachineName, step: &Step) {
        match &step.action {
            // It is there, and without what it needs to run.
            Action::MakeMachine { .. } => {
                let was_there = self.units.contains_key(name);
                if self.perform(step).is_ok()
                    && !was_there
                    && let Some(unit) = self.units.get_mut(name)
                {
                    unit.whole = false;
                }
            }
            Action::RemoveMachine => {
                if let Some(unit) = self.units.get_mut(name) {
                    unit.whole = false;
                    unit.switch_off();
                }
                self.bury();
            }
            Action::Join { duty, .. } => self.half_join(name, step, *duty),
            Action::Mark { labels, .. } => {
                let etcd = self.etcd.as_mut();
                if let Some(node) = etcd.and_then(|etcd| etcd.nodes.get_mut(name)) {
                    node.labels.extend(labels.clone());
                }
            }
            // It left etcd, and its files are still there.
            Action::Reset { .. } => {
                if let Ok(etcd) = self.api() {
                    etcd.members.remove(name);
                }
                if let Some(unit) = self.units.get_mut(name) {
                    unit.inside.kubeadm = Some(Kubeadm::Begun);
                }
                self.bury();
            }
            // The kubelet has registered its node, and nobody gave it the labels of its role.
            Action::Register { labels, .. } => {
                if self.perform(step).is_ok()
                    && let Some(node) = self.etcd.as_mut().and_then(|etcd| etcd.nodes.get_mut(name))
                {
                    node.labels.retain(|key, _| !labels.contains_key(key));
                }
            }
            Action::Drain => {
                // Cordoned, and nothing moved away.
                let _ = self.perform(step);
            }
            _ => self.half_inside(name, &step.action),
        }
    }

    /// The kubelet's configuration is written, and the node never registered.
    fn half_join(&mut self, name: &MachineName, step: &Step, duty: Duty) {
        let knew = self
            .etcd
            .as_ref()
            .is_some_and(|etcd| etcd.nodes.contains_key(name));
        if self.perform(step).is_err() || knew {
            return;
        }
        if let Some(unit) = self.units.get_mut(name) {
            unit.inside.kubeadm = Some(Kubeadm::Begun);
        }
        if let Some(etcd) = &mut self.etcd {
            etcd.nodes.remove(name);
            // A control plane becomes a member before it becomes a node.
            if duty == Duty::Worker {
                etcd.members.remove(name);
            }
        }
    }

    fn half_inside(&mut self, name: &MachineName, action: &Action) {
        let Some(unit) = self.units.get_mut(name) else {
            return;
        };
        let inside = &mut unit.inside;
        match action {
            // The agent takes its stamp away first and writes it last.
            Action::ApplyBlueprint { document } => {
                let applied = inside.blueprint.as_ref();
                let is_so = |document| applied.is_some_and(|applied| applied.is(document));
                if !document.known().is_some_and(is_so) {
                    inside.blueprint = None;
                }
            }
            Action::EnableFeatures { features, .. } => {
                let before = inside.features.len();
                inside.features.extend(features.iter().cloned());
                inside.reboot_pending |= inside.features.len() > before;
            }
            Action::Reboot => {
                if unit.made {
                    unit.switch_off();
                } else {
                    unit.answers = false;
                }
            }
            Action::RunBefore { commands, .. } => {
                inside.before.extend(first(commands));
            }
            Action::RunAfter { commands, .. } => {
                inside.after.extend(first(commands));
            }
            // Manifests are written, and nothing runs yet.
            Action::Init { .. } if inside.joined.is_none() => {
                inside.control_plane = true;
                inside.kubeadm = Some(Kubeadm::Begun);
            }
            Action::ReleaseMachine => inside.blueprint = None,
            // They are issued, and the control plane does not use all of them.
            Action::Renew { .. } if inside.renewal().is_some() => {
                inside.certificates = Some(certificates(Some("a renewal was cut off")));
            }
            // The connection dropped and nobody looked for it again.
            Action::AwaitNodeNetwork {
                connection: Connection::Drops,
            } => unit.answers = false,
            _ => {}
        }
    }
}

fn first(
    commands: &[mullion_plan::UserCommand],
) -> impl Iterator<Item = mullion_plan::Fingerprint> {
    commands
        .first()
        .map(|command| command.fingerprint.clone())
        .into_iter()
}
