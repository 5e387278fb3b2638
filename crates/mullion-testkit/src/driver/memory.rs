//! Machines in memory: they refuse what real ones refuse, and cost nothing. For tests of whoever drives machines.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::Ipv4Net;
use mullion_plan::{Attend, Identity, Power, Trouble};
use mullion_spec::networks::{Relation, relation};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::MachineAccess;
use mullion_wire::Patience;

use mullion_machines::DriverError;
use mullion_machines::{Capabilities, Driver, Look, Privilege, Stop};
use mullion_machines::{Door, Found, Sighting};
use mullion_machines::{Hosts, MachineWish, NetworkWish, gateway};

/// A computer in memory that carries machines. Copies share it: a copy is what another process would see.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    clusters: Arc<Mutex<BTreeMap<ClusterName, Cluster>>>,
    /// The folders that [`Memory::rename`] made of clusters.
    renamed: Arc<Mutex<BTreeSet<String>>>,
    patience: Arc<Mutex<Patience>>,
}

#[derive(Debug, Clone, Default)]
struct Cluster {
    network: Option<Ipv4Net>,
    access: Option<MachineAccess>,
    network_identity: Option<Identity>,
    machines: BTreeMap<MachineName, Machine>,
}

#[derive(Debug, Clone)]
struct Machine {
    wish: MachineWish,
    whole: bool,
    power: Power,
    trouble: Option<Trouble>,
}

impl Memory {
    /// An empty computer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves a machine as if its making had been cut off.
    pub fn cut_off(&self, cluster: &ClusterName, machine: &MachineName) {
        if let Some(machine) = self
            .lock()
            .get_mut(cluster)
            .and_then(|cluster| cluster.machines.get_mut(machine))
        {
            machine.whole = false;
            machine.power = Power::New;
        }
    }

    /// Leaves a cluster's folder as if somebody had renamed it to a name that no cluster can have.
    pub fn rename(&self, cluster: &ClusterName, folder: &str) {
        self.lock().remove(cluster);
        let mut renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
        renamed.insert(folder.into());
    }

    /// Leaves a machine's label as if somebody had damaged it, or a newer version had written it.
    pub fn spoil(&self, cluster: &ClusterName, machine: &MachineName, trouble: Option<Trouble>) {
        if let Some(machine) = self
            .lock()
            .get_mut(cluster)
            .and_then(|cluster| cluster.machines.get_mut(machine))
        {
            machine.trouble = trouble;
        }
    }

    /// Leaves everything as a restart of the computer does: machines are off, networks are gone.
    pub fn restart(&self) {
        for cluster in self.lock().values_mut() {
            cluster.network = None;
            cluster.access = None;
            for machine in cluster.machines.values_mut() {
                if machine.power == Power::On {
                    machine.power = Power::Off;
                }
            }
        }
    }

    /// How patient it is.
    pub fn patience(&self) -> Patience {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys that root may log in to a machine with, and the names it knows.
    pub fn inside(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
    ) -> Option<(Vec<String>, Hosts)> {
        let clusters = self.lock();
        let machine = clusters.get(cluster)?.machines.get(machine)?;
        let wish = &machine.wish;
        Some((wish.authorized_keys.clone(), wish.hosts.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Cluster>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a machine that is there and whole.
    fn with<T>(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        action: impl FnOnce(&mut Machine, Option<Ipv4Net>) -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        let mut clusters = self.lock();
        let known = clusters.get_mut(cluster);
        let network = known.as_ref().and_then(|cluster| cluster.network);
        let there = known.and_then(|cluster| cluster.machines.get_mut(machine));
        let there = there.ok_or_else(|| DriverError::NoMachine {
            cluster: cluster.clone(),
            machine: machine.clone(),
        })?;
        refuse_trouble(machine, there)?;
        if !there.whole {
            return Err(DriverError::NotWhole {
                cluster: cluster.clone(),
                machine: machine.clone(),
            });
        }
        action(there, network)
    }
}

fn refuse_trouble(name: &MachineName, machine: &Machine) -> Result<(), DriverError> {
    match &machine.trouble {
        None => Ok(()),
        Some(trouble) => Err(DriverError::LeftAlone {
            machine: Some(name.clone()),
            trouble: trouble.clone(),
        }),
    }
}

/// Whether two things are of different clusters. What has no id belongs to the cluster of its name.
fn differs(one: Option<&Identity>, other: Option<&Identity>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one.id != other.id)
}

impl Look for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            makes_machines: true,
            networks: true,
            power: true,
            console: false,
            authorizes: true,
            sizes: true,
            privilege: Privilege::Anyone,
        }
    }

