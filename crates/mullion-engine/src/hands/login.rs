//! Ways into machines: who logs in where, with what, and which connections are open.

use mullion_plan::{Attend, ErrorClass, Observed, StepError};
use mullion_spec::cluster::{Carrier, Login as LoginWish, Machine};
use mullion_spec::value::MachineName;
use mullion_ssh::{Key, Login, ReadTransport as _, Session, Sudo};
use mullion_wire::Request;

use super::machine::failed;
use super::state::{StateError, Taken};
use super::talk::{self, Answer, Told, lost};
use super::{Hands, lock};

impl Hands<'_> {
    pub(super) fn login_key(&self) -> Result<super::LoginKey, StepError> {
        let mut held = lock(&self.login_key);
        if let Some(key) = held.as_ref() {
            return Ok(key.clone());
        }
        let key = self.state.login_key().map_err(|error| {
            StepError::new(ErrorClass::Refused, "there is no key to log in with").because(&error)
        })?;
        *held = Some(key.clone());
        Ok(key)
    }

    pub(super) fn drop_session(&self, machine: &MachineName) {
        lock(&self.sessions).remove(machine);
    }

    /// The address that the file gives a machine.
    pub(super) fn given_address(&self, machine: &MachineName) -> Option<String> {
        let mut machines = self.cluster().machines();
        let wanted = machines.find(|wanted| wanted.name == *machine)?;
        wanted.given_address().map(ToString::to_string)
    }

    /// Writes down that something of ours will lie on a machine of the user's, so that it is found again when the file
    /// no longer has it.
    pub(super) fn take(&self, machine: &MachineName) -> Result<(), StepError> {
        let Some(Carrier::Existing { login, .. }) = self.group(machine).map(|group| &group.carrier)
        else {
            return Ok(());
        };
        let taken = Taken {
            address: self.given_address(machine).unwrap_or_default(),
            login: login.clone(),
        };
        let mut all = lock(&self.taken);
        if all.get(machine) == Some(&taken) {
            return Ok(());
        }
        all.insert(machine.clone(), taken);
        self.state.keep_taken(&all).map_err(|error| unkept(&error))
    }

    /// Writes down that nothing of ours is left on a machine.
    pub(super) fn give_up(&self, machine: &MachineName) -> Result<(), StepError> {
        self.drop_session(machine);
        let mut all = lock(&self.taken);
        match all.remove(machine) {
            None => Ok(()),
            Some(_) => self.state.keep_taken(&all).map_err(|error| unkept(&error)),
        }
    }

    /// The file's machines that exist already.
    pub(super) fn existing(&self) -> impl Iterator<Item = Machine<'_>> {
        let machines = self.cluster().machines();
        machines.filter(|machine| matches!(machine.group.carrier, Carrier::Existing { .. }))
    }

    /// The user's machines of the file on which something of ours may lie, and that did not answer, with their
    /// addresses. Where nobody knows what was taken, it may be any.
    pub fn silent(&self, observed: &Observed) -> std::collections::BTreeMap<MachineName, String> {
        let taken = lock(&self.taken);
        self.existing()
            .filter(|machine| taken.is_empty() || taken.contains_key(&machine.name))
            .filter(|machine| !observed.machines.contains_key(&machine.name))
            .filter_map(|machine| {
                let address = machine.given_address()?.to_string();
                Some((machine.name, address))
            })
            .collect()
    }

    /// How to log in to a machine.
    pub fn login(&self, machine: &MachineName) -> Result<Login, StepError> {
        let group = self.group(machine);
        if let Some(Carrier::Existing { login, .. }) = group.map(|group| &group.carrier) {
            let address = self.given_address(machine).unwrap_or_default();
            return self.existing_login(machine, login, address);
        }
        let taken = lock(&self.taken).get(machine).cloned();
        if let Some(taken) = taken.filter(|_| group.is_none()) {
            return self.existing_login(machine, &taken.login, taken.address);
        }
        let driver = self.driver_of(machine)?;
        let door = self
            .drivers
            .get(driver)
            .and_then(|driver| driver.door(&self.cluster().name, machine))
            .map_err(|error| failed(format!("there is no way in to {machine}"), &error))?;
        let key = self.login_key()?;
        let mut login = Login::new(door.user, door.address, Key::File(key.private)).port(door.port);
        login.host_key = door.host_key;
        Ok(login)
    }

    fn existing_login(
        &self,
        machine: &MachineName,
        wish: &LoginWish,
        address: String,
    ) -> Result<Login, StepError> {
        let key = self
            .outfit
            .keys
            .get(&super::key_name(wish))
            .cloned()
            .ok_or_else(|| {
                let words = format!(
                    "there is no key to log in to {machine} with: {}",
                    super::key_name(wish)
                );
                StepError::new(ErrorClass::Refused, words)
                    .hint("name one with `ssh.key`, or start an SSH agent that holds it")
            })?;
        let mut login = Login::new(&wish.user, address, key.clone())
            .port(wish.port)
            .sudo(Sudo::WhenNotRoot);
        let pinned = wish.host_keys.get(&login.address);
        login.host_key = pinned.or(wish.host_key.as_ref()).cloned();
        if let Some(jump) = &wish.jump {
            let (user, place) = jump.split_once('@').unwrap_or((&wish.user, jump));
            let (host, port) = match place.rsplit_once(':') {
                Some((host, port)) if !host.contains(':') => (host, port.parse().unwrap_or(22)),
                _ => (place, 22),
            };
            let mut through = Login::new(user, host, key).port(port).sudo(Sudo::Never);
            through.host_key = wish.host_keys.get(host).cloned();
            login = login.jump(through);
        }
        Ok(login)
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
        Ok(session)
    }

    /// What a machine's agent knows, asked as often as somebody wants to know.
    pub(super) fn told(&self, machine: &MachineName) -> Result<Told, StepError> {
        let session = self.session(machine)?;
        talk::facts(&session).map_err(|error| lost(machine.as_str(), &error))
    }

    /// Asks a machine's agent. A connection that was lost is not used again.
    pub(super) fn ask(
        &self,
        machine: &MachineName,
        request: &Request,
        attendant: &dyn Attend,
    ) -> Result<Answer, StepError> {
        let session = self.session(machine)?;
        let answer = talk::ask(&session, machine.as_str(), request, attendant);
        if matches!(&answer, Err(error) if error.class == ErrorClass::Unreachable) {
            self.drop_session(machine);
        }
        answer
    }

    pub(super) fn reach(&self, machine: &MachineName) -> Result<(), StepError> {
        let is_made = !matches!(
            self.group(machine).map(|group| &group.carrier),
            Some(Carrier::Existing { .. })
        );
        if is_made {
            let key = self.login_key()?;
            let driver = self.driver_of(machine)?;
            // The state folder may have been lost since the machine was made, and with it the key.
            self.drivers
                .get(driver)
                .and_then(|driver| driver.authorize(&self.cluster().name, machine, &key.public))
                .map_err(|error| failed(format!("{machine} takes no login key"), &error))?;
        }
        let session = self.session(machine)?;
        let alive = session.answer(&mullion_ssh::Probe::Alive);
        match alive {
            Ok(output) if output.exit.is_success() => Ok(()),
            Ok(output) => {
                let words = format!(
                    "a login on {machine} ends with status {}",
                    output.exit.status
                );
                Err(StepError::new(ErrorClass::Refused, words))
            }
            Err(error) => {
                self.drop_session(machine);
                Err(lost(machine.as_str(), &error))
            }
        }
    }
}

fn unkept(error: &StateError) -> StepError {
    let words = "it cannot be written down which machines are used";
    StepError::new(ErrorClass::Refused, words).because(error)
}
