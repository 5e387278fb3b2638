//! Starts of machines and of kubelets, with what was said before: a node stays Ready for a while after its machine has
//! gone down, and who waits for a node after a start must not take that for an answer.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mullion_kube::Sign;
use mullion_spec::value::MachineName;

use super::{Adapter, cluster, lock};

/// What is known of a kubelet from before its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Before {
    /// There was none: its machine was made in this run, or the cluster does not know it.
    Nothing,
    /// Nobody could ask.
    Unknown,
    /// What it had said.
    Said(Sign),
}

/// What is known from before the last starts, by machine.
#[derive(Debug, Default)]
pub(super) struct Starts(Mutex<BTreeMap<MachineName, Entry>>);

#[derive(Debug)]
enum Entry {
    Made,
    Started(Before),
}

impl Starts {
    /// A machine was made: it has no past.
    pub(super) fn made(&self, machine: &MachineName) {
        lock(&self.0).insert(machine.clone(), Entry::Made);
    }

    pub(super) fn is_made(&self, machine: &MachineName) -> bool {
        matches!(lock(&self.0).get(machine), Some(Entry::Made))
    }

    /// Something was started, and that was known before.
    pub(super) fn started(&self, machine: &MachineName, before: Before) {
        lock(&self.0).insert(machine.clone(), Entry::Started(before));
    }

    /// As [`Starts::started`], where no start is waited for already: one that is tried again has begun before.
    pub(super) fn started_once(&self, machine: &MachineName, before: impl FnOnce() -> Before) {
        let is_known = lock(&self.0).contains_key(machine);
        if !is_known {
            self.started(machine, before());
        }
    }

    /// The node was seen to be Ready: nothing is waited for any more.
    pub(super) fn is_back(&self, machine: &MachineName) {
        lock(&self.0).remove(machine);
    }

    /// What was known before the start that is waited for.
    pub(super) fn before(&self, machine: &MachineName) -> Before {
        match lock(&self.0).get(machine) {
            Some(Entry::Started(before)) => before.clone(),
            Some(Entry::Made) | None => Before::Nothing,
        }
    }
}

impl Adapter<'_> {
    /// What a machine's kubelet has said until now. Where there is no cluster yet, nobody is asked.
    pub(super) fn said(&self, machine: &MachineName) -> Before {
        if self.starts.is_made(machine) {
            return Before::Nothing;
        }
        let Ok(api) = self.api() else {
            return Before::Nothing;
        };
        if !api.answers(cluster::ANSWER) {
            return Before::Unknown;
        }
        match api.node_sign(machine.as_str()) {
            Ok(sign) => sign.map_or(Before::Nothing, Before::Said),
            Err(_) => Before::Unknown,
        }
    }

    /// As [`Adapter::said`], of a kubelet that surely ends, or has ended.
    pub(super) fn said_last(&self, machine: &MachineName) -> Before {
        match self.said(machine) {
            Before::Said(sign) => Before::Said(sign.ended()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_waited_for_with_what_was_known_before_its_first_try() {
        let starts = Starts::default();
        let machine: MachineName = "lin1".parse().unwrap();
        assert_eq!(starts.before(&machine), Before::Nothing);
        starts.started_once(&machine, || Before::Unknown);
        // Tried again, when it may have reported already.
        starts.started_once(&machine, || Before::Said(Sign::default()));
        assert_eq!(starts.before(&machine), Before::Unknown);
        starts.started(&machine, Before::Said(Sign::default()));
        assert_eq!(starts.before(&machine), Before::Said(Sign::default()));
        starts.is_back(&machine);
        assert_eq!(starts.before(&machine), Before::Nothing);
    }

    #[test]
    fn a_machine_that_was_made_in_this_run_has_no_past() {
        let starts = Starts::default();
        let machine: MachineName = "lin1".parse().unwrap();
        starts.made(&machine);
        starts.started_once(&machine, || Before::Unknown);
        assert!(starts.is_made(&machine));
        assert_eq!(starts.before(&machine), Before::Nothing);
    }
}
