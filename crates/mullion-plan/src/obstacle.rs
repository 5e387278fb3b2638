//! What a plan cannot cure, with the words and the way out.

mod trouble;

use ipnet::{IpNet, Ipv4Net};
use mullion_spec::rules::{self, Rule};
use mullion_spec::value::MachineName;
use mullion_spec::version::Patch;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Serialize, Serializer};

use self::trouble::{left_alone, way_out};
use crate::identity::Trouble;
use crate::observed::{Observed, Place};

/// Whose matter an obstacle is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObstacleClass {
    /// The file asks for what cannot be.
    File,
    /// Something on a computer that carries machines is in the way.
    ThisComputer,
    /// A machine, or the cluster on the machines, is otherwise than the file wants.
    Machine,
    /// A fault of this program.
    OurFault,
}

/// A reason why nothing may be touched until a person decides.
///
/// A plan with obstacles has no steps: all obstacles are shown at once, before anything changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase",
    remote = "Self"
)]
#[schemars(transform = with_words)]
#[non_exhaustive]
pub enum Obstacle {
    /// The cluster runs another Kubernetes than the file wants.
    Version {
        /// What it runs.
        #[schemars(with = "String")]
        found: Patch,
        /// What the file wants.
        #[schemars(with = "String")]
        wanted: Patch,
    },
    /// Something of a wanted name exists and does not carry our label.
    NotOurs {
        /// The name.
        #[schemars(with = "String")]
        machine: MachineName,
        /// The cluster that it belongs to, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cluster: Option<String>,
    },
    /// A machine of the user's holds Kubernetes that somebody else put there.
    Occupied {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// A control plane holds the cluster's data, and is no node any more.
    Damaged {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
        /// What it lacks.
        why: String,
    },
    /// A machine that exists was made otherwise than the file now says.
    MachineDiffers {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
        /// In what it differs.
        what: String,
        /// How it is.
        found: String,
        /// How the file wants it.
        wanted: String,
    },
    /// The cluster was made with a setting that cannot change while it runs.
    ClusterDiffers {
        /// Which setting.
        what: String,
        /// How it is.
        found: String,
        /// How the file wants it.
        wanted: String,
    },
    /// The machine network is in use by someone else.
    NetworkTaken {
        /// Where.
        #[schemars(with = "String")]
        place: Place,
        /// The network that the file wants.
        #[schemars(with = "String")]
        wanted: Ipv4Net,
        /// The network that is in the way.
        #[schemars(with = "String")]
        foreign: IpNet,
    },
    /// A machine has an address outside the machine network.
    AddressOutside {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
        /// Its address.
        address: String,
        /// The network.
        #[schemars(with = "String")]
        network: Ipv4Net,
    },
    /// The machine network has fewer addresses than there are machines.
    TooFewAddresses {
        /// The network.
        #[schemars(with = "String")]
        network: Ipv4Net,
        /// How many machines it can hold beside those that have an address.
        free: usize,
        /// How many machines need one.
        needed: usize,
    },
    /// A template that the file names does not exist.
    TemplateMissing {
        /// Its name.
        template: String,
    },
    /// More than half of etcd's members are gone for good.
    QuorumLost {
        /// How many there were.
        members: usize,
        /// How many are left.
        left: usize,
    },
    /// A control plane would have to be emptied, and it is the last member of etcd.
    LastMember {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// A control plane would have to be emptied, and too few of the other members of etcd are healthy.
    NoMajority {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
        /// How many of the others are healthy.
        healthy: usize,
        /// How many others there are.
        others: usize,
    },
    /// A control plane would have to be emptied, and etcd could not be asked.
    EtcdUnknown {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// A control plane would be emptied, and a member of etcd that fits no machine may be its own.
    UnknownMember {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
        /// The member's name, or its id where it has no name.
        member: String,
    },
    /// A machine would have to be emptied that is a control plane of another cluster.
    OtherControlPlane {
        /// The machine.
        #[schemars(with = "String")]
        machine: MachineName,
    },
    /// The existing cluster that the file names does not answer.
    ExistingSilent,
    /// The file has no machine that could be a control plane.
    NoControlPlane,
    /// A document cannot be rendered as the file asks.
    Unrendered {
        /// What cannot be rendered.
        what: String,
        /// Why not.
        why: String,
    },
    /// An archive of images that the file names cannot be used.
    ArchiveUnusable {
        /// The archive.
        file: String,
        /// Why not.
        why: String,
        /// What a person can do about it.
        remedy: String,
    },
    /// Something of this cluster's name must be left as it is until a person decides.
    LeftAlone {
        /// The machine; none where it is the machine network.
        #[schemars(with = "Option<String>")]
        machine: Option<MachineName>,
        /// Why.
        trouble: Trouble,
    },
    /// The planner made steps that are no plan: a fault of this program.
    OurFault {
        /// What is wrong with the steps.
        words: String,
    },
}

/// An obstacle as it is written down, with all that follows from it: readers need no catalogue of their
/// own.
#[derive(Serialize)]
struct ObstacleForm<'a> {
    #[serde(flatten, with = "Obstacle")]
    obstacle: &'a Obstacle,
    code: Option<&'static str>,
    message: String,
    hint: String,
}

impl Serialize for Obstacle {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let form = ObstacleForm {
            obstacle: self,
            code: self.rule().map(|rule| rule.code),
            message: self.words(),
            hint: self.hint(),
        };
        form.serialize(out)
    }
}

/// Adds what [`ObstacleForm`] adds to every kind of obstacle.
fn with_words(schema: &mut Schema) {
    let more = [
        (
            "code",
            json_schema!({
                "description": "The code of the rule that says more, where there is one.",
                "type": ["string", "null"]
            }),
        ),
        (
            "message",
            json_schema!({
                "description": "What is in the way, in one sentence.",
                "type": "string"
            }),
        ),
        (
            "hint",
            json_schema!({
                "description": "What the user can do, in one sentence.",
                "type": "string"
            }),
        ),
    ];
    let kinds = schema
        .get_mut("oneOf")
        .and_then(|kinds| kinds.as_array_mut());
    for kind in kinds.into_iter().flatten() {
        for (name, form) in &more {
            if let Some(properties) = kind["properties"].as_object_mut() {
                properties.insert((*name).into(), form.clone().into());
            }
            if let Some(required) = kind["required"].as_array_mut() {
                required.push((*name).into());
            }
        }
    }
}

impl Obstacle {
    /// Whose matter it is.
    pub const fn class(&self) -> ObstacleClass {
        match self {
            Self::NoControlPlane
            | Self::Unrendered { .. }
            | Self::ArchiveUnusable { .. }
            | Self::TooFewAddresses { .. } => ObstacleClass::File,
            Self::NetworkTaken { .. } | Self::LeftAlone { machine: None, .. } => {
                ObstacleClass::ThisComputer
            }
            Self::Version { .. }
            | Self::NotOurs { .. }
            | Self::Occupied { .. }
            | Self::Damaged { .. }
            | Self::MachineDiffers { .. }
            | Self::ClusterDiffers { .. }
            | Self::AddressOutside { .. }
            | Self::TemplateMissing { .. }
            | Self::QuorumLost { .. }
            | Self::LeftAlone { .. }
            | Self::LastMember { .. }
            | Self::NoMajority { .. }
            | Self::EtcdUnknown { .. }
            | Self::UnknownMember { .. }
            | Self::OtherControlPlane { .. }
            | Self::ExistingSilent => ObstacleClass::Machine,
            Self::OurFault { .. } => ObstacleClass::OurFault,
        }
    }

