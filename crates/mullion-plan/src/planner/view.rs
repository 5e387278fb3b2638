//! The wish and the facts side by side, and what is in the way.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use mullion_spec::cluster::{Carrier, ControlPlane, Duty, Group, Machine};
use mullion_spec::value::{Endpoint, MachineName, Taint};
use mullion_spec::words::Cni;

use super::lasting;
use crate::action::{Action, Names};
use crate::address;
use crate::document::Carried;
use crate::documents::{Documents, MachineDocuments};
use crate::observed::{
    ClusterFacts, ClusterId, Inside, Kubeadm, MachineFacts, Observed, Place, Power, Size,
};
use crate::obstacle::{Obstacle, left_alone_in};
use crate::wanted::{TemplateId, TemplateWish, UserCommand, Wanted, user_commands};
use mullion_render::{API_PORT, PLUGIN_PREFIX, taints};

/// What machines of one group have in common, worked out once.
#[derive(Debug)]
pub(super) struct GroupWish {
    template: Option<TemplateWish>,
    pub(super) taints: BTreeSet<Taint>,
    pub(super) before: Vec<UserCommand>,
    pub(super) after: Vec<UserCommand>,
}

/// What is known of a machine's inside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sight<'a> {
    /// It is yet to be made: there is nothing inside.
    Fresh,
    /// It exists, and nobody could look.
    Blind,
    /// This is inside.
    Seen(&'a Inside),
}

/// One wanted machine, with what was found of it.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) machine: Machine<'a>,
    pub(super) wish: usize,
    pub(super) facts: Option<&'a MachineFacts>,
    pub(super) sight: Sight<'a>,
    pub(super) address: String,
    pub(super) made_address: Option<Ipv4Addr>,
}

impl Item<'_> {
    pub(super) fn name(&self) -> &MachineName {
        &self.machine.name
    }

    pub(super) fn duty(&self) -> Duty {
        self.machine.group.duty
    }

    pub(super) fn group(&self) -> &Group {
        self.machine.group
    }

    /// It is, or is to be, a control plane.
    pub(super) fn is_seat(&self) -> bool {
        self.duty() == Duty::ControlPlane
    }

    /// Where the API server of a control plane listens itself, whatever stands before it.
    pub(super) fn own_endpoint(&self) -> String {
        let port = API_PORT;
        match self.address.parse() {
            Ok(address) => Endpoint { address, port }.to_string(),
            Err(_) => format!("{}:{port}", self.address),
        }
    }

    /// It is made, and waits to be started for the first time.
    pub(super) fn is_made(&self) -> bool {
        self.facts.is_some_and(|facts| facts.whole)
    }

    pub(super) fn is_off(&self) -> bool {
        self.facts.is_some_and(|facts| facts.power == Power::Off)
    }
}

/// What is known of the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) enum Api<'a> {
    /// No control plane was ever initialised, or nothing of it is left.
    Absent,
    /// There is one, and it does not answer: nodes and objects are not known.
    Silent {
        id: Option<&'a ClusterId>,
        members: Option<&'a BTreeSet<MachineName>>,
    },
    /// No cluster was seen, and a control plane cannot be looked at: there may be a cluster on it, or
    /// not yet.
    Hidden,
    /// It answers.
    Known(&'a ClusterFacts),
}

/// Everything that the planner decides on.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) wanted: &'a Wanted<'a>,
    pub(super) observed: &'a Observed,
    pub(super) documents: &'a Documents,
    /// The names by which machines know each other.
    pub(super) names: Carried<Names>,
    pub(super) items: Vec<Item<'a>>,
    pub(super) wishes: Vec<GroupWish>,
    pub(super) network: Option<Ipv4Net>,
    pub(super) endpoint: String,
    pub(super) api: Api<'a>,
}

