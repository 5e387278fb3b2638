//! The API server of one cluster: everything that is asked of it, one blocking call each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Formatter};
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use mullion_plan::{Attend, ClusterId, Fingerprint};
use mullion_spec::value::{ClusterName, Taint};
use serde_json::Value;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::conditions;
use crate::error::KubeError;
use crate::etcd::{self, EtcdDoor, EtcdMember};
use crate::facts::{self, ClusterView};
use crate::kubeconfig;
use crate::look::Look;
use crate::nodes::{self, Marks};
use crate::owner::Owner;
use crate::request::Serving;
use crate::rollout::Workload;
use crate::session::{Credentials, Session};
use crate::sets::ObjectDifference;
use crate::sign::Sign;
use crate::tokens::JoinToken;

/// The API server of one cluster.
///
/// Calls block, may be made from many threads at once, and never wait for a condition: a method that gives a
/// [`Look`] looks once. No request takes longer than 15 seconds, save a snapshot. All are idempotent, except
/// [`Api::create_join_token`], which makes a new token every time.
pub struct Api {
    session: Session,
    id: ClusterId,
    server: http::Uri,
    authority_data: String,
    handle: Handle,
    /// Taken out when dropped.
    runtime: Option<Runtime>,
}

impl Debug for Api {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Api")
            .field("server", &self.server)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A name lookup that hangs would keep the thread that drops us.
            runtime.shutdown_background();
        }
    }
}

