//! Holds drivers to their contract: one suite for all.
//!
//! What a driver says that it cannot do is held to another promise: it is refused, and nothing changes.

use crate::ports::{Breach, require};
use ipnet::IpNet;
use mullion_plan::{Attend, ClusterUid, Identity, News, Power, Trouble, Unattended};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::{MachineAccess, Word as _};
use mullion_wire::error_chain;

use mullion_machines::DriverError;
use mullion_machines::Found;
use mullion_machines::{Driver, Stop};
use mullion_machines::{Hosts, MachineWish, NetworkWish};

/// What a driver is tried with.
#[derive(Debug, Clone)]
pub struct Trial {
    /// A network that nobody has, for a cluster that is not there.
    pub network: NetworkWish,
    /// Another network that nobody has, for another cluster.
    pub other: NetworkWish,
    /// Two machines of the first cluster. For a driver that does not make machines: two that it knows.
    pub machines: [MachineWish; 2],
}

/// What becomes of a machine's label between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoil {
    /// It is damaged.
    Damaged,
    /// A newer version wrote it.
    Newer,
    /// It is as it was before.
    Restored,
}

/// Spoils the label of a machine, from outside of the driver, or restores it.
pub type Spoiler<'a> = &'a (dyn Fn(&ClusterName, &MachineName, Spoil) + Sync);

/// A driver that remembers nothing: as a new process would have it.
pub type Factory<'a> = &'a (dyn Fn() -> Box<dyn Driver> + Sync);

/// Tries everything that the contract promises, and ends in the world it began in.
///
/// `spoiler` is for drivers that make machines: others have no label of their own.
pub fn conforms(factory: Factory<'_>, spoiler: Spoiler<'_>, trial: &Trial) -> Result<(), Breach> {
    let capabilities = factory().capabilities();
    if capabilities.makes_machines && capabilities.networks && capabilities.power {
        makes(factory, spoiler, trial)
    } else {
        reaches(factory, trial)
    }
}

/// The promises of a driver that makes machines.
fn makes(factory: Factory<'_>, spoiler: Spoiler<'_>, trial: &Trial) -> Result<(), Breach> {
    let suite = Suite { factory, trial };
    let before = suite.find()?;
    require(
        before.network.is_none() && before.machines.is_empty(),
        "the suite begins in an empty world",
        || format!("{before:?}"),
    )?;
    suite.nothing_is_built_on_nothing(&before)?;
    suite.networks()?;
    suite.making_is_called_off()?;
    suite.making()?;
    suite.starting_is_called_off()?;
    suite.power()?;
    suite.inside()?;
    suite.spoilt(spoiler)?;
    suite.of_others()?;
    suite.side_by_side()?;
    suite.removing()?;
    require(
        suite.find()? == before,
        "removing everything leaves the world as it was",
        || "what is found differs from the beginning".into(),
    )
}

/// Calls off whatever it attends, from the beginning.
struct CallsOff;

impl Attend for CallsOff {
    fn hear(&self, _news: News) {}
    fn is_called_off(&self) -> bool {
        true
    }
}

struct Suite<'a> {
    factory: Factory<'a>,
    trial: &'a Trial,
}

