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
use mullion_wire::{Content, Sha256Digest};

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
    /// Linux programs in the artifact store, by name.
    pub programs: BTreeMap<String, Stored>,
    /// Windows programs in the artifact store, by name.
    pub windows_programs: BTreeMap<String, Stored>,
    /// Contents of the user's files (`files`, `patches`, `trust`), by the path that the file gives them.
    pub contents: BTreeMap<PathBuf, Content>,
}

/// Where a machine is, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The address by which the cluster knows it.
    pub address: IpAddr,
    /// What it stands on.
    pub ground: Ground,
}

/// What a machine stands on, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Footing {
    /// A computer, real or virtual.
    Computer,
    /// A container with a system inside: kernel, memory and disk are those of the computer around it.
    SystemContainer,
}

/// The version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroups {
    /// The first.
    V1,
    /// The first, with the second beside it for systemd alone: Kubernetes sees the first.
    Hybrid,
    /// The second.
    V2,
}

/// A file in the artifact store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its digest.
    pub sha256: Sha256Digest,
    /// Its size in bytes.
    pub size: u64,
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
    pub(crate) ground: Ground,
    pub(crate) group: &'a Group,
}

impl Seat<'_> {
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

    /// The Linux machines that are nodes and whose place is known.
    pub(crate) fn linux_nodes(&self) -> impl Iterator<Item = Seat<'_>> {
        self.seats().filter(|seat| {
            seat.group.duty != Duty::LoadBalancer && seat.group.system.os() == Os::Linux
        })
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

    pub(crate) fn program(&self, name: &str) -> Result<Content, RenderError> {
        stored(&self.programs, name)
    }

    pub(crate) fn windows_program(&self, name: &str) -> Result<Content, RenderError> {
        stored(&self.windows_programs, name)
    }

    pub(crate) fn contents_of(&self, path: &Path) -> Result<Content, RenderError> {
        self.contents
            .get(path)
            .cloned()
            .ok_or_else(|| RenderError::NoContents(path.into()))
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

fn stored(programs: &BTreeMap<String, Stored>, name: &str) -> Result<Content, RenderError> {
    let stored = programs
        .get(name)
        .ok_or_else(|| RenderError::NotStored(name.into()))?;
    Ok(Content::Stored {
        sha256: stored.sha256.clone(),
        size: stored.size,
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
