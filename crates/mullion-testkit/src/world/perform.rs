//! What each action does to the world, and what it builds on.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use mullion_spec::networks::{Relation, relation};
use mullion_spec::value::MachineName;
use mullion_spec::words::{Driver, MachineAccess, Os};

use super::state::{State, Unit};
use mullion_plan::Action;
use mullion_plan::Step;
use mullion_plan::{Applied, Document, Fingerprint};
use mullion_plan::{ErrorClass, StepError};
use mullion_plan::{Inside, Place, Power, Size};
use mullion_plan::{Part, TemplateId, UserCommand};
use mullion_render::MachineDocument;
use mullion_wire::Named;

pub(super) type Done = Result<(), StepError>;

pub(super) fn refused(words: impl Into<String>) -> StepError {
    StepError::new(ErrorClass::Refused, words)
}

pub(super) fn unreachable(words: impl Into<String>) -> StepError {
    StepError::new(ErrorClass::Unreachable, words)
}

pub(super) fn not_yet(words: impl Into<String>) -> StepError {
    StepError::new(ErrorClass::NotYet, words)
}

/// The version that an agent of this world reports when the plan names none.
const ANY_AGENT: &str = "any";

impl State {
    pub(super) fn perform(&mut self, step: &Step) -> Done {
        if !matches!(step.action, Action::Verify { .. }) {
            self.forget_proofs();
        }
        match &step.machine {
            Some(machine) => self.perform_on(machine, &step.action),
            None => self.perform_for_all(&step.action),
        }
    }

    /// What was proven was proven of the cluster as it was before a change.
    pub(super) fn forget_proofs(&mut self) {
        if let Some(etcd) = &mut self.etcd {
            etcd.proven.clear();
        }
    }

    fn perform_for_all(&mut self, action: &Action) -> Done {
        match action {
            Action::Fetch { part } => {
                self.cache.insert(part.clone());
                Ok(())
            }
            Action::CheckStock { parts } => self.require_parts(parts),
            Action::BuildTemplate {
                template, parts, ..
            } => {
                self.require_parts(parts)?;
                self.templates.insert(template.clone(), parts.clone());
                Ok(())
            }
            Action::MakeNetwork {
                place,
                network,
                access,
                ..
            } => self.make_network(place, *network, *access),
            Action::RemoveNetwork { place } => self.remove_network(place),
            Action::AwaitApi { .. } => self.api().map(|_| ()),
            Action::ApplyObjects { set, objects } => {
                let fingerprint = objects.fingerprint();
                self.api()?.objects.insert(set.clone(), fingerprint);
                Ok(())
            }
            Action::RemoveObjects { set } => {
                self.api()?.objects.remove(set);
                Ok(())
            }
            Action::Verify { suite, .. } => self.verify(suite),
            other => Err(refused(format!(
                "{} is for a machine, and none is named",
                other.kind().word()
            ))),
        }
    }

    fn perform_on(&mut self, name: &MachineName, action: &Action) -> Done {
        match action {
            Action::MakeMachine {
                place,
                driver,
                template,
                os,
                size,
                address,
                network,
                ..
            } => {
                let plot = Plot {
                    place,
                    network: *network,
                    address: *address,
                };
                self.make(name, &plot, *driver, template, *os, *size)
            }
            Action::StartMachine { .. } => self.start(name),
            Action::SetAutostart { autostart } => self.set_autostart(name, *autostart),
            Action::Reach { .. } => self.reach(name),
            Action::Inspect { os, .. } => {
                let unit = self.reachable(name)?;
                if unit.os == *os {
                    Ok(())
                } else {
                    Err(refused(format!("{name} has another system than {os}")))
                }
            }
            Action::InstallAgent { version, .. } => self.install_agent(name, version.as_deref()),
            Action::RunBefore { commands, .. } => {
                self.agent(name)?.before.extend(marks(commands));
                Ok(())
            }
            Action::RunAfter { commands, .. } => {
                self.agent(name)?.after.extend(marks(commands));
                Ok(())
            }
            Action::EnableFeatures { features, .. } => self.enable(name, features),
            Action::Reboot => {
                if self.agent(name)?.reboot_pending {
                    self.restarted(name);
                }
                Ok(())
            }
            Action::ApplyBlueprint { document } => self.apply(name, document),
            Action::AwaitApi { .. } => self.await_own_api(name),
            Action::Init { .. } => self.init(name, action),
            Action::Join {
                duty,
                endpoint,
                taints,
                prior,
                ..
            } => self.join(name, *duty, endpoint, taints, *prior),
            Action::Register { labels, taints, .. } => self.register_again(name, labels, taints),
            Action::SaveEtcd { before } => self.save_etcd(name, *before),
            Action::Renew { endpoint } => self.renew(name, endpoint.as_deref()),
            Action::Reset { keeps_etcd } => self.reset(name, *keeps_etcd),
            Action::Forget { membership } => self.forget(name, *membership),
            Action::Drain => {
                if let Some(node) = self.api()?.nodes.get_mut(name) {
                    node.cordoned = true;
                }
                Ok(())
            }
            Action::ApproveCertificates => {
                self.node(name)?.certificates = true;
                Ok(())
            }
            Action::Mark { .. } => self.mark(name, action),
            Action::AwaitNodeNetwork { .. } => self.await_network(name),
            Action::AwaitReady => {
                self.node(name)?;
                if self.is_ready(name) {
                    Ok(())
                } else {
                    Err(not_yet(format!("{name} is not Ready")))
                }
            }
            Action::ReleaseMachine => self.release(name),
            Action::RemoveMachine => self.remove(name),
            other => Err(refused(format!(
                "{} is for no machine, and {name} is named",
                other.kind().word()
            ))),
        }
    }

