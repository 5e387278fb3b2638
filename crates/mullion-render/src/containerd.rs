//! containerd's configuration and service.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::File;
use mullion_catalog::{ArtifactKind, BinKey, ContainerdLine};
use mullion_spec::image::ImageReference;
use mullion_spec::words::Os;

use crate::error::RenderError;
use crate::setting::{CgroupDriver, Cgroups, Footing, Ground, Seat, Setting};
use crate::system::text_file;

pub(crate) const SOCKET: &str = "unix:///run/containerd/containerd.sock";
pub(crate) const CONFIG: &str = "/etc/containerd/config.toml";
pub(crate) const UNIT: &str = "/etc/systemd/system/containerd.service";
pub(crate) const PLUGINS: &str = "/opt/cni/bin";
const NETWORKS: &str = "/etc/cni/net.d";
const REGISTRIES: &str = "/etc/containerd/certs.d";

/// Everything that containerd reads, and its unit.
pub(crate) fn files(setting: &Setting<'_>, seat: Seat<'_>) -> Result<Vec<File>, RenderError> {
    let line = setting.containerd_line()?;
    let pause = setting.image("pause-image")?;
    let artifacts = &setting.cluster().artifacts;
    let mut files = vec![
        text_file(
            CONFIG,
            config(line, seat.ground()?, pause, artifacts.mirror.is_some()),
        ),
        text_file(UNIT, unit(seat.ground()?)),
        text_file(
            "/etc/crictl.yaml",
            format!("runtime-endpoint: {SOCKET}\nimage-endpoint: {SOCKET}\n"),
        ),
    ];
    if let Some(mirror) = &artifacts.mirror {
        files.extend(registries(setting, Os::Linux).into_iter().map(|registry| {
            let path = format!("{REGISTRIES}/{registry}/hosts.toml");
            text_file(path, hosts(Some(mirror), &registry, artifacts.offline, &[]))
        }));
    }
    Ok(files)
}

/// The configuration of the Linux containerd inside a stand-in for Windows, which is in its template: whatever the
/// computer around it is like, it asks for nothing that some computers refuse.
pub fn stand_in_containerd(setting: &Setting<'_>) -> Result<String, RenderError> {
    let ground = Ground {
        footing: Footing::SystemContainer,
        cgroups: Cgroups::V1,
        can_raise_limits: false,
        has_swap: false,
        has_resolver: true,
    };
    let pause = setting.image("pause-image")?;
    Ok(config(setting.containerd_line()?, ground, pause, false))
}

/// TOML tables, each written once however many reasons there are for its keys.
#[derive(Default)]
pub(crate) struct Tables(BTreeMap<String, BTreeMap<String, String>>);

impl Tables {
    pub(crate) fn set(&mut self, table: &str, key: &str, value: impl Into<String>) {
        self.0
            .entry(table.into())
            .or_default()
            .insert(key.into(), value.into());
    }

