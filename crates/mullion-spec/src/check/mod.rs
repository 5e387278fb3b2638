//! From raw fields to checked values.
//!
//! Every function here takes what the file says, reports what is wrong, and gives back a value in any
//! case: where the file's own cannot be used, a harmless one takes its place, so that the rules about
//! the other fields still run. A cluster with such a value never leaves [`crate::draft`].

mod addresses;
mod carriers;
mod choice;
mod groups;
mod idle;
mod network;
mod nodes;
mod patches;
mod proxy;
mod roster;
mod secrets;
mod settings;
mod windows;

use std::fmt::Display;
use std::str::FromStr;

use crate::cluster::{Cluster, ControlPlane, Kubernetes};
use crate::draft::Surroundings;
use crate::finding::{Finding, Findings, Place};
use crate::raw::{RawCluster, RawKubernetes};
use crate::rules::{
    Rule, machines as machine_rule, network as network_rule, release, shape as rule,
};
use crate::source::{Node, Path, PathSet};
use crate::value::ClusterName;
use crate::version::VersionWish;
use crate::words::{Admission, Cni};

/// The suites that this release can run.
const SUITES: [&str; 1] = ["smoke"];

/// What checking gives: a cluster, and where its groups stand in the file.
pub(crate) struct Outcome {
    pub(crate) cluster: Cluster,
    pub(crate) groups: Vec<GroupPlace>,
}

/// Where a group stands in the file.
#[derive(Debug, Clone)]
pub(crate) struct GroupPlace {
    pub(crate) path: Path,
    /// Whether the group has fields of its own there; the short form's groups have none.
    pub(crate) has_fields: bool,
}

impl GroupPlace {
    /// The place of one of the group's fields.
    pub(crate) fn field(&self, name: &str) -> Path {
        if self.has_fields {
            self.path.key(name)
        } else {
            self.path.clone()
        }
    }
}