    fn require_parts(&self, parts: &[Part]) -> Done {
        match parts.iter().find(|part| !self.cache.contains(*part)) {
            Some(part) => Err(refused(format!("{part} is not in the cache"))),
            None => Ok(()),
        }
    }

    fn make_network(&mut self, place: &Place, network: Ipv4Net, access: MachineAccess) -> Done {
        let host = self.hosts.entry(place.clone()).or_default();
        if host.network == Some(network) {
            host.network_lacks = None;
            host.network_access = Some(access);
            return Ok(());
        }
        let is_covered = |other: &&IpNet| relation(network, **other) == Relation::Covers;
        if let Some(other) = host.foreign.iter().find(is_covered) {
            return Err(refused(format!("{network} would cut off {other}")));
        }
        host.network = Some(network);
        host.network_lacks = None;
        host.network_access = Some(access);
        Ok(())
    }

    pub(super) fn remove_network(&mut self, place: &Place) -> Done {
        let is_used = |unit: &Unit| unit.made && unit.place == *place;
        if self.units.values().any(is_used) {
            return Err(refused(format!("machines are on {place}")));
        }
        if let Some(host) = self.hosts.get_mut(place) {
            host.network = None;
            host.network_lacks = None;
            host.network_access = None;
        }
        Ok(())
    }

    fn make(
        &mut self,
        name: &MachineName,
        plot: &Plot<'_>,
        driver: Driver,
        template: &TemplateId,
        os: Os,
        size: Size,
    ) -> Done {
        if let Some(unit) = self.units.get(name) {
            if !unit.made {
                let words = format!("{name} is a machine of the user's");
                return Err(StepError::new(ErrorClass::NotOurs, words));
            }
            if unit.whole {
                return Ok(());
            }
        }
        let Some(parts) = self.templates.get(template) else {
            return Err(refused(format!("there is no template {}", template.name)));
        };
        let network = self.hosts.get(plot.place).and_then(|host| host.network);
        if network != Some(plot.network) || !plot.network.contains(&plot.address) {
            return Err(refused(format!("no network for {}", plot.address)));
        }
        let address = IpAddr::V4(plot.address);
        let has_it =
            |(other, unit): (&MachineName, &Unit)| other != name && unit.address == address;
        if self.units.iter().any(has_it) {
            return Err(refused(format!("{address} is taken")));
        }
        let unit = Unit {
            made: true,
            whole: true,
            power: Power::New,
            answers: true,
            driver,
            os,
            place: plot.place.clone(),
            size: Some(size),
            template: Some(template.clone()),
            address,
            autostart: None,
            holds: parts.iter().cloned().collect(),
            inside: Inside::default(),
        };
        self.units.insert(name.clone(), unit);
        Ok(())
    }

    fn start(&mut self, name: &MachineName) -> Done {
        let unit = self.unit(name)?;
        if !unit.whole {
            return Err(refused(format!("{name} is not whole")));
        }
        if unit.power != Power::On {
            let place = unit.place.clone();
            if self
                .hosts
                .get(&place)
                .is_none_or(|host| host.network.is_none())
            {
                return Err(refused(format!("{place} has no network for {name}")));
            }
            self.restarted(name);
        }
        Ok(())
    }

    fn set_autostart(&mut self, name: &MachineName, autostart: bool) -> Done {
        let Some(unit) = self.units.get_mut(name).filter(|unit| unit.whole) else {
            return Err(refused(format!("{name} is not whole")));
        };
        unit.autostart = Some(autostart);
        Ok(())
    }

    fn reach(&mut self, name: &MachineName) -> Done {
        let unit = self.unit(name)?;
        if unit.power != Power::On || !unit.whole {
            return Err(unreachable(format!("{name} is off")));
        }
        // Waiting is what this step does: a connection that was lost comes back.
        unit.answers = true;
        Ok(())
    }

    fn install_agent(&mut self, name: &MachineName, version: Option<&str>) -> Done {
        let cache = self.cache.clone();
        let unit = self.reachable(name)?;
        let mut agents = cache
            .iter()
            .chain(&unit.holds)
            .filter(|part| part.is_agent());
        let mut is_there =
            |version: &str| agents.any(|part| part.os == unit.os && part.version == version);
        let is_missing = version.is_some_and(|version| !is_there(version));
        if is_missing {
            return Err(refused(format!("the agent for {name} is not in the cache")));
        }
        if unit.inside.agent.is_none() || version.is_some() {
            unit.inside.agent = Some(version.unwrap_or(ANY_AGENT).into());
        }
        Ok(())
    }

