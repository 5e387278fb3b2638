//! Machines that are started anew: because the plan says so, and because what was changed in them needs it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mullion_plan::{Attend, ErrorClass, News, StepError};
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_ssh::{Command, Probe, ReadTransport, Transport as _, TransportError};
use mullion_wire::Request;

use super::starts::Before;
use super::talk::{Told, lost};
use super::{Adapter, lock};

/// So often a machine is started anew in one run for what was changed in it: what a start brings may want one more, and
/// one that wants ever more is told.
const MOST: u32 = 3;

/// What Windows answers where it is going down already: `ERROR_SHUTDOWN_IN_PROGRESS`, `ERROR_SHUTDOWN_IS_SCHEDULED`.
const GOING_DOWN: [i32; 2] = [1115, 1190];

/// What was asked of machines in this run.
#[derive(Debug, Default)]
pub(super) struct Restarts(Mutex<BTreeMap<MachineName, Asked>>);

#[derive(Debug, Default)]
struct Asked {
    /// The start that it was in when it was asked, while another one is waited for.
    before: Option<String>,
    /// How often it was.
    times: u32,
}

/// Whether a machine that was asked has come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Back {
    Yes,
    /// It is still in the start in which it was asked.
    NotYet,
}

impl Restarts {
    /// Refused where it was asked too often already.
    fn may_ask(&self, machine: &MachineName, why: &str) -> Result<(), StepError> {
        let times = lock(&self.0).get(machine).map_or(0, |asked| asked.times);
        if times < MOST {
            return Ok(());
        }
        let words = format!("{machine} was started anew {MOST} times and wants it again: {why}");
        Err(StepError::new(ErrorClass::Refused, words))
    }

    /// It was asked, in that start.
    fn asked(&self, machine: &MachineName, boot: String) {
        let mut all = lock(&self.0);
        let asked = all.entry(machine.clone()).or_default();
        asked.times += 1;
        asked.before = Some(boot);
    }

    fn is_waited_for(&self, machine: &MachineName) -> bool {
        let all = lock(&self.0);
        all.get(machine).is_some_and(|asked| asked.before.is_some())
    }

    /// It answers, in that start.
    fn answered(&self, machine: &MachineName, boot: &str) -> Back {
        let mut all = lock(&self.0);
        match all.get_mut(machine) {
            Some(asked) if asked.before.as_deref() == Some(boot) => Back::NotYet,
            Some(asked) => {
                asked.before = None;
                Back::Yes
            }
            None => Back::Yes,
        }
    }
}

fn not_yet(words: String) -> StepError {
    StepError::new(ErrorClass::NotYet, words)
}

/// What a system is asked for a start with. Windows takes what keeps it from ending its programs down with it: nobody
/// sits there to be asked.
fn restart_command(os: Os) -> Command {
    match os {
        Os::Linux => Command::new("systemctl").arg("reboot"),
        Os::Windows => Command::new("shutdown").args(["/r", "/f", "/t", "0"]),
    }
}

/// The start that a machine is in: its number, and when it was last shut down, where there is either. Windows does not
/// count on every server, and writes no time where its power goes.
fn start_of(session: &dyn ReadTransport) -> Result<String, TransportError> {
    let number = session.answer(&Probe::BootId)?.out;
    let shutdown = session.answer(&Probe::LastShutdown)?.out;
    Ok(format!("{number}{shutdown}"))
}

/// Whether a system that answers with this status starts anew.
fn goes_down(os: Os, status: i32) -> bool {
    status == 0 || (os == Os::Windows && GOING_DOWN.contains(&status))
}

