//! kubelet alone: without an API server it looks at its machine all the same.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::told::{Bench, Told};

const CONFIG: &str = "C:/var/lib/kubelet/config.yaml";
const PATCH: &str = "C:/etc/kubernetes/patches/kubeletconfiguration!ground+merge.json";

/// What only a service of Windows has a use for, and what leads to an API server.
const NOT_ALONE: [&str; 3] = [
    "--windows-service",
    "--bootstrap-kubeconfig=",
    "--kubeconfig=",
];

/// Writes the settings that kubeadm would have written: what the blueprint says of them, and that nobody is asked who
/// may log in.
pub(crate) fn write_settings(told: &Told, bench: &Bench) {
    let mut settings = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
    });
    let patch: Value = serde_json::from_str(told.text(PATCH)).unwrap();
    let patch = patch.as_object().unwrap().clone();
    settings.as_object_mut().unwrap().extend(patch);
    bench.write(CONFIG, &settings.to_string());
}

/// Its arguments by its service, but for those above. The one that is built for Wine opens no pipe: it is told of the
/// runtime as on a stand-in.
pub(crate) fn arguments(told: &Told, bench: &Bench, runtime: SocketAddr) -> Vec<String> {
    let command = told.definition("kubelet").command.as_str();
    let words = command.split_once(r"C:\k\kubelet.exe ").unwrap().1;
    let is_for_alone = |word: &&str| !NOT_ALONE.iter().any(|flag| word.starts_with(flag));
    let words = words.split(' ').filter(is_for_alone);
    let endpoint = format!("--container-runtime-endpoint=tcp://{runtime}");
    words
        .map(|word| bench.adapt(word))
        .chain([endpoint])
        .collect()
}

/// Its calls, each once and in the order in which they came first: it asks for the same again and again. Nothing before
/// it has asked for the endpoints twice, since then it has been all the way round.
pub(crate) fn round(calls: Vec<Value>) -> Option<Vec<Value>> {
    let is_begin = |call: &&Value| call["arguments"]["path"] == "/endpoints/";
    if calls.iter().filter(is_begin).count() < 2 {
        return None;
    }
    let mut once = Vec::new();
    for call in calls {
        if !once.contains(&call) {
            once.push(call);
        }
    }
    Some(once)
}
