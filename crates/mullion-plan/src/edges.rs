//! What waits for what, by position, in two flat lists.
//!
//! A plan of ten thousand machines has a hundred thousand steps with two needs each: a list of lists
//! would spend more time in the allocator than the comparison takes.

/// For each position, the positions that it points at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Edges {
    /// Where each row ends in `targets`.
    ends: Vec<usize>,
    targets: Vec<usize>,
}

impl Edges {
    pub(crate) fn with_capacity(rows: usize, targets: usize) -> Self {
        Self {
            ends: Vec::with_capacity(rows),
            targets: Vec::with_capacity(targets),
        }
    }

    /// Adds the row of the next position; each target counts once.
    pub(crate) fn push(&mut self, targets: impl IntoIterator<Item = usize>) {
        let start = self.targets.len();
        self.targets.extend(targets);
        self.targets[start..].sort_unstable();
        let mut kept = start;
        for at in start..self.targets.len() {
            if at == start || self.targets[at] != self.targets[kept - 1] {
                self.targets[kept] = self.targets[at];
                kept += 1;
            }
        }
        self.targets.truncate(kept);
        self.ends.push(kept);
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// What that position points at, ascending.
    pub(crate) fn of(&self, position: usize) -> &[usize] {
        let start = position
            .checked_sub(1)
            .map_or(0, |before| self.ends[before]);
        &self.targets[start..self.ends[position]]
    }

    /// Every target of every row.
    pub(crate) fn targets(&self) -> &[usize] {
        &self.targets
    }

    /// The same edges, pointing the other way.
    pub(crate) fn turned(&self) -> Self {
        let mut ends = vec![0; self.len()];
        for &target in &self.targets {
            ends[target] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        // Rows are filled from their ends, so going backwards leaves each ascending.
        let mut next = ends.clone();
        let mut targets = vec![0; self.targets.len()];
        for position in (0..self.len()).rev() {
            for &target in self.of(position) {
                next[target] -= 1;
                targets[next[target]] = position;
            }
        }
        Self { ends, targets }
    }

    /// The same edges after the rows were put into that order.
    pub(crate) fn reordered(&self, order: &[usize]) -> Self {
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new;
        }
        let mut edges = Self::with_capacity(self.ends.len(), self.targets.len());
        for &old in order {
            edges.push(self.of(old).iter().map(|&target| place[target]));
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_without_repetition_and_can_be_turned() {
        let mut edges = Edges::default();
        for row in [vec![], vec![0, 0], vec![1, 0, 1], vec![]] {
            edges.push(row);
        }
        let rows = |edges: &Edges| -> Vec<Vec<usize>> {
            (0..edges.len()).map(|at| edges.of(at).to_vec()).collect()
        };
        assert_eq!(rows(&edges), [vec![], vec![0], vec![0, 1], vec![]]);
        assert_eq!(rows(&edges.turned()), [vec![1, 2], vec![2], vec![], vec![]]);
        assert_eq!(edges.turned().turned(), edges);
        let swapped = edges.reordered(&[3, 0, 1, 2]);
        assert_eq!(rows(&swapped), [vec![], vec![], vec![1], vec![1, 2]]);
    }
}
