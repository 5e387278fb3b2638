//! Ways into machines: who logs in where, with what, and which connections are open.

use std::collections::BTreeMap;

use mullion_machines::existing::Existing;
use mullion_machines::{Door, DriverError};
use mullion_plan::{Attend, ErrorClass, Observed, StepError};
use mullion_spec::cluster::{Carrier, Cluster, Login as LoginWish, Machine};
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_ssh::{Key, Login, ReadTransport, Session, Shell, Sudo, TransportError};
use mullion_wire::{Mark, Request};

use super::look::Claimant;
use super::machine::failed;
use super::state::{StateError, Taken};
use super::talk::{self, Answer, Told, lost};
use super::{Adapter, GivenKey, LoginKey, lock};

const OTHER_SHELL: &str = r"a login there must come to `cmd.exe`: remove the value `DefaultShell` of `HKLM\SOFTWARE\OpenSSH`, or set it to the path of `cmd.exe`";

fn no_key() -> StepError {
    StepError::new(ErrorClass::Refused, "there is no key to log in with")
}

impl GivenKey {
    /// The key, where it could be read.
    fn key(&self) -> Result<LoginKey, StepError> {
        self.key.clone().map_err(|why| {
            let mut error =
                no_key().hint("`access.sshKey` names the key of machines that are made");
            error.causes.push(format!("{}: {why}", self.place));
            error
        })
    }
}

