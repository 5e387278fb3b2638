//! What renderers are given, put together from the model, the roster, the store and what was found.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use mullion_plan::{Documents, ErrorClass, Fingerprint, PartKind, Roster, StepError, Wanted};
use mullion_render::{
    Place, RenderError, Setting, Stored, load_balancer_blueprint, node_blueprint, objects,
    windows_blueprint,
};
use mullion_spec::cluster::Duty;
use mullion_spec::value::{Address, Endpoint, MachineName};
use mullion_spec::words::Os;
use mullion_wire::{Blueprint, Sha256Digest};

use super::Adapter;
use super::grounds::COMMON_GROUND;

/// A document that could not be rendered, as a step's failure.
pub(super) fn unrendered(what: &str, error: &RenderError) -> StepError {
    StepError::new(ErrorClass::Refused, format!("{what} could not be written")).because(error)
}

impl Adapter<'_> {
    /// The setting of the machines whose place is known.
    pub(super) fn setting(&self) -> Result<Setting<'_>, StepError> {
        let roster = self.roster()?;
        let endpoint = endpoint(&roster)?;
        let driver_of = |machine: &_| self.group(machine).map(|group| group.carrier.driver());
        let machines = self.node_addresses(&roster);
        let machines = machines.into_iter().map(|(name, address)| {
            let ground = self.grounds.of(&name, driver_of);
            (name, Place { address, ground })
        });
        Ok(Setting {
            model: self.model,
            endpoint,
            machine_network: roster.network,
            machines: machines.collect(),
            programs: self.programs(Os::Linux),
            windows_programs: self.windows_programs(),
            contents: self.contents(),
        })
    }

    /// Windows programs, the agent among them: it brings itself.
    fn windows_programs(&self) -> BTreeMap<String, Stored> {
        let mut programs = self.programs(Os::Windows);
        programs.extend(self.outfit.windows.as_ref().map(|outfit| {
            let stored = Stored {
                sha256: outfit.agent.sha256.clone(),
                size: outfit.agent.bytes.len() as u64,
            };
            (super::AGENT.to_owned(), stored)
        }));
        programs
    }

    fn programs(&self, os: Os) -> BTreeMap<String, Stored> {
        let wanted = Wanted::of(self.model);
        let programs = wanted
            .parts
            .iter()
            .filter(|part| part.kind == PartKind::Program && part.os == os);
        programs
            .filter_map(|part| {
                let path = self.store.path(part)?;
                let sha256 = self.store.digest(part)?;
                let size = path.metadata().ok()?.len();
                Some((part.name.clone(), Stored { sha256, size }))
            })
            .collect()
    }

    fn contents(&self) -> BTreeMap<std::path::PathBuf, mullion_wire::Content> {
        let files = self.outfit.contents.iter();
        files
            .map(|(name, file)| (name.clone(), file.content.clone()))
            .collect()
    }

    /// The blueprint of one machine.
    pub(super) fn blueprint(&self, machine: &MachineName) -> Result<Blueprint, StepError> {
        // Where it is not known, that is the failure.
        self.node_address(machine)?;
        let duty = self.duty(machine)?;
        if duty == Duty::LoadBalancer {
            // One that is left out would stay so: it is waited for, also where it is not made yet.
            for seat in self.seats() {
                self.node_address(&seat).map_err(|mut error| {
                    error.class = ErrorClass::NotYet;
                    error
                })?;
            }
        }
        let setting = self.setting()?;
        render(&setting, machine, (duty, self.os(machine)))
            .map_err(|error| unrendered(&format!("the blueprint of {machine}"), &error))
    }

    /// The control planes of the file.
    pub(super) fn seats(&self) -> impl Iterator<Item = MachineName> {
        let machines = self.cluster().machines();
        machines
            .filter(|machine| machine.group.duty == Duty::ControlPlane)
            .map(|seat| seat.name)
    }

    /// Whether the file wants the machine as a load balancer.
    pub(super) fn is_load_balancer(&self, machine: &MachineName) -> bool {
        self.duty(machine) == Ok(Duty::LoadBalancer)
    }

    pub(super) fn duty(&self, machine: &MachineName) -> Result<Duty, StepError> {
        self.group(machine).map(|group| group.duty).ok_or_else(|| {
            StepError::new(ErrorClass::Refused, format!("{machine} is not in the file"))
        })
    }

    /// What the documents of groups and object sets come to, whatever machines there are: the first machine of a group
    /// stands for all, at an address that no machine has, with programs that are known by their versions already.
    pub(super) fn documents(&self) -> Documents {
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let nothing = Stored {
            sha256: Sha256Digest::of(b""),
            size: 0,
        };
        let wanted = Wanted::of(self.model);
        let place = Place {
            address,
            ground: COMMON_GROUND,
        };
        let machines = self
            .cluster()
            .machines()
            .map(|machine| (machine.name, place.clone()));
        // Another agent is another version of that part, and no other document.
        let mut windows_programs = known(&wanted, Os::Windows, &nothing);
        windows_programs.insert(super::AGENT.to_owned(), nothing.clone());
        let setting = Setting {
            model: self.model,
            endpoint: Endpoint {
                address: Address::Ip(address),
                port: mullion_render::API_PORT,
            },
            machine_network: None,
            machines: machines.collect(),
            programs: known(&wanted, Os::Linux, &nothing),
            windows_programs,
            contents: self.contents(),
        };
        let mut documents = Documents::default();
        for group in &self.cluster().groups {
            let first = group.machines().next();
            let rendered = first.and_then(|machine| {
                // What cannot be rendered is told by the step that needs it.
                render(&setting, &machine.name, (group.duty, group.system.os())).ok()
            });
            if let Some(blueprint) = rendered {
                let fingerprint = Fingerprint::of(&blueprint);
                documents.groups.insert(group.name.clone(), fingerprint);
            }
        }
        let patches = &self.cluster().kubernetes.patches;
        documents.patches = (!patches.is_empty()).then(|| {
            let contents = patches.iter().map(|patch| setting.contents.get(patch));
            Fingerprint::of(&contents.collect::<Vec<_>>())
        });
        let archives = &self.outfit.images;
        documents.archives = (!archives.is_empty()).then(|| {
            let digests = archives.iter().map(|archive| archive.digest().ok());
            Fingerprint::of(&digests.collect::<Vec<_>>())
        });
        let unusable = archives.iter();
        let unusable = unusable
            .filter_map(|archive| Some((archive.path.display().to_string(), archive.unusable()?)));
        documents.unusable = unusable.collect();
        for set in SETS {
            if let Ok(Some(objects)) = objects(&setting, set) {
                documents
                    .sets
                    .insert((*set).into(), Fingerprint::of(&objects));
            }
        }
        documents
    }
}

