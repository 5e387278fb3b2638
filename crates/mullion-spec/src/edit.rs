//! Changing the machines of a file in its text, which otherwise stays as it is.
//!
//! Pure: text in, text out. Values are changed where they stand; comments, quotes, order, blank lines and line ends are
//! the user's. What comes out is read again and compared before it is handed over: apart from the one change it says
//! what it said before, or nothing is changed at all.
//!
//! `count` is how many machines a group has and `skip` which numbers none of them has. So to remove the machine with the
//! highest number is to lower `count`; to remove another one also puts its number into `skip`, and the others keep their
//! names. To add is to raise `count`: numbers in `skip` stay unused.

mod splice;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::splice::Splices;
use crate::cluster::{Cluster, Duty, Group};
use crate::draft::{Draft, Surroundings};
use crate::finding::Severity;
use crate::source::{self, Kind, Mapping, Node, Source, Span};
use crate::value::{GroupName, MachineName};

/// Why a file's text was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// It cannot be read as it is.
    #[error("the file has mistakes")]
    Unreadable,
    /// There is no such group.
    #[error("the file has no group `{group}`")]
    NoGroup {
        /// What was asked for.
        group: GroupName,
        /// The groups of the file.
        known: Vec<String>,
    },
    /// There is no such machine.
    #[error("the file has no machine `{machine}`")]
    NoMachine {
        /// What was asked for.
        machine: MachineName,
        /// The machines of the file.
        known: Vec<String>,
    },
    /// The machines exist already: a number does not say where another one is.
    #[error("the machines of group `{group}` exist already, and are known by their addresses")]
    Addresses {
        /// The group.
        group: GroupName,
    },
    /// A group of machines that exist already would become one of machines that are made.
    #[error("machine `{machine}` has the only address of group `{group}`")]
    LastAddress {
        /// The machine.
        machine: MachineName,
        /// Its group.
        group: GroupName,
    },
    /// More machines than any cluster bears.
    #[error("group `{group}` would have {count} machines, and at most {MOST} can be")]
    TooMany {
        /// The group.
        group: GroupName,
        /// How many it would have.
        count: u64,
    },
    /// The short form has one control plane, always.
    #[error("the short form of `machines` has one control plane, which it does not name")]
    ShortControlPlane,
    /// The load balancer is there because of the control planes.
    #[error("machine `{machine}` is not in the file: it stands before the control planes")]
    LoadBalancer {
        /// The machine.
        machine: MachineName,
    },
    /// The text is written in a way that is not changed by programs.
    #[error("`{place}` in line {line} is written in a way that a program cannot change")]
    Form {
        /// What should have been changed.
        place: String,
        /// Where.
        line: usize,
    },
}

/// The most machines that a group takes.
const MOST: u32 = 20_000;

/// The text with more machines in a group.
pub fn add_machines(text: &str, group: &GroupName, more: u32) -> Result<String, EditError> {
    let file = File::read(text)?;
    let mut splices = Splices::of(text);
    let mut expected = file.numbers();
    let numbers = expected.entry(group.to_string()).or_default();
    let then = numbers.len() as u64 + u64::from(more);
    let then = u32::try_from(then)
        .ok()
        .filter(|then| *then <= MOST)
        .ok_or_else(|| EditError::TooMany {
            group: group.clone(),
            count: then,
        })?;
    if let Kind::Map(short) = &file.machines()?.kind {
        let key = match group.as_str() {
            "cp" => return Err(EditError::ShortControlPlane),
            name => short_key(name).ok_or_else(|| EditError::NoGroup {
                group: group.clone(),
                known: ["cp", "lin", "win"].map(String::from).into(),
            })?,
        };
        let behind = short.entries().last();
        splices.set(file.machines()?, key, &then.to_string(), behind);
        *numbers = (1..=then).collect();
    } else {
        let place = file.group(group)?;
        if !addresses(place.node).is_empty() {
            let group = group.clone();
            return Err(EditError::Addresses { group });
        }
        let behind = place.node.entry("name");
        splices.set(place.node, "count", &then.to_string(), behind);
        let skip = numbers_in(place.node.entry("skip").map(|entry| &entry.value));
        *numbers = (1..)
            .filter(|number| !skip.contains(number))
            .take(then as usize)
            .collect();
    }
    file.finish(splices, group, &expected, None)
}

