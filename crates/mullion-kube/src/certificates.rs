//! The kubelets' serving certificates: approved for our own nodes, and for what is theirs.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::error::KubeError;
use crate::keys::{APPROVED, CERTIFICATES_ANNOTATION, MANAGER};
use crate::look::Look;
use crate::nodes;
use crate::request::{self, Serving, Taken, USER_PREFIX};
use crate::session::{Credentials, Session, side_by_side};

/// Who signs kubelets' serving certificates.
pub(crate) const SIGNER: &str = "kubernetes.io/kubelet-serving";

/// Where a kubelet serves.
const KUBELET_PORT: u16 = 10250;
/// How long a kubelet is waited for. It is asked on every look while there is no request.
const KUBELET_PATIENCE: Duration = Duration::from_secs(1);
/// How the API server begins when it could not speak to a kubelet.
const UNREACHED: &str = "error trying to reach service: ";
/// What follows where a kubelet has no certificate yet, or is just being started; a connection that the API server had
/// kept ends in one of several ways.
const MUTE: [&str; 5] = [
    "tls: ",
    "connection refused",
    "reset by peer",
    "EOF",
    "connection lost",
];
/// How long the API server has to say what it heard of a kubelet.
const HEARSAY_PATIENCE: Duration = Duration::from_secs(5);

/// How many seconds before its node is there a kubelet may have asked.
const BEFORE_ITS_NODE: i64 = 5;

/// Selects requests for serving certificates.
pub(crate) fn serving_requests() -> ListParams {
    ListParams::default().fields(&format!("spec.signerName={SIGNER}"))
}

/// Whether a request waits for somebody to decide.
pub(crate) fn is_pending(request: &CertificateSigningRequest) -> bool {
    let status = request.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().is_empty()
        && status.is_none_or(|status| status.certificate.is_none())
}

fn is_approved(request: &CertificateSigningRequest) -> bool {
    let status = request.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let has = |kind: &str| {
        let mut conditions = conditions.unwrap_or_default().iter();
        conditions.any(|condition| condition.type_ == kind)
    };
    has("Approved") && !has("Failed")
}

/// Whether a request was made since then, or so shortly before that the same kubelet made it before its node.
pub(crate) fn is_since(request: &CertificateSigningRequest, born: Option<&Time>) -> bool {
    let (Some(asked), Some(born)) = (&request.metadata.creation_timestamp, born) else {
        return true;
    };
    asked.0.as_second() + BEFORE_ITS_NODE >= born.0.as_second()
}

/// Why there is nothing to approve; so, where it was approved earlier and that is written down.
fn await_request(
    node: &str,
    found: Option<&Node>,
    own: &[CertificateSigningRequest],
) -> Look<usize> {
    let Some(found) = found else {
        return nodes::unknown(node);
    };
    let noted = found.annotations().get(CERTIFICATES_ANNOTATION);
    if own.is_empty() && noted.map(String::as_str) == Some(APPROVED) {
        return Look::So(0);
    }
    Look::not_yet(match own.first() {
        Some(request) => format!(
            "certificate request {} of {node} was denied or failed; its kubelet will ask again",
            request.name_any()
        ),
        None => format!("the kubelet of {node} has not asked for a certificate yet"),
    })
}

/// The addresses and names of a Node object.
fn taken_by(node: &Node) -> impl Iterator<Item = Taken> {
    let owner = format!("node {}", node.name_any());
    let status = node.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.as_deref());
    let addresses = addresses.unwrap_or_default().iter();
    addresses.map(move |address| Taken::new(&address.address, owner.clone()))
}

/// The node that sent a request.
pub(crate) fn asking_node(request: &CertificateSigningRequest) -> Option<&str> {
    request.spec.username.as_deref()?.strip_prefix(USER_PREFIX)
}

impl Session {
    /// Gives how many requests were approved by this look.
    pub(crate) async fn approve_certificates(
        &self,
        node: &str,
        serving: &Serving,
    ) -> Result<Look<usize>, KubeError> {
        let requests = self.all::<CertificateSigningRequest>();
        let listed = self
            .ask(
                "list certificate requests",
                requests.list(&serving_requests()),
            )
            .await?;
        let found = self.find_node(node).await?;
        let born = found.as_ref();
        let born = born.and_then(|node| node.metadata.creation_timestamp.as_ref());
        let own: Vec<_> = listed
            .items
            .into_iter()
            .filter(|request| request.spec.signer_name == SIGNER)
            .filter(|request| asking_node(request) == Some(node))
            .collect();
        let mut refusal = None;
        let mut fit = Vec::new();
        let pending: Vec<_> = own.iter().filter(|request| is_pending(request)).collect();
        let mut known = serving.clone();
        if !pending.is_empty() {
            known
                .taken
                .extend(self.addresses_of_others(node, serving).await?);
        }
        for request in pending {
            match request::check(&request.spec, node, &known) {
                Ok(()) => fit.push(request.clone()),
                // Requests are kept for hours: that of a node of the same name that is gone says nothing of this one.
                Err(_) if !is_since(request, born) => {}
                Err(unfit) => {
                    refusal.get_or_insert_with(|| KubeError::WrongRequest {
                        request: request.name_any(),
                        node: node.into(),
                        unfit,
                    });
                }
            }
        }
        let approvals = fit.into_iter().map(|request| self.clone().approve(request));
        let mut count = 0;
        for approved in side_by_side(approvals).await {
            approved?;
            count += 1;
        }
        // What is right is approved also beside something that is wrong; the wrong one is still told.
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if count == 0 {
            let own: Vec<_> = own
                .into_iter()
                .filter(|request| is_since(request, born))
                .collect();
            if !own.iter().any(is_approved) && !self.is_served(&serving.addresses).await {
                return Ok(await_request(node, found.as_ref(), &own));
            }
        }
        Ok(match self.note_certificates(node).await? {
            Look::So(()) => Look::So(count),
            Look::NotYet(words) => Look::NotYet(words),
        })
    }

