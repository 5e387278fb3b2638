//! Looking at a Windows machine, by what its agent tells: is it fit?

use mullion_catalog::{Catalog, Model};
use mullion_plan::Prior;
use mullion_spec::cluster::{Carrier, Group, System, Windows};
use mullion_spec::words::{Edition, Word as _};
use mullion_wire::{Facts, WindowsFacts};

use super::fitness::{Body, Least};

/// Services of container runtimes that ours does not live beside.
const RUNTIMES: &[&str] = &["containerd", "docker"];

/// Everything that keeps a machine from being what its group wants, at once. `prior` is what was known of its agent
/// before, and `now` this computer's clock.
pub(super) fn unfit(
    facts: &Facts,
    model: &Model,
    group: &Group,
    prior: Prior,
    now: u64,
) -> Vec<String> {
    let (System::Windows(wanted), Some(windows)) = (&group.system, &facts.windows) else {
        return vec![format!(
            "it runs {}, and the file says {}",
            facts.os,
            group.system.os()
        )];
    };
    let is_ours = is_ours(facts);
    let body = Body {
        architecture: facts.architecture.clone(),
        cpus: facts.cpus.into(),
        memory: facts.memory,
        free: facts.disk.free,
        clock: facts.clock,
        occupant: occupant(facts, windows).filter(|_| !is_ours),
    };
    let mut faults = body.faults(least(group, wanted), now);
    faults.extend(other_windows(windows, wanted, model, group));
    let runs = |name: &&&str| windows.services.get(**name) == Some(&true);
    if let Some(runtime) = RUNTIMES.iter().find(runs).filter(|_| !is_ours) {
        faults.push(format!(
            "the service `{runtime}` runs, and not by this program: two container runtimes do not live side by side; \
             remove it first"
        ));
    }
    // Planning restarts a machine of which it knew that it waits, and nobody restarts one of which it did not.
    let is_news = prior != Prior::Different && !is_ours;
    let exists = matches!(group.carrier, Carrier::Existing { .. });
    if let Some(why) = facts.reboot_pending.as_ref().filter(|_| is_news && exists) {
        faults.push(format!("it waits for a restart: {why}; restart it first"));
    }
    faults
}

/// Whether an agent of ours has done something there.
pub(super) fn is_ours(facts: &Facts) -> bool {
    facts.claim.is_some() || facts.kubeadm.is_some()
}

/// What there is of a Kubernetes.
fn occupant(facts: &Facts, windows: &WindowsFacts) -> Option<String> {
    if facts.joined.is_some() {
        return Some("`C:\\etc\\kubernetes\\kubelet.conf` is there".into());
    }
    let runs = windows.services.get("kubelet") == Some(&true);
    runs.then(|| "the service `kubelet` runs".into())
}

fn least(group: &Group, wanted: &Windows) -> Least {
    let catalog = Catalog::builtin();
    let release = catalog.windows(wanted.version);
    let minima = if wanted.desktop {
        &release.desktop
    } else {
        &release.core
    };
    // What stands in for Windows has less to carry.
    let own = catalog.driver(group.carrier.driver()).minima.as_ref();
    Least {
        memory_mib: own.map_or(minima.memory_mib, |own| own.memory_mib),
        cpus: 1,
        images: "on C:",
    }
}

/// How it is another Windows than the file says.
fn other_windows(
    found: &WindowsFacts,
    wanted: &Windows,
    model: &Model,
    group: &Group,
) -> Vec<String> {
    let catalog = Catalog::builtin();
    let release = catalog.windows(wanted.version);
    if found.build != release.build {
        let known = catalog
            .windows_releases()
            .find(|(_, release)| release.build == found.build);
        let remedy = match known {
            Some((version, _)) if model.admits_windows(version) => {
                format!("write `version: \"{version}\"` where that is meant")
            }
            Some((_, other)) => format!(
                "this cluster's Kubernetes or network plugin does not support {}: install the other, or take another \
                 machine",
                other.product
            ),
            None => "install that, or take another machine".into(),
        };
        return vec![format!(
            "its Windows is of build {}, and the file says {}, build {}; {remedy}",
            found.build, release.product, release.build
        )];
    }
    // An edition that could not be found out is not another one.
    if found.edition.is_empty() {
        return Vec::new();
    }
    // Validation refuses `edition` for a machine that exists already: every edition of Windows Server will do there.
    if matches!(group.carrier, Carrier::Existing { .. }) {
        let is_server = found.edition.starts_with("Server");
        let words = format!(
            "its edition is {}, which is not Windows Server; take a machine that runs {}",
            found.edition, release.product
        );
        return Vec::from_iter((!is_server).then_some(words));
    }
    // An evaluation is the same edition.
    let edition = found.edition.trim_end_matches("Eval");
    let word = edition.strip_prefix("Server").unwrap_or(edition);
    if word.eq_ignore_ascii_case(&wanted.edition.to_string()) {
        return Vec::new();
    }
    let mut editions = Edition::ALL.iter();
    let remedy = match editions.find(|one| word.eq_ignore_ascii_case(one.word())) {
        Some(edition) => format!("write `edition: {edition}` where that is meant"),
        None => "make it from media of that edition".into(),
    };
    vec![format!(
        "its edition is {}, and the file says `{}`; {remedy}",
        found.edition, wanted.edition
    )]
}

