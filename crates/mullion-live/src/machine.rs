//! Machines: made, started, reached, looked at, prepared, released, removed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use mullion_machines::{DriverError, Hosts, MachineWish, NetworkWish, Stop};
use mullion_plan::{
    Applied, Attend, Carried, ClusterUid, Document, ErrorClass, Names, News, Place, Prior, Size,
    StepError, TemplateId, UserCommand,
};
use mullion_render::MachineDocument;
use mullion_rights::Opened;
use mullion_spec::cluster::Group;
use mullion_spec::value::MachineName;
use mullion_spec::words::{Driver, MachineAccess, Os};
use mullion_ssh::{Command, Transport as _, quoted};
use mullion_wire::{Blueprint, Content, Mark, Request, Sha256Digest, UserCommand as WireCommand};
use serde::{Deserialize, Serialize};

use super::talk::{self, Told, lost};
use super::{Adapter, lock, unload};

/// What a machine is made as.
pub(super) struct Making<'a> {
    pub(super) place: &'a Place,
    pub(super) driver: Driver,
    pub(super) template: &'a TemplateId,
    pub(super) os: Os,
    pub(super) size: Size,
    pub(super) address: Ipv4Addr,
    pub(super) network: Ipv4Net,
    pub(super) autostart: bool,
    pub(super) names: &'a Names,
    pub(super) name_servers: &'a [IpAddr],
}

/// What we write down on a machine with its blueprint: whose it is, and which state the plan calls this.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Label {
    pub(super) cluster: String,
    /// The cluster's id. Older versions wrote none: then the name alone says whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<ClusterUid>,
    pub(super) blueprint: Applied,
}

/// Names as drivers take them.
fn hosts(names: &Names) -> Hosts {
    let names = names.0.iter();
    names.map(|(name, at)| (name.as_str(), *at)).collect()
}

pub(super) fn failed(what: String, error: &DriverError) -> StepError {
    let mut failure = StepError::new(error.class(), what)
        .because(error)
        .tail(error.tail().iter().cloned());
    failure.hints.extend(error.hint());
    failure
}

/// An agent that was asked and did not answer.
fn silent_agent(machine: &MachineName, words: Option<String>) -> StepError {
    let mut error = StepError::new(
        ErrorClass::Refused,
        format!("the agent of {machine} does not answer"),
    );
    error.causes.extend(words);
    error
}

