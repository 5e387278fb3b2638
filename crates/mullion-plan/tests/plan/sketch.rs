//! Generated clusters: small sketches that are written as `cluster.yaml` and read by the checker.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use mullion_catalog::{Catalog, Model};
use mullion_plan::{Fingerprint, Observed, Part, PartKind, Place, TemplateId, Wanted};
use mullion_spec::cluster::Cluster;
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::finding::Severity;
use mullion_spec::source::Source;
use mullion_spec::words::{Driver, Os};
use mullion_testkit::{Dice, World};

/// A group of machines in a sketch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Crew {
    pub(crate) count: u32,
    pub(crate) skip: Vec<u32>,
    pub(crate) label: Option<u32>,
    pub(crate) taint: bool,
    pub(crate) before: u32,
    pub(crate) after: u32,
}

impl Crew {
    fn of(count: u32) -> Self {
        Self {
            count,
            ..Self::default()
        }
    }
}

/// A cluster that a test asks for.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own in the file"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sketch {
    pub(crate) seats: Crew,
    pub(crate) linux: Crew,
    pub(crate) stand_ins: Crew,
    pub(crate) windows: Crew,
    pub(crate) disks: Crew,
    /// Made on a host of the file, and on another.
    pub(crate) far: Crew,
    pub(crate) farther: Crew,
    pub(crate) old_seats: Crew,
    pub(crate) old_linux: Crew,
    pub(crate) old_windows: Crew,
    pub(crate) endpoint: bool,
    pub(crate) plugin: bool,
    pub(crate) policy: bool,
    pub(crate) admission: &'static str,
    pub(crate) addons: u32,
    pub(crate) free_network: bool,
    /// Networks that are not ours, on this computer and on the first host.
    pub(crate) foreign: Vec<&'static str>,
    pub(crate) far_foreign: Vec<&'static str>,
    pub(crate) containerd: u32,
    pub(crate) coredns: u32,
    pub(crate) agent: u32,
}

/// The most machines of the user's that a sketch has, of each kind.
const OLD: u32 = 3;

/// Networks of others, of which none lies inside of the network that sketches name.
const FOREIGN: [&str; 6] = [
    "10.99.1.0/24",
    "10.99.0.0/16",
    "10.99.0.0/23",
    "10.0.0.0/8",
    "192.168.0.0/16",
    "2001:db8::/64",
];
/// Such as only a network that is free to choose can keep away from.
const NARROW: [&str; 3] = ["10.99.0.128/25", "10.99.0.0/24", "10.99.2.7/32"];

impl Sketch {
    /// The smallest mixed cluster.
    pub(crate) fn small() -> Self {
        Self {
            seats: Crew::of(1),
            linux: Crew::of(1),
            stand_ins: Crew::of(1),
            windows: Crew::default(),
            disks: Crew::default(),
            far: Crew::default(),
            farther: Crew::default(),
            old_seats: Crew::default(),
            old_linux: Crew::default(),
            old_windows: Crew::default(),
            endpoint: false,
            plugin: true,
            policy: true,
            admission: "off",
            addons: 0,
            free_network: false,
            foreign: vec!["10.99.1.0/24"],
            far_foreign: Vec::new(),
            containerd: 2,
            coredns: 2,
            agent: 1,
        }
    }

