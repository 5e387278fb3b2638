//! A secret that stands in the file is never repeated: not in a message, not in a line that is shown.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use mullion_catalog::Catalog;
use mullion_spec::draft::{Draft, Surroundings, Verdict};
use mullion_spec::render::{Colour, render};
use mullion_spec::source::Source;

const MARKER: &str = "S3cr3tMarker";

fn judge(text: &str) -> Verdict {
    let draft = Draft::read(Source::new("cluster.yaml", text), &Surroundings::default());
    Catalog::builtin().judge(draft).verdict
}

fn codes(text: &str) -> Vec<&'static str> {
    let verdict = judge(text);
    let codes = verdict.findings.iter();
    codes.map(|located| located.finding.rule.code).collect()
}

/// All that anyone can be shown of a verdict.
fn shown(verdict: &Verdict) -> Vec<String> {
    let mut shown = vec![
        render(verdict, Colour::Plain),
        render(verdict, Colour::Styled),
    ];
    for located in &verdict.findings {
        let finding = &located.finding;
        shown.push(finding.message.clone());
        shown.extend(finding.label.clone());
        shown.extend(finding.remedies().into_iter().map(Into::into));
        shown.extend(finding.place.path().map(ToString::to_string));
        shown.extend(located.also.iter().map(|part| part.label.clone()));
        for (place, label) in &finding.also {
            shown.push(label.clone());
            shown.extend(place.path().map(ToString::to_string));
        }
    }
    shown
}

fn leaks(text: &str) -> Option<String> {
    shown(&judge(text))
        .into_iter()
        .find(|shown| shown.contains(MARKER))
}

/// Holds a file with a secret in it, and mistakes of other kinds before, beside and after the secret.
fn keeps(text: &str, problems: &mut Vec<String>) {
    let beside = |wrong: &str| {
        let mut lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
        for line in &mut lines {
            if line.contains(MARKER) {
                line.push_str(wrong);
            }
        }
        lines.join("\n") + "\n"
    };
    for broken in [
        text.to_owned(),
        format!("{text}wrong: {{a: 1\n"),
        format!("{text}wrong: *unknown\n"),
        format!("{text}\tx: 1\n"),
        format!("{text}wrong: \"open\n"),
        format!("{text}- item\n"),
        format!("{text}---\n{text}"),
        format!("{text}{text}"),
        format!("<<: *x\n{text}"),
        text.replace('\n', "\r\n"),
        text.replace(MARKER, &format!("{MARKER} ")),
        text.replace(MARKER, &format!("ä{MARKER}ö")),
        text.replace(MARKER, &format!("\"{MARKER}")),
        text.replace(MARKER, &format!("{MARKER}\0")),
        text.replace(MARKER, &format!("!{MARKER}")),
        text.replace(MARKER, &format!("&{MARKER}")),
        text.replace(MARKER, &format!("*{MARKER}")),
        text.replace(MARKER, &format!("@{MARKER}")),
        text.replace(MARKER, &format!("%{MARKER}")),
        text.replace(MARKER, &format!("{{{{ {MARKER} }}}}")),
        text.replace(MARKER, &format!("${{{MARKER}}}")),
        text.replace(MARKER, &format!("x #{MARKER}")),
        text.replace(MARKER, &format!("x: {MARKER}")),
        beside(" ]"),
        beside(" }"),
        beside(": x"),
        beside(" \"x"),
        beside("\n :"),
    ] {
        if let Some(shown) = leaks(&broken) {
            problems.push(format!("--- of this file\n{broken}\n--- is shown\n{shown}"));
        }
    }
}

fn assert_kept(files: impl IntoIterator<Item = String>) {
    let mut problems = Vec::new();
    for file in files {
        keeps(&file, &mut problems);
    }
    assert!(
        problems.is_empty(),
        "{} files leak, the first:\n{}",
        problems.len(),
        problems[0]
    );
}

