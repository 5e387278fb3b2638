//! From JSON Schema to a [`Shape`].

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::{Field, Shape};

/// The shape of the whole file.
pub(super) fn file() -> &'static Shape {
    static SHAPE: OnceLock<Shape> = OnceLock::new();
    SHAPE.get_or_init(|| {
        let schema = crate::schema();
        let none = Map::new();
        let definitions = schema
            .get("$defs")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        compile(&schema, definitions)
    })
}

fn compile(schema: &Value, definitions: &Map<String, Value>) -> Shape {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.trim_start_matches("#/$defs/");
        return definitions
            .get(name)
            .map_or(Shape::Any, |definition| compile(definition, definitions));
    }
    if let Some(only) = schema.get("const").and_then(Value::as_str) {
        // The rule about versions has better words than the shape could find.
        let _ = only;
        return Shape::Optional(Box::new(Shape::Text));
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(several).and_then(Value::as_array) {
            return either(branches, definitions);
        }
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words = words.iter().filter_map(Value::as_str).map(Into::into);
        return Shape::Word(words.collect());
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let Some(kind) = kinds.iter().find(|kind| **kind != "null") else {
        return Shape::Any;
    };
    let shape = plain(kind, schema, definitions);
    if kinds.contains(&"null") {
        Shape::Optional(Box::new(shape))
    } else {
        shape
    }
}

fn plain(kind: &str, schema: &Value, definitions: &Map<String, Value>) -> Shape {
    match kind {
        "boolean" => Shape::Truth,
        "integer" => {
            let limit =
                |name: &str, other: i64| schema.get(name).and_then(Value::as_i64).unwrap_or(other);
            let most = match schema.get("format").and_then(Value::as_str) {
                Some("uint8") => i64::from(u8::MAX),
                Some("uint16") => i64::from(u16::MAX),
                _ => i64::from(u32::MAX),
            };
            Shape::Number {
                least: limit("minimum", 0),
                most: limit("maximum", most),
            }
        }
        "string" => Shape::Text,
        "array" => Shape::List(Box::new(
            schema
                .get("items")
                .map_or(Shape::Any, |items| compile(items, definitions)),
        )),
        "object" => match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => {
                let required: Vec<&str> = schema
                    .get("required")
                    .and_then(Value::as_array)
                    .map(|names| names.iter().filter_map(Value::as_str).collect())
                    .unwrap_or_default();
                Shape::Fields(
                    properties
                        .iter()
                        .map(|(name, schema)| {
                            let field = Field {
                                shape: compile(schema, definitions),
                                required: required.contains(&name.as_str()),
                            };
                            (name.clone(), field)
                        })
                        .collect(),
                )
            }
            None => Shape::Map(Box::new(match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => compile(values, definitions),
                _ => Shape::Any,
            })),
        },
        _ => Shape::Any,
    }
}

fn either(branches: &[Value], definitions: &Map<String, Value>) -> Shape {
    let is_null = |branch: &&Value| branch.get("type").and_then(Value::as_str) == Some("null");
    let words: Vec<String> = branches
        .iter()
        .filter_map(|branch| branch.get("const").and_then(Value::as_str))
        .map(Into::into)
        .collect();
    let shape = if words.len() == branches.len() {
        Shape::Word(words)
    } else {
        let mut shapes: Vec<_> = branches
            .iter()
            .filter(|branch| !is_null(branch))
            .map(|branch| compile(branch, definitions))
            .collect();
        if shapes.len() == 1 {
            shapes.remove(0)
        } else {
            Shape::Either(shapes)
        }
    };
    if branches.iter().any(|branch| is_null(&branch)) {
        Shape::Optional(Box::new(shape))
    } else {
        shape
    }
}
