//! Collects what a person must read at the end of a run.

use std::sync::Mutex;

use mullion_plan::{Attend, News};

use super::{Adapter, lock};

/// Notes of all runs of a command, each once.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// What each note is about, and its words.
    all: Vec<(String, String)>,
    /// How many of them were given to be shown.
    shown: usize,
}

impl Notes {
    /// Adds a note, unless there is one about the same.
    fn add(&mut self, about: String, words: String) {
        if self.all.iter().all(|(other, _)| *other != about) {
            self.all.push((about, words));
        }
    }

    /// The notes that were not shown yet.
    fn take(&mut self) -> Vec<String> {
        let new = self.all.get(self.shown..).unwrap_or_default();
        self.shown = self.all.len();
        new.iter().map(|(_, words)| words.clone()).collect()
    }
}

impl Adapter<'_> {
    /// What a person is told at the end of a run, besides the snapshots: what came since this was last asked.
    pub fn take_notes(&self) -> Vec<String> {
        lock(&self.notes).take()
    }

    /// Keeps a note for the end of the run.
    pub(super) fn note(&self, words: String) {
        lock(&self.notes).add(words.clone(), words);
    }
}

/// Hears for another attendant, and keeps the limits that are not enforced as notes: one a kind, whatever the machine.
pub(super) struct Noting<'a> {
    pub(super) notes: &'a Mutex<Notes>,
    pub(super) attendant: &'a dyn Attend,
}

impl Attend for Noting<'_> {
    fn hear(&self, news: News) {
        let News::Unlimited { what, why } = news else {
            return self.attendant.hear(news);
        };
        let words = format!(
            "this computer does not enforce the `{what}` limit of machines, so each may use all of it: {why}"
        );
        lock(self.notes).add(format!("unlimited {what}"), words.clone());
        self.attendant.hear(News::Line(words));
    }

    fn is_called_off(&self) -> bool {
        self.attendant.is_called_off()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Listener(Mutex<Vec<News>>);

    impl Attend for Listener {
        fn hear(&self, news: News) {
            lock(&self.0).push(news);
        }

        fn is_called_off(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_limit_that_is_not_enforced_is_noted_once_a_kind_and_every_other_news_is_passed_on() {
        let (notes, listener) = (Mutex::default(), Listener::default());
        let noting = Noting {
            notes: &notes,
            attendant: &listener,
        };
        // Three machines; the reason may name what only one of them has.
        for number in 1..=3 {
            for what in ["disk", "memory"] {
                let why = format!("project {number} was refused");
                noting.hear(News::Unlimited { what, why });
            }
            noting.hear(News::Restart);
        }
        assert!(noting.is_called_off());
        let heard = lock(&listener.0).clone();
        assert_eq!(heard.len(), 9);
        assert!(!heard.iter().any(|n| matches!(n, News::Unlimited { .. })));
        assert_eq!(heard.iter().filter(|n| **n == News::Restart).count(), 3);
        let told = lock(&notes).take();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("`disk` limit") && told[0].contains("project 1"));
        assert!(told[1].contains("`memory` limit"));
        // Nor is it told again by the next run of the same command.
        let why = "the same".to_owned();
        noting.hear(News::Unlimited { what: "disk", why });
        assert!(lock(&notes).take().is_empty());
    }
}
