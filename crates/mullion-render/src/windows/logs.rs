//! Where programs on Windows log to, and who keeps their logs from growing: `kube-log-runner` where it can, and the agent
//! where nobody else does.

use mullion_wire::AttendedLog;

use super::{backward, windows_program_path};
use crate::error::RenderError;
use crate::setting::Setting;

/// From so many megabytes on a log begins anew, and so many hours later what was in it is removed.
const MEGABYTES: u64 = 50;
const HOURS: u64 = 168;

/// Programs that log to nowhere themselves.
const LOGGED: [&str; 3] = ["flanneld", "kube-proxy", "kubelet"];

/// The log of a service.
pub(super) fn path(service: &str) -> String {
    format!("C:/var/log/{service}/{service}.log")
}

/// The beginning of the command line of a program that logs to nowhere itself.
pub(super) fn logged(setting: &Setting<'_>, service: &str) -> Result<Vec<String>, RenderError> {
    let mut words = vec![
        backward(&windows_program_path("kube-log-runner")),
        format!("-log-file={}", backward(&path(service))),
    ];
    if setting.kubernetes_minor()?.log_runner_rotates {
        words.push(format!("-log-file-size={MEGABYTES}M"));
        words.push(format!("-log-file-age={HOURS}h"));
    }
    Ok(words)
}

/// The logs that the agent keeps from growing. All of them are appended to, by containerd itself and by
/// `kube-log-runner` with its child.
pub(super) fn attended(setting: &Setting<'_>) -> Result<Vec<AttendedLog>, RenderError> {
    let mut services = vec!["containerd"];
    if !setting.kubernetes_minor()?.log_runner_rotates {
        services.extend(LOGGED);
    }
    let logs = services.into_iter().map(|service| AttendedLog {
        path: path(service),
        aside_from: MEGABYTES * 1_000_000,
        removed_after_s: HOURS * 3600,
    });
    Ok(logs.collect())
}