impl Api {
    /// Prepares a connection as a kubeconfig's text says; nothing is sent yet. Without a context the current one is
    /// taken. Only the text counts: no file is read, and no proxy or anything else is taken out of the environment.
    pub fn connect(kubeconfig: &str, context: Option<&str>) -> Result<Self, KubeError> {
        let way = kubeconfig::read(kubeconfig, context)?;
        let runtime = runtime()?;
        let session = {
            let _inside = runtime.enter();
            Session::new(way.config())?
        };
        Ok(Self {
            session,
            id: way.id(),
            server: way.server,
            authority_data: way.authority_data,
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    /// An API server that a test plays.
    #[cfg(test)]
    pub(crate) fn played(open: impl FnOnce() -> kube::Client) -> Self {
        let runtime = runtime().unwrap();
        let session = {
            let _inside = runtime.enter();
            Session::over(open())
        };
        Self {
            session,
            id: ClusterId("played".into()),
            server: http::Uri::from_static("https://10.99.0.11:6443"),
            authority_data: "QVVUSE9SSVRZ".into(),
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        }
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    /// Which cluster it is: the SHA-256 of its authority's certificate in DER, which every machine that joined it
    /// has in `/etc/kubernetes/pki/ca.crt`.
    pub fn id(&self) -> &ClusterId {
        &self.id
    }

    /// Lets every member of etcd go whose machine is no more: those of its name, and those without a name at one of its
    /// addresses. Asks etcd itself.
    pub fn remove_members(
        &self,
        door: &EtcdDoor,
        name: &str,
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<(), KubeError> {
        self.wait(etcd::remove_members(door, name, addresses))
    }

    /// Who the members of etcd are, and which of them are healthy. Asks etcd itself: one member for the list, and then
    /// every member for its own health.
    pub fn etcd_members(&self, door: &EtcdDoor) -> Result<Vec<EtcdMember>, KubeError> {
        self.wait(etcd::members(door))
    }

    /// Writes a snapshot of one member's data, and gives its size once its digest was compared. It may take as long as
    /// etcd sends.
    pub fn save_snapshot(
        &self,
        door: &EtcdDoor,
        out: &mut (dyn Write + Send),
    ) -> Result<u64, KubeError> {
        self.wait(etcd::save_snapshot(door, out))
    }

    /// Where it is.
    pub fn server(&self) -> String {
        self.server.to_string()
    }

    /// Whether the API server says that it is ready.
    pub fn answers(&self, patience: Duration) -> bool {
        self.readiness(patience).is_so()
    }

    /// Whether one machine's own API server says that it is ready: `https://10.99.0.11:6443`. Its certificate must
    /// be of the same authority.
    pub fn answers_at(&self, server: &str, patience: Duration) -> bool {
        self.readiness_at(server, patience)
            .is_ok_and(|look| look.is_so())
    }

    /// As [`Api::answers`], with words for why not.
    pub fn readiness(&self, patience: Duration) -> Look {
        self.wait(self.session.readiness(patience))
    }

    /// As [`Api::answers_at`], with words for why not.
    pub fn readiness_at(&self, server: &str, patience: Duration) -> Result<Look, KubeError> {
        self.wait(async {
            let session = self.session.at(server, Credentials::Shown)?;
            Ok(session.readiness(patience).await)
        })
    }

    /// Everything that is to be known of the cluster, in one look. A node is ours when it carries the labels of
    /// `owner`.
    pub fn facts(&self, owner: &Owner) -> Result<ClusterView, KubeError> {
        let answers = self.wait(self.session.answers())?;
        Ok(facts::view(&answers, self.id.clone(), &self.server, owner))
    }

    /// Applies a set of objects: what others need first, side by side where nothing waits. What is no longer in the
    /// set is deleted. The fingerprint is written down last, so that a set that was cut off is not taken for whole.
    ///
    /// Not yet, where the set defines a kind that the API server does not serve yet.
    pub fn apply_set(
        &self,
        set: &str,
        fingerprint: &Fingerprint,
        objects: &[Value],
        owner: &Owner,
    ) -> Result<Look, KubeError> {
        self.wait(self.session.apply_set(set, fingerprint, objects, owner))
    }

    /// What [`Api::apply_set`] would make, change and delete, in its order. Changes nothing: the API server is asked by
    /// dry runs what its objects would become.
    pub fn compare_set(
        &self,
        set: &str,
        objects: &[Value],
        owner: &Owner,
    ) -> Result<Vec<ObjectDifference>, KubeError> {
        self.wait(self.session.compare_set(set, objects, owner))
    }

    /// Deletes a set of objects, the last applied first. Not yet, as long as one of them is still being deleted. What
    /// another cluster applied stays.
    pub fn remove_set(&self, set: &str, owner: &Owner) -> Result<Look, KubeError> {
        self.wait(self.session.remove_set(set, owner))
    }

    /// Writes down that a suite of checks passed.
    pub fn prove(&self, suite: &str, cluster: &ClusterName) -> Result<(), KubeError> {
        self.wait(self.session.write_proof(suite, cluster))
    }

    /// Forgets which suites passed: something was changed.
    pub fn forget_proofs(&self) -> Result<(), KubeError> {
        self.wait(self.session.erase_proofs())
    }

    /// Whether a workload runs as it should, everywhere it should.
    pub fn rolled_out(
        &self,
        workload: Workload,
        namespace: &str,
        name: &str,
    ) -> Result<Look, KubeError> {
        self.wait(self.session.rolled_out(workload, namespace, name))
    }

    /// Makes a token to join with, and the discovery file that goes with it. `endpoint` is where machines reach the
    /// API server: `10.99.0.11:6443`. Delete it with [`Api::delete_token`] once it was used.
    pub fn create_join_token(
        &self,
        endpoint: &str,
        lifetime: Duration,
    ) -> Result<JoinToken, KubeError> {
        self.wait(
            self.session
                .create_join_token(endpoint, &self.authority_data, lifetime),
        )
    }

    /// Deletes a token by the public half of it.
    pub fn delete_token(&self, id: &str) -> Result<(), KubeError> {
        self.wait(self.session.delete_token(id))
    }

    /// Deletes every token of ours that a run left behind, and gives how many there were.
    pub fn sweep_tokens(&self) -> Result<usize, KubeError> {
        self.wait(self.session.sweep_tokens())
    }

    /// Whether kubeadm has uploaded its certificates for further control planes. kubeadm deletes them after two
    /// hours.
    pub fn has_uploaded_certs(&self) -> Result<bool, KubeError> {
        self.wait(self.session.has_uploaded_certs())
    }

    /// Approves the node's requests for a serving certificate, and gives how many this look approved. A request for
    /// a name that is not the node's, or for an address that is not among its own or is also someone else's (another
    /// Node object's, or one of `serving.taken`), is an error; other nodes' requests are not looked at.
    ///
    /// Not yet, as long as the kubelet has not asked.
    pub fn approve_certificates(
        &self,
        node: &str,
        serving: &Serving,
    ) -> Result<Look<usize>, KubeError> {
        self.wait(self.session.approve_certificates(node, serving))
    }

    /// Gives a node its labels and taints, the cluster's own labels among them, and lets it take pods. Not yet, as
    /// long as the cluster does not know the node.
    pub fn mark(&self, node: &str, marks: &Marks<'_>, owner: &Owner) -> Result<Look, KubeError> {
        self.wait(self.session.mark(node, marks, owner))
    }

    /// Whether a node was registered by its kubelet. One that somebody else made lacks what a kubelet gives to it.
    pub fn is_registered(&self, node: &str) -> Result<Look, KubeError> {
        self.wait(self.session.look_at_node(node, nodes::registered))
    }

    /// Whether a kubelet may start so that it registers its node: there is no node, or one with resources.
    pub fn may_register(&self, node: &str) -> Result<Look, KubeError> {
        let found = self.wait(self.session.find_node(node))?;
        Ok(found.as_ref().map_or(Look::So(()), nodes::has_resources))
    }

    /// Gives a node the labels and taints of its role, which its kubelet may not set. What else it has stays.
    pub fn give_role(
        &self,
        node: &str,
        labels: &BTreeMap<String, String>,
        taints: &BTreeSet<Taint>,
    ) -> Result<Look, KubeError> {
        self.wait(self.session.give_role(node, labels, taints))
    }

    /// Keeps new pods away from a node and asks those it has to go, daemons' and static ones excepted. Pods that
    /// nobody makes again go too, since their machine goes. So once none is left, or none that its kubelet, which
    /// no longer reports, could end.
    pub fn drain(&self, node: &str, attendant: &dyn Attend) -> Result<Look, KubeError> {
        self.wait(self.session.drain(node, attendant))
    }

    /// Deletes a node from the cluster. Its machine is not asked.
    pub fn forget(&self, node: &str) -> Result<(), KubeError> {
        self.wait(self.session.forget(node))
    }

    /// Whether a node is Ready. A node that is not there was deleted, so the look fails at once.
    pub fn node_ready(&self, node: &str) -> Result<Look, KubeError> {
        self.wait(self.session.look_at_marked_node(node, conditions::ready))
    }

    /// What a node's kubelet has said last; none where the cluster does not know the node.
    pub fn node_sign(&self, node: &str) -> Result<Option<Sign>, KubeError> {
        self.wait(self.session.node_sign(node))
    }

    /// Whether a node is Ready, and its kubelet has said something else than `old` meanwhile.
    pub fn node_ready_since(&self, node: &str, old: &Sign) -> Result<Look, KubeError> {
        self.wait(self.session.ready_since(node, old))
    }

    /// Whether a node's kubelet serves. One that nothing is heard of counts as if it did.
    pub fn kubelet_serves(&self, node: &str) -> Look {
        self.wait(self.session.kubelet_serves(node))
    }

    /// Whether a node's own network is up. A node that is not there was deleted, so the look fails at once.
    pub fn node_network(&self, node: &str) -> Result<Look, KubeError> {
        self.wait(self.session.look_at_marked_node(node, conditions::network))
    }
}

fn runtime() -> Result<Runtime, KubeError> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("kube")
        .enable_io()
        .enable_time()
        .build()
        .map_err(KubeError::Threads)
}
