//! From the comparison to steps.
//!
//! Each machine gives a chain of links (what it lacks); here the chains are laid into one graph. Links
//! wait for few things: the template, the host's network, the last step of the control plane, the last
//! set of objects. So the number of edges grows with the machines and not with their square.

mod down;
mod etcd;
mod lasting;
mod machine;
mod node;
mod retire;
mod single;
mod supply;
mod view;

pub use down::{Rest, plan_down};
pub use single::{plan_reboot, plan_reset};

use std::collections::{BTreeMap, BTreeSet};

use mullion_spec::cluster::{Carrier, Duty};
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;

use self::machine::{Link, Wait, Work};
use self::view::{Api, Item, View};
use crate::action::{Action, StepKind};
use crate::address;
use crate::documents::Documents;
use crate::edges::Edges;
use crate::observed::{Observed, Place};
use crate::obstacle::Obstacle;
use crate::plan::{Plan, PlanError};
use crate::stage::Stage;
use crate::step::Step;
use crate::wanted::{TemplateId, Wanted};
use mullion_render::ADDON_PREFIX;

/// What must happen so that what was found becomes what is wanted.
///
/// What is rendered is compared with what agents and the API server tell: `documents` come from [`Documents::render`].
///
/// Pure and total: the same arguments give the same plan, byte for byte, and there is one for every
/// pair of them. When nothing differs the plan is empty; when something is in the way that no step can
/// cure, the plan has obstacles and no steps.
pub fn plan(wanted: &Wanted<'_>, observed: &Observed, documents: &Documents) -> Plan {
    let view = match View::new(wanted, observed, documents) {
        Ok(view) => view,
        Err(obstacles) => return Plan::blocked(obstacles),
    };
    let mut sheet = Sheet::default();
    sheet.lay_all(&view);
    let workers: BTreeSet<_> = view
        .items
        .iter()
        .filter(|item| !item.is_seat())
        .map(Item::name)
        .collect();
    let is_worker = |machine: &MachineName| workers.contains(machine);
    let endangered = etcd::endangered(observed, &sheet.steps, is_worker);
    if !endangered.is_empty() {
        return Plan::blocked(endangered);
    }
    sheet.into_plan().unwrap_or_else(|error| {
        let words = error.to_string();
        Plan::blocked(BTreeSet::from([Obstacle::OurFault { words }]))
    })
}

/// A step's place on the sheet: what waits for it holds this, and gets its id at the end.
type Mark = usize;

/// The steps so far, and those that others wait for.
#[derive(Debug, Default)]
struct Sheet {
    steps: Vec<Step>,
    /// The needs of each.
    needs: Edges,
    templates: BTreeMap<TemplateId, Mark>,
    stock: BTreeMap<Os, Mark>,
    networks: BTreeMap<Place, Mark>,
    /// The last steps of the control plane; whatever talks to the API server waits for them.
    control_plane: Vec<Mark>,
    /// The last of the cluster's own objects.
    objects: Option<Mark>,
}

impl Sheet {
    fn push(
        &mut self,
        stage: Stage,
        machine: Option<&MachineName>,
        action: Action,
        reason: impl Into<String>,
        needs: impl IntoIterator<Item = Mark>,
    ) -> Mark {
        let step = Step::new(stage, machine.cloned(), action, reason.into(), Vec::new());
        self.steps.push(step);
        self.needs.push(needs);
        self.steps.len() - 1
    }

    fn into_plan(self) -> Result<Plan, PlanError> {
        let Self {
            mut steps, needs, ..
        } = self;
        let ids: Vec<_> = steps.iter().map(|step| step.id.clone()).collect();
        for (mark, step) in steps.iter_mut().enumerate() {
            step.wait_for(needs.of(mark).iter().map(|need| ids[*need].clone()));
        }
        Plan::from_positions(steps, &needs)
    }

    fn lay_all(&mut self, view: &View<'_>) {
        let founder = view.founder();
        let mut works: Vec<_> = view
            .items
            .iter()
            .enumerate()
            .map(|(position, item)| machine::work(view, item, founder == Some(position)))
            .collect();
        let links = |work: &Work| work.prepare.len() + work.enter.len() + work.settle.len();
        let length = works.iter().map(links).sum();
        self.steps.reserve(length);
        self.needs = Edges::with_capacity(length, 2 * length);
        self.lay_supply(view, &works);
        self.lay_networks(view);
        let mut tails = self.lay_preparation(view, &mut works);
        self.lay_control_plane(view, founder, &mut works, &mut tails);
        self.lay_objects(view);
        for (position, item) in view.items.iter().enumerate() {
            let work = &mut works[position];
            let enter = std::mem::take(&mut work.enter);
            let tail = tails[position].take();
            let tail = self.lay(view, item, enter, tail);
            self.lay(view, item, std::mem::take(&mut work.settle), tail);
        }
        self.lay_autostart(view);
        self.lay_retirement(view);
        self.lay_suites(view);
    }

