//! Secrets that steps talk about reach nobody: not the journal, not the log, not the events, the report or the page.

use std::sync::Mutex;

use jiff::Timestamp;
use mullion_engine::{Cancel, Event, EventLine, Journal, Opening, Runs, Watch, run, timeline};
use mullion_plan::{ErrorClass, News, StepError};
use mullion_wire::Mask;

use crate::simulation::{noon, options};
use crate::stage_hand::{StageHand, starts};

const PASSWORD: &str = "correct-horse-battery";
const TOKEN: &str = "abcdef.0123456789abcdef";
const KEY: [&str; 3] = [
    "-----BEGIN PRIVATE KEY-----",
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg",
    "-----END PRIVATE KEY-----",
];

/// Keeps every event as a line of JSON.
#[derive(Default)]
struct Lines(Mutex<String>);

impl Watch for Lines {
    fn see(&self, at: Timestamp, event: &Event) {
        let line = serde_json::to_string(&EventLine { at, event }).unwrap();
        self.0.lock().unwrap().push_str(&line);
    }
}

#[test]
fn no_secret_that_a_step_talks_about_is_written_or_told() {
    let state = tempfile::tempdir().unwrap();
    let plan = starts(&["lin1", "lin2"]);
    let mask = Mask::new();
    mask.register(PASSWORD);
    let command = format!("mullion up --password {PASSWORD}");
    let opening = Opening::new("demo", &command, "0.1.0", &plan);
    let clock = noon();
    let now = "2026-01-07T12:00:00Z".parse().unwrap();
    let journal = Journal::create(state.path(), opening, mask, now).unwrap();
    let port = StageHand::new(|step, attendant| {
        attendant.hear(News::Line(format!("logging in with {PASSWORD}")));
        attendant.hear(News::Line(format!("kubeadm join --token {TOKEN}")));
        for line in KEY {
            attendant.hear(News::Line(line.into()));
        }
        let trouble = |class| {
            let words = format!("{PASSWORD} was refused");
            let mut error = StepError::new(class, words)
                .hint(format!("try {TOKEN}"))
                .tail(KEY.map(str::to_owned));
            error.causes.push(format!("{PASSWORD} again"));
            Err(error)
        };
        match step.id.as_str() {
            "start/lin2" => trouble(ErrorClass::Unreachable),
            "ready/lin1" => trouble(ErrorClass::NotYet),
            _ => Ok(()),
        }
    });
    let lines = Lines::default();
    let cancel = Cancel::new();
    let options = options(1);
    let report = run(&plan, &port, &options, &journal, &lines, &cancel, &clock);
    let runs = Runs::of(state.path());
    let record = runs.read(journal.id()).unwrap();
    let told = [
        fs_err::read_to_string(runs.journal(journal.id())).unwrap(),
        fs_err::read_to_string(runs.log(journal.id())).unwrap(),
        lines.0.into_inner().unwrap(),
        serde_json::to_string(&report).unwrap(),
        format!("{report:?}{record:?}{journal:?}"),
        timeline::html(&record),
    ];
    for text in told {
        assert!(text.contains("[masked]"));
        for secret in [PASSWORD, TOKEN, KEY[0], KEY[1]] {
            assert!(!text.contains(secret), "{secret} in\n{text}");
        }
    }
}