#[cfg(test)]
mod tests {
    use mullion_spec::draft::{Draft, Surroundings};
    use mullion_spec::source::Source;
    use mullion_wire::{Disk, Mark, Sha256Digest};

    use super::*;

    const NOW: u64 = 1_000_000;
    const STAND_IN: &str = "machines: {linux: 1, windows: 1}\n";
    const EXISTING: &str = "machines:\n\
        - {name: cp, role: control-plane}\n\
        - {name: win, os: windows, driver: ssh, addresses: [10.0.0.7], ssh: {user: Administrator}}\n";

    fn model(text: &str) -> Model {
        let draft = Draft::read(Source::new("cluster.yaml", text), &Surroundings::default());
        let judged = Catalog::builtin().judge(draft);
        let found = judged.verdict;
        judged.model.unwrap_or_else(|| panic!("{found:?}"))
    }

    fn group(model: &Model) -> &Group {
        let mut groups = model.cluster().groups.iter();
        let is_windows = |group: &&Group| matches!(group.system, System::Windows(_));
        groups.find(is_windows).unwrap()
    }

    fn good() -> Facts {
        let windows = WindowsFacts {
            build: 20348,
            edition: "ServerDatacenter".into(),
            services: [("containerd", false), ("kubelet", false), ("sshd", true)]
                .map(|(name, runs)| (name.to_owned(), runs))
                .into(),
            ..WindowsFacts::default()
        };
        Facts {
            os: "windows".into(),
            architecture: "x86_64".into(),
            cpus: 2,
            memory: 4 << 30,
            disk: Disk {
                total: 60 << 30,
                free: 40 << 30,
            },
            clock: NOW - 10,
            windows: Some(Box::new(windows)),
            ..Facts::default()
        }
    }

    fn judged(text: &str, change: impl FnOnce(&mut Facts, &mut WindowsFacts)) -> String {
        let mut facts = good();
        let mut windows = facts.windows.take().unwrap();
        change(&mut facts, &mut windows);
        facts.windows = Some(windows);
        let model = model(text);
        unfit(&facts, &model, group(&model), Prior::Absent, NOW).join("\n")
    }

    #[test]
    fn everything_that_is_wrong_with_a_machine_is_told_at_once() {
        assert_eq!(judged(EXISTING, |_, _| {}), "");
        let faults = judged(EXISTING, |facts, windows| {
            facts.architecture = "aarch64".into();
            facts.memory = 1 << 30;
            facts.disk.free = 1 << 30;
            facts.clock = NOW + 3600;
            facts.joined = Some(Sha256Digest::of(b"another"));
            facts.reboot_pending = Some("updates were installed".into());
            windows.build = 26100;
            windows.services.insert("docker".into(), true);
        });
        for words in [
            "its processor is aarch64",
            "1024 MiB of memory, and 2048 are needed",
            "1024 MiB are free on C:",
            "its clock is 3600 seconds off",
            r"`C:\etc\kubernetes\kubelet.conf` is there; take it out of that cluster first",
            "it waits for a restart: updates were installed; restart it first",
            "of build 26100, and the file says Windows Server 2022, build 20348; write `version: \"2025\"`",
            "the service `docker` runs",
        ] {
            assert!(faults.contains(words), "{words}: {faults}");
        }
        assert_eq!(faults.lines().count(), 8, "{faults}");
    }