impl<'a> View<'a> {
    /// Both sides together, or everything that is in the way.
    pub(super) fn new(
        wanted: &'a Wanted<'a>,
        observed: &'a Observed,
        documents: &'a Documents,
    ) -> Result<Self, BTreeSet<Obstacle>> {
        let mut obstacles: BTreeSet<_> = left_alone_in(observed).collect();
        let cluster = wanted.cluster;
        let machines: Vec<_> = cluster.machines().collect();
        let addresses = address::assign(wanted, observed, &machines, &mut obstacles);
        let endpoint = addresses.endpoint.clone().unwrap_or_default();
        let wishes = group_wishes(wanted);
        let known = machines
            .iter()
            .enumerate()
            .filter_map(|(position, machine)| {
                let address = addresses.text(position).parse().ok()?;
                Some((machine.name.clone(), address))
            });
        let names = Carried::new(Names(known.collect()));
        // Machines come group by group, so the wish changes where the group does.
        let numbered = cluster.groups.iter().enumerate();
        let wish_of = numbered.flat_map(|(wish, group)| group.numbers.iter().map(move |_| wish));
        let items: Vec<_> = machines
            .into_iter()
            .zip(wish_of)
            .enumerate()
            .map(|(position, (machine, wish))| {
                let facts = observed.machines.get(&machine.name);
                Item {
                    sight: sight(&machine, facts),
                    address: addresses.text(position),
                    made_address: addresses.made(position),
                    facts,
                    machine,
                    wish,
                }
            })
            .collect();
        let view = Self {
            api: api(wanted, observed, &items),
            network: addresses.network,
            wanted,
            observed,
            documents,
            names,
            items,
            wishes,
            endpoint,
        };
        view.machine_obstacles(&mut obstacles);
        view.cluster_obstacles(&mut obstacles);
        if obstacles.is_empty() {
            Ok(view)
        } else {
            Err(obstacles)
        }
    }

    /// The machine that the cluster begins on, by its position, where there may be none yet.
    ///
    /// Among control planes that nobody could look at it is the first of these: if it holds a cluster's
    /// data, nothing happens to it, while one that is known to be empty would begin a second cluster.
    pub(super) fn founder(&self) -> Option<usize> {
        let mut seats = self
            .items
            .iter()
            .enumerate()
            .filter(|(_, item)| item.is_seat());
        let founder = match self.api {
            Api::Absent => seats.next(),
            Api::Hidden => seats.find(|(_, item)| matches!(item.sight, Sight::Blind)),
            Api::Silent { .. } | Api::Known(_) => None,
        };
        founder.map(|(position, _)| position)
    }