/// The object sets that can be rendered.
pub(super) const SETS: &[&str] = &[
    "network-flannel",
    "service-proxy",
    "policy",
    "dns",
    "runtime-classes",
];

fn render(
    setting: &Setting<'_>,
    machine: &MachineName,
    (duty, os): (Duty, Os),
) -> Result<Blueprint, RenderError> {
    match (duty, os) {
        (Duty::LoadBalancer, _) => load_balancer_blueprint(setting, machine),
        (_, Os::Windows) => windows_blueprint(setting, machine),
        (_, Os::Linux) => node_blueprint(setting, machine),
    }
}

/// The programs for a system, known by their versions already.
fn known(wanted: &Wanted<'_>, os: Os, stored: &Stored) -> BTreeMap<String, Stored> {
    let parts = wanted.parts.iter().filter(|part| part.os == os);
    parts
        .map(|part| (part.name.clone(), stored.clone()))
        .collect()
}

fn endpoint(roster: &Roster) -> Result<Endpoint, StepError> {
    let text = roster.endpoint.as_str();
    let parts = text.rsplit_once(':').and_then(|(address, port)| {
        let address = address.trim_start_matches('[').trim_end_matches(']');
        Some(Endpoint {
            address: address.parse().ok()?,
            port: port.parse().ok()?,
        })
    });
    parts.ok_or_else(|| {
        StepError::new(
            ErrorClass::Refused,
            format!("`{text}` is no address of an API server"),
        )
    })
}