    /// Any cluster of the family that tests look at.
    pub(crate) fn any(dice: &mut Dice) -> Self {
        let mut sketch = Self::small();
        sketch.seats = crew(dice, 1, 3);
        sketch.linux = crew(dice, 0, 4);
        sketch.stand_ins = crew(dice, 0, 3);
        sketch.windows = crew(dice, 0, 2);
        sketch.disks = crew(dice, 0, 1);
        sketch.old_linux = crew(dice, 0, OLD);
        sketch.old_windows = crew(dice, 0, OLD);
        sketch.old_linux.skip.clear();
        sketch.old_windows.skip.clear();
        if dice.roll(4) == 0 {
            sketch.far = crew(dice, 0, 2);
            sketch.farther = crew(dice, 0, 1);
        }
        sketch.endpoint = dice.roll(5) == 0;
        // The user's own control planes, alone or beside those that we make.
        if dice.roll(4) == 0 {
            sketch.old_seats = crew(dice, 1, OLD);
            sketch.old_seats.skip.clear();
            sketch.seats.count = small(dice, 1);
            sketch.seats.skip.clear();
            sketch.endpoint |= sketch.seats.count + sketch.old_seats.count > 1;
        }
        sketch.plugin = dice.roll(8) != 0;
        sketch.policy = dice.roll(2) == 0;
        sketch.admission = ["off", "warn", "enforce"][dice.pick(3)];
        sketch.addons = small(dice, 2);
        sketch.free_network = dice.roll(3) == 0;
        sketch.foreign = sketch.any_foreign(dice);
        sketch.far_foreign = sketch.any_foreign(dice);
        sketch
    }

    /// Any cluster of the family that this release can make: what the catalog lets through.
    pub(crate) fn any_admitted(dice: &mut Dice) -> Self {
        Self {
            far: Crew::default(),
            farther: Crew::default(),
            addons: 0,
            admission: "off",
            ..Self::any(dice)
        }
    }

