//! `mullion status`: what there is, and what differs from the file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use mullion_catalog::{Catalog, Judgement};
use mullion_engine::Lock;
use mullion_kube::ClusterView;
use mullion_plan::{Certificate, CertificateFacts, MachineFacts, Observed, Plan, Power};
use mullion_spec::value::{Address, MachineName};
use mullion_spec::words::Driver;
use mullion_wire::duration;
use mullion_wire::text::one_line;
use schemars::JsonSchema;
use serde::Serialize;

use super::up::plan_now;
use super::validate::refuse;
use crate::console::{Console, Format};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::views::findings::plural;
use crate::workshop;

/// What there is of a cluster.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusDocument {
    /// The cluster.
    pub cluster: String,
    /// The Kubernetes that the file wants.
    pub kubernetes: String,
    /// What the API server is: `answers`, `silent` or `absent`.
    pub api_server: &'static str,
    /// Where clients reach it.
    pub endpoint: Option<String>,
    /// Every machine, wanted or found.
    pub machines: Vec<MachineStatus>,
    /// What was made and is down now; `mullion up` brings it back.
    pub down: Vec<String>,
    /// What differs from the file.
    pub differences: Vec<String>,
    /// Who works on the cluster now.
    pub run: Option<String>,
}

/// One machine.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Its name.
    pub name: String,
    /// `running`, `off`, `new`, `half-made`, `absent` or `not-ours`; of one that exists already `reached` or `silent`.
    pub machine: &'static str,
    /// Its driver.
    pub driver: Option<String>,
    /// Whether it stands in for Windows: what it shows is no proof about Windows.
    pub stand_in: bool,
    /// Its address.
    pub address: Option<String>,
    /// Whether somebody could log in.
    pub answers: bool,
    /// Whether it starts when its host does; nothing where its host starts no machines, or nobody made it.
    pub autostart: Option<bool>,
    /// What waits for its next start; for a node that is as wanted a run makes none.
    pub next_start: Option<String>,
    /// Until when the certificates of its control plane are good.
    pub certificates: Option<CertificatesStatus>,
    /// The node that it is.
    pub node: Option<NodeStatus>,
}

/// Until when the certificates of a control plane are good, by this computer's clock.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificatesStatus {
    /// The one that ends first of those that `mullion up` renews.
    pub first: CertificateStatus,
    /// The one that ends first of the authorities' own. Nobody renews these.
    pub authority: Option<CertificateStatus>,
    /// What ends soon: less than a fifth of a certificate's life is left, or less than a tenth of an authority's.
    pub warnings: Vec<String>,
}

/// One certificate.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// Its file, below `/etc/kubernetes`.
    pub file: String,
    /// When it ends.
    pub expires: String,
    /// The whole days that are left; negative once it has expired.
    pub days_left: i64,
}

/// One node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Whether it is Ready.
    pub ready: bool,
    /// Its roles.
    pub roles: Vec<String>,
    /// Its kubelet.
    pub kubelet: String,
    /// Its system.
    pub system: String,
    /// Its container runtime.
    pub runtime: String,
    /// Since when the cluster knows it.
    pub since: Option<String>,
    /// What is wrong with it: conditions that are not as they should be, each with its reason.
    pub trouble: Vec<String>,
}

/// Says what there is.
pub fn status(
    console: &mut Console<'_>,
    judgement: &Judgement,
    environment: &Environment,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let adapter = workshop::open(model, environment)?;
    let (wanted, observed, plan) = plan_now(&adapter, model)?;
    let view = observed.cluster.as_ref().filter(|cluster| cluster.answers);
    let view = view.and_then(|_| adapter.cluster_view());
    let holder = Lock::holder(&environment.state, adapter.cluster_name()).or_else(|| {
        let _rights = mullion_rights::as_root();
        Lock::holder(&environment.place, adapter.cluster_name())
    });
    let mut machines: Vec<_> = wanted
        .cluster
        .machines()
        .map(|machine| (machine.given_address().cloned(), machine.name))
        .collect();
    let is_extra = |name: &MachineName| machines.iter().all(|(_, wanted)| wanted != name);
    let extra = observed.machines.iter();
    let extra = extra.filter(|(name, facts)| facts.ours && is_extra(name));
    let extra: Vec<_> = extra.map(|(name, _)| (None, name.clone())).collect();
    machines.extend(extra);
    let now = Timestamp::now();
    let document = StatusDocument {
        cluster: model.cluster().name.to_string(),
        kubernetes: model.kubernetes().version.to_string(),
        api_server: match &observed.cluster {
            Some(cluster) if cluster.answers => "answers",
            Some(_) => "silent",
            None => "absent",
        },
        endpoint: observed
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.endpoint.clone()),
        machines: machines
            .iter()
            .map(|(given, name)| {
                machine_status(name, given.as_ref(), &observed, view.as_ref(), now)
            })
            .collect(),
        down: down(&observed),
        differences: differences(&plan),
        run: holder.map(|holder| {
            format!(
                "`{}` (process {} since {})",
                holder.command, holder.pid, holder.since
            )
        }),
    };
    match console.format {
        Format::Json => console.json("Status", &document)?,
        Format::Text => {
            let text = text(&document, now);
            console.out.write_all(text.as_bytes())?;
        }
    }
    Ok(0)
}