impl Adapter<'_> {
    /// The machine was started anew, and answers.
    pub(super) fn reboot(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        if self.has_power(machine)? {
            return self.switch_off_and_on(machine, attendant);
        }
        if self.restarts.is_waited_for(machine) {
            return self.is_back(machine);
        }
        self.ask_to_restart(machine, "the plan says so", attendant)
    }

    /// Optional features of Windows are on, and work.
    pub(super) fn enable_features(
        &self,
        machine: &MachineName,
        features: &[String],
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        self.is_back(machine)?;
        let request = Request::Enable {
            features: features.iter().cloned().collect(),
        };
        let answer = self.ask(machine, &request, attendant)?;
        self.start_anew_for(machine, answer.reboot, attendant)
    }

    /// Starts a Windows anew where what we changed in it needs that; the step is to be tried again then. What else the
    /// system waits for is its owner's.
    pub(super) fn start_anew_for(
        &self,
        machine: &MachineName,
        why: Option<String>,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let Some(why) = why.filter(|_| self.os(machine) == Os::Windows) else {
            return Ok(());
        };
        match self.told(machine)? {
            Told::Facts(facts) if facts.reboot_of_system => Ok(()),
            _ => self.ask_to_restart(machine, &why, attendant),
        }
    }

    /// A machine that was asked to start anew has done so: until then nothing else is asked of it.
    pub(super) fn is_back(&self, machine: &MachineName) -> Result<(), StepError> {
        if !self.restarts.is_waited_for(machine) {
            return Ok(());
        }
        let boot = self
            .boot(machine)
            .map_err(|error| not_yet(format!("{machine} starts anew: {}", error.words)))?;
        match self.restarts.answered(machine, &boot) {
            Back::Yes => Ok(()),
            Back::NotYet => {
                self.drop_session(machine);
                Err(not_yet(format!("{machine} has not gone down yet")))
            }
        }
    }

    fn ask_to_restart(
        &self,
        machine: &MachineName,
        why: &str,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let boot = self.boot(machine)?;
        self.restarts.may_ask(machine, why)?;
        if self.has_power(machine)? {
            self.switch_off_and_on(machine, attendant)?;
        } else {
            self.starts.started(machine, self.said_last(machine));
            self.send_restart(machine, attendant)?;
        }
        // Only now: where it could not be asked, the next try asks it again.
        self.restarts.asked(machine, boot);
        attendant.hear(News::Restart);
        Err(not_yet(format!("{machine} starts anew: {why}")))
    }

    /// Asks the system inside. A connection that ends without an answer is what a machine that goes down does.
    fn send_restart(&self, machine: &MachineName, attendant: &dyn Attend) -> Result<(), StepError> {
        let os = self.os(machine);
        let command = restart_command(os);
        let mut said = Vec::new();
        let session = self.session(machine)?;
        let exit = session.run(&command, attendant, &mut |_, line| {
            said.push(line.to_owned());
        });
        self.drop_session(machine);
        match exit {
            Ok(exit) if !goes_down(os, exit.status) => {
                let words = format!(
                    "{machine} was asked to start anew, and its system answered with status {}",
                    exit.status
                );
                Err(StepError::new(ErrorClass::Refused, words).tail(said))
            }
            _ => Ok(()),
        }
    }

    fn has_power(&self, machine: &MachineName) -> Result<bool, StepError> {
        let driver = self.drivers.get(self.driver_of(machine)?);
        Ok(driver.is_ok_and(|driver| driver.capabilities().power))
    }

    fn switch_off_and_on(
        &self,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let before = self.said_last(machine);
        self.stop_machine(machine, attendant)?;
        // Until it was down it may have said more. Where it was the API server's own machine, nobody can tell.
        let before = match self.said_last(machine) {
            Before::Unknown => before,
            later => later,
        };
        self.starts.started(machine, before);
        self.switch_on(machine, self.driver_of(machine)?, attendant)
    }

    /// The start that a machine is in.
    fn boot(&self, machine: &MachineName) -> Result<String, StepError> {
        match start_of(&self.session(machine)?) {
            Ok(start) => Ok(start),
            Err(error) => {
                // The next one who asks finds out whether it is there again.
                self.drop_session(machine);
                Err(lost(machine.as_str(), &error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mullion_ssh::{Exit, Stream};

    use super::*;

    /// A Windows that may not count its starts, and may never have been shut down.
    struct Started {
        number: Option<u32>,
        shutdown: Option<&'static str>,
    }

    impl ReadTransport for Started {
        fn place(&self) -> &'static str {
            "win1"
        }

        fn probe(
            &self,
            probe: &Probe,
            on_line: &mut dyn FnMut(Stream, &str),
        ) -> Result<Exit, TransportError> {
            let line = match probe {
                Probe::BootId => self
                    .number
                    .map(|number| format!("BootId REG_DWORD {number:#x}")),
                _ => self
                    .shutdown
                    .map(|time| format!("ShutdownTime REG_BINARY {time}")),
            };
            let Some(line) = line else {
                on_line(Stream::Err, "ERROR: the system was unable to find it");
                return Ok(Exit { status: 1 });
            };
            on_line(Stream::Out, &line);
            Ok(Exit { status: 0 })
        }

        fn read_file(&self, path: &str, _limit: u64) -> Result<Vec<u8>, TransportError> {
            let (place, path) = (self.place().to_owned(), path.to_owned());
            Err(TransportError::NoFile { place, path })
        }
    }

    #[test]
    fn a_start_is_told_from_the_one_before_by_its_number_or_by_the_shutdown_between() {
        let start = |number, shutdown| start_of(&Started { number, shutdown }).unwrap();
        let first = start(Some(1), Some("0ad901"));
        assert_eq!(first, start(Some(1), Some("0ad901")));
        assert_ne!(first, start(Some(1), Some("0bd901")), "it stands still");
        assert_ne!(first, start(Some(2), Some("0ad901")), "the power went");
        // What is missing is no failure.
        assert_ne!(start(Some(1), None), start(Some(2), None));
        assert_ne!(start(None, Some("0a")), start(None, Some("0b")));
    }

    #[test]
    fn a_machine_is_back_in_another_start_than_the_one_in_which_it_was_asked() {
        let (restarts, machine) = (Restarts::default(), "win1".parse().unwrap());
        assert!(!restarts.is_waited_for(&machine));
        restarts.asked(&machine, "1".into());
        assert!(restarts.is_waited_for(&machine));
        assert_eq!(restarts.answered(&machine, "1"), Back::NotYet);
        assert_eq!(restarts.answered(&machine, "2"), Back::Yes);
        assert!(!restarts.is_waited_for(&machine));
        // And again, in the start that it came back in.
        restarts.asked(&machine, "2".into());
        assert_eq!(restarts.answered(&machine, "2"), Back::NotYet);
        assert_eq!(restarts.answered(&machine, "3"), Back::Yes);
    }

    #[test]
    fn a_windows_that_goes_down_already_was_asked_well() {
        let words = restart_command(Os::Windows).args;
        assert_eq!(words, ["/r", "/f", "/t", "0"]);
        for status in [0, 1115, 1190] {
            assert!(goes_down(Os::Windows, status), "{status}");
        }
        // Access denied, and what no Linux says.
        assert!(!goes_down(Os::Windows, 5));
        assert!(!goes_down(Os::Linux, 1115));
        assert!(goes_down(Os::Linux, 0));
    }

    #[test]
    fn one_that_wants_ever_more_starts_is_told() {
        let (restarts, machine) = (Restarts::default(), "win1".parse().unwrap());
        for start in 0..MOST {
            restarts.may_ask(&machine, "a test").unwrap();
            restarts.asked(&machine, start.to_string());
            restarts.answered(&machine, "other");
        }
        let error = restarts
            .may_ask(&machine, "the page file changes")
            .unwrap_err();
        assert_eq!(error.class, ErrorClass::Refused);
        assert!(error.words.contains("the page file changes"), "{error:?}");
        assert!(!restarts.is_waited_for(&machine));
    }
}
