//! Talking with a machine's agent: one request, its events, one answer.

use std::collections::{BTreeMap, BTreeSet};

use mullion_plan::{Attend, ErrorClass, News, StepError, Unattended};
use mullion_spec::words::Os;
use mullion_ssh::{Command, NO_PROGRAM, Probe, ReadTransport, Stream, Transport, TransportError};
use mullion_wire::{
    Blueprint, Difference, Event, Facts, Holding, KubeadmDone, Patience, Request, Secret,
    Sha256Digest, Side, read_event, write_request,
};

/// Where the agent is on a machine.
pub(super) const fn agent(os: Os) -> &'static str {
    match os {
        Os::Linux => mullion_wire::AGENT_ON_LINUX,
        Os::Windows => mullion_wire::AGENT_ON_WINDOWS,
    }
}
/// The status that shells have for a program that was killed.
const KILLED: i32 = 128 + 9;
/// So many bytes of differences are read.
const MOST_DIFFERENCES: usize = 32 << 20;
/// So many lines of output are kept for whoever has to find out why it failed.
const TAIL: usize = 20;

/// What an agent answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) facts: Option<Facts>,
    pub(super) missing: Option<(BTreeSet<Sha256Digest>, String)>,
    pub(super) kubeadm: Option<KubeadmDone>,
    /// What a blueprint would change.
    pub(super) differences: Vec<Difference>,
    /// The cluster's authorities.
    pub(super) authority: BTreeMap<String, Secret>,
    /// The last lines of what it ran or read.
    pub(super) lines: Vec<String>,
    /// Whether kubelet was started, restarted or stopped.
    pub(super) restarts_kubelet: bool,
    /// Why the system wants to be started anew.
    pub(super) reboot: Option<String>,
}

/// The agent's command, with a request on its standard input.
pub(super) fn command(os: Os, request: &Request, patience: Patience) -> Result<Command, StepError> {
    let line = write_request(request, patience).map_err(|error| {
        StepError::new(ErrorClass::Refused, "the request cannot be written").because(&error)
    })?;
    Ok(Command::new(agent(os)).arg("serve").stdin(line))
}

/// Gathers the events of one request.
#[derive(Debug, Default)]
pub(super) struct Ear {
    answer: Answer,
    ended: Option<Result<(), StepError>>,
    tail: Vec<String>,
    unreadable: Option<String>,
    /// So many bytes of differences were told.
    told: usize,
}

impl Ear {
    /// Takes one line of the agent's standard output.
    pub(super) fn hear(&mut self, line: &str, attendant: &dyn Attend) {
        match read_event(line) {
            Ok(event) => self.take(event, attendant),
            Err(error) if self.unreadable.is_none() => {
                self.unreadable = Some(error.to_string());
            }
            Err(_) => {}
        }
    }

    /// Takes one line of the agent's standard error.
    pub(super) fn overhear(&mut self, line: &str) {
        self.keep(line.to_owned());
    }

    fn keep(&mut self, line: String) {
        if self.tail.len() == TAIL {
            self.tail.remove(0);
        }
        self.tail.push(line);
    }

    fn take(&mut self, event: Event, attendant: &dyn Attend) {
        match event {
            Event::Doing { words } => attendant.hear(News::Line(words)),
            Event::Output { line } => {
                attendant.hear(News::Line(line.clone()));
                self.keep(line);
            }
            Event::Changed { what } => {
                // In these words from the first agent on.
                self.answer.restarts_kubelet |=
                    what.starts_with("service kubelet ") && !what.ends_with("enabled");
                attendant.hear(News::Line(format!("changed {what}")));
            }
            Event::Facts { facts } => self.answer.facts = Some(*facts),
            Event::Missing { sha256, store } => self.answer.missing = Some((sha256, store)),
            Event::Differences { differences } => self.take_differences(differences),
            Event::Authority { files } => self.answer.authority = files,
            Event::Kubeadm { done } => self.answer.kubeadm = Some(done),
            Event::Done { reboot, .. } => {
                self.answer.reboot = reboot;
                self.ended = Some(Ok(()));
            }
            Event::Failed {
                words,
                causes,
                hint,
                tail,
            } => {
                let mut error = StepError::new(ErrorClass::Refused, words).tail(tail);
                error.causes = causes;
                error.hints = hint.into_iter().collect();
                self.ended = Some(Err(error));
            }
            // An agent of a newer build may tell more; what matters is how it ends.
            _ => {}
        }
    }

