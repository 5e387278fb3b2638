//! How one object differs from another, field by field.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// One field that differs.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldDifference {
    /// Where it is: `spec.template.spec.containers[name=kube-flannel].image`. A list whose items are the same in another
    /// order ends in `(order)`.
    pub path: String,
    /// What is there now; none where the field is not there. A value of a `Secret` is [`HIDDEN`].
    pub before: Option<Value>,
    /// What will be there; none where the field goes. A value of a `Secret` is [`HIDDEN`], also where it changes.
    pub after: Option<Value>,
}

/// What stands in place of a value of a `Secret`.
pub const HIDDEN: &str = "(hidden)";

/// Fields that hold whole files. The comparison lists each file, even if the whole map is added or removed.
const OF_FILES: &[&str] = &["binaryData", "data", "stringData"];

/// Fields of an object's metadata that the API server keeps itself.
const OF_SERVER: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// What an object is found by: it is the same on both sides.
const IDENTITY: &[&str] = &["name", "namespace"];

/// Fields by which items of a list are known again. The first that all items have, each with another value, counts.
const ITEM_KEYS: &[&str] = &[
    "name",
    "mountPath",
    "devicePath",
    "containerPort",
    "port",
    "ip",
    "topologyKey",
    "type",
    "uid",
];

/// Every field in which two objects differ, save what the API server keeps itself. None stands for an object that is
/// not there.
pub(crate) fn differences(before: Option<&Value>, after: Option<&Value>) -> Vec<FieldDifference> {
    let is_secret = [before, after]
        .into_iter()
        .flatten()
        .any(|object| object["kind"] == "Secret" && object["apiVersion"] == "v1");
    let (before, after) = (shown(before), shown(after));
    let mut found = Vec::new();
    // The metadata of an object that is not there has fields that differ, too.
    maps("", &before, &after, &mut found);
    if is_secret {
        found.iter_mut().for_each(hide);
    }
    found
}

/// An object without what is not compared.
fn shown(object: Option<&Value>) -> Map<String, Value> {
    let mut object = object
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    for field in ["apiVersion", "kind", "status"] {
        object.remove(field);
    }
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        for field in OF_SERVER.iter().chain(IDENTITY) {
            metadata.remove(*field);
        }
        metadata.retain(|_, value| !value.is_null());
    }
    object
}

/// Takes the values of a secret away, and whatever may repeat them.
fn hide(difference: &mut FieldDifference) {
    let hide: fn(&mut Value) = match difference.path.as_str() {
        "data" | "stringData" | "metadata.annotations" => hide_values,
        path if ["data", "stringData", "metadata.annotations"]
            .iter()
            .any(|field| {
                path.starts_with(&format!("{field}.")) || path.starts_with(&format!("{field}["))
            }) =>
        {
            |value| *value = HIDDEN.into()
        }
        _ => return,
    };
    for value in [&mut difference.before, &mut difference.after]
        .into_iter()
        .flatten()
    {
        hide(value);
    }
}

fn hide_values(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| *value = HIDDEN.into()),
        value => *value = HIDDEN.into(),
    }
}

fn maps(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<FieldDifference>,
) {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for key in keys {
        values(&below(path, key), before.get(key), after.get(key), found);
    }
}

