//! The shape of the file: which fields there are, and what type each takes.
//!
//! Made from the JSON Schema of the raw types, so that the shape, the schema that editors use and
//! the types are one. [`fit`] walks a tree of values once and reports every misfit; what does
//! not fit is left out of the result, so that the rest can still be checked.

mod compile;
mod fit;

pub use fit::{Fitted, fit};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// What a value may be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Anything.
    Any,
    /// A truth value.
    Truth,
    /// A whole number within limits.
    Number {
        /// The least.
        least: i64,
        /// The greatest.
        most: i64,
    },
    /// A text.
    Text,
    /// One word of a set.
    Word(Vec<String>),
    /// Any number of values of one shape.
    List(Box<Shape>),
    /// Any keys, with values of one shape.
    Map(Box<Shape>),
    /// Certain fields.
    Fields(BTreeMap<String, Field>),
    /// One of several shapes.
    Either(Vec<Shape>),
    /// The shape, or nothing.
    Optional(Box<Shape>),
}

/// A field of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) shape: Shape,
    pub(crate) required: bool,
}

impl Shape {
    /// What a person calls a value of this shape.
    pub(crate) fn noun(&self) -> String {
        match self {
            Self::Any => "anything".into(),
            Self::Truth => "`true` or `false`".into(),
            Self::Number { .. } => "a whole number".into(),
            Self::Text => "a text".into(),
            Self::Word(words) => format!("one of {}", quoted(words)),
            Self::List(_) => "a list".into(),
            Self::Map(_) | Self::Fields(_) => "a mapping".into(),
            Self::Either(shapes) => {
                let nouns: Vec<_> = shapes.iter().map(Self::noun).collect();
                nouns.join(" or ")
            }
            Self::Optional(shape) => shape.noun(),
        }
    }

    /// Whether there is a field of that name directly below.
    fn has_field(&self, name: &str) -> bool {
        match self {
            Self::Fields(fields) => fields.contains_key(name),
            Self::Optional(shape) => shape.has_field(name),
            Self::Either(shapes) => shapes.iter().any(|shape| shape.has_field(name)),
            _ => false,
        }
    }

    fn add_names(&self, names: &mut BTreeSet<String>) {
        match self {
            Self::Any | Self::Truth | Self::Number { .. } | Self::Text | Self::Word(_) => {}
            Self::List(shape) | Self::Map(shape) | Self::Optional(shape) => shape.add_names(names),
            Self::Either(shapes) => shapes.iter().for_each(|shape| shape.add_names(names)),
            Self::Fields(fields) => {
                for (name, field) in fields {
                    names.insert(name.clone());
                    field.shape.add_names(names);
                }
            }
        }
    }
}

/// The names of all fields that a file can have.
pub(crate) fn field_names() -> &'static BTreeSet<String> {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = BTreeSet::new();
        compile::file().add_names(&mut names);
        names
    })
}

/// Words in back-ticks, with commas between.
pub fn quoted(words: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let words: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// The longest word that is compared with others, and the most others it is compared with: a guess
/// among more is not worth the time that a hostile file could make it take.
const MOST_COMPARED: usize = 64;

/// The known word that an unknown one was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MOST_COMPARED {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .into_iter()
        .take(MOST_COMPARED)
        .filter(|candidate| candidate.len() <= MOST_COMPARED)
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()),
                candidate,
            )
        })
        // A third of the letters may differ: more than that is another word.
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(word.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
