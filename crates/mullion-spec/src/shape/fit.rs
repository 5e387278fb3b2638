//! Holding a tree of values against the file's shape.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::{Field, Shape, compile, nearest, quoted};
use crate::finding::{Finding, Findings, Place};
use crate::rules::shape as rule;
use crate::source::{Kind, Node, Path, PathSet, Segment};

/// What fits the shape.
#[derive(Debug)]
pub struct Fitted {
    /// The values that fit, ready to become raw types.
    pub value: Value,
    /// What was found before, and what does not fit.
    pub findings: Findings,
    /// The values that were left out.
    pub left_out: PathSet,
}

/// Holds a file's values against its shape; what is found is added to what was found before.
pub fn fit(root: &Node, findings: Findings) -> Fitted {
    let mut fitter = Fitter {
        findings,
        left_out: PathSet::default(),
    };
    let value = fitter
        .fit(root, compile::file(), &mut Path::top())
        .unwrap_or_else(|| Value::Object(Map::new()));
    Fitted {
        value,
        findings: fitter.findings,
        left_out: fitter.left_out,
    }
}

/// The one field here below which there is a field of that name.
fn home<'a>(key: &str, fields: &'a BTreeMap<String, Field>) -> Option<&'a str> {
    let mut homes = fields
        .iter()
        .filter(|(_, field)| field.shape.has_field(key));
    let (home, _) = homes.next()?;
    homes.next().is_none().then_some(home)
}

struct Fitter {
    findings: Findings,
    left_out: PathSet,
}

impl Fitter {
    /// The value, or none where it does not fit or says nothing.
    fn fit(&mut self, node: &Node, shape: &Shape, path: &mut Path) -> Option<Value> {
        match (shape, &node.kind) {
            (_, Kind::Unread) => {
                self.left_out.insert(path);
                None
            }
            (Shape::Optional(_), Kind::Null) => Some(Value::Null),
            (Shape::Optional(shape), _) => self.fit(node, shape, path),
            // A key without a value takes the default, as if the line were not there.
            (_, Kind::Null) if path.segments().is_empty() => None,
            (Shape::Fields(_) | Shape::Map(_) | Shape::List(_), Kind::Null) | (Shape::Any, _) => {
                None
            }
            (Shape::Either(shapes), _) => self.fit_either(node, shapes, path),
            (Shape::Fields(fields), Kind::Map(mapping)) => {
                let mut fitted = Map::new();
                for entry in mapping.entries() {
                    path.enter(Segment::Key(entry.key.clone()));
                    if let Some(field) = fields.get(&entry.key) {
                        if let Some(value) = self.fit(&entry.value, &field.shape, path) {
                            fitted.insert(entry.key.clone(), value);
                        }
                    } else {
                        self.unknown(&entry.key, fields, path);
                    }
                    path.leave();
                }
                for (name, field) in fields.iter().filter(|(_, field)| field.required) {
                    let is_said = node
                        .entry(name)
                        .is_some_and(|entry| entry.value.kind != Kind::Null);
                    // A slip in its name was reported as such.
                    let is_misspelt = || {
                        let unknown = mapping.entries().iter();
                        unknown
                            .filter(|entry| !fields.contains_key(&entry.key))
                            .any(|entry| nearest(&entry.key, [name.as_str()]).is_some())
                    };
                    if !is_said && is_misspelt() {
                        self.left_out.insert(&path.key(name));
                    } else if !is_said {
                        self.missing(name, &field.shape, path);
                    }
                }
                Some(Value::Object(fitted))
            }
            (Shape::Map(shape), Kind::Map(mapping)) => {
                let mut fitted = Map::new();
                for entry in mapping.entries() {
                    path.enter(Segment::Key(entry.key.clone()));
                    if let Some(value) = self.fit(&entry.value, shape, path) {
                        fitted.insert(entry.key.clone(), value);
                    }
                    path.leave();
                }
                Some(Value::Object(fitted))
            }
            (Shape::List(shape), Kind::List(items)) => Some(Value::Array(
                items
                    .iter()
                    .enumerate()
                    // A place in the list is kept even when what stands there does not fit, so that
                    // the places of its neighbours stay true.
                    .map(|(index, item)| {
                        path.enter(Segment::Index(index));
                        let fitted = self.fit_item(item, shape, path);
                        path.leave();
                        fitted.unwrap_or_else(|| stand_in(shape))
                    })
                    .collect(),
            )),
            (Shape::Text, Kind::Scalar { text, .. }) => Some(Value::String(text.clone())),
            (Shape::Word(words), Kind::Scalar { text, .. }) => {
                if words.contains(text) {
                    Some(Value::String(text.clone()))
                } else {
                    self.unknown_word(text, words, path)
                }
            }
            (
                Shape::Truth,
                Kind::Scalar {
                    text,
                    quoted: false,
                },
            ) => match text.as_str() {
                "true" | "True" | "TRUE" => Some(Value::Bool(true)),
                "false" | "False" | "FALSE" => Some(Value::Bool(false)),
                _ => self.misfit(node, shape, path),
            },
            (
                Shape::Number { least, most },
                Kind::Scalar {
                    text,
                    quoted: false,
                },
            ) => match text.parse::<i64>() {
                // Some read such a number as octal.
                Ok(_) if has_leading_zeros(text) => self.misfit(node, shape, path),
                Ok(number) if (*least..=*most).contains(&number) => {
                    Some(Value::Number(Number::from(number)))
                }
                Ok(number) => self.leave_out(path, || {
                    Finding::new(&rule::OUT_OF_RANGE, path.clone()).message(format!(
                        "`{path}` is {number}, and must be from {least} to {most}"
                    ))
                }),
                Err(_) => self.misfit(node, shape, path),
            },
            _ => self.misfit(node, shape, path),
        }
    }

