//! Windows machines to look at, and ways to look.

use mullion_catalog::{Catalog, Model};

use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::source::Source;
use mullion_wire::{Attended, Blueprint, Content, Definition};

use crate::scene::windows_blueprint;
use crate::scene::{self, name};

/// A machine that exists already, with the Windows and the Kubernetes that are asked for.
pub(crate) fn file(windows: &str) -> String {
    format!(
        "kubernetes: {{version: VERSION, allowUnsupported: true}}\nmachines:\n- {{name: cp, role: control-plane}}\n\
         - {{name: win, os: windows, version: \"{windows}\", addresses: [192.0.2.9], ssh: {{user: Administrator, \
         hostKey: \"ssh-ed25519 AAAA\"}}}}\n"
    )
}

pub(crate) fn model(windows: &str, kubernetes: &str) -> Model {
    scene::model(&file(windows), kubernetes)
}

pub(crate) fn blueprint_of(model: &Model) -> Blueprint {
    let setting = scene::setting(model, scene::computer());
    windows_blueprint(&setting, &name("win1")).unwrap()
}

/// With Windows Server 2022 and the usual Kubernetes.
pub(crate) fn blueprint() -> Blueprint {
    blueprint_of(&model("2022", "1.36"))
}

/// Every minor that the catalog knows, each with its blueprint.
pub(crate) fn blueprints() -> Vec<(String, Blueprint)> {
    let versions = scene::versions().into_iter();
    versions
        .map(|version| {
            let blueprint = blueprint_of(&model("2022", &version));
            (version, blueprint)
        })
        .collect()
}

pub(crate) fn text<'a>(blueprint: &'a Blueprint, path: &str) -> &'a str {
    let file = blueprint.files.iter().find(|file| file.path == path);
    match &file.unwrap_or_else(|| panic!("no {path}")).content {
        Content::Text(text) => text,
        Content::Stored { .. } => panic!("{path} is stored"),
    }
}

pub(crate) fn json(blueprint: &Blueprint, path: &str) -> serde_json::Value {
    serde_json::from_str(text(blueprint, path)).unwrap()
}

pub(crate) fn definition<'a>(blueprint: &'a Blueprint, service: &str) -> &'a Definition {
    let mut services = blueprint.services.iter();
    let found = services.find(|found| found.name == service);
    found.unwrap().definition.as_ref().unwrap()
}

/// What the agent is told of a program that it attends to.
pub(crate) fn attended(blueprint: &Blueprint, service: &str) -> Attended {
    let path = format!("C:/etc/mullion/{service}.json");
    serde_json::from_str(text(blueprint, &path)).unwrap()
}

/// The configuration of the pods' network, as the agent writes it once the network is there.
pub(crate) fn network_config(blueprint: &Blueprint) -> serde_json::Value {
    serde_json::from_str(&attended(blueprint, "flanneld").files[0].text).unwrap()
}

pub(crate) const CONTAINERD: &str = "C:/Program Files/containerd/config.toml";

/// The codes of what is found wrong with a file.
pub(crate) fn findings(text: &str) -> Vec<&'static str> {
    let source = Source::new("cluster.yaml", text);
    let judgement =
        Catalog::with_later_drivers().judge(Draft::read(source, &Surroundings::default()));
    let findings = judgement.verdict.findings.iter();
    findings.map(|found| found.finding.rule.code).collect()
}
