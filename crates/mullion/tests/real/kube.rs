//! The cluster as its user sees it: through `mullion kubectl`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::Lab;
use crate::ran::Ran;
use crate::trial::until;

/// How long a pod may take to run, on a computer that does other things too.
pub(crate) const SETTLE: Duration = Duration::from_mins(2);

/// The image with servers and clients, which is on every node from the start.
pub(crate) const IMAGE: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";

/// The name space of the tests' own objects.
pub(crate) const SPACE: &str = "proof";

/// The port that a server's container listens on.
pub(crate) const PORT: u16 = 8080;

impl Lab {
    /// Runs kubectl.
    #[track_caller]
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Ran {
        self.run(&[&["kubectl"], arguments].concat())
    }

    /// What the API server has.
    #[track_caller]
    pub(crate) fn get(&self, what: &[&str]) -> Value {
        let arguments = [&["get", "--output=json"], what].concat();
        self.kubectl(&arguments).good().json()
    }

    /// The items of a list.
    #[track_caller]
    pub(crate) fn list(&self, what: &[&str]) -> Vec<Value> {
        self.get(what)["items"].as_array().unwrap().clone()
    }

    /// Makes objects so.
    #[track_caller]
    pub(crate) fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let _ = self
            .run_with(&["kubectl", "apply", "--filename=-"], &list.to_string())
            .good();
    }

    /// A command in a pod.
    #[track_caller]
    pub(crate) fn exec(&self, pod: &str, command: &[&str]) -> Ran {
        let space = format!("--namespace={SPACE}");
        self.kubectl(&[&["exec", &space, pod, "--"], command].concat())
    }

    /// A command in the pod of the tests on a node.
    #[track_caller]
    pub(crate) fn inside(&self, node: &str, command: &[&str]) -> Ran {
        self.exec(&pod_name(node), command)
    }

    /// Whether that pod connects to an address.
    #[track_caller]
    pub(crate) fn connects(&self, node: &str, address: &str) -> Result<(), String> {
        self.pod_connects(&pod_name(node), address)
    }

    /// Whether a pod connects to an address.
    #[track_caller]
    pub(crate) fn pod_connects(&self, pod: &str, address: &str) -> Result<(), String> {
        let ran = self.exec(pod, &["/agnhost", "connect", "--timeout=2s", address]);
        if ran.code == 0 {
            Ok(())
        } else {
            Err(format!(
                "{pod} does not connect to {address}: {}{}",
                ran.out, ran.err
            ))
        }
    }

    /// The names of all nodes that are Ready.
    #[track_caller]
    pub(crate) fn ready_nodes(&self) -> BTreeSet<String> {
        let nodes = self.list(&["nodes"]);
        let ready = nodes.iter().filter(|node| is_so(node, "Ready"));
        ready.map(name).collect()
    }

    /// These are the nodes, and all of them are Ready.
    #[track_caller]
    pub(crate) fn ready(&self, nodes: &[&str]) {
        let nodes: BTreeSet<_> = nodes.iter().map(|node| (*node).to_owned()).collect();
        assert_eq!(self.ready_nodes(), nodes);
    }

    /// Every pod of the cluster runs and is Ready.
    #[track_caller]
    pub(crate) fn all_pods_run(&self) {
        until("all pods run", SETTLE, || {
            let pods = self.list(&["pods", "--all-namespaces"]);
            let runs = |pod: &Value| pod["status"]["phase"] == "Running" && is_so(pod, "Ready");
            let lazy = pods.iter().filter(|pod| !runs(pod));
            let lazy: Vec<_> = lazy
                .map(|pod| format!("{} {}", name(pod), pod["status"]))
                .collect();
            match (pods.len(), lazy.is_empty()) {
                (0, _) => Err("there are none".into()),
                (_, true) => Ok(()),
                (_, false) => Err(lazy.join("\n")),
            }
        });
    }

    /// One server on each of these nodes, each behind a Service of its own that is reached from outside too.
    #[track_caller]
    pub(crate) fn serve(&self, nodes: &[&str]) {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}});
        let mut objects = vec![space];
        for node in nodes {
            objects.extend([pod(node), service(node)]);
        }
        self.apply(&objects);
        self.all_pods_run();
    }

    /// The address within the cluster of the Service of a node's pod, and the port that every node opens for it.
    #[track_caller]
    pub(crate) fn service(&self, node: &str) -> (String, u16) {
        let service = self.get(&["service", &pod_name(node), &format!("--namespace={SPACE}")]);
        let port = service["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
        let address = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
        (address, port.try_into().unwrap())
    }
}

/// The pod of the tests on a node, and its Service.
pub(crate) fn pod_name(node: &str) -> String {
    format!("on-{node}")
}

/// An object's name.
pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn is_so(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|found| found["type"] == condition && found["status"] == "True")
}

fn pod(node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(node),
            "namespace": SPACE,
            "labels": {"app": "server", "on": node},
        },
        "spec": {
            // Past the scheduler: control planes take one too.
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "server",
                "image": IMAGE,
                "imagePullPolicy": "Never",
                "args": ["netexec", format!("--http-port={PORT}")],
                "ports": [{"containerPort": PORT}],
                "readinessProbe": {"httpGet": {"path": "/hostname", "port": PORT}, "periodSeconds": 1},
            }],
        },
    })
}

fn service(node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": pod_name(node), "namespace": SPACE},
        "spec": {
            "type": "NodePort",
            "selector": {"on": node},
            "ports": [{"port": 80, "targetPort": PORT}],
        },
    })
}
