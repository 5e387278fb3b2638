//! Ways from the top of a file to its values, and sets of them.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// One step from a value to a value inside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// Into a mapping.
    Key(String),
    /// Into a list.
    Index(usize),
}

/// The way from the top of the file to a value: `machines[0].count`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Path(Vec<Segment>);

impl Path {
    /// The top of the file.
    pub const fn top() -> Self {
        Self(Vec::new())
    }

    /// The value under a key.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.with(Segment::Key(key.into()))
    }

    /// The value at a place of a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.0.len() + 1);
        segments.extend_from_slice(&self.0);
        segments.push(segment);
        Self(segments)
    }

    /// The steps, outermost first.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Goes into a value, for a walk that comes back with [`Path::leave`].
    pub(crate) fn enter(&mut self, segment: Segment) {
        self.0.push(segment);
    }

    /// Comes back from a value.
    pub(crate) fn leave(&mut self) {
        self.0.pop();
    }

    /// The same way with its keys written otherwise.
    #[must_use]
    pub(crate) fn map_keys(&self, rewrite: impl Fn(&str) -> String) -> Self {
        let segments = self.0.iter().map(|segment| match segment {
            Segment::Key(key) => Segment::Key(rewrite(key)),
            Segment::Index(index) => Segment::Index(*index),
        });
        Self(segments.collect())
    }
}

impl Display for Path {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if place == 0 => out.write_str(key)?,
                Segment::Key(key) => write!(out, ".{key}")?,
                Segment::Index(index) => write!(out, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A set of paths, kept as the tree that they are: asking for a path walks it once, however many there are.
#[derive(Debug, Clone, Default)]
pub struct PathSet {
    below: BTreeMap<Segment, PathSet>,
    /// Whether the way to here is in the set.
    is_member: bool,
}

impl PathSet {
    /// Puts a path into the set.
    pub fn insert(&mut self, path: &Path) {
        let mut at = self;
        for segment in &path.0 {
            at = at.below.entry(segment.clone()).or_default();
        }
        at.is_member = true;
    }

    /// Whether a path is in the set.
    pub fn contains(&self, path: &Path) -> bool {
        let end = path
            .0
            .iter()
            .try_fold(self, |at, segment| at.below.get(segment));
        end.is_some_and(|end| end.is_member)
    }

    /// Whether a path or one around it is in the set.
    pub fn covers(&self, path: &Path) -> bool {
        let mut at = self;
        for segment in &path.0 {
            if at.is_member {
                return true;
            }
            let Some(below) = at.below.get(segment) else {
                return false;
            };
            at = below;
        }
        at.is_member
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_people_write_it() {
        let path = Path::top().key("machines").index(0).key("count");
        assert_eq!(path.to_string(), "machines[0].count");
    }

    #[test]
    fn a_set_covers_what_is_inside_its_paths() {
        let group = Path::top().key("machines").index(0);
        let mut set = PathSet::default();
        set.insert(&group);
        assert!(set.contains(&group) && set.covers(&group));
        assert!(set.covers(&group.key("name")) && !set.contains(&group.key("name")));
        assert!(!set.covers(&Path::top().key("machines")));
        assert!(!set.covers(&Path::top().key("machines").index(1)));
        assert!(!set.covers(&Path::top()));
    }
}