    fn any_foreign(&self, dice: &mut Dice) -> Vec<&'static str> {
        let mut found: Vec<_> = (0..dice.roll(3))
            .map(|_| FOREIGN[dice.pick(FOREIGN.len())])
            .collect();
        if self.free_network && dice.roll(2) == 0 {
            found.push(NARROW[dice.pick(NARROW.len())]);
        }
        found
    }

    /// Changes one thing, as a user would between two runs.
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        match dice.roll(16) {
            // The user's own need no load balancer, and what joins them is theirs too.
            0 if self.old_seats.count > 0 => {
                self.old_seats.count = if self.endpoint { 1 + small(dice, 2) } else { 1 };
            }
            0 => self.seats.count = 4 - self.seats.count.min(3),
            1 => self.linux.count += 1,
            2 => self.linux.count = self.linux.count.saturating_sub(1),
            3 => self.linux.skip = vec![1],
            4 => self.stand_ins.count = small(dice, 3),
            5 => self.windows.count = small(dice, 2),
            6 => self.old_linux.count = small(dice, OLD),
            7 => self.old_windows.count = small(dice, OLD),
            8 => self.linux.label = Some(small(dice, 4)),
            9 => self.stand_ins.label = None,
            10 => self.linux.taint = !self.linux.taint,
            11 => self.containerd += 1,
            12 => {
                self.coredns += 1;
                self.policy = !self.policy;
            }
            13 => {
                self.admission = ["off", "warn", "enforce"][dice.pick(3)];
                self.addons = small(dice, 2);
            }
            14 => {
                self.linux.before += 1;
                self.stand_ins.after += 1;
            }
            _ => self.agent += 1,
        }
    }

    /// The file.
    pub(crate) fn text(&self) -> String {
        let mut groups = vec![
            group("cp", "control-plane", "linux", &self.seats, ""),
            group("lin", "worker", "linux", &self.linux, ""),
            group("win", "worker", "windows", &self.stand_ins, "driver: wine"),
            group(
                "vm",
                "worker",
                "windows",
                &self.windows,
                "driver: qemu, media: {iso: ./server.iso}",
            ),
            group(
                "disk",
                "worker",
                "windows",
                &self.disks,
                "driver: qemu, template: golden",
            ),
        ];
        if self.seats.count == 0 {
            groups.remove(0);
        }
        for (name, host, crew) in [("far", "h1", &self.far), ("farther", "h2", &self.farther)] {
            if crew.count > 0 {
                let more = format!("driver: libvirt, host: {host}");
                groups.push(group(name, "worker", "linux", crew, &more));
            }
        }
        groups.extend(old_group("oldcp", "control-plane", &self.old_seats));
        groups.extend(old_group("oldlin", "worker", &self.old_linux));
        groups.extend(old_group("oldwin", "worker", &self.old_windows));
        // A host that no machine is on may stay in the file.
        let hosts = "[{name: h1, address: 192.0.2.201}, {name: h2, address: 192.0.2.202}]";
        let has_hosts = self.far.count + self.farther.count > 0;
        let hosts = if has_hosts { hosts } else { "[]" };
        let machines = if self.free_network {
            "null"
        } else {
            "10.99.0.0/24"
        };
        let endpoint = if self.endpoint {
            "\"api.example:6443\""
        } else {
            "null"
        };
        let cni = if self.plugin { "flannel" } else { "none" };
        let addons: Vec<_> = (0..self.addons).map(|n| format!("addon{n}")).collect();
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\n\
             controlPlane: {{endpoint: {endpoint}}}\n\
             network: {{cni: {cni}, policy: {}, machineCIDR: {machines}}}\n\
             hosts: {hosts}\nmachines:\n{}\naddons: [{}]\nworkloads: {{policies: {}}}\n\
             verify: {{after: [smoke]}}\n",
            self.policy,
            groups.join("\n"),
            addons.join(", "),
            self.admission,
        )
    }

    /// The checked file.
    pub(crate) fn cluster(&self) -> Cluster {
        read_beside(&self.text(), &self.surroundings())
    }

    /// What a free network keeps away from.
    fn surroundings(&self) -> Surroundings {
        let foreign = self.foreign.iter().chain(&self.far_foreign);
        let networks = foreign.filter_map(|network| Some((network.parse().ok()?, "eth0".into())));
        Surroundings {
            networks: networks.collect(),
            ..Surroundings::default()
        }
    }

    /// What the catalog would say that such a cluster needs.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let part = |name: &str, os, kind, version: String| Part {
            name: name.into(),
            os,
            kind,
            version,
        };
        let mut parts = Vec::new();
        for os in [Os::Linux, Os::Windows] {
            let program = |name, version| part(name, os, PartKind::Program, version);
            parts.push(program("kubelet", "1.36.4".into()));
            parts.push(program("kubeadm", "1.36.4".into()));
            parts.push(program("containerd", format!("2.2.{}", self.containerd)));
            parts.push(program("mullion-agent", format!("0.1.{}", self.agent)));
        }
        let image = |name, version| part(name, Os::Linux, PartKind::Image, version);
        parts.push(image("coredns", format!("1.14.{}", self.coredns)));
        parts.push(image("kube-proxy", "1.36.4".into()));
        parts
    }

    /// A world with everything that such a cluster finds there before anything is made.
    pub(crate) fn world(&self) -> World {
        let mut world = World::default().with_template(TemplateId {
            name: "golden".into(),
            fingerprint: Fingerprint::of(&"the user's own"),
        });
        for number in 1..=OLD {
            for group in ["oldcp", "oldlin", "oldwin"] {
                let name = format!("{group}{number}").parse().unwrap();
                let address = old_address(group, number);
                world = world.with_machine(&name, Driver::Ssh, old_os(group), address);
            }
        }
        for network in &self.foreign {
            world = world.with_foreign_network(Place::Here, network.parse().unwrap());
        }
        for network in &self.far_foreign {
            let host = Place::On("h1".parse().unwrap());
            world = world.with_foreign_network(host, network.parse().unwrap());
        }
        world
    }
}

/// Reads a file whose only mistakes are wishes that a later release will have: planning is ready for
/// them.
pub(crate) fn read(text: &str) -> Cluster {
    read_beside(text, &Surroundings::default())
}

fn read_beside(text: &str, surroundings: &Surroundings) -> Cluster {
    let source = Source::new("cluster.yaml", text);
    let draft = Draft::read(source, surroundings);
    let cluster = draft.provisional().cloned();
    for located in draft.conclude().findings {
        let finding = located.finding;
        let is_later = finding.rule.name.ends_with("-later");
        assert!(
            finding.severity != Severity::Error || is_later,
            "{finding:?}\n{text}"
        );
    }
    cluster.expect("a readable file")
}

