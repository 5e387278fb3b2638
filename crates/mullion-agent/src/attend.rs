//! A program whose time comes only once the machine is a node: waited for, started, and ended where what it needs goes.
//!
//! One look at everything is one [`Attendance::look`]; whoever attends looks again and again. Nothing is remembered
//! between two looks but the program that runs, so a service that is started anew goes on from whatever it finds: files
//! that a start of the machine left behind go before anybody reads them.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, SystemTime};

use mullion_wire::{Attended, Awaited};

use crate::failure::AgentError;
use crate::logs::Logs;
use crate::system::{Ended, RunningProgram, ServiceEnd, System, SystemError};

/// How things stand after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Something that the program needs is not there.
    Waits,
    /// The program runs.
    Runs,
    /// The program ended by itself.
    Ended(Ended),
}

/// A program that is attended to.
pub struct Attendance<'a> {
    system: &'a dyn System,
    wanted: Attended,
    running: Option<Running>,
}

/// A program that runs.
struct Running {
    /// The arguments that it was given.
    args: Vec<String>,
    /// When the process was started of the service that takes it along, once there was one.
    renewed_with: Option<u64>,
    program: Box<dyn RunningProgram>,
}

impl std::fmt::Debug for Attendance<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Attendance")
            .field("wanted", &self.wanted)
            .field("runs", &self.running.is_some())
            .finish_non_exhaustive()
    }
}

impl<'a> Attendance<'a> {
    /// Reads what is attended to from its file.
    pub fn read(system: &'a dyn System, path: &str) -> Result<Self, AgentError> {
        let bytes = system.read(path)?;
        let bytes = bytes.ok_or_else(|| AgentError::Absent(path.to_owned()))?;
        let wanted: Attended =
            serde_json::from_slice(&bytes).map_err(|source| AgentError::State {
                path: path.to_owned(),
                source,
            })?;
        if wanted.version > mullion_wire::VERSION {
            return Err(AgentError::Newer {
                what: "attended program",
                found: wanted.version,
                known: mullion_wire::VERSION,
                agent: crate::VERSION,
            });
        }
        Ok(Self {
            system,
            wanted,
            running: None,
        })
    }

    /// The name of its service.
    pub fn service(&self) -> &str {
        &self.wanted.service
    }

    /// Looks once: starts, ends and writes what the time has come for. `on_line` hears what was done.
    pub fn look(&mut self, on_line: &mut dyn FnMut(&str)) -> Result<Standing, AgentError> {
        let share = self.share()?;
        for file in &self.wanted.files {
            let is_there = self.is_there(&file.awaits)?;
            let text = fill(&file.text, share.as_ref()).filter(|_| is_there);
            if put(self.system, &file.path, text.as_deref())? {
                let verb = if text.is_some() { "written" } else { "removed" };
                on_line(&format!("`{}` was {verb}", file.path));
            }
        }
        let program = &self.wanted.program;
        let args: Option<Vec<_>> = program
            .args
            .iter()
            .map(|arg| fill(arg, share.as_ref()))
            .collect();
        let is_there = self.is_there(&program.awaits)?;
        let args = args.filter(|_| is_there);
        let renewed_with = match &program.renewed_with {
            Some(service) => self.system.service_started(service)?,
            None => None,
        };
        if let Some(running) = &mut self.running {
            // While the service is down nothing is known, and its users are left to themselves.
            let before = running.renewed_with.or(renewed_with);
            let is_renewed = renewed_with.is_some() && renewed_with != before;
            running.renewed_with = before;
            if args.as_ref() == Some(&running.args) && !is_renewed {
                let ended = running.program.ended()?;
                return Ok(ended.map_or(Standing::Runs, Standing::Ended));
            }
            running.program.end();
            self.running = None;
            on_line(&format!(
                "`{}` was ended: what it needs went, changed or was started anew",
                program.path
            ));
        }
        let Some(args) = args else {
            return Ok(Standing::Waits);
        };
        on_line(&format!("starting `{} {}`", program.path, args.join(" ")));
        let started = self.system.start_program(&program.path, &args)?;
        self.running = Some(Running {
            args,
            renewed_with,
            program: started,
        });
        Ok(Standing::Runs)
    }

    /// Ends the program, and takes its files away: after a start of the machine nobody is to find them before the look
    /// that knows better.
    pub fn end(&mut self, on_line: &mut dyn FnMut(&str)) {
        if let Some(mut running) = self.running.take() {
            running.program.end();
        }
        for file in &self.wanted.files {
            if let Err(error) = put(self.system, &file.path, None) {
                on_line(&format!("`{}` stays: {error}", file.path));
            }
        }
    }