fn values(
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    found: &mut Vec<FieldDifference>,
) {
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            maps(path, before, after, found);
        }
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.iter().chain(after).all(Value::is_object) =>
        {
            lists(path, before, after, found);
        }
        (None, Some(Value::Object(after))) if OF_FILES.contains(&path) => {
            maps(path, &Map::new(), after, found);
        }
        (Some(Value::Object(before)), None) if OF_FILES.contains(&path) => {
            maps(path, before, &Map::new(), found);
        }
        (before, after) => found.push(FieldDifference {
            path: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

/// Compares lists of objects: by what their items are known by, otherwise by their places.
fn lists(path: &str, before: &[Value], after: &[Value], found: &mut Vec<FieldDifference>) {
    let Some(key) = ITEM_KEYS
        .iter()
        .find(|key| is_key(key, before) && is_key(key, after))
    else {
        for place in 0..before.len().max(after.len()) {
            let path = format!("{path}[{place}]");
            values(&path, before.get(place), after.get(place), found);
        }
        return;
    };
    let start = found.len();
    let of = |list: &[Value], item: &Value| list.iter().find(|other| other[key] == *item).cloned();
    let new = after.iter().filter(|item| of(before, &item[key]).is_none());
    for item in before.iter().chain(new) {
        let name = &item[key];
        let shown = name
            .as_str()
            .map_or_else(|| name.to_string(), str::to_owned);
        let path = format!("{path}[{key}={shown}]");
        let (before, after) = (of(before, name), of(after, name));
        values(&path, before.as_ref(), after.as_ref(), found);
    }
    let names = |list: &[Value]| -> Value { list.iter().map(|item| item[key].clone()).collect() };
    if found.len() == start {
        found.push(FieldDifference {
            path: format!("{path} (order)"),
            before: Some(names(before)),
            after: Some(names(after)),
        });
    }
}

/// Whether each item of a list has the field, with a plain value that no other item has.
fn is_key(key: &str, list: &[Value]) -> bool {
    let mut seen = BTreeSet::new();
    list.iter().all(|item| {
        let value = &item[key];
        (value.is_string() || value.is_number()) && seen.insert(value.to_string())
    })
}

/// The path of a field below another.
fn below(path: &str, key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if key.is_empty() || !key.bytes().all(is_plain) {
        // Keys of labels, annotations and files have dots and slashes of their own.
        return format!("{path}[{key:?}]");
    }
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(before: &Value, after: &Value) -> Vec<String> {
        lines(&differences(Some(before), Some(after)))
    }

    fn lines(found: &[FieldDifference]) -> Vec<String> {
        let value = |value: &Option<Value>| value.as_ref().map_or("-".into(), Value::to_string);
        found
            .iter()
            .map(|field| {
                let (before, after) = (value(&field.before), value(&field.after));
                format!("{}: {before} -> {after}", field.path)
            })
            .collect()
    }

    #[test]
    fn a_field_is_named_by_its_way_through_maps_and_lists() {
        let daemons = |image: &str, args: &[&str]| {
            json!({"spec": {"template": {"spec": {"containers": [
                {"name": "other", "image": "same"},
                {"name": "kube-flannel", "image": image, "args": args},
            ]}}}})
        };
        assert_eq!(
            told(&daemons("a:1", &["x"]), &daemons("a:2", &["x", "y"])),
            [
                r#"spec.template.spec.containers[name=kube-flannel].args: ["x"] -> ["x","y"]"#,
                r#"spec.template.spec.containers[name=kube-flannel].image: "a:1" -> "a:2""#,
            ]
        );
        assert!(told(&daemons("a:1", &[]), &daemons("a:1", &[])).is_empty());
    }

    #[test]
    fn items_come_go_and_change_places() {
        let list = |names: &[&str]| {
            let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"volumes": items}})
        };
        assert_eq!(
            told(&list(&["a", "b"]), &list(&["b", "c"])),
            [
                r#"spec.volumes[name=a]: {"name":"a"} -> -"#,
                r#"spec.volumes[name=c]: - -> {"name":"c"}"#,
            ]
        );
        assert_eq!(
            told(&list(&["a", "b"]), &list(&["b", "a"])),
            [r#"spec.volumes (order): ["a","b"] -> ["b","a"]"#]
        );
        let rules = |verbs: &[&str]| json!({"rules": [{"verbs": ["get"]}, {"verbs": verbs}]});
        assert_eq!(
            told(&rules(&["get"]), &rules(&["list"])),
            [r#"rules[1].verbs: ["get"] -> ["list"]"#]
        );
    }

    #[test]
    fn what_the_api_server_keeps_itself_is_not_compared() {
        let object = |number: u8| {
            json!({
                "metadata": {
                    "name": "a", "resourceVersion": number.to_string(), "generation": number,
                    "uid": number, "managedFields": [number], "creationTimestamp": number,
                    "labels": {"example.org/a": "b"},
                },
                "status": {"number": number},
            })
        };
        assert!(told(&object(1), &object(2)).is_empty());
        let mut other = object(2);
        other["metadata"]["labels"]["example.org/a"] = "c".into();
        assert_eq!(
            told(&object(1), &other),
            [r#"metadata.labels["example.org/a"]: "b" -> "c""#]
        );
        let new = differences(None, Some(&object(1)));
        assert_eq!(
            lines(&new),
            [r#"metadata.labels: - -> {"example.org/a":"b"}"#]
        );
    }

    #[test]
    fn values_of_secrets_are_hidden_and_still_differ() {
        let secret = |value: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"annotations": {"last": value}},
                "data": {"tls.key": value, "same": "c2FtZQ=="}, "stringData": {"plain": value},
            })
        };
        let found = differences(Some(&secret("uno")), Some(&secret("due")));
        assert_eq!(
            lines(&found),
            [
                r#"data["tls.key"]: "(hidden)" -> "(hidden)""#,
                r#"metadata.annotations.last: "(hidden)" -> "(hidden)""#,
                r#"stringData.plain: "(hidden)" -> "(hidden)""#,
            ]
        );
        let new = differences(None, Some(&secret("uno")));
        assert_eq!(
            lines(&new)[..2],
            [
                r#"data.same: - -> "(hidden)""#,
                r#"data["tls.key"]: - -> "(hidden)""#,
            ]
        );
        let new = format!("{new:?}");
        assert!(!new.contains("uno") && !new.contains("c2FtZQ"), "{new}");
        let gone = format!("{:?}", differences(Some(&secret("uno")), None));
        assert!(!gone.contains("uno"), "{gone}");
    }
}