    /// What is in the way, in one sentence.
    pub fn words(&self) -> String {
        match self {
            Self::Version { found, wanted } => {
                format!("the cluster runs Kubernetes {found}, and {wanted} is wanted")
            }
            Self::NotOurs {
                machine,
                cluster: Some(cluster),
            } => format!("machine `{machine}` belongs to the cluster `{cluster}`"),
            Self::NotOurs { machine, .. } => {
                format!("a machine `{machine}` exists that does not belong to this cluster")
            }
            Self::Occupied { machine } => {
                format!("Kubernetes is on `{machine}` already, and not by this program")
            }
            Self::Damaged { machine, why } => {
                format!("`{machine}` holds the cluster's data, and {why}")
            }
            Self::MachineDiffers {
                machine,
                what,
                found,
                wanted,
            } => format!("`{machine}` exists with {what} {found}, and {wanted} is wanted"),
            Self::ClusterDiffers {
                what,
                found,
                wanted,
            } => format!("the cluster's {what} is {found}, and {wanted} is wanted"),
            Self::NetworkTaken {
                place,
                wanted,
                foreign,
            } => format!("the machine network {wanted} overlaps {foreign}, in use on {place}"),
            Self::AddressOutside {
                machine,
                address,
                network,
            } => format!("`{machine}` has the address {address}, outside of {network}"),
            Self::TooFewAddresses {
                network,
                free,
                needed,
            } => format!("{needed} machines need an address, and {network} has {free} free"),
            Self::TemplateMissing { template } => format!("there is no template `{template}`"),
            Self::QuorumLost { members, left } => format!(
                "{left} of {members} control planes are left, fewer than etcd can work with"
            ),
            Self::LastMember { machine } => format!(
                "`{machine}` would have to be reset, and it is the last member of etcd: everything in the cluster would be lost"
            ),
            Self::NoMajority {
                machine,
                healthy,
                others,
            } => format!(
                "`{machine}` would have to be reset, and only {healthy} of the {others} other members of etcd {} healthy: \
                 etcd would lose its majority",
                if *healthy == 1 { "is" } else { "are" }
            ),
            Self::EtcdUnknown { machine } => format!(
                "`{machine}` would have to be reset, and Mullion could not ask etcd whether its other members are healthy"
            ),
            Self::UnknownMember { machine, member } => format!(
                "`{machine}` would have to be reset, and etcd's member `{member}` is on no known machine: it may be on this one"
            ),
            Self::OtherControlPlane { machine } => format!(
                "`{machine}` would have to be reset, and it is a control plane of another cluster"
            ),
            Self::ExistingSilent => "the existing cluster does not answer".into(),
            Self::NoControlPlane => "the file has no machine for the control plane".into(),
            Self::Unrendered { what, why } => format!("{what} cannot be rendered: {why}"),
            Self::ArchiveUnusable { file, why, .. } => {
                format!("the archive of images `{file}` cannot be used: {why}")
            }
            Self::LeftAlone { machine, trouble } => left_alone(machine.as_ref(), trouble),
            Self::OurFault { words } => format!("the steps are no plan: {words}"),
        }
    }

