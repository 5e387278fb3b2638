//! The reference file: every field with its default and what it means.
//!
//! Made from the raw types and their JSON Schema, so that it cannot say anything else than they do.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::raw::{RawCluster, RawGroup, RawMachines, RawReference, RawSecret, RawSsh};
use crate::words::{Driver, Os, Role};

/// Where comments begin, when the line before them is short enough.
const COLUMN: usize = 36;

/// The reference file.
pub fn reference() -> String {
    let schema = crate::schema();
    let none = Map::new();
    let writer = Writer {
        definitions: schema
            .get("$defs")
            .and_then(Value::as_object)
            .unwrap_or(&none),
    };
    let mut text = String::from(
        "# Every field of cluster.yaml with its default. The smallest file is `machines: {linux: 1, windows: 1}`.\n\
         # Under `machines` the first group shows every field; the others show what they set.\n",
    );
    let value = serde_json::to_value(example()).unwrap_or_default();
    writer.fields(&mut text, 0, &value, &schema, Nothing::Shown);
    text
}

/// The defaults, with groups that show what machines can be.
fn example() -> RawCluster {
    let group = |name: &str, role| RawGroup {
        name: Some(name.into()),
        role: Some(role),
        ..RawGroup::default()
    };
    let control_plane = RawGroup {
        os: Some(Os::Linux),
        version: Some("12".into()),
        count: Some(1),
        driver: Some(Driver::Nspawn),
        cpus: Some(2),
        memory: Some("2GiB".into()),
        disk: Some("20GiB".into()),
        autostart: Some(true),
        ..group("cp", Role::ControlPlane)
    };
    let windows = RawGroup {
        os: Some(Os::Windows),
        version: Some("2022".into()),
        edition: Some("datacenter".into()),
        desktop: Some(false),
        count: Some(1),
        driver: Some(Driver::Wine),
        cpus: Some(4),
        memory: Some("6GiB".into()),
        disk: Some("60GiB".into()),
        ..group("win", Role::Worker)
    };
    let existing = RawGroup {
        os: Some(Os::Windows),
        version: Some("2022".into()),
        driver: Some(Driver::Ssh),
        addresses: vec!["192.0.2.10".into()],
        ssh: Some(RawSsh {
            user: Some("Administrator".into()),
            key: Some(RawSecret::Reference(RawReference {
                env: None,
                file: Some("~/.ssh/id_ed25519".into()),
            })),
            port: Some(22),
            ..RawSsh::default()
        }),
        ..group("old", Role::Worker)
    };
    RawCluster {
        api_version: Some(crate::API_VERSION.into()),
        kind: Some(crate::KIND.into()),
        machines: Some(RawMachines::Groups(vec![control_plane, windows, existing])),
        ..RawCluster::default()
    }
}

/// Whether fields that say nothing are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nothing {
    Shown,
    LeftOut,
}

struct Writer<'a> {
    definitions: &'a Map<String, Value>,
}