/// The places of secrets, as files with a hole.
const PLACES: [&str; 15] = [
    "machines: {linux: 1}\nwindows:\n  administratorPassword: HOLE\n  rdpp: true\n",
    "machines: {linux: 1}\nwindows:\n  administratorPasword: HOLE\n",
    "machines: {linux: 1}\nwindows:\n  licence: HOLE\n",
    "machines: {linux: 1}\nwindows:\n  licence:\n    key: HOLE\n",
    "machines: {linux: 1}\nwindows:\n  licence:\n    kye: HOLE\n",
    "machines: {linux: 1}\naccess:\n  sshKey: HOLE\n",
    "machines: {linux: 1}\naccess:\n  sshkey: HOLE\n",
    "machines: {linux: 1}\nadminPassword: HOLE\n",
    "password: HOLE\nmachines: {linux: x}\n",
    "machines:\n  - name: cp\n    role: control-plane\n    administratorPassword: HOLE\n",
    "machines:\n  - name: win\n    os: windows\n    licence: HOLE\n    administratorPassword: HOLE\n",
    "machines:\n  - name: win\n    addresses: [192.0.2.1]\n    ssh:\n      key: HOLE\n      usr: x\n",
    "machines:\n  - name: win\n    addresses: [192.0.2.1]\n    ssh:\n      password: HOLE\n",
    "machines: {linux: 1}\nhosts:\n  - name: h\n    address: 192.0.2.1\n    ssh:\n      key: HOLE\n",
    "machines: {linux: 1}\nmetadata:\n  api-token: HOLE\n",
];

const SHAPES: [&str; 18] = [
    "S3cr3tMarker",
    "'S3cr3tMarker'",
    "\"S3cr3tMarker\"",
    "\"\\x53\\x33cr3tMarker S3cr3tMarker\"",
    "[S3cr3tMarker]",
    "[[a, {b: S3cr3tMarker}]]",
    "{value: S3cr3tMarker}",
    "{S3cr3tMarker}",
    "{S3cr3tMarker: x}",
    "{env: [S3cr3tMarker]}",
    "{env: S3cr3tMarker, file: S3cr3tMarker}",
    "{env: S3cr3tMarker, env: S3cr3tMarker}",
    "{file: {path: S3cr3tMarker}}",
    "{env: \"S3cr3tMarker!\"}",
    "{kye: S3cr3tMarker}",
    "|\n          S3cr3tMarker\n          S3cr3tMarker",
    ">-\n          one\n          S3cr3tMarker",
    "one\n          S3cr3tMarker",
];

#[test]
fn a_secret_is_never_repeated_whatever_its_shape() {
    let files = PLACES
        .iter()
        .flat_map(|place| SHAPES.iter().map(|shape| place.replace("HOLE", shape)));
    assert_kept(files);
}

#[test]
fn the_second_of_two_values_is_not_repeated_either() {
    let files = PLACES.iter().map(|place| {
        let lines = place.lines().map(|line| {
            let again = line.trim_start_matches("  - ");
            if line.contains("HOLE") {
                format!(
                    "{}\n{}\n",
                    line.replace("HOLE", "generated"),
                    again.replace("HOLE", MARKER)
                )
            } else {
                format!("{line}\n")
            }
        });
        lines.collect()
    });
    assert_kept(files);
}

#[test]
fn a_secret_in_one_line_with_everything_is_not_repeated() {
    let files = [
        "{machines: {linux: 1}, windows: {administratorPassword: HOLE, rdpp: 1}}\n",
        "{\"machines\": {\"linux\": 1}, \"windows\": {\"administratorPassword\": \"HOLE\", \"rdp\": \"x\"}}\n",
        "machines: [{name: cp, role: control-plane, licence: HOLE}, {name: w, os: windws, licence: HOLE}]\n",
        "machines: {linux: 1}\nwindows: {licence: {key: HOLE}, lisence: HOLE}\n",
        "machines: {linux: 1, windws: 1} # password: HOLE\n",
        "machines: [{name: a, before: [{run: \"app --password=HOLE\", so: x}]}]\n",
    ];
    assert_kept(files.map(|file| file.replace("HOLE", MARKER)));
}

/// Every field that takes an address, with what stands round one.
const ADDRESSES: [&str; 12] = [
    "machines: {linux: 1}\nproxy:\n  http: HOLE\n",
    "machines: {linux: 1}\nproxy:\n  https: HOLE\n",
    "machines: {linux: 1}\nproxy:\n  http: http://p:1\n  no: [a, HOLE]\n",
    "machines: {linux: 1}\nproxy:\n  all: HOLE\n",
    "machines: {linux: 1}\nartifacts:\n  mirror: HOLE\n",
    "machines:\n  - name: win\n    os: windows\n    media:\n      url: HOLE\n",
    "machines:\n  - name: a\n    addresses: [HOLE]\n",
    "machines:\n  - name: a\n    addresses: [192.0.2.1]\n    ssh:\n      jump: HOLE\n",
    "machines: {linux: 1}\nhosts:\n  - name: h\n    address: HOLE\n",
    "machines: {linux: 1}\nimages:\n  - ref: HOLE\n",
    "machines: {linux: 1}\ncontrolPlane:\n  endpoint: HOLE\n",
    "machines: {linux: 1}\nmetadata:\n  name: HOLE\n",
];

