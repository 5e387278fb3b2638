//! kubelet on Windows: a service of its own, and what of its configuration depends on the system.

use crate::document::File;
use mullion_wire::{Definition, Service, ServiceState, Start};
use serde_json::{Map, Value, json};

use super::containerd::proxy;
use super::logs::logged;
use super::{KUBECONFIG, PATCHES_FOLDER, PIPE, backward, recovery, windows_program_path};
use crate::error::RenderError;
use crate::setting::{Seat, Setting};
use crate::system::text_file;

/// Where the patch of its configuration is.
pub(super) fn patch_path() -> String {
    format!("{PATCHES_FOLDER}/kubeletconfiguration!ground+merge.json")
}

pub(super) fn patch_file() -> File {
    text_file(patch_path(), format!("{:#}\n", patch()))
}

/// There are no control groups, and DNS is Windows' own matter. Drivers of volumes, which kubelet runs as the system,
/// are looked for in a folder of its own: the one that it takes by itself it makes below `C:/usr`, where every user adds.
/// The runtime is named because kubeadm before 1.34 writes it into a file that only systemd's unit reads.
pub(super) fn patch() -> Value {
    json!({
        "cgroupsPerQOS": false,
        "containerRuntimeEndpoint": PIPE,
        "enforceNodeAllocatable": [],
        "resolvConf": "",
        "volumePluginDir": "C:/var/lib/kubelet/volumeplugins",
    })
}

/// What takes out of the user's patches the fields that stop kubelet on Windows: the patches are for all machines, and
/// on Linux such a field may be right. None where the user has no patches.
///
/// Its sign lets it come after any of theirs.
pub(super) fn last_patch_file(setting: &Setting<'_>) -> Result<Option<File>, RenderError> {
    if setting.cluster().kubernetes.patches.is_empty() {
        return Ok(None);
    }
    let fields = setting.kubernetes_minor()?.windows_fatal_fields.iter();
    // A merge removes what is null, and what is not there stays so.
    let nulls: Map<_, _> = fields.map(|field| (field.clone(), Value::Null)).collect();
    Ok(Some(text_file(
        format!("{PATCHES_FOLDER}/kubeletconfiguration~windows+merge.json"),
        format!("{:#}\n", Value::Object(nulls)),
    )))
}

/// A service of its own, so that Windows tells it when the machine shuts down; what it writes goes through
/// `kube-log-runner`, since it writes to no file itself.
pub(super) fn service(setting: &Setting<'_>, seat: Seat<'_>) -> Result<Service, RenderError> {
    let mut command = logged(setting, "kubelet")?;
    command.extend([
        backward(&windows_program_path("kubelet")),
        "--windows-service".into(),
        "--config=C:\\var\\lib\\kubelet\\config.yaml".into(),
        "--bootstrap-kubeconfig=C:\\etc\\kubernetes\\bootstrap-kubelet.conf".into(),
        format!("--kubeconfig={}", backward(KUBECONFIG)),
        // Without the drive kubelet looks below the folder of its kubeconfig.
        "--cert-dir=C:\\var\\lib\\kubelet\\pki".into(),
        format!("--hostname-override={}", seat.name),
        format!("--node-ip={}", seat.address),
        // Pods must not starve it.
        "--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS".into(),
    ]);
    if !seat.group.taints.is_empty() {
        // kubeadm writes them into a file that only systemd's unit reads.
        let taints = seat.group.taints.iter().map(ToString::to_string);
        let taints: Vec<_> = taints.collect();
        command.push(format!("--register-with-taints={}", taints.join(",")));
    }
    Ok(Service {
        name: "kubelet".into(),
        after: ["containerd".to_owned()].into(),
        restarted_by: ["kubelet", "kube-log-runner"]
            .map(windows_program_path)
            .into(),
        // kubeadm starts it.
        state: ServiceState::Enabled,
        definition: Some(Definition {
            display_name: "kubelet".into(),
            command: command.join(" "),
            depends_on: ["containerd".to_owned()].into(),
            start: Start::Automatic,
            recovery: recovery(),
            environment: proxy(setting, seat),
        }),
    })
}
