//! What is measured, and against which limit.
//!
//! To add work: write a function that prepares it and gives it as a closure, and add a [`Case`] to [`CASES`]. To show a
//! figure of it: add a [`Row`] to [`ROWS`]. Whole clusters are measured by [`clusters`](super::clusters), with rows of
//! their own.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use mullion_catalog::Catalog;
use mullion_plan::{Documents, HostFacts, Observed, Place, Wanted, plan};
use mullion_render::{Cgroups, Footing, Ground};
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;

/// One piece of work, measured in processes of its own.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Names it in rows and in the table.
    pub name: &'static str,
    /// Prepares the work, untimed. What the work makes should go through [`std::hint::black_box`], or the compiler may
    /// leave it out.
    pub prepare: fn() -> Box<dyn FnOnce()>,
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Row {
    /// The median time of a case.
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
    /// Which part of a peer's time ours is.
    Share {
        /// The peer's case.
        peer: &'static str,
        /// Our case.
        ours: &'static str,
        /// The largest part that is accepted.
        limit: f64,
    },
    /// The median time from starting `mullion` with these arguments to its end.
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
pub const CASES: &[Case] = &[
    Case {
        name: THOUSAND,
        prepare: || plan_of(1_000),
    },
    Case {
        name: TEN_THOUSAND,
        prepare: || plan_of(10_000),
    },
];

const THOUSAND: &str = "validate and plan 1,000 machines";
const TEN_THOUSAND: &str = "validate and plan 10,000 machines";

/// The table, line by line.
pub const ROWS: &[Row] = &[
    Row::Start {
        arguments: &["--version"],
        limit: Duration::from_millis(10),
    },
    Row::Time {
        case: THOUSAND,
        limit: Duration::from_millis(100),
    },
    Row::Peak {
        case: THOUSAND,
        limit: Bytes::mega(100),
    },
    // Both hold the first reading of the catalog, about 3 ms, as every command does. Medians of seven processes each came
    // to 8.0, and to 11.5 for planning alone.
    Row::Growth {
        from: THOUSAND,
        to: TEN_THOUSAND,
        limit: 12.0,
    },
];

/// Reading, judging and planning a file of so many machines in groups of ten, half of them Windows.
///
/// Groups of ten, because a file of one large group would measure the counting and not the checking.
fn plan_of(machines: usize) -> Box<dyn FnOnce()> {
    let mut text = String::from(
        "network: {podCIDR: 10.0.0.0/9, serviceCIDR: 172.16.0.0/16, machineCIDR: 10.128.0.0/16}\n\
         machines:\n  - {name: cp, role: control-plane, count: 3}\n",
    );
    for group in 0..machines / 10 {
        let os = if group % 2 == 0 { "linux" } else { "windows" };
        let _ = writeln!(text, "  - {{name: g{group}x, os: {os}, count: 10}}");
    }
    Box::new(move || {
        let source = Source::new("cluster.yaml", text.as_str());
        let draft = Draft::read(source, &Surroundings::default());
        let judgement = Catalog::builtin().judge(draft);
        let model = judgement.model.unwrap_or_else(|| {
            let findings: Vec<_> = judgement.verdict.findings.iter().take(3).collect();
            panic!("the measured file is sound: {findings:?}")
        });
        let wanted = Wanted::of(&model);
        let observed = observed();
        let documents = Documents::render(&model, &wanted, &observed);
        let plan = plan(&wanted, &observed, &documents);
        assert!(plan.steps().len() > machines, "{:?}", plan.obstacles());
        black_box(plan);
    })
}

/// A computer on which nothing was made yet, and which tells what machines stand on that are made there.
fn observed() -> Observed {
    let ground = Ground {
        footing: Footing::SystemContainer,
        cgroups: Cgroups::V2,
        can_raise_limits: true,
        has_swap: false,
        has_resolver: true,
    };
    let drivers = Catalog::builtin().drivers();
    let host = HostFacts {
        grounds: drivers.map(|(driver, _)| (driver, ground)).collect(),
        ..HostFacts::default()
    };
    Observed {
        hosts: [(Place::Here, host)].into(),
        ..Observed::default()
    }
}

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
                Row::Share { peer, ours, .. } => vec![peer, ours],
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