    /// The rule of the error catalogue that says more, where there is one.
    pub fn rule(&self) -> Option<&'static Rule> {
        match self {
            Self::Version { .. } => Some(&rules::versions::SKEW),
            Self::NetworkTaken { .. } => Some(&rules::network::TAKEN),
            Self::TooFewAddresses { .. } => Some(&rules::network::MACHINES_SMALL),
            Self::NoControlPlane => Some(&rules::machines::NO_CONTROL_PLANE),
            _ => None,
        }
    }

    /// What the user can do, in one sentence.
    pub fn hint(&self) -> String {
        match self {
            Self::Version { found, .. } => format!(
                "write `version: \"{found}\"`; this release does not upgrade a running cluster"
            ),
            Self::NotOurs {
                machine,
                cluster: Some(cluster),
            } => format!(
                "take `{machine}` out of this file, or out of the cluster `{cluster}` first; nothing was changed"
            ),
            Self::NotOurs { machine, .. } => {
                format!("rename the group in the file, or take `{machine}` out of what it belongs to")
            }
            Self::Occupied { machine } => format!(
                "take it out of that cluster first, or empty it with `mullion node reset {machine}`: what is on it is lost"
            ),
            // Not `node reset`: it refuses the last control plane, and any where no API server lets it leave etcd.
            Self::Damaged { machine, .. } => format!(
                "repair it on `{machine}` (`kubeadm init phase kubeconfig kubelet`, then restart kubelet), or make the \
                 cluster anew with `mullion down` and then `mullion up`: what etcd holds is lost"
            ),
            Self::MachineDiffers { .. } => {
                "undo the change in the file, or give the group another name, so that its machines are made anew"
                    .into()
            }
            Self::ClusterDiffers { found, .. } => format!(
                "write {found} into the file: a running cluster keeps it, and only a new one (`mullion down`, then \
                 `mullion up`) can have another"
            ),
            Self::NetworkTaken { .. } => {
                "give `network.machineCIDR` a network that is free".into()
            }
            Self::AddressOutside { .. } => {
                "give `network.machineCIDR` the network that the machines are in".into()
            }
            Self::TooFewAddresses { .. } => {
                "ask for fewer machines, or make the cluster anew with a larger `network.machineCIDR`"
                    .into()
            }
            Self::TemplateMissing { .. } => {
                "check its name, or give `media` to have a template built"
                    .into()
            }
            Self::QuorumLost { .. } => {
                "bring the lost control planes back: what etcd has lost, no step can replace".into()
            }
            Self::LastMember { .. } => {
                "to keep the cluster, add a control plane to the file and run `mullion up` first; for a new cluster, \
                 `mullion down` and then `mullion up`: what etcd holds is lost"
                    .into()
            }
            Self::NoMajority { machine, .. } => format!(
                "repair the other control planes first: see `mullion kubectl get pods -n kube-system -l component=etcd` \
                 and `mullion status`, and leave `{machine}` in the file as it is until then"
            ),
            Self::EtcdUnknown { .. } => {
                "run `mullion up` (or `mullion node reset`) again when the API server answers; if it does not, see why with \
                 `mullion status` and, on a control plane, `journalctl -u kubelet`; if it answers, check that you can log \
                 in to a control plane and reach its port 2379 from here"
                    .into()
            }
            Self::UnknownMember { member, .. } => format!(
                "find the machine of `{member}` with `etcdctl member list` in an etcd pod; if the machine is gone, take the \
                 member out with `etcdctl member remove` and its id"
            ),
            Self::OtherControlPlane { machine } => format!(
                "take `{machine}` out of the file, or empty it yourself with `kubeadm reset`: what its etcd holds is lost"
            ),
            Self::ExistingSilent => {
                "check `controlPlane.existing`, and that its API server can be reached from here"
                    .into()
            }
            Self::NoControlPlane => "add a group with `role: control-plane`".into(),
            Self::Unrendered { .. } => {
                "correct what the error names in the cluster file, and run it again".into()
            }
            Self::ArchiveUnusable { remedy, .. } => remedy.clone(),
            Self::LeftAlone { machine, trouble } => way_out(machine.as_ref(), trouble),
            Self::OurFault { .. } => "please report it with the file and `mullion plan --json`".into(),
        }
    }
}