/// What is found while checking.
pub(crate) struct Checker<'a> {
    root: &'a Node,
    pub(crate) findings: Findings,
    /// Values that are wrong in themselves: rules that compare them with others say nothing.
    pub(crate) left_out: PathSet,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(root: &'a Node, findings: Findings, left_out: PathSet) -> Self {
        Self {
            root,
            findings,
            left_out,
        }
    }

    /// Reports a finding, unless it is about a value that is wrong in itself.
    pub(crate) fn report(&mut self, finding: Finding) {
        if !about_left_out(&finding, &self.left_out) {
            self.findings.push(finding);
        }
    }

    /// Whether a value, or what it stands in, is wrong in itself.
    fn is_left_out(&self, path: &Path) -> bool {
        self.left_out.covers(path)
    }

    /// Reports that a value is wrong in itself.
    fn reject(&mut self, finding: Finding, path: &Path) {
        self.report(finding);
        self.left_out.insert(path);
    }

    /// The value that a text stands for, or the fallback where it stands for none.
    fn parse<T>(&mut self, rule: &'static Rule, path: &Path, text: &str, fallback: T) -> T
    where
        T: FromStr,
        T::Err: Display,
    {
        match text.parse() {
            Ok(value) => value,
            // It was reported already, and need not be put into words again.
            Err(_) if self.left_out.covers(path) => fallback,
            Err(error) => {
                let finding =
                    Finding::new(rule, path.clone()).message(format!("`{path}`: {error}"));
                self.reject(finding, path);
                fallback
            }
        }
    }

    /// Refuses an empty text where one must say something.
    fn text(&mut self, path: &Path, text: &str) -> String {
        if text.trim().is_empty() {
            let finding = Finding::new(&rule::BAD_VALUE, Place::Key(path.clone()))
                .message(format!("`{path}` is empty"))
                .hint("give it a value, or remove the line");
            self.reject(finding, path);
        }
        text.to_owned()
    }

    /// Holds a number against its limits.
    fn within(&mut self, path: &Path, number: u64, least: u64, most: u64) {
        if !(least..=most).contains(&number) {
            let finding = Finding::new(&rule::OUT_OF_RANGE, path.clone()).message(format!(
                "`{path}` is {number}, and must be from {least} to {most}"
            ));
            self.reject(finding, path);
        }
    }

    /// Checks the whole file.
    pub(crate) fn check<E>(
        &mut self,
        raw: &RawCluster,
        surroundings: impl FnOnce(&ClusterName) -> Result<Surroundings, E>,
    ) -> Result<Outcome, E> {
        let top = Path::top();
        self.api_version(raw);
        self.plain_texts();
        let name = self.parse(
            &machine_rule::BAD_NAME,
            &top.key("metadata").key("name"),
            &raw.metadata.name,
            crate::fallback("mullion"),
        );
        // Nothing is kept of a cluster whose name cannot be read.
        let surroundings = if self.is_left_out(&top.key("metadata").key("name")) {
            Surroundings::default()
        } else {
            surroundings(&name)?
        };
        let kubernetes = self.kubernetes(&raw.kubernetes);
        let control_plane = self.control_plane(raw);
        let hosts = self.hosts(&raw.hosts);
        let (groups, places) = self.groups(raw, &hosts);
        let (groups, places) = self.roster(groups, places, &control_plane);
        let network = self.network(raw, &groups, &places, &hosts, &control_plane, &surroundings);
        let cluster = Cluster {
            name,
            kubernetes,
            control_plane,
            hosts,
            runtime_classes: raw.windows.runtime_classes,
            proxy: self.proxy(&raw.proxy, &surroundings),
            trust: self.trust(&raw.trust),
            artifacts: self.artifacts(&raw.artifacts),
            images: self.images(&raw.images),
            ssh_key: self.secret(&top.key("access").key("sshKey"), &raw.access.ssh_key),
            addons: self.addons(&raw.addons),
            policies: self.policies(raw.workloads.policies),
            verify: self.suites(&raw.verify.after, raw.network.cni),
            network,
            groups,
        };
        self.idle(raw, &cluster.groups, &places);
        Ok(Outcome {
            cluster,
            groups: places,
        })
    }

    fn api_version(&mut self, raw: &RawCluster) {
        let top = Path::top();
        for (field, given, wanted) in [
            ("apiVersion", &raw.api_version, crate::API_VERSION),
            ("kind", &raw.kind, crate::KIND),
        ] {
            if let Some(given) = given
                && given != wanted
            {
                self.report(
                    Finding::new(&rule::API_VERSION, top.key(field))
                        .message(format!(
                            "`{field}` is `{given}`, and this program reads `{wanted}`"
                        ))
                        .hint(format!("write `{field}: {wanted}`, or leave it out")),
                );
            }
        }
    }

    fn kubernetes(&mut self, raw: &RawKubernetes) -> Kubernetes {
        let at = Path::top().key("kubernetes");
        let version = self.parse(
            &rule::BAD_VALUE,
            &at.key("version"),
            &raw.version,
            VersionWish::Latest,
        );
        let patches = self.patches(&at.key("patches"), &raw.patches);
        for gate in raw.feature_gates.keys() {
            // Every component refuses to start with a gate that it does not know; a name that no gate
            // can have would even be read as two settings.
            let is_name = gate.starts_with(|c: char| c.is_ascii_alphabetic())
                && gate.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_name {
                let at = at.key("featureGates").key(gate);
                let finding = Finding::new(&rule::BAD_VALUE, Place::Key(at.clone()))
                    .message(format!("`{gate}` is not the name of a feature gate"))
                    .hint("names have letters and digits, such as `WindowsHostNetwork`");
                self.reject(finding, &at);
            }
        }
        Kubernetes {
            version,
            feature_gates: raw.feature_gates.clone(),
            patches,
            allow_unsupported: raw.allow_unsupported,
        }
    }

    fn control_plane(&mut self, raw: &RawCluster) -> ControlPlane {
        let at = Path::top().key("controlPlane");
        let endpoint = raw.control_plane.endpoint.as_ref().and_then(|endpoint| {
            let at = at.key("endpoint");
            let parsed = endpoint.parse().ok();
            if parsed.is_none() {
                let finding = Finding::new(&rule::BAD_VALUE, at.clone())
                    .message(format!("`{at}`: `{endpoint}` is not of the form host:port"))
                    .hint("write it like `api.example:6443`");
                self.reject(finding, &at);
            }
            parsed
        });
        match &raw.control_plane.existing {
            None => ControlPlane::Made { endpoint },
            Some(existing) => {
                if raw.control_plane.endpoint.is_some() {
                    self.report(
                        Finding::new(
                            &machine_rule::TWO_CONTROL_PLANES,
                            Place::Key(at.key("endpoint")),
                        )
                        .message("an existing cluster has its endpoint in its kubeconfig")
                        .also(Place::Key(at.key("existing")), "the existing cluster")
                        .hint("remove `controlPlane.endpoint`"),
                    );
                }
                let at = at.key("existing");
                ControlPlane::Existing {
                    kubeconfig: existing
                        .kubeconfig
                        .as_ref()
                        .map(|file| self.text(&at.key("kubeconfig"), file).into())
                        .unwrap_or_default(),
                    context: existing.context.clone(),
                }
            }
        }
    }

    fn addons(&mut self, addons: &[String]) -> Vec<String> {
        let at = Path::top().key("addons");
        for (index, addon) in addons.iter().enumerate() {
            self.report(
                Finding::new(&release::FEATURE_LATER, at.index(index))
                    .message(format!("this release has no add-on `{addon}`")),
            );
        }
        addons.to_vec()
    }

    fn policies(&mut self, policies: Admission) -> Admission {
        if policies != Admission::Off {
            let at = Path::top().key("workloads").key("policies");
            self.report(
                Finding::new(&release::FEATURE_LATER, at)
                    .message("this release installs no admission policies yet")
                    .hint("write `policies: off`, or leave it out"),
            );
        }
        policies
    }

    fn suites(&mut self, suites: &[String], cni: Cni) -> Vec<String> {
        let at = Path::top().key("verify").key("after");
        if cni == Cni::None && !suites.is_empty() && self.root.says(&at) {
            let plugin = Path::top().key("network").key("cni");
            self.report(
                Finding::new(&network_rule::NO_NETWORK_TO_VERIFY, Place::Key(at.clone()))
                    .also(plugin, "no plugin is installed"),
            );
        }
        for (index, suite) in suites.iter().enumerate() {
            if !SUITES.contains(&suite.as_str()) {
                let mut finding = Finding::new(&release::FEATURE_LATER, at.index(index))
                    .message(format!("this release has no suite `{suite}`"))
                    .hint(format!("the suites are {}", crate::shape::quoted(SUITES)));
                if let Some(meant) = crate::shape::nearest(suite, SUITES) {
                    finding = finding.label(format!("did you mean `{meant}`?"));
                }
                self.report(finding);
            }
        }
        suites.to_vec()
    }
}

/// Whether a finding leans on a value that is wrong in itself.
pub(crate) fn about_left_out(finding: &Finding, left_out: &PathSet) -> bool {
    std::iter::once(&finding.place)
        .chain(finding.also.iter().map(|(place, _)| place))
        .filter_map(Place::path)
        .any(|path| left_out.covers(path))
}