/// The text without a machine.
pub fn remove_machine(text: &str, machine: &MachineName) -> Result<String, EditError> {
    let file = File::read(text)?;
    let (group, index) = file.machine(machine)?;
    let number = group.numbers[index];
    let is_last = index + 1 == group.numbers.len();
    let before = index.checked_sub(1).map_or(0, |at| group.numbers[at]);
    let left = group.numbers.len() - 1;
    let mut expected = file.numbers();
    let numbers = expected.entry(group.name.to_string()).or_default();
    numbers.retain(|other| *other != number);
    let mut splices = Splices::of(text);
    if let Kind::Map(short) = &file.machines()?.kind {
        let key = short_key(group.name.as_str()).ok_or(EditError::ShortControlPlane)?;
        if is_last {
            splices.set(file.machines()?, key, &left.to_string(), None);
        } else {
            splices.spell_out(file.machines()?, &spelled_out(short, key, left, number));
        }
        return file.finish(splices, &group.name, &expected, None);
    }
    let place = file.group(&group.name)?;
    let node = place.node;
    let mut kept = None;
    let listed = addresses(node);
    if listed.is_empty() {
        splices.set(node, "count", &left.to_string(), node.entry("name"));
    } else {
        if listed.len() == 1 {
            return Err(EditError::LastAddress {
                machine: machine.clone(),
                group: group.name.clone(),
            });
        }
        if node
            .entry("count")
            .is_some_and(|count| count.value.kind != Kind::Null)
        {
            splices.set(node, "count", &left.to_string(), None);
        }
        splices.remove_items(node.entry("addresses").map(|entry| &entry.value), &[index]);
        let others = listed.iter().enumerate().filter(|(at, _)| *at != index);
        kept = Some(others.map(|(_, address)| outline(address)).collect());
    }
    let skip = node.entry("skip").map(|entry| &entry.value);
    if is_last {
        // Numbers that were left out just below it are free again: nothing above them needs its name.
        let skipped = numbers_in(skip);
        let free: Vec<_> = (0..skipped.len())
            .filter(|at| (before + 1..number).contains(&skipped[*at]))
            .collect();
        splices.remove_items(skip, &free);
    } else {
        let behind = node.entry("count").or_else(|| node.entry("name"));
        splices.add_number(node, "skip", number, behind);
    }
    file.finish(splices, &group.name, &expected, kept)
}

/// The field of the short form that stands for a group.
fn short_key(group: &str) -> Option<&'static str> {
    match group {
        "lin" => Some("linux"),
        "win" => Some("windows"),
        _ => None,
    }
}

/// The groups that the entries of a short form stand for, without one machine.
fn spelled_out(short: &Mapping, changed: &str, left: usize, number: u32) -> Vec<String> {
    let entries = short.entries().iter();
    entries
        .map(|entry| {
            let head = if entry.key == "windows" {
                "name: win, os: windows"
            } else {
                "name: lin"
            };
            match &entry.value.kind {
                _ if entry.key == changed => format!("{{{head}, count: {left}, skip: [{number}]}}"),
                Kind::Scalar { text, .. } => format!("{{{head}, count: {text}}}"),
                _ => format!("{{{head}, count: 0}}"),
            }
        })
        .collect()
}

/// The first group of a file in the short form.
pub(crate) const CONTROL_PLANE: &str = "{name: cp, role: control-plane}";

/// The addresses of a group, as they stand.
fn addresses(group: &Node) -> &[Node] {
    match group.entry("addresses").map(|entry| &entry.value.kind) {
        Some(Kind::List(items)) => items,
        _ => &[],
    }
}

fn numbers_in(list: Option<&Node>) -> Vec<u32> {
    let Some(Kind::List(items)) = list.map(|list| &list.kind) else {
        return Vec::new();
    };
    items.iter().filter_map(number).collect()
}

fn number(node: &Node) -> Option<u32> {
    match &node.kind {
        Kind::Scalar { text, .. } => text.parse().ok(),
        _ => None,
    }
}

/// A file as it is read: its values with their places, and the cluster that they mean.
struct File {
    source: Source,
    root: Node,
    cluster: Cluster,
}

/// A group of the file.
struct GroupNode<'a> {
    node: &'a Node,
    index: usize,
}

impl File {
    fn read(text: &str) -> Result<Self, EditError> {
        let source = Source::new("the file", text);
        let (root, findings) = source::parse(&source);
        let is_broken = findings
            .said()
            .iter()
            .any(|finding| finding.severity == Severity::Error);
        let draft = Draft::read(source.clone(), &Surroundings::default());
        match (root, draft.provisional()) {
            (Some(root), Some(cluster)) if !is_broken => Ok(Self {
                source,
                root,
                cluster: cluster.clone(),
            }),
            _ => Err(EditError::Unreadable),
        }
    }

    fn machines(&self) -> Result<&Node, EditError> {
        let entry = self.root.entry("machines").ok_or(EditError::Unreadable)?;
        Ok(&entry.value)
    }

    /// The groups that the file has, without the one that follows from them.
    fn groups(&self) -> impl Iterator<Item = &Group> {
        let groups = self.cluster.groups.iter();
        groups.filter(|group| group.duty != Duty::LoadBalancer)
    }

