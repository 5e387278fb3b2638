//! What every renderer may know.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;
use mullion_catalog::{ArtifactKind, Catalog, ContainerdLine, Differs, KubernetesMinor, Model};
use mullion_spec::cluster::{Carrier, Cluster, Duty, Group};
use mullion_spec::value::{Endpoint, MachineName};
use mullion_spec::version::Minor;
use mullion_spec::words::Os;
use mullion_wire::{Content, Named, Sha256Digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RenderError;

/// Everything that documents are made from.
#[derive(Debug, Clone)]
pub struct Setting<'a> {
    /// The file, with the catalog's answers.
    pub model: &'a Model,
    /// Where the API server is reached.
    pub endpoint: Endpoint,
    /// The network that made machines are in, where there are any.
    pub machine_network: Option<Ipv4Net>,
    /// The machines whose place is known. What they do and run is in the model.
    pub machines: BTreeMap<MachineName, Place>,
    /// Versions of the Linux programs, by name.
    pub programs: BTreeMap<String, String>,
    /// Versions of the Windows programs, by name.
    pub windows_programs: BTreeMap<String, String>,
    /// Contents of the user's files (`files`, `patches`, `trust`), by the path that the file gives them.
    pub contents: BTreeMap<PathBuf, Content>,
    /// The user's images for Linux nodes, each with the digest of the archive that holds it; none where it comes from a
    /// registry.
    pub images: BTreeMap<String, Option<Sha256Digest>>,
}

/// Where a machine is, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The address by which the cluster knows it.
    pub address: IpAddr,
    /// What it stands on; none where nobody has found out. Windows machines have none: nothing of theirs depends on it.
    pub ground: Option<Ground>,
}

/// What a machine stands on, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ground {
    /// Whether it has a kernel of its own.
    pub footing: Footing,
    /// How its processes are grouped.
    pub cgroups: Cgroups,
    /// Whether limits and scores of processes can be raised there (`CAP_SYS_RESOURCE`).
    pub can_raise_limits: bool,
    /// Whether swap is on.
    pub has_swap: bool,
    /// Whether its `/etc/resolv.conf` names a server.
    pub has_resolver: bool,
}

/// Whether a machine has a kernel of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Footing {
    /// A computer, real or virtual.
    Computer,
    /// A container with a system inside: kernel, memory and disk are those of the computer around it.
    SystemContainer,
}

/// The version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cgroups {
    /// The first.
    V1,
    /// The first, with the second beside it for systemd alone: Kubernetes sees the first.
    Hybrid,
    /// The second.
    V2,
}

/// What manages control groups: systemd or whoever needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CgroupDriver {
    Systemd,
    Cgroupfs,
}

impl CgroupDriver {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Cgroupfs => "cgroupfs",
        }
    }
}

impl Ground {
    /// Whether a process with those capabilities, as the kernel tells them in hexadecimal digits, can raise limits
    /// (`CAP_SYS_RESOURCE`).
    pub const fn may_raise_limits(capabilities: u64) -> bool {
        capabilities & (1 << 24) != 0
    }

    pub(crate) const fn is_container(self) -> bool {
        matches!(self.footing, Footing::SystemContainer)
    }

    /// Whether Kubernetes sees the first version of control groups.
    pub(crate) const fn is_v1(self) -> bool {
        !matches!(self.cgroups, Cgroups::V2)
    }

    /// Systemd manages the groups where the second version is all its own. In a system container it does not: the
    /// tree above belongs to the computer's systemd.
    pub(crate) const fn cgroup_driver(self) -> CgroupDriver {
        if self.is_v1() || self.is_container() {
            CgroupDriver::Cgroupfs
        } else {
            CgroupDriver::Systemd
        }
    }
}

/// A machine with its group and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat<'a> {
    pub(crate) name: &'a MachineName,
    pub(crate) address: IpAddr,
    pub(crate) ground: Option<Ground>,
    pub(crate) group: &'a Group,
}