    /// Takes differences, as many as a person may want to read: a machine may tell any number.
    fn take_differences(&mut self, differences: Vec<Difference>) {
        let text = |side: &Option<Side>| match side.as_ref().map(|side| &side.holds) {
            Some(Holding::Text(text) | Holding::State(text)) => text.len(),
            _ => 0,
        };
        for difference in differences {
            let names = difference.name.len() + difference.what.len();
            self.told += names + text(&difference.now) + text(&difference.after) + 64;
            if self.told > MOST_DIFFERENCES {
                let words = "it tells more differences than are read";
                self.unreadable.get_or_insert_with(|| words.into());
                return;
            }
            self.answer.differences.push(difference);
        }
    }

    /// The answer, once the agent has ended with that status.
    pub(super) fn answer(self, machine: &str, status: i32) -> Result<Answer, StepError> {
        match self.ended {
            Some(Ok(())) => Ok(Answer {
                lines: self.tail,
                ..self.answer
            }),
            Some(Err(error)) => Err(error),
            None => {
                let how =
                    format!("the agent of {machine} ended with status {status} and no answer");
                let mut error = if status == KILLED {
                    killed(machine, how)
                } else {
                    StepError::new(ErrorClass::Unreachable, how)
                };
                error.causes.extend(self.unreadable);
                Err(error.tail(self.tail))
            }
        }
    }
}

/// Asks the agent of a machine over a transport that may write.
pub(super) fn ask(
    transport: &dyn Transport,
    (machine, os): (&str, Os),
    (request, patience): (&Request, Patience),
    attendant: &dyn Attend,
) -> Result<Answer, StepError> {
    let mut ear = Ear::default();
    let exit = transport
        .run(
            &command(os, request, patience)?,
            attendant,
            &mut |stream, line| match stream {
                Stream::Out => ear.hear(line, attendant),
                Stream::Err => ear.overhear(line),
            },
        )
        .map_err(|error| lost(machine, &error))?;
    ear.answer(machine, exit.status)
}

/// What came of asking a machine's agent.
pub(super) enum Told {
    /// What it knows.
    Facts(Box<Facts>),
    /// There is no agent.
    Nobody,
    /// There is one, and it cannot tell: what it remembers is damaged, or is of a newer version.
    Refused(StepError),
    /// There is one, and it did not tell: why, where it said so.
    Nothing(Option<String>),
}

/// What a machine's agent knows.
pub(super) fn facts(transport: &dyn ReadTransport, os: Os) -> Result<Told, TransportError> {
    let mut ear = Ear::default();
    let probe = Probe::AgentFacts {
        program: agent(os).into(),
    };
    let exit = transport.probe(&probe, &mut |stream, line| match stream {
        Stream::Out => ear.hear(line, &Unattended),
        Stream::Err => ear.overhear(line),
    })?;
    Ok(match (ear.answer.facts.take(), ear.ended.take()) {
        (Some(facts), _) => Told::Facts(Box::new(facts)),
        (None, _) if exit.status == NO_PROGRAM => Told::Nobody,
        (None, Some(Err(error))) => Told::Refused(error),
        // It told what it knows, in a form that only a newer version reads.
        (None, Some(Ok(()))) => Told::Refused(unread(ear.unreadable.take())),
        (None, _) => Told::Nothing(ear.answer("it", exit.status).err().map(|error| error.words)),
    })
}

