//! A `RuntimeClass` for each Windows build of the cluster: pods that name it go to nodes that can run them.

use std::collections::BTreeSet;

use mullion_catalog::Catalog;
use mullion_spec::cluster::System;
use mullion_spec::words::WindowsVersion;
use serde_json::{Value, json};

use super::{Scope, object, with};
use crate::setting::Setting;

/// containerd's handler for Windows containers that share the machine's kernel.
const HANDLER: &str = "runhcs-wcow-process";

pub(super) fn objects(setting: &Setting<'_>) -> Vec<Value> {
    let versions = setting.cluster().windows_versions();
    versions
        .into_iter()
        .map(|version| class(setting, version))
        .collect()
}

fn class(setting: &Setting<'_>, version: WindowsVersion) -> Value {
    let release = Catalog::builtin().windows(version);
    let groups = setting.cluster().groups.iter();
    // The taints of its own machines, so that the class is all that a pod must name.
    let taints: BTreeSet<_> = groups
        .filter(
            |group| matches!(&group.system, System::Windows(windows) if windows.version == version),
        )
        .flat_map(|group| &group.taints)
        .collect();
    let tolerations: Vec<_> = taints
        .into_iter()
        .map(|taint| {
            json!({
                "key": taint.key,
                "operator": "Equal",
                "value": taint.value,
                "effect": taint.effect,
            })
        })
        .collect();
    let kind = ("node.k8s.io/v1", "RuntimeClass");
    with(
        object(kind, &format!("windows-{version}"), Scope::Cluster),
        json!({
            "handler": HANDLER,
            "scheduling": {
                "nodeSelector": {
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "windows",
                    "node.kubernetes.io/windows-build": release.label,
                },
                "tolerations": tolerations,
            },
        }),
    )
}
