//! The log of a step that waited in vain, from whoever has it. The step has failed already: nobody is asked for long,
//! and where nobody answers there are no lines.

use std::sync::mpsc::{self, Receiver};
use std::thread::Builder;
use std::time::{Duration, Instant};

use mullion_plan::{Action, Attend, News, Step, StepError};
use mullion_spec::value::MachineName;
use mullion_ssh::Session;
use mullion_wire::{Patience, Request};

use super::talk::{self, lost};
use super::{Adapter, lock};

/// How long all who are asked have together. A login on a busy machine takes seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many lines of a console are told.
const LINES: usize = 20;

/// Which log says why.
#[derive(Debug, PartialEq, Eq)]
enum Log<'a> {
    /// What the machine wrote to its console.
    Console(&'a MachineName),
    /// What its kubelet complains of.
    Kubelet(&'a MachineName),
    /// What the kubelet of any control plane complains of.
    ControlPlane,
}

fn log_of(step: &Step) -> Option<Log<'_>> {
    match (&step.action, &step.machine) {
        (Action::Reach { .. }, Some(machine)) => Some(Log::Console(machine)),
        (
            Action::ApproveCertificates
            | Action::AwaitNodeNetwork { .. }
            | Action::AwaitReady
            | Action::AwaitApi { .. },
            Some(machine),
        ) => Some(Log::Kubelet(machine)),
        (Action::AwaitApi { .. }, None) => Some(Log::ControlPlane),
        _ => None,
    }
}

impl Adapter<'_> {
    /// The last lines of the log that says why a step waited in vain.
    pub(super) fn log_lines(&self, step: &Step) -> Vec<String> {
        match log_of(step) {
            // Refused where none is kept, as of machines of the user's.
            Some(Log::Console(machine)) => self.console_tail(machine, LINES).unwrap_or_default(),
            Some(Log::Kubelet(machine)) => {
                let told = self.kubelet_lines([machine.clone()]);
                told.map(|(_, lines)| lines).unwrap_or_default()
            }
            Some(Log::ControlPlane) => match self.kubelet_lines(self.seats()) {
                Some((machine, mut lines)) => {
                    lines.insert(0, format!("kubelet of {machine}:"));
                    lines
                }
                None => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    /// What the kubelet of the first of these machines that has something to say complains of.
    fn kubelet_lines(
        &self,
        machines: impl IntoIterator<Item = MachineName>,
    ) -> Option<(MachineName, Vec<String>)> {
        let (sender, answers) = mpsc::channel();
        for machine in machines {
            let Ok(ask) = self.kubelet_question(&machine) else {
                continue;
            };
            let sender = sender.clone();
            // Threads that are left to themselves: a connection to a machine that is dead cannot be called off. Where
            // there are none left, there is no log.
            let _ = Builder::new().name("log".into()).spawn(move || {
                let lines = ask().unwrap_or_default();
                // Nobody hears one that comes too late.
                let _ = sender.send((machine, lines));
            });
        }
        drop(sender);
        first(&answers, PATIENCE)
    }

    /// All that is needed to ask a machine's kubelet without this adapter.
    fn kubelet_question(
        &self,
        machine: &MachineName,
    ) -> Result<impl FnOnce() -> Result<Vec<String>, StepError> + Send + use<>, StepError> {
        let known = lock(&self.sessions).get(machine).cloned();
        let open = known.filter(Session::is_open);
        let (ssh, login, os) = (self.ssh.clone(), self.login(machine)?, self.os(machine));
        let place = machine.to_string();
        Ok(move || {
            let until = Until(Instant::now() + PATIENCE);
            let session = match open {
                Some(session) => session,
                None => ssh.connect(&login).map_err(|error| lost(&place, &error))?,
            };
            let told = talk::ask(
                &session,
                (&place, os),
                (&Request::KubeletLog, Patience::USUAL),
                &until,
            )?;
            Ok(told.lines)
        })
    }
}

/// The first answer that has lines; none where nobody gave one in that time.
fn first<T>(answers: &Receiver<(T, Vec<String>)>, patience: Duration) -> Option<(T, Vec<String>)> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let answer = answers.recv_timeout(left).ok()?;
        if !answer.1.is_empty() {
            return Some(answer);
        }
    }
}

/// Nobody listens, and all is called off at that moment.
struct Until(Instant);

impl Attend for Until {
    fn hear(&self, _news: News) {}

    fn is_called_off(&self) -> bool {
        Instant::now() >= self.0
    }
}

#[cfg(test)]
mod tests {
    use mullion_plan::Stage;

    use super::*;

    fn step(machine: Option<&str>, action: Action) -> Step {
        let machine = machine.map(|name| name.parse().unwrap());
        Step::new(
            Stage::Machines,
            machine,
            action,
            "a test".into(),
            Vec::new(),
        )
    }

    #[test]
    fn every_gate_of_a_machine_has_the_log_that_says_why() {
        let cp1: MachineName = "cp1".parse().unwrap();
        let address = "192.0.2.1".to_owned();
        let api = || Action::AwaitApi {
            endpoint: "192.0.2.1:6443".into(),
        };
        let reach = step(Some("cp1"), Action::Reach { address });
        assert_eq!(log_of(&reach), Some(Log::Console(&cp1)));
        let own = step(Some("cp1"), api());
        assert_eq!(log_of(&own), Some(Log::Kubelet(&cp1)));
        assert_eq!(log_of(&step(None, api())), Some(Log::ControlPlane));
        let ready = step(Some("cp1"), Action::AwaitReady);
        assert_eq!(log_of(&ready), Some(Log::Kubelet(&cp1)));
        assert_eq!(log_of(&step(Some("cp1"), mullion_testkit::start())), None);
    }

    #[test]
    fn the_first_who_has_something_to_say_is_heard() {
        let (sender, answers) = mpsc::channel();
        sender.send(("cp1", Vec::new())).unwrap();
        sender.send(("cp2", vec!["no etcd".to_owned()])).unwrap();
        let (who, lines) = first(&answers, PATIENCE).unwrap();
        assert_eq!((who, lines.len()), ("cp2", 1));
    }

    #[test]
    fn nobody_is_waited_for_who_does_not_answer() {
        let (sender, answers) = mpsc::channel::<((), Vec<String>)>();
        let asked = Instant::now();
        assert_eq!(first(&answers, Duration::from_millis(20)), None);
        // Everybody has answered, or could not be asked: then it is known at once.
        drop(sender);
        assert_eq!(first(&answers, PATIENCE), None);
        assert!(asked.elapsed() < PATIENCE);
        assert!(Until(asked).is_called_off());
        assert!(!Until(Instant::now() + PATIENCE).is_called_off());
    }
}