    /// What the Node objects of others say that they are reached by.
    async fn addresses_of_others(
        &self,
        node: &str,
        serving: &Serving,
    ) -> Result<Vec<Taken>, KubeError> {
        let nodes = self.all::<Node>();
        let every = ListParams::default();
        let listed = self.ask("list nodes", nodes.list(&every)).await?;
        let others = listed.items.iter().filter(|other| {
            let name = other.name_any();
            // The node of a machine that is no longer in the file goes, and its address may have another machine.
            let is_ours = serving.owner.owns(other.labels());
            let is_left_over = is_ours && !serving.machines.contains(&name);
            name != node && !is_left_over
        });
        Ok(others.flat_map(taken_by).collect())
    }

    async fn approve(self, request: CertificateSigningRequest) -> Result<(), KubeError> {
        let name = request.name_any();
        let change = json!({
            // Nobody may have decided meanwhile.
            "metadata": { "resourceVersion": request.metadata.resource_version },
            "status": { "conditions": [{
                "type": "Approved",
                "status": "True",
                "reason": "MullionApproved",
                "message": "The request is a node's of this cluster, for its own name and addresses.",
            }] },
        });
        let requests = self.all::<CertificateSigningRequest>();
        let manager = PatchParams {
            field_manager: Some(MANAGER.into()),
            ..PatchParams::default()
        };
        let patch: Patch<Value> = Patch::Merge(change);
        let doing = format!("approve certificate request {name}");
        self.ask(doing, requests.patch_approval(&name, &manager, &patch))
            .await
            .map(|_| ())
    }

    /// Whether the API server can speak to a node's kubelet, which then has a certificate and asks for none. One that
    /// was started anew before it had fetched what was approved asks again, however Ready its node is.
    ///
    /// A kubelet that nothing is heard of is not waited for: a network that drops packets is not its fault.
    pub(crate) async fn kubelet_serves(&self, node: &str) -> Look {
        let path = format!("/api/v1/nodes/{node}/proxy/healthz");
        let Ok(request) = http::Request::get(path).body(Vec::new()) else {
            return Look::So(());
        };
        let answer = timeout(HEARSAY_PATIENCE, self.client().request_text(request)).await;
        let mute =
            |why: &str| Look::not_yet(format!("the kubelet of {node} does not serve yet: {why}"));
        match answer {
            Err(_) | Ok(Ok(_)) => Look::So(()),
            Ok(Err(kube::Error::Api(status))) => match status.message.split_once(UNREACHED) {
                Some((_, why)) if MUTE.iter().any(|words| why.contains(words)) => mute(why),
                _ => Look::So(()),
            },
            Ok(Err(error)) => mute(&format!("the API server was not heard: {error}")),
        }
    }

    /// Whether a kubelet already serves with a certificate of the cluster's authority. Requests are kept for an hour
    /// only, and a run that was cut off may be taken up later than that.
    async fn is_served(&self, addresses: &[IpAddr]) -> bool {
        let looks = addresses.iter().map(|address| {
            let session = self.clone();
            let kubelet = SocketAddr::new(*address, KUBELET_PORT);
            async move {
                let server = format!("https://{kubelet}");
                // A kubelet need not know who asks: that it answers at all is what counts.
                let Ok(session) = session.at(&server, Credentials::Kept) else {
                    return false;
                };
                let client = session.client();
                let request = http::Request::get("/healthz").body(kube::client::Body::empty());
                match request {
                    Ok(request) => {
                        let answer = timeout(KUBELET_PATIENCE, client.send(request)).await;
                        matches!(answer, Ok(Ok(_)))
                    }
                    Err(_) => false,
                }
            }
        });
        side_by_side(looks).await.contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_a_node_that_is_gone_is_not_that_of_its_successor() {
        let at = |second: i64| Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap());
        let asked = |second| {
            let mut request = CertificateSigningRequest::default();
            request.metadata.creation_timestamp = Some(at(second));
            request
        };
        let born = at(100);
        assert!(is_since(&asked(101), Some(&born)));
        assert!(is_since(&asked(99), Some(&born)));
        assert!(!is_since(&asked(60), Some(&born)));
        assert!(is_since(&asked(60), None));
    }
}
