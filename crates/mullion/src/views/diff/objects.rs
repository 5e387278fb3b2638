//! How the objects of one set differ from what the cluster has, as text.

use std::borrow::Cow;
use std::fmt::Write as _;

use mullion_kube::{FieldDifference, HIDDEN, ObjectChange, ObjectDifference};
use mullion_spec::render::Colour;
use serde_json::Value;

use super::unified::{TextSide, painted, shown, unified};
use crate::console::{BAD, GOOD, STRONG, WARN};

/// Everything that differs of a set, in the order in which `up` applies it.
pub fn set_text(set: &str, differences: &[ObjectDifference], colour: Colour) -> String {
    let count = match differences.len() {
        0 => "no difference".to_owned(),
        1 => "1 object differs".to_owned(),
        count => format!("{count} objects differ"),
    };
    let heading = format!("set {}: {count}", shown(set));
    let mut out = format!("{}\n", painted(colour, STRONG, &heading));
    for difference in differences {
        let (word, style) = match difference.change {
            ObjectChange::New => ("new", GOOD),
            ObjectChange::Changed => ("changed", WARN),
            ObjectChange::Removed => ("removed", BAD),
        };
        let object = object(difference);
        // Writing into a string cannot fail.
        let _ = writeln!(out, "{}: {}", shown(&object), painted(colour, style, word));
        for field in &difference.fields {
            out.push_str(&field_text(&object, difference.change, field, colour));
        }
    }
    out
}

/// An object by its kind, namespace and name.
fn object(difference: &ObjectDifference) -> String {
    let ObjectDifference {
        kind,
        namespace,
        name,
        ..
    } = difference;
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// One field: a unified diff of what has several lines, one line of everything else.
fn field_text(
    object: &str,
    change: ObjectChange,
    field: &FieldDifference,
    colour: Colour,
) -> String {
    let (before, after) = (lines(field.before.as_ref()), lines(field.after.as_ref()));
    let has_lines = |text: &Cow<'_, str>| text.lines().count() > 1;
    if has_lines(&before) || has_lines(&after) {
        let now = if change == ObjectChange::New {
            "absent"
        } else {
            "now"
        };
        let now = format!("{object}: {} ({now})", field.path);
        let later = format!("{object}: {} (after)", field.path);
        return unified(
            TextSide {
                header: &now,
                text: &before,
            },
            TextSide {
                header: &later,
                text: &after,
            },
            colour,
        );
    }
    let is_hidden = |value: &Option<Value>| value.as_ref().is_some_and(|value| value == HIDDEN);
    let words = if is_hidden(&field.before) && is_hidden(&field.after) {
        format!("{HIDDEN}, differs")
    } else {
        let side = |value: &Option<Value>, absent: &str| match value {
            Some(value) => shown(&value.to_string()).into_owned(),
            None => absent.to_owned(),
        };
        match change {
            ObjectChange::New => side(&field.after, "absent"),
            _ => format!(
                "{} → {}",
                side(&field.before, "absent"),
                side(&field.after, "removed")
            ),
        }
    };
    format!("  {}: {words}\n", shown(&field.path))
}

/// A value as lines: text as it is, a map or a list of any size as JSON.
fn lines(value: Option<&Value>) -> Cow<'_, str> {
    let is_long = |value: &Value| match value {
        Value::Object(_) => true,
        // A list of a few words stays on its line.
        Value::Array(items) => items.iter().any(|item| item.is_array() || item.is_object()),
        _ => false,
    };
    match value {
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(value) if is_long(value) => {
            // It came as JSON.
            let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
            text.push('\n');
            Cow::Owned(text)
        }
        _ => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn difference(change: ObjectChange, fields: Vec<FieldDifference>) -> ObjectDifference {
        ObjectDifference {
            api_version: "apps/v1".into(),
            kind: "DaemonSet".into(),
            namespace: Some("kube-flannel".into()),
            name: "flannel".into(),
            change,
            fields,
        }
    }

    fn field(path: &str, before: Value, after: Value) -> FieldDifference {
        let some = |value: Value| (!value.is_null()).then_some(value);
        FieldDifference {
            path: path.into(),
            before: some(before),
            after: some(after),
        }
    }

    #[test]
    fn fields_are_lines_and_texts_of_several_lines_are_diffs() {
        let text = set_text(
            "network-flannel",
            &[
                difference(
                    ObjectChange::Changed,
                    vec![
                        field("spec.image", json!("a:1"), json!("a:2")),
                        field("spec.args", json!(["a"]), json!(["a", "b"])),
                        field("spec.old", json!(true), Value::Null),
                        field("data.token", json!(HIDDEN), json!(HIDDEN)),
                        field("data[\"conf\"]", json!("a\nb\n"), json!("a\nc\n")),
                    ],
                ),
                difference(
                    ObjectChange::New,
                    vec![
                        field("spec.replicas", Value::Null, json!(1)),
                        field("spec.template", Value::Null, json!({"a": 1})),
                    ],
                ),
                difference(ObjectChange::Removed, vec![]),
            ],
            Colour::Plain,
        );
        assert_eq!(
            text,
            "set network-flannel: 3 objects differ\n\
             DaemonSet kube-flannel/flannel: changed\n  \
               spec.image: \"a:1\" → \"a:2\"\n  \
               spec.args: [\"a\"] → [\"a\",\"b\"]\n  \
               spec.old: true → removed\n  \
               data.token: (hidden), differs\n\
             --- DaemonSet kube-flannel/flannel: data[\"conf\"] (now)\n\
             +++ DaemonSet kube-flannel/flannel: data[\"conf\"] (after)\n\
             @@ -1,2 +1,2 @@\n a\n-b\n+c\n\
             DaemonSet kube-flannel/flannel: new\n  \
               spec.replicas: 1\n\
             --- DaemonSet kube-flannel/flannel: spec.template (absent)\n\
             +++ DaemonSet kube-flannel/flannel: spec.template (after)\n\
             @@ -0,0 +1,3 @@\n+{\n+  \"a\": 1\n+}\n\
             DaemonSet kube-flannel/flannel: removed\n"
        );
        assert_eq!(
            set_text("dns", &[], Colour::Plain),
            "set dns: no difference\n"
        );
        let one = set_text(
            "dns",
            &[difference(ObjectChange::Removed, vec![])],
            Colour::Plain,
        );
        assert!(one.starts_with("set dns: 1 object differs\n"), "{one}");
    }

    #[test]
    fn promise_12_objects_show_what_they_hide() {
        let hostile = "a\u{1b}[2J\u{202e}";
        let text = set_text(
            hostile,
            &[difference(
                ObjectChange::Changed,
                vec![
                    field(hostile, json!(hostile), json!("\u{9b}0m")),
                    field("b", json!("x\n\u{9b}y\n"), json!("x\n")),
                ],
            )],
            Colour::Plain,
        );
        for letter in ['\u{1b}', '\u{202e}', '\u{9b}'] {
            assert!(!text.contains(letter), "{text:?}");
        }
    }
}