impl Adapter<'_> {
    pub(super) fn login_key(&self) -> Result<LoginKey, StepError> {
        let mut held = lock(&self.login_key);
        if let Some(key) = held.as_ref() {
            return Ok(key.clone());
        }
        let key = match &self.outfit.given_key {
            Some(given) => given.key()?,
            None => self
                .state
                .login_key()
                .map_err(|error| no_key().because(&error))?,
        };
        *held = Some(key.clone());
        Ok(key)
    }

    /// The key that machines of ours know already. A look makes none: no machine would know it.
    fn known_login_key(&self) -> Result<LoginKey, StepError> {
        if let Some(key) = lock(&self.login_key).clone() {
            return Ok(key);
        }
        if let Some(given) = &self.outfit.given_key {
            return given.key();
        }
        let kept = self.state.find_login_key();
        kept.map_err(|error| no_key().because(&error))?
            .ok_or_else(|| no_key().hint("`mullion up` makes one and brings it to the machines"))
    }

    pub(super) fn drop_session(&self, machine: &MachineName) {
        lock(&self.sessions).remove(machine);
    }

    /// Writes down that something of ours will lie on a machine of the user's, so that it is found again when the file
    /// no longer has it.
    pub(super) fn take(&self, machine: &MachineName) -> Result<(), StepError> {
        let Some(group) = self.group(machine) else {
            return Ok(());
        };
        let Carrier::Existing { login, .. } = &group.carrier else {
            return Ok(());
        };
        let door = self.door(machine)?;
        let taken = Taken {
            address: door.address,
            login: login.clone(),
            os: Some(group.system.os()),
        };
        let mut all = lock(&self.taken);
        if all.get(machine) == Some(&taken) {
            return Ok(());
        }
        all.insert(machine.clone(), taken);
        self.state.keep_taken(&all).map_err(|error| unkept(&error))
    }

    /// Writes down that nothing of ours is on a machine that was refused because another cluster claims it: no cluster
    /// claims a machine before the other one gave it back.
    pub(super) fn let_go(&self, machine: &MachineName, refused: &StepError) {
        if refused.class == ErrorClass::NotOurs {
            // The refusal is what the user must see.
            let _ = self.give_up(machine);
        }
    }

    /// Writes down that nothing of ours is left on a machine.
    pub(super) fn give_up(&self, machine: &MachineName) -> Result<(), StepError> {
        self.drop_session(machine);
        self.forget_addresses(machine)?;
        let mut all = lock(&self.taken);
        match all.remove(machine) {
            None => Ok(()),
            Some(_) => self.state.keep_taken(&all).map_err(|error| unkept(&error)),
        }
    }

    /// The user's machines of the file on which something of ours may lie, and that did not answer, with their
    /// addresses. Where nobody knows what was taken, it may be any.
    pub fn silent(&self, observed: &Observed) -> BTreeMap<MachineName, String> {
        let taken = lock(&self.taken);
        existing(self.cluster())
            .filter(|(machine, _)| taken.is_empty() || taken.contains_key(&machine.name))
            .filter(|(machine, _)| !observed.machines.contains_key(&machine.name))
            .filter_map(|(machine, _)| {
                let address = machine.given_address()?.to_string();
                Some((machine.name, address))
            })
            .collect()
    }

    /// What a machine runs, by the file; of one that the file no longer has, by what was written down when it was taken,
    /// or by the driver that has it.
    pub(super) fn os(&self, machine: &MachineName) -> Os {
        if let Some(group) = self.group(machine) {
            return group.system.os();
        }
        if let Some(taken) = lock(&self.taken).get(machine) {
            return taken.os();
        }
        let driver = self.driver_of(machine);
        let is_stand_in = |driver| mullion_catalog::Catalog::builtin().driver(driver).stand_in;
        if driver.is_ok_and(is_stand_in) {
            Os::Windows
        } else {
            Os::Linux
        }
    }

    /// Where a machine's driver says that one logs in.
    fn door(&self, machine: &MachineName) -> Result<Door, StepError> {
        let driver = self.driver_of(machine)?;
        self.drivers
            .get(driver)
            .and_then(|driver| driver.door(&self.cluster().name, machine))
            .map_err(|error| failed(format!("there is no way in to {machine}"), &error))
    }

    /// What the user says of logging in to a machine of theirs; nothing where it is one that we make.
    pub(super) fn login_wish(&self, machine: &MachineName) -> Option<LoginWish> {
        match self.group(machine).map(|group| &group.carrier) {
            Some(Carrier::Existing { login, .. }) => Some(login.clone()),
            Some(Carrier::Made { .. }) => None,
            None => Some(lock(&self.taken).get(machine)?.login.clone()),
        }
    }

    /// How to log in to a machine.
    pub fn login(&self, machine: &MachineName) -> Result<Login, StepError> {
        let door = self.door(machine)?;
        let mut login = match self.login_wish(machine) {
            None => {
                let key = self.known_login_key()?.private;
                Login::new(door.user, door.address, key)
            }
            Some(wish) => {
                let key = self.user_key(machine, &wish)?;
                let login =
                    Login::new(door.user, door.address, key.clone()).sudo(Sudo::WhenNotRoot);
                match jump(&wish, key) {
                    Some(through) => login.jump(through),
                    None => login,
                }
            }
        };
        login = login.port(door.port);
        login.host_key = door.host_key;
        if self.os(machine) == Os::Windows {
            let agent = talk::agent(Os::Windows).into();
            login = login.shell(Shell::Cmd { agent });
        }
        Ok(login)
    }

    /// The user's key for a machine of theirs.
    fn user_key(&self, machine: &MachineName, wish: &LoginWish) -> Result<Key, StepError> {
        let name = super::key_name(wish);
        self.outfit.keys.get(&name).cloned().ok_or_else(|| {
            let words = format!("there is no key to log in to {machine} with: {name}");
            StepError::new(ErrorClass::Refused, words)
                .hint("name one with `ssh.key`, or start an SSH agent that holds it")
        })
    }

    /// A connection to a machine: the one that is open, or a new one.
    pub(super) fn session(&self, machine: &MachineName) -> Result<Session, StepError> {
        // One that was lost is of no use to whoever tries again.
        let known = lock(&self.sessions).get(machine).cloned();
        if let Some(session) = known.filter(Session::is_open) {
            return Ok(session);
        }
        let session = self
            .ssh
            .connect(&self.login(machine)?)
            .map_err(|error| lost(machine.as_str(), &error))?;
        lock(&self.sessions).insert(machine.clone(), session.clone());
        self.addresses.is_connected(machine);
        Ok(session)
    }

    /// What a machine's agent knows, asked as often as somebody wants to know.
    pub(super) fn told(&self, machine: &MachineName) -> Result<Told, StepError> {
        let session = self.session(machine)?;
        let told = talk::facts(&session, self.os(machine))
            .map_err(|error| lost(machine.as_str(), &error))?;
        if let Told::Facts(facts) = &told {
            self.addresses.told(machine, &facts.addresses);
        }
        Ok(told)
    }

    /// Asks a machine's agent. A connection that was lost is not used again.
    pub(super) fn ask(
        &self,
        machine: &MachineName,
        request: &Request,
        attendant: &dyn Attend,
    ) -> Result<Answer, StepError> {
        let session = self.session(machine)?;
        let answer = talk::ask(
            &session,
            (machine.as_str(), self.os(machine)),
            (request, *lock(&self.patience)),
            attendant,
        );
        if matches!(&answer, Err(error) if error.class == ErrorClass::Unreachable) {
            self.drop_session(machine);
        }
        answer
    }

    /// A login works on the machine, where it was planned to be.
    pub(super) fn reach(&self, machine: &MachineName, address: &str) -> Result<(), StepError> {
        let found = self.door(machine)?.address;
        // A machine of the user's may be known by its name in one place, and by its address in another.
        let is_address = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
        if is_address(address) && is_address(&found) && found != address {
            let words = format!("{machine} is at {found}, and {address} was planned with");
            return Err(StepError::new(ErrorClass::Outdated, words));
        }
        self.log_in(machine)
    }

    /// A login works on the machine.
    pub(super) fn log_in(&self, machine: &MachineName) -> Result<(), StepError> {
        let word = self.driver_of(machine)?;
        let takes_key =
            |error: &DriverError| failed(format!("{machine} takes no login key"), error);
        let driver = self.drivers.get(word).map_err(|error| takes_key(&error))?;
        if driver.capabilities().authorizes {
            let key = self.login_key()?;
            // The state folder may have been lost since the machine was made, and with it the key.
            driver
                .authorize(&self.cluster().name, machine, &key.public)
                .map_err(|error| takes_key(&error))?;
        }
        let made = driver.capabilities().makes_machines;
        self.greet(machine, made, &self.session(machine)?)
    }

    /// Checks that commands run on a machine, and that a machine which we did not make belongs to no other cluster.
    fn greet(
        &self,
        machine: &MachineName,
        made: bool,
        transport: &dyn ReadTransport,
    ) -> Result<(), StepError> {
        let broken = |error: &TransportError| {
            self.drop_session(machine);
            lost(machine.as_str(), error)
        };
        let alive = transport.answer(&mullion_ssh::Probe::Alive);
        let status = alive.map_err(|error| broken(&error))?.exit.status;
        if status != 0 {
            let words = format!("a login on {machine} ends with status {status}");
            let error = StepError::new(ErrorClass::Refused, words);
            return Err(match self.os(machine) {
                Os::Linux => error,
                // PowerShell knows no `ver`.
                Os::Windows => error.hint(OTHER_SHELL),
            });
        }
        if made {
            // The driver's label outside says whose it is.
            return Ok(());
        }
        let told = talk::facts(transport, self.os(machine)).map_err(|error| broken(&error))?;
        match told {
            Told::Facts(facts) => self.refuse_foreign(machine, facts.claim.as_ref()),
            Told::Refused(error) => Err(error),
            // An agent that does not run is replaced, and asked then.
            Told::Nobody | Told::Nothing(_) => Ok(()),
        }
    }

    /// Refuses a machine that another cluster claims: planning may not have seen it.
    pub(super) fn refuse_foreign(
        &self,
        machine: &MachineName,
        claim: Option<&Mark>,
    ) -> Result<(), StepError> {
        let own = self.own_id().map_err(|error| {
            let words = format!("cannot tell whose {machine} is");
            StepError::new(ErrorClass::Refused, words).because(&error)
        })?;
        let words = format!("{machine} belongs to another cluster");
        match self.claimant(claim, own.as_ref()) {
            Ok(Claimant::Ours) => Ok(()),
            Ok(Claimant::Other(name)) => {
                let mut error = StepError::new(ErrorClass::NotOurs, words);
                error.causes.push(match &name {
                    Some(name) => {
                        format!("the agent of {machine} keeps a label of cluster `{name}`")
                    }
                    None => format!(
                        "this version cannot read the label that the agent of {machine} keeps"
                    ),
                });
                Err(error.hint(format!(
                    "take {machine} out of this cluster's file, or out of the other cluster first"
                )))
            }
            Err(trouble) => {
                let error = DriverError::LeftAlone {
                    machine: Some(machine.clone()),
                    trouble,
                };
                Err(failed(words, &error))
            }
        }
    }
}