    /// Takes the shape that the value was probably meant to have.
    fn fit_either(&mut self, node: &Node, shapes: &[Shape], path: &mut Path) -> Option<Value> {
        let meant = shapes.iter().find(|shape| {
            matches!(
                (shape, &node.kind),
                (Shape::Fields(_) | Shape::Map(_), Kind::Map(_))
                    | (Shape::List(_), Kind::List(_))
                    | (Shape::Text, Kind::Scalar { .. })
            )
        });
        match meant {
            Some(shape) => self.fit(node, shape, path),
            None => self.misfit(node, &Shape::Either(shapes.to_vec()), path),
        }
    }

    /// An item of a list, which has no default to fall back on: nothing is no item.
    fn fit_item(&mut self, node: &Node, shape: &Shape, path: &mut Path) -> Option<Value> {
        if node.kind == Kind::Null && !matches!(shape, Shape::Optional(_)) {
            return self.misfit(node, shape, path);
        }
        self.fit(node, shape, path)
    }

    fn leave_out<T>(&mut self, path: &Path, finding: impl FnOnce() -> Finding) -> Option<T> {
        self.findings.push_error(finding);
        self.left_out.insert(path);
        None
    }

    fn misfit<T>(&mut self, node: &Node, shape: &Shape, path: &Path) -> Option<T> {
        self.leave_out(path, || {
            let whole = path.segments().is_empty();
            let subject = if whole {
                "the file".into()
            } else {
                format!("`{path}`")
            };
            let finding = Finding::new(&rule::WRONG_TYPE, path.clone()).message(format!(
                "{subject} must be {}, not {}",
                shape.noun(),
                node.noun()
            ));
            if let Some(hint) = hint(node, shape) {
                finding.hint(hint)
            } else if whole {
                finding.hint("write at least `machines: {linux: 1, windows: 1}`")
            } else {
                finding
            }
        })
    }

    fn unknown(&mut self, key: &str, fields: &BTreeMap<String, Field>, path: &Path) {
        self.findings.push_error(|| {
            let finding = Finding::new(&rule::UNKNOWN_FIELD, Place::Key(path.clone()))
                .message(format!("there is no field `{path}`"));
            if let Some(meant) = nearest(key, fields.keys().map(String::as_str)) {
                finding
                    .label(format!("did you mean `{meant}`?"))
                    .hint(format!("write `{meant}`"))
            } else if let Some(home) = home(key, fields) {
                finding.hint(format!("`{key}` belongs below `{home}`"))
            } else {
                finding.hint(format!("the fields here are {}", quoted(fields.keys())))
            }
        });
    }

    fn unknown_word<T>(&mut self, text: &str, words: &[String], path: &Path) -> Option<T> {
        self.leave_out(path, || {
            let mut finding = Finding::new(&rule::UNKNOWN_WORD, path.clone())
                .message(format!("`{path}` does not take `{text}`"));
            if let Some(meant) = nearest(text, words.iter().map(String::as_str)) {
                finding = finding.label(format!("did you mean `{meant}`?"));
            }
            finding.hint(format!("take one of {}", quoted(words)))
        })
    }

    fn missing(&mut self, name: &str, shape: &Shape, path: &Path) {
        let inner = path.key(name);
        self.findings.push_error(|| {
            Finding::new(&rule::MISSING_FIELD, Place::Key(inner.clone()))
                .message(format!("`{inner}` is missing"))
                .label(format!("`{name}` must be given here"))
                .hint(format!("add `{name}`: {}", shape.noun()))
        });
        self.left_out.insert(&inner);
    }
}

/// What keeps the place of a list's item that does not fit.
fn stand_in(shape: &Shape) -> Value {
    match shape {
        Shape::Optional(_) | Shape::Any => Value::Null,
        Shape::Truth => Value::Bool(false),
        Shape::Number { least, .. } => Value::Number(Number::from(*least)),
        Shape::Text => Value::String(String::new()),
        Shape::Word(words) => Value::String(words.first().cloned().unwrap_or_default()),
        Shape::List(_) => Value::Array(Vec::new()),
        Shape::Map(_) | Shape::Fields(_) => Value::Object(Map::new()),
        Shape::Either(shapes) => shapes.first().map_or(Value::Null, stand_in),
    }
}

fn has_leading_zeros(number: &str) -> bool {
    let digits = number.trim_start_matches(['-', '+']);
    digits.len() > 1 && digits.starts_with('0')
}

/// The likely slip behind a wrong type.
fn hint(node: &Node, shape: &Shape) -> Option<String> {
    let Kind::Scalar { text, quoted } = &node.kind else {
        return None;
    };
    match shape {
        Shape::Truth => match text.to_lowercase().as_str() {
            "yes" | "on" | "y" | "true" => Some("write `true`".into()),
            "no" | "off" | "n" | "false" => Some("write `false`".into()),
            _ => None,
        },
        Shape::Number { .. } if *quoted && text.parse::<i64>().is_ok() => {
            Some(format!("write {text} without quotes"))
        }
        Shape::Number { .. } if has_leading_zeros(text) => text
            .parse::<i64>()
            .ok()
            .map(|number| format!("write {number}, without leading zeros")),
        Shape::List(_) if !text.contains(['\n', '`']) => Some(format!("write `[{text}]`")),
        _ => None,
    }
}
