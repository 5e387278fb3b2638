//! A file that is being judged.
//!
//! [`Draft::read`] runs the rules of this crate. The catalog's rules come after it and may look at the
//! provisional cluster; [`Draft::conclude`] hands the cluster over only where no rule was broken.

use std::collections::BTreeSet;

use ipnet::Ipv4Net;

use crate::check::{Checker, GroupPlace, about_left_out};
use crate::cluster::Cluster;
use crate::finding::{Finding, Place, Severity};
use crate::raw::RawCluster;
use crate::shape;
use crate::source::{self, Node, Path, Position, Source, Span};

/// What the file is judged beside: facts about this computer that rules look at.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Networks that this computer has a route to, other than Mullion's own, each with its interface.
    pub networks: Vec<(Ipv4Net, String)>,
}

/// A file that is being judged.
#[derive(Debug)]
pub struct Draft {
    source: Source,
    root: Option<Node>,
    cluster: Option<Cluster>,
    groups: Vec<GroupPlace>,
    findings: Vec<Finding>,
    left_out: BTreeSet<Path>,
    hidden: Vec<Span>,
}

impl Draft {
    /// Reads a file and runs every rule that needs no catalog.
    pub fn read(source: Source, surroundings: &Surroundings) -> Self {
        let (root, findings) = source::parse(&source);
        let mut draft = Self {
            source,
            root: None,
            cluster: None,
            groups: Vec::new(),
            findings,
            left_out: BTreeSet::new(),
            hidden: Vec::new(),
        };
        let Some(root) = root else {
            return draft;
        };
        let fitted = shape::fit(&root);
        draft.findings.extend(fitted.findings);
        draft.left_out = fitted.left_out;
        // What fits the shape of the raw types is a value of the raw types.
        if let Ok(raw) = serde_json::from_value::<RawCluster>(fitted.value) {
            let mut checker = Checker::new(&root, std::mem::take(&mut draft.left_out));
            let outcome = checker.check(&raw, surroundings);
            draft.findings.append(&mut checker.findings);
            draft.left_out = checker.left_out;
            draft.hidden = checker.hidden;
            draft.cluster = Some(outcome.cluster);
            draft.groups = outcome.groups;
        }
        draft.root = Some(root);
        draft
    }

    /// The cluster, with harmless values where the file's own are wrong: for rules to look at, not to act on.
    pub fn provisional(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// The place of a field of a group, by the group's place in [`Cluster::groups`].
    pub fn group_field(&self, group: usize, field: &str) -> Path {
        self.groups
            .get(group)
            .map_or_else(|| Path::top().key("machines"), |place| place.field(field))
    }

    /// Whether the file itself says something at a path.
    pub fn says(&self, path: &Path) -> bool {
        self.root.as_ref().is_some_and(|root| root.says(path))
    }

    /// Adds a finding, unless it is about a value that is wrong in itself.
    pub fn report(&mut self, finding: Finding) {
        if !about_left_out(&finding, &self.left_out) {
            self.findings.push(finding);
        }
    }

    /// Judges the file.
    pub fn conclude(self) -> Verdict {
        let Self {
            source,
            root,
            cluster,
            findings,
            hidden,
            ..
        } = self;
        let span = |place: &Place| match (place, &root) {
            (Place::Span(span), _) => Some(*span),
            (Place::Value(path), Some(root)) => Some(root.value_span(path)),
            (Place::Key(path), Some(root)) => Some(root.key_span(path)),
            (Place::File | Place::Value(_) | Place::Key(_), _) => None,
        };
        let mut located: Vec<_> = findings
            .into_iter()
            .map(|finding| Located {
                span: span(&finding.place),
                position: span(&finding.place).map(|span| source.position(span.start)),
                also: finding
                    .also
                    .iter()
                    // A default that takes part has no line to show; the message names it.
                    .filter(|(place, _)| {
                        place
                            .path()
                            .is_none_or(|path| root.as_ref().is_some_and(|root| root.says(path)))
                    })
                    .filter_map(|(place, label)| Some((span(place)?, label.clone())))
                    .collect(),
                finding,
            })
            .collect();
        located.sort_by_key(|located| {
            (
                located.finding.severity,
                located.position,
                located.finding.rule.code,
            )
        });
        // The shared taint is read once for each Windows group: saying it once is enough.
        located.dedup_by(|a, b| a.finding == b.finding);
        let is_sound = located
            .iter()
            .all(|located| located.finding.severity != Severity::Error);
        Verdict {
            cluster: cluster.filter(|_| is_sound),
            findings: located,
            source: hide(&source, &hidden),
        }
    }
}

/// Blanks out texts that must not be shown, keeping every other byte in its place.
fn hide(source: &Source, hidden: &[Span]) -> Source {
    if hidden.is_empty() {
        return source.clone();
    }
    let mut bytes = source.text().as_bytes().to_vec();
    for span in hidden {
        for byte in bytes.get_mut(span.start..span.end).unwrap_or_default() {
            if *byte != b'\n' {
                *byte = b'*';
            }
        }
    }
    Source::new(source.name(), String::from_utf8_lossy(&bytes))
}

/// A finding with its places in the text.
#[derive(Debug, Clone)]
pub struct Located {
    /// The finding.
    pub finding: Finding,
    /// Where it is, unless it is about the file as a whole.
    pub span: Option<Span>,
    /// Line and column of that.
    pub position: Option<Position>,
    /// The other places that take part, each with its label.
    pub also: Vec<(Span, String)>,
}

/// What was found about a file.
#[derive(Debug)]
pub struct Verdict {
    /// The cluster, where the file has no error.
    pub cluster: Option<Cluster>,
    /// Everything that was found: errors first, then by place.
    pub findings: Vec<Located>,
    /// The text, with secrets blanked out.
    pub source: Source,
}

impl Verdict {
    /// The verdict on a file that could not be read at all.
    pub fn unreadable(name: &str, finding: Finding) -> Self {
        Self {
            cluster: None,
            findings: vec![Located {
                finding,
                span: None,
                position: None,
                also: Vec::new(),
            }],
            source: Source::new(name, ""),
        }
    }

    /// How many findings are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|located| located.finding.severity == severity)
            .count()
    }
}