    /// Lays a chain behind `tail`; gives its last step, or `tail` when the chain is empty.
    fn lay(
        &mut self,
        view: &View<'_>,
        item: &Item<'_>,
        links: Vec<Link>,
        tail: Option<Mark>,
    ) -> Option<Mark> {
        self.lay_behind(view, item, links, tail, None)
    }

    /// The same, its first step also behind `other`.
    fn lay_behind(
        &mut self,
        view: &View<'_>,
        item: &Item<'_>,
        links: Vec<Link>,
        mut tail: Option<Mark>,
        mut other: Option<Mark>,
    ) -> Option<Mark> {
        let mut needs = Vec::new();
        for link in links {
            needs.clear();
            needs.extend(tail);
            needs.extend(other.take());
            for wait in link.waits {
                match wait {
                    Wait::Template => {
                        let id = view.template(item);
                        needs.extend(id.and_then(|id| self.templates.get(id)));
                    }
                    Wait::Network => {
                        let place = address::place(&item.machine);
                        needs.extend(place.and_then(|place| self.networks.get(&place)));
                    }
                    Wait::Stock(os) => needs.extend(self.stock.get(os).copied()),
                    Wait::ControlPlane => needs.extend_from_slice(&self.control_plane),
                    Wait::Objects => needs.extend(self.objects),
                }
            }
            let needs = needs.iter().copied();
            tail = Some(self.push(
                link.stage,
                Some(item.name()),
                link.action,
                link.reason,
                needs,
            ));
        }
        tail
    }

    /// Machines that are there are told whether they start with their host. New ones are made so.
    fn lay_autostart(&mut self, view: &View<'_>) {
        for item in view.items.iter().filter(|item| item.is_made()) {
            let Carrier::Made { autostart, .. } = item.group().carrier else {
                continue;
            };
            let found = item.facts.and_then(|facts| facts.autostart);
            if found.is_none_or(|found| found == autostart) {
                continue;
            }
            let name = item.name();
            let reason = if autostart {
                format!("{name} would stay off when its host starts")
            } else {
                format!("the file does not want {name} started with its host")
            };
            let place = address::place(&item.machine);
            let network = place.and_then(|place| self.networks.get(&place).copied());
            let action = Action::SetAutostart { autostart };
            self.push(Stage::Machines, Some(name), action, reason, network);
        }
    }

    fn lay_preparation(&mut self, view: &View<'_>, works: &mut [Work]) -> Vec<Option<Mark>> {
        let mut before = None;
        let items = view.items.iter().zip(works);
        items
            .map(|(item, work)| {
                let links = std::mem::take(&mut work.prepare);
                let is_running = match view.api {
                    Api::Absent => false,
                    Api::Silent { .. } | Api::Hidden => item.is_seat(),
                    Api::Known(cluster) => item.is_seat() && cluster.members.contains(item.name()),
                };
                if !is_running {
                    return self.lay(view, item, links, None);
                }
                // Control planes of a running cluster are disturbed one after another.
                let calm = links.iter().position(disturbs).unwrap_or(links.len());
                let mut links = links;
                let rest = links.split_off(calm);
                let tail = self.lay(view, item, links, None);
                if rest.is_empty() {
                    return tail;
                }
                let mut last = self.lay_behind(view, item, rest, tail, before);
                // The next is left alone until etcd has this member back. A silent API server would
                // never say so: there it is awaited once, when all of them are prepared. Nor would one
                // that is yet to join, or to join anew.
                let joins = work.enter.iter().any(|link| !link.is_registration());
                if matches!(view.api, Api::Known(_)) && !joins {
                    let reason = format!("etcd needs {} back before anything else", item.name());
                    let action = Action::AwaitApi {
                        endpoint: item.own_endpoint(),
                    };
                    let name = Some(item.name());
                    last = Some(self.push(Stage::Prepare, name, action, reason, last));
                    self.control_plane = last.into_iter().collect();
                }
                before = last;
                last
            })
            .collect()
    }

    fn lay_control_plane(
        &mut self,
        view: &View<'_>,
        founder: Option<usize>,
        works: &mut [Work],
        tails: &mut [Option<Mark>],
    ) {
        let of_duty = |tails: &[Option<Mark>], duty: Duty| -> Vec<Mark> {
            let pairs = view.items.iter().zip(tails);
            pairs
                .filter(|(item, _)| item.duty() == duty)
                .filter_map(|(_, tail)| *tail)
                .collect()
        };
        self.control_plane
            .append(&mut of_duty(tails, Duty::LoadBalancer));
        if matches!(view.api, Api::Silent { .. } | Api::Hidden) {
            // Whatever cluster there may be answers only when most of its members run.
            self.control_plane
                .append(&mut of_duty(tails, Duty::ControlPlane));
        }
        self.lay_renewals(view, works, tails);
        if matches!(view.api, Api::Silent { .. }) {
            let mut needs = self.control_plane.clone();
            needs.append(&mut self.lay_wakes(view));
            let action = Action::AwaitApi {
                endpoint: view.endpoint.clone(),
            };
            let reason = view.api_reason();
            let id = self.push(Stage::ControlPlane, None, action, reason, needs);
            self.control_plane = vec![id];
        }
        // The others join what the founder begins.
        let others = (0..view.items.len()).filter(|position| Some(*position) != founder);
        for position in founder.into_iter().chain(others) {
            let item = &view.items[position];
            if !item.is_seat() || works[position].enter.is_empty() {
                continue;
            }
            let links = std::mem::take(&mut works[position].enter);
            let tail = self.lay(view, item, links, tails[position].take());
            self.control_plane = tail.into_iter().collect();
            tails[position] = tail;
        }
    }