/// `given` is the address that the file gives a machine which exists already.
fn machine_status(
    name: &MachineName,
    given: Option<&Address>,
    observed: &Observed,
    view: Option<&ClusterView>,
    now: Timestamp,
) -> MachineStatus {
    let facts = observed.machines.get(name);
    let driver = facts.map(|facts| facts.driver);
    MachineStatus {
        name: name.to_string(),
        machine: match (facts, given) {
            (Some(facts), _) => state(facts),
            // Nobody sees one that exists already unless it answers.
            (None, Some(_)) => "silent",
            (None, None) => "absent",
        },
        driver: driver
            .or(given.map(|_| Driver::Ssh))
            .map(|driver| driver.to_string()),
        stand_in: facts.is_some_and(|facts| Catalog::builtin().driver(facts.driver).stand_in),
        address: facts
            .and_then(|facts| facts.address)
            .map(|address| address.to_string())
            .or(given.map(ToString::to_string)),
        answers: facts.is_some_and(|facts| facts.inside.is_some()),
        autostart: facts.and_then(|facts| facts.autostart),
        next_start: facts
            .and_then(|facts| facts.inside.as_ref())
            .and_then(|inside| inside.next_start.clone()),
        certificates: facts
            .and_then(|facts| facts.inside.as_ref())
            .and_then(|inside| inside.certificates.as_ref())
            .map(|found| certificates_status(name, found, now)),
        node: view.and_then(|view| node_status(name, view)),
    }
}

fn certificates_status(
    name: &MachineName,
    found: &CertificateFacts,
    now: Timestamp,
) -> CertificatesStatus {
    let now = u64::try_from(now.as_second()).unwrap_or_default();
    let status = |certificate: &Certificate| {
        let expires = i64::try_from(certificate.expires).ok();
        let expires = expires.and_then(|expires| Timestamp::from_second(expires).ok());
        CertificateStatus {
            file: certificate.file.clone(),
            expires: expires.map_or_else(|| "never".into(), |expires| expires.to_string()),
            days_left: certificate.days_left(now),
        }
    };
    let mut warnings = Vec::new();
    let first = &found.first;
    if found.due.is_some() || first.ends_soon(now) {
        let what = format!(
            "the certificate `{}` of {name} {}",
            first.file,
            first.end(now)
        );
        warnings.push(if found.due.is_some() {
            format!("{what}: `mullion up` renews it")
        } else {
            format!("{what}: `mullion up` renews it once less than a tenth of its life is left")
        });
    }
    if let Some(authority) = found.authority.as_ref().filter(|found| found.is_due(now)) {
        warnings.push(format!(
            "the authority's certificate `{}` of {name} {}: neither Mullion nor kubeadm renews it, and no certificate \
             is good without it; see https://kubernetes.io/docs/tasks/tls/manual-rotation-of-ca-certificates/",
            authority.file,
            authority.end(now)
        ));
    }
    CertificatesStatus {
        first: status(first),
        authority: found.authority.as_ref().map(status),
        warnings,
    }
}

fn state(facts: &MachineFacts) -> &'static str {
    match (facts.made, facts.ours, facts.whole, facts.power) {
        (false, ..) => "reached",
        (true, false, ..) => "not-ours",
        (_, _, false, _) => "half-made",
        (_, _, _, Power::On) => "running",
        (_, _, _, Power::Off) => "off",
        (_, _, _, Power::New) => "new",
    }
}

fn node_status(name: &MachineName, view: &ClusterView) -> Option<NodeStatus> {
    let facts = view.facts.nodes.get(name.as_str())?;
    let node = view.nodes.get(name.as_str())?;
    let is_trouble = |condition: &&mullion_kube::Condition| {
        let good = if condition.kind == "Ready" {
            "True"
        } else {
            "False"
        };
        condition.status != good
    };
    let mut trouble: Vec<_> = node
        .conditions
        .iter()
        .filter(is_trouble)
        .map(|condition| {
            format!(
                "{}={}: {}",
                condition.kind, condition.status, condition.words
            )
        })
        .collect();
    if facts.cordoned {
        trouble.push("bears the note of a drain: `mullion up` ends it".into());
    }
    Some(NodeStatus {
        ready: facts.ready,
        roles: node.roles.iter().cloned().collect(),
        kubelet: node.kubelet.clone(),
        system: node.system.clone(),
        runtime: node.runtime.clone(),
        since: node.since.map(|since| since.to_string()),
        trouble,
    })
}