impl Seat<'_> {
    /// What it stands on.
    pub(crate) fn ground(&self) -> Result<Ground, RenderError> {
        self.ground
            .ok_or_else(|| RenderError::UnknownGround(self.name.clone()))
    }

    /// What it is told otherwise than Windows, where it stands in for it.
    pub(crate) fn differs(&self) -> Option<&'static Differs> {
        let driver = self.group.carrier.driver();
        Catalog::builtin().driver(driver).differs.as_ref()
    }

    /// Whether it existed before us.
    pub(crate) const fn is_existing(&self) -> bool {
        matches!(self.group.carrier, Carrier::Existing { .. })
    }
}

impl<'a> Setting<'a> {
    pub(crate) fn cluster(&self) -> &'a Cluster {
        self.model.cluster()
    }

    pub(crate) fn minor(&self) -> Minor {
        self.model.kubernetes().version.minor
    }

    pub(crate) fn kubernetes_minor(&self) -> Result<&'static KubernetesMinor, RenderError> {
        let minor = self.minor();
        let known = Catalog::builtin().kubernetes_minor(minor);
        known.ok_or(RenderError::Uncatalogued {
            what: "entry",
            minor,
        })
    }

    pub(crate) fn containerd_line(&self) -> Result<&'static ContainerdLine, RenderError> {
        let minor = self.minor();
        let catalog = Catalog::builtin();
        catalog
            .containerd_for(minor)
            .and_then(|release| catalog.containerd_line(&release.version))
            .ok_or(RenderError::Uncatalogued {
                what: "containerd",
                minor,
            })
    }

    fn group_of(&self, name: &MachineName) -> Option<&'a Group> {
        self.cluster().machine(name).map(|machine| machine.group)
    }

    /// The seats of the file's machines whose place is known, by name.
    pub(crate) fn seats(&self) -> impl Iterator<Item = Seat<'_>> {
        self.machines.iter().filter_map(|(name, place)| {
            Some(Seat {
                name,
                address: place.address,
                ground: place.ground,
                group: self.group_of(name)?,
            })
        })
    }

    /// The control planes whose place is known, by number.
    pub(crate) fn control_planes(&self) -> Vec<Seat<'_>> {
        let mut seats: Vec<_> = self
            .seats()
            .filter(|seat| seat.group.duty == Duty::ControlPlane)
            .collect();
        // By letters, `cp10` would come before `cp2`.
        seats.sort_by_key(|seat| (seat.name.as_str().len(), seat.name));
        seats
    }

    /// What the Linux machines stand on that are nodes, as far as that is known.
    pub(crate) fn linux_grounds(&self) -> impl Iterator<Item = Ground> {
        let nodes = self.seats().filter(|seat| {
            seat.group.duty != Duty::LoadBalancer && seat.group.system.os() == Os::Linux
        });
        nodes.filter_map(|seat| seat.ground)
    }

    pub(crate) fn seat(&self, name: &MachineName) -> Result<Seat<'_>, RenderError> {
        let unknown = || RenderError::UnknownMachine(name.clone());
        let (name, place) = self.machines.get_key_value(name).ok_or_else(unknown)?;
        Ok(Seat {
            name,
            address: place.address,
            ground: place.ground,
            group: self.group_of(name).ok_or_else(unknown)?,
        })
    }

    /// The seat of a machine with Linux.
    pub(crate) fn linux_seat(&self, name: &MachineName) -> Result<Seat<'_>, RenderError> {
        let seat = self.seat(name)?;
        match seat.group.system.os() {
            Os::Linux => Ok(seat),
            Os::Windows => Err(RenderError::NotLinux(name.clone())),
        }
    }

    /// The seat of a machine with Windows, or with what stands in for it.
    pub(crate) fn windows_seat(&self, name: &MachineName) -> Result<Seat<'_>, RenderError> {
        let seat = self.seat(name)?;
        match seat.group.system.os() {
            Os::Windows => Ok(seat),
            Os::Linux => Err(RenderError::NotWindows(name.clone())),
        }
    }

    /// The reference of an image for Linux, as upstream has it.
    pub(crate) fn image(&self, name: &str) -> Result<&'a str, RenderError> {
        self.model
            .artifacts()
            .iter()
            .find(|artifact| {
                artifact.kind == ArtifactKind::Image
                    && artifact.os == Os::Linux
                    && artifact.name == name
            })
            .and_then(|artifact| artifact.address.as_deref())
            .ok_or_else(|| RenderError::NoImage(name.into()))
    }

    /// The reference of the pause image that every Windows release of the cluster can start.
    pub(crate) fn windows_pause(&self) -> Result<String, RenderError> {
        let linux = self.image("pause-image")?;
        let repository = linux.rsplit_once(':').map_or(linux, |(before, _)| before);
        let versions: Vec<_> = self.cluster().windows_versions().into_iter().collect();
        let pause = Catalog::builtin().pause_for(self.model.kubernetes(), &versions);
        Ok(format!("{repository}:{}", pause.tag))
    }

    pub(crate) fn program(&self, name: &str) -> Result<Named, RenderError> {
        program(&self.programs, Os::Linux, name)
    }

    pub(crate) fn windows_program(&self, name: &str) -> Result<Named, RenderError> {
        program(&self.windows_programs, Os::Windows, name)
    }

    fn content(&self, path: &Path) -> Result<&Content, RenderError> {
        let unknown = || RenderError::NoContents(path.into());
        self.contents.get(path).ok_or_else(unknown)
    }

    /// A file that is no secret, and that a plan shows: a certificate, or a patch of kubelet's configuration.
    pub(crate) fn contents_of(&self, path: &Path) -> Result<Named, RenderError> {
        match self.content(path)? {
            Content::Text(text) => Ok(Named::Text(text.as_str().into())),
            Content::Stored { .. } => self.copy_of(path),
        }
    }

    /// A file that is copied to machines: what is in it may be a secret.
    pub(crate) fn copy_of(&self, path: &Path) -> Result<Named, RenderError> {
        let content = self.content(path)?;
        Ok(Named::UserFile {
            sha256: content.sha256(),
            size: match content {
                Content::Text(text) => text.len() as u64,
                Content::Stored { size, .. } => *size,
            },
        })
    }

    /// The address of the cluster's DNS, which kubeadm tells every kubelet: the tenth of the services.
    pub(crate) fn dns_address(&self) -> Result<Ipv4Addr, RenderError> {
        let services = self.cluster().network.services;
        let address = u32::from(services.network())
            .checked_add(10)
            .map(Ipv4Addr::from);
        address
            .filter(|address| services.contains(address))
            .ok_or(RenderError::NoDnsAddress(services))
    }
}

fn program(versions: &BTreeMap<String, String>, os: Os, name: &str) -> Result<Named, RenderError> {
    let version = versions
        .get(name)
        .ok_or_else(|| RenderError::NoProgram(name.into()))?;
    Ok(Named::Program {
        name: name.into(),
        os: os.to_string(),
        version: version.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_manages_groups_only_where_the_second_version_is_its_own() {
        let driver = |footing, cgroups| {
            Ground {
                footing,
                cgroups,
                can_raise_limits: true,
                has_swap: false,
                has_resolver: true,
            }
            .cgroup_driver()
        };
        assert_eq!(
            driver(Footing::Computer, Cgroups::V2),
            CgroupDriver::Systemd
        );
        for (footing, cgroups) in [
            (Footing::Computer, Cgroups::V1),
            (Footing::Computer, Cgroups::Hybrid),
            (Footing::SystemContainer, Cgroups::V2),
            (Footing::SystemContainer, Cgroups::Hybrid),
        ] {
            assert_eq!(driver(footing, cgroups), CgroupDriver::Cgroupfs);
        }
    }
}
