//! Whether a machine is fit to be a node: what is judged alike on every system, and who looks when.
//!
//! Linux tells by a script before anything is laid down. Windows tells by its agent: one that is there already is asked
//! when the machine is inspected, a new one as soon as it was brought, and where the machine is not fit it goes again.

use mullion_plan::{Attend, ErrorClass, ExpectedProfile, Inspected, Prior, StepError};
use mullion_spec::cluster::Group;
use mullion_spec::value::MachineName;
use mullion_spec::words::Os;
use mullion_ssh::{Probe, ReadTransport as _};
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

    /// Judges a machine, and holds it to what its documents were rendered for. Where nobody knew that, its documents are
    /// rendered now.
    pub(super) fn inspect(
        &self,
        machine: &MachineName,
        os: Os,
        profile: &ExpectedProfile,
        attendant: &dyn Attend,
    ) -> Result<(), StepError> {
        let found = match os {
            Os::Linux => self.inspect_linux(machine)?,
            Os::Windows => self.inspect_windows(machine)?,
        };
        match profile {
            ExpectedProfile::Any => Ok(()),
            ExpectedProfile::Known(expected) if found.ground == Some(*expected) => Ok(()),
            ExpectedProfile::Known(expected) if self.is_alike(machine, *expected, &found)? => {
                Ok(())
            }
            ExpectedProfile::Known(_) => {
                let words = format!("{machine} stands on something else than was planned with");
                Err(StepError::new(ErrorClass::Outdated, words)
                    .hint("run it again: it plans with what was found"))
            }
            ExpectedProfile::Unknown => self.render_inspected(machine, &found, attendant),
        }
    }

    fn inspect_linux(&self, machine: &MachineName) -> Result<Inspected, StepError> {
        let session = self.session(machine)?;
        let answer = session
            .answer(&Probe::Machine)
            .map_err(|error| lost(machine.as_str(), &error))?;
        let found = inspect::read(&answer.out)?;
        self.stands_on(machine, found.ground);
        let group = self.wanted_group(machine)?;
        verdict(machine, inspect::unfit(&found, group, now()))?;
        Ok(Inspected {
            ground: Some(found.ground),
            addresses: found.addresses,
            address: self.login_address(machine),
        })
    }

    /// What is known of a machine by now that was inspected before.
    pub(super) fn inspected_again(&self, machine: &MachineName) -> Result<Inspected, StepError> {
        match self.os(machine) {
            Os::Linux => self.inspect_linux(machine),
            Os::Windows => self.inspect_windows(machine),
        }
    }

    fn inspect_windows(&self, machine: &MachineName) -> Result<Inspected, StepError> {
        let addresses = match self.told(machine)? {
            Told::Facts(facts) => {
                // Planning knows whether it waits for a restart, and sees to it.
                let prior = Prior::Different;
                let group = self.wanted_group(machine)?;
                let faults = inspect_windows::unfit(&facts, self.model, group, prior, now());
                verdict(machine, faults)?;
                facts.addresses
            }
            // The agent that is brought next is asked.
            Told::Nobody | Told::Refused(_) | Told::Nothing(_) => {
                self.log_in(machine)?;
                Vec::new()
            }
        };
        Ok(Inspected {
            ground: None,
            addresses,
            address: self.login_address(machine),
        })
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
}
