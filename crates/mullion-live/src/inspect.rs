//! Looking at a Linux machine before anything is laid down on it: is it fit, and what does it stand on?

use std::collections::BTreeMap;

use mullion_plan::{ErrorClass, StepError};
use mullion_render::{Cgroups, Footing, Ground};
use mullion_spec::cluster::{Duty, Group, System};

use super::fitness::{Body, Least};

/// What was found on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) ground: Ground,
    /// Its addresses: `eth0 192.0.2.11/24`.
    pub(super) addresses: Vec<String>,
    body: Body,
    has_systemd: bool,
}

/// Reads the answer to [`mullion_ssh::Probe::Machine`].
pub(super) fn read(text: &str) -> Result<Found, StepError> {
    let values: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.trim().split_once('='))
        .collect();
    let word = |name: &str| {
        let missing = || {
            StepError::new(
                ErrorClass::Refused,
                format!("the machine does not tell its {name}"),
            )
        };
        values.get(name).copied().ok_or_else(missing)
    };
    let number = |name: &str| word(name).map(|value| value.parse::<u64>().unwrap_or(0));
    let capabilities = u64::from_str_radix(word("capabilities")?, 16).unwrap_or(0);
    Ok(Found {
        ground: Ground {
            footing: match word("container")? {
                "none" => Footing::Computer,
                _ => Footing::SystemContainer,
            },
            cgroups: match word("cgroups")? {
                "2" => Cgroups::V2,
                "hybrid" => Cgroups::Hybrid,
                _ => Cgroups::V1,
            },
            can_raise_limits: Ground::may_raise_limits(capabilities),
            has_swap: number("swaps")? > 0,
            has_resolver: word("resolver")? == "yes",
        },
        body: Body {
            architecture: word("arch")?.into(),
            cpus: number("cpus")?,
            // The kernel tells it in units of 1024.
            memory: number("memory")? << 10,
            free: number("free")?,
            clock: number("clock")?,
            occupant: match word("kubernetes")? {
                "" | "ours" => None,
                path => Some(format!("`{path}` is there")),
            },
        },
        has_systemd: word("systemd")? == "yes",
        addresses: text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("address="))
            .map(str::to_owned)
            .collect(),
    })
}

/// Everything that keeps a machine from being what its group wants, at once. `now` is this computer's clock.
pub(super) fn unfit(found: &Found, group: &Group, now: u64) -> Vec<String> {
    let mut faults = found.body.faults(least(group), now);
    if !found.has_systemd {
        faults.push("it does not run systemd".into());
    }
    faults
}

fn least(group: &Group) -> Least {
    let images = "below /var/lib";
    let release = match &group.system {
        System::Linux { release } => mullion_catalog::Catalog::builtin().linux(release),
        System::Windows(_) => None,
    };
    let (memory_mib, cpus) = match (release, group.duty) {
        (None, _) => (0, 0),
        (Some(least), Duty::ControlPlane) => (
            least.control_plane_memory_mib,
            u64::from(least.control_plane_cpus),
        ),
        (Some(least), Duty::Worker) => (least.memory_mib, 1),
        (Some(_), Duty::LoadBalancer) => (0, 1),
    };
    Least {
        memory_mib,
        cpus,
        images,
    }
}

#[cfg(test)]
mod tests {
    use mullion_catalog::Catalog;
    use mullion_spec::draft::{Draft, Surroundings};
    use mullion_spec::source::Source;

    use super::*;

    const GOOD: &str = "arch=x86_64\ncpus=2\nmemory=24414062\nfree=50000000000\nclock=1000\nsystemd=yes\n\
        container=systemd-nspawn\ncgroups=hybrid\ncapabilities=000001fffeffffff\nswaps=0\nresolver=yes\nkubernetes=\n";

    #[test]
    fn everything_that_is_wrong_with_a_machine_is_told_at_once() {
        let source = Source::new("cluster.yaml", "machines: {linux: 1}\n");
        let draft = Draft::read(source, &Surroundings::default());
        let model = Catalog::builtin().judge(draft).model.unwrap();
        let group = &model.cluster().groups[0];
        assert_eq!(
            unfit(&read(GOOD).unwrap(), group, 1010),
            Vec::<String>::new()
        );
        let bad = GOOD
            .replace("x86_64", "aarch64")
            .replace("systemd=yes", "systemd=no")
            .replace("memory=24414062", "memory=200000")
            .replace("cpus=2", "cpus=1")
            .replace("free=50000000000", "free=1000000")
            .replace("kubernetes=", "kubernetes=/etc/kubernetes/kubelet.conf");
        let faults = unfit(&read(&bad).unwrap(), group, 1000 + 3600).join("\n");
        for words in [
            "its processor is aarch64",
            "it does not run systemd",
            "its clock is 3600 seconds off",
            "0 MiB are free",
            "195 MiB of memory",
            "it has 1 processor",
            "`/etc/kubernetes/kubelet.conf` is there",
        ] {
            assert!(faults.contains(words), "{words}: {faults}");
        }
    }

    #[test]
    fn a_ground_is_read_from_what_the_machine_says() {
        let found = read(GOOD).unwrap();
        assert_eq!(
            found.ground,
            Ground {
                footing: Footing::SystemContainer,
                cgroups: Cgroups::Hybrid,
                can_raise_limits: false,
                has_swap: false,
                has_resolver: true,
            }
        );
        let other = read(
            &GOOD
                .replace("000001fffeffffff", "000001ffffffffff")
                .replace("=systemd-nspawn", "=none"),
        )
        .unwrap();
        assert!(other.ground.can_raise_limits);
        assert_eq!(other.ground.footing, Footing::Computer);
    }

    #[test]
    fn a_silent_machine_is_an_error_that_names_what_is_missing() {
        let error = read("cpus=2\n").unwrap_err();
        assert!(error.words.contains("capabilities"), "{}", error.words);
    }
}
