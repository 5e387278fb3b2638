//! What kubeadm wrote down of the cluster that it began.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::kubeconfig::few_aliases;

/// The part of kubeadm's `ClusterConfiguration` that facts come from.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Kubeadm {
    pub(super) control_plane_endpoint: Option<String>,
    pub(super) networking: Networking,
    api_server: Option<Component>,
    controller_manager: Option<Component>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Networking {
    pub(super) dns_domain: Option<String>,
    pub(super) pod_subnet: Option<String>,
    pub(super) service_subnet: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Component {
    extra_args: Arguments,
}

/// What a component is started with, besides kubeadm's own arguments.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Arguments {
    /// As `v1beta4` has them.
    List(Vec<Argument>),
    /// As they were before it.
    Map(BTreeMap<String, String>),
    /// A form that we do not know must not cost us the rest of the document.
    Strange(IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct Argument {
    name: String,
    value: String,
}

impl Default for Arguments {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Arguments {
    /// The value of one: empty where it is not among them, and `None` where they cannot be read.
    fn get(&self, name: &str) -> Option<&str> {
        match self {
            Self::List(list) => {
                // Of an argument that is given twice, programs take the last.
                let found = list.iter().rfind(|argument| argument.name == name);
                Some(found.map_or("", |argument| argument.value.as_str()))
            }
            Self::Map(map) => Some(map.get(name).map_or("", String::as_str)),
            Self::Strange(_) => None,
        }
    }
}

impl Kubeadm {
    /// Empty where kubeadm did not make the cluster, or writes in a form that we cannot read.
    pub(super) fn of(settings: Option<&ConfigMap>) -> Self {
        let text = settings.and_then(|map| map.data.as_ref()?.get("ClusterConfiguration"));
        let mut read: Self = text
            .and_then(|text| {
                let options = serde_saphyr::options! { alias_limits: few_aliases() };
                serde_saphyr::from_str_with_options(text, options).ok()
            })
            .unwrap_or_default();
        read.control_plane_endpoint = read
            .control_plane_endpoint
            .filter(|endpoint| !endpoint.is_empty());
        read
    }

    /// The prefix length of one node's share of the pods' addresses, where one was given.
    pub(super) fn pods_per_node(&self) -> Option<u8> {
        let arguments = &self.controller_manager.as_ref()?.extra_args;
        arguments.get("node-cidr-mask-size")?.parse().ok()
    }

    /// The API server's feature gates. kubeadm leaves out what is empty: an API server without the argument was given
    /// none.
    pub(super) fn feature_gates(&self) -> Option<BTreeMap<String, bool>> {
        let arguments = &self.api_server.as_ref()?.extra_args;
        let gates = arguments.get("feature-gates")?;
        let gates = gates.split(',').filter(|gate| !gate.trim().is_empty());
        gates.map(feature_gate).collect()
    }
}

/// One gate out of a list: `Name=true`.
fn feature_gate(text: &str) -> Option<(String, bool)> {
    let (name, on) = text.split_once('=')?;
    Some((name.trim().to_owned(), on.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubeadm 1.36 writes down what it was given.
    const WHOLE: &str = include_str!("../../tests/cluster-configuration.yaml");

    fn read(text: &str) -> Kubeadm {
        let data = [("ClusterConfiguration".to_owned(), text.to_owned())];
        Kubeadm::of(Some(&ConfigMap {
            data: Some(data.into()),
            ..ConfigMap::default()
        }))
    }

    fn gates(pairs: &[(&str, bool)]) -> BTreeMap<String, bool> {
        let pairs = pairs.iter().map(|(name, on)| ((*name).to_owned(), *on));
        pairs.collect()
    }

    #[test]
    fn what_the_cluster_was_begun_with_is_read() {
        let found = read(WHOLE);
        assert_eq!(
            found.control_plane_endpoint.as_deref(),
            Some("10.99.0.2:6443")
        );
        assert_eq!(
            found.networking.dns_domain.as_deref(),
            Some("cluster.local")
        );
        assert_eq!(found.pods_per_node(), Some(25));
        assert_eq!(
            found.feature_gates(),
            Some(gates(&[
                ("InPlacePodVerticalScaling", false),
                ("NodeSwap", true)
            ]))
        );
    }

    #[test]
    fn arguments_in_the_older_form_are_read_too() {
        let found = read(
            "apiServer: {extraArgs: {feature-gates: 'NodeSwap=true'}}\n\
             controllerManager: {extraArgs: {node-cidr-mask-size: '24'}}\n",
        );
        assert_eq!(found.pods_per_node(), Some(24));
        assert_eq!(found.feature_gates(), Some(gates(&[("NodeSwap", true)])));
    }

    #[test]
    fn no_gates_are_told_from_gates_that_nobody_knows() {
        assert_eq!(
            read("apiServer: {certSANs: [a]}\n").feature_gates(),
            Some(gates(&[]))
        );
        for unknown in [
            "networking: {}\n",
            "apiServer: {extraArgs: 7}\n",
            "apiServer: {extraArgs: [{name: feature-gates, value: NodeSwap}]}\n",
            "not: [yaml",
        ] {
            assert_eq!(read(unknown).feature_gates(), None, "{unknown}");
            assert_eq!(read(unknown).pods_per_node(), None, "{unknown}");
        }
    }

    #[test]
    fn arguments_that_cannot_be_read_do_not_hide_the_rest() {
        let found =
            read("networking: {dnsDomain: a.example}\ncontrollerManager: {extraArgs: [7]}\n");
        assert_eq!(found.networking.dns_domain.as_deref(), Some("a.example"));
        assert_eq!(found.pods_per_node(), None);
    }
}