/// What was made and is down now, as after a restart of this computer, one line each.
fn down(observed: &Observed) -> Vec<String> {
    let mut down = Vec::new();
    let made = observed.machines.iter();
    let made: Vec<_> = made
        .filter(|(_, facts)| facts.ours && facts.made && facts.whole)
        .collect();
    let off: Vec<_> = made
        .iter()
        .filter(|(_, facts)| facts.power == Power::Off)
        .map(|(name, _)| name.as_str())
        .collect();
    match off[..] {
        [] => {}
        [one] => down.push(format!("machine {one} is off")),
        _ => down.push(format!("machines {} are off", off.join(", "))),
    }
    let places: BTreeSet<_> = made.iter().map(|(_, facts)| &facts.place).collect();
    for place in places {
        let host = observed.hosts.get(place);
        if host.is_none_or(|host| host.network.is_none()) {
            down.push(format!("the machine network of {place} is gone"));
        }
    }
    if observed
        .cluster
        .as_ref()
        .is_some_and(|cluster| !cluster.answers)
    {
        down.push("the API server does not answer".into());
    }
    down
}

/// What a run would have to do, one line each: words may hold names out of an archive or off a machine.
fn differences(plan: &Plan) -> Vec<String> {
    let obstacles = plan.obstacles().iter().map(mullion_plan::Obstacle::words);
    let steps = plan
        .steps()
        .iter()
        .map(|step| format!("{}: {}", step.title(), step.reason));
    let lines = obstacles.chain(steps);
    lines.map(|line| one_line(&line).into_owned()).collect()
}

const SHOWN: usize = 10;

fn text(document: &StatusDocument, now: Timestamp) -> String {
    let mut out = String::new();
    let endpoint = document
        .endpoint
        .as_deref()
        .map(|endpoint| format!(" at {endpoint}"));
    let _ = writeln!(
        out,
        "cluster `{}`, Kubernetes {}, API server {}{}\n",
        document.cluster,
        document.kubernetes,
        document.api_server,
        endpoint.unwrap_or_default()
    );
    let mut rows = vec![
        [
            "MACHINE",
            "STATE",
            "ADDRESS",
            "NODE",
            "ROLES",
            "KUBELET",
            "RUNTIME",
            "SINCE",
            "CERTIFICATES",
        ]
        .map(String::from),
    ];
    for machine in &document.machines {
        let node = machine.node.as_ref();
        let dash = || "-".to_owned();
        rows.push([
            machine.name.clone(),
            if machine.stand_in {
                format!("{}, stand-in", machine.machine)
            } else {
                machine.machine.to_owned()
            },
            machine.address.clone().unwrap_or_else(dash),
            node.map_or_else(dash, |node| {
                if node.ready {
                    "Ready".into()
                } else {
                    "NotReady".into()
                }
            }),
            node.map_or_else(dash, |node| {
                if node.roles.is_empty() {
                    "worker".into()
                } else {
                    node.roles.join(",")
                }
            }),
            node.map_or_else(dash, |node| node.kubelet.clone()),
            node.map_or_else(dash, |node| node.runtime.clone()),
            node.and_then(|node| node.since.as_deref())
                .map_or_else(dash, |since| age(since, now)),
            machine
                .certificates
                .as_ref()
                .map_or_else(dash, |found| match found.first.days_left {
                    days if days < 0 => "expired".into(),
                    1 => "1 day".into(),
                    days => format!("{days} days"),
                }),
        ]);
    }
    let mut widths = [0; 9];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    for row in &rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let line: Vec<_> = cells.collect();
        let _ = writeln!(out, "{}", line.join("  ").trim_end());
    }
    for machine in &document.machines {
        if let Some(words) = &machine.next_start {
            let _ = writeln!(out, "{}: {words}", machine.name);
        }
        for warning in machine
            .certificates
            .iter()
            .flat_map(|found| &found.warnings)
        {
            let _ = writeln!(out, "warning: {warning}");
        }
        for trouble in machine.node.iter().flat_map(|node| &node.trouble) {
            let _ = writeln!(out, "{}: {trouble}", machine.name);
        }
    }
    let _ = writeln!(out);
    let is_left = |machine: &MachineStatus| {
        ["running", "off"].contains(&machine.machine) && machine.autostart.is_none()
    };
    if document.machines.iter().any(is_left) {
        let _ = writeln!(
            out,
            "no machine starts with this computer, whose first process is not systemd: after a restart, `mullion up` starts them"
        );
    }
    if let Some(run) = &document.run {
        let _ = writeln!(out, "under way: {run}");
    }
    for words in &document.down {
        let _ = writeln!(out, "down: {words}");
    }
    if !document.down.is_empty() {
        let _ = writeln!(out, "`mullion up` brings back what is down\n");
    }
    if document.differences.is_empty() {
        let _ = writeln!(out, "nothing differs from the file");
        return out;
    }
    let _ = writeln!(
        out,
        "differs from the file; `mullion up` would do {}:",
        plural(document.differences.len(), "thing")
    );
    for difference in document.differences.iter().take(SHOWN) {
        let _ = writeln!(out, "  {difference}");
    }
    if document.differences.len() > SHOWN {
        let _ = writeln!(out, "  … `mullion plan` shows all");
    }
    out
}

fn age(since: &str, now: Timestamp) -> String {
    let parsed = since.parse::<Timestamp>().ok();
    let age = parsed.and_then(|since| Duration::try_from(now.duration_since(since)).ok());
    age.map_or_else(|| "-".into(), duration::shown)
}

#[cfg(test)]
mod tests;
