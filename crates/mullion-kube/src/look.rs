//! A condition, looked at once.

/// What one look at a condition gave. How often and how long it is looked at is the engine's matter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Look<T = ()> {
    /// It is so.
    So(T),
    /// It is not so yet, and why, for people: `lin1 has no network plugin yet`.
    NotYet(String),
}

impl<T> Look<T> {
    /// Whether it is so.
    pub const fn is_so(&self) -> bool {
        matches!(self, Self::So(_))
    }

    /// That it is not so, and why.
    pub(crate) fn not_yet(words: impl Into<String>) -> Self {
        Self::NotYet(words.into())
    }
}
