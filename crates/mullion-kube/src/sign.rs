//! Signs of life: what tells that a kubelet has reported since it was started.
//!
//! A node stays Ready for 40 seconds after its machine has gone down. So what it said before is kept, and Ready counts
//! once something else is said. All values are the kubelet's own, and only compared for being other ones: no two clocks
//! have to agree.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;

use crate::conditions;
use crate::error::KubeError;
use crate::look::Look;
use crate::session::Session;

/// Where kubelets renew their leases.
const LEASES: &str = "kube-node-lease";

/// What a kubelet has said last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sign {
    /// The start of the machine that it runs in.
    boot: String,
    /// When it last wrote the node's status: at its own start, when something changes, else every five minutes.
    heartbeat: Option<Timestamp>,
    /// When it last renewed its lease, which it does every ten seconds. None where that shall not count.
    lease: Option<Timestamp>,
}

impl Sign {
    fn of(node: &Node, lease: Option<&Lease>) -> Self {
        let status = node.status.as_ref();
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        Self {
            boot: status
                .and_then(|status| status.node_info.as_ref())
                .map(|info| info.boot_id.clone())
                .unwrap_or_default(),
            heartbeat: conditions::heartbeat(node),
            lease: spec.and_then(|spec| Some(spec.renew_time.as_ref()?.0)),
        }
    }

    /// The sign of a kubelet that surely is started anew. It writes the node's status then, and until it has, a lease
    /// that it renewed says nothing of whether the node is Ready.
    #[must_use]
    pub fn ended(self) -> Self {
        Self {
            lease: None,
            ..self
        }
    }

    /// Whether this was said before `now`.
    fn is_before(&self, now: &Self) -> bool {
        let is_renewed = self.lease.is_some() && self.lease != now.lease;
        self.boot != now.boot || self.heartbeat != now.heartbeat || is_renewed
    }
}

impl Session {
    /// A node with its sign.
    async fn find_sign(&self, name: &str) -> Result<Option<(Node, Sign)>, KubeError> {
        let leases = self.within::<Lease>(LEASES);
        // The lease first: a node that is read after it is no older.
        let lease = self
            .ask(
                format!("read the lease of node {name}"),
                leases.get_opt(name),
            )
            .await?;
        let node = self.find_node(name).await?;
        Ok(node.map(|node| {
            let sign = Sign::of(&node, lease.as_ref());
            (node, sign)
        }))
    }

    pub(crate) async fn node_sign(&self, name: &str) -> Result<Option<Sign>, KubeError> {
        Ok(self.find_sign(name).await?.map(|(_, sign)| sign))
    }

    pub(crate) async fn ready_since(&self, name: &str, old: &Sign) -> Result<Look, KubeError> {
        Ok(match self.find_sign(name).await? {
            None => return Err(KubeError::NodeGone { node: name.into() }),
            Some((node, sign)) if old.is_before(&sign) => conditions::ready(&node),
            Some(_) => Look::not_yet(format!(
                "the kubelet of {name} has not reported since it was started"
            )),
        })
    }
}