    /// The numbers of every group that has any.
    fn numbers(&self) -> BTreeMap<String, Vec<u32>> {
        let groups = self.groups().filter(|group| !group.numbers.is_empty());
        groups
            .map(|group| (group.name.to_string(), group.numbers.clone()))
            .collect()
    }

    fn group(&self, name: &GroupName) -> Result<GroupNode<'_>, EditError> {
        let items = match &self.machines()?.kind {
            Kind::List(items) => items.as_slice(),
            _ => &[],
        };
        let is_named = |node: &&Node| match node.entry("name").map(|entry| &entry.value.kind) {
            Some(Kind::Scalar { text, .. }) => text == name.as_str(),
            _ => false,
        };
        match items.iter().position(|node| is_named(&node)) {
            Some(index) => Ok(GroupNode {
                node: &items[index],
                index,
            }),
            None => Err(EditError::NoGroup {
                group: name.clone(),
                known: self.groups().map(|group| group.name.to_string()).collect(),
            }),
        }
    }

    /// The group of a machine, and the machine's place in it.
    fn machine(&self, name: &MachineName) -> Result<(&Group, usize), EditError> {
        let found = self.cluster.groups.iter().find_map(|group| {
            let index = group.machines().position(|machine| machine.name == *name)?;
            Some((group, index))
        });
        match found {
            Some((group, _)) if group.duty == Duty::LoadBalancer => Err(EditError::LoadBalancer {
                machine: name.clone(),
            }),
            Some(found) => Ok(found),
            None => Err(EditError::NoMachine {
                machine: name.clone(),
                known: self
                    .groups()
                    .flat_map(Group::machines)
                    .map(|machine| machine.name.to_string())
                    .collect(),
            }),
        }
    }

    /// The changed text, where it says what it should and nothing else.
    fn finish(
        &self,
        splices: Splices<'_>,
        group: &GroupName,
        expected: &BTreeMap<String, Vec<u32>>,
        addresses: Option<Vec<Value>>,
    ) -> Result<String, EditError> {
        let machines = self.root.entry("machines");
        let index = self.group(group).ok().map(|place| place.index);
        let place = index.map_or_else(|| "machines".into(), |index| format!("machines[{index}]"));
        let start = match (&machines.map(|entry| &entry.value.kind), index) {
            (Some(Kind::List(items)), Some(index)) => items[index].span.start,
            _ => machines.map_or(0, |entry| entry.key_span.start),
        };
        let failed = || EditError::Form {
            place: place.clone(),
            line: self.source.position(start).line,
        };
        let text = splices.apply().ok_or_else(failed)?;
        let after = Self::read(&text).map_err(|_| failed())?;
        let mut wanted = expected.clone();
        wanted.retain(|_, numbers| !numbers.is_empty());
        let kept = addresses.map(Value::Array);
        let is_right = after.numbers() == wanted
            && after.rest(index) == self.rest(index)
            && kept.is_none_or(|kept| after.addresses(index) == Some(kept));
        if is_right { Ok(text) } else { Err(failed()) }
    }

    fn addresses(&self, index: Option<usize>) -> Option<Value> {
        let Kind::List(items) = &self.machines().ok()?.kind else {
            return None;
        };
        Some(
            items
                .get(index?)?
                .entry("addresses")
                .map_or(Value::Null, |entry| outline(&entry.value)),
        )
    }

    /// Everything that the file says besides what a change of that group is about.
    fn rest(&self, index: Option<usize>) -> Value {
        let mut whole = outline(&self.root);
        match index.and_then(|index| whole["machines"].get_mut(index)) {
            Some(Value::Object(group)) => {
                for field in ["count", "skip", "addresses"] {
                    group.remove(field);
                }
            }
            // The short form says nothing but numbers, and those are compared by themselves.
            _ => whole["machines"] = Value::Null,
        }
        whole
    }
}

/// What a value says, wherever it stands.
fn outline(node: &Node) -> Value {
    match &node.kind {
        Kind::Null | Kind::Unread => Value::Null,
        Kind::Scalar { text, quoted } => json!([text, quoted]),
        Kind::List(items) => items.iter().map(outline).collect(),
        Kind::Map(mapping) => {
            let entries = mapping.entries().iter();
            let entries = entries.map(|entry| (entry.key.clone(), outline(&entry.value)));
            Value::Object(entries.collect())
        }
    }
}

/// From a key's beginning to its value's end.
pub(crate) fn whole(entry: &source::Entry) -> Span {
    Span {
        start: entry.key_span.start,
        end: entry.value.span.end.max(entry.key_span.end),
    }
}

#[cfg(test)]
mod tests;
