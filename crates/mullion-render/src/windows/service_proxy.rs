//! kube-proxy on Windows: the addresses of Services, by the kernel.

use std::collections::BTreeMap;

use crate::document::File;
use mullion_catalog::Catalog;
use mullion_wire::{Attended, AttendedProgram, Awaited, Service};

use super::network::{HNS, Network, SHARE};
use super::ours::Ours;
use super::{KUBECONFIG, backward, ours, windows_program_path};
use crate::error::RenderError;
use crate::setting::{Seat, Setting};

const KUBE_PROXY: &str = "kube-proxy";

/// What the agent is told of it.
pub(super) fn file(
    setting: &Setting<'_>,
    seat: Seat<'_>,
    network: &Network,
) -> Result<File, RenderError> {
    let mut args = vec![format!("--kubeconfig={}", backward(KUBECONFIG))];
    for flag in Catalog::builtin().kube_proxy_flags(network.kind) {
        args.push(with_value(&flag.flag, seat, network)?);
    }
    let gates = gates(setting)?;
    if !gates.is_empty() {
        args.push(format!("--feature-gates={gates}"));
    }
    Ok(ours::file(&Attended {
        version: mullion_wire::VERSION,
        service: KUBE_PROXY.into(),
        share: SHARE.into(),
        program: AttendedProgram {
            awaits: Awaited {
                files: vec![KUBECONFIG.into()],
                network: Some(network.name.clone()),
            },
            renewed_with: Some(HNS.into()),
            path: windows_program_path(KUBE_PROXY),
            args,
        },
        files: vec![],
        logs: vec![],
    }))
}

/// A flag of the catalog's, with the value that this machine gives it.
fn with_value(flag: &str, seat: Seat<'_>, network: &Network) -> Result<String, RenderError> {
    let value = match flag {
        flag if flag.contains('=') => return Ok(flag.to_owned()),
        "--hostname-override" => seat.name.to_string(),
        "--network-name" => network.name.clone(),
        // Of the machine's share, which is known once it is a node.
        "--source-vip" => "$(source-vip)".into(),
        // As flannel calls the end that it gives the machine itself.
        "--root-hnsendpoint-name" => format!("{}_ep", network.name),
        flag => return Err(RenderError::UnknownFlag(flag.to_owned())),
    };
    Ok(format!("{flag}={value}"))
}

/// The gates of the file, and those that this minor needs on Windows.
fn gates(setting: &Setting<'_>) -> Result<String, RenderError> {
    let minor = setting.minor();
    let way = Catalog::builtin().kube_proxy(minor);
    let way = way.ok_or(RenderError::Uncatalogued {
        what: "kube-proxy",
        minor,
    })?;
    let needed = way
        .windows_gates
        .iter()
        .filter_map(|gate| gate.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut gates: BTreeMap<_, _> = needed.collect();
    let wanted = setting.cluster().kubernetes.feature_gates.iter();
    gates.extend(wanted.map(|(name, on)| (name.clone(), on.to_string())));
    let gates: Vec<_> = gates
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Ok(gates.join(","))
}

pub(super) fn service(setting: &Setting<'_>) -> Result<Service, RenderError> {
    Ours {
        name: KUBE_PROXY,
        after: "flanneld",
        depends_on: "flanneld",
        restarted_by: vec![],
        environment: BTreeMap::new(),
    }
    .service(setting)
}