/// What of this cluster's name keeps it from being taken down. A machine that we made goes whole, whatever its agent says.
pub(crate) fn not_removable_in(observed: &Observed) -> impl Iterator<Item = Obstacle> {
    left_alone_in(observed).filter(|obstacle| {
        let facts = match obstacle {
            Obstacle::LeftAlone { machine, .. } => machine
                .as_ref()
                .and_then(|name| observed.machines.get(name)),
            _ => None,
        };
        facts.is_none_or(|facts| !(facts.ours && facts.made))
    })
}

/// Everything of this cluster's name that must be left as it is, wanted or not.
pub(crate) fn left_alone_in(observed: &Observed) -> impl Iterator<Item = Obstacle> {
    let machines = observed.machines.iter().filter_map(|(name, facts)| {
        Some(Obstacle::LeftAlone {
            machine: Some(name.clone()),
            trouble: facts.trouble.clone()?,
        })
    });
    let networks = observed.hosts.values().filter_map(|host| {
        Some(Obstacle::LeftAlone {
            machine: None,
            trouble: host.trouble.clone()?,
        })
    });
    machines.chain(networks)
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.words())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_obstacle_is_written_down_with_its_words() {
        let taken = Obstacle::NetworkTaken {
            place: Place::Here,
            wanted: "10.99.0.0/24".parse().unwrap(),
            foreign: "10.99.0.0/25".parse().unwrap(),
        };
        assert_eq!(taken.class(), ObstacleClass::ThisComputer);
        let code = taken.rule().map(|rule| rule.code);
        assert!(code.is_some());
        assert_eq!(
            serde_json::to_value(&taken).unwrap(),
            json!({
                "kind": "network-taken",
                "place": "@local",
                "wanted": "10.99.0.0/24",
                "foreign": "10.99.0.0/25",
                "code": code,
                "message": taken.words(),
                "hint": taken.hint(),
            })
        );
        let silent = serde_json::to_value(Obstacle::ExistingSilent).unwrap();
        assert_eq!(silent["kind"], "existing-silent");
        assert_eq!(silent["code"], Value::Null);
    }

    #[test]
    fn the_way_out_of_damage_is_one_that_is_not_refused() {
        let damaged = Obstacle::Damaged {
            machine: "cp1".parse().unwrap(),
            why: "its certificate expired".into(),
        };
        let hint = damaged.hint();
        assert!(!hint.contains("node reset"), "{hint}");
        assert!(
            hint.contains("`mullion down` and then `mullion up`"),
            "{hint}"
        );
    }

    #[test]
    fn the_way_out_where_etcd_was_not_asked_fits_every_cause() {
        // The kubeconfig is lost, the API server is silent, or only etcd's port cannot be reached.
        let unknown = Obstacle::EtcdUnknown {
            machine: "cp1".parse().unwrap(),
        };
        let words = unknown.words();
        assert!(!words.contains("etcd did not"), "{words}");
        let hint = unknown.hint();
        for way in [
            "`mullion up` (or `mullion node reset`) again when the API server answers",
            "`journalctl -u kubelet`",
            "port 2379",
        ] {
            assert!(hint.contains(way), "{way}: {hint}");
        }
    }

    #[test]
    fn promise_09_a_cluster_whose_state_was_lost_is_told_how_it_gets_its_id_back() {
        let found = crate::identity::ClusterUid::of(7);
        let lost = |file: &str| {
            let obstacle = Obstacle::LeftAlone {
                machine: Some("lin1".parse().unwrap()),
                trouble: Trouble::OtherCluster {
                    found: found.clone(),
                    own: None,
                    owner: None,
                    file: file.into(),
                },
            };
            obstacle.hint()
        };
        let hint = lost("/state/clusters/demo/id");
        let line = "`install -D -m 600 /dev/null /state/clusters/demo/id && echo ID > /state/clusters/demo/id`";
        assert!(hint.contains(&line.replace("ID", found.as_str())), "{hint}");
        // A shell takes the path as one word, whatever the folder is called.
        let hint = lost("/it's mine/id");
        assert!(
            hint.contains(r"/dev/null '/it'\''s mine/id' && echo"),
            "{hint}"
        );
    }

    #[test]
    fn the_schema_of_every_kind_names_the_words() {
        let schema: Value = schemars::schema_for!(Obstacle).into();
        let kinds = schema["oneOf"].as_array().unwrap();
        assert!(kinds.len() > 10);
        for kind in kinds {
            for field in ["kind", "code", "message", "hint"] {
                assert!(!kind["properties"][field].is_null(), "{field} of {kind}");
                let required = kind["required"].as_array().unwrap();
                assert!(required.contains(&field.into()), "{field} of {kind}");
            }
        }
    }
}