    /// Why something is done that only the API server could tell to be needless.
    pub(super) fn api_reason(&self) -> &'static str {
        if self.observed.cluster.is_some() {
            "the API server did not answer"
        } else {
            "nobody has asked the API server yet"
        }
    }

    /// Whether the control plane is ours to change.
    pub(super) fn runs_control_plane(&self) -> bool {
        matches!(self.wanted.cluster.control_plane, ControlPlane::Made { .. })
    }

    /// What starts a machine: it learns the names of the others, and where to ask for further names.
    pub(super) fn start(&self) -> Action {
        Action::StartMachine {
            names: self.names.clone(),
            name_servers: self.wanted.cluster.network.upstream_dns.clone(),
        }
    }

    pub(super) fn has_network_plugin(&self) -> bool {
        self.wanted.cluster.network.cni != Cni::None
    }

    pub(super) fn documents_of(&self, item: &Item<'_>) -> &'a MachineDocuments {
        self.documents.of(item.name())
    }

    /// The template that a machine is made from; `None` when it exists already or its template is
    /// missing, which is an obstacle.
    pub(super) fn template(&self, item: &Item<'_>) -> Option<&TemplateId> {
        match self.wishes[item.wish].template.as_ref()? {
            TemplateWish::Built(id) => Some(id),
            // Several states of one name: any is the user's own, so take always the same.
            TemplateWish::Named(name) => {
                self.observed.templates.iter().rfind(|id| id.name == *name)
            }
        }
    }

    fn machine_obstacles(&self, obstacles: &mut BTreeSet<Obstacle>) {
        for item in &self.items {
            let name = item.name();
            if let Some(TemplateWish::Named(template)) = &self.wishes[item.wish].template
                && matches!(item.sight, Sight::Fresh)
                && self.template(item).is_none()
            {
                obstacles.insert(Obstacle::TemplateMissing {
                    template: template.clone(),
                });
            }
            let Some(facts) = item.facts else { continue };
            // Told already, and nothing else that was found of it counts.
            if facts.trouble.is_some() {
                continue;
            }
            let inside = facts.inside.as_ref();
            let is_last = !matches!(self.api, Api::Known(found) if found.members.len() > 1);
            // What somebody else made of a machine that is not ours is told as that.
            let is_ours = |inside: &Inside| facts.ours || inside.kubeadm != Some(Kubeadm::Foreign);
            let damaged = inside.filter(|inside| is_last && inside.is_damaged() && is_ours(inside));
            if let Some(inside) = damaged {
                let why = match &inside.expired {
                    Some(why) => why.clone(),
                    None => "its `kubelet.conf` or its authority's certificate is gone".into(),
                };
                obstacles.insert(Obstacle::Damaged {
                    machine: name.clone(),
                    why,
                });
            }
            let mut differs = |what: &str, found: String, wanted: String| {
                if found != wanted {
                    obstacles.insert(Obstacle::MachineDiffers {
                        machine: name.clone(),
                        what: what.into(),
                        found,
                        wanted,
                    });
                }
            };
            let carrier = &item.group().carrier;
            differs(
                "driver",
                facts.driver.to_string(),
                carrier.driver().to_string(),
            );
            let Carrier::Made { host, size, .. } = carrier else {
                // One that another cluster uses is not taken from it. Drift and a changed file hide its blueprint, and
                // not its claim.
                let is_claimed = facts.claimed_by.is_some();
                let is_elsewhere = || inside.is_some_and(|inside| self.is_elsewhere(inside));
                if !facts.ours && (is_claimed || is_elsewhere()) {
                    obstacles.insert(Obstacle::NotOurs {
                        machine: name.clone(),
                        cluster: facts.claimed_by.clone(),
                    });
                } else if inside.is_some_and(|inside| self.is_occupied(inside)) {
                    obstacles.insert(Obstacle::Occupied {
                        machine: name.clone(),
                    });
                }
                continue;
            };
            if !facts.ours {
                obstacles.insert(Obstacle::NotOurs {
                    machine: name.clone(),
                    cluster: None,
                });
                continue;
            }
            let place = Place::from(host.as_ref());
            differs("host", facts.place.to_string(), place.to_string());
            // What was never finished is made again, as the file says now.
            if !facts.whole {
                continue;
            }
            if let Some(found) = facts.size {
                differs("size", found.to_string(), Size::from(*size).to_string());
            }
            if let (Some(found), Some(wish)) = (&facts.template, &self.wishes[item.wish].template) {
                differs("template", found.name.clone(), wish.name().into());
            }
        }
    }

    /// Whether a machine that does not carry our label is prepared for a cluster, or a node of one that is not this.
    fn is_elsewhere(&self, inside: &Inside) -> bool {
        let own = self.observed.cluster.as_ref().map(|cluster| &cluster.id);
        let joined = inside.joined.as_ref();
        inside.blueprint.is_some() || (joined.is_some() && joined != own)
    }

    /// Whether a machine is a node of a cluster that is not this one, and was not made one by us.
    fn is_occupied(&self, inside: &Inside) -> bool {
        let own = self.observed.cluster.as_ref().map(|cluster| &cluster.id);
        inside.kubeadm == Some(Kubeadm::Foreign)
            && (inside.joined.is_none() || inside.joined.as_ref() != own)
    }

    fn cluster_obstacles(&self, obstacles: &mut BTreeSet<Obstacle>) {
        let cluster = self.wanted.cluster;
        let is_made = self.runs_control_plane();
        if !is_made && !matches!(self.api, Api::Known(_)) {
            obstacles.insert(Obstacle::ExistingSilent);
        }
        let has_seat = self.items.iter().any(Item::is_seat);
        if is_made && !has_seat {
            obstacles.insert(Obstacle::NoControlPlane);
        }
        // Each document includes the archive's digest. Without it, every node would seem changed.
        obstacles.extend(self.wanted.archives.iter().filter_map(|archive| {
            let unusable = archive.unusable.as_ref()?;
            Some(Obstacle::ArchiveUnusable {
                file: archive.file.clone(),
                why: unusable.why.clone(),
                remedy: unusable.remedy.clone(),
            })
        }));
        let faults = self.documents.faults.iter();
        obstacles.extend(faults.map(|(what, why)| Obstacle::Unrendered {
            what: what.clone(),
            why: why.clone(),
        }));
        let Some(found) = &self.observed.cluster else {
            return;
        };
        if let Some(version) = found.kubernetes
            && version != self.wanted.kubernetes
        {
            obstacles.insert(Obstacle::Version {
                found: version,
                wanted: self.wanted.kubernetes,
            });
        }
        let mut differs = |what: &str, found: Option<String>, wanted: String| {
            if let Some(found) = found.filter(|found| *found != wanted) {
                obstacles.insert(Obstacle::ClusterDiffers {
                    what: what.into(),
                    found,
                    wanted,
                });
            }
        };
        differs("endpoint", found.endpoint.clone(), self.endpoint.clone());
        for setting in lasting::settings(cluster, found) {
            differs(setting.what, setting.found, setting.wanted);
        }
        for set in found.objects.keys() {
            let plugin = set.strip_prefix(PLUGIN_PREFIX).map(str::to_owned);
            differs("network plugin", plugin, cluster.network.cni.to_string());
        }
        let members = found.members.len();
        let left = found.members.iter().filter(|name| self.may_live(name));
        let left = left.count();
        if !found.answers && left < members / 2 + 1 && members > 0 {
            obstacles.insert(Obstacle::QuorumLost { members, left });
        }
    }

    /// Whether a member of etcd may come back with its data.
    fn may_live(&self, name: &MachineName) -> bool {
        let holds = |facts: &MachineFacts| {
            let emptied = facts
                .inside
                .as_ref()
                .is_some_and(|inside| !inside.control_plane);
            facts.whole && !emptied
        };
        match self.observed.machines.get(name) {
            Some(facts) => holds(facts),
            // A machine of the user's that does not answer may be off.
            None => self.items.iter().any(|item| {
                item.name() == name && matches!(item.group().carrier, Carrier::Existing { .. })
            }),
        }
    }
}

