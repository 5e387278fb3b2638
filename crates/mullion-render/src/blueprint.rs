//! The blueprint of a node, and what all blueprints have in common.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Blueprint, File, MachineDocument};
use crate::load_balancer::load_balancer_blueprint;
use crate::windows::windows_blueprint;
use mullion_catalog::Catalog;
use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_wire::{Package, Service, ServiceState};

use crate::error::RenderError;
use crate::setting::{Seat, Setting};
use crate::{containerd, kubelet, outward, system};

const PROGRAMS: &str = "/usr/local/bin";

/// The programs of a node that are not plugins of its network.
const NODE_PROGRAMS: &[&str] = &[
    "kubeadm",
    "kubelet",
    "kubectl",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
];

/// Everything that a machine should be before it is a node.
pub fn machine_document(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<MachineDocument, RenderError> {
    let seat = setting.seat(machine)?;
    let group = seat.group;
    let is_linux = group.system.os() == Os::Linux;
    let blueprint = match group.duty {
        Duty::LoadBalancer => load_balancer_blueprint(setting, machine),
        _ if is_linux => node_blueprint(setting, machine),
        _ => windows_blueprint(setting, machine),
    };
    let servers = &setting.cluster().network.upstream_dns;
    Ok(MachineDocument {
        address: seat.address,
        name_servers: group.carrier.is_made().then(|| servers.clone()),
        blueprint: blueprint?,
        images: if is_linux && group.duty != Duty::LoadBalancer {
            setting.images.clone()
        } else {
            BTreeMap::new()
        },
    })
}

/// The blueprint of a Linux control plane or worker.
pub fn node_blueprint(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<Blueprint, RenderError> {
    let seat = setting.linux_seat(machine)?;
    if seat.group.duty == Duty::LoadBalancer {
        return Err(RenderError::OtherDuty {
            machine: machine.clone(),
            wanted: Duty::Worker,
        });
    }
    let mut draft = Draft::begin(setting, seat)?;
    if seat.is_existing() {
        draft.blueprint.packages.extend(system::node_packages());
    }
    draft.blueprint.modules = system::modules(setting, seat)?;
    draft.blueprint.sysctls = system::sysctls(seat)?;
    for program in NODE_PROGRAMS {
        draft.program(setting, PROGRAMS, program)?;
    }
    for plugin in &Catalog::builtin().cni_plugins().linux {
        draft.program(setting, containerd::PLUGINS, plugin)?;
    }
    draft
        .blueprint
        .files
        .extend(containerd::files(setting, seat)?);
    draft.blueprint.files.extend(kubelet::files(seat.ground()?));
    let patches = kubelet::patches(setting, kubelet::PATCHES_FOLDER)?;
    draft.blueprint.files.extend(patches);
    let mut runtime: BTreeSet<_> = [containerd::CONFIG, containerd::UNIT]
        .map(str::to_owned)
        .into();
    runtime.insert(format!("{PROGRAMS}/containerd"));
    // The bundle of certificates is read once, at the start.
    runtime.extend(draft.certificates.iter().cloned());
    let mut node: BTreeSet<_> = [kubelet::UNIT.to_owned()].into();
    node.insert(format!("{PROGRAMS}/kubelet"));
    if let Some(variables) = outward::proxy_environment(setting, seat) {
        for (service, causes) in [("containerd", &mut runtime), ("kubelet", &mut node)] {
            let file = outward::service_proxy(service);
            causes.extend([file.path.clone(), variables.path.clone()]);
            draft.blueprint.files.push(file);
        }
        draft.blueprint.files.push(variables);
    }
    let trust = draft.blueprint.services.iter();
    let after_trust = trust.map(|service| service.name.clone()).collect();
    draft.blueprint.services.push(Service {
        name: "containerd".into(),
        after: after_trust,
        restarted_by: runtime,
        state: ServiceState::Running,
        definition: None,
    });
    draft.blueprint.services.push(Service {
        name: "kubelet".into(),
        after: ["containerd".to_owned()].into(),
        restarted_by: node,
        // kubeadm starts it.
        state: ServiceState::Enabled,
        definition: None,
    });
    draft.finish()
}

/// A blueprint in the making, with what every machine has in it.
pub(crate) struct Draft<'a> {
    pub(crate) blueprint: Blueprint,
    seat: Seat<'a>,
    /// Certificates of the user's that are laid down.
    certificates: Vec<String>,
}

impl<'a> Draft<'a> {
    /// The user's files, certificates and proxy, and the ports.
    pub(crate) fn begin(setting: &Setting<'_>, seat: Seat<'a>) -> Result<Self, RenderError> {
        let trust = outward::trust(setting)?;
        let mut files = trust.files;
        files.extend(outward::package_proxy(setting));
        files.extend(outward::login_proxy(setting, seat));
        for copy in &seat.group.files {
            files.push(File {
                path: copy.to.clone(),
                content: setting.copy_of(&copy.from)?,
                mode: copy.mode.unwrap_or(0o644),
            });
        }
        let blueprint = Blueprint {
            version: mullion_wire::VERSION,
            machine: seat.name.to_string(),
            packages: trust.package.into_iter().collect(),
            modules: BTreeSet::new(),
            sysctls: [].into(),
            folders: vec![],
            files,
            services: trust.service.into_iter().collect(),
            firewall: system::firewall(setting, seat),
            windows: None,
        };
        Ok(Self {
            blueprint,
            seat,
            certificates: trust.certificates,
        })
    }

    fn program(
        &mut self,
        setting: &Setting<'_>,
        folder: &str,
        name: &str,
    ) -> Result<(), RenderError> {
        self.blueprint.files.push(File {
            path: format!("{folder}/{name}"),
            content: setting.program(name)?,
            mode: 0o755,
        });
        Ok(())
    }

    pub(crate) fn package(&mut self, package: Package) {
        self.blueprint.packages.push(package);
    }

    /// The blueprint, in the one order that its digest is taken in.
    pub(crate) fn finish(mut self) -> Result<Blueprint, RenderError> {
        self.blueprint.packages.sort();
        self.blueprint.files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut pairs = self.blueprint.files.windows(2);
        if let Some(pair) = pairs.find(|pair| pair[0].path == pair[1].path) {
            return Err(RenderError::SamePath {
                path: pair[0].path.clone(),
                machine: self.seat.name.clone(),
            });
        }
        Ok(self.blueprint)
    }
}
