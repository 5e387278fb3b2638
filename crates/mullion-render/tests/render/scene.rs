//! Clusters to render, from their files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use mullion_catalog::{ArtifactKind, Catalog, Model};
use mullion_render::{Cgroups, Footing, Ground, InitKeys, JoinKeys, Place, RenderError, Setting};
use mullion_spec::cluster::ControlPlane;
use mullion_spec::draft::{Draft, Surroundings};
use mullion_spec::finding::Severity;
use mullion_spec::source::Source;
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_wire::{Blueprint, Content, Kubeadm, Named, Patience, Secret, Sha256Digest};

/// One control plane and one worker in system containers on a small computer: groups of the first version, no way to
/// raise limits, no resolver.
pub(crate) const SMALL: &str = "
kubernetes: {version: VERSION}
network: {machineCIDR: 10.99.0.0/24}
machines: {linux: 1}
verify: {after: []}
";

/// Three control planes behind a load balancer that is made with them.
pub(crate) const TRIO: &str = "
kubernetes: {version: VERSION}
network: {machineCIDR: 10.99.0.0/24}
machines:
  - {name: cp, role: control-plane, os: linux, count: 3}
proxy: {https: \"http://proxy.example:3128\"}
verify: {after: []}
";

/// Three control planes and a worker on machines of the user's, with everything that a file can ask for.
pub(crate) const LARGE: &str = "
metadata: {name: large}
kubernetes:
  version: VERSION
  featureGates: {MemoryQoS: true, UserNamespacesSupport: false}
  patches: [patches/kube-apiserver+json.yaml, patches/kubeletconfiguration+merge.yaml]
controlPlane: {endpoint: \"api.large.example:443\"}
network:
  podCIDR: 10.128.0.0/14
  podCIDRSize: 23
  serviceCIDR: 172.30.0.0/16
  domain: large.example
  upstreamDNS: [192.0.2.53, 192.0.2.54]
  mtu: 1400
machines:
  - name: cp
    role: control-plane
    os: linux
    version: \"12\"
    driver: ssh
    addresses: [192.0.2.30, 192.0.2.31, 192.0.2.32]
    ssh: {user: ops, key: {file: key}, hostKey: \"ssh-ed25519 AAAA\"}
  - name: app
    role: worker
    os: linux
    version: \"24.04\"
    driver: ssh
    addresses: [192.0.2.41]
    ssh: {user: ops, port: 2222, key: {file: key}, hostKey: \"ssh-ed25519 AAAA\"}
    taints: [\"tier=app:NoSchedule\"]
    files: [{from: files/motd, to: /etc/motd, mode: 600}]
proxy:
  http: http://proxy.example:3128
  https: http://proxy.example:3128
  no: [registry.example, 10.0.0.0/8, .corp.example]
trust: [{file: ca.pem}]
artifacts: {mirror: \"https://mirror.example\"}
verify: {after: []}
";

pub(crate) fn container() -> Ground {
    Ground {
        footing: Footing::SystemContainer,
        cgroups: Cgroups::Hybrid,
        can_raise_limits: false,
        has_swap: false,
        has_resolver: false,
    }
}

pub(crate) fn computer() -> Ground {
    Ground {
        footing: Footing::Computer,
        cgroups: Cgroups::V2,
        can_raise_limits: true,
        has_swap: false,
        has_resolver: true,
    }
}

/// The model of a file, of a version of Kubernetes.
pub(crate) fn model(text: &str, version: &str) -> Model {
    let text = text.replace("VERSION", &format!("\"{version}\""));
    let source = Source::new("cluster.yaml", text.as_str());
    let draft = Draft::read(source, &Surroundings::default());
    let judgement = Catalog::with_later_drivers().judge(draft);
    let findings = judgement
        .verdict
        .findings
        .iter()
        .map(|found| &found.finding);
    let errors: Vec<_> = findings
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| format!("{}: {}", finding.rule.code, finding.message))
        .collect();
    let model = judgement.model;
    model.unwrap_or_else(|| panic!("{errors:#?}\n{text}"))
}

/// The setting of a model: made machines get addresses from 10.99.0.11 on, all stand on the same ground.
pub(crate) fn setting(model: &Model, ground: Ground) -> Setting<'_> {
    let mut machines = BTreeMap::new();
    let mut owner = None;
    for (index, machine) in model.cluster().machines().enumerate() {
        let address = match machine.given_address() {
            Some(address) => address.to_string(),
            None => format!("10.99.0.{}", index + 11),
        };
        // The load balancer's, else the first control plane's.
        let duty = machine.group.duty;
        if owner.as_ref().is_none_or(|(other, _)| duty < *other) {
            owner = Some((duty, format!("{address}:6443")));
        }
        let address = address.parse().unwrap();
        machines.insert(
            machine.name.clone(),
            Place {
                address,
                ground: Some(ground),
            },
        );
    }
    let programs = |os: Os| -> BTreeMap<String, String> {
        let artifacts = model.artifacts().iter();
        let programs = artifacts
            .filter(|artifact| artifact.kind == ArtifactKind::Program && artifact.os == os);
        programs
            .map(|artifact| (artifact.name.clone(), artifact.version.clone()))
            .collect()
    };
    let mut windows_programs: BTreeMap<_, _> = programs(Os::Windows);
    // Inside the program itself, and no artifact.
    windows_programs.insert("mullion-agent".to_owned(), String::new());
    let cluster = model.cluster();
    let files = cluster.groups.iter().flat_map(|group| &group.files);
    let contents = files
        .map(|file| &file.from)
        .chain(&cluster.kubernetes.patches)
        .chain(&cluster.trust)
        .map(|path| {
            let text = format!("what is in {}\n", path.display());
            (PathBuf::from(path), Content::Text(text))
        })
        .collect();
    let endpoint = match &cluster.control_plane {
        ControlPlane::Made {
            endpoint: Some(endpoint),
        } => endpoint.clone(),
        _ => owner.unwrap().1.parse().unwrap(),
    };
    Setting {
        model,
        endpoint,
        machine_network: cluster.network.machines,
        machines,
        programs: programs(Os::Linux),
        windows_programs,
        contents,
        images: BTreeMap::new(),
    }
}

pub(crate) fn name(text: &str) -> MachineName {
    text.parse().unwrap()
}

pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";
pub(crate) const KEY: &str = "f8902e114ef118304e561c3ecd4d0b543adc226b7a07f675f56564185ffe0c07";

pub(crate) fn init_keys() -> InitKeys {
    InitKeys {
        token: Secret::new(TOKEN),
        token_description: "mullion",
        certificate_key: Some(Secret::new(KEY)),
        patience: Patience::USUAL,
    }
}

pub(crate) fn join_keys() -> JoinKeys {
    JoinKeys {
        token: Secret::new(TOKEN),
        certificate_key: Some(Secret::new(KEY)),
        patience: Patience::USUAL,
    }
}

/// The minors that the catalog knows, each as the patch that it takes.
pub(crate) fn versions() -> Vec<String> {
    let minors = Catalog::builtin().kubernetes_minors();
    minors.map(|minor| minor.take.to_string()).collect()
}

/// A blueprint for people: every line of it once.
pub(crate) fn show(blueprint: &Blueprint) -> String {
    let mut text = format!("machine {}\n", blueprint.machine);
    for package in &blueprint.packages {
        let program = package.program.as_deref().unwrap_or("-");
        writeln!(text, "package {} ({program})", package.name).unwrap();
    }
    for module in &blueprint.modules {
        writeln!(text, "module {module}").unwrap();
    }
    for (key, value) in &blueprint.sysctls {
        writeln!(text, "sysctl {key} = {value}").unwrap();
    }
    for port in blueprint.firewall.iter().flat_map(|wall| &wall.open) {
        let (first, last) = (port.first, port.last);
        writeln!(
            text,
            "port {} {:?} {first}-{last}",
            port.name, port.protocol
        )
        .unwrap();
    }
    for service in &blueprint.services {
        writeln!(text, "service {} {:?}", service.name, service.state).unwrap();
        for after in &service.after {
            writeln!(text, "    after {after}").unwrap();
        }
        for cause in &service.restarted_by {
            writeln!(text, "    restarted by {cause}").unwrap();
        }
    }
    for file in &blueprint.files {
        write!(text, "file {} {:o}", file.path, file.mode).unwrap();
        match &file.content {
            Content::Stored { .. } => writeln!(text, " stored").unwrap(),
            Content::Text(content) => {
                writeln!(text).unwrap();
                for line in content.lines() {
                    writeln!(text, "    |{line}").unwrap();
                }
            }
        }
    }
    text
}

/// A blueprint as an agent gets it: what is in a program is its name and version.
fn bound(blueprint: &mullion_render::Blueprint) -> Blueprint {
    let bound = blueprint.bind(|named| -> Result<Content, std::convert::Infallible> {
        Ok(match named {
            Named::Text(text) => Content::Text(text.to_string()),
            Named::Program { name, version, .. } => {
                let known = format!("{name} {version}");
                Content::Stored {
                    sha256: Sha256Digest::of(known.trim_end().as_bytes()),
                    size: 1000,
                }
            }
            Named::UserFile { sha256, size } => Content::Stored {
                sha256: sha256.clone(),
                size: *size,
            },
        })
    });
    let Ok(bound) = bound;
    bound
}

pub(crate) fn node_blueprint(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<Blueprint, RenderError> {
    mullion_render::node_blueprint(setting, machine).map(|blueprint| bound(&blueprint))
}

pub(crate) fn load_balancer_blueprint(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<Blueprint, RenderError> {
    mullion_render::load_balancer_blueprint(setting, machine).map(|blueprint| bound(&blueprint))
}

pub(crate) fn windows_blueprint(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<Blueprint, RenderError> {
    mullion_render::windows_blueprint(setting, machine).map(|blueprint| bound(&blueprint))
}

pub(crate) fn init(
    setting: &Setting<'_>,
    machine: &MachineName,
    keys: &InitKeys,
) -> Result<Kubeadm, RenderError> {
    Ok(mullion_render::init(setting, machine)?.with(keys))
}

pub(crate) fn join(
    setting: &Setting<'_>,
    machine: &MachineName,
    keys: &JoinKeys,
    discovery: Secret,
) -> Result<Kubeadm, RenderError> {
    Ok(mullion_render::join(setting, machine)?.with(keys, discovery))
}

pub(crate) fn init_config(
    setting: &Setting<'_>,
    machine: &MachineName,
    keys: &InitKeys,
) -> Result<Secret, RenderError> {
    match init(setting, machine, keys)? {
        Kubeadm::Init { config, .. } => Ok(config),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn join_config(
    setting: &Setting<'_>,
    machine: &MachineName,
    keys: &JoinKeys,
) -> Result<Secret, RenderError> {
    match join(setting, machine, keys, Secret::new(""))? {
        Kubeadm::Join { config, .. } => Ok(config),
        other => panic!("{other:?}"),
    }
}