    /// New certificates for one control plane after another: etcd and the API server of each are restarted.
    fn lay_renewals(&mut self, view: &View<'_>, works: &[Work], tails: &mut [Option<Mark>]) {
        for (position, item) in view.items.iter().enumerate() {
            let links = node::renewal(view, item, &works[position].enter);
            if links.is_empty() {
                continue;
            }
            let mut needs = std::mem::take(&mut self.control_plane);
            needs.extend(tails[position]);
            for link in links {
                let name = Some(item.name());
                let mark = self.push(link.stage, name, link.action, link.reason, needs);
                needs = vec![mark];
            }
            tails[position] = needs.first().copied();
            self.control_plane = needs;
        }
    }

    /// The sets wait for each other: their order is wanted, and whoever needs them all waits for one.
    fn lay_objects(&mut self, view: &View<'_>) {
        let wanted = &view.documents.sets;
        for (set, objects) in wanted {
            let found = match view.api {
                Api::Absent => Ok(None),
                Api::Silent { .. } | Api::Hidden => Err(()),
                Api::Known(cluster) => Ok(cluster.objects.get(set)),
            };
            let reason = match found {
                Ok(Some(found)) if *found == objects.fingerprint() => continue,
                Ok(Some(_)) => format!("{set} changed"),
                Ok(None) => format!("{set} was never applied"),
                Err(()) => view.api_reason().into(),
            };
            let action = Action::ApplyObjects {
                set: set.clone(),
                objects: objects.clone(),
            };
            self.lay_set(set, action, reason);
        }
        if let Api::Known(cluster) = view.api {
            // By the file and not by what was rendered: what could not be rendered is not deleted.
            let wanted = mullion_render::sets(view.wanted.cluster);
            let is_wanted = |set: &String| wanted.contains(set);
            for set in cluster.objects.keys().filter(|set| !is_wanted(set)) {
                let action = Action::RemoveObjects { set: set.clone() };
                self.lay_set(set, action, format!("the file no longer asks for {set}"));
            }
        }
    }

    fn lay_set(&mut self, set: &str, action: Action, reason: String) {
        let mut needs = self.control_plane.clone();
        needs.extend(self.objects);
        if set.starts_with(ADDON_PREFIX) {
            self.push(Stage::After, None, action, reason, needs);
        } else {
            self.objects = Some(self.push(Stage::Network, None, action, reason, needs));
        }
    }

    /// Suites come last, and only when something changes; without a network there is nothing to prove.
    fn lay_suites(&mut self, view: &View<'_>) {
        if !view.has_network_plugin() {
            return;
        }
        let changes = !self.steps.is_empty();
        let cluster = view
            .observed
            .cluster
            .as_ref()
            .filter(|cluster| cluster.answers);
        let ends = self.ends();
        for suite in view.wanted.cluster.verify.iter().collect::<BTreeSet<_>>() {
            // A run that was cut off before its suites leaves them to the next.
            let is_due = changes || cluster.is_some_and(|cluster| !cluster.proven.contains(suite));
            if is_due {
                let reason = if changes {
                    "something changes"
                } else {
                    "it has not passed since the last change"
                };
                let action = Action::Verify {
                    suite: suite.clone(),
                    rollouts: view.documents.rollouts(),
                };
                self.push(Stage::Verify, None, action, reason, ends.clone());
            }
        }
    }

    /// The steps that no other waits for.
    fn ends(&self) -> Vec<Mark> {
        let mut is_end = vec![true; self.steps.len()];
        for need in self.needs.targets() {
            is_end[*need] = false;
        }
        (0..is_end.len()).filter(|mark| is_end[*mark]).collect()
    }
}

fn disturbs(link: &Link) -> bool {
    matches!(
        link.action.kind(),
        StepKind::EnableFeatures | StepKind::Reboot | StepKind::ApplyBlueprint
    )
}

/// The wanted machines by name, for those who look at what is not wanted.
fn wanted_names<'v>(items: &'v [Item<'_>]) -> BTreeSet<&'v MachineName> {
    items.iter().map(Item::name).collect()
}
