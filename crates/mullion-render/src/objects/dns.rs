//! `CoreDNS`, kept on Linux nodes.

use serde_json::{Value, json};

use super::{
    Scope, cluster_role, cluster_role_binding, config_map, linux_nodes, object, service_account,
    with,
};
use crate::error::RenderError;
use crate::setting::Setting;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "coredns";
/// Its role is named as kubeadm names it.
const ROLE: &str = "system:coredns";
/// What selects its pods, and by which people and tools know the cluster's DNS.
const APP: &str = "kube-dns";

pub(super) fn objects(setting: &Setting<'_>) -> Result<Vec<Value>, RenderError> {
    let look = json!(["list", "watch"]);
    let rules = json!([
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": look,
        },
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": look},
    ]);
    Ok(vec![
        service_account(NAME, NAMESPACE),
        cluster_role(ROLE, &rules),
        cluster_role_binding(ROLE, ROLE, (NAME, NAMESPACE)),
        config_map(NAME, NAMESPACE, &json!({"Corefile": corefile(setting)})),
        deployment(setting)?,
        service(setting)?,
    ])
}

/// Where names outside the cluster are asked for; none where there is nobody to ask.
fn upstream(setting: &Setting<'_>) -> Option<String> {
    let given = &setting.cluster().network.upstream_dns;
    if !given.is_empty() {
        let given: Vec<_> = given.iter().map(ToString::to_string).collect();
        return Some(given.join(" "));
    }
    // It may run on any of them, and does not start on a file without a server.
    let mut grounds = setting.linux_grounds();
    grounds
        .all(|ground| ground.has_resolver)
        .then(|| "/etc/resolv.conf".into())
}

fn corefile(setting: &Setting<'_>) -> String {
    let domain = &setting.cluster().network.domain;
    let forward = upstream(setting).map(|upstream| {
        format!("    forward . {upstream} {{\n        max_concurrent 1000\n    }}\n    loop\n")
    });
    let forward = forward.unwrap_or_default();
    format!(
        "\
.:53 {{
    errors
    health {{
        lameduck 5s
    }}
    ready
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    prometheus :9153
{forward}    cache 30 {{
        disable success {domain}
        disable denial {domain}
    }}
    reload
    loadbalance
}}
"
    )
}

fn deployment(setting: &Setting<'_>) -> Result<Value, RenderError> {
    let labels = json!({"k8s-app": APP});
    let probe = |path: &str, port: &str| json!({"httpGet": {"path": path, "port": port}});
    let container = json!({
        "name": NAME,
        "image": setting.image("coredns-image")?,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {
            "limits": {"memory": "170Mi"},
            "requests": {"cpu": "100m", "memory": "70Mi"},
        },
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9153, "protocol": "TCP"},
            {"name": "liveness-probe", "containerPort": 8080, "protocol": "TCP"},
            {"name": "readiness-probe", "containerPort": 8181, "protocol": "TCP"},
        ],
        "livenessProbe": with(
            probe("/health", "liveness-probe"),
            json!({"initialDelaySeconds": 60, "timeoutSeconds": 5, "failureThreshold": 5}),
        ),
        // Asked often at the start, since the whole cluster waits for it.
        "readinessProbe": with(probe("/ready", "readiness-probe"), json!({"periodSeconds": 2})),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/coredns", "readOnly": true},
        ],
    });
    let apart = json!({
        "weight": 100,
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": labels},
            "topologyKey": "kubernetes.io/hostname",
        },
    });
    let pod = json!({
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        ],
        "affinity": {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]},
        },
        "dnsPolicy": "Default",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    });
    let mut deployment = object(("apps/v1", "Deployment"), NAME, Scope::Namespace(NAMESPACE));
    deployment["metadata"]["labels"]["k8s-app"] = APP.into();
    Ok(with(
        deployment,
        json!({
            "spec": {
                // A second one on the same node would outlive nothing.
                "replicas": linux_nodes(setting).clamp(1, 2),
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }),
    ))
}

fn service(setting: &Setting<'_>) -> Result<Value, RenderError> {
    let mut service = object(("v1", "Service"), APP, Scope::Namespace(NAMESPACE));
    let labels = &mut service["metadata"]["labels"];
    labels["k8s-app"] = APP.into();
    labels["kubernetes.io/cluster-service"] = "true".into();
    labels["kubernetes.io/name"] = "CoreDNS".into();
    service["metadata"]["annotations"] =
        json!({"prometheus.io/port": "9153", "prometheus.io/scrape": "true"});
    let port = |name: &str, number: u16, protocol: &str| json!({"name": name, "port": number, "protocol": protocol, "targetPort": number});
    Ok(with(
        service,
        json!({
            "spec": {
                "clusterIP": setting.dns_address()?.to_string(),
                "selector": {"k8s-app": APP},
                "ports": [
                    port("dns", 53, "UDP"),
                    port("dns-tcp", 53, "TCP"),
                    port("metrics", 9153, "TCP"),
                ],
            },
        }),
    ))
}