impl Adapter<'_> {
    pub(super) fn group(&self, machine: &MachineName) -> Option<&Group> {
        self.cluster().machine(machine).map(|machine| machine.group)
    }

    /// The driver that carries a machine: the file's, or for one that the file no longer has, whichever knows it.
    pub(super) fn driver_of(&self, machine: &MachineName) -> Result<Driver, StepError> {
        if let Some(group) = self.group(machine) {
            return Ok(group.carrier.driver());
        }
        if lock(&self.taken).contains_key(machine) {
            return Ok(Driver::Ssh);
        }
        let name = &self.cluster().name;
        self.drivers.owner(name, machine).ok_or_else(|| {
            StepError::new(ErrorClass::Refused, format!("no driver knows {machine}"))
        })
    }

    /// The driver that has a machine now, which the file may give to another; the file's where none has it.
    fn holder_of(&self, machine: &MachineName) -> Result<Driver, StepError> {
        let owner = self.drivers.owner(&self.cluster().name, machine);
        owner.map_or_else(|| self.driver_of(machine), Ok)
    }

    pub(super) fn make_network(
        &self,
        place: &Place,
        network: Ipv4Net,
        access: MachineAccess,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let wish = NetworkWish {
            cluster: self.cluster().name.clone(),
            network,
            access,
            identity: Some(self.identity()?),
        };
        self.drivers
            .network_maker(place)
            .and_then(|driver| driver.make_network(&wish, attendant))
            .map_err(|error| failed(format!("network {network} could not be made"), &error))
    }

    pub(super) fn remove_network(
        &self,
        place: &Place,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.is_own_network()?;
        self.drivers
            .network_maker(place)
            .and_then(|driver| driver.remove_network(&self.cluster().name, attendant))
            .map_err(|error| failed("the machines' network could not be removed".into(), &error))
    }

    pub(super) fn make_machine(
        &self,
        machine: &MachineName,
        making: &Making<'_>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.starts.made(machine);
        self.forget_ground(machine)?;
        let key = self.login_key()?;
        let hosts = hosts(making.names);
        // First: whoever is cut off in between makes the machine again, and tells it again.
        self.tell_others(machine, &hosts, attendant)?;
        let wish = MachineWish {
            cluster: self.cluster().name.clone(),
            name: machine.clone(),
            template: making.template.clone(),
            template_path: self.templates.path(making.template),
            os: making.os,
            size: making.size,
            address: making.address,
            network: making.network,
            authorized_keys: vec![key.public],
            hosts,
            dns: making.name_servers.to_vec(),
            autostart: making.autostart,
            identity: Some(self.identity()?),
        };
        self.drivers
            .at(making.place, making.driver)
            .and_then(|driver| driver.make(&wish, attendant))
            .map_err(|error| failed(format!("{machine} could not be made"), &error))
    }

    /// Tells the machines that run of one that comes; those that do not run are told when they are started. No cluster
    /// hangs on it, so one that cannot be told keeps nobody from being made.
    ///
    /// All that a run makes are known from its beginning: the first tells of all of them, and the others find it done.
    fn tell_others(
        &self,
        machine: &MachineName,
        hosts: &Hosts,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        // Machines are made side by side, and what is done to one takes turns.
        let mut told = lock(&self.told);
        if told.as_ref() == Some(hosts) {
            return Ok(());
        }
        let cluster = &self.cluster().name;
        let others = self.drivers.others_that_run(cluster, machine);
        let others =
            others.map_err(|error| failed(format!("who has to be told of {machine}"), &error))?;
        let mut has_failed = false;
        for (driver, other) in others {
            if let Err(error) = driver.set_hosts(cluster, &other, hosts) {
                has_failed = true;
                let words = format!("{other} could not be told the name of {machine}: {error}");
                attendant.hear(News::Line(words));
            }
        }
        *told = (!has_failed).then(|| hosts.clone());
        Ok(())
    }

    pub(super) fn start_machine(
        &self,
        machine: &MachineName,
        names: &Names,
        name_servers: &[IpAddr],
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.drop_session(machine);
        self.starts.started_once(machine, || self.said(machine));
        let driver = self.driver_of(machine)?;
        self.claim(machine, driver)?;
        let cluster = &self.cluster().name;
        self.drivers
            .get(driver)
            .and_then(|driver| {
                // Others may have come and gone since it was up, and this computer may ask other servers.
                driver.set_hosts(cluster, machine, &hosts(names))?;
                driver.set_dns(cluster, machine, name_servers)
            })
            .map_err(|error| failed(format!("{machine} could not be started"), &error))?;
        self.switch_on(machine, driver, attendant)
    }

    /// Starts a machine as it is.
    pub(super) fn switch_on(
        &self,
        machine: &MachineName,
        driver: Driver,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.drivers
            .get(driver)
            .and_then(|driver| driver.start(&self.cluster().name, machine, attendant))
            .map_err(|error| failed(format!("{machine} could not be started"), &error))
    }

    /// Writes the cluster's id into the label of a machine that we made, where an older version wrote none. Until then
    /// every cluster of this name takes the machine for its own.
    fn claim(&self, machine: &MachineName, driver: Driver) -> Result<(), StepError> {
        let unlabelled =
            |error: &DriverError| failed(format!("{machine} cannot be labelled"), error);
        let driver = self
            .drivers
            .get(driver)
            .map_err(|error| unlabelled(&error))?;
        if !driver.capabilities().makes_machines {
            return Ok(());
        }
        let identity = self.identity()?;
        driver
            .claim(&self.cluster().name, machine, &identity)
            .map_err(|error| unlabelled(&error))
    }

    /// A machine that we made asks these servers for names, also where the file had others before.
    fn set_dns(&self, machine: &MachineName, servers: &[IpAddr]) -> Result<(), StepError> {
        self.drivers
            .get(self.driver_of(machine)?)
            .and_then(|driver| driver.set_dns(&self.cluster().name, machine, servers))
            .map_err(|error| {
                failed(
                    format!("{machine} could not be told its DNS servers"),
                    &error,
                )
            })
    }

    pub(super) fn set_autostart(
        &self,
        machine: &MachineName,
        autostart: bool,
    ) -> Result<(), StepError> {
        self.is_own(machine)?;
        let driver = self.holder_of(machine)?;
        self.claim(machine, driver)?;
        self.drivers
            .get(driver)
            .and_then(|driver| driver.set_autostart(&self.cluster().name, machine, autostart))
            .map_err(|error| failed(format!("the start of {machine} could not be set"), &error))
    }

    pub(super) fn stop_machine(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.drop_session(machine);
        self.is_own(machine)?;
        let driver = self.holder_of(machine)?;
        self.drivers
            .get(driver)
            .and_then(|driver| {
                driver.stop(&self.cluster().name, machine, Stop::Graceful, attendant)
            })
            .map_err(|error| failed(format!("{machine} could not be stopped"), &error))
    }

    pub(super) fn remove_machine(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.drop_session(machine);
        self.is_own(machine)?;
        let driver = self.holder_of(machine)?;
        self.drivers
            .get(driver)
            .and_then(|driver| driver.remove(&self.cluster().name, machine, attendant))
            .map_err(|error| failed(format!("{machine} could not be removed"), &error))?;
        self.forget_ground(machine)?;
        self.forget_addresses(machine)
    }

    pub(super) fn install_agent(
        &self,
        machine: &MachineName,
        (os, version): (Os, Option<&str>),
        prior: Prior,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let agent = match os {
            Os::Linux => &self.outfit.agent,
            Os::Windows => &self.windows_outfit()?.agent,
        };
        if version.is_some_and(|version| version != agent.version) {
            let words = format!("this program has the agent {} only", agent.version);
            return Err(StepError::new(ErrorClass::Outdated, words));
        }
        self.take(machine)?;
        self.claim(machine, self.driver_of(machine)?)?;
        let session = self.session(machine)?;
        let upload = mullion_ssh::Upload {
            path: talk::agent(os).into(),
            size: agent.bytes.len() as u64,
            sha256: agent.sha256.clone(),
            mode: 0o755,
        };
        session
            .put(&upload, &mut &agent.bytes[..], attendant)
            .map_err(|error| lost(machine.as_str(), &error))?;
        match self.told(machine)? {
            Told::Facts(facts) if facts.agent == agent.version => {
                if self.login_wish(machine).is_some() {
                    // An earlier agent may not have told.
                    self.refuse_foreign(machine, facts.claim.as_ref())
                        .inspect_err(|error| self.let_go(machine, error))?;
                }
                match os {
                    Os::Linux => Ok(()),
                    Os::Windows => self.judge_windows(machine, &facts, prior, attendant),
                }
            }
            Told::Facts(facts) => Err(StepError::new(
                ErrorClass::Refused,
                format!(
                    "the agent of {machine} says that it is {}, and {} was put there",
                    facts.agent, agent.version
                ),
            )),
            Told::Nobody => Err(silent_agent(machine, None)),
            Told::Refused(error) => Err(error),
            Told::Nothing(words) => Err(silent_agent(machine, words)),
        }
    }

    pub(super) fn apply(
        &self,
        machine: &MachineName,
        document: &Document<MachineDocument>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let document =
            self.document(machine, document, attendant, |documents| &documents.machine)?;
        self.is_back(machine)?;
        self.claim(machine, self.driver_of(machine)?)?;
        if let Some(servers) = &document.name_servers {
            self.set_dns(machine, servers)?;
        }
        let blueprint = self.bound(&document, attendant)?;
        self.bring_contents(machine, &blueprint, attendant)?;
        if self.lacks_users_images(machine, &document)? {
            // After everything else, since containerd may be what the blueprint mends. Until they are there, the mark
            // must not say that they are.
            let first = Carried::new(MachineDocument {
                images: BTreeMap::new(),
                ..(*document).clone()
            });
            let first = Applied::of(&first);
            self.apply_document(machine, blueprint.clone(), &first, attendant)?;
            self.bring_users_images(machine, &document.images, attendant)?;
        }
        self.apply_document(machine, blueprint, &Applied::of(&document), attendant)
    }

    /// Lets the agent apply a blueprint, and remember it by that mark.
    fn apply_document(
        &self,
        machine: &MachineName,
        blueprint: Blueprint,
        mark: &Applied,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let label = Label {
            cluster: self.cluster().name.to_string(),
            id: Some(self.identity()?.id),
            blueprint: mark.clone(),
        };
        let mark = serde_json::to_value(&label).map(Mark).map_err(|error| {
            StepError::new(
                ErrorClass::Refused,
                "the blueprint's mark cannot be written",
            )
            .because(&error)
        })?;
        let request = Request::Apply { blueprint, mark };
        let answer = self.ask(machine, &request, attendant)?;
        if answer.restarts_kubelet {
            // One that runs on says nothing new for minutes.
            self.starts.started(machine, self.said(machine));
        }
        self.start_anew_for(machine, answer.reboot, attendant)
    }

    /// Brings what a blueprint names by digest and the machine lacks into its agent's store.
    fn bring_contents(
        &self,
        machine: &MachineName,
        blueprint: &Blueprint,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let is_stored = |file: &mullion_wire::File| matches!(file.content, Content::Stored { .. });
        if !blueprint.files.iter().any(is_stored) {
            return Ok(());
        }
        let request = Request::Missing {
            blueprint: blueprint.clone(),
        };
        self.send_missing(
            machine,
            &request,
            |sha256| self.find_content(sha256),
            attendant,
        )
    }

    /// Asks a machine what it lacks, and brings that into its agent's store.
    pub(super) fn send_missing(
        &self,
        machine: &MachineName,
        request: &Request,
        find: impl Fn(&Sha256Digest) -> Option<Opened>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let answer = self.ask(machine, request, attendant)?;
        let Some((missing, store)) = answer.missing else {
            let words = format!("the agent of {machine} did not say what it lacks");
            return Err(StepError::new(ErrorClass::Refused, words));
        };
        let session = self.session(machine)?;
        for sha256 in missing {
            let file = find(&sha256).ok_or_else(|| {
                let words = format!(
                    "the file with digest {sha256} is neither in the cache nor among yours"
                );
                StepError::new(ErrorClass::Refused, words)
            })?;
            attendant.hear(News::Line(format!("sending {}", file.path().display())));
            session
                .put_file(
                    &file.address(),
                    &sha256,
                    &format!("{store}/{sha256}"),
                    0o600,
                    attendant,
                )
                .map_err(|error| lost(machine.as_str(), &error))?;
        }
        Ok(())
    }

    /// The file of this computer with those bytes.
    fn find_content(&self, sha256: &Sha256Digest) -> Option<Opened> {
        let part = self
            .parts()
            .iter()
            .find(|part| self.store.digest(part).as_ref() == Some(sha256));
        let of_part = part.and_then(|part| self.store.path(part));
        let of_part = of_part.and_then(|path| Opened::by_default(path).ok());
        of_part.or_else(|| {
            let mut files = self.outfit.contents.values();
            let found = files.find(|file| file.content.sha256() == *sha256);
            found.map(|file| file.opened.clone())
        })
    }

    /// Runs commands of the user's, each told those variables.
    pub(super) fn run_commands(
        &self,
        machine: &MachineName,
        (commands, variables): (&[UserCommand], &BTreeMap<String, String>),
        list: &str,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        // Where they were not known when this was planned, the inspection has led to them.
        let rendered = lock(&self.rendered).get(machine).cloned();
        let variables = rendered
            .as_ref()
            .map_or(variables, |found| &found.variables);
        let lines = variables.iter();
        let lines: Vec<_> = lines
            .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
            .collect();
        let told = lines.concat();
        let commands = commands.iter().map(|command| WireCommand {
            run: format!("{told}{}", command.run),
            mark: command.fingerprint.to_string(),
        });
        let request = Request::Run {
            commands: commands.collect(),
            list: list.into(),
        };
        self.ask(machine, &request, attendant)?;
        Ok(())
    }

    pub(super) fn revert(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.ask(machine, &Request::Revert, attendant)?;
        Ok(())
    }

    pub(super) fn remove_agent(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let session = self.session(machine)?;
        let agent = talk::agent(self.os(machine));
        if self.os(machine) == Os::Windows {
            return unload::from_windows(&session, machine.as_str(), agent, attendant);
        }
        // What the agent kept it has removed itself. A driver may keep something of its own beside it, and the machine may
        // carry machines of others.
        let script = r#"rm -f -- "$1" && rmdir --ignore-fail-on-non-empty -- "${1%/*}""#;
        let command = Command::script(script, [agent]);
        session
            .succeed(&command, attendant)
            .map_err(|error| lost(machine.as_str(), &error))
    }

    /// The last lines of a machine's console.
    pub fn console_tail(
        &self,
        machine: &MachineName,
        lines: usize,
    ) -> Result<Vec<String>, StepError> {
        let word = self.driver_of(machine)?;
        let driver = self.drivers.get(word);
        if matches!(&driver, Ok(driver) if !driver.capabilities().console) {
            let words = format!("{machine} was not made by us, and no console of it is kept");
            return Err(StepError::new(ErrorClass::Refused, words)
                .hint(format!("log in to it with `mullion ssh {machine}`")));
        }
        let tail =
            driver.and_then(|driver| driver.console_tail(&self.cluster().name, machine, lines));
        tail.map_err(|error| match error {
            DriverError::NoMachine { .. } => StepError::new(
                error.class(),
                format!("{machine} was not made yet, so it has no console"),
            )
            .hint("make it with `mullion up`"),
            error => failed(format!("the console of {machine} cannot be read"), &error),
        })
    }

    /// A machine that existed before us is as it was.
    pub(super) fn release_machine(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        match self.told(machine)? {
            Told::Nobody => {}
            Told::Facts(facts) => {
                // Another cluster may have taken it since planning.
                self.refuse_foreign(machine, facts.claim.as_ref())?;
                if facts.kubeadm.is_some() {
                    self.save_before_release(machine, &facts, attendant);
                    let step = mullion_wire::Kubeadm::Reset;
                    self.ask(machine, &Request::Kubeadm { step }, attendant)?;
                }
                self.revert(machine, attendant)?;
            }
            // What it remembers is all that is known of how the machine was before.
            Told::Refused(error) => return Err(error),
            Told::Nothing(words) => {
                return Err(silent_agent(machine, words).hint(
                    "see why it does not answer, then run it again: what it keeps in /var/lib/mullion is needed to put \
                     the machine back as it was",
                ));
            }
        }
        self.remove_agent(machine, attendant)?;
        self.give_up(machine)
    }
}
