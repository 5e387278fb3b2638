//! The in-memory world: hosts, machines, agents and an API server that obey a plan's steps.
//!
//! The first implementation of the ports. It refuses what real ones would refuse (joining before there
//! is a cluster, applying a blueprint without an agent, removing a machine that is still a node), so that
//! a wrong order in a plan is a failed test. It can be struck: by a crash around a step, a step that is
//! half done, failures that pass, machines that lose power, connections or everything.

mod half;
mod kubernetes;
mod look;
mod perform;
mod run;
mod state;

pub use run::{Outcome, Until, run};

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use mullion_render::Ground;
use mullion_spec::cluster::Cluster;
use mullion_spec::value::MachineName;
use mullion_spec::words::{Driver, Os};

use self::state::{State, Unit};
use mullion_plan::TemplateId;
use mullion_plan::{Attend, Discover, DiscoverError, ErrorClass, Perform, StepError};
use mullion_plan::{Observed, Place};
use mullion_plan::{Step, StepId};

/// What goes wrong at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The run is cut off before the step has any effect.
    CrashBefore,
    /// The run is cut off after the step's effect, before it is reported.
    CrashAfter,
    /// The run is cut off in the middle: the step is half done.
    Half,
    /// The step fails that many times, then works.
    Fails {
        /// How often.
        times: u32,
    },
}

/// What befalls a machine from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// It loses its power.
    PowerLoss,
    /// It does not answer until somebody waits for it.
    Blip,
    /// It is gone with its disk; a machine of the user's is installed anew.
    Wipe,
    /// Somebody deletes its Node object.
    DeleteNode,
    /// Its etcd fails, and nothing that a plan does repairs it.
    SickEtcd,
    /// Its control plane's certificates end soon.
    OldCertificates,
    /// They have expired: its etcd and its API server talk to no one.
    ExpiredCertificates,
}

/// Everything there is, in memory.
#[derive(Debug, Default)]
pub struct World {
    state: Mutex<State>,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    armed: Option<(usize, Fault)>,
    failing: Option<(StepId, u32)>,
}

impl World {
    /// Gives the world a machine of the user's, running and empty.
    #[must_use]
    pub fn with_machine(self, name: &MachineName, driver: Driver, os: Os, address: IpAddr) -> Self {
        self.state()
            .units
            .insert(name.clone(), Unit::existing(driver, os, address));
        self
    }

    /// Lets machines with Linux tell what they stand on, and hosts what their drivers make: real documents need it.
    #[must_use]
    pub fn with_ground(self, ground: Ground) -> Self {
        self.state().ground = Some(ground);
        self
    }

    /// Gives a host a network that is not ours.
    #[must_use]
    pub fn with_foreign_network(self, place: Place, network: IpNet) -> Self {
        let mut state = self.state();
        state
            .hosts
            .entry(place)
            .or_default()
            .foreign
            .insert(network);
        drop(state);
        self
    }

    /// Gives the world a template of the user's.
    #[must_use]
    pub fn with_template(self, template: TemplateId) -> Self {
        self.state().templates.insert(template, Vec::new());
        self
    }

    /// Lets the step go wrong that is performed after `count` others; an earlier fault is over.
    pub fn arm(&self, count: usize, fault: Fault) {
        *self.faults() = Faults {
            armed: Some((count, fault)),
            failing: None,
        };
    }

    /// Strikes a machine; one that does not exist feels nothing.
    pub fn strike(&self, machine: &MachineName, blow: Blow) {
        self.state().strike(machine, blow);
    }

    /// Keeps everybody from asking etcd for its members, or lets them ask again.
    pub fn hide_etcd(&self, hides: bool) {
        self.state().hides_etcd = hides;
    }

    /// Lets machines go that are nodes, as a removal of the whole cluster removes them. Until then such a step is refused.
    pub fn remove_whole(&self) {
        self.state().is_removed_whole = true;
    }

    /// Before which machines were emptied a snapshot of etcd was saved, in the order of the snapshots.
    pub fn snapshots(&self) -> Vec<MachineName> {
        let state = self.state();
        let snapshots = state.snapshots.iter();
        snapshots.map(|(_, machine)| machine.clone()).collect()
    }

    /// The machines there are.
    pub fn machines(&self) -> Vec<MachineName> {
        self.state().units.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults {
    /// The fault of the step that is about to be performed.
    fn next(&mut self, id: &StepId) -> Option<Fault> {
        match &mut self.armed {
            Some((0, fault)) => {
                let fault = *fault;
                self.armed = None;
                if let Fault::Fails { times } = fault {
                    self.failing = Some((id.clone(), times));
                } else {
                    return Some(fault);
                }
            }
            Some((count, _)) => *count -= 1,
            None => {}
        }
        match &mut self.failing {
            Some((failing, times)) if failing == id && *times > 0 => {
                *times -= 1;
                Some(Fault::Fails { times: *times })
            }
            _ => None,
        }
    }
}

impl Discover for World {
    fn observe(&self, cluster: &Cluster) -> Result<Observed, DiscoverError> {
        Ok(self.state().look(cluster))
    }
}

impl Perform for World {
    fn perform(&self, step: &Step, _attendant: &dyn Attend) -> Result<(), StepError> {
        let fault = self.faults().next(&step.id);
        let cut = |when: &str| {
            let words = format!("the run was cut off {when} {}", step.id);
            StepError::new(ErrorClass::Interrupted, words)
        };
        let mut state = self.state();
        match fault {
            None => state.perform(step),
            Some(Fault::CrashBefore) => Err(cut("before")),
            Some(Fault::CrashAfter) => state.perform(step).and_then(|()| Err(cut("after"))),
            Some(Fault::Half) => {
                // Only what could have been done whole can be done half.
                let mut whole = state.clone();
                whole.perform(step)?;
                state.perform_half(step);
                Err(cut("in the middle of"))
            }
            Some(Fault::Fails { .. }) => Err(StepError::new(
                ErrorClass::Unreachable,
                format!("{} failed for a while", step.id),
            )),
        }
    }
}
