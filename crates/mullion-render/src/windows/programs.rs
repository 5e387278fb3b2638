//! The programs of a Windows worker, and where each is.

use crate::document::File;
use mullion_catalog::Catalog;
use mullion_spec::words::Cni;

use super::PROGRAMS;
use super::containerd::{FOLDER, PLUGINS};
use super::ours::AGENT;
use super::stand_in::{self, STAND_IN};
use crate::error::RenderError;
use crate::setting::{Seat, Setting};

/// Kubernetes' programs, by the names of their artifacts.
const OF_NODES: [&str; 4] = ["kubeadm", "kubelet", "kube-proxy", "kube-log-runner"];
const OF_RUNTIME: [&str; 3] = ["containerd", "containerd-shim-runhcs-v1", "ctr"];

/// Where a Windows machine has the program of an artifact.
pub fn windows_program_path(artifact: &str) -> String {
    let name = artifact.strip_suffix(STAND_IN).unwrap_or(artifact);
    let mut plugins = Catalog::builtin().cni_plugins().windows.iter();
    let folder = if OF_RUNTIME.contains(&name) {
        FOLDER
    } else if plugins.any(|plugin| plugin == name) {
        PLUGINS
    } else {
        PROGRAMS
    };
    format!("{folder}/{name}.exe")
}

pub(super) fn files(setting: &Setting<'_>, seat: Seat<'_>) -> Result<Vec<File>, RenderError> {
    let mut names: Vec<_> = OF_NODES.into_iter().chain(OF_RUNTIME).collect();
    if setting.cluster().network.cni == Cni::Flannel {
        names.extend([AGENT, "flanneld"]);
        let plugins = Catalog::builtin().cni_plugins().windows.iter();
        names.extend(plugins.map(String::as_str));
    }
    let file = |name: &str| {
        Ok(File {
            path: windows_program_path(name),
            content: setting.windows_program(&stand_in::artifact(setting, seat, name))?,
            mode: 0o644,
        })
    };
    names.into_iter().map(file).collect()
}
