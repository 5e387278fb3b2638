//! Whether a workload runs as it should.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::error::KubeError;
use crate::look::Look;
use crate::session::{Session, first_line};

/// A kind of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// One pod a node.
    DaemonSet,
    /// So many pods.
    Deployment,
}

/// How far a workload is.
#[derive(Debug, PartialEq, Eq)]
struct Progress {
    look: Look,
    /// Which pods are its own.
    selector: BTreeMap<String, String>,
}

impl Session {
    pub(crate) async fn rolled_out(
        &self,
        workload: Workload,
        namespace: &str,
        name: &str,
    ) -> Result<Look, KubeError> {
        let progress = match workload {
            Workload::DaemonSet => {
                let objects = self.within::<DaemonSet>(namespace);
                let doing = format!("read DaemonSet {namespace}/{name}");
                let found = self.ask(doing, objects.get_opt(name)).await?;
                found.as_ref().map(of_daemons)
            }
            Workload::Deployment => {
                let objects = self.within::<Deployment>(namespace);
                let doing = format!("read Deployment {namespace}/{name}");
                let found = self.ask(doing, objects.get_opt(name)).await?;
                found.as_ref().map(of_deployment)
            }
        };
        let Some(progress) = progress else {
            return Ok(Look::not_yet(format!("there is no {namespace}/{name} yet")));
        };
        let Look::NotYet(words) = progress.look else {
            return Ok(progress.look);
        };
        // Why is worth a question more: it is what a person wants to know when the wait ends in vain.
        let selector: Vec<_> = progress
            .selector
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if selector.is_empty() {
            return Ok(Look::NotYet(words));
        }
        let pods = self.within::<Pod>(namespace);
        let own = ListParams::default().labels(&selector.join(","));
        let doing = format!("list pods of {namespace}/{name}");
        let pods = self.ask(doing, pods.list(&own)).await?;
        Ok(Look::NotYet(match pods.items.iter().find_map(trouble) {
            Some(trouble) => format!("{words}: {trouble}"),
            None => words,
        }))
    }
}

fn of_daemons(set: &DaemonSet) -> Progress {
    let status = set.status.clone().unwrap_or_default();
    let selector = set.spec.as_ref().map(|spec| spec.selector.clone());
    let name = set.name_any();
    let wanted = status.desired_number_scheduled;
    let updated = status.updated_number_scheduled.unwrap_or(0);
    let available = status.number_available.unwrap_or(0);
    let look = if status.observed_generation < set.metadata.generation {
        Look::not_yet(format!("nobody has looked at {name} yet"))
    } else if updated < wanted {
        Look::not_yet(format!("{updated} of {wanted} pods of {name} are new"))
    } else if available < wanted {
        Look::not_yet(format!(
            "{available} of {wanted} pods of {name} are available"
        ))
    } else {
        Look::So(())
    };
    Progress {
        look,
        selector: selector
            .and_then(|selector| selector.match_labels)
            .unwrap_or_default(),
    }
}

fn of_deployment(deployment: &Deployment) -> Progress {
    let status = deployment.status.clone().unwrap_or_default();
    let spec = deployment.spec.as_ref();
    let name = deployment.name_any();
    let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let updated = status.updated_replicas.unwrap_or(0);
    let all = status.replicas.unwrap_or(0);
    let available = status.available_replicas.unwrap_or(0);
    let look = if status.observed_generation < deployment.metadata.generation {
        Look::not_yet(format!("nobody has looked at {name} yet"))
    } else if updated < wanted {
        Look::not_yet(format!("{updated} of {wanted} pods of {name} are new"))
    } else if all > updated {
        let old = all - updated;
        Look::not_yet(format!("{old} old pods of {name} are still there"))
    } else if available < wanted {
        Look::not_yet(format!(
            "{available} of {wanted} pods of {name} are available"
        ))
    } else {
        Look::So(())
    };
    Progress {
        look,
        selector: spec
            .and_then(|spec| spec.selector.match_labels.clone())
            .unwrap_or_default(),
    }
}

/// What keeps a pod from running, in words.
fn trouble(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = pod.name_any();
    let place = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let at = place.map(|node| format!(" on {node}")).unwrap_or_default();
    let init = status.init_container_statuses.iter().flatten();
    let main = status.container_statuses.iter().flatten();
    if let Some(words) = init.chain(main).find_map(container_trouble) {
        return Some(format!("{name}{at}: {words}"));
    }
    let conditions = status.conditions.iter().flatten();
    let mut unplaced = conditions
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    let message = unplaced.next()?.message.clone().unwrap_or_default();
    Some(format!("{name}: {}", first_line(&message)))
}

fn container_trouble(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref()?;
    let name = &status.name;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        // How every container begins.
        if matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
            return None;
        }
        let message = first_line(waiting.message.as_deref().unwrap_or_default());
        let colon = if message.is_empty() { "" } else { ": " };
        return Some(format!("container {name} waits, {reason}{colon}{message}"));
    }
    let ended = state
        .terminated
        .as_ref()
        .filter(|ended| ended.exit_code != 0)?;
    Some(format!(
        "container {name} ended with status {}",
        ended.exit_code
    ))
}

#[cfg(test)]
mod tests;
