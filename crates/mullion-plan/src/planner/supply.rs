//! Artifacts, templates and the hosts' networks: made because something else needs them.
//!
//! A part that nobody needs now is not fetched, and a template that no machine is to be made from is
//! not built: they are means. So an emptied cache does not disturb a cluster that is as wanted.

use std::collections::{BTreeMap, BTreeSet};

use mullion_catalog::Catalog;
use mullion_spec::words::{MachineAccess, Os};

use super::machine::{Wait, Work};
use super::view::View;
use super::{Mark, Sheet};
use crate::action::{Action, TemplateSystem};
use crate::address;
use crate::stage::Stage;
use crate::wanted::{self, TemplateId};

impl Sheet {
    pub(super) fn lay_supply(&mut self, view: &View<'_>, works: &[Work]) {
        // The first machine that needs each template stands for all: they are alike in it.
        let mut templates: BTreeMap<&TemplateId, usize> = BTreeMap::new();
        let mut systems: BTreeSet<Os> = BTreeSet::new();
        for (position, work) in works.iter().enumerate() {
            for wait in work
                .prepare
                .iter()
                .chain(&work.enter)
                .flat_map(|link| link.waits)
            {
                match wait {
                    Wait::Template => {
                        let template = view.template(&view.items[position]);
                        if let Some(id) = template {
                            templates.entry(id).or_insert(position);
                        }
                    }
                    Wait::Stock(os) => {
                        systems.insert(*os);
                    }
                    _ => {}
                }
            }
        }
        templates.retain(|id, _| !view.observed.templates.contains(*id));
        for position in templates.values() {
            systems.extend(wanted::part_systems(view.items[*position].group()));
        }
        self.lay_stock(view, &systems);
        for (id, position) in templates {
            self.lay_template(view, id, position);
        }
    }

    fn lay_stock(&mut self, view: &View<'_>, systems: &BTreeSet<Os>) {
        let parts: BTreeSet<_> = view.wanted.parts.iter().collect();
        for os in systems {
            let parts: Vec<_> = parts.iter().filter(|part| part.os == *os).collect();
            let missing: Vec<Mark> = parts
                .iter()
                .filter(|part| !view.observed.artifacts.contains(***part))
                .map(|part| {
                    let reason = "it is not in the cache";
                    let part = (**part).clone();
                    self.push(
                        Stage::Artifacts,
                        None,
                        Action::Fetch { part },
                        reason,
                        Vec::new(),
                    )
                })
                .collect();
            if missing.is_empty() {
                continue;
            }
            let action = Action::CheckStock {
                parts: parts.into_iter().map(|part| (*part).clone()).collect(),
            };
            let reason = format!("machines with {os} need them all");
            let id = self.push(Stage::Artifacts, None, action, reason, missing);
            self.stock.insert(*os, id);
        }
    }

    fn lay_template(&mut self, view: &View<'_>, id: &TemplateId, position: usize) {
        let group = view.items[position].group();
        let parts = view.wanted.template_parts(group);
        let parts = parts.into_iter().cloned().collect();
        let needs: Vec<Mark> = wanted::part_systems(group)
            .iter()
            .filter_map(|os| self.stock.get(os).copied())
            .collect();
        let is_stale = view
            .observed
            .templates
            .iter()
            .any(|found| found.name == id.name);
        let reason = if is_stale {
            format!("template {} holds other parts than are wanted", id.name)
        } else {
            format!("there is no template {}", id.name)
        };
        let action = Action::BuildTemplate {
            template: id.clone(),
            driver: group.carrier.driver(),
            system: TemplateSystem::from(&group.system),
            parts,
            images: view.wanted.users_images(group.system.os()),
            containerd: view
                .documents
                .stand_in_containerd
                .clone()
                .filter(|_| Catalog::builtin().is_stand_in(group)),
        };
        let step = self.push(Stage::Templates, None, action, reason, needs);
        self.templates.insert(id.clone(), step);
    }

    pub(super) fn lay_networks(&mut self, view: &View<'_>) {
        let Some(network) = view.network else { return };
        let access = view.wanted.cluster.network.machine_access;
        let places: BTreeSet<_> = view
            .items
            .iter()
            .filter_map(|item| address::place(&item.machine))
            .collect();
        for place in places {
            let host = view.observed.hosts.get(&place);
            let lacks = host.and_then(|host| host.network_lacks.as_deref());
            let opened = host
                .and_then(|host| host.network_access)
                .filter(|found| *found != access);
            let reason = match host.and_then(|host| host.network) {
                Some(found) if found == network => match (lacks, opened) {
                    (None, None) => continue,
                    (Some(lacks), _) => format!("the network of {place} is not whole: {lacks}"),
                    (None, Some(found)) => access_reason(found).to_owned(),
                },
                Some(found) => format!("the network there is {found}"),
                None => format!("{place} has no network for machines"),
            };
            let action = Action::MakeNetwork {
                place: place.clone(),
                network,
                access,
            };
            let id = self.push(Stage::Hosts, None, action, reason, Vec::new());
            self.networks.insert(place, id);
        }
    }
}

/// Why a network is made again whose machines can be reached from somewhere else than the file says.
const fn access_reason(found: MachineAccess) -> &'static str {
    match found {
        MachineAccess::Host => {
            "`network.machineAccess` is `lan`, and the firewall keeps other networks out"
        }
        MachineAccess::Lan => {
            "`network.machineAccess` is `host`, and the firewall lets other networks in"
        }
    }
}