    /// The whole file; `first` are keys before every table.
    pub(crate) fn text(&self, first: impl IntoIterator<Item = String>) -> String {
        let mut lines = vec!["# Written by Mullion.".to_owned()];
        lines.extend(first);
        for (table, keys) in &self.0 {
            lines.push(format!("\n[{table}]"));
            lines.extend(keys.iter().map(|(key, value)| format!("{key} = {value}")));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// A TOML string. JSON's escapes are among TOML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn config(line: &ContainerdLine, ground: Ground, pause: &str, has_mirror: bool) -> String {
    let mut tables = Tables::default();
    let plugins = match line.bin_key {
        BinKey::BinDir => quoted(PLUGINS),
        BinKey::BinDirs => format!("[{}]", quoted(PLUGINS)),
    };
    tables.set(&line.cni_table, line.bin_key.key(), plugins);
    tables.set(&line.cni_table, "conf_dir", quoted(NETWORKS));
    let runtime = parent(&line.cni_table);
    if !ground.can_raise_limits {
        // Without it runc is told a score that it may not set, and no container starts.
        tables.set(runtime, "restrict_oom_score_adj", "true");
    }
    if ground.cgroup_driver() == CgroupDriver::Systemd {
        let runc = format!("{runtime}.containerd.runtimes.runc");
        tables.set(&runc, "runtime_type", quoted("io.containerd.runc.v2"));
        tables.set(&format!("{runc}.options"), "SystemdCgroup", "true");
    }
    let (sandbox, key) = line
        .sandbox_key
        .rsplit_once('.')
        .unwrap_or(("", &line.sandbox_key));
    tables.set(sandbox, key, quoted(pause));
    if has_mirror {
        // `plugins.'…images'.pinned_images.sandbox` and `plugins."…cri".sandbox_image` have the registries beside them.
        let images = sandbox.strip_suffix(".pinned_images").unwrap_or(sandbox);
        let table = format!("{images}.registry");
        tables.set(&table, "config_path", quoted(REGISTRIES));
    }
    tables.text([
        format!("version = {}", line.config_version),
        // It makes folders below /opt for programs that nobody installs.
        "disabled_plugins = ['io.containerd.internal.v1.opt']".to_owned(),
    ])
}

/// The table around a table; its name may hold dots inside quotes, the last part does not.
pub(crate) fn parent(table: &str) -> &str {
    table.rsplit_once('.').map_or(table, |(parent, _)| parent)
}

/// The registries of all images that nodes of a system are known to need.
pub(crate) fn registries(setting: &Setting<'_>, os: Os) -> BTreeSet<String> {
    let artifacts = setting.model.artifacts().iter();
    let ours = artifacts
        .filter(|artifact| artifact.kind == ArtifactKind::Image && artifact.os == os)
        .filter_map(|artifact| artifact.address.as_deref());
    let images = setting.cluster().images.iter();
    let theirs = images
        .filter(|image| image.os == os)
        .map(|image| image.reference.as_str());
    let references = ours.chain(theirs);
    // The catalog's and the file's references were checked before.
    let images = references.filter_map(|reference| reference.parse::<ImageReference>().ok());
    images.map(|image| image.registry().to_owned()).collect()
}

/// Where a registry's images are asked for: at the mirror, whose repositories are named after registries, and at the
/// registry itself after it unless nothing outside may be asked. `authorities` are the files of those that are trusted
/// besides the system's own.
pub(crate) fn hosts(
    mirror: Option<&str>,
    registry: &str,
    offline: bool,
    authorities: &[String],
) -> String {
    let files: Vec<_> = authorities.iter().map(|path| quoted(path)).collect();
    let trust = match files.as_slice() {
        [] => String::new(),
        files => format!("ca = [{}]\n", files.join(", ")),
    };
    let begin = "# Written by Mullion.\n";
    let Some(mirror) = mirror else {
        return format!("{begin}{trust}");
    };
    let place = format!("{}/v2/{registry}", mirror.trim_end_matches('/'));
    let place = quoted(&place);
    let server = if offline {
        format!("server = {place}\noverride_path = true\n")
    } else {
        String::new()
    };
    format!(
        "\
{begin}{server}{trust}
[host.{place}]
capabilities = [\"pull\", \"resolve\"]
override_path = true
{trust}"
    )
}

fn unit(ground: Ground) -> String {
    let mut before = String::new();
    if ground.is_container() {
        if ground.is_v1() {
            // In a system container the controllers are mounted read-only.
            before += "ExecStartPre=/bin/sh -c 'for c in /sys/fs/cgroup/*; do mount -o remount,rw,bind $$c 2>/dev/null || true; done'\n";
        }
        // Systemd leaves this to the computer around a container; without it mounts do not reach pods.
        before += "ExecStartPre=/bin/mount --make-rshared /\n";
    }
    let score = if ground.can_raise_limits {
        "OOMScoreAdjust=-999\n"
    } else {
        ""
    };
    format!(
        "\
# Written by Mullion.
[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target dbus.service local-fs.target

[Service]
{before}ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
{score}
[Install]
WantedBy=multi-user.target
"
    )
}

#[cfg(test)]
mod tests {
    use mullion_catalog::Catalog;

    use super::*;
    use crate::setting::{Cgroups, Footing};

    const BARE: Ground = Ground {
        footing: Footing::Computer,
        cgroups: Cgroups::V2,
        can_raise_limits: true,
        has_swap: false,
        has_resolver: true,
    };

    fn line(version: &str) -> &'static ContainerdLine {
        Catalog::builtin()
            .containerd_line(&version.parse().unwrap())
            .unwrap()
    }

    #[test]
    fn a_table_is_written_once_where_runtime_and_images_share_it() {
        let ground = Ground {
            can_raise_limits: false,
            ..BARE
        };
        let text = config(line("1.7.30"), ground, "registry.k8s.io/pause:3.10", true);
        let table = "[plugins.\"io.containerd.grpc.v1.cri\"]\n";
        assert_eq!(text.matches(table).count(), 1, "{text}");
        assert!(text.contains(
            "restrict_oom_score_adj = true\nsandbox_image = \"registry.k8s.io/pause:3.10\"\n"
        ));
        assert!(text.contains("[plugins.\"io.containerd.grpc.v1.cri\".registry]"));
        assert!(text.contains("bin_dir = \"/opt/cni/bin\""));
    }

    #[test]
    fn the_folder_of_plugins_is_named_by_the_line_s_own_key() {
        let text = |version| config(line(version), BARE, "p", false);
        assert!(text("2.0.7").contains("bin_dir = \"/opt/cni/bin\""));
        assert!(text("2.2.2").contains("bin_dirs = [\"/opt/cni/bin\"]"));
        assert!(!text("2.2.2").contains("registry"));
    }

    #[test]
    fn offline_the_registries_themselves_are_not_asked() {
        let text = |offline| hosts(Some("https://mirror.example/"), "ghcr.io", offline, &[]);
        assert!(text(true).contains("server = \"https://mirror.example/v2/ghcr.io\"\n"));
        assert!(!text(false).contains("server ="));
    }
}
