//! The blueprint of a Windows worker: programs, containerd, kubelet, flannel and kube-proxy as services, and what of
//! Windows itself is set.
//!
//! Paths are written with their drive: without one, Windows takes the drive that a program happens to be on. What
//! stands in for Windows gets the same document but for the inputs in the catalog's table of its driver, and one module
//! ([`stand_in`]) makes them so.

mod containerd;
mod firewall;
mod kubelet;
mod logs;
mod network;
mod ours;
mod programs;
mod service_proxy;
mod settings;
mod stand_in;

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Blueprint, File};
use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_wire::{Folder, Recovery};

use crate::error::RenderError;
use crate::setting::{Seat, Setting};

pub use network::NETWORK_SETTINGS;
pub use programs::windows_program_path;

/// Where Kubernetes' programs are, and what the machine's `Path` leads to.
const PROGRAMS: &str = "C:/k";
/// Where kubelet and kubeadm reach the container runtime.
pub(crate) const PIPE: &str = "npipe:////./pipe/containerd-containerd";
/// The folder of patches on Windows.
pub const PATCHES_FOLDER: &str = "C:/etc/kubernetes/patches";
/// What every program that asks the API server logs in with: kubelet's own certificate, which it renews.
const KUBECONFIG: &str = "C:/etc/kubernetes/kubelet.conf";

/// Others read and run what is in a folder, and may neither add to it nor change it.
const CLOSED: u32 = 0o755;
/// Nobody but the system and administrators sees into a folder.
const PRIVATE: u32 = 0o700;

/// Folders that programs expect and do not make, and those above them: whoever may rename one may put another in its
/// place. `C:/` lets every user add to folders that say nothing themselves, and what services of the system find in
/// theirs they run.
///
/// Those that hold keys, layers of images, logs of pods, or dumps of programs that hold keys are private. Three are
/// not here: `C:/var/lib/kubelet/pki` and `C:/var/lib/kubelet/pods` are of the cluster, a reset takes them away, and
/// the agent makes them at every join. `C:/var/log/containers` is kubelet's, which says who may open it at every start.
/// `C:/var/lib/cni`, where plugins write down which pod has which address, is emptied by a reset and stays.
const FOLDERS: [(&str, u32); 23] = [
    ("C:/ProgramData/containerd", PRIVATE),
    ("C:/etc", CLOSED),
    ("C:/etc/cni", CLOSED),
    ("C:/etc/cni/net.d", CLOSED),
    ("C:/etc/kube-flannel", CLOSED),
    ("C:/etc/kubernetes", PRIVATE),
    ("C:/etc/mullion", CLOSED),
    ("C:/k", CLOSED),
    ("C:/opt", CLOSED),
    ("C:/opt/cni", CLOSED),
    ("C:/opt/cni/bin", CLOSED),
    ("C:/run", CLOSED),
    ("C:/var", CLOSED),
    ("C:/var/lib", CLOSED),
    ("C:/var/lib/cni", CLOSED),
    ("C:/var/lib/kubelet", CLOSED),
    ("C:/var/log", CLOSED),
    ("C:/var/log/containerd", CLOSED),
    ("C:/var/log/dumps", PRIVATE),
    ("C:/var/log/flanneld", CLOSED),
    ("C:/var/log/kube-proxy", CLOSED),
    ("C:/var/log/kubelet", CLOSED),
    ("C:/var/log/pods", PRIVATE),
];

/// The preflight errors that are expected, by kubeadm's names for them.
pub(crate) fn expected_preflight_errors(seat: Seat<'_>) -> BTreeSet<String> {
    let differs = seat.differs().into_iter();
    differs
        .flat_map(|differs| differs.ignored_preflight_errors.iter().cloned())
        .collect()
}

/// The blueprint of a Windows worker.
pub fn windows_blueprint(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<Blueprint, RenderError> {
    let seat = setting.windows_seat(machine)?;
    if seat.group.duty != Duty::Worker {
        return Err(RenderError::OtherDuty {
            machine: machine.clone(),
            wanted: Duty::Worker,
        });
    }
    let mut blueprint = of_windows(setting, seat)?;
    if let Some(differs) = seat.differs() {
        stand_in::differ(&mut blueprint, differs);
        stand_in::add_policy(&mut blueprint, setting);
    }
    Ok(blueprint)
}

/// The blueprint as Windows gets it.
fn of_windows(setting: &Setting<'_>, seat: Seat<'_>) -> Result<Blueprint, RenderError> {
    let mut files = programs::files(setting, seat)?;
    files.extend(containerd::files(setting)?);
    files.push(kubelet::patch_file());
    files.extend(crate::kubelet::patches(setting, PATCHES_FOLDER)?);
    files.extend(kubelet::last_patch_file(setting)?);
    let mut services = vec![
        containerd::service(setting, seat),
        kubelet::service(setting, seat)?,
    ];
    if let Some(network) = network::Network::of(setting) {
        files.extend(network.files(setting, seat)?);
        services.push(network::Network::service(setting, seat)?);
        files.push(service_proxy::file(setting, seat, &network)?);
        services.push(service_proxy::service(setting)?);
    }
    for copy in &seat.group.files {
        files.push(File {
            path: copy.to.clone(),
            content: setting.copy_of(&copy.from)?,
            mode: copy.mode.unwrap_or(if settings::is_of_keys(&copy.to) {
                0o600
            } else {
                0o644
            }),
        });
    }
    sort(&mut files);
    let is_same = |pair: &&[File]| pair[0].path.eq_ignore_ascii_case(&pair[1].path);
    if let Some(pair) = files.windows(2).find(is_same) {
        return Err(RenderError::SamePath {
            path: pair[0].path.clone(),
            machine: seat.name.clone(),
        });
    }
    let mut windows = settings::windows(setting, seat);
    // A file of the blueprint's own has its mode there.
    windows
        .private_files
        .retain(|path| !files.iter().any(|file| settings::is_same(&file.path, path)));
    let folders = FOLDERS.map(|(path, mode)| Folder {
        path: path.into(),
        mode,
    });
    Ok(Blueprint {
        version: mullion_wire::VERSION,
        machine: seat.name.to_string(),
        packages: vec![],
        modules: [].into(),
        sysctls: BTreeMap::new(),
        folders: folders.into(),
        files,
        services,
        firewall: Some(firewall::firewall(setting, seat)),
        windows: Some(windows),
    })
}

/// Puts files into their order, in which names have no case, as on Windows.
fn sort(files: &mut [File]) {
    files.sort_by_key(|file| file.path.to_lowercase());
}

/// What happens when a service ends by itself.
fn recovery() -> Recovery {
    Recovery {
        restart_after_ms: vec![1_000, 5_000, 10_000],
        reset_after_s: 600,
    }
}

/// The path as Windows' own programs write it.
fn backward(path: &str) -> String {
    path.replace('/', "\\")
}
