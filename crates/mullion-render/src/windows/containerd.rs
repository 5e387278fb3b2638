//! containerd on Windows: its configuration, where it asks for images, its service.

use std::collections::BTreeMap;

use crate::document::File;
use mullion_catalog::BinKey;
use mullion_spec::words::Os;
use mullion_wire::{Definition, Service, ServiceState, Start};

use super::network::NETWORKS;
use super::{backward, logs, recovery, windows_program_path};
use crate::containerd::{Tables, hosts, parent, registries};
use crate::error::RenderError;
use crate::outward;
use crate::setting::{Seat, Setting};
use crate::system::text_file;

/// Where containerd is.
pub(super) const FOLDER: &str = "C:/Program Files/containerd";
const CONFIG: &str = "C:/Program Files/containerd/config.toml";
const REGISTRIES: &str = "C:/Program Files/containerd/certs.d";
const AUTHORITIES: &str = "C:/Program Files/containerd/trust";
/// Where plugins of networks are.
pub(super) const PLUGINS: &str = "C:/opt/cni/bin";
/// Layers of Windows images have gigabytes: no progress for five minutes, the default, is no failure.
const PULL_TIMEOUT: &str = "30m";
/// What containers run in unless their pod's class says otherwise.
const RUNTIME: &str = "runhcs-wcow-process";

pub(super) fn files(setting: &Setting<'_>) -> Result<Vec<File>, RenderError> {
    let artifacts = &setting.cluster().artifacts;
    let mut files = Vec::new();
    let authorities = authorities(setting);
    for (path, to) in setting.cluster().trust.iter().zip(&authorities) {
        files.push(File {
            path: to.clone(),
            content: setting.contents_of(path)?,
            mode: 0o644,
        });
    }
    let has_hosts = artifacts.mirror.is_some() || !authorities.is_empty();
    if has_hosts {
        files.extend(
            registries(setting, Os::Windows)
                .into_iter()
                .map(|registry| {
                    let mirror = artifacts.mirror.as_deref();
                    let text = hosts(mirror, &registry, artifacts.offline, &authorities);
                    text_file(
                        format!("{REGISTRIES}/{}/hosts.toml", folder(&registry)),
                        text,
                    )
                }),
        );
    }
    files.push(text_file(CONFIG, config(setting, has_hosts)?));
    Ok(files)
}

/// Where the certificates are that the cluster's file trusts, in its order.
pub(super) fn authorities(setting: &Setting<'_>) -> Vec<String> {
    (1..=setting.cluster().trust.len())
        .map(|number| format!("{AUTHORITIES}/mullion-{number}.crt"))
        .collect()
}

/// The folder of a registry: no name of a file has a colon on Windows.
fn folder(registry: &str) -> String {
    match registry.rsplit_once(':') {
        Some((host, port)) => format!("{host}_{port}_"),
        None => registry.to_owned(),
    }
}

/// A string in which a backslash is one.
fn literal(text: &str) -> String {
    format!("'{text}'")
}

fn config(setting: &Setting<'_>, has_hosts: bool) -> Result<String, RenderError> {
    let line = setting.containerd_line()?;
    let mut tables = Tables::default();
    let pipe = r"\\.\pipe\containerd-containerd";
    tables.set("grpc", "address", literal(pipe));
    let plugins = match line.bin_key {
        BinKey::BinDir => literal(PLUGINS),
        BinKey::BinDirs => format!("[{}]", literal(PLUGINS)),
    };
    tables.set(&line.cni_table, line.bin_key.key(), plugins);
    tables.set(&line.cni_table, "conf_dir", literal(NETWORKS));
    let runtimes = format!("{}.containerd", parent(&line.cni_table));
    tables.set(&runtimes, "default_runtime_name", literal(RUNTIME));
    let (sandbox, key) = line
        .sandbox_key
        .rsplit_once('.')
        .unwrap_or(("", &line.sandbox_key));
    tables.set(sandbox, key, literal(&setting.windows_pause()?));
    let images = sandbox.strip_suffix(".pinned_images").unwrap_or(sandbox);
    tables.set(images, "image_pull_progress_timeout", literal(PULL_TIMEOUT));
    if has_hosts {
        let table = format!("{images}.registry");
        tables.set(&table, "config_path", literal(REGISTRIES));
    }
    let first = [
        format!("version = {}", line.config_version),
        format!("root = {}", literal("C:/ProgramData/containerd/root")),
        format!("state = {}", literal("C:/ProgramData/containerd/state")),
    ];
    Ok(tables.text(first))
}

/// With a log of its own, which the agent keeps from growing: behind `kube-log-runner` it would neither know that it is
/// a service, since it asks whether the service control manager is its parent, nor write anything there, since as a
/// service it turns its output away to its file or to nowhere.
pub(super) fn service(setting: &Setting<'_>, seat: Seat<'_>) -> Service {
    let program = windows_program_path("containerd");
    let command = format!(
        "\"{}\" --config \"{}\" --log-file {} --run-service",
        backward(&program),
        backward(CONFIG),
        backward(&logs::path("containerd"))
    );
    Service {
        name: "containerd".into(),
        after: [].into(),
        restarted_by: [CONFIG.to_owned(), program].into(),
        state: ServiceState::Running,
        definition: Some(Definition {
            display_name: "containerd".into(),
            command,
            depends_on: [].into(),
            start: Start::Automatic,
            recovery: recovery(),
            environment: proxy(setting, seat),
        }),
    }
}

/// What a service is told of the proxy.
pub(super) fn proxy(setting: &Setting<'_>, seat: Seat<'_>) -> BTreeMap<String, String> {
    let variables = outward::proxy_variables(setting, seat);
    variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_s_folder_has_a_name_that_windows_takes() {
        assert_eq!(folder("registry.k8s.io"), "registry.k8s.io");
        assert_eq!(folder("10.0.0.1:5000"), "10.0.0.1_5000_");
    }
}
