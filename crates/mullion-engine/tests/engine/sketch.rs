//! Small clusters, written as files and read by the checker.

use std::net::IpAddr;
use std::sync::LazyLock;

use mullion_plan::{Discover as _, Observed, Part, PartKind, Plan, Wanted};
use mullion_spec::cluster::Cluster;
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;
use mullion_spec::words::{Driver, Os};
use mullion_testkit::{Dice, World};

/// A small cluster.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    existing: u32,
    cluster: Cluster,
}

impl Sketch {
    pub(crate) fn new(seats: u32, workers: u32, stand_ins: u32, existing: u32) -> Self {
        let addresses: Vec<_> = (1..=existing).map(|n| address(n).to_string()).collect();
        let existing_group = if existing > 0 {
            format!(
                "- {{name: old, role: worker, os: linux, driver: ssh, addresses: [{}], ssh: {{user: root}}}}\n",
                addresses.join(", ")
            )
        } else {
            String::new()
        };
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\n\
             network: {{cni: flannel, machineCIDR: 10.99.0.0/24}}\nmachines:\n\
             - {{name: cp, role: control-plane, os: linux, count: {seats}}}\n\
             - {{name: lin, role: worker, os: linux, count: {workers}, after: [{{run: \"echo done\"}}]}}\n\
             - {{name: win, role: worker, os: windows, driver: wine, count: {stand_ins}}}\n\
             {existing_group}verify: {{after: [smoke]}}\n"
        );
        let draft = Draft::read(Source::new("cluster.yaml", &text), &Surroundings::default());
        let cluster = draft.provisional().cloned().expect("a readable file");
        Self { existing, cluster }
    }

    /// One control plane and so many workers.
    pub(crate) fn workers(workers: u32) -> Self {
        Self::new(1, workers, 0, 0)
    }

    /// One of a few dozen, most of them with one control plane.
    pub(crate) fn any(dice: &mut Dice) -> &'static Self {
        static ALL: LazyLock<Vec<Sketch>> = LazyLock::new(|| {
            let mut all = Vec::new();
            for (workers, stand_ins, existing) in
                (0..3).flat_map(|w| [(w, 0, 0), (w, 1, 0), (w, 0, 1), (w, 1, 1)])
            {
                for seats in [1, 1, 1, 1, 1, 3] {
                    all.push(Sketch::new(seats, workers, stand_ins, existing));
                }
            }
            all
        });
        &ALL[dice.pick(ALL.len())]
    }

    pub(crate) const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn wanted(&self) -> Wanted<'_> {
        let part = |name: &str, os, kind| Part {
            name: name.into(),
            os,
            kind,
            // A node runs what its kubelet is.
            version: "1.36.4".into(),
        };
        let mut parts = vec![part("coredns", Os::Linux, PartKind::Image)];
        for os in [Os::Linux, Os::Windows] {
            for program in ["kubelet", "mullion-agent"] {
                parts.push(part(program, os, PartKind::Program));
            }
        }
        Wanted {
            cluster: &self.cluster,
            kubernetes: "1.36.4".parse().unwrap(),
            parts,
            contents: std::collections::BTreeMap::new(),
            archives: Vec::new(),
        }
    }

    /// The world before anything was made.
    pub(crate) fn world(&self) -> World {
        let mut world = World::default();
        for number in 1..=self.existing {
            let name = format!("old{number}").parse().unwrap();
            world = world.with_machine(&name, Driver::Ssh, Os::Linux, address(number));
        }
        world
    }

    pub(crate) fn look(&self, world: &World) -> Observed {
        world.observe(&self.cluster).unwrap()
    }

    pub(crate) fn plan(&self, world: &World) -> Plan {
        let plan = mullion_testkit::plan(&self.wanted(), &self.look(world));
        assert_eq!(plan.obstacles(), []);
        plan
    }
}

fn address(number: u32) -> IpAddr {
    format!("192.0.2.{}", 10 + number).parse().unwrap()
}

pub(crate) fn ids(plan: &Plan) -> Vec<&str> {
    plan.steps().iter().map(|step| step.id.as_str()).collect()
}
