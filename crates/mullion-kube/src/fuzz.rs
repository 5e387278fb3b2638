//! What fuzzing calls: readers of what others wrote, each with what must hold of its answer. A refusal says why.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};

use crate::error::KubeError;
use crate::facts::{node_view, reads_kubeadm};
use crate::owner::Owner;
use crate::record::Record;
use crate::snapshot::Snapshot;
use crate::{conditions, etcd, kubeconfig, request};

fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}

/// A user's kubeconfig, into which ours is merged.
pub fn kubeconfig(bytes: &[u8]) -> Result<(), String> {
    const OURS: &str = "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
                        clusters: [{name: a, cluster: {server: 'https://192.0.2.1:6443'}}]\n\
                        contexts: [{name: a, context: {cluster: a, user: a}}]\n\
                        users: [{name: a, user: {token: t}}]\n";
    let text = text_of(bytes)?;
    let read = kubeconfig::read(text, None);
    if let Ok(way) = &read {
        let _ = (way.id(), way.config());
        let renamed = kubeconfig::rename(text, "demo", None).map_err(|error| error.to_string())?;
        let again = kubeconfig::read(&renamed, None);
        let id = again.map(|way| way.id()).ok();
        assert_eq!(
            id,
            Some(way.id()),
            "a renamed kubeconfig leads to the same cluster"
        );
    }
    let merged = kubeconfig::merge(Some(text), OURS, "demo").map_err(|error| error.to_string())?;
    let twice = kubeconfig::merge(Some(&merged), OURS, "demo").map_err(|error| error.to_string());
    assert_eq!(
        twice.as_ref(),
        Ok(&merged),
        "a second merge changes nothing"
    );
    read.map(|_| ()).map_err(|error| error.to_string())
}

/// What kubeadm wrote down in the cluster, where everyone with the rights may write.
pub fn kubeadm_settings(bytes: &[u8]) -> Result<(), String> {
    let text = text_of(bytes)?;
    let data = [("ClusterConfiguration".to_owned(), text.to_owned())];
    let map = ConfigMap {
        data: Some(data.into()),
        ..ConfigMap::default()
    };
    reads_kubeadm(&map)
        .then_some(())
        .ok_or_else(|| "unread".into())
}

/// A certificate request of a node, which chooses its bytes.
pub fn certificate_request(bytes: &[u8]) -> Result<(), String> {
    request::read(bytes).ok_or("unreadable")?;
    Ok(())
}

/// Answers of the API server: nodes, pods, requests, and what we wrote down there ourselves.
pub fn api_server(bytes: &[u8]) -> Result<(), String> {
    let refused = |error: serde_json::Error| error.to_string();
    if let Ok(map) = serde_json::from_slice::<ConfigMap>(bytes) {
        let _ = Record::of(Some(&map), &Owner::default()).fingerprints();
    }
    if let Ok(status) = serde_json::from_slice::<kube::core::Status>(bytes) {
        let error = KubeError::new("ask", kube::Error::Api(Box::new(status)));
        let line = error.in_one_line();
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    let _ = serde_json::from_slice::<Pod>(bytes);
    let _ = serde_json::from_slice::<CertificateSigningRequest>(bytes);
    let node: Node = serde_json::from_slice(bytes).map_err(refused)?;
    let _ = (conditions::ready(&node), conditions::network(&node));
    let view = node_view(&node);
    let shown = [&view.system, &view.kernel, &view.runtime, &view.kubelet];
    let words = view.conditions.iter().map(|condition| &condition.words);
    for text in shown.into_iter().chain(words) {
        let is_plain = !text.contains(|letter: char| letter.is_control() && letter != '\t');
        assert!(is_plain, "{text:?}");
    }
    Ok(())
}

/// The lines in which etcd sends a snapshot.
pub fn etcd_snapshot(bytes: &[u8]) -> Result<(), String> {
    let mut out = Vec::new();
    let mut snapshot = Snapshot::new(&mut out);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let taken = snapshot.take(line);
        taken.map_err(|cause| cause.to_string())?;
    }
    let size = snapshot.finish().map_err(|cause| cause.to_string())?;
    assert_eq!(size, out.len() as u64, "a whole snapshot is written whole");
    Ok(())
}

/// What etcd says of its members.
pub fn etcd_members(bytes: &[u8]) -> Result<(), String> {
    let list = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let found = etcd::find(&list, "cp1", &BTreeSet::from([[10, 99, 0, 2].into()]));
    found
        .first()
        .map(|_| ())
        .ok_or_else(|| "no such member".into())
}
