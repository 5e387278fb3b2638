//! Kubelet's service, and what of its configuration depends on the machine.

use crate::document::File;
use serde_json::{Map, Value, json};

use crate::error::RenderError;
use crate::setting::{Ground, Setting};
use crate::system::text_file;

pub(crate) const UNIT: &str = "/etc/systemd/system/kubelet.service";

/// Where kubeadm finds patches on a machine.
pub const PATCHES_FOLDER: &str = "/etc/kubernetes/patches";

/// The patch that fits kubelet's configuration to its machine.
///
/// kubeadm takes patches in the order of their names: the sign lets this one come before any of the user's, so that
/// theirs win.
pub const GROUND_PATCH: &str = "/etc/kubernetes/patches/kubeletconfiguration!ground+merge.json";

pub(crate) fn files(ground: Ground) -> Vec<File> {
    let mut patch = format!("{:#}", ground_patch(ground));
    patch.push('\n');
    vec![text_file(UNIT, unit()), text_file(GROUND_PATCH, patch)]
}

/// The file's own patches, laid into the folder where kubeadm looks for them.
pub(crate) fn patches(setting: &Setting<'_>, folder: &str) -> Result<Vec<File>, RenderError> {
    let patches = setting.cluster().kubernetes.patches.iter();
    let files = patches.map(|patch| {
        let name = patch.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| RenderError::Nameless(patch.clone()))?;
        // What kubelet is configured with, everybody on a node may read in its own file. What the other programs are
        // started with may be a secret.
        let is_public = name.starts_with("kubeletconfiguration");
        Ok(File {
            path: format!("{folder}/{name}"),
            content: if is_public {
                setting.contents_of(patch)?
            } else {
                setting.copy_of(patch)?
            },
            mode: if is_public { 0o644 } else { 0o600 },
        })
    });
    files.collect()
}

/// Kubelet is started with the machine, but not before kubeadm wrote its configuration: until then it could only fail,
/// and would hold the port that kubeadm's preflight wants free.
fn unit() -> String {
    "\
# Written by Mullion.
[Unit]
Description=kubelet: the Kubernetes node agent
Documentation=https://kubernetes.io/docs/
After=network-online.target containerd.service
ConditionPathExists=/var/lib/kubelet/config.yaml
StartLimitIntervalSec=0

[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=/usr/local/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"
    .into()
}

fn ground_patch(ground: Ground) -> Value {
    let mut patch = Map::new();
    let mut set = |key: &str, value: Value| patch.insert(key.into(), value);
    set("cgroupDriver", ground.cgroup_driver().word().into());
    if ground.is_v1() {
        set("failCgroupV1", false.into());
    }
    // In a system container swap is the matter of the computer around it, and may be turned on there at any time.
    if ground.has_swap || ground.is_container() {
        set("failSwapOn", false.into());
    }
    if !ground.can_raise_limits {
        set("oomScoreAdj", 0.into());
    }
    if !ground.has_resolver {
        // Kubelet would refuse every pod for a file that is not there.
        set("resolvConf", "".into());
    }
    if ground.is_container() {
        // The disk is the computer's own, and is full or not for reasons that are none of kubelet's: images, which may
        // not be had again, stay, and pods are not driven out. The threshold for memory is kubelet's default.
        set("imageGCHighThresholdPercent", 100.into());
        set(
            "evictionHard",
            json!({
                "imagefs.available": "0%",
                "memory.available": "100Mi",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
            }),
        );
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{Cgroups, Footing};

    #[test]
    fn an_ordinary_computer_needs_its_driver_named_and_nothing_else() {
        let ground = Ground {
            footing: Footing::Computer,
            cgroups: Cgroups::V2,
            can_raise_limits: true,
            has_swap: false,
            has_resolver: true,
        };
        assert_eq!(ground_patch(ground), json!({"cgroupDriver": "systemd"}));
    }

    #[test]
    fn the_first_version_of_groups_is_accepted_only_where_it_was_found() {
        let ground = |cgroups| Ground {
            footing: Footing::Computer,
            cgroups,
            can_raise_limits: true,
            has_swap: true,
            has_resolver: false,
        };
        for old in [Cgroups::V1, Cgroups::Hybrid] {
            let patch = ground_patch(ground(old));
            assert_eq!(patch["failCgroupV1"], false);
            assert_eq!(patch["failSwapOn"], false);
            assert_eq!(patch["resolvConf"], "");
        }
        assert!(
            ground_patch(ground(Cgroups::V2))
                .get("failCgroupV1")
                .is_none()
        );
    }
}
