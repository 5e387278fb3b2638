//! Emptying a node before its machine goes.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api as Objects, ListParams};
use kube::core::Status;
use mullion_plan::{Attend, News};
use serde_json::json;

use crate::conditions;
use crate::error::KubeError;
use crate::look::Look;
use crate::session::{Session, first_line, side_by_side};

/// How many pods are named in words for people.
const NAMED: usize = 3;

/// What one try to evict a pod gave.
#[derive(Debug)]
enum Evicted {
    /// It ends, or is gone.
    Ends,
    /// A disruption budget holds it.
    Held(String),
}

impl Session {
    /// One look: new pods are kept away, what may go is asked to go. So once nothing is left that would go.
    pub(crate) async fn drain(
        &self,
        name: &str,
        attendant: &dyn Attend,
    ) -> Result<Look, KubeError> {
        let Some(node) = self.find_node(name).await? else {
            // Nothing runs on a node that is not there.
            return Ok(Look::So(()));
        };
        let spec = node.spec.as_ref();
        if spec.and_then(|spec| spec.unschedulable) != Some(true) {
            attendant.hear(News::Line(format!("no new pods for {name}")));
            self.cordon(name).await?;
        }
        let pods: Objects<Pod> = Objects::all(self.client());
        let here = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let found = self
            .ask(format!("list pods of node {name}"), pods.list(&here))
            .await?;
        let leaving: Vec<_> = found.items.into_iter().filter(leaves).collect();
        let (ending, staying): (Vec<_>, Vec<_>) = leaving
            .iter()
            .partition(|pod| pod.metadata.deletion_timestamp.is_some());
        if attendant.is_called_off() {
            return Err(KubeError::CalledOff {
                doing: format!("drain node {name}"),
            });
        }
        for pod in &staying {
            attendant.hear(News::Line(format!("evicting {}", full_name(pod))));
        }
        let requests = staying.iter().map(|pod| {
            let session = self.clone();
            let pod = (*pod).clone();
            async move { session.evict(&pod).await }
        });
        let mut held = Vec::new();
        for evicted in side_by_side(requests).await {
            if let Evicted::Held(words) = evicted? {
                held.push(words);
            }
        }
        if let Some(words) = held.first() {
            return Ok(Look::not_yet(words.clone()));
        }
        // A kubelet that does not report ends nothing and removes nothing: there is nobody to wait for.
        if leaving.is_empty() || !conditions::is_reporting(&node) {
            return Ok(Look::So(()));
        }
        let all = ending.iter().chain(&staying).map(|pod| full_name(pod));
        Ok(Look::not_yet(still_there(name, &all.collect::<Vec<_>>())))
    }

    async fn evict(&self, pod: &Pod) -> Result<Evicted, KubeError> {
        let namespace = pod.namespace().unwrap_or_default();
        let name = pod.name_any();
        let full = full_name(pod);
        // The library's own method sends its options under a name that the API server does not know.
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
            // Another pod of that name may run elsewhere by now.
            "deleteOptions": { "preconditions": { "uid": pod.uid() } },
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let client = self.client();
        let evicted = self
            .ask(format!("evict pod {full}"), async {
                let request = http::Request::post(path)
                    .header(http::header::CONTENT_TYPE, "application/json")
                    .body(body.to_string().into_bytes())
                    .map_err(kube::Error::HttpError)?;
                client.request::<Status>(request).await
            })
            .await;
        match evicted {
            Ok(_) => Ok(Evicted::Ends),
            // Gone, or another pod since.
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(Evicted::Ends),
            Err(KubeError::Failing { answer, .. }) if answer.code == 429 => Ok(Evicted::Held(
                format!("{full} may not go yet: {}", first_line(&answer.message)),
            )),
            Err(error) => Err(error),
        }
    }
}

/// Whether a pod has to leave: those of daemons come back at once, and static ones are not the API server's.
fn leaves(pod: &Pod) -> bool {
    let is_mirror = pod
        .annotations()
        .contains_key("kubernetes.io/config.mirror");
    let is_daemon = pod
        .owner_references()
        .iter()
        .any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true));
    !is_mirror && !is_daemon
}

fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

fn still_there(node: &str, pods: &[String]) -> String {
    let named = pods
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = match pods.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match pods.len() {
        1 => format!("1 pod is still ending on {node}: {named}"),
        count => format!("{count} pods are still ending on {node}: {named}{more}"),
    }
}