const LOGINS: [&str; 9] = [
    "http://u:S3cr3tMarker@p.example",
    "HTTP://u:S3cr3tMarker@p.example:80/",
    "socks5://u:S3cr3tMarker@p.example",
    "https://S3cr3tMarker@p.example",
    "https://u:hun/S3cr3tMarker@p.example",
    "u:S3cr3tMarker@p.example",
    "u:S3cr3tMarker@p.exam_ple:22",
    "u:p@S3cr3tMarker@p.example/app:1.0",
    "//u:S3cr3tMarker@p.example",
];

#[test]
fn a_login_in_an_address_is_never_repeated() {
    let mut problems = Vec::new();
    for place in ADDRESSES {
        for login in LOGINS {
            for quoted in [
                login.to_owned(),
                format!("\"{login}\""),
                format!("'{login}'"),
            ] {
                let text = place.replace("HOLE", &quoted);
                for text in [text.clone(), format!("{text}wrong: [\n"), text + " ]\n"] {
                    if let Some(shown) = leaks(&text) {
                        problems.push(format!("{text}\n{shown}"));
                    }
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}: {}", problems.len(), problems[0]);
}

#[test]
fn a_login_in_an_address_is_refused() {
    for place in ADDRESSES {
        if place.contains("all:") || place.contains("metadata:") {
            continue;
        }
        for login in LOGINS {
            let text = place.replace("HOLE", &format!("\"{login}\""));
            let codes = codes(&text);
            let refusals = codes.iter().filter(|code| **code == "E0206").count();
            assert_eq!(refusals, 1, "{text}{codes:?}");
            assert!(!codes.contains(&"E0208"), "one error is enough: {text}");
        }
    }
    let user =
        "machines: [{name: a, addresses: [192.0.2.1], ssh: {user: \"root:S3cr3tMarker\"}}]\n";
    assert!(codes(user).contains(&"E0206"));
    assert_eq!(leaks(user), None);
    let plain = "machines: {linux: 1}\nimages:\n  - ref: r.example:5000/a:1@sha256:00\nhosts:\n  - name: h\n    address: h.example\n    ssh: {user: root, jump: root@b.example:22}\n";
    assert!(!codes(plain).contains(&"E0206"));
}

#[test]
fn references_are_shown_as_they_are() {
    let text = "machines: {linux: 1}\nwindows: {administratorPassword: {env: WINDOWS_PASSWORD}, licence: evaluation, rdpp: 1}\naccess: {sshKey: {file: ~/.ssh/id_ed25519}, x: 1}\n";
    let plain = render(&judge(text), Colour::Plain);
    for visible in ["WINDOWS_PASSWORD", "evaluation", "~/.ssh/id_ed25519"] {
        assert!(plain.contains(visible), "{plain}");
    }
}

#[test]
fn a_reference_of_a_wrong_type_is_one_mistake() {
    for wrong in [
        "{env: [x]}",
        "{file: {a: b}}",
        "{value: x}",
        "{env: {a: b}}",
    ] {
        let text = format!("machines: {{linux: 1}}\naccess: {{sshKey: {wrong}}}\n");
        assert_eq!(codes(&text).len(), 1, "{text}");
    }
}

#[test]
fn a_secret_in_a_command_is_warned_about_and_a_variable_is_not() {
    let command = |run: &str| {
        format!("machines:\n  - {{name: cp, role: control-plane, before: [{{run: '{run}'}}]}}\n")
    };
    for run in [
        "join --password hunter22",
        "TOKEN=abcdef123 x",
        "curl https://me:hunter22@h/x",
    ] {
        assert_eq!(codes(&command(run)), ["E0206"], "{run}");
    }
    for run in [
        "join --password $PW",
        "echo \"${TOKEN}\"",
        "cat /etc/passwd",
        "systemctl restart x@1",
    ] {
        assert_eq!(codes(&command(run)), Vec::<&str>::new(), "{run}");
    }
}