    fn enable(&mut self, name: &MachineName, features: &[String]) -> Done {
        let inside = self.agent(name)?;
        let missing: Vec<_> = features
            .iter()
            .filter(|feature| !inside.features.contains(*feature))
            .cloned()
            .collect();
        if !missing.is_empty() {
            inside.features.extend(missing);
            inside.reboot_pending = true;
        }
        // The engine reboots where the system asks for it, as a part of the step.
        if inside.reboot_pending {
            self.restarted(name);
        }
        Ok(())
    }

    fn apply(&mut self, name: &MachineName, document: &Document<MachineDocument>) -> Done {
        let unrendered = || refused(format!("nobody has rendered the blueprint of {name}"));
        let document = document.known().ok_or_else(unrendered)?;
        if self.agent(name)?.reboot_pending {
            return Err(refused(format!("{name} waits for a reboot")));
        }
        let cache = self.cache.clone();
        let unit = self.unit(name)?;
        let applied = unit.inside.blueprint.as_ref();
        if applied.is_some_and(|applied| applied.is(document)) {
            return Ok(());
        }
        if unit.is_real_windows() && !unit.inside.features.contains("Containers") {
            return Err(refused(format!("{name} has no containers")));
        }
        let is_there = |(wanted, os, version): (&str, &str, &str)| {
            let is_it = |part: &&Part| {
                part.name == wanted && part.os.to_string() == os && part.version == version
            };
            cache.iter().chain(&unit.holds).find(is_it).cloned()
        };
        let mut laid = BTreeSet::new();
        for file in &document.blueprint.files {
            let Named::Program {
                name: part,
                os,
                version,
            } = &file.content
            else {
                continue;
            };
            // It brings itself.
            if part == "mullion-agent" {
                continue;
            }
            match is_there((part, os, version)) {
                Some(part) => laid.insert(part),
                None => return Err(refused(format!("{part} {version} is nowhere for {name}"))),
            };
        }
        let is_other = |part: &Part| {
            let mut laid = laid.iter();
            part.is_agent() || !laid.any(|one| (&one.name, one.os) == (&part.name, part.os))
        };
        unit.holds.retain(is_other);
        unit.holds.extend(laid);
        unit.inside.blueprint = Some(Applied::of(document));
        Ok(())
    }

    fn release(&mut self, name: &MachineName) -> Done {
        self.reachable(name)?;
        self.require_clean(name)?;
        let unit = self.unit(name)?;
        if unit.made {
            return Err(refused(format!("{name} is not the user's")));
        }
        unit.holds.clear();
        unit.inside = Inside {
            features: std::mem::take(&mut unit.inside.features),
            ..Inside::default()
        };
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &MachineName) -> Done {
        let Some(unit) = self.units.get(name) else {
            return Ok(());
        };
        if !unit.made {
            let words = format!("{name} is a machine of the user's");
            return Err(StepError::new(ErrorClass::NotOurs, words));
        }
        let is_whole = self.is_removed_whole;
        if let Ok(etcd) = self.api()
            && !is_whole
            && (etcd.nodes.contains_key(name) || etcd.members.contains(name))
        {
            return Err(refused(format!("{name} is still a node")));
        }
        self.units.remove(name);
        self.bury();
        Ok(())
    }

    pub(super) fn unit(&mut self, name: &MachineName) -> Result<&mut Unit, StepError> {
        self.units
            .get_mut(name)
            .ok_or_else(|| refused(format!("{name} does not exist")))
    }

    fn reachable(&mut self, name: &MachineName) -> Result<&mut Unit, StepError> {
        let unit = self.unit(name)?;
        if unit.is_reachable() {
            Ok(unit)
        } else {
            Err(unreachable(format!("{name} does not answer")))
        }
    }

    pub(super) fn agent(&mut self, name: &MachineName) -> Result<&mut Inside, StepError> {
        let unit = self.reachable(name)?;
        if unit.inside.agent.is_some() {
            Ok(&mut unit.inside)
        } else {
            Err(refused(format!("{name} has no agent")))
        }
    }

    pub(super) fn prepared(&mut self, name: &MachineName) -> Done {
        let inside = self.agent(name)?;
        if inside.blueprint.is_none() {
            return Err(refused(format!("{name} is not prepared")));
        }
        if inside.reboot_pending {
            return Err(refused(format!("{name} waits for a reboot")));
        }
        Ok(())
    }
}

/// Where a machine is to stand.
struct Plot<'a> {
    place: &'a Place,
    network: Ipv4Net,
    address: Ipv4Addr,
}

fn marks(commands: &[UserCommand]) -> impl Iterator<Item = Fingerprint> {
    commands.iter().map(|command| command.fingerprint.clone())
}
