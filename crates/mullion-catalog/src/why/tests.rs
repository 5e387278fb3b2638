use super::*;

fn why(question: &str) -> Result<Vec<Answer>, WhyError> {
    let pairs: Vec<_> = question
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    Catalog::builtin().why(&pairs)
}

fn verdicts(question: &str) -> Vec<Standing> {
    why(question)
        .unwrap()
        .into_iter()
        .map(|answer| answer.standing)
        .collect()
}

#[test]
fn server_2019_with_1_36_names_the_last_good_minor() {
    let answers = why("kubernetes=1.36 windows=2019").unwrap();
    assert_eq!(answers[0].standing, Standing::DoesNot);
    assert_eq!(answers[0].about, "kubernetes 1.36.4 with windows 2019");
    assert!(
        answers[0].reason.contains("1.34 is the last minor"),
        "{}",
        answers[0].reason
    );
    assert!(
        answers[0].source.contains("2025-11-19"),
        "{}",
        answers[0].source
    );
}

#[test]
fn an_old_patch_names_its_faults_and_the_patch_without_them() {
    let answers = why("kubernetes=1.34.1 windows=2022").unwrap();
    assert_eq!(answers[0].standing, Standing::Works);
    assert!(
        answers
            .iter()
            .any(|answer| answer.reason.contains("take 1.34.8 or later"))
    );
    assert_eq!(
        verdicts("kubernetes=1.36.4 windows=2022"),
        [Standing::Works]
    );
}

#[test]
fn containerd_is_judged_by_its_line() {
    use Standing::{DoesNot, Unknown, Works};
    assert_eq!(verdicts("kubernetes=1.36 containerd=2.2.2"), [Works]);
    assert_eq!(
        verdicts("kubernetes=1.34 containerd=2.2.2"),
        [Unknown],
        "newer than what upstream tested"
    );
    assert_eq!(verdicts("kubernetes=1.36 containerd=2.2"), [Works]);
    assert_eq!(verdicts("kubernetes=1.36 containerd=1.7.30"), [DoesNot]);
    assert_eq!(verdicts("kubernetes=1.34 containerd=2.1.2"), [DoesNot]);
    assert_eq!(verdicts("kubernetes=1.34 containerd=2.0.6"), [Works]);
}

#[test]
fn a_backend_is_judged_for_the_systems_in_the_question() {
    use Standing::{DoesNot, Works};
    assert_eq!(
        verdicts("cni=flannel backend=vxlan windows=2022"),
        [Works, Works]
    );
    assert_eq!(verdicts("cni=flannel backend=bgp"), [DoesNot]);
    assert!(verdicts("cni=calico backend=ipip windows=2022").contains(&DoesNot));
    assert_eq!(verdicts("backend=ipip os=linux"), [Works]);
    assert_eq!(verdicts("backend=ipip os=windows"), [DoesNot]);
}

#[test]
fn a_windows_release_that_a_plugin_does_not_list_is_unknown() {
    assert_eq!(verdicts("windows=2025 cni=flannel"), [Standing::Works]);
    assert_eq!(verdicts("windows=2025 cni=calico")[0], Standing::Unknown);
    assert_eq!(verdicts("windows=2022 cni=calico")[0], Standing::Works);
    assert_eq!(
        verdicts("windows=20348.100 cni=calico")[0],
        Standing::DoesNot
    );
}

#[test]
fn a_revision_is_judged_with_its_network_plugin() {
    let bad = |question| {
        let answers = why(question).unwrap();
        answers
            .iter()
            .any(|answer| answer.reason.contains("known to be bad"))
    };
    assert!(bad("windows=20348.2600 cni=calico"));
    assert!(bad("windows=10.0.20348.2600"));
    assert!(!bad("windows=20348.2600 cni=flannel"));
    assert!(!bad("windows=20348.2762 cni=calico"));
}

#[test]
fn an_update_is_known_by_its_number_and_by_its_cure() {
    assert_eq!(verdicts("kb=5040437"), [Standing::DoesNot]);
    assert_eq!(verdicts("update=KB5044281"), [Standing::Works]);
    assert_eq!(verdicts("update=KB1 windows=2022"), [Standing::Unknown]);
}

#[test]
fn a_container_is_judged_by_the_build_of_its_host() {
    use Standing::{DoesNot, Works};
    assert_eq!(verdicts("windows=2025 container=ltsc2022"), [Works]);
    assert_eq!(
        verdicts("windows=2022 container=servercore:ltsc2025"),
        [DoesNot]
    );
    assert_eq!(verdicts("windows=2019 container=20348"), [DoesNot]);
}

#[test]
fn a_driver_is_judged_by_what_it_carries_and_whether_it_is_there() {
    use Standing::{DoesNot, Works};
    assert_eq!(verdicts("driver=nspawn os=windows"), [DoesNot]);
    assert_eq!(verdicts("driver=qemu windows=2022"), [DoesNot]);
    assert_eq!(verdicts("driver=ssh windows=2022"), [Works]);
    assert_eq!(verdicts("driver=libvirt os=linux"), [DoesNot]);
    let answers = why("driver=wine os=windows").unwrap();
    assert!(
        answers[0].reason.contains("proves nothing"),
        "{}",
        answers[0].reason
    );
}

#[test]
fn what_the_catalog_does_not_relate_is_unknown_not_silent() {
    assert_eq!(
        verdicts("kubernetes=1.36 driver=qemu"),
        [Standing::Unknown, Standing::Unknown]
    );
    assert_eq!(verdicts("cni=none windows=2022"), [Standing::Unknown]);
}

#[test]
fn every_key_alone_has_an_answer() {
    for question in [
        "kubernetes=latest",
        "windows=2025",
        "containerd=2.3",
        "cni=antrea",
        "cni=none",
        "backend=vxlan",
        "driver=ssh",
        "os=linux",
        "update=KB5040437",
        "container=ltsc2019",
    ] {
        assert!(!verdicts(question).is_empty(), "{question}");
    }
}

#[test]
fn an_unknown_key_or_value_lists_the_known_ones() {
    let text = |question| why(question).unwrap_err().to_string();
    assert_eq!(
        text("kubernets=1.36"),
        "there is no key `kubernets`; the keys are kubernetes, windows, containerd, cni, backend, driver, os, update, \
         container"
    );
    assert_eq!(
        text("windows=2016"),
        "the catalog does not know windows `2016`; it knows 2019 (17763), 2022 (20348), 2025 (26100)"
    );
    assert_eq!(
        text("kubernetes=1.36.77"),
        "the catalog does not know kubernetes `1.36.77`; it knows 1.36.0, 1.36.1, 1.36.2, 1.36.3, 1.36.4, 1.36.5"
    );
    assert_eq!(
        text("containerd=3"),
        "the catalog does not know containerd `3`; it knows 1.7, 2.0, 2.1, 2.2, 2.3"
    );
    assert_eq!(text("os=linux os=windows"), "os is given twice");
    assert!(text("").starts_with("nothing was asked"));
    for bad in [
        "update=KB",
        "update=new",
        "container=latest",
        "windows=2022.x",
        "cni=weave",
        "kubernetes=",
    ] {
        assert!(
            matches!(why(bad), Err(WhyError::UnknownValue { .. })),
            "{bad}"
        );
    }
}

#[test]
fn the_same_obstacle_is_named_once() {
    let answers = why("cni=calico backend=vxlan windows=2022 os=windows").unwrap();
    let later = answers
        .iter()
        .filter(|answer| answer.reason.contains("does not install it yet"));
    assert_eq!(later.count(), 1);
}
