//! What is measured, and against which limit.
//!
//! To add work: write a function that prepares it and gives one round of it as a closure, and add a
//! [`Case`] to [`CASES`]. To show a figure of it: add a [`Row`] to [`ROWS`].

use std::time::Duration;

/// One piece of work, measured in a process of its own.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Names it in rows and in the table.
    pub name: &'static str,
    /// How often it is done. The best time counts: whatever else the computer does only adds to it.
    pub rounds: usize,
    /// Prepares the work, untimed, and gives one round of it. What a round makes should go through
    /// [`std::hint::black_box`], or the compiler may leave the work out.
    pub prepare: fn() -> Box<dyn FnMut()>,
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Row {
    /// The best time of a case.
    Time {
        /// The case's name.
        case: &'static str,
        /// The most it may take.
        limit: Duration,
    },
    /// The most memory that a case's process held, its preparation included.
    Peak {
        /// The case's name.
        case: &'static str,
        /// The most it may hold.
        limit: Bytes,
    },
    /// How many times longer one case takes than another.
    Growth {
        /// The smaller case.
        from: &'static str,
        /// The larger case.
        to: &'static str,
        /// The largest factor that is accepted.
        limit: f64,
    },
    /// The best time from starting `mullion` with these arguments to its end.
    Start {
        /// What follows the program's name.
        arguments: &'static [&'static str],
        /// The most it may take.
        limit: Duration,
    },
}

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Millions of bytes.
    pub const fn mega(count: u64) -> Self {
        Self(count * 1_000_000)
    }
}

/// The work.
pub const CASES: &[Case] = &[];

/// The table, line by line.
pub const ROWS: &[Row] = &[Row::Start {
    arguments: &["--version"],
    limit: Duration::from_millis(10),
}];

/// The case of that name.
pub fn find<'a>(cases: &'a [Case], name: &str) -> Option<&'a Case> {
    cases.iter().find(|case| case.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in `rows` that are not in `cases`, and the names that `cases` has twice.
    fn mistakes(cases: &[Case], rows: &[Row]) -> Vec<String> {
        let mut found = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            if find(&cases[..index], case.name).is_some() {
                found.push(format!("`{}` is there twice", case.name));
            }
        }
        for row in rows {
            let names = match *row {
                Row::Time { case, .. } | Row::Peak { case, .. } => vec![case],
                Row::Growth { from, to, .. } => vec![from, to],
                Row::Start { .. } => Vec::new(),
            };
            let unknown = names.into_iter().filter(|name| find(cases, name).is_none());
            found.extend(unknown.map(|name| format!("`{name}` is not a case")));
        }
        found
    }

    #[test]
    fn the_tables_agree() {
        assert_eq!(mistakes(CASES, ROWS), Vec::<String>::new());
    }

    #[test]
    fn tables_that_disagree_are_found() {
        let case = Case {
            name: "small",
            rounds: 1,
            prepare: || Box::new(|| {}),
        };
        let row = Row::Growth {
            from: "small",
            to: "large",
            limit: 12.0,
        };
        assert_eq!(
            mistakes(&[case, case], &[row]),
            ["`small` is there twice", "`large` is not a case"]
        );
    }
}
