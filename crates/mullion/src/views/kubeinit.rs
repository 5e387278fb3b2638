//! A cluster file from the words of `KubeInit`, such as `k8s-DRIVER-1-2-1`.

use std::fmt::Write as _;

use mullion_catalog::{Catalog, MachineOrigin, MediaNeed, Place};
use mullion_spec::shape::nearest;
use mullion_spec::value::ClusterName;
use mullion_spec::words::{Driver, Os, Word};

use crate::arguments::ComputeOs;
use crate::failure::{Class, Failure};

/// Most machines or hypervisors that the words may ask for; a file with more is written by groups.
const MOST: u32 = 99;
/// Where the example addresses of existing control planes begin, and those of existing workers.
const ADDRESSES: (u32, u32) = (10, 110);

/// What the words say.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    driver: Driver,
    control_planes: u32,
    workers: u32,
    hypervisors: u32,
}

/// The file that the words stand for.
pub fn file(words: &str, compute: ComputeOs, name: &ClusterName) -> Result<String, Failure> {
    let parsed = parse(words)?;
    let facts = Catalog::builtin().driver(parsed.driver);
    if parsed.hypervisors > 1 && facts.place != Place::Hosts {
        return Err(refuse(
            words,
            format!(
                "driver `{}` does not spread machines over {} hypervisors",
                parsed.driver, parsed.hypervisors
            ),
        ));
    }
    let os = match compute {
        ComputeOs::Linux => Os::Linux,
        ComputeOs::Windows => Os::Windows,
    };
    let mut text = format!(
        "# Written from the words {words}.\napiVersion: mullion.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: {name}\n\nmachines:\n"
    );
    group(
        &mut text,
        &parsed,
        "cp",
        Os::Linux,
        parsed.control_planes,
        ADDRESSES.0,
    );
    let stem = match os {
        Os::Linux => "lin",
        Os::Windows => "win",
    };
    group(&mut text, &parsed, stem, os, parsed.workers, ADDRESSES.1);
    if facts.place == Place::Hosts {
        text.push_str("\nhosts:                            # put your addresses in; these are documentation's\n");
        for host in 1..=parsed.hypervisors {
            let _ = writeln!(
                text,
                "  - {{name: h{host}, address: 192.0.2.{host}, ssh: {{user: root}}}}"
            );
        }
    }
    Ok(text)
}

/// Writes the groups of one kind: one for each hypervisor that gets a share of the machines.
fn group(text: &mut String, words: &Words, stem: &str, os: Os, count: u32, address: u32) {
    let catalog = Catalog::builtin();
    // A driver that cannot carry Windows is joined by the one that needs nothing for it.
    let driver = if catalog.driver(words.driver).media(os).is_some() {
        words.driver
    } else {
        let able = catalog
            .drivers()
            .find(|(_, facts)| facts.available && facts.media(os) == Some(MediaNeed::None));
        able.map_or(words.driver, |(driver, _)| driver)
    };
    let facts = catalog.driver(driver);
    let hosts = if facts.place == Place::Hosts {
        words.hypervisors
    } else {
        1
    };
    for host in 1..=hosts {
        let share = count / hosts + u32::from(host <= count % hosts);
        if share == 0 {
            continue;
        }
        // Groups on further hypervisors get a letter, so that machines' names stay apart.
        let letter = if host == 1 {
            String::new()
        } else {
            letters(host)
        };
        let _ = writeln!(text, "  - name: {stem}{letter}");
        if stem == "cp" {
            text.push_str("    role: control-plane\n");
        }
        if os == Os::Windows {
            text.push_str("    os: windows\n    version: \"2022\"\n");
        }
        let _ = writeln!(text, "    driver: {driver}");
        if facts.machines == MachineOrigin::Existing {
            let addresses: Vec<_> = (0..share)
                .map(|n| format!("192.0.2.{}", address + n))
                .collect();
            let _ = writeln!(
                text,
                "    addresses: [{}]   # put yours in",
                addresses.join(", ")
            );
        } else {
            let _ = writeln!(text, "    count: {share}");
        }
        if facts.place == Place::Hosts {
            let _ = writeln!(text, "    host: h{host}");
        }
        if facts.media(os) == Some(MediaNeed::Needed) {
            text.push_str("    media: {iso: ./SERVER_2022.iso}\n");
        }
    }
}

