//! Whether a file's cluster can be made of what the catalog knows.
//!
//! The rules here are those of the error catalogue that need facts: versions, drivers, sizes. They
//! look at the draft, report into it, and where nothing is wrong give a [`Model`]: the cluster with
//! every version decided. Planning takes a model and nothing less.

mod carriers;
mod later;
mod versions;

use std::collections::BTreeSet;

use mullion_spec::cluster::{Carrier, Cluster, Origin};
use mullion_spec::draft::{Draft, Verdict};
use mullion_spec::finding::Severity;
use mullion_spec::image::ImageReference;
use mullion_spec::source::Path;
use mullion_spec::words::{Os, WindowsVersion};

use crate::artifacts::{ArtifactKind, ArtifactRef, Purpose};
use crate::catalog::Catalog;
use crate::digest::Digest;
use crate::kubernetes::{KubernetesRelease, Support};
use crate::needs::ArtifactWish;

/// A cluster that can be made, with every version decided.
#[derive(Debug)]
pub struct Model {
    cluster: Cluster,
    kubernetes: KubernetesRelease,
    artifacts: Vec<ArtifactRef>,
}

impl Model {
    /// The cluster, as wanted.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The Kubernetes that the wish became.
    pub fn kubernetes(&self) -> &KubernetesRelease {
        &self.kubernetes
    }

    /// Every program, image and archive that it takes.
    pub fn artifacts(&self) -> &[ArtifactRef] {
        &self.artifacts
    }

    /// Whether validation lets its machines run that Windows.
    pub fn admits_windows(&self, version: WindowsVersion) -> bool {
        let catalog = Catalog::builtin();
        let support = catalog.windows_support(self.kubernetes.version.minor, version);
        let cni = catalog.cni(self.cluster.network.cni);
        // An empty list says nothing: the catalog does not list the versions of every plugin.
        let is_listed =
            cni.is_none_or(|cni| cni.windows.is_empty() || cni.windows(version).is_some());
        let is_supported = matches!(support, Support::Supported { .. }) && is_listed;
        is_supported || self.cluster.kubernetes.allow_unsupported
    }
}

/// What was found about a file, and the model where nothing is wrong with it.
#[derive(Debug)]
pub struct Judgement {
    /// What was found.
    pub verdict: Verdict,
    /// The model.
    pub model: Option<Model>,
}

impl Catalog {
    /// Holds a draft against the catalog and concludes it.
    pub fn judge(&self, mut draft: Draft) -> Judgement {
        if let Some(cluster) = draft.provisional().cloned() {
            self.admit_versions(&cluster, &mut draft);
            self.admit_carriers(&cluster, &mut draft);
            self.admit_later(&cluster, &mut draft);
        }
        let mut verdict = draft.conclude();
        let model = verdict.cluster.take().and_then(|cluster| {
            let kubernetes = self.resolve_kubernetes(cluster.kubernetes.version).ok()?;
            let mut artifacts = self.artifacts_for(kubernetes, &self.wish(&cluster));
            artifacts.extend(user_images(&cluster, &artifacts));
            Some(Model {
                kubernetes: kubernetes.clone(),
                artifacts,
                cluster,
            })
        });
        Judgement { verdict, model }
    }
}

impl Catalog {
    /// What artifacts depend on.
    fn wish(&self, cluster: &Cluster) -> ArtifactWish {
        let installs = cluster.groups.iter().any(|group| {
            matches!(
                group.carrier,
                Carrier::Made {
                    origin: Origin::Media(_),
                    ..
                }
            )
        });
        let mut purposes = BTreeSet::from([Purpose::Cluster]);
        if !cluster.verify.is_empty() {
            purposes.insert(Purpose::Verify);
        }
        if installs {
            purposes.insert(Purpose::Install);
        }
        let windows = || (cluster.groups.iter()).filter(|group| group.system.os() == Os::Windows);
        ArtifactWish {
            cni: cluster.network.cni,
            network_policy: cluster.network.policy,
            systems: cluster.systems(),
            windows: cluster.windows_versions(),
            runs_windows: windows().any(|group| !self.is_stand_in(group)),
            stands_in: windows().any(|group| self.is_stand_in(group)),
            purposes,
        }
    }
}

/// The images that the user names for nodes and gives no archive of: they are fetched as the cluster's own are.
fn user_images(cluster: &Cluster, own: &[ArtifactRef]) -> Vec<ArtifactRef> {
    let wanted = cluster.images.iter();
    let wanted = wanted.filter(|image| image.archive.is_none() && image.os == Os::Linux);
    let mut images: Vec<_> = wanted
        .filter_map(|image| {
            let reference: ImageReference = image.reference.parse().ok()?;
            Some(ArtifactRef {
                // As the catalog names images: what a part is called lacks the suffix.
                name: format!("{}/{}-image", reference.registry(), reference.repository()),
                kind: ArtifactKind::Image,
                os: image.os,
                version: reference.version().to_owned(),
                file: None,
                address: Some(reference.canonical()),
                checksum: None,
                digest: Digest::Unknown,
                build: None,
                control_plane: false,
                source: "the cluster file".into(),
            })
        })
        // The cluster's own are on every node already.
        .filter(|image| own.iter().all(|own| own.address != image.address))
        .collect();
    images.sort_by(|one, other| one.address.cmp(&other.address));
    images.dedup_by(|one, other| one.address == other.address);
    images
}

/// An error, or a warning where the user asked to be let through.
fn unsupported(cluster: &Cluster) -> Severity {
    if cluster.kubernetes.allow_unsupported {
        Severity::Warning
    } else {
        Severity::Error
    }
}

/// The place of a setting that a group may override: the group's own where it has one, else that under
/// `windows`.
fn windows_field(draft: &Draft, group: usize, field: &str) -> Path {
    let own = draft.group_field(group, field);
    // A group of the short form has no fields of its own: all of them stand at one place.
    let has_fields = own != draft.group_field(group, "name");
    if has_fields && draft.says(&own) {
        own
    } else {
        Path::top().key("windows").key(field)
    }
}
