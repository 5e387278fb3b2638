//! Tests of what `mullion status` says.

use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;
use mullion_testkit::running_machine;

use super::*;

#[test]
fn a_machine_that_exists_already_and_does_not_answer_is_silent_at_its_address() {
    let name = "box1".parse().unwrap();
    let nothing = Observed::default();
    let address = Address::Ip([192, 0, 2, 10].into());
    let now = Timestamp::UNIX_EPOCH;
    let status = machine_status(&name, Some(&address), &nothing, None, now);
    let told = (status.machine, status.driver, status.address);
    let wanted = ("silent", Some("ssh".into()), Some("192.0.2.10".into()));
    assert_eq!(told, wanted);
    assert!(!status.answers);
    // One that would be made is not there yet.
    let status = machine_status(&name, None, &nothing, None, now);
    let told = (status.machine, status.driver, status.address);
    assert_eq!(told, ("absent", None, None));
}

#[test]
fn promise_12_a_difference_is_one_line_whatever_a_file_or_a_machine_has_in_it() {
    let unusable = mullion_plan::Unusable {
        why: "it holds `x\n\nnothing differs from the file`".into(),
        remedy: "save it again".into(),
    };
    let draft = Draft::read(
        Source::new("f", "machines: {linux: 1}\n"),
        &Surroundings::default(),
    );
    let model = Catalog::builtin().judge(draft).model.unwrap();
    let mut wanted = mullion_plan::Wanted::of(&model);
    wanted.archives.push(mullion_plan::Archive {
        reference: "app:1".into(),
        file: "app.tar".into(),
        sha256: None,
        unusable: Some(unusable),
    });
    let documents = mullion_plan::Documents::default();
    let plan = mullion_plan::plan(&wanted, &Observed::default(), &documents);
    let lines = differences(&plan);
    assert!(
        lines.iter().any(|line| line.contains("app.tar")),
        "{lines:?}"
    );
    assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
}

#[test]
fn an_age_is_told_in_its_two_largest_units() {
    let start = Timestamp::UNIX_EPOCH;
    let age_after = |seconds| {
        let now = Timestamp::from_second(seconds).unwrap();
        age(&start.to_string(), now)
    };
    for (seconds, told) in [
        (0, "0 s"),
        (12, "12 s"),
        (185, "3 min 5 s"),
        (5 * 3600 + 12 * 60 + 7, "5 h 12 min"),
        (3 * 86_400 + 4 * 3600 + 50 * 60, "3 d 4 h"),
        (400 * 86_400, "400 d"),
        (-5, "-"),
    ] {
        assert_eq!(age_after(seconds), told);
    }
}

/// Certificates with so many days left, of a year, and of an authority, of ten.
fn found(left: u64, authority: u64) -> CertificateFacts {
    let certificate = |file: &str, left: u64, life: u64| Certificate {
        file: file.into(),
        issued: NOW + (left + 1) * 86_400 - 1 - life * 86_400,
        expires: NOW + (left + 1) * 86_400 - 1,
    };
    let first = certificate("pki/apiserver.crt", left, 365);
    let due = first.is_due(NOW).then(|| "due".to_owned());
    CertificateFacts {
        first,
        authority: Some(certificate("pki/ca.crt", authority, 3650)),
        due,
        admin: None,
    }
}

const NOW: u64 = 2_000_000_000;

#[test]
fn days_left_are_told_with_a_warning_in_time() {
    let name = "cp1".parse().unwrap();
    let now = Timestamp::from_second(2_000_000_000).unwrap();
    let told = |left, authority| certificates_status(&name, &found(left, authority), now);
    let good = told(364, 3649);
    assert_eq!(good.first.days_left, 364);
    assert_eq!(good.first.expires, "2034-05-18T03:33:19Z");
    assert_eq!(good.authority.unwrap().days_left, 3649);
    assert_eq!(good.warnings, [""; 0]);
    assert_eq!(
        told(60, 3649).warnings,
        [
            "the certificate `pki/apiserver.crt` of cp1 ends in 60 days: `mullion up` renews it once less than a tenth \
          of its life is left"
        ]
    );
    assert_eq!(
        told(30, 3649).warnings,
        ["the certificate `pki/apiserver.crt` of cp1 ends in 30 days: `mullion up` renews it"]
    );
    let [warning] = &told(364, 300).warnings[..] else {
        panic!("one warning");
    };
    let words = "the authority's certificate `pki/ca.crt` of cp1 ends in 300 days: neither";
    assert!(warning.starts_with(words), "{warning}");
}

#[test]
fn what_a_restart_of_the_computer_took_is_told_with_the_next_command() {
    use mullion_plan::{HostFacts, Place};

    let machine = |power| MachineFacts {
        power,
        ..running_machine(Driver::Nspawn, None)
    };
    let mut observed = Observed::default();
    assert!(down(&observed).is_empty(), "nothing was made");
    for name in ["cp1", "lin1"] {
        let facts = machine(Power::Off);
        observed.machines.insert(name.parse().unwrap(), facts);
    }
    let silent = serde_json::json!({ "id": "7", "answers": false });
    observed.cluster = serde_json::from_value(silent).unwrap();
    let words = [
        "machines cp1, lin1 are off",
        "the machine network of this computer is gone",
        "the API server does not answer",
    ];
    assert_eq!(down(&observed), words);
    let mut document = StatusDocument {
        cluster: "c".into(),
        kubernetes: "1.36.4".into(),
        api_server: "silent",
        endpoint: None,
        machines: vec![machine_status(
            &"cp1".parse().unwrap(),
            None,
            &observed,
            None,
            Timestamp::UNIX_EPOCH,
        )],
        down: down(&observed),
        differences: vec!["start cp1: cp1 is off".into()],
        run: None,
    };
    let by_hand = "no machine starts with this computer";
    assert!(text(&document, Timestamp::UNIX_EPOCH).contains(by_hand));
    document.machines[0].autostart = Some(false);
    let text = text(&document, Timestamp::UNIX_EPOCH);
    assert!(!text.contains(by_hand), "{text}");
    let told = "down: the API server does not answer\n`mullion up` brings back what is down\n";
    assert!(text.contains(told), "{text}");
    // One that never ran is not down, and neither is a network that is there.
    for facts in observed.machines.values_mut() {
        facts.power = Power::New;
    }
    let host = HostFacts {
        network: Some("10.9.0.0/24".parse().unwrap()),
        ..HostFacts::default()
    };
    observed.hosts.insert(Place::Here, host);
    observed.cluster = None;
    assert!(down(&observed).is_empty());
}

#[test]
fn what_waits_for_a_start_is_told_and_differs_from_nothing() {
    let machine = MachineStatus {
        name: "win1".into(),
        machine: "reached",
        driver: Some("ssh".into()),
        stand_in: false,
        address: None,
        answers: true,
        autostart: None,
        next_start: Some("files are renamed at the next start".into()),
        certificates: None,
        node: None,
    };
    let document = StatusDocument {
        cluster: "c".into(),
        kubernetes: "1.36.4".into(),
        api_server: "answers",
        endpoint: None,
        machines: vec![machine],
        down: Vec::new(),
        differences: Vec::new(),
        run: None,
    };
    let text = text(&document, Timestamp::UNIX_EPOCH);
    let end = "win1: files are renamed at the next start\n\nnothing differs from the file\n";
    assert!(text.ends_with(end), "{text}");
}
