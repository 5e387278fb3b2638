//! Whether a machine is fit to be a node: what is judged alike on every system, and who looks when.
//!
//! Linux tells by a script before anything is laid down. Windows tells by its agent: one that is there already is asked
//! when the machine is inspected, a new one as soon as it was brought, and where the machine is not fit it goes again.

use mullion_plan::{Attend, ErrorClass, Prior, StepError};
use mullion_spec::cluster::Group;
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_ssh::{Command, Transport as _};
use mullion_wire::Facts;

use super::look::now;
use super::talk::{Told, lost};
use super::{Adapter, inspect, inspect_windows};

/// Certificates of a machine whose clock is further off are not valid yet, or no longer.
const SKEW_SECONDS: u64 = 60;
/// Less than this and the first images do not fit.
const LEAST_FREE: u64 = 2 << 30;

/// What every machine tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) architecture: String,
    pub(super) cpus: u64,
    /// In bytes.
    pub(super) memory: u64,
    /// In bytes, where images come to lie.
    pub(super) free: u64,
    /// Seconds since 1970.
    pub(super) clock: u64,
    /// What there is of a Kubernetes that no agent of ours put there.
    pub(super) occupant: Option<String>,
}

/// What a machine is measured by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Least {
    pub(super) memory_mib: u64,
    pub(super) cpus: u64,
    /// Where images come to lie, for people: `below /var/lib`.
    pub(super) images: &'static str,
}

impl Body {
    /// Everything that keeps a machine of any system from being a node. `now` is this computer's clock.
    pub(super) fn faults(&self, least: Least, now: u64) -> Vec<String> {
        let mut faults = Vec::new();
        if self.architecture != "x86_64" {
            faults.push(format!(
                "its processor is {}, and programs are built for x86_64",
                self.architecture
            ));
        }
        if let Some(found) = &self.occupant {
            faults.push(format!(
                "Kubernetes is on it already, and not by this program: {found}; take it out of that cluster first"
            ));
        }
        let skew = self.clock.abs_diff(now);
        if skew > SKEW_SECONDS {
            faults.push(format!(
                "its clock is {skew} seconds off; set it, or certificates will not be valid there"
            ));
        }
        if self.free < LEAST_FREE {
            faults.push(format!(
                "{} MiB are free {}, and {} are needed",
                self.free >> 20,
                least.images,
                LEAST_FREE >> 20
            ));
        }
        // The system keeps a part of what was put in.
        if (self.memory >> 20) * 11 / 10 < least.memory_mib {
            faults.push(format!(
                "it has {} MiB of memory, and {} are needed",
                self.memory >> 20,
                least.memory_mib
            ));
        }
        if self.cpus < least.cpus {
            faults.push(format!(
                "it has {} processor, and {} are needed",
                self.cpus, least.cpus
            ));
        }
        faults
    }
}

fn verdict(machine: &MachineName, faults: Vec<String>) -> Result<(), StepError> {
    if faults.is_empty() {
        return Ok(());
    }
    let words = format!("{machine} is not fit to be a node");
    let mut error = StepError::new(ErrorClass::Refused, words);
    error.causes = faults;
    Err(error)
}

impl Adapter<'_> {
    fn wanted_group(&self, machine: &MachineName) -> Result<&Group, StepError> {
        self.group(machine).ok_or_else(|| {
            StepError::new(ErrorClass::Refused, format!("{machine} is not in the file"))
        })
    }

    pub(super) fn inspect(&self, machine: &MachineName) -> Result<(), StepError> {
        if self.os(machine) == Os::Windows {
            return match self.told(machine)? {
                Told::Facts(facts) => {
                    // Planning knows whether it waits for a restart, and sees to it.
                    let prior = Prior::Different;
                    let group = self.wanted_group(machine)?;
                    verdict(
                        machine,
                        inspect_windows::unfit(&facts, self.model, group, prior, now()),
                    )
                }
                // The agent that is brought next is asked.
                Told::Nobody | Told::Refused(_) | Told::Nothing(_) => self.reach(machine),
            };
        }
        let session = self.session(machine)?;
        let none: [&str; 0] = [];
        let output = session
            .output(&Command::script(inspect::SCRIPT, none))
            .map_err(|error| lost(machine.as_str(), &error))?;
        let found = inspect::read(&output.out)?;
        self.grounds.found(machine, found.ground);
        let group = self.wanted_group(machine)?;
        verdict(machine, inspect::unfit(&found, group, now()))
    }

    /// Judges a Windows machine by what the agent says that was just brought. From one that is not fit it goes again,
    /// unless it has done something there before.
    pub(super) fn judge_windows(
        &self,
        machine: &MachineName,
        facts: &Facts,
        prior: Prior,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let group = self.wanted_group(machine)?;
        let faults = inspect_windows::unfit(facts, self.model, group, prior, now());
        if !faults.is_empty()
            && !inspect_windows::is_ours(facts)
            && self.remove_agent(machine, attendant).is_ok()
        {
            self.give_up(machine)?;
        }
        verdict(machine, faults)
    }

    /// What a machine stands on: as it was found, or found now.
    pub(super) fn find_ground(&self, machine: &MachineName) -> Result<(), StepError> {
        if self.grounds.knows(machine) || self.os(machine) == Os::Windows {
            return Ok(());
        }
        self.inspect(machine)
    }
}
