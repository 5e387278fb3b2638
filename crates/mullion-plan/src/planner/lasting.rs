//! Settings that some component reads once, when a cluster is begun or a node joins: nothing gives it another after that.

use std::collections::BTreeMap;

use mullion_catalog::Catalog;
use mullion_render::MachineDocument;
use mullion_spec::cluster::{Cluster, ControlPlane};

use super::view::Item;
use crate::applied::Applied;
use crate::observed::{ClusterFacts, Inside};

/// One setting of a cluster, on both sides.
pub(super) struct Setting {
    pub(super) what: &'static str,
    /// What the cluster was begun with; `None` where nobody knows.
    pub(super) found: Option<String>,
    pub(super) wanted: String,
}

/// What a cluster keeps from its beginning.
pub(super) fn settings(cluster: &Cluster, found: &ClusterFacts) -> Vec<Setting> {
    let network = &cluster.network;
    let setting = |what, found: Option<String>, wanted| Setting {
        what,
        found,
        wanted,
    };
    let mut settings = vec![
        setting(
            "pod network",
            found.pods.map(|net| net.to_string()),
            network.pods.to_string(),
        ),
        setting(
            "service network",
            found.services.map(|net| net.to_string()),
            network.services.to_string(),
        ),
        // Kubelets write the domain into every pod, and DNS has to answer for the same.
        setting("DNS domain", found.domain.clone(), network.domain.clone()),
    ];
    // How somebody else's control plane was begun is no matter of the file.
    if matches!(cluster.control_plane, ControlPlane::Made { .. }) {
        let share = found.pods_per_node.map(prefix);
        settings.push(setting(
            "share of the pod network for one node",
            share,
            prefix(network.pods_per_node),
        ));
        settings.push(setting(
            "set of feature gates",
            found.feature_gates.as_ref().map(gates),
            gates(&cluster.kubernetes.feature_gates),
        ));
    }
    settings
}

/// What to tell of changes that a node would take only by joining anew: they are laid down, and nothing reads them.
///
/// No obstacle, since a machine that joins later takes them, and nodes can be made to join one after another.
pub(super) fn left_to_join(
    item: &Item<'_>,
    inside: &Inside,
    applied: &Applied,
    document: &MachineDocument,
) -> Option<String> {
    inside.joined.as_ref()?;
    let what = applied.taken_by_joining(document)?;
    let name = item.name();
    Some(format!(
        "a node takes {what} when it joins, as after `mullion node reset {name}`"
    ))
}

/// What to tell of a feature that the file does not ask for any more: other programs may use it by now, so that nothing
/// removes it.
pub(super) fn left_installed(
    inside: &Inside,
    applied: &Applied,
    document: &MachineDocument,
) -> Option<String> {
    let feature = Catalog::builtin().virtualization_feature();
    (applied.drops_feature(feature, document) && inside.features.contains(feature))
        .then(|| format!("the feature {feature} stays installed, since other programs may use it"))
}

fn prefix(length: u8) -> String {
    format!("/{length}")
}

/// As the file has them: what is shown can be written into it.
fn gates(gates: &BTreeMap<String, bool>) -> String {
    let gates: Vec<_> = gates
        .iter()
        .map(|(name, on)| format!("{name}: {on}"))
        .collect();
    format!("{{{}}}", gates.join(", "))
}
