//! Taking back what steps made.

use mullion_spec::value::MachineName;

use super::perform::refused;
use super::state::State;
use mullion_plan::StepError;
use mullion_plan::Undo;

impl State {
    pub(super) fn undo(&mut self, undo: &Undo) -> Result<(), StepError> {
        match undo {
            Undo::DropArtifact { part } => {
                self.cache.remove(part);
            }
            Undo::RemoveTemplate { template } => {
                let is_used = |unit: &super::state::Unit| unit.template.as_ref() == Some(template);
                if self.units.values().any(is_used) {
                    return Err(refused(format!("machines stand on {}", template.name)));
                }
                self.templates.remove(template);
            }
            Undo::RemoveNetwork { place } => self.remove_network(place)?,
            Undo::RemoveMachine { machine } => self.remove(machine)?,
            Undo::StopMachine { machine } => {
                if let Some(unit) = self.units.get_mut(machine).filter(|unit| unit.made) {
                    unit.switch_off();
                }
            }
            Undo::RemoveAgent { machine } => {
                if let Some(unit) = self.units.get_mut(machine) {
                    unit.inside.agent = None;
                    unit.inside.before.clear();
                    unit.inside.after.clear();
                }
            }
            Undo::DisableFeatures { machine, features } => {
                if let Some(unit) = self.units.get_mut(machine) {
                    unit.inside
                        .features
                        .retain(|feature| !features.contains(feature));
                }
            }
            Undo::RevertBlueprint { machine } => {
                if let Some(unit) = self.units.get_mut(machine) {
                    if unit.inside.joined.is_some() {
                        return Err(refused(format!("{machine} is still a node")));
                    }
                    unit.inside.blueprint = None;
                }
            }
            Undo::LeaveCluster { machine } => self.leave(machine)?,
            Undo::DeleteObjects { set } => {
                if let Some(etcd) = &mut self.etcd {
                    etcd.objects.remove(set);
                }
            }
        }
        Ok(())
    }

    fn leave(&mut self, machine: &MachineName) -> Result<(), StepError> {
        if self.units.contains_key(machine) {
            self.reset(machine, false)?;
        }
        if let Some(etcd) = &mut self.etcd {
            etcd.members.remove(machine);
            etcd.nodes.remove(machine);
        }
        self.bury();
        Ok(())
    }
}