/// A cluster's machines that exist already: those of the file, and those of which it was written down before the file
/// lost them.
pub(super) fn existing_driver(cluster: &Cluster, taken: &BTreeMap<MachineName, Taken>) -> Existing {
    let door = |login: &LoginWish, address: String| Door {
        port: login.port,
        user: login.user.clone(),
        host_key: {
            let pinned = pinned(login, &address);
            pinned.or(login.host_key.as_ref()).cloned()
        },
        address,
    };
    let left = taken
        .iter()
        .map(|(name, taken)| (name.clone(), door(&taken.login, taken.address.clone())));
    let given = existing(cluster).filter_map(|(machine, login)| {
        let address = machine.given_address()?.to_string();
        Some((machine.name, door(login, address)))
    });
    // What the file says now is said last, and holds.
    Existing::new(cluster.name.clone(), left.chain(given))
}

/// The file's machines that exist already.
fn existing(cluster: &Cluster) -> impl Iterator<Item = (Machine<'_>, &LoginWish)> {
    cluster
        .machines()
        .filter_map(|machine| match &machine.group.carrier {
            Carrier::Existing { login, .. } => Some((machine, login)),
            Carrier::Made { .. } => None,
        })
}

/// The host in between, where the user's machines are reached through one.
fn jump(wish: &LoginWish, key: Key) -> Option<Login> {
    let jump = wish.jump.as_ref()?;
    let user = jump.user.as_ref().unwrap_or(&wish.user);
    let host = jump.address.to_string();
    let mut through = Login::new(user, &host, key)
        .port(jump.port.unwrap_or(22))
        .sudo(Sudo::Never);
    through.host_key = pinned(wish, &host).cloned();
    Some(through)
}

