//! What a run tells while it goes on and at its end, for people and for programs.

use jiff::Timestamp;
use mullion_engine::{
    Alive, Board, Event, EventLine, Report, RunOutcome, RunRecord, event_schema, report_schema,
};
use mullion_plan::{ErrorClass, News, Perform as _, Stage, StepError, StepId, Unit};

use crate::simulation::{noon, options};
use crate::sketch::Sketch;
use crate::stage_hand::{StageHand, not_yet, run_with, starts};

/// A run in which everything happens: news, tries, waits, a failure, something blocked.
fn eventful() -> (Report, Vec<Event>, String) {
    let sketch = Sketch::new(1, 2, 1, 1);
    let world = sketch.world();
    let plan = sketch.plan(&world);
    let clock = noon();
    let port = StageHand::new(|step, attendant| {
        clock.advance(std::time::Duration::from_millis(300));
        attendant.hear(News::Line("working".into()));
        attendant.hear(News::Log("some/log.txt".into()));
        for done in [1, 2, 10] {
            attendant.hear(News::Amount {
                done,
                total: Some(10),
                unit: Unit::Bytes,
            });
        }
        match step.id.as_str() {
            "apply/lin1" => Err(StepError::new(ErrorClass::Unreachable, "silence")),
            "ready/lin2" => not_yet("no kubelet"),
            _ => world.perform(step, attendant),
        }
    });
    run_with(&plan, &port, &options(1), &clock)
}

#[test]
fn events_and_reports_are_as_their_schemas_say() {
    let (report, events, _) = eventful();
    let schema = jsonschema::validator_for(&report_schema()).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    schema.validate(&json).unwrap();
    let schema = jsonschema::validator_for(&event_schema()).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for event in &events {
        let at = Timestamp::UNIX_EPOCH;
        let line = serde_json::to_value(EventLine { at, event }).unwrap();
        schema.validate(&line).unwrap();
        kinds.insert(line["event"].as_str().unwrap().to_owned());
    }
    let kinds: Vec<_> = kinds.iter().map(String::as_str).collect();
    assert_eq!(
        kinds,
        [
            "run-ended",
            "run-started",
            "step-ended",
            "step-news",
            "step-retried",
            "step-started",
            "waiting"
        ]
    );
}

#[test]
fn a_failure_names_the_log_that_holds_everything() {
    let (report, _, journal) = eventful();
    let causes: Vec<_> = report
        .causes
        .iter()
        .map(|cause| cause.tag.id.as_str())
        .collect();
    assert_eq!(causes, ["apply/lin1", "ready/lin2"]);
    for cause in &report.causes {
        assert_eq!(cause.error.log.as_deref(), Some("some/log.txt".as_ref()));
    }
    let record = RunRecord::parse(&journal, Alive::No).unwrap();
    let failed = record.failed().next().unwrap();
    assert_eq!(
        failed.error.as_ref().unwrap().log.as_deref(),
        Some("some/log.txt".as_ref())
    );
}

#[test]
fn amounts_are_told_seldom_and_their_end_always() {
    let (_, events, _) = eventful();
    let amounts: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::StepNews {
                step,
                news: mullion_engine::NewsItem::Amount { done, .. },
                ..
            } if step.as_str() == "start/lin1" => Some(*done),
            _ => None,
        })
        .collect();
    assert_eq!(amounts, [1, 10], "the second came too soon");
}

#[test]
fn a_board_follows_every_machine() {
    let (report, events, _) = eventful();
    let mut board = Board::new();
    let mut busiest = 0;
    for event in &events {
        board.see(Timestamp::UNIX_EPOCH, event);
        let current: usize = board.rows.iter().map(|row| row.current.len()).sum();
        busiest = busiest.max(current);
        if let Event::StepStarted { tag, .. } = event {
            let row = board
                .rows
                .iter()
                .find(|row| row.machine == tag.machine)
                .unwrap();
            assert_eq!(row.stage, Some(tag.stage));
            assert!(row.current.iter().any(|current| current.id == tag.id));
        }
        if let Event::Waiting { step, machine, .. } = event {
            let row = board
                .rows
                .iter()
                .find(|row| row.machine == *machine)
                .unwrap();
            let current = row.current.iter().find(|current| current.id == *step);
            assert_eq!(current.unwrap().last.as_deref(), Some("no kubelet"));
            assert_eq!(current.unwrap().amount, Some((10, Some(10), "bytes")));
        }
    }
    assert!(busiest > 1, "a step that waits is under way");
    assert!(board.rows.iter().all(|row| row.current.is_empty()));
    for row in &board.rows[1..] {
        let machine = report
            .machines
            .iter()
            .find(|one| Some(&one.machine) == row.machine.as_ref());
        let machine = machine.unwrap();
        assert_eq!((row.steps, row.done), (machine.steps, machine.done));
        let is_bad = ["lin1", "lin2"].contains(&machine.machine.as_str());
        assert_eq!(row.has_failed, is_bad, "{}", machine.machine);
    }
    assert_eq!(report.outcome, RunOutcome::Failed);
}

#[test]
fn a_run_begins_by_telling_what_is_to_come() {
    let plan = starts(&["lin1", "lin2"]);
    let port = StageHand::new(|_, _| Ok(()));
    let (report, events, _) = run_with(&plan, &port, &options(1), &noon());
    let Event::RunStarted {
        run,
        steps,
        stages,
        machines,
        ..
    } = &events[0]
    else {
        panic!("{:?}", events[0]);
    };
    assert_eq!(*run, report.run);
    assert_eq!(*steps, 4);
    let stages: Vec<_> = stages.iter().map(|one| (one.stage, one.steps)).collect();
    assert_eq!(stages, [(Stage::Machines, 2), (Stage::Settle, 2)]);
    let machines: Vec<_> = machines
        .iter()
        .map(|one| (one.machine.as_str(), one.steps))
        .collect();
    assert_eq!(machines, [("lin1", 2), ("lin2", 2)]);
    assert!(matches!(events.last(), Some(Event::RunEnded { .. })));
    let ended = |id: &str| {
        let id = StepId::new(id);
        let is_it = |event: &Event| matches!(event, Event::StepEnded { tag, .. } if tag.id == id);
        events.iter().position(is_it).unwrap()
    };
    assert!(ended("start/lin1") < ended("ready/lin1"));
}