impl Suite<'_> {
    fn driver(&self) -> Box<dyn Driver> {
        (self.factory)()
    }

    fn cluster(&self) -> &ClusterName {
        &self.trial.network.cluster
    }

    fn names(&self) -> [&MachineName; 2] {
        [&self.trial.machines[0].name, &self.trial.machines[1].name]
    }

    fn find(&self) -> Result<Found, Breach> {
        let look = || {
            let mut found = self
                .driver()
                .find(self.cluster())
                .map_err(told("a driver can look"))?;
            // Others may use the same computer meanwhile: their things come and go.
            let networks =
                [&self.trial.network, &self.trial.other].map(|wish| wish.network.trunc());
            let is_tried = |network: &IpNet| networks.iter().any(|own| *network == (*own).into());
            found.foreign.retain(is_tried);
            let clusters = [self.cluster(), &self.trial.other.cluster];
            found.clusters.retain(|cluster| clusters.contains(&cluster));
            Ok::<_, Breach>(found)
        };
        let found = look()?;
        require(found == look()?, "looking changes nothing", || {
            "two looks in a row differ".into()
        })?;
        Ok(found)
    }

    fn nothing_is_built_on_nothing(&self, before: &Found) -> Result<(), Breach> {
        let driver = self.driver();
        let (cluster, [one, _]) = (self.cluster(), self.names());
        let refused = [
            ("make", driver.make(&self.trial.machines[0], &Unattended)),
            ("start", driver.start(cluster, one, &Unattended)),
            (
                "stop",
                driver.stop(cluster, one, Stop::Graceful, &Unattended),
            ),
            (
                "authorize",
                driver.authorize(cluster, one, "ssh-ed25519 AAAA"),
            ),
            (
                "set_hosts",
                driver.set_hosts(cluster, one, &Hosts::default()),
            ),
            ("set_dns", driver.set_dns(cluster, one, &[])),
            ("door", driver.door(cluster, one).map(|_| ())),
        ];
        for (verb, result) in refused {
            require(
                result.is_err(),
                "a verb whose base is missing is refused",
                || verb.into(),
            )?;
        }
        driver
            .remove(cluster, one, &Unattended)
            .map_err(told("removing what is not there is success"))?;
        driver
            .remove_network(cluster, &Unattended)
            .map_err(told("removing what is not there is success"))?;
        require(
            self.find()? == *before,
            "a refused verb has no effect",
            || "what is found differs".into(),
        )
    }

    fn networks(&self) -> Result<(), Breach> {
        let wish = &self.trial.network;
        for _ in 0..2 {
            self.driver()
                .make_network(wish, &Unattended)
                .map_err(told("making a network succeeds, and succeeds again"))?;
        }
        let found = self.find()?;
        require(
            found.network == Some(wish.network.trunc()) && found.clusters.contains(&wish.cluster),
            "a network is found by its label",
            || format!("{found:?}"),
        )?;
        require(
            found.network_lacks.is_none(),
            "a network that was made is whole",
            || format!("{found:?}"),
        )?;
        // The last one is the one that the trial wishes for.
        for access in MachineAccess::ALL.iter().rev().copied() {
            let changed = NetworkWish {
                access,
                ..wish.clone()
            };
            self.driver()
                .make_network(&changed, &Unattended)
                .map_err(told("a network is opened and closed in place"))?;
            let found = self.find()?;
            require(
                found.network_access == Some(access) && found.network_lacks.is_none(),
                "a network tells from where its machines can be reached",
                || format!("{found:?}"),
            )?;
        }
        let other = NetworkWish {
            network: self.trial.other.network,
            ..wish.clone()
        };
        let refused = self.driver().make_network(&other, &Unattended);
        require(
            matches!(refused, Err(DriverError::OtherNetwork { .. })),
            "a cluster has one network",
            || format!("{refused:?}"),
        )?;
        let taken = NetworkWish {
            network: wish.network,
            ..self.trial.other.clone()
        };
        let refused = self.driver().make_network(&taken, &Unattended);
        require(
            matches!(refused, Err(DriverError::Taken { .. })),
            "addresses that somebody has are refused",
            || format!("{refused:?}"),
        )
    }

    /// Nothing is left of it, or what is known as not whole; [`Self::making`] makes it anew.
    fn making_is_called_off(&self) -> Result<(), Breach> {
        for wish in &self.trial.machines {
            is_called_off("make", &self.driver().make(wish, &CallsOff))?;
            let found = self.find()?;
            let seen = found.machines.get(&wish.name);
            require(
                seen.is_none_or(|seen| !seen.whole),
                "a machine whose making was called off is not whole",
                || format!("{seen:?}"),
            )?;
            let refused = self.driver().start(&wish.cluster, &wish.name, &Unattended);
            require(
                matches!(
                    refused,
                    Err(DriverError::NoMachine { .. } | DriverError::NotWhole { .. })
                ),
                "a machine that is not whole cannot be started",
                || format!("{refused:?}"),
            )?;
        }
        Ok(())
    }

    /// The machines are there, and do not run; [`Self::power`] starts them.
    fn starting_is_called_off(&self) -> Result<(), Breach> {
        for name in self.names() {
            let result = self.driver().start(self.cluster(), name, &CallsOff);
            is_called_off("start", &result)?;
            let found = self.find()?;
            let seen = found.machines.get(name);
            require(
                seen.is_some_and(|seen| seen.whole && seen.power != Power::On),
                "a machine whose start was called off is there, and does not run",
                || format!("{seen:?}"),
            )?;
        }
        Ok(())
    }

    fn making(&self) -> Result<(), Breach> {
        self.at_once("machines can be made at once, and again", |driver, wish| {
            driver.make(wish, &Unattended)?;
            driver.make(wish, &Unattended)
        })?;
        let found = self.find()?;
        for wish in &self.trial.machines {
            let seen = found.machines.get(&wish.name);
            let is_as_made = seen.is_some_and(|seen| {
                seen.ours
                    && seen.made
                    && seen.whole
                    && seen.power == Power::New
                    && seen.size == Some(wish.size)
                    && seen.template.as_ref() == Some(&wish.template)
                    && seen.address == Some(wish.address.into())
            });
            require(
                is_as_made,
                "a machine is found as it was made, and has never run",
                || format!("{}: {seen:?}", wish.name),
            )?;
            let mut other = wish.clone();
            other.size.cpus += 1;
            let refused = self.driver().make(&other, &Unattended);
            require(
                matches!(refused, Err(DriverError::Different { .. })),
                "another machine of the same name is refused",
                || format!("{refused:?}"),
            )?;
        }
        let refused = self.driver().remove_network(self.cluster(), &Unattended);
        require(
            matches!(refused, Err(DriverError::NetworkInUse(_))),
            "a network stays while machines are there",
            || format!("{refused:?}"),
        )?;
        require(
            self.find()? == found,
            "a refused verb has no effect",
            || "what is found differs".into(),
        )
    }

    fn power(&self) -> Result<(), Breach> {
        let [one, two] = self.names();
        self.at_once(
            "machines can be started at once, and again",
            |driver, wish| {
                driver.start(&wish.cluster, &wish.name, &Unattended)?;
                driver.start(&wish.cluster, &wish.name, &Unattended)
            },
        )?;
        self.expect([Power::On, Power::On])?;
        for (name, how) in [(one, Stop::Graceful), (two, Stop::AtOnce)] {
            for _ in 0..2 {
                self.driver()
                    .stop(self.cluster(), name, how, &Unattended)
                    .map_err(told("stopping succeeds, and succeeds again"))?;
            }
        }
        self.expect([Power::Off, Power::Off])?;
        self.driver()
            .start(self.cluster(), one, &Unattended)
            .map_err(told("a stopped machine starts again"))?;
        self.expect([Power::On, Power::Off])
    }

    fn expect(&self, powers: [Power; 2]) -> Result<(), Breach> {
        let found = self.find()?;
        let seen = self
            .names()
            .map(|name| found.machines.get(name).map(|seen| seen.power));
        require(
            seen == powers.map(Some),
            "a machine is found as it runs",
            || format!("{seen:?} instead of {powers:?}"),
        )
    }

    /// One machine runs, and one does not.
    fn inside(&self) -> Result<(), Breach> {
        let before = self.find()?;
        for wish in &self.trial.machines {
            let driver = self.driver();
            for _ in 0..2 {
                driver
                    .authorize(&wish.cluster, &wish.name, "ssh-ed25519 AAAAtest somebody")
                    .map_err(told("a key can be put into a machine, and again"))?;
                driver
                    .set_hosts(&wish.cluster, &wish.name, &wish.hosts)
                    .map_err(told("names can be put into a machine, and again"))?;
            }
            let door = driver
                .door(&wish.cluster, &wish.name)
                .map_err(told("a machine has a door"))?;
            require(
                door.address == wish.address.to_string() && door.host_key.is_some(),
                "the door of a machine that was made has its address and its host key",
                || format!("{door:?}"),
            )?;
        }
        require(
            self.find()? == before,
            "a machine is the same with other keys and names",
            || "what is found differs".into(),
        )
    }

    /// One machine runs, and one does not. Neither is touched while its label is spoilt.
    fn spoilt(&self, spoiler: Spoiler<'_>) -> Result<(), Breach> {
        let before = self.find()?;
        for wish in &self.trial.machines {
            let (cluster, name) = (&wish.cluster, &wish.name);
            for spoil in [Spoil::Damaged, Spoil::Newer] {
                spoiler(cluster, name, spoil);
                let found = self.find()?;
                let seen = found.machines.get(name);
                let is_told = seen.is_some_and(|seen| match seen.trouble {
                    Some(Trouble::Unreadable { .. }) => spoil == Spoil::Damaged,
                    Some(Trouble::Newer { .. }) => spoil == Spoil::Newer,
                    _ => false,
                });
                require(
                    is_told && seen.is_some_and(|seen| !seen.ours && seen.made),
                    "a label that cannot be read is told, and no reason to take a machine for ours",
                    || format!("{spoil:?}: {seen:?}"),
                )?;
                let driver = self.driver();
                let refused = [
                    ("make", driver.make(wish, &Unattended)),
                    ("start", driver.start(cluster, name, &Unattended)),
                    (
                        "stop",
                        driver.stop(cluster, name, Stop::AtOnce, &Unattended),
                    ),
                    ("remove", driver.remove(cluster, name, &Unattended)),
                    (
                        "authorize",
                        driver.authorize(cluster, name, "ssh-ed25519 AAAA"),
                    ),
                    (
                        "set_hosts",
                        driver.set_hosts(cluster, name, &Hosts::default()),
                    ),
                    ("set_dns", driver.set_dns(cluster, name, &[])),
                    ("door", driver.door(cluster, name).map(|_| ())),
                ];
                for (verb, result) in refused {
                    require(
                        matches!(result, Err(DriverError::LeftAlone { .. })),
                        "what cannot be told whose it is, is left alone",
                        || format!("{verb}, {spoil:?}: {result:?}"),
                    )?;
                }
                let refused = driver.remove_network(cluster, &Unattended);
                require(
                    matches!(refused, Err(DriverError::NetworkInUse(_))),
                    "a network stays while a machine is there, whosever it is",
                    || format!("{refused:?}"),
                )?;
            }
            spoiler(cluster, name, Spoil::Restored);
            require(
                self.find()? == before,
                "a refused verb has no effect",
                || format!("{name} differs after its label was restored"),
            )?;
        }
        Ok(())
    }

    /// The same names, for another cluster.
    fn of_others(&self) -> Result<(), Breach> {
        let before = self.find()?;
        let identity = Identity {
            id: ClusterUid::of(0x000b_ad1d),
            owner: 0,
        };
        let network = NetworkWish {
            identity: Some(identity.clone()),
            ..self.trial.network.clone()
        };
        let refused = self.driver().make_network(&network, &Unattended);
        require(
            matches!(
                refused,
                Err(DriverError::LeftAlone {
                    trouble: Trouble::OtherCluster { .. },
                    ..
                })
            ),
            "the network of another cluster of the same name is refused",
            || format!("{refused:?}"),
        )?;
        for wish in &self.trial.machines {
            let found = before.machines.get(&wish.name);
            require(
                found.is_some_and(|found| found.identity == wish.identity),
                "a machine is found with the id of its cluster",
                || format!("{found:?}"),
            )?;
            if let Some(own) = &wish.identity {
                self.driver()
                    .claim(self.cluster(), &wish.name, own)
                    .map_err(told("a machine can be claimed twice"))?;
            }
            let wish = MachineWish {
                identity: Some(identity.clone()),
                ..wish.clone()
            };
            let refused = self.driver().make(&wish, &Unattended);
            require(
                matches!(
                    refused,
                    Err(DriverError::Different {
                        what: "cluster",
                        ..
                    })
                ),
                "a machine of another cluster of the same name is refused",
                || format!("{refused:?}"),
            )?;
            let refused = self.driver().claim(self.cluster(), &wish.name, &identity);
            require(
                matches!(
                    refused,
                    Err(DriverError::Different {
                        what: "cluster",
                        ..
                    })
                ),
                "the id of a machine is never replaced",
                || format!("{refused:?}"),
            )?;
        }
        require(
            self.find()? == before,
            "a refused verb has no effect",
            || "what is found differs".into(),
        )
    }

    fn side_by_side(&self) -> Result<(), Breach> {
        let other = &self.trial.other;
        let before = self.find()?;
        self.driver()
            .make_network(other, &Unattended)
            .map_err(told("clusters have networks side by side"))?;
        let seen = self
            .driver()
            .find(&other.cluster)
            .map_err(told("a driver can look"))?;
        require(
            seen.machines.is_empty()
                && seen.network == Some(other.network.trunc())
                && seen
                    .foreign
                    .contains(&self.trial.network.network.trunc().into())
                && seen.clusters.contains(self.cluster()),
            "a cluster sees its own things, and others' networks as foreign",
            || format!("{seen:?}"),
        )?;
        self.driver()
            .remove_network(&other.cluster, &Unattended)
            .map_err(told("a network can be removed"))?;
        require(
            self.find()? == before,
            "one cluster's network is nothing to another",
            || "what is found differs".into(),
        )
    }

    /// One machine runs, and one does not.
    fn removing(&self) -> Result<(), Breach> {
        self.at_once(
            "machines can be removed at once, and again",
            |driver, wish| {
                driver.remove(&wish.cluster, &wish.name, &Unattended)?;
                driver.remove(&wish.cluster, &wish.name, &Unattended)
            },
        )?;
        for _ in 0..2 {
            self.driver()
                .remove_network(self.cluster(), &Unattended)
                .map_err(told("a network can be removed, and again"))?;
        }
        Ok(())
    }

    /// Does something with both machines at once, each with a driver of its own.
    fn at_once(
        &self,
        contract: &'static str,
        verb: impl Fn(&dyn Driver, &MachineWish) -> Result<(), DriverError> + Sync,
    ) -> Result<(), Breach> {
        let results = std::thread::scope(|scope| {
            let threads = self
                .trial
                .machines
                .each_ref()
                .map(|wish| scope.spawn(|| verb(self.driver().as_ref(), wish)));
            threads.map(std::thread::ScopedJoinHandle::join)
        });
        for result in results {
            match result {
                Ok(result) => result.map_err(told(contract))?,
                Err(_) => {
                    return Err(Breach {
                        contract,
                        words: "it panicked".into(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// The promises of a driver for machines that exist already.
fn reaches(factory: Factory<'_>, trial: &Trial) -> Result<(), Breach> {
    let driver = factory();
    let cluster = &trial.network.cluster;
    let find = || {
        let found = factory().find(cluster);
        found.map_err(told("a driver can look"))
    };
    let before = find()?;
    for wish in &trial.machines {
        let seen = before.machines.get(&wish.name);
        require(
            seen.is_some_and(|seen| !seen.made && seen.whole && seen.power == Power::On),
            "a machine that exists already is there, and was not made",
            || format!("{}: {seen:?}", wish.name),
        )?;
        driver
            .door(cluster, &wish.name)
            .map_err(told("a machine has a door"))?;
        let refused = [
            (
                "make_network",
                driver.make_network(&trial.network, &Unattended),
            ),
            (
                "remove_network",
                driver.remove_network(cluster, &Unattended),
            ),
            ("make", driver.make(wish, &Unattended)),
            ("start", driver.start(cluster, &wish.name, &Unattended)),
            (
                "stop",
                driver.stop(cluster, &wish.name, Stop::AtOnce, &Unattended),
            ),
            ("remove", driver.remove(cluster, &wish.name, &Unattended)),
        ];
        for (verb, result) in refused {
            require(
                matches!(result, Err(DriverError::Cannot(_))),
                "what a driver cannot do is refused",
                || format!("{verb}: {result:?}"),
            )?;
        }
    }
    let others = driver
        .find(&trial.other.cluster)
        .map_err(told("a driver can look"))?;
    require(
        others.machines.is_empty(),
        "another cluster has none of these machines",
        || format!("{others:?}"),
    )?;
    require(find()? == before, "a refused verb has no effect", || {
        "what is found differs".into()
    })
}

fn is_called_off(verb: &str, result: &Result<(), DriverError>) -> Result<(), Breach> {
    require(
        matches!(result, Err(DriverError::CalledOff)),
        "a verb that is called off ends, and says so",
        || format!("{verb}: {result:?}"),
    )
}

fn told(contract: &'static str) -> impl Fn(DriverError) -> Breach {
    move |error| {
        let mut words = error_chain(&error).join(": ");
        for line in error.tail() {
            words.push_str("\n  ");
            words.push_str(line);
        }
        Breach { contract, words }
    }
}