/// The model of a file that the catalog has nothing against.
pub(crate) fn judge(sketch: &Sketch) -> Model {
    let text = sketch.text();
    let draft = Draft::read(Source::new("cluster.yaml", &text), &sketch.surroundings());
    let judgement = Catalog::with_later_drivers().judge(draft);
    let findings = judgement
        .verdict
        .findings
        .iter()
        .map(|found| &found.finding);
    let errors: Vec<_> = findings
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| format!("{}: {}", finding.rule.code, finding.message))
        .collect();
    let model = judgement.model;
    model.unwrap_or_else(|| panic!("{errors:#?}\n{text}"))
}

/// What a discovery finds that can look neither into the user's machines nor at a cluster on them.
pub(crate) fn blinded(mut observed: Observed) -> Observed {
    for facts in observed.machines.values_mut().filter(|facts| !facts.made) {
        facts.inside = None;
        facts.ground = None;
    }
    observed.cluster = None;
    observed
}

/// The wish that a cluster and its parts come to.
pub(crate) fn wanted<'a>(cluster: &'a Cluster, sketch: &Sketch) -> Wanted<'a> {
    Wanted {
        cluster,
        kubernetes: "1.36.4".parse().unwrap(),
        parts: sketch.parts(),
        contents: std::collections::BTreeMap::new(),
        archives: Vec::new(),
    }
}

fn small(dice: &mut Dice, most: u32) -> u32 {
    u32::try_from(dice.roll(u64::from(most) + 1)).unwrap()
}

fn crew(dice: &mut Dice, least: u32, most: u32) -> Crew {
    let mut crew = Crew::of(least + small(dice, most - least));
    if crew.count > least && dice.roll(6) == 0 {
        crew.skip = vec![1];
    }
    crew.label = (dice.roll(3) == 0).then(|| small(dice, 3));
    crew.taint = dice.roll(4) == 0;
    crew.before = small(dice, 1);
    crew.after = small(dice, 1);
    crew
}

fn group(name: &str, role: &str, os: &str, crew: &Crew, more: &str) -> String {
    let mut text = format!("- {{name: {name}, role: {role}, os: {os}");
    if !name.starts_with("old") {
        let _ = write!(text, ", count: {}, skip: {:?}", crew.count, crew.skip);
    }
    if let Some(value) = crew.label {
        let _ = write!(text, ", labels: {{example.com/tier: t{value}}}");
    }
    if crew.taint {
        text.push_str(", taints: [\"example.com/own=yes:PreferNoSchedule\"]");
    }
    for (field, count) in [("before", crew.before), ("after", crew.after)] {
        let commands: Vec<_> = (0..count)
            .map(|n| format!("{{run: \"echo {field} {n}\"}}"))
            .collect();
        let _ = write!(text, ", {field}: [{}]", commands.join(", "));
    }
    if !more.is_empty() {
        let _ = write!(text, ", {more}");
    }
    text.push('}');
    text
}

fn old_group(name: &str, role: &str, crew: &Crew) -> Option<String> {
    let addresses: Vec<_> = (1..=crew.count)
        .map(|number| old_address(name, number).to_string())
        .collect();
    let more = format!(
        "driver: ssh, addresses: [{}], ssh: {{user: root}}",
        addresses.join(", ")
    );
    let os = old_os(name).to_string();
    (crew.count > 0).then(|| group(name, role, &os, crew, &more))
}

fn old_os(group: &str) -> Os {
    match group {
        "oldwin" => Os::Windows,
        _ => Os::Linux,
    }
}

fn old_address(group: &str, number: u32) -> IpAddr {
    let first = match group {
        "oldcp" => 30,
        "oldlin" => 10,
        _ => 20,
    };
    let last = u8::try_from(first + number).unwrap();
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}
