//! Documents: cluster files, facts, messages, journals, state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use mullion_catalog::{Catalog, Model};
use mullion_engine::{Alive, RunRecord, timeline};
use mullion_live::Taken;
use mullion_plan::{Documents, MachineKinds, Observed, Plan, Rest, SavedPlan, Took, Wanted, plan};
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::edit;
use mullion_spec::render::{Colour, render};
use mullion_spec::source::Source;
use mullion_spec::value::MachineName;
use mullion_wire::text::is_hostile;
use mullion_wire::{Blueprint, Event, error_chain, read_event, read_request, write_line};

/// More machines are judged and not planned: planning thousands takes seconds in a build that is not optimised.
const MOST_PLANNED: usize = 40;

fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}

fn judge(text: &str) -> mullion_catalog::Judgement {
    let draft = Draft::read(Source::new("cluster.yaml", text), &Surroundings::default());
    Catalog::builtin().judge(draft)
}

/// A rule's code without digits: refusals that differ in numbers alone count as one, and inputs that are refused in a
/// new way are those that lead deeper.
fn in_letters(code: &str) -> String {
    let letter = |digit: u32| char::from_digit(digit + 10, 36);
    let letters = code
        .chars()
        .map(|sign| sign.to_digit(10).and_then(letter).unwrap_or(sign));
    letters.chain([' ']).collect()
}

pub(super) fn cluster_file(bytes: &[u8]) -> Result<(), String> {
    let judgement = judge(text_of(bytes)?);
    let shown = render(&judgement.verdict, Colour::Plain);
    // Letters without width are left to the terminal's guard: a finding may be about them.
    let steers = |letter: char| {
        is_hostile(letter) && letter.is_control()
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!shown.contains(steers), "{shown:?}");
    let _ = render(&judgement.verdict, Colour::Styled);
    let Some(model) = judgement.model else {
        let findings = judgement.verdict.findings.iter();
        let codes: BTreeSet<_> = findings.map(|found| found.finding.rule.code).collect();
        return Err(codes.into_iter().take(2).map(in_letters).collect());
    };
    if model.cluster().machines().count() > MOST_PLANNED {
        return Ok(());
    }
    let planned = planned(&model, &Observed::default());
    for step in planned.steps() {
        let title = step.title();
        assert!(
            !title.contains(|letter: char| letter.is_control() || is_hostile(letter)),
            "{title:?}"
        );
    }
    Ok(())
}

pub(super) fn cluster_file_edit(bytes: &[u8]) -> Result<(), String> {
    let text = text_of(bytes)?;
    let group = "lin".parse().map_err(|_| "a name")?;
    let machine: MachineName = "lin1".parse().map_err(|_| "a name")?;
    let before = judge(text).model.is_some();
    let added = edit::add_machines(text, &group, 2).map_err(|error| error.to_string());
    let removed = edit::remove_machine(text, &machine).map_err(|error| error.to_string());
    if before && let Ok(text) = &added {
        let count = |text: &str| {
            judge(text)
                .model
                .map(|model| model.cluster().machines().count())
        };
        if let (Some(now), Some(then)) = (count(text), count(text_of(bytes)?)) {
            assert_eq!(now, then + 2, "two machines were added");
        }
    }
    added.and(removed).map(|_| ())
}

/// A cluster of both systems, for facts to be compared with.
fn model() -> Option<&'static Model> {
    static MODEL: OnceLock<Option<Model>> = OnceLock::new();
    let text = "machines: {linux: 2, windows: 1}\nmetadata: {name: demo}\n";
    MODEL.get_or_init(|| judge(text).model).as_ref()
}

/// The plan of a cluster whose files are not there.
fn planned(model: &Model, observed: &Observed) -> Plan {
    let wanted = Wanted::of(model);
    let documents = Documents::render(model, &wanted, observed);
    plan(&wanted, observed, &documents)
}