/// `b` for the second hypervisor, `c` for the third, `aa` after `z`.
fn letters(host: u32) -> String {
    let mut rest = host;
    let mut letters = Vec::new();
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'a' + u8::try_from(rest % 26).unwrap_or(0)));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

fn parse(words: &str) -> Result<Words, Failure> {
    let parts: Vec<&str> = words.split('-').collect();
    let [distribution, driver, control_planes, workers, hypervisors] = parts[..] else {
        return Err(refuse(
            words,
            "it must have five parts with hyphens between".into(),
        ));
    };
    if distribution != "k8s" {
        return Err(refuse(
            words,
            format!("`{distribution}` is not a distribution that is installed here: only `k8s` is"),
        ));
    }
    let Some(driver) = Driver::from_word(driver) else {
        let known = Driver::ALL.iter().map(|driver| driver.word());
        let failure = refuse(words, format!("there is no driver `{driver}`"));
        return Err(match nearest(driver, known.clone()) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure.hint(format!(
                "the drivers are {}",
                known.collect::<Vec<_>>().join(", ")
            )),
        });
    };
    let number = |text: &str, what: &str, least: u32| {
        text.parse::<u32>()
            .ok()
            .filter(|number| (least..=MOST).contains(number))
            .ok_or_else(|| {
                refuse(
                    words,
                    format!("`{text}` is not a number of {what} from {least} to {MOST}"),
                )
            })
    };
    Ok(Words {
        driver,
        control_planes: number(control_planes, "control planes", 1)?,
        workers: number(workers, "workers", 0)?,
        hypervisors: number(hypervisors, "hypervisors", 1)?,
    })
}

fn refuse(words: &str, cause: String) -> Failure {
    let mut failure = Failure::new(
        Class::Usage,
        format!("`{words}` does not describe a cluster"),
    )
    .hint("write DISTRIBUTION-DRIVER-CONTROLPLANES-WORKERS-HYPERVISORS, such as `k8s-ssh-1-2-1`");
    failure.causes.push(cause);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use mullion_spec::draft::{Draft, Surroundings};
    use mullion_spec::source::Source;

    fn written(words: &str, compute: ComputeOs) -> String {
        file(words, compute, &"demo".parse().unwrap()).unwrap()
    }

    fn codes(text: &str) -> Vec<&'static str> {
        let draft = Draft::read(Source::new("f", text), &Surroundings::default());
        let verdict = Catalog::builtin().judge(draft).verdict;
        verdict
            .findings
            .iter()
            .map(|located| located.finding.rule.code)
            .collect()
    }

    #[test]
    fn machines_are_spread_over_hypervisors() {
        let text = written("k8s-libvirt-3-3-2", ComputeOs::Windows);
        for line in [
            "name: cp\n",
            "name: cpb\n",
            "name: win\n",
            "name: winb\n",
            "host: h2\n",
            "name: h2,",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert!(
            codes(&text)
                .iter()
                .all(|code| ["E0901", "E0612"].contains(code)),
            "{:?}",
            codes(&text)
        );
    }

    #[test]
    fn every_driver_s_words_give_a_file_that_is_sound_or_waits_for_its_driver() {
        for driver in Driver::ALL {
            for compute in [ComputeOs::Linux, ComputeOs::Windows] {
                let facts = Catalog::builtin().driver(*driver);
                if facts.media(Os::Linux).is_none() {
                    continue;
                }
                let text = written(&format!("k8s-{driver}-1-2-1"), compute);
                let expected: &[&str] = if facts.available {
                    &["E0612"]
                } else {
                    &["E0901", "E0612"]
                };
                assert!(
                    codes(&text).iter().all(|code| expected.contains(code)),
                    "{:?}\n{text}",
                    codes(&text)
                );
            }
        }
    }

    #[test]
    fn words_that_mean_nothing_are_refused_with_the_cause() {
        for (words, cause) in [
            ("k8s-libvirt-1-2", "five parts"),
            ("okd-libvirt-1-2-1", "okd"),
            ("k8s-libvrt-1-2-1", "libvrt"),
            ("k8s-libvirt-0-2-1", "control planes"),
            ("k8s-libvirt-1-x-1", "workers"),
            ("k8s-nspawn-1-1-2", "hypervisors"),
        ] {
            let failure = file(words, ComputeOs::Linux, &"demo".parse().unwrap()).unwrap_err();
            assert_eq!(failure.class, Class::Usage);
            assert!(
                failure.causes[0].contains(cause),
                "{words}: {:?}",
                failure.causes
            );
        }
    }
}