    #[test]
    fn every_edition_of_windows_server_that_exists_already_will_do() {
        let with = |edition: &str| judged(EXISTING, |_, windows| windows.edition = edition.into());
        for edition in [
            "",
            "ServerDatacenter",
            "ServerDatacenterEval",
            "ServerStandard",
            "ServerStandardEval",
            "ServerTurbine",
        ] {
            assert_eq!(with(edition), "", "{edition}");
        }
        let faults = with("Professional");
        assert!(faults.contains("its edition is Professional, which is not Windows Server"));
    }

    #[test]
    fn a_machine_that_was_made_of_another_edition_is_refused() {
        let with = |edition: &str| judged(STAND_IN, |_, windows| windows.edition = edition.into());
        assert_eq!(with("ServerDatacenterEval"), "");
        assert_eq!(with(""), "");
        let faults = with("ServerStandard");
        let words = "its edition is ServerStandard, and the file says `datacenter`; write `edition: standard`";
        assert!(faults.contains(words), "{faults}");
    }

    #[test]
    fn a_windows_that_this_kubernetes_does_not_support_is_not_advised() {
        let faults = judged(EXISTING, |_, windows| windows.build = 17763);
        assert!(
            faults.contains("does not support Windows Server 2019"),
            "{faults}"
        );
        assert!(!faults.contains("write"), "{faults}");
    }

    #[test]
    fn validation_accepts_every_remedy_that_is_to_be_written() {
        let machines = "machines:\n- {name: cp, role: control-plane}\n- ";
        for group in [
            "{name: win, os: windows}",
            "{name: win, os: windows, driver: ssh, addresses: [10.0.0.7], ssh: {user: Administrator}}",
        ] {
            let mut written = 0;
            let releases = Catalog::builtin().windows_releases();
            let builds = releases.map(|(_, release)| release.build).chain([1]);
            for build in builds {
                for edition in ["ServerDatacenter", "ServerStandard", "Professional"] {
                    let faults = judged(&format!("{machines}{group}\n"), |_, windows| {
                        windows.build = build;
                        windows.edition = edition.into();
                    });
                    let Some((_, rest)) = faults.split_once("; write `") else {
                        continue;
                    };
                    let (remedy, _) = rest.split_once('`').unwrap();
                    let group = group.replace("os: windows", &format!("os: windows, {remedy}"));
                    // What is wrong with the file is the panic's message.
                    model(&format!("{machines}{group}\n"));
                    written += 1;
                }
            }
            assert!(written > 0, "{group}");
        }
    }

    #[test]
    fn what_we_put_there_ourselves_is_in_nobodys_way() {
        let lived_in = |facts: &mut Facts, windows: &mut WindowsFacts| {
            facts.joined = Some(Sha256Digest::of(b"ours"));
            facts.reboot_pending = Some("the host name changes to `win1`".into());
            windows.services.insert("kubelet".into(), true);
            windows.services.insert("containerd".into(), true);
        };
        let ours = judged(EXISTING, |facts, windows| {
            lived_in(facts, windows);
            facts.claim = Some(Mark("ours".into()));
        });
        assert_eq!(ours, "");
        assert_eq!(judged(EXISTING, lived_in).lines().count(), 3);
        let kubelet = judged(EXISTING, |_, windows| {
            windows.services.insert("kubelet".into(), true);
        });
        assert!(kubelet.contains("the service `kubelet` runs"), "{kubelet}");
    }

    #[test]
    fn a_restart_that_planning_knows_of_is_no_fault() {
        let mut facts = good();
        facts.reboot_pending = Some("updates were installed".into());
        let model = model(EXISTING);
        let faults = |prior| unfit(&facts, &model, group(&model), prior, NOW);
        assert_eq!(faults(Prior::Different), Vec::<String>::new());
        assert_eq!(faults(Prior::Absent).len(), 1);
    }

    #[test]
    fn what_stands_in_needs_less_memory_than_windows() {
        let small = |facts: &mut Facts, _: &mut WindowsFacts| facts.memory = 600 << 20;
        assert_eq!(judged(STAND_IN, small), "");
        assert!(judged(EXISTING, small).contains("600 MiB of memory"));
    }

    #[test]
    fn another_system_is_told_as_such() {
        let mut facts = good();
        facts.os = "linux".into();
        facts.windows = None;
        let model = model(EXISTING);
        let faults = unfit(&facts, &model, group(&model), Prior::Absent, NOW);
        assert_eq!(faults, ["it runs linux, and the file says windows"]);
    }
}
