//! Every field of every action changes what the adapter asks of the outside.
//!
//! A world plays drivers, machines behind SSH, the API server, etcd, and the builder of templates, and records every
//! call. Each case performs its action in a world that is new, and once more for each change of one field. The calls
//! differ. Where a field decides about nothing but how the step ends, its change says so, and the outcome differs.
//!
//! A case performs its action twice as it is. Both records are equal, so that no change passes by accident.

mod agent;
mod cluster;
mod drivers;
mod machines;
mod nodes;
mod parts;
mod record;
mod templates;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use mullion_plan::Action;
use serde_json::Value;

use super::Adapter;
use record::Record;
use world::World;

/// By what the change of a field is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// By what is asked of the outside.
    Calls,
    /// By how the step ends, or by what it tells. The calls stay the same.
    Outcome,
}

/// Another value for one field of an action.
struct Change {
    /// The field, as Rust calls it.
    field: &'static str,
    seen: Seen,
    /// What is otherwise, for whoever reads a failure.
    what: String,
    apply: Box<dyn Fn(&mut Action)>,
}

/// What an adapter does before the step.
type Begun = dyn Fn(&World, &Adapter<'_>);

/// An action in a world, and other values for its fields.
struct Case {
    machine: Option<&'static str>,
    /// What the world is like, besides [`World::new`].
    prepare: Box<dyn Fn(&World)>,
    /// What the adapter did before in this run.
    begun: Box<Begun>,
    action: Box<dyn Fn(&World) -> Action>,
    changes: Vec<Change>,
}

impl Case {
    /// That action, on a machine or on none.
    fn new(
        machine: impl Into<Option<&'static str>>,
        action: impl Fn(&World) -> Action + 'static,
    ) -> Self {
        Self {
            machine: machine.into(),
            prepare: Box::new(|_| ()),
            begun: Box::new(|_, _| ()),
            action: Box::new(action),
            changes: Vec::new(),
        }
    }

    /// In a world that was prepared so.
    fn within(mut self, prepare: impl Fn(&World) + 'static) -> Self {
        self.prepare = Box::new(prepare);
        self
    }

    /// By an adapter that did this before.
    fn after(mut self, begun: impl Fn(&World, &Adapter<'_>) + 'static) -> Self {
        self.begun = Box::new(begun);
        self
    }

    /// With a change that the calls show.
    fn calls(self, change: Change) -> Self {
        self.with(change, Seen::Calls)
    }

    /// With a change that the outcome alone shows.
    fn outcome(self, change: Change) -> Self {
        self.with(change, Seen::Outcome)
    }

    fn with(mut self, change: Change, seen: Seen) -> Self {
        self.changes.push(Change { seen, ..change });
        self
    }

    fn record(&self, change: Option<&Change>) -> Record {
        let world = World::new();
        (self.prepare)(&world);
        let mut action = (self.action)(&world);
        if let Some(change) = change {
            let before = fields(&action);
            (change.apply)(&mut action);
            let after = fields(&action);
            let changed = after.keys().filter(|field| after[*field] != before[*field]);
            let expected = in_json(change.field);
            assert_eq!(changed.collect::<Vec<_>>(), [&expected], "{}", change.what);
        }
        let adapter = world.adapter();
        (self.begun)(&world, &adapter);
        world.perform(&adapter, self.machine, &action)
    }

    /// The word of its action, as JSON has it.
    fn kind(&self) -> String {
        (self.action)(&World::new()).kind().word().to_owned()
    }

    /// Every change that is not seen as it should be.
    fn failures(&self) -> Vec<String> {
        let kind = self.kind();
        let base = self.record(None);
        assert_eq!(base, self.record(None), "{kind} is recorded the same again");
        let changes = self.changes.iter();
        let unseen = changes.filter(|change| {
            let other = self.record(Some(change));
            let has_other_calls = base.calls != other.calls;
            match change.seen {
                Seen::Calls => !has_other_calls,
                Seen::Outcome => has_other_calls || base.outcome == other.outcome,
            }
        });
        unseen
            .map(|change| {
                format!(
                    "{kind}: {} is not seen by its {:?}",
                    change.what, change.seen
                )
            })
            .collect()
    }
}

fn check(cases: &[Case]) {
    let failures: Vec<_> = cases.iter().flat_map(Case::failures).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Sets a field of an action to a value.
macro_rules! change {
    ($action:ident.$field:ident = $value:expr) => {
        $crate::calls::Change {
            field: stringify!($field),
            seen: $crate::calls::Seen::Calls,
            what: concat!(stringify!($field), " = ", stringify!($value)).into(),
            apply: Box::new(move |action| {
                let mullion_plan::Action::$action { $field: field, .. } = action else {
                    panic!("{action:?}");
                };
                *field = $value;
            }),
        }
    };
}
use change;

/// The fields of an action, by their names in JSON.
fn fields(action: &Action) -> BTreeMap<String, Value> {
    let Value::Object(mut fields) = serde_json::to_value(action).unwrap() else {
        panic!("{action:?}");
    };
    fields.remove("kind");
    fields.into_iter().collect()
}

/// A field's name in JSON.
fn in_json(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(1);
        name + &head.to_uppercase() + tail
    })
}

/// The fields of every action, as the schema of plans has them.
fn all_fields() -> BTreeMap<String, BTreeSet<String>> {
    let schema: Value = schemars::schema_for!(Action).into();
    let variants = schema["oneOf"].as_array().unwrap().iter();
    variants
        .map(|variant| {
            let mut fields = variant["properties"].as_object().unwrap().clone();
            let kind = fields.remove("kind").unwrap()["const"].clone();
            let fields = fields.keys().cloned();
            (kind.as_str().unwrap().to_owned(), fields.collect())
        })
        .collect()
}

fn all_cases() -> Vec<Case> {
    let mut cases = parts::cases();
    cases.extend(machines::cases());
    cases.extend(nodes::cases());
    cases.extend(cluster::cases());
    cases
}

#[test]
fn every_field_of_every_action_is_changed_by_a_case() {
    let mut changed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in all_cases() {
        let fields = changed.entry(case.kind()).or_default();
        fields.extend(case.changes.iter().map(|change| in_json(change.field)));
    }
    assert_eq!(changed, all_fields());
}

#[test]
fn a_change_of_parts_and_templates_changes_the_calls() {
    check(&parts::cases());
}

#[test]
fn a_change_of_machines_changes_the_calls() {
    check(&machines::cases());
}

#[test]
fn a_change_of_nodes_changes_the_calls() {
    check(&nodes::cases());
}

#[test]
fn a_change_of_the_cluster_changes_the_calls() {
    check(&cluster::cases());
}
