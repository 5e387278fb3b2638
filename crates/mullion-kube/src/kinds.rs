//! Kinds of objects: where each is found, and in which order they are applied.

use std::collections::BTreeMap;

use kube::api::{Api as Objects, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, Scope};

use crate::error::KubeError;
use crate::record::ObjectKey;
use crate::session::Session;

/// When an object is applied: what others need comes first. Removing goes the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Where other objects live.
    Namespaces,
    /// What teaches the API server new kinds.
    Definitions,
    /// Accounts, rights and classes, which pods are checked against when they are made.
    Foundations,
    /// What pods read and are reached by.
    Contents,
    /// What runs.
    Workloads,
    /// Objects of kinds that the table does not know, whose controllers may be among the workloads.
    Others,
    /// What can refuse everything else, once it is there.
    Gatekeepers,
}

/// Whether objects of a kind are in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Cluster,
    Namespace,
}

struct Row {
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    place: Where,
    rank: Rank,
}

const fn row(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    place: Where,
    rank: Rank,
) -> Row {
    Row {
        api_version,
        kind,
        plural,
        place,
        rank,
    }
}

use Rank::{Contents, Definitions, Foundations, Gatekeepers, Namespaces, Workloads};
use Where::{Cluster, Namespace};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// The kinds that are applied without asking where they are found.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("v1", "Namespace", "namespaces", Cluster, Namespaces),
    row("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", Cluster, Definitions),
    row("v1", "ServiceAccount", "serviceaccounts", Namespace, Foundations),
    row(RBAC, "ClusterRole", "clusterroles", Cluster, Foundations),
    row(RBAC, "ClusterRoleBinding", "clusterrolebindings", Cluster, Foundations),
    row(RBAC, "Role", "roles", Namespace, Foundations),
    row(RBAC, "RoleBinding", "rolebindings", Namespace, Foundations),
    row("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", Cluster, Foundations),
    row("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", Cluster, Foundations),
    row("storage.k8s.io/v1", "StorageClass", "storageclasses", Cluster, Foundations),
    row("storage.k8s.io/v1", "CSIDriver", "csidrivers", Cluster, Foundations),
    row("networking.k8s.io/v1", "IngressClass", "ingressclasses", Cluster, Foundations),
    row("v1", "LimitRange", "limitranges", Namespace, Foundations),
    row("v1", "ResourceQuota", "resourcequotas", Namespace, Foundations),
    row("v1", "ConfigMap", "configmaps", Namespace, Contents),
    row("v1", "Secret", "secrets", Namespace, Contents),
    row("v1", "Service", "services", Namespace, Contents),
    row("v1", "PersistentVolume", "persistentvolumes", Cluster, Contents),
    row("v1", "PersistentVolumeClaim", "persistentvolumeclaims", Namespace, Contents),
    row("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", Namespace, Contents),
    row("networking.k8s.io/v1", "Ingress", "ingresses", Namespace, Contents),
    row("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", Namespace, Contents),
    row("v1", "Pod", "pods", Namespace, Workloads),
    row("apps/v1", "DaemonSet", "daemonsets", Namespace, Workloads),
    row("apps/v1", "Deployment", "deployments", Namespace, Workloads),
    row("apps/v1", "StatefulSet", "statefulsets", Namespace, Workloads),
    row("batch/v1", "Job", "jobs", Namespace, Workloads),
    row("batch/v1", "CronJob", "cronjobs", Namespace, Workloads),
    row("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", Namespace, Workloads),
    row("apiregistration.k8s.io/v1", "APIService", "apiservices", Cluster, Gatekeepers),
    row(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", Cluster, Gatekeepers),
    row(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", Cluster, Gatekeepers),
    row(ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", Cluster, Gatekeepers),
    row(ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", Cluster, Gatekeepers),
];

fn find(api_version: &str, kind: &str) -> Option<&'static Row> {
    TABLE
        .iter()
        .find(|row| row.api_version == api_version && row.kind == kind)
}

/// When objects of a kind are applied.
pub(crate) fn rank(api_version: &str, kind: &str) -> Rank {
    find(api_version, kind).map_or(Rank::Others, |row| row.rank)
}

/// Where objects of a kind are found.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    resource: ApiResource,
    place: Where,
}

impl Kind {
    /// The namespace of an object of this kind that names one, or none.
    pub(crate) fn namespace(&self, named: Option<&str>) -> Option<String> {
        match self.place {
            Where::Cluster => None,
            Where::Namespace => Some(named.unwrap_or("default").into()),
        }
    }

    /// Whatever is found where such an object is.
    pub(crate) fn objects(&self, session: &Session, key: &ObjectKey) -> Objects<DynamicObject> {
        match self.namespace(key.namespace.as_deref()) {
            Some(namespace) => {
                Objects::namespaced_with(session.client(), &namespace, &self.resource)
            }
            None => Objects::all_with(session.client(), &self.resource),
        }
    }
}

/// The kinds that were looked up during one piece of work.
#[derive(Debug, Default)]
pub(crate) struct Kinds(BTreeMap<(String, String), Kind>);

impl Kinds {
    /// Where objects of a kind are found: out of the table, or by asking the API server once.
    pub(crate) async fn find(
        &mut self,
        session: &Session,
        api_version: &str,
        kind: &str,
    ) -> Result<Kind, KubeError> {
        let gvk = gvk(api_version, kind);
        if let Some(row) = find(api_version, kind) {
            return Ok(Kind {
                resource: ApiResource::from_gvk_with_plural(&gvk, row.plural),
                place: row.place,
            });
        }
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let unknown = || KubeError::UnknownKind {
            api_version: api_version.into(),
            kind: kind.into(),
        };
        let client = session.client();
        let found = session
            .ask(format!("find out about kind `{kind}`"), async {
                match discovery::pinned_kind(&client, &gvk).await {
                    Ok(found) => Ok(Some(found)),
                    // The group is there and has no such kind, or the group is not there.
                    Err(kube::Error::Discovery(_)) => Ok(None),
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .await?;
        let (resource, capabilities) = found.ok_or_else(unknown)?;
        let kind = Kind {
            resource,
            place: match capabilities.scope {
                Scope::Cluster => Where::Cluster,
                Scope::Namespaced => Where::Namespace,
            },
        };
        self.0.insert(key, kind.clone());
        Ok(kind)
    }
}

fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_stands_twice_in_the_table_and_the_library_agrees_on_plurals() {
        for (index, row) in TABLE.iter().enumerate() {
            let again = TABLE[index + 1..]
                .iter()
                .find(|other| (other.api_version, other.kind) == (row.api_version, row.kind));
            assert!(again.is_none(), "{}", row.kind);
            let guessed = ApiResource::from_gvk(&gvk(row.api_version, row.kind)).plural;
            assert_eq!(guessed, row.plural);
        }
    }

    #[test]
    fn what_others_need_comes_first() {
        let order = [
            ("v1", "Namespace"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            (RBAC, "ClusterRole"),
            ("v1", "ConfigMap"),
            ("apps/v1", "DaemonSet"),
            ("crd.example/v1", "Thing"),
            (ADMISSION, "ValidatingWebhookConfiguration"),
        ];
        let ranks: Vec<_> = order
            .iter()
            .map(|(version, kind)| rank(version, kind))
            .collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }
}
