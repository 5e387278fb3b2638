//! kube-proxy: the addresses of Services on Linux nodes.

use serde_json::{Value, json};

use super::{
    cluster_role_binding, config_map, from_field, iptables_lock, kernel_modules, network_daemon,
    service_account, windows_binding,
};
use crate::error::RenderError;
use crate::setting::{Ground, Setting};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-proxy";
const FOLDER: &str = "/var/lib/kube-proxy";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(super) fn objects(setting: &Setting<'_>) -> Result<Vec<Value>, RenderError> {
    let config = format!("{:#}\n", configuration(setting));
    let kubeconfig = format!("{:#}\n", kubeconfig(setting));
    let both = format!("{config}{kubeconfig}");
    let mut objects = vec![
        service_account(NAME, NAMESPACE),
        cluster_role_binding(
            "mullion:node-proxier",
            "system:node-proxier",
            (NAME, NAMESPACE),
        ),
        config_map(
            NAME,
            NAMESPACE,
            &json!({"config.conf": config, "kubeconfig.conf": kubeconfig}),
        ),
        network_daemon(NAME, NAMESPACE, &both, pod(setting)?),
    ];
    objects.extend(windows_binding(
        setting,
        ("mullion:windows-node-proxier", "system:node-proxier"),
        |_| true,
    ));
    Ok(objects)
}

/// It stands in for the addresses of Services, the API server's among them, so it is told the API server's own.
fn kubeconfig(setting: &Setting<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "default",
            "cluster": {
                "certificate-authority": format!("{ACCOUNT}/ca.crt"),
                "server": format!("https://{}", setting.endpoint),
            },
        }],
        "users": [{"name": "default", "user": {"tokenFile": format!("{ACCOUNT}/token")}}],
        "contexts": [{
            "name": "default",
            "context": {"cluster": "default", "namespace": "default", "user": "default"},
        }],
        "current-context": "default",
    })
}

/// One configuration serves all nodes, so a setting that one of them cannot bear is set for none.
fn configuration(setting: &Setting<'_>) -> Value {
    let mut config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "bindAddress": "0.0.0.0",
        "healthzBindAddress": "0.0.0.0:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": format!("{FOLDER}/kubeconfig.conf")},
        "clusterCIDR": setting.cluster().network.pods.to_string(),
    });
    let gates = &setting.cluster().kubernetes.feature_gates;
    if !gates.is_empty() {
        config["featureGates"] = json!(gates);
    }
    if setting.linux_grounds().any(Ground::is_container) {
        // The table of connections is the computer's: a system container may not size it.
        config["conntrack"] = json!({"maxPerCore": 0, "min": 0});
    }
    if setting
        .linux_grounds()
        .any(|ground| !ground.can_raise_limits)
    {
        config["oomScoreAdj"] = 0.into();
    }
    config
}

fn pod(setting: &Setting<'_>) -> Result<Value, RenderError> {
    let (lock, lock_mount) = iptables_lock();
    let (modules, modules_mount) = kernel_modules();
    Ok(json!({
        "serviceAccountName": NAME,
        "containers": [{
            "name": NAME,
            "image": setting.image("kube-proxy-image")?,
            "imagePullPolicy": "IfNotPresent",
            "command": [
                "/usr/local/bin/kube-proxy",
                format!("--config={FOLDER}/config.conf"),
                "--hostname-override=$(NODE_NAME)",
            ],
            "env": [from_field("NODE_NAME", "spec.nodeName")],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            "securityContext": {"privileged": true},
            "volumeMounts": [
                {"name": "config", "mountPath": FOLDER, "readOnly": true},
                lock_mount,
                modules_mount,
            ],
        }],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            lock,
            modules,
        ],
    }))
}
