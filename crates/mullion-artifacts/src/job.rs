//! What every piece of work here is given.

use mullion_catalog::ArtifactRef;
use mullion_plan::{Attend, News};

use crate::process::Worth;
use crate::sources::Sources;
use crate::store::Store;

/// Where to put things, where to get them, and whom to tell.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) store: &'a Store,
    pub(crate) sources: &'a Sources,
    pub(crate) artifacts: &'a [ArtifactRef],
    pub(crate) attendant: &'a dyn Attend,
}

impl Job<'_> {
    pub(crate) fn say(&self, line: impl Into<String>) {
        self.attendant.hear(News::Line(line.into()));
    }

    /// Passes on what a tool says.
    pub(crate) fn pass_on(&self, line: &str) -> Worth {
        self.say(line);
        Worth::Telling
    }
}
