//! What a node's conditions say. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};

use crate::look::Look;
use crate::session::first_line;

/// A node's condition of that kind.
fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn message(condition: &NodeCondition) -> &str {
    condition.message.as_deref().unwrap_or_default()
}

pub(crate) fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// When the kubelet last said whether the node is Ready. Controllers that say it in its stead leave this as it is.
pub(crate) fn heartbeat(node: &Node) -> Option<Timestamp> {
    let time = condition(node, "Ready")?.last_heartbeat_time.as_ref();
    time.map(|time| time.0)
}

/// Whether the node is Ready.
pub(crate) fn ready(node: &Node) -> Look {
    let name = name(node);
    match condition(node, "Ready") {
        Some(ready) if ready.status == "True" => Look::So(()),
        Some(ready) if ready.status == "Unknown" => {
            Look::not_yet(format!("the kubelet of {name} does not report"))
        }
        Some(ready) => Look::not_yet(format!(
            "{name} is not Ready: {}",
            first_line(message(ready))
        )),
        None => Look::not_yet(format!("the kubelet of {name} has not reported yet")),
    }
}

/// Whether the node's own network is up: the runtime has a plugin, and the plugin does not say otherwise.
pub(crate) fn network(node: &Node) -> Look {
    let name = name(node);
    let ready = condition(node, "Ready");
    if let Some(ready) = ready.filter(|ready| ready.status == "False")
        && lacks_plugin(message(ready))
    {
        return Look::not_yet(format!("the runtime of {name} has no network plugin yet"));
    }
    match condition(node, "NetworkUnavailable") {
        Some(network) if network.status == "False" => Look::So(()),
        Some(network) => Look::not_yet(format!(
            "the network of {name} is not up: {}",
            first_line(message(network))
        )),
        // Not every plugin says so; a kubelet is Ready only with one.
        None if ready.is_some_and(|ready| ready.status == "True") => Look::So(()),
        None => Look::not_yet(format!("nothing says that the network of {name} is up")),
    }
}

/// Whether the kubelet reports at all: what runs on a node that does not will never be seen to end.
pub(crate) fn is_reporting(node: &Node) -> bool {
    condition(node, "Ready").is_none_or(|ready| ready.status != "Unknown")
}

/// How kubelet says that the container runtime has no network plugin.
fn lacks_plugin(message: &str) -> bool {
    message.contains("NetworkPluginNotReady")
        || message.contains("NetworkReady=false")
        || message.contains("cni plugin not initialized")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Said = (&'static str, &'static str, &'static str);

    fn node(conditions: &[Said]) -> Node {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status, message)| json!({"type": kind, "status": status, "message": message}))
            .collect();
        serde_json::from_value(
            json!({"metadata": {"name": "lin1"}, "status": {"conditions": conditions}}),
        )
        .unwrap()
    }

    const NO_PLUGIN: &str = "container runtime network not ready: NetworkReady=false \
                             reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";

    #[test]
    fn readiness_is_told_in_words() {
        let words = |conditions: &[Said]| ready(&node(conditions));
        assert_eq!(words(&[("Ready", "True", "")]), Look::So(()));
        assert_eq!(
            words(&[("Ready", "False", "PLEG is not healthy\nmore")]),
            Look::not_yet("lin1 is not Ready: PLEG is not healthy")
        );
        assert_eq!(
            words(&[("Ready", "Unknown", "Kubelet stopped posting node status.")]),
            Look::not_yet("the kubelet of lin1 does not report")
        );
        assert_eq!(
            words(&[]),
            Look::not_yet("the kubelet of lin1 has not reported yet")
        );
    }

    #[test]
    fn the_network_is_up_when_the_plugin_or_the_kubelet_says_so() {
        let cases: [(&[Said], bool); 7] = [
            (
                &[
                    ("NetworkUnavailable", "False", "Flannel is running"),
                    ("Ready", "True", ""),
                ],
                true,
            ),
            (
                &[
                    ("NetworkUnavailable", "False", "Flannel is running"),
                    ("Ready", "False", "disk pressure"),
                ],
                true,
            ),
            (
                &[
                    ("NetworkUnavailable", "False", "Flannel is running"),
                    ("Ready", "False", NO_PLUGIN),
                ],
                false,
            ),
            (
                &[
                    ("NetworkUnavailable", "True", "no route"),
                    ("Ready", "True", ""),
                ],
                false,
            ),
            (&[("Ready", "True", "")], true),
            (&[("Ready", "False", NO_PLUGIN)], false),
            (&[], false),
        ];
        for (conditions, is_up) in cases {
            assert_eq!(network(&node(conditions)).is_so(), is_up, "{conditions:?}");
        }
    }
}