    fn find(&self, cluster: &ClusterName) -> Result<Found, DriverError> {
        let clusters = self.lock();
        let mut found = Found {
            clusters: clusters.keys().cloned().collect(),
            strange_clusters: {
                let renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
                renamed.clone()
            },
            foreign: clusters
                .iter()
                .filter(|(name, _)| *name != cluster)
                .filter_map(|(_, other)| other.network)
                .map(Into::into)
                .collect::<BTreeSet<_>>(),
            ..Found::default()
        };
        if let Some(own) = clusters.get(cluster) {
            found.network = own.network;
            found.network_access = own.access;
            found.network_identity.clone_from(&own.network_identity);
            for (name, machine) in &own.machines {
                // What a label says is known where it can be read.
                let label = machine.trouble.is_none().then_some(&machine.wish);
                let sighting = Sighting {
                    ours: label.is_some(),
                    made: true,
                    whole: label.is_some() && machine.whole,
                    power: machine.power,
                    size: label.map(|wish| wish.size),
                    template: label.map(|wish| wish.template.clone()),
                    template_path: label.map(|wish| wish.template_path.clone()),
                    address: label.map(|wish| wish.address.into()),
                    identity: label.and_then(|wish| wish.identity.clone()),
                    autostart: label.map(|wish| wish.autostart),
                    trouble: machine.trouble.clone(),
                };
                found.machines.insert(name.clone(), sighting);
            }
        }
        Ok(found)
    }

    fn door(&self, cluster: &ClusterName, machine: &MachineName) -> Result<Door, DriverError> {
        self.with(cluster, machine, |machine, _| {
            Ok(Door {
                address: machine.wish.address.to_string(),
                port: 22,
                user: "root".into(),
                host_key: Some(format!("ssh-ed25519 AAAA{}", machine.wish.name)),
            })
        })
    }

    fn console_tail(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        _lines: usize,
    ) -> Result<Vec<String>, DriverError> {
        match self.inside(cluster, machine) {
            Some(_) => Ok(Vec::new()),
            None => Err(DriverError::NoMachine {
                cluster: cluster.clone(),
                machine: machine.clone(),
            }),
        }
    }
}

impl Driver for Memory {
    fn make_network(&self, wish: &NetworkWish, _attendant: &dyn Attend) -> Result<(), DriverError> {
        let network = wish.network.trunc();
        gateway(&network).ok_or(DriverError::TooSmall(network))?;
        let mut clusters = self.lock();
        let covers = |there: Ipv4Net| relation(network, there) == Relation::Covers;
        for (name, other) in clusters.iter() {
            let is_other = differs(other.network_identity.as_ref(), wish.identity.as_ref());
            if let Some(there) = other.network_identity.as_ref()
                && *name == wish.cluster
                && other.network.is_some()
                && is_other
            {
                return Err(DriverError::LeftAlone {
                    machine: None,
                    trouble: Trouble::OtherCluster {
                        found: there.id.clone(),
                        own: wish.identity.as_ref().map(|own| own.id.clone()),
                        owner: Some(there.owner),
                        file: "id".into(),
                    },
                });
            }
            match other.network {
                Some(there) if *name == wish.cluster && there != network => {
                    return Err(DriverError::OtherNetwork {
                        cluster: name.clone(),
                        there,
                        wanted: network,
                    });
                }
                Some(there) if *name != wish.cluster && covers(there) => {
                    return Err(DriverError::Taken {
                        network,
                        taken: there.to_string(),
                        interface: name.to_string(),
                    });
                }
                _ => {}
            }
        }
        let cluster = clusters.entry(wish.cluster.clone()).or_default();
        if cluster.network_identity.is_none() {
            cluster.network_identity.clone_from(&wish.identity);
        }
        cluster.network = Some(network);
        cluster.access = Some(wish.access);
        Ok(())
    }

    fn remove_network(
        &self,
        cluster: &ClusterName,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let mut clusters = self.lock();
        if clusters
            .get(cluster)
            .is_some_and(|cluster| !cluster.machines.is_empty())
        {
            return Err(DriverError::NetworkInUse(cluster.clone()));
        }
        clusters.remove(cluster);
        Ok(())
    }

