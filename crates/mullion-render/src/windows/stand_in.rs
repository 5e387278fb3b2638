//! What a stand-in for Windows is told otherwise: the catalog's table of its driver, how its twin of kube-router is
//! called, and nothing else.

use crate::document::Blueprint;
use mullion_catalog::{BlueprintPart, Differs};
use mullion_spec::words::Cni;
use mullion_wire::{Exclusions, Service, ServiceState, Windows};
use serde_json::json;

use super::kubelet::{patch, patch_path};
use super::sort;
use crate::objects::policy;
use crate::setting::{Seat, Setting};
use crate::system::text_file;

/// How the artifact is called that takes another's place on a stand-in.
pub(super) const STAND_IN: &str = "-stand-in";

/// The artifact that a program is taken from: there may be one made for stand-ins.
pub(super) fn artifact(setting: &Setting<'_>, seat: Seat<'_>, name: &str) -> String {
    let other = format!("{name}{STAND_IN}");
    let is_other = seat.differs().is_some() && setting.windows_programs.contains_key(&other);
    if is_other { other } else { name.to_owned() }
}

/// Makes of Windows' blueprint that of what stands in for it.
pub(super) fn differ(blueprint: &mut Blueprint, differs: &Differs) {
    let mut config = patch();
    if let (Some(config), Some(there)) = (
        config.as_object_mut(),
        json!(differs.kubelet).as_object().cloned(),
    ) {
        config.extend(there);
    }
    let path = patch_path();
    for file in &mut blueprint.files {
        if file.path == path {
            *file = text_file(path.as_str(), format!("{config:#}\n"));
        }
    }
    for service in &mut blueprint.services {
        carry(service, differs);
    }
    for part in &differs.without {
        match part {
            BlueprintPart::Firewall => blueprint.firewall = None,
            part => {
                if let Some(windows) = &mut blueprint.windows {
                    leave_out(windows, *part);
                }
            }
        }
    }
}

/// How kube-router is called. On Windows nothing enforces network policy with flannel; on a stand-in a Linux twin does,
/// and reads this.
const POLICY_FLAGS: &str = "C:/etc/kube-router/flags";

/// Adds what the twin of kube-router reads, where the cluster has network policy.
pub(super) fn add_policy(blueprint: &mut Blueprint, setting: &Setting<'_>) {
    let network = &setting.cluster().network;
    if network.cni == Cni::Flannel && network.policy {
        let flags = policy::flags(setting).join("\n");
        let file = text_file(POLICY_FLAGS, format!("{flags}\n"));
        blueprint.files.push(file);
        sort(&mut blueprint.files);
    }
}

/// What is carried is laid down and not started, and nothing waits for it.
fn carry(service: &mut Service, differs: &Differs) {
    if differs.is_carried(&service.name) {
        service.state = ServiceState::Stopped;
        return;
    }
    let Some(definition) = &mut service.definition else {
        return;
    };
    definition
        .depends_on
        .retain(|name| !differs.is_carried(name));
    if service.name == "kubelet" {
        // A flag holds before what kubeadm writes down.
        let flag = format!(" --container-runtime-endpoint={}", differs.cri());
        definition.command.push_str(&flag);
    }
}

fn leave_out(windows: &mut Windows, part: BlueprintPart) {
    match part {
        BlueprintPart::Authorities => windows.authorities = [].into(),
        BlueprintPart::DynamicPorts => windows.dynamic_ports = vec![],
        BlueprintPart::Exclusions => windows.exclusions = Exclusions::default(),
        BlueprintPart::Features => windows.features = [].into(),
        BlueprintPart::HostName => windows.host_name = None,
        BlueprintPart::Network => windows.network = None,
        BlueprintPart::PageFile => windows.page_file = None,
        BlueprintPart::Registry => windows.registry = vec![],
        BlueprintPart::Restarts => {
            let values = windows.registry.iter_mut();
            values.for_each(|value| value.restart = false);
        }
        BlueprintPart::TimeZone => windows.time_zone = None,
        // It is beside what only Windows has.
        BlueprintPart::Firewall => {}
    }
}
