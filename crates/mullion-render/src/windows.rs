//! The blueprint of a Windows worker: programs, containerd, kubelet, flannel and kube-proxy as services, and what of
//! Windows itself is set.
//!
//! Paths are written with their drive: without one, Windows takes the drive that a program happens to be on. What
//! stands in for Windows gets the same document but for the inputs in the catalog's table of its driver, and one module
//! ([`stand_in`]) makes them so.

mod containerd;
mod firewall;
mod kubelet;
mod network;
mod ours;
mod programs;
mod service_proxy;
mod settings;
mod stand_in;

use std::collections::{BTreeMap, BTreeSet};

use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_wire::{Blueprint, File, Folder, Recovery};

use crate::error::RenderError;
use crate::setting::{Seat, Setting};

pub use network::NETWORK_SETTINGS;
pub use programs::windows_program_path;

/// Where Kubernetes' programs are, and what the machine's `Path` leads to.
const PROGRAMS: &str = "C:/k";
/// Where kubelet and kubeadm reach the container runtime.
pub(crate) const PIPE: &str = "npipe:////./pipe/containerd-containerd";
pub(crate) const PATCHES_FOLDER: &str = "C:/etc/kubernetes/patches";
/// What every program that asks the API server logs in with: kubelet's own certificate, which it renews.
const KUBECONFIG: &str = "C:/etc/kubernetes/kubelet.conf";

/// Folders that programs expect and do not make.
const FOLDERS: [&str; 12] = [
    "C:/etc/cni/net.d",
    "C:/etc/kubernetes",
    "C:/k",
    "C:/opt/cni/bin",
    "C:/var/lib/kubelet",
    "C:/var/log/containerd",
    "C:/var/log/containers",
    "C:/var/log/dumps",
    "C:/var/log/flanneld",
    "C:/var/log/kube-proxy",
    "C:/var/log/kubelet",
    "C:/var/log/pods",
];

/// Those of them that hold keys, or dumps of programs that do: Windows would let every user read them. What comes to be
/// in them is as private. kubelet's own keys are in `C:/var/lib/kubelet/pki`, which is of the cluster and not of the
/// blueprint: a reset takes it away, and the agent makes it, as private, at every join.
const PRIVATE: [&str; 2] = ["C:/etc/kubernetes", "C:/var/log/dumps"];

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
    let mut services = vec![
        containerd::service(setting, seat),
        kubelet::service(setting, seat)?,
    ];
    if let Some(network) = network::Network::of(setting) {
        files.extend(network.files(setting, seat));
        services.push(network::Network::service(setting, seat)?);
        files.push(service_proxy::file(setting, seat, &network)?);
        services.push(service_proxy::service(setting)?);
    }
    for copy in &seat.group.files {
        files.push(File {
            path: copy.to.clone(),
            content: setting.contents_of(&copy.from)?,
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
    let folders = FOLDERS.map(|path| Folder {
        path: path.into(),
        mode: if PRIVATE.contains(&path) {
            0o700
        } else {
            0o755
        },
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

/// The beginning of the command line of a program that logs to nowhere itself.
fn logged(setting: &Setting<'_>, service: &str) -> Result<Vec<String>, RenderError> {
    let mut words = vec![
        backward(&windows_program_path("kube-log-runner")),
        format!("-log-file=C:\\var\\log\\{service}\\{service}.log"),
    ];
    if setting.kubernetes_minor()?.log_runner_rotates {
        words.extend(["-log-file-size=50M".into(), "-log-file-age=168h".into()]);
    }
    Ok(words)
}
