//! What a driver finds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net};
use mullion_plan::{Identity, MachineFacts, Place, Power, Size, TemplateId, Trouble};
use mullion_render::Ground;
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::{self, MachineAccess};

/// Everything that was found of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The machine network with its label.
    pub network: Option<Ipv4Net>,
    /// What of that network is missing, in words; making it again makes it whole.
    pub network_lacks: Option<String>,
    /// From where its machines can be reached; `None` where the firewall cannot be read.
    pub network_access: Option<MachineAccess>,
    /// What the label of that network says of the cluster beside the name.
    pub network_identity: Option<Identity>,
    /// Why that network must be left as it is.
    pub network_trouble: Option<Trouble>,
    /// Networks of this computer that are not the cluster's.
    pub foreign: BTreeSet<IpNet>,
    /// What a machine stands on that the driver makes now; `None` where nobody can tell beforehand.
    pub ground: Option<Ground>,
    /// Its machines, and machines of its machines' names that are not its own.
    pub machines: BTreeMap<MachineName, Sighting>,
    /// Every cluster that something here carries the label of.
    pub clusters: BTreeSet<ClusterName>,
    /// Folders among those of clusters whose names no cluster can have. They may hold machines.
    pub strange_clusters: BTreeSet<String>,
}

/// What was seen of one machine, from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Whether it carries the cluster's label.
    pub ours: bool,
    /// Whether we made it, so that we may remove it.
    pub made: bool,
    /// Whether its making was finished.
    pub whole: bool,
    /// Whether it runs.
    pub power: Power,
    /// How large it was made.
    pub size: Option<Size>,
    /// The template it was made from.
    pub template: Option<TemplateId>,
    /// The folder of that template, which it lies over.
    pub template_path: Option<PathBuf>,
    /// Its address.
    pub address: Option<IpAddr>,
    /// What its label says of the cluster beside the name; nothing in labels of older versions.
    pub identity: Option<Identity>,
    /// Whether it starts when this computer starts; `None` where that starts no machines by itself.
    pub autostart: Option<bool>,
    /// Why it must be left as it is.
    pub trouble: Option<Trouble>,
}

impl Sighting {
    /// The facts of the machine, as planning takes them; nobody has looked inside yet.
    pub fn facts(&self, driver: words::Driver, place: Place) -> MachineFacts {
        MachineFacts {
            claimed_by: None,
            ours: self.ours,
            made: self.made,
            whole: self.whole,
            driver,
            place,
            power: self.power,
            size: self.size,
            template: self.template.clone(),
            address: self.address,
            inside: None,
            ground: None,
            addresses: Vec::new(),
            autostart: self.autostart,
            trouble: self.trouble.clone(),
        }
    }
}

/// Where to log in to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// The address or name.
    pub address: String,
    /// The port.
    pub port: u16,
    /// The user.
    pub user: String,
    /// The host key to expect, as a line in OpenSSH's form; none where the driver does not know it.
    pub host_key: Option<String>,
}
