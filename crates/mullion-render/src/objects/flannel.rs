//! flannel: packets between machines, and the network of each machine's pods.
//!
//! Upstream's own CNI plugin is not among our artifacts. It turns what flannel writes down into a configuration of the
//! plugin `bridge`, each time a pod starts; a second container does that here, once, and whenever flannel writes anew.

use mullion_spec::words::Backend;
use serde_json::{Value, json};

use super::{
    Scope, cluster_role, cluster_role_binding, config_map, direct_to_api, from_field, host_path,
    iptables_lock, network_daemon, object, service_account, windows_binding, with,
};
use crate::error::RenderError;
use crate::setting::Setting;

const NAMESPACE: &str = "kube-flannel";
const NAME: &str = "flannel";
const CONFIG: &str = "kube-flannel-cfg";

/// What VXLAN adds to a packet. flannel is told the outer size and takes this off itself.
const VXLAN_OVERHEAD: u16 = 50;

/// Writes the configuration of the plugin `bridge` from what flannel wrote down. Works in any POSIX shell with `sleep`
/// and `mv`; ends at once when told to.
pub const WRITE_NETWORK: &str = include_str!("write-network.sh");

pub(super) fn objects(setting: &Setting<'_>) -> Result<Vec<Value>, RenderError> {
    let mut namespace = object(("v1", "Namespace"), NAMESPACE, Scope::Cluster);
    namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged".into();
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]);
    let network = format!("{:#}\n", network(setting));
    let mut objects = vec![
        namespace,
        service_account(NAME, NAMESPACE),
        cluster_role(NAME, &rules),
        cluster_role_binding(NAME, NAME, (NAME, NAMESPACE)),
        config_map(CONFIG, NAMESPACE, &json!({"net-conf.json": network})),
        network_daemon(NAME, NAMESPACE, &network, pod(setting)?),
    ];
    objects.extend(windows_binding(
        setting,
        ("mullion:windows-flannel", NAME),
        |_| true,
    ));
    Ok(objects)
}

pub(crate) fn network(setting: &Setting<'_>) -> Value {
    let network = &setting.cluster().network;
    let backend = match network.backend {
        Backend::Vxlan => {
            let mut backend = json!({
                "Type": "vxlan",
                "VNI": network.vni,
                "Port": network.port,
            });
            if let Some(mtu) = network.mtu {
                backend["MTU"] = mtu.saturating_add(VXLAN_OVERHEAD).into();
            }
            backend
        }
        other => json!({"Type": other.to_string()}),
    };
    json!({
        "Network": network.pods.to_string(),
        "EnableNFTables": false,
        "Backend": backend,
    })
}

fn pod(setting: &Setting<'_>) -> Result<Value, RenderError> {
    let image = setting.image("flanneld-image")?;
    let (lock, lock_mount) = iptables_lock();
    let mut environment = vec![
        from_field("NODE_NAME", "spec.nodeName"),
        from_field("NODE_IP", "status.hostIP"),
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_NAMESPACE", "metadata.namespace"),
        json!({"name": "EVENT_QUEUE_DEPTH", "value": "5000"}),
    ];
    environment.extend(direct_to_api(setting));
    let run = json!({"name": "run", "mountPath": "/run/flannel"});
    let flannel = json!({
        "name": "flannel",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/opt/bin/flanneld"],
        "args": ["--ip-masq", "--kube-subnet-mgr", "--iface=$(NODE_IP)"],
        "env": environment,
        "resources": {"requests": {"cpu": "50m", "memory": "50Mi"}},
        "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
        "volumeMounts": [
            run,
            {"name": "config", "mountPath": "/etc/kube-flannel", "readOnly": true},
            lock_mount,
        ],
    });
    let mtu = setting.cluster().network.mtu;
    let mtu = mtu.map(|mtu| mtu.to_string()).unwrap_or_default();
    let network = json!({
        "name": "cni",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", WRITE_NETWORK],
        "env": [
            {"name": "SUBNET_FILE", "value": "/run/flannel/subnet.env"},
            {"name": "NETWORK_FOLDER", "value": "/etc/cni/net.d"},
            {"name": "POD_MTU", "value": mtu},
        ],
        "resources": {"requests": {"cpu": "1m", "memory": "5Mi"}},
        "volumeMounts": [
            with(run.clone(), json!({"readOnly": true})),
            {"name": "cni", "mountPath": "/etc/cni/net.d"},
        ],
    });
    Ok(json!({
        "serviceAccountName": NAME,
        "containers": [flannel, network],
        "volumes": [
            host_path("run", "/run/flannel", "DirectoryOrCreate"),
            host_path("cni", "/etc/cni/net.d", "DirectoryOrCreate"),
            {"name": "config", "configMap": {"name": CONFIG}},
            lock,
        ],
    }))
}