    /// Whether all of it is there.
    fn is_there(&self, awaited: &Awaited) -> Result<bool, SystemError> {
        for path in &awaited.files {
            if self.system.look(path)?.is_none() {
                return Ok(false);
            }
        }
        match &awaited.network {
            Some(name) => self.system.has_network(name),
            None => Ok(true),
        }
    }

    /// The machine's share of the pods' addresses, once flannel has written it down.
    fn share(&self) -> Result<Option<Share>, SystemError> {
        let bytes = self.system.read(&self.wanted.share)?;
        Ok(bytes.and_then(|bytes| Share::read(&String::from_utf8_lossy(&bytes))))
    }
}

/// Makes a file hold that text, or not be there; gives back whether that was a change.
fn put(system: &dyn System, path: &str, text: Option<&str>) -> Result<bool, SystemError> {
    let found = system.read(path)?;
    match text {
        Some(text) if found.as_deref() == Some(text.as_bytes()) => Ok(false),
        Some(text) => {
            // Whoever watches the folder never sees half of it.
            let new = format!("{path}.mullion-new");
            system.write(&new, text.as_bytes(), 0o644)?;
            system.rename(&new, path)?;
            Ok(true)
        }
        None if found.is_none() => Ok(false),
        None => system.remove(path).map(|_| true),
    }
}

/// Attends to the program of a file until it is told to stop or the program ends. `on_line` hears what was done.
pub fn attend(
    system: &dyn System,
    path: &str,
    pause: Duration,
    is_told_to_stop: &dyn Fn() -> bool,
    on_line: &mut dyn FnMut(&str),
) -> ServiceEnd {
    let mut attendance = match Attendance::read(system, path) {
        Ok(attendance) => attendance,
        Err(error) => {
            on_line(&error.chain().join(": "));
            return ServiceEnd::Failed;
        }
    };
    let mut logs = Logs::new(&attendance.wanted.logs);
    let mut before = None;
    while !is_told_to_stop() {
        match attendance.look(on_line) {
            Ok(Standing::Ended(ended)) => {
                on_line(&format!("it {ended}"));
                return ServiceEnd::Failed;
            }
            Ok(standing) => {
                if standing == Standing::Waits && before != Some(standing) {
                    on_line("waiting for what it needs");
                }
                before = Some(standing);
            }
            // A disk that is full, a file that somebody holds: the next look may find it better.
            Err(error) => on_line(&error.chain().join(": ")),
        }
        logs.look(system, SystemTime::now(), on_line);
        thread::sleep(pause);
    }
    attendance.end(on_line);
    ServiceEnd::Told
}

/// A machine's share of the pods' addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    network: u32,
    bits: u8,
}

impl Share {
    /// From the file that flannel writes: `FLANNEL_SUBNET=10.244.3.1/24`.
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix("FLANNEL_SUBNET="))?;
        let (address, bits) = line.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let bits: u8 = bits.parse().ok().filter(|bits| (1..=29).contains(bits))?;
        let mask = u32::MAX << (32 - u32::from(bits));
        Some(Self {
            network: u32::from(address) & mask,
            bits,
        })
    }

    fn address(self, number: u32) -> String {
        Ipv4Addr::from(self.network + number).to_string()
    }
}

/// A text with the share in it; none where it names the share and there is none.
fn fill(text: &str, share: Option<&Share>) -> Option<String> {
    if !text.contains("$(") {
        return Some(text.to_owned());
    }
    let share = share?;
    let whole = format!("{}/{}", share.address(0), share.bits);
    Some(
        text.replace("$(share)", &whole)
            .replace("$(gateway)", &share.address(1))
            .replace("$(source-vip)", &share.address(2))
            .replace("$(first-pod)", &share.address(3)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_from_what_flannel_writes() {
        let text =
            "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\nFLANNEL_MTU=1450\n";
        let share = Share::read(text).unwrap();
        let words = "$(share) $(gateway) $(source-vip) $(first-pod)";
        assert_eq!(
            fill(words, Some(&share)).unwrap(),
            "10.244.3.0/24 10.244.3.1 10.244.3.2 10.244.3.3"
        );
        assert_eq!(fill(words, None), None);
        assert_eq!(fill("{}", None).unwrap(), "{}");
        for bad in ["", "FLANNEL_SUBNET=", "FLANNEL_SUBNET=10.244.3.1/30"] {
            assert_eq!(Share::read(bad), None, "{bad}");
        }
    }
}
