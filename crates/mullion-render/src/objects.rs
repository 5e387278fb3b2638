//! Sets of Kubernetes objects: the network, the service proxy, network policy, DNS, runtime classes.

mod dns;
pub(crate) mod flannel;
pub(crate) mod policy;
mod runtime_classes;
mod service_proxy;

use std::collections::BTreeSet;

use mullion_spec::cluster::{Cluster, Duty, Group};
use mullion_spec::value::Address;
use mullion_spec::words::{Admission, Cni, Os};
use mullion_wire::Sha256Digest;
use serde_json::{Value, json};

use crate::error::RenderError;
use crate::setting::Setting;
pub use flannel::WRITE_NETWORK;

/// Object sets of network plugins begin so; the plugin's word follows.
pub const PLUGIN_PREFIX: &str = "network-";
/// Object sets of add-ons begin so; the add-on's name follows.
pub const ADDON_PREFIX: &str = "addon-";

/// The names of the sets that a cluster should have, in the order they are applied.
pub fn sets(cluster: &Cluster) -> Vec<String> {
    let network = &cluster.network;
    let mut sets = Vec::new();
    if network.cni != Cni::None {
        sets.push(format!("{PLUGIN_PREFIX}{}", network.cni));
    }
    sets.push("service-proxy".into());
    // The other plugins enforce policies themselves.
    if network.policy && network.cni == Cni::Flannel {
        sets.push("policy".into());
    }
    sets.push("dns".into());
    if cluster.runtime_classes && !cluster.windows_versions().is_empty() {
        sets.push("runtime-classes".into());
    }
    if cluster.policies != Admission::Off {
        sets.push("admission".into());
    }
    let addons: BTreeSet<_> = cluster.addons.iter().collect();
    sets.extend(addons.iter().map(|addon| format!("{ADDON_PREFIX}{addon}")));
    sets
}

/// The objects of a set, in the order they are applied; none where this crate has no such set.
pub fn objects(setting: &Setting<'_>, set: &str) -> Result<Option<Vec<Value>>, RenderError> {
    let network = &setting.cluster().network;
    Ok(match set {
        "network-flannel" if network.cni == Cni::Flannel => Some(flannel::objects(setting)?),
        "service-proxy" => Some(service_proxy::objects(setting)?),
        "policy" if network.policy && network.cni == Cni::Flannel => {
            Some(policy::objects(setting)?)
        }
        "dns" => Some(dns::objects(setting)?),
        "runtime-classes" => Some(runtime_classes::objects(setting)),
        _ => None,
    })
}

/// Where an object belongs.
#[derive(Clone, Copy)]
enum Scope<'a> {
    Cluster,
    Namespace(&'a str),
}

/// The beginning of an object, labelled as ours.
fn object(kind: (&str, &str), name: &str, scope: Scope<'_>) -> Value {
    let (version, kind) = kind;
    let mut metadata = json!({
        "name": name,
        "labels": {"app.kubernetes.io/managed-by": "mullion"},
    });
    if let Scope::Namespace(namespace) = scope {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": version, "kind": kind, "metadata": metadata})
}

/// An object with more fields at its top.
fn with(mut object: Value, fields: Value) -> Value {
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
        object.extend(fields);
    }
    object
}

fn service_account(name: &str, namespace: &str) -> Value {
    object(("v1", "ServiceAccount"), name, Scope::Namespace(namespace))
}

fn config_map(name: &str, namespace: &str, data: &Value) -> Value {
    let map = object(("v1", "ConfigMap"), name, Scope::Namespace(namespace));
    with(map, json!({"data": data}))
}

fn cluster_role(name: &str, rules: &Value) -> Value {
    let kind = ("rbac.authorization.k8s.io/v1", "ClusterRole");
    with(object(kind, name, Scope::Cluster), json!({"rules": rules}))
}

/// Gives a cluster role to a service account.
fn cluster_role_binding(name: &str, role: &str, account: (&str, &str)) -> Value {
    let (account, namespace) = account;
    let kind = ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
    let fields = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    });
    with(object(kind, name, Scope::Cluster), fields)
}

/// Gives a cluster role to Windows nodes themselves, to each by its name: services there do what pods do on Linux
/// machines, with kubelet's own identity, which is renewed by itself. Other kubelets are given nothing. What they may
/// change stays their own node.
fn windows_binding(
    setting: &Setting<'_>,
    (name, role): (&str, &str),
    is_meant: impl Fn(&Group) -> bool,
) -> Option<Value> {
    let groups = setting.cluster().groups.iter();
    let nodes: BTreeSet<_> = groups
        .filter(|group| group.system.os() == Os::Windows && is_meant(group))
        .flat_map(Group::machines)
        .map(|machine| machine.name)
        .collect();
    if nodes.is_empty() {
        return None;
    }
    let kind = ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
    let api = "rbac.authorization.k8s.io";
    let user =
        |node| json!({"apiGroup": api, "kind": "User", "name": format!("system:node:{node}")});
    let subjects: Vec<_> = nodes.iter().map(user).collect();
    let fields = json!({
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    });
    Some(with(object(kind, name, Scope::Cluster), fields))
}

/// A daemon of the network on every Linux node, from before the network is there.
///
/// `config` is what its configuration says: where that changes, its pods are made anew.
fn network_daemon(name: &str, namespace: &str, config: &str, pod: Value) -> Value {
    let labels = json!({"k8s-app": name});
    let mut spec = json!({
        "hostNetwork": true,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
    });
    spec = with(spec, pod);
    let mut daemon = object(("apps/v1", "DaemonSet"), name, Scope::Namespace(namespace));
    daemon["metadata"]["labels"]["k8s-app"] = name.into();
    with(
        daemon,
        json!({
            "spec": {
                "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "RollingUpdate"},
                "template": {
                    "metadata": {
                        "labels": labels,
                        "annotations": {
                            "mullion.dev/config": Sha256Digest::of(config.as_bytes()).as_str(),
                        },
                    },
                    "spec": spec,
                },
            },
        }),
    )
}

/// The API server's own place, for a pod that must not wait for the service proxy.
fn direct_to_api(setting: &Setting<'_>) -> [Value; 2] {
    let host = match &setting.endpoint.address {
        Address::Ip(address) => address.to_string(),
        Address::Name(name) => name.clone(),
    };
    [
        json!({"name": "KUBERNETES_SERVICE_HOST", "value": host}),
        json!({"name": "KUBERNETES_SERVICE_PORT", "value": setting.endpoint.port.to_string()}),
    ]
}

/// A variable with a field of the pod.
fn from_field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

/// A folder or file of the machine.
fn host_path(name: &str, path: &str, kind: &str) -> Value {
    json!({"name": name, "hostPath": {"path": path, "type": kind}})
}

/// The lock that all users of iptables on a machine share.
fn iptables_lock() -> (Value, Value) {
    (
        host_path("xtables-lock", "/run/xtables.lock", "FileOrCreate"),
        json!({"name": "xtables-lock", "mountPath": "/run/xtables.lock"}),
    )
}

/// The kernel's modules, of which a machine may have none.
fn kernel_modules() -> (Value, Value) {
    (
        host_path("lib-modules", "/lib/modules", "DirectoryOrCreate"),
        json!({"name": "lib-modules", "mountPath": "/lib/modules", "readOnly": true}),
    )
}

/// How many Linux nodes the cluster should have.
fn linux_nodes(setting: &Setting<'_>) -> usize {
    let groups = setting.cluster().groups.iter();
    groups
        .filter(|group| group.duty != Duty::LoadBalancer && group.system.os() == Os::Linux)
        .map(|group| group.numbers.len())
        .sum()
}
