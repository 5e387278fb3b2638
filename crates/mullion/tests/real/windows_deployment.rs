//! A Deployment for Windows as its users write it: placed by the scheduler, past the taint, behind one Service.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kube::{IMAGE, PORT, SETTLE, SPACE, name};
use crate::lab::Lab;
use crate::network::http;
use crate::trial::until;

/// The Deployment, its Service and what its pods mount.
const NAME: &str = "shop";

/// How a Deployment's pods get to Windows.
enum Way {
    /// By a node selector and a toleration of the taint.
    Selector,
    /// By the class of the node's build, which has both.
    Class(&'static str),
}

/// Two pods on Windows with every kind of volume answer behind one Service, and reach Linux; by either way.
#[track_caller]
pub(crate) fn two_pods_serve(lab: &Lab) {
    let named = |kind: &str, fields: Value| {
        let mut object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": NAME, "namespace": SPACE},
        });
        let fields = fields.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(fields);
        object
    };
    lab.apply(&[
        named("ConfigMap", json!({"data": {"greeting": "hello"}})),
        named("Secret", json!({"stringData": {"password": "open"}})),
        named(
            "Service",
            json!({"spec": {
                "type": "NodePort",
                "selector": {"app": NAME},
                "ports": [{"port": 80, "targetPort": PORT}],
            }}),
        ),
    ]);
    for way in [Way::Selector, Way::Class("windows-2022")] {
        lab.apply(&[deployment(&way)]);
        let pods = two_run(lab, &way);
        volumes_are_mounted(lab, &pods);
        they_are_reached(lab, &pods);
        for pod in &pods {
            let address = format!("{}:80", lab.service("lin1").0);
            until("it reaches Linux", SETTLE, || {
                lab.pod_connects(&name(pod), &address)
            });
        }
    }
    let space = format!("--namespace={SPACE}");
    let all = "deployment,service,configmap,secret";
    let _ = lab
        .kubectl(&["delete", all, NAME, &space, "--wait=true"])
        .good();
}

fn deployment(way: &Way) -> Value {
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "server",
            "image": IMAGE,
            "args": ["netexec", format!("--http-port={PORT}")],
            "readinessProbe": {"httpGet": {"path": "/hostname", "port": PORT}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "config", "mountPath": "C:\\config"},
                {"name": "secret", "mountPath": "C:\\secret"},
                {"name": "token", "mountPath": "C:\\token"},
                {"name": "scratch", "mountPath": "C:\\scratch"},
            ],
        }],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            {"name": "secret", "secret": {"secretName": NAME}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            {"name": "scratch", "emptyDir": {}},
        ],
    });
    let way = match way {
        Way::Selector => json!({
            "nodeSelector": {"kubernetes.io/os": "windows"},
            "tolerations": [
                {"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
            ],
            "runtimeClassName": null,
        }),
        Way::Class(class) => {
            json!({"runtimeClassName": class, "nodeSelector": null, "tolerations": null})
        }
    };
    let way = way.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(way);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {"metadata": {"labels": {"app": NAME}}, "spec": spec},
        },
    })
}

/// The pods, once there are two of this way, Ready and on Windows, and no others.
#[track_caller]
fn two_run(lab: &Lab, way: &Way) -> Vec<Value> {
    let space = format!("--namespace={SPACE}");
    let rollout = ["rollout", "status", &space, "--timeout=120s"];
    let shop = format!("deployment/{NAME}");
    let _ = lab.kubectl(&[&rollout[..], &[&shop]].concat()).good();
    let pods = until("the old ones are gone", SETTLE, || {
        let pods = lab.list(&["pods", &space, &format!("--selector=app={NAME}")]);
        match pods.len() {
            2 => Ok(pods),
            count => Err(format!("{count} pods")),
        }
    });
    for pod in &pods {
        assert_eq!(pod["spec"]["nodeName"], "win1", "{pod:#}");
        let class = pod["spec"]["runtimeClassName"].as_str();
        match way {
            Way::Selector => assert_eq!(class, None, "{pod:#}"),
            Way::Class(wanted) => assert_eq!(class, Some(*wanted), "{pod:#}"),
        }
    }
    pods
}

#[track_caller]
fn volumes_are_mounted(lab: &Lab, pods: &[Value]) {
    let script = "cat /config/greeting /secret/password && echo && echo x > /scratch/y && cat /scratch/y && cat /token/token";
    for pod in pods {
        let out = lab.exec(&name(pod), &["/bin/sh", "-c", script]).good().out;
        let token = out
            .strip_prefix("helloopen\nx\n")
            .unwrap_or_else(|| panic!("{out}"));
        assert_eq!(token.split('.').count(), 3, "a token is there");
    }
}

/// Linux pods reach each by its address, and both by the Service, its name and every node's port.
#[track_caller]
fn they_are_reached(lab: &Lab, pods: &[Value]) {
    for pod in pods {
        let address = format!("{}:{PORT}", pod["status"]["podIP"].as_str().unwrap());
        until("a pod connects", SETTLE, || lab.connects("lin1", &address));
    }
    let service = lab.get(&["service", NAME, &format!("--namespace={SPACE}")]);
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    for address in [format!("{address}:80"), format!("{NAME}.{SPACE}:80")] {
        until("a pod connects", SETTLE, || lab.connects("lin1", &address));
    }
    let port = service["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    let names: BTreeSet<_> = pods.iter().map(name).collect();
    for node in ["cp1", "lin1", "win1"] {
        let place = format!("{}:{port}", lab.address(node));
        let mut answered = BTreeSet::new();
        until("both answer at a node's port", SETTLE, || {
            answered.insert(http(&place, "/hostname")?);
            if answered == names {
                Ok(())
            } else {
                Err(format!("{place}: {answered:?} of {names:?}"))
            }
        });
    }
}
