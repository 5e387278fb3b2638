//! The leaves of the schema, by their paths, and how a value is put at one.

use serde_json::{Map, Value};

/// The paths of all leaves: `network.vni`, `machines[].cpus`.
pub(crate) fn leaves(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(schema, schema, "", &mut found);
    found.sort();
    found.dedup();
    found
}

fn walk(root: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.trim_start_matches("#/$defs/");
        return walk(root, &root["$defs"][name], path, found);
    }
    let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    if let Some(choices) = choices {
        // Words of a set are constants: the set is one leaf.
        if choices.iter().any(|choice| choice.get("const").is_some()) {
            found.push(path.to_owned());
            return;
        }
        for choice in choices.iter().filter(|choice| choice["type"] != "null") {
            walk(root, choice, path, found);
        }
        return;
    }
    if let Some(fields) = schema["properties"].as_object() {
        for (name, field) in fields {
            let dot = if path.is_empty() { "" } else { "." };
            walk(root, field, &format!("{path}{dot}{name}"), found);
        }
        return;
    }
    let items = &schema["items"];
    let of_items = items["$ref"]
        .as_str()
        .map(|name| &root["$defs"][name.trim_start_matches("#/$defs/")]);
    match of_items {
        Some(item) if item.get("properties").is_some() => {
            walk(root, items, &format!("{path}[]"), found);
        }
        _ => found.push(path.to_owned()),
    }
}

/// The group of a base whose fields are changed.
const GROUP: usize = 1;

/// Puts a value at a path; what lies on the way is made. Of lists the first entry is meant, of groups the second.
pub(crate) fn set(at: &mut Value, path: &str, value: Value) {
    let (word, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, is_list) = word
        .strip_suffix("[]")
        .map_or((word, false), |name| (name, true));
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    let mut below = &mut at[name];
    if is_list {
        let place = if name == "machines" { GROUP } else { 0 };
        if !below.is_array() {
            *below = Value::Array(Vec::new());
        }
        let list = below.as_array_mut().unwrap();
        while list.len() <= place {
            list.push(Value::Null);
        }
        below = &mut list[place];
    }
    if rest.is_empty() {
        *below = value;
    } else {
        set(below, rest, value);
    }
}