impl Writer<'_> {
    /// What a schema refers to, past `null` and the short form of machines.
    fn resolved<'b>(&'b self, schema: &'b Value) -> &'b Value {
        let reference = |schema: &'b Value| {
            let name = schema.get("$ref")?.as_str()?.trim_start_matches("#/$defs/");
            self.definitions.get(name)
        };
        let mut schema = schema;
        loop {
            let branches = schema.get("anyOf").and_then(Value::as_array);
            let first = branches.and_then(|branches| {
                branches
                    .iter()
                    .find(|branch| branch.get("type") != Some(&Value::from("null")))
            });
            match reference(schema).or(first) {
                Some(inner) => schema = inner,
                None => return schema,
            }
        }
    }

    fn fields(
        &self,
        text: &mut String,
        indent: usize,
        value: &Value,
        schema: &Value,
        nothing: Nothing,
    ) {
        let schema = self.resolved(schema);
        let empty = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        for (name, property) in properties {
            let inner = value.get(name).unwrap_or(&Value::Null);
            if nothing == Nothing::LeftOut && says_nothing(inner) {
                continue;
            }
            let meaning = match nothing {
                Nothing::Shown => property.get("description").and_then(Value::as_str),
                // The first group has said it already.
                Nothing::LeftOut => None,
            };
            self.field(text, indent, (name, meaning), inner, property);
        }
    }

    fn field(
        &self,
        text: &mut String,
        indent: usize,
        (name, meaning): (&str, Option<&str>),
        value: &Value,
        schema: &Value,
    ) {
        let blank = " ".repeat(indent);
        let meaning = meaning.unwrap_or_default();
        let items = value
            .as_array()
            .filter(|items| items.iter().any(Value::is_object));
        let is_block = indent == 0 && value.as_object().is_some_and(|map| !map.is_empty());
        if is_block {
            line(text, &format!("{blank}{name}:"), meaning);
            self.fields(text, indent + 2, value, schema, Nothing::Shown);
        } else if let Some(items) = items {
            line(text, &format!("{blank}{name}:"), meaning);
            let item_schema = self.resolved(schema).get("items").unwrap_or(&Value::Null);
            for (index, item) in items.iter().enumerate() {
                let nothing = if index == 0 {
                    Nothing::Shown
                } else {
                    Nothing::LeftOut
                };
                let mut block = String::new();
                self.fields(&mut block, indent + 4, item, item_schema, nothing);
                // The first field's indentation makes room for the dash.
                block.replace_range(indent + 2..indent + 3, "-");
                text.push_str(&block);
            }
        } else {
            let parts = self.parts(value, schema);
            line(
                text,
                &format!("{blank}{name}: {}", flow(value)),
                &format!("{meaning}{parts}"),
            );
        }
    }

    /// The fields of a value that is not there, for the comment.
    fn parts(&self, value: &Value, schema: &Value) -> String {
        if !says_nothing(value) {
            return String::new();
        }
        let schema = self.resolved(schema);
        let (schema, each) = match schema.get("items") {
            Some(items) => (self.resolved(items), "Each"),
            None => (schema, "As"),
        };
        match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => {
                let names: Vec<_> = properties.keys().map(|name| format!("{name}: …")).collect();
                format!(" {each} {{{}}}", names.join(", "))
            }
            None => String::new(),
        }
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn line(text: &mut String, field: &str, meaning: &str) {
    let meaning = meaning.replace('\n', " ");
    let _ = if meaning.is_empty() {
        writeln!(text, "{field}")
    } else {
        writeln!(text, "{field:<COLUMN$}  # {meaning}")
    };
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<_> = map
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| format!("{name}: {}", flow(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether a text needs no quotes: nobody would read it as a number, a truth value or punctuation.
fn is_plain(text: &str) -> bool {
    let word = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_./~".contains(&byte));
    word && !text.is_empty()
        && text != "~"
        && text.parse::<f64>().is_err()
        && !matches!(text, "true" | "false" | "null")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::draft::{Draft, Surroundings};
    use crate::source::Source;

    fn names(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(map) => {
                if let Some(Value::Object(properties)) = map.get("properties") {
                    found.extend(properties.keys().cloned());
                }
                map.values().for_each(|inner| names(inner, found));
            }
            Value::Array(items) => items.iter().for_each(|inner| names(inner, found)),
            _ => {}
        }
    }

    #[test]
    fn every_field_of_the_schema_is_in_it() {
        let text = reference();
        let mut found = BTreeSet::new();
        names(&crate::schema(), &mut found);
        let missing: Vec<_> = found
            .iter()
            .filter(|name| !text.contains(&format!("{name}:")))
            .collect();
        // The short form is in the heading, not among the fields.
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn it_is_a_sound_file() {
        let draft = Draft::read(
            Source::new("reference", reference()),
            &Surroundings::default(),
        );
        let verdict = draft.conclude();
        let messages: Vec<_> = verdict
            .findings
            .iter()
            .map(|located| located.finding.message.as_str())
            .collect();
        assert!(verdict.cluster.is_some(), "{messages:?}");
    }

    #[test]
    fn it_means_the_defaults() {
        let read = |text: &str| {
            let draft = Draft::read(Source::new("f", text), &Surroundings::default());
            draft.conclude().cluster.unwrap()
        };
        let machines = reference();
        let start = machines.find("\nmachines:").unwrap() + 1;
        let end = start + machines[start..].find("\nhosts:").unwrap();
        let bare = read(&machines[start..end]);
        assert_eq!(read(&reference()), bare);
    }
}
