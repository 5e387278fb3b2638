//! kube-router, of which only the firewall runs: `NetworkPolicy` on Linux nodes, and on what stands in for Windows.

use mullion_catalog::Catalog;
use serde_json::{Value, json};

use super::{
    cluster_role, cluster_role_binding, direct_to_api, from_field, iptables_lock, kernel_modules,
    network_daemon, service_account, windows_binding,
};
use crate::error::RenderError;
use crate::setting::Setting;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-router";
/// kube-router `pkg/options/options.go` v2.1.0: `defaultHealthCheckPort`.
const HEALTH_PORT: u16 = 20244;

pub(super) fn objects(setting: &Setting<'_>) -> Result<Vec<Value>, RenderError> {
    let look = json!(["get", "list", "watch"]);
    // What its informers watch, all of them, whichever of its parts run (`pkg/cmd/kube-router.go` v2.1.0).
    let rules = json!([
        {
            "apiGroups": [""],
            "resources": ["endpoints", "namespaces", "nodes", "pods", "services"],
            "verbs": look,
        },
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": look},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": look},
    ]);
    let flags = flags(setting);
    let mut objects = vec![
        service_account(NAME, NAMESPACE),
        cluster_role(NAME, &rules),
        cluster_role_binding(NAME, NAME, (NAME, NAMESPACE)),
        network_daemon(NAME, NAMESPACE, &flags.join(" "), pod(setting, &flags)?),
    ];
    // A real Windows node enforces nothing with flannel, and its kubelet needs to see no more than it does.
    let catalog = Catalog::builtin();
    objects.extend(windows_binding(
        setting,
        ("mullion:stand-in-policy", NAME),
        |group| catalog.is_stand_in(group),
    ));
    Ok(objects)
}

/// How it is called, but for what a node says of itself.
pub(crate) fn flags(setting: &Setting<'_>) -> Vec<String> {
    let mut flags = Catalog::builtin().policy_agent().flags.clone();
    // The network's configuration is flannel's; traffic to Services is told from traffic to pods by their network.
    flags.extend([
        "--run-loadbalancer=false".into(),
        "--enable-cni=false".into(),
        format!(
            "--service-cluster-ip-range={}",
            setting.cluster().network.services
        ),
    ]);
    flags
}

fn pod(setting: &Setting<'_>, flags: &[String]) -> Result<Value, RenderError> {
    let (lock, lock_mount) = iptables_lock();
    let (modules, modules_mount) = kernel_modules();
    let mut environment = vec![from_field("NODE_NAME", "spec.nodeName")];
    environment.extend(direct_to_api(setting));
    Ok(json!({
        "serviceAccountName": NAME,
        "containers": [{
            "name": NAME,
            "image": setting.image("kube-router-image")?,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/usr/local/bin/kube-router"],
            "args": flags,
            "env": environment,
            "livenessProbe": {
                "httpGet": {"path": "/healthz", "port": HEALTH_PORT},
                "initialDelaySeconds": 30,
                "periodSeconds": 10,
                "failureThreshold": 6,
            },
            "resources": {"requests": {"cpu": "20m", "memory": "50Mi"}},
            "securityContext": {"privileged": true},
            "volumeMounts": [lock_mount, modules_mount],
        }],
        "volumes": [lock, modules],
    }))
}
