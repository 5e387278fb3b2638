//! A file that is being judged.
//!
//! [`Draft::read`] runs the rules of this crate. The catalog's rules come after it and may look at the
//! provisional cluster; [`Draft::conclude`] hands the cluster over only where no rule was broken.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::check::{Checker, GroupPlace, about_left_out};
use crate::cluster::Cluster;
use crate::finding::{Finding, Findings, Place, Severity};
use crate::hidden::Hidden;
use crate::networks::Settled;
use crate::raw::RawCluster;
use crate::shape;
use crate::source::{self, Node, Path, PathSet, Position, Source, Span};
use crate::value::ClusterName;

/// The IPv4 addresses of computers by their names, in the order in which the resolver gives them.
pub type Addresses = BTreeMap<String, Vec<Ipv4Addr>>;

/// How the addresses of named computers are found. The default finds none.
#[derive(Debug, Clone, Copy)]
pub struct Lookup(pub fn(&BTreeSet<String>) -> Addresses);

impl Default for Lookup {
    fn default() -> Self {
        Self(|_| Addresses::new())
    }
}

/// What the file is judged beside: facts about this computer and about the cluster that rules look at.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Networks that this computer has or reaches, other than this cluster's own, each with its interface.
    pub networks: Vec<(Ipv4Net, String)>,
    /// Networks of other clusters, whether they are up or not: no machine network is chosen there.
    pub reserved: Vec<Ipv4Net>,
    /// The DNS servers that this computer asks.
    pub resolvers: Vec<Ipv4Addr>,
    /// The addresses of the proxies that this computer uses.
    pub proxies: Vec<Ipv4Addr>,
    /// Whether `proxy.no` acts without a proxy of the file: the environment names one.
    pub has_proxy: bool,
    /// How the addresses of computers are found that the file names.
    pub lookup: Lookup,
    /// The networks that the cluster has already.
    pub kept: Settled,
    /// The machine network that works beside whatever came later, since the cluster's bridge has it.
    pub bridge: Option<Ipv4Net>,
}

/// A file that is being judged.
#[derive(Debug)]
pub struct Draft {
    source: Source,
    root: Option<Node>,
    cluster: Option<Cluster>,
    groups: Vec<GroupPlace>,
    findings: Findings,
    left_out: PathSet,
    hidden: Hidden,
}

impl Draft {
    /// Reads a file and runs every rule that needs no catalog.
    pub fn read(source: Source, surroundings: &Surroundings) -> Self {
        let draft = Self::read_beside(source, |_| Ok::<_, Infallible>(surroundings.clone()));
        draft.unwrap_or_else(|never| match never {})
    }

    /// Reads a file and runs every rule that needs no catalog. Once the cluster's name is known, `surroundings` finds
    /// out what the rest is judged beside.
    pub fn read_beside<E>(
        source: Source,
        surroundings: impl FnOnce(&ClusterName) -> Result<Surroundings, E>,
    ) -> Result<Self, E> {
        let (root, findings) = source::parse(&source);
        let mut draft = Self {
            hidden: Hidden::of(&source, root.as_ref()),
            source,
            root: None,
            cluster: None,
            groups: Vec::new(),
            findings,
            left_out: PathSet::default(),
        };
        let Some(root) = root else {
            return Ok(draft);
        };
        let fitted = shape::fit(&root, std::mem::take(&mut draft.findings));
        draft.findings = fitted.findings;
        draft.left_out = fitted.left_out;
        // Of a file that is no mapping there is nothing else to say.
        let is_mapping = !draft.left_out.contains(&Path::top());
        // What fits the shape of the raw types is a value of the raw types.
        if is_mapping && let Ok(raw) = serde_json::from_value::<RawCluster>(fitted.value) {
            let mut checker = Checker::new(
                &root,
                std::mem::take(&mut draft.findings),
                std::mem::take(&mut draft.left_out),
            );
            let outcome = checker.check(&raw, surroundings)?;
            draft.findings = checker.findings;
            draft.left_out = checker.left_out;
            draft.cluster = Some(outcome.cluster);
            draft.groups = outcome.groups;
        }
        draft.root = Some(root);
        Ok(draft)
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
        let span_of = |place: &Place| match (place, &root) {
            (Place::Span(span), _) => Some(*span),
            (Place::Value(path), Some(root)) => Some(root.value_span(path)),
            (Place::Key(path), Some(root)) => Some(root.key_span(path)),
            (Place::File | Place::Value(_) | Place::Key(_), _) => None,
        };
        let place = |span: Span, label: String| Part {
            span,
            from: source.position(span.start),
            until: source.position(span.end),
            label,
        };
        let left_unsaid = findings.left_unsaid();
        let mut located: Vec<_> = findings
            .into_said()
            .into_iter()
            .map(|finding| {
                let span = span_of(&finding.place);
                Located {
                    span,
                    position: span.map(|span| source.position(span.start)),
                    until: span.map(|span| source.position(span.end)),
                    also: finding
                        .also
                        .iter()
                        // A default that takes part has no line to show; the message names it.
                        .filter(|(place, _)| {
                            place.path().is_none_or(|path| {
                                root.as_ref().is_some_and(|root| root.says(path))
                            })
                        })
                        .filter_map(|(at, label)| Some(place(span_of(at)?, hidden.words(label))))
                        .collect(),
                    finding: unsecret(finding, &hidden),
                }
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
            left_unsaid,
            source: hidden.source(&source),
        }
    }
}

/// A finding in words that hold no secret of the file.
fn unsecret(finding: Finding, hidden: &Hidden) -> Finding {
    let place = |place: Place| match place {
        Place::Value(path) => Place::Value(path.map_keys(|key| hidden.key(key))),
        Place::Key(path) => Place::Key(path.map_keys(|key| hidden.key(key))),
        Place::File | Place::Span(_) => place,
    };
    Finding {
        place: place(finding.place),
        message: hidden.words(&finding.message),
        label: finding.label.map(|label| hidden.words(&label)),
        also: finding
            .also
            .into_iter()
            .map(|(at, label)| (place(at), hidden.words(&label)))
            .collect(),
        hints: finding
            .hints
            .iter()
            .map(|hint| hidden.remedy(hint))
            .collect(),
        rule: finding.rule,
        severity: finding.severity,
    }
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
    /// Line and column of its end.
    pub until: Option<Position>,
    /// The other places that take part.
    pub also: Vec<Part>,
}

/// A place that takes part in a finding.
#[derive(Debug, Clone)]
pub struct Part {
    /// Where it is.
    pub span: Span,
    /// Line and column of that.
    pub from: Position,
    /// Line and column of its end.
    pub until: Position,
    /// How it takes part.
    pub label: String,
}

/// What was found about a file.
#[derive(Debug)]
pub struct Verdict {
    /// The cluster, where the file has no error.
    pub cluster: Option<Cluster>,
    /// Everything that was found: errors first, then by place.
    pub findings: Vec<Located>,
    /// How many more there are, beyond what anyone reads.
    pub left_unsaid: usize,
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
                until: None,
                also: Vec::new(),
            }],
            left_unsaid: 0,
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