/// How a machine differs from a blueprint, as its agent finds it.
pub(super) fn compare(
    transport: &dyn ReadTransport,
    (machine, os): (&str, Os),
    blueprint: Blueprint,
) -> Result<Vec<Difference>, StepError> {
    let mut ear = Ear::default();
    let probe = Probe::AgentCompare {
        program: agent(os).into(),
        blueprint: Box::new(blueprint),
    };
    let exit = transport
        .probe(&probe, &mut |stream, line| match stream {
            Stream::Out => ear.hear(line, &Unattended),
            Stream::Err => ear.overhear(line),
        })
        .map_err(|error| lost(machine, &error))?;
    if let Some(why) = ear.unreadable.take() {
        let words = format!("what {machine} tells of its differences cannot be read");
        let mut error = StepError::new(ErrorClass::Refused, words);
        error.causes.push(why);
        return Err(error);
    }
    Ok(ear.answer(machine, exit.status)?.differences)
}

/// An agent that came to its end and told nothing that this version reads.
fn unread(why: Option<String>) -> StepError {
    let words = "this version cannot read what it tells";
    let mut error = StepError::new(ErrorClass::Refused, words)
        .hint("use the version of Mullion that brought it, or a newer one; nothing was changed");
    error.causes.extend(why);
    error
}

/// Something that was killed on a machine: the agent itself, so nobody there can tell why.
fn killed(machine: &str, how: String) -> StepError {
    let words = format!(
        "what ran on {machine} was ended by signal 9, as the system does where memory runs out"
    );
    let mut error = StepError::new(ErrorClass::Unreachable, words).hint(format!(
        "if nobody killed it, give {machine} more memory (`memory` of its group in the cluster file, where the file \
         makes the machine), then run `mullion up` again"
    ));
    error.causes.push(how);
    error
}

/// A connection that failed, as a step's failure.
pub(super) fn lost(machine: &str, error: &TransportError) -> StepError {
    let failure = match error {
        TransportError::Signal { signal, .. } if signal == "KILL" => {
            let mut failure = killed(machine, error.to_string());
            failure.class = error.step_class();
            failure
        }
        _ => {
            let words = format!("{machine} could not be asked");
            StepError::new(error.step_class(), words).because(error)
        }
    };
    let mut failure = failure.tail(error.tail().iter().cloned());
    failure.hints.extend(error.hint());
    failure
}

#[cfg(test)]
mod tests {
    use mullion_plan::Unattended;

    use super::*;

    fn line(event: &Event) -> String {
        mullion_wire::write_line(event).unwrap()
    }

    #[test]
    fn a_stream_that_ends_without_a_word_is_a_failure_whatever_the_status() {
        let mut ear = Ear::default();
        ear.hear(&line(&Event::Doing { words: "x".into() }), &Unattended);
        ear.overhear("killed");
        let error = ear.answer("lin1", 0).unwrap_err();
        assert_eq!(error.class, ErrorClass::Unreachable);
        assert_eq!(error.tail, ["killed"]);
    }

    #[test]
    fn an_agent_that_was_killed_is_told_with_memory_and_the_way_out() {
        let by_shell = Ear::default().answer("lin1", KILLED).unwrap_err();
        let by_signal = lost(
            "lin1",
            &TransportError::Signal {
                place: "192.0.2.1:22".into(),
                command: "mullion-agent serve".into(),
                signal: "KILL".into(),
            },
        );
        for error in [by_shell, by_signal] {
            let words =
                "what ran on lin1 was ended by signal 9, as the system does where memory runs out";
            assert_eq!(error.words, words);
            assert_eq!(error.causes.len(), 1, "{error:?}");
            assert!(
                error.hints[0].contains("give lin1 more memory"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_failure_of_the_agent_keeps_its_words_causes_and_tail() {
        let mut ear = Ear::default();
        let failed = Event::Failed {
            words: "kubeadm join failed".into(),
            causes: vec!["status 1".into()],
            hint: Some("look".into()),
            tail: vec!["last".into()],
        };
        ear.hear(&line(&failed), &Unattended);
        let error = ear.answer("lin1", 1).unwrap_err();
        assert_eq!(error.words, "kubeadm join failed");
        assert_eq!(
            (error.causes.len(), error.hints.len(), error.tail.len()),
            (1, 1, 1)
        );
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut ear = Ear::default();
        for number in 0..100 {
            ear.overhear(&number.to_string());
        }
        let error = ear.answer("lin1", 1).unwrap_err();
        assert_eq!(error.tail.len(), TAIL);
        assert_eq!(error.tail.last().unwrap(), "99");
    }
}