/// The host key that the file gives for an address.
fn pinned<'a>(wish: &'a LoginWish, address: &str) -> Option<&'a String> {
    let mut keys = wish.host_keys.iter();
    // Names are the same in upper and lower case.
    let of_address = keys.find(|(name, _)| name.eq_ignore_ascii_case(address));
    of_address.map(|(_, key)| key)
}

fn unkept(error: &StateError) -> StepError {
    let words = "it cannot be written down which machines are used";
    StepError::new(ErrorClass::Refused, words).because(error)
}

#[cfg(test)]
mod tests {
    use mullion_plan::ClusterUid;
    use mullion_ssh::Command;
    use mullion_testkit::transport::memory::{Answer as Answered, Memory};
    use mullion_wire::{Event, Facts, write_line};

    use super::super::made::Scene;
    use super::*;

    const FILE: &str = "metadata: {name: ours}\nmachines:\n- {name: cp, role: control-plane}\n\
        - {name: old, addresses: [192.0.2.7]}\n";

    fn asks_agent(command: &Command) -> bool {
        command
            .args
            .iter()
            .any(|word| word == talk::agent(Os::Linux))
    }

    /// A machine whose agent tells of that claim.
    fn claimed(claim: Option<serde_json::Value>) -> Memory {
        Memory::new("old1", move |command: &Command, _| {
            if !asks_agent(command) {
                return None;
            }
            let facts = Facts {
                claim: claim.clone().map(Mark),
                ..Facts::default()
            };
            let facts = Box::new(facts);
            let done = Event::Done {
                changed: 0,
                reboot: None,
            };
            let lines = [Event::Facts { facts }, done].map(|event| write_line(&event).unwrap());
            Some(Answered::exit(0).out(lines.concat()))
        })
    }

