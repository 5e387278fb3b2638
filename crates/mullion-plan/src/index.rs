//! Steps by their ids, without comparing texts to sort them.
//!
//! Sorting a hundred thousand texts is most of what a plan's order costs; sorting their digests is not.

use crate::step::{Step, StepId};

/// The positions of steps, found by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Index {
    /// Digest and position, ascending.
    entries: Vec<(u64, usize)>,
}

impl Index {
    /// The index of those steps; the id that two of them have, where two have one.
    pub(crate) fn new(steps: &[Step]) -> Result<Self, StepId> {
        let digests = steps.iter().map(|step| digest(&step.id)).zip(0..);
        let mut entries: Vec<(u64, usize)> = digests.collect();
        entries.sort_unstable();
        for same in entries.chunk_by(|left, right| left.0 == right.0) {
            let mut ids: Vec<_> = same.iter().map(|(_, at)| &steps[*at].id).collect();
            ids.sort_unstable();
            if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(pair[0].clone());
            }
        }
        Ok(Self { entries })
    }

    /// The same steps at other places: `place` gives the new position of each old one.
    pub(crate) fn moved(mut self, place: &[usize]) -> Self {
        for (_, position) in &mut self.entries {
            *position = place[*position];
        }
        self
    }

    /// Where the step of that id stands.
    pub(crate) fn find(&self, steps: &[Step], id: &StepId) -> Option<usize> {
        let digest = digest(id);
        let first = self.entries.partition_point(|(other, _)| *other < digest);
        self.entries[first..]
            .iter()
            .take_while(|(other, _)| *other == digest)
            .map(|(_, position)| *position)
            .find(|position| steps[*position].id == *id)
    }
}

/// FNV-1a: small, and the same on every computer.
fn digest(id: &StepId) -> u64 {
    id.as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}