pub(super) fn facts(bytes: &[u8]) -> Result<(), String> {
    let observed: Observed = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let text = serde_json::to_vec(&observed).map_err(|error| error.to_string())?;
    let again: Observed = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    assert_eq!(again, observed, "facts read back as they were written");
    let model = model().ok_or("no model")?;
    let plan = planned(model, &observed);
    assert_eq!(
        planned(model, &observed),
        plan,
        "equal facts give equal plans"
    );
    for obstacle in plan.obstacles() {
        let _ = (obstacle.words(), obstacle.hint());
    }
    let _ = mullion_plan::plan_down(&observed, Rest::Nothing, &BTreeMap::new());
    Ok(())
}

pub(super) fn saved_plan(bytes: &[u8]) -> Result<(), String> {
    let saved: SavedPlan = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let text = serde_json::to_vec(&saved).map_err(|error| error.to_string())?;
    let again: SavedPlan = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    assert_eq!(again, saved, "a saved plan reads back as it was written");
    let plan = planned(model().ok_or("no model")?, &Observed::default());
    let now = SavedPlan::of(
        &plan,
        &saved.mullion,
        (&saved.cluster, saved.id.clone()),
        (saved.inputs.clone(), saved.programs.clone()),
    );
    let held = saved.is_still(&now);
    let is_same = saved.steps.len() == now.steps.len();
    assert!(is_same || held.is_err(), "another plan is never run");
    Ok(())
}

pub(super) fn timings(bytes: &[u8]) -> Result<(), String> {
    let took: Took = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let model = model().ok_or("no model")?;
    let plan = planned(model, &Observed::default());
    let _ = took.estimate(&plan, &MachineKinds::of(model.cluster()));
    Ok(())
}

pub(super) fn blueprint(bytes: &[u8]) -> Result<(), String> {
    let read: Blueprint = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let text = serde_json::to_vec(&read).map_err(|error| error.to_string())?;
    let again: Blueprint = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    assert_eq!(again, read, "a blueprint reads back as it was written");
    assert_eq!(
        again.digest(),
        read.digest(),
        "equal blueprints have equal digests"
    );
    Ok(())
}

pub(super) fn agent_request(bytes: &[u8]) -> Result<(), String> {
    let request = read_request(text_of(bytes)?).map_err(|error| error_chain(&error).join(" "))?;
    let line = write_line(&request).map_err(|error| error.to_string())?;
    assert_eq!(
        line.find('\n'),
        Some(line.len() - 1),
        "a request is one line"
    );
    let again = read_request(&line).map_err(|error| error.to_string());
    assert_eq!(again, Ok(request), "a request reads back as it was written");
    Ok(())
}

pub(super) fn agent_event(bytes: &[u8]) -> Result<(), String> {
    let event = read_event(text_of(bytes)?).map_err(|error| error_chain(&error).join(" "))?;
    if let Event::Failed { words, tail, .. } = &event {
        let is_plain = |text: &String| !text.contains(is_hostile) && !text.contains('\n');
        assert!(is_plain(words) && tail.iter().all(is_plain), "{words:?}");
    }
    let line = write_line(&event).map_err(|error| error.to_string())?;
    assert_eq!(
        line.find('\n'),
        Some(line.len() - 1),
        "an event is one line"
    );
    let again = read_event(&line).map_err(|error| error.to_string());
    assert_eq!(again, Ok(event), "an event reads back as it was written");
    Ok(())
}

pub(super) fn journal(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let record =
        RunRecord::parse(&text, Alive::No).map_err(|error| error_chain(&error).join(" "))?;
    let page = timeline::html(&record);
    assert!(!page.contains(is_hostile), "a page of control characters");
    assert!(!page.contains("<script"), "a page with a script of others");
    Ok(())
}

pub(super) fn taken_machines(bytes: &[u8]) -> Result<(), String> {
    let read: BTreeMap<MachineName, Taken> =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let text = serde_json::to_vec(&read).map_err(|error| error.to_string())?;
    let again: BTreeMap<MachineName, Taken> =
        serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    assert_eq!(again, read, "it reads back as it was written");
    Ok(())
}