fn group_wishes(wanted: &Wanted<'_>) -> Vec<GroupWish> {
    let groups = wanted.cluster.groups.iter();
    groups
        .map(|group| GroupWish {
            template: wanted.template(group),
            taints: taints(group),
            before: user_commands(&group.before),
            after: user_commands(&group.after),
        })
        .collect()
}

fn sight<'a>(machine: &Machine<'_>, facts: Option<&'a MachineFacts>) -> Sight<'a> {
    let is_made = machine.group.carrier.is_made();
    match facts {
        None if is_made => Sight::Fresh,
        Some(facts) if is_made && (!facts.whole || facts.power == Power::New) => Sight::Fresh,
        None => Sight::Blind,
        Some(facts) => facts.inside.as_ref().map_or(Sight::Blind, Sight::Seen),
    }
}

fn api<'a>(wanted: &Wanted<'_>, observed: &'a Observed, items: &[Item<'a>]) -> Api<'a> {
    if let Some(found) = &observed.cluster {
        return if found.answers {
            Api::Known(found)
        } else {
            Api::Silent {
                id: Some(&found.id),
                members: Some(&found.members),
            }
        };
    }
    if matches!(wanted.cluster.control_plane, ControlPlane::Existing { .. }) {
        return Api::Absent;
    }
    // Whoever found no cluster may have missed it. Where a control plane's data are, nothing is
    // initialised: a second cluster beside the first would be worse than waiting in vain.
    let seat = observed
        .machines
        .values()
        .filter(|facts| facts.ours)
        .filter_map(|facts| facts.inside.as_ref())
        .find(|inside| inside.control_plane && inside.joined.is_some());
    let mut seats = items.iter().filter(|item| item.is_seat());
    let is_hidden = seats.any(|item| matches!(item.sight, Sight::Blind));
    match seat {
        Some(inside) => Api::Silent {
            id: inside.joined.as_ref(),
            members: None,
        },
        None if is_hidden => Api::Hidden,
        None => Api::Absent,
    }
}
