//! Rules about all machines together: names, control planes, the load balancer.

use std::collections::BTreeMap;

use super::{Checker, GroupPlace};
use crate::cluster::{Carrier, ControlPlane, Duty, Group, Origin, Size, System};
use crate::finding::{Finding, Place};
use crate::rules::machines as rule;
use crate::source::Path;
use crate::value::{Address, ByteSize, Effect, GroupName};
use crate::words::Os;

/// The name of the group that is made to stand before several control planes.
const LOAD_BALANCER: &str = "lb";
/// The longest computer name that Windows takes.
const NETBIOS: usize = 15;
/// The longest DNS label.
const DNS_LABEL: usize = 63;

impl Checker<'_> {
    /// Checks the groups against each other and adds the load balancer where one is needed.
    pub(super) fn roster(
        &mut self,
        mut groups: Vec<Group>,
        mut places: Vec<GroupPlace>,
        control_plane: &ControlPlane,
    ) -> (Vec<Group>, Vec<GroupPlace>) {
        let machines = Path::top().key("machines");
        if groups.iter().all(|group| group.numbers.is_empty()) {
            self.report(Finding::new(&rule::NO_MACHINES, Place::Key(machines)));
            return (groups, places);
        }
        self.group_names(&groups, &places);
        self.long_names(&groups, &places);
        self.machine_names(&groups, &places);
        self.addresses(&groups, &places);
        self.control_planes(&groups, &places, control_plane);
        self.schedulable(&mut groups, &places, control_plane);
        if let Some((group, place)) = self.load_balancer(&groups, &places, control_plane) {
            groups.push(group);
            places.push(place);
        }
        (groups, places)
    }

    fn group_names(&mut self, groups: &[Group], places: &[GroupPlace]) {
        let mut seen: BTreeMap<&GroupName, &GroupPlace> = BTreeMap::new();
        for (group, place) in groups.iter().zip(places) {
            if let Some(first) = seen.insert(&group.name, place) {
                let at = place.field("name");
                let finding = Finding::new(&rule::DUPLICATE_GROUP, at.clone())
                    .message(format!("two groups are named `{}`", group.name))
                    .also(first.field("name"), "the first");
                // Their machines' names collide as well; saying so once is enough.
                self.reject(finding, &at);
            }
        }
    }

    /// Machines' names are their groups' names and a number: DNS labels on Linux, far shorter ones on Windows.
    fn long_names(&mut self, groups: &[Group], places: &[GroupPlace]) {
        for (group, place) in groups.iter().zip(places) {
            let Some(last) = group.numbers.last() else {
                continue;
            };
            let name = group.name.machine(*last);
            let length = name.as_str().len();
            let is_windows = group.system.os() == Os::Windows;
            let (rule, limit, who) = if is_windows {
                (&rule::WINDOWS_NAME_LONG, NETBIOS, "Windows takes")
            } else {
                (&rule::BAD_NAME, DNS_LABEL, "a DNS label has at most")
            };
            if length > limit {
                let room = limit - last.to_string().len();
                self.report(
                    Finding::new(rule, place.field("name"))
                        .message(format!(
                            "machine `{name}` has {length} characters, and {who} {limit}"
                        ))
                        .hint(format!("shorten the group's name to {room} characters")),
                );
            }
            if is_windows && name.as_str().bytes().all(|byte| byte.is_ascii_digit()) {
                self.report(
                    Finding::new(&rule::WINDOWS_NAME_DIGITS, place.field("name"))
                        .message(format!("machine `{name}` has only digits in its name")),
                );
            }
        }
    }

    fn machine_names(&mut self, groups: &[Group], places: &[GroupPlace]) {
        let by_name: BTreeMap<&str, usize> = groups
            .iter()
            .enumerate()
            .map(|(index, group)| (group.name.as_str(), index))
            .collect();
        // Names collide only where one group's name is another's with digits behind it.
        for (other, other_place) in groups.iter().zip(places) {
            let name = other.name.as_str();
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            for cut in (stem.max(1)..name.len()).filter(|cut| name.as_bytes()[*cut] != b'0') {
                let Some(index) = by_name.get(&name[..cut]) else {
                    continue;
                };
                let group = &groups[*index];
                let twin = other.numbers.iter().find_map(|number| {
                    let number: u32 = format!("{}{number}", &name[cut..]).parse().ok()?;
                    group.numbers.binary_search(&number).ok()?;
                    Some(group.name.machine(number))
                });
                if let Some(twin) = twin {
                    self.report(
                        Finding::new(&rule::DUPLICATE_MACHINE, other_place.field("name"))
                            .message(format!("two machines are named `{twin}`"))
                            .also(
                                places[*index].field("name"),
                                format!("group `{}` has one", group.name),
                            ),
                    );
                }
            }
        }
    }

    /// Addresses given in two groups; within one group they were compared already.
    fn addresses(&mut self, groups: &[Group], places: &[GroupPlace]) {
        let mut seen: BTreeMap<&Address, (usize, Path)> = BTreeMap::new();
        for (number, (group, place)) in groups.iter().zip(places).enumerate() {
            let Carrier::Existing { addresses, .. } = &group.carrier else {
                continue;
            };
            for (index, address) in addresses.iter().enumerate() {
                let at = place.field("addresses").index(index);
                match seen.get(address) {
                    Some((other, first)) if *other != number => {
                        self.report(
                            Finding::new(&rule::DUPLICATE_ADDRESS, at)
                                .message(format!("`{address}` is given in two groups"))
                                .also(first.clone(), "first given here"),
                        );
                    }
                    Some(_) => {}
                    None => {
                        seen.insert(address, (number, at));
                    }
                }
            }
        }
    }

    fn control_planes(
        &mut self,
        groups: &[Group],
        places: &[GroupPlace],
        control_plane: &ControlPlane,
    ) {
        let mut count = 0;
        let mut first = None;
        for (group, place) in groups.iter().zip(places) {
            if group.duty == Duty::ControlPlane && !group.numbers.is_empty() {
                count += group.numbers.len();
                first = first.or(Some(place));
            }
        }
        // What a misspelt role was meant to be decides how many there are.
        if places
            .iter()
            .any(|place| self.is_left_out(&place.field("role")))
        {
            return;
        }
        let existing = Path::top().key("controlPlane").key("existing");
        match (control_plane, first) {
            (ControlPlane::Made { .. }, None) => {
                self.report(Finding::new(
                    &rule::NO_CONTROL_PLANE,
                    Place::Key(Path::top().key("machines")),
                ));
            }
            (ControlPlane::Existing { .. }, Some(place)) => self.report(
                Finding::new(&rule::TWO_CONTROL_PLANES, place.field("role"))
                    .also(Place::Key(existing), "the existing control plane"),
            ),
            (ControlPlane::Made { .. }, Some(place)) if count % 2 == 0 => self.report(
                Finding::new(&rule::EVEN_CONTROL_PLANES, place.field("count"))
                    .message(format!(
                        "{count} control planes bear no more failures than {} do",
                        count - 1
                    ))
                    .hint(format!("take {} or {}", count - 1, count + 1)),
            ),
            _ => {}
        }
    }

    /// Decides whether control planes take ordinary pods, and sees that some Linux node does.
    fn schedulable(
        &mut self,
        groups: &mut [Group],
        places: &[GroupPlace],
        control_plane: &ControlPlane,
    ) {
        let takes_pods = |group: &Group| {
            group.system.os() == Os::Linux
                && !group.numbers.is_empty()
                && group
                    .taints
                    .iter()
                    .all(|taint| taint.effect == Effect::PreferNoSchedule)
        };
        let has_worker = groups
            .iter()
            .any(|group| group.duty == Duty::Worker && takes_pods(group));
        let mut has_place = has_worker || matches!(control_plane, ControlPlane::Existing { .. });
        let mut forbidden = None;
        for (group, place) in groups.iter_mut().zip(places) {
            if group.duty != Duty::ControlPlane {
                continue;
            }
            let said = place.has_fields && self.root.says(&place.field("schedulable"));
            if !said {
                group.schedulable = !has_worker;
            }
            has_place |= group.schedulable && takes_pods(group);
            if said && !group.schedulable {
                forbidden = forbidden.or(Some(place.field("schedulable")));
            }
        }
        let mut control = groups
            .iter()
            .filter(|group| group.duty == Duty::ControlPlane)
            .peekable();
        // A control plane on Windows is refused as such; where pods would go then is idle.
        let is_worth_saying =
            control.peek().is_some() && control.all(|group| group.system.os() == Os::Linux);
        if !has_place && is_worth_saying {
            self.report(forbidden.map_or_else(
                || no_place(groups, places),
                |place| Finding::new(&rule::NO_LINUX_PLACE, place),
            ));
        }
    }

    /// The load balancer, where several control planes have no endpoint of the user's.
    fn load_balancer(
        &mut self,
        groups: &[Group],
        places: &[GroupPlace],
        control_plane: &ControlPlane,
    ) -> Option<(Group, GroupPlace)> {
        let control: Vec<_> = groups
            .iter()
            .zip(places)
            .filter(|(group, _)| group.duty == Duty::ControlPlane)
            .collect();
        let count: usize = control.iter().map(|(group, _)| group.numbers.len()).sum();
        let endpoint = Path::top().key("controlPlane").key("endpoint");
        if count < 2
            || *control_plane != (ControlPlane::Made { endpoint: None })
            || self.left_out.contains(&endpoint)
        {
            return None;
        }
        if let Some((group, place)) = groups
            .iter()
            .zip(places)
            .find(|(group, _)| group.name.as_str() == LOAD_BALANCER)
        {
            self.report(
                Finding::new(&rule::RESERVED_NAME, place.field("name")).message(format!(
                    "group `{}` has the name of the load balancer that {count} control planes need",
                    group.name
                )),
            );
            return None;
        }
        let (first, at) = control.first()?;
        let (
            Carrier::Made {
                driver,
                host,
                autostart,
                ..
            },
            System::Linux { release },
        ) = (&first.carrier, &first.system)
        else {
            if let Carrier::Existing { .. } = first.carrier {
                self.report(
                    Finding::new(&rule::ENDPOINT_NEEDED, Place::Key(at.field("addresses")))
                        .message(format!(
                            "{count} existing control planes need an endpoint before them"
                        )),
                );
            }
            return None;
        };
        let group = Group {
            name: crate::fallback(LOAD_BALANCER),
            duty: Duty::LoadBalancer,
            system: System::Linux {
                release: release.clone(),
            },
            numbers: vec![1],
            carrier: Carrier::Made {
                driver: *driver,
                host: host.clone(),
                size: Size {
                    cpus: 1,
                    memory: ByteSize::gib(1),
                    disk: ByteSize::gib(20),
                },
                origin: Origin::Packages,
                autostart: *autostart,
            },
            node_ip: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            schedulable: false,
            before: Vec::new(),
            after: Vec::new(),
            files: Vec::new(),
        };
        Some((group, (*at).clone()))
    }
}

/// That no Linux node takes ordinary pods, though nobody forbade them on the control planes: a taint
/// keeps them away.
fn no_place(groups: &[Group], places: &[GroupPlace]) -> Finding {
    let tainted = groups.iter().zip(places).find_map(|(group, place)| {
        let taint = group
            .taints
            .iter()
            .find(|taint| taint.effect != Effect::PreferNoSchedule)?;
        (group.duty == Duty::ControlPlane).then_some((group, place, taint))
    });
    match tainted {
        Some((group, place, taint)) => Finding::new(
            &rule::NO_LINUX_PLACE,
            Place::Key(place.field("taints")),
        )
        .message(format!(
            "no Linux node may run ordinary pods: the taint `{taint}` keeps them off group `{}`",
            group.name
        ))
        .hint("remove the taint, or add a Linux worker"),
        None => Finding::new(
            &rule::NO_LINUX_PLACE,
            Place::Key(Path::top().key("machines")),
        ),
    }
}
