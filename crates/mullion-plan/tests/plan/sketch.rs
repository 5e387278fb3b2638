//! Generated clusters: small sketches that are written as `cluster.yaml` and read by the checker.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use mullion_plan::{Dice, Fingerprint, Part, PartKind, Place, TemplateId, Wanted, World};
use mullion_spec::cluster::Cluster;
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::finding::Severity;
use mullion_spec::source::Source;
use mullion_spec::words::{Driver, Os};

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
    pub(crate) old_linux: Crew,
    pub(crate) old_windows: Crew,
    pub(crate) endpoint: bool,
    pub(crate) plugin: bool,
    pub(crate) policy: bool,
    pub(crate) admission: &'static str,
    pub(crate) addons: u32,
    pub(crate) free_network: bool,
    pub(crate) containerd: u32,
    pub(crate) coredns: u32,
    pub(crate) agent: u32,
}

/// The most machines of the user's that a sketch has, of each system.
const OLD: u32 = 3;

impl Sketch {
    /// The smallest mixed cluster.
    pub(crate) fn small() -> Self {
        Self {
            seats: Crew::of(1),
            linux: Crew::of(1),
            stand_ins: Crew::of(1),
            windows: Crew::default(),
            disks: Crew::default(),
            old_linux: Crew::default(),
            old_windows: Crew::default(),
            endpoint: false,
            plugin: true,
            policy: true,
            admission: "off",
            addons: 0,
            free_network: false,
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
        sketch.endpoint = dice.roll(5) == 0;
        sketch.plugin = dice.roll(8) != 0;
        sketch.policy = dice.roll(2) == 0;
        sketch.admission = ["off", "warn", "enforce"][dice.pick(3)];
        sketch.addons = small(dice, 2);
        sketch.free_network = dice.roll(3) == 0;
        sketch
    }

    /// Changes one thing, as a user would between two runs.
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        match dice.roll(16) {
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
        groups.extend(old_group("oldlin", "linux", &self.old_linux));
        groups.extend(old_group("oldwin", "windows", &self.old_windows));
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
             machines:\n{}\naddons: [{}]\nworkloads: {{policies: {}}}\n\
             verify: {{after: [smoke]}}\n",
            self.policy,
            groups.join("\n"),
            addons.join(", "),
            self.admission,
        )
    }

    /// The checked file.
    pub(crate) fn cluster(&self) -> Cluster {
        read(&self.text())
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
    pub(crate) fn world() -> World {
        let mut world = World::default().with_template(TemplateId {
            name: "golden".into(),
            fingerprint: Fingerprint::of(&"the user's own"),
        });
        for number in 1..=OLD {
            for (name, os) in [("oldlin", Os::Linux), ("oldwin", Os::Windows)] {
                let name = format!("{name}{number}").parse().unwrap();
                world = world.with_machine(&name, Driver::Ssh, os, old_address(os, number));
            }
        }
        world.with_foreign_network(Place::Here, "10.99.1.0/24".parse().unwrap())
    }

    /// Whether there is a Windows machine.
    pub(crate) fn has_windows(&self) -> bool {
        [
            &self.stand_ins,
            &self.windows,
            &self.disks,
            &self.old_windows,
        ]
        .iter()
        .any(|crew| crew.count > 0)
    }
}

/// Reads a file whose only mistakes are wishes that a later release will have: planning is ready for
/// them.
pub(crate) fn read(text: &str) -> Cluster {
    let source = Source::new("cluster.yaml", text);
    let draft = Draft::read(source, &Surroundings::default());
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

/// The wish that a cluster and its parts come to.
pub(crate) fn wanted<'a>(cluster: &'a Cluster, sketch: &Sketch) -> Wanted<'a> {
    Wanted {
        cluster,
        kubernetes: "1.36.4".parse().unwrap(),
        parts: sketch.parts(),
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
    if name != "oldlin" && name != "oldwin" {
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

fn old_group(name: &str, os: &str, crew: &Crew) -> Option<String> {
    let kind = if os == "linux" {
        Os::Linux
    } else {
        Os::Windows
    };
    let addresses: Vec<_> = (1..=crew.count)
        .map(|number| old_address(kind, number).to_string())
        .collect();
    let more = format!(
        "driver: ssh, addresses: [{}], ssh: {{user: root}}",
        addresses.join(", ")
    );
    (crew.count > 0).then(|| group(name, "worker", os, crew, &more))
}

fn old_address(os: Os, number: u32) -> IpAddr {
    let first = if os == Os::Linux { 10 } else { 20 };
    let last = u8::try_from(first + number).unwrap();
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}