    #[test]
    fn promise_09_a_machine_that_answers_only_during_the_run_is_asked_whose_it_is() {
        let scene = Scene::new(FILE);
        let adapter = scene.adapter();
        let machine = "old1".parse().unwrap();
        let own = ClusterUid::of(1);
        scene.state().keep_id(&own).unwrap();
        let greet = |claim| adapter.greet(&machine, false, &claimed(claim));
        let label = |cluster: &str, id: u128| {
            let id = ClusterUid::of(id);
            serde_json::json!({ "cluster": cluster, "id": id.as_str() })
        };
        assert_eq!(greet(None), Ok(()), "unclaimed");
        assert_eq!(greet(Some(label("ours", 1))), Ok(()));
        assert_eq!(
            greet(Some(serde_json::json!({ "cluster": "ours" }))),
            Ok(())
        );
        let foreign = [
            (label("theirs", 2), "cluster `theirs`"),
            (
                serde_json::json!({ "cluster": "theirs" }),
                "cluster `theirs`",
            ),
            (label("ours", 2), ClusterUid::of(2).as_str()),
            (
                serde_json::json!({ "claimant": 7 }),
                "cannot read the label",
            ),
        ]
        .map(|(claim, words)| (claim, words.to_owned()));
        for (claim, words) in foreign {
            let error = greet(Some(claim)).unwrap_err();
            assert_eq!(error.class, ErrorClass::NotOurs);
            assert_eq!(error.words, "old1 belongs to another cluster");
            assert!(
                error.causes.iter().any(|cause| cause.contains(&words)),
                "{error:?}"
            );
            assert_eq!(error.hints.len(), 1, "{error:?}");
        }
        // The label of a machine that we made is outside of it.
        let theirs = claimed(Some(label("theirs", 2)));
        assert_eq!(adapter.greet(&machine, true, &theirs), Ok(()));
    }

    #[test]
    fn a_machine_that_left_the_file_is_logged_in_to_as_what_it_ran() {
        let scene = Scene::new(FILE);
        let login =
            r#"{"user":"ada","key":null,"port":2222,"jump":null,"host_key":null,"host_keys":{}}"#;
        let taken = |os| Taken {
            address: "192.0.2.8".into(),
            login: serde_json::from_str(login).unwrap(),
            os: Some(os),
        };
        let machines = [("gone1", Os::Windows), ("gone2", Os::Linux)]
            .map(|(name, os)| (name.parse::<MachineName>().unwrap(), os));
        let all = machines.clone().map(|(name, os)| (name, taken(os)));
        scene.state().keep_taken(&all.into()).unwrap();
        let mut adapter = scene.adapter();
        let key = Key::File("/nonexistent/key".into());
        adapter.outfit.keys.insert("agent".into(), key);
        for (machine, os) in machines {
            assert_eq!(adapter.os(&machine), os);
            let login = adapter.login(&machine).unwrap();
            assert_eq!((login.user.as_str(), login.port), ("ada", 2222));
            let is_windows = matches!(login.shell, Shell::Cmd { .. });
            assert_eq!(is_windows, os == Os::Windows, "{machine}");
        }
    }

    #[test]
    fn a_machine_without_an_agent_or_with_a_broken_one_is_reached() {
        let scene = Scene::new(FILE);
        let machine = "old1".parse().unwrap();
        for status in [mullion_ssh::NO_PROGRAM, 1] {
            let machine_there = Memory::new("old1", move |command: &Command, _| {
                asks_agent(command).then(|| Answered::exit(status))
            });
            assert_eq!(
                scene.adapter().greet(&machine, false, &machine_there),
                Ok(())
            );
        }
    }
}