    fn make(&self, wish: &MachineWish, attendant: &dyn Attend) -> Result<(), DriverError> {
        let mut clusters = self.lock();
        let network = wish.network.trunc();
        let cluster = clusters.get_mut(&wish.cluster);
        let there = cluster
            .as_ref()
            .and_then(|cluster| cluster.machines.get(&wish.name));
        if let Some(there) = there {
            refuse_trouble(&wish.name, there)?;
        }
        if let Some(there) = there.filter(|machine| machine.whole) {
            let old = &there.wish;
            let what = if differs(old.identity.as_ref(), wish.identity.as_ref()) {
                "cluster"
            } else if old.template != wish.template {
                "template"
            } else if old.size != wish.size {
                "size"
            } else if old.address != wish.address {
                "address"
            } else {
                return Ok(());
            };
            return Err(DriverError::Different {
                cluster: wish.cluster.clone(),
                machine: wish.name.clone(),
                what,
            });
        }
        let cluster = cluster
            .filter(|cluster| cluster.network == Some(network))
            .ok_or_else(|| DriverError::NoNetwork(wish.cluster.clone()))?;
        if !network.contains(&wish.address) || Some(wish.address) == gateway(&network) {
            return Err(DriverError::BadAddress {
                address: wish.address,
                network,
            });
        }
        if attendant.is_called_off() {
            return Err(DriverError::CalledOff);
        }
        let machine = Machine {
            wish: wish.clone(),
            whole: true,
            power: Power::New,
            trouble: None,
        };
        cluster.machines.insert(wish.name.clone(), machine);
        Ok(())
    }

    fn be_patient(&self, patience: Patience) {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience;
    }

    fn start(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        self.with(cluster, machine, |machine, network| {
            if machine.power == Power::On {
                return Ok(());
            }
            if network.is_none() {
                return Err(DriverError::NoNetwork(cluster.clone()));
            }
            if attendant.is_called_off() {
                return Err(DriverError::CalledOff);
            }
            machine.power = Power::On;
            Ok(())
        })
    }

    fn claim(
        &self,
        cluster: &ClusterName,
        name: &MachineName,
        identity: &Identity,
    ) -> Result<(), DriverError> {
        self.with(cluster, name, |machine, _| {
            if differs(machine.wish.identity.as_ref(), Some(identity)) {
                return Err(DriverError::Different {
                    cluster: cluster.clone(),
                    machine: name.clone(),
                    what: "cluster",
                });
            }
            machine
                .wish
                .identity
                .get_or_insert_with(|| identity.clone());
            Ok(())
        })
    }

    fn set_autostart(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        autostart: bool,
    ) -> Result<(), DriverError> {
        self.with(cluster, machine, |machine, _| {
            machine.wish.autostart = autostart;
            Ok(())
        })
    }

    fn stop(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        _how: Stop,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        self.with(cluster, machine, |machine, _| {
            if machine.power == Power::On {
                machine.power = Power::Off;
            }
            Ok(())
        })
    }

    fn remove(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let mut clusters = self.lock();
        if let Some(there) = clusters.get_mut(cluster) {
            if let Some(known) = there.machines.get(machine) {
                refuse_trouble(machine, known)?;
            }
            there.machines.remove(machine);
            if there.network.is_none() && there.machines.is_empty() {
                clusters.remove(cluster);
            }
        }
        Ok(())
    }

    fn authorize(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        public_key: &str,
    ) -> Result<(), DriverError> {
        self.with(cluster, machine, |machine, _| {
            let keys = &mut machine.wish.authorized_keys;
            let key = public_key.trim().to_owned();
            if !keys.contains(&key) {
                keys.push(key);
            }
            Ok(())
        })
    }

    fn set_hosts(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        hosts: &Hosts,
    ) -> Result<(), DriverError> {
        self.with(cluster, machine, |machine, _| {
            machine.wish.hosts = hosts.clone();
            Ok(())
        })
    }

    fn set_dns(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        servers: &[IpAddr],
    ) -> Result<(), DriverError> {
        self.with(cluster, machine, |machine, _| {
            machine.wish.dns = servers.to_vec();
            Ok(())
        })
    }
}
