//! What only Windows has: features, registry, environment, trusted authorities, private files, host name, time zone,
//! ports, and the network of HNS.
//!
//! Everything is compared by one function, which an apply and the facts share: what differs is made so by the one and
//! told by the other.

use mullion_wire::{DynamicPorts, Feature, OverlayNetwork, Sha256Digest, Windows};

use crate::change::Change;
use crate::failure::AgentError;
use crate::system::{Holds, NetworkState, Removed, System, SystemError};
use crate::work::Work;

mod authorities;
mod path;
mod private_files;
mod values;

use values::WantedValue;

/// Something that is not as it should be.
enum Difference<'a> {
    Feature(&'a str),
    Value(WantedValue),
    Path(&'a str),
    Authority(Sha256Digest, Vec<u8>),
    PrivateFile(&'a str),
    HostName(&'a str),
    TimeZone(&'a str),
    Ports(DynamicPorts),
    Network(&'a OverlayNetwork),
}

impl Difference<'_> {
    /// The change that makes it so.
    fn change(&self) -> Change {
        match self {
            Self::Feature(name) => Change::Feature((*name).to_owned()),
            Self::Value(value) => Change::RegistryValue(value.key.clone(), value.name.clone()),
            Self::Path(folder) => Change::PathFolder((*folder).to_owned()),
            Self::Authority(certificate, _) => Change::Authority(certificate.clone()),
            Self::PrivateFile(path) => Change::Permissions((*path).to_owned()),
            Self::HostName(name) => Change::HostName((*name).to_owned()),
            Self::TimeZone(name) => Change::TimeZone((*name).to_owned()),
            Self::Ports(ports) => Change::DynamicPorts(ports.protocol, ports.first),
            Self::Network(network) => Change::Network(network.name.clone()),
        }
    }

    /// The words under which it may wait for a start of the machine. A host name does too, which Windows tells itself.
    fn awaits(&self) -> Option<String> {
        match self {
            Self::Feature(name) => Some(feature_awaits(name)),
            Self::Value(value) if value.restart => Some(values::awaits(&value.key, &value.name)),
            _ => None,
        }
    }
}

/// Everything that is not as it should be, in the order in which it is made so.
fn differences<'a>(
    system: &dyn System,
    wanted: &'a Windows,
) -> Result<Vec<Difference<'a>>, AgentError> {
    let mut found = Vec::new();
    for name in &wanted.features {
        if is_missing(system, name)? {
            found.push(Difference::Feature(name));
        }
    }
    let values = values::different(system, wanted)?.into_iter();
    found.extend(values.map(Difference::Value));
    let path = path::read(system)?;
    let missing = wanted
        .path
        .iter()
        .filter(|folder| !path::has(&path, folder));
    found.extend(missing.map(|folder| Difference::Path(folder)));
    for (certificate, bytes) in authorities::wanted(system, wanted)? {
        if !system.trusts(&certificate)? {
            found.push(Difference::Authority(certificate, bytes));
        }
    }
    let private = private_files::open_ones(system, wanted)?.into_iter();
    found.extend(private.map(Difference::PrivateFile));
    if let Some(name) = &wanted.host_name
        && !system.next_host_name()?.eq_ignore_ascii_case(name)
    {
        found.push(Difference::HostName(name));
    }
    if let Some(name) = &wanted.time_zone
        && system.time_zone()? != *name
    {
        found.push(Difference::TimeZone(name));
    }
    for ports in &wanted.dynamic_ports {
        if system.dynamic_ports(ports.protocol)? != *ports {
            found.push(Difference::Ports(*ports));
        }
    }
    if let Some(network) = &wanted.network
        && system.network(network)? != NetworkState::Set
    {
        found.push(Difference::Network(network));
    }
    Ok(found)
}

/// What is no longer as it was applied, for people.
pub(crate) fn drift(system: &dyn System, applied: &Windows) -> Result<Vec<String>, AgentError> {
    let found = differences(system, applied)?;
    Ok(found
        .iter()
        .map(|difference| format!("not as it was applied: {}", difference.change().what()))
        .collect())
}

/// Makes the source known under which the agent's entries stand in the event log: without it nobody can read them.
pub(super) fn register_source(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    // A machine has no other value without a blueprint.
    let missing = values::different(work.system, &Windows::default())?.into_iter();
    let missing: Vec<_> = missing.map(Difference::Value).collect();
    make_all_so(work, &missing)
}

/// Whether that source is known.
pub(crate) fn is_source_known(system: &dyn System) -> bool {
    let missing = values::different(system, &Windows::default());
    missing.is_ok_and(|missing| missing.is_empty())
}

/// Whether the rest of a blueprint can be made so now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// It can.
    Now,
    /// Not before the machine was started anew: networks and services need a feature that works only then.
    AfterRestart,
}

/// Enables features; gives back whether what needs them can go on.
pub(super) fn enable_features(
    work: &mut Work<'_, '_>,
    wanted: &Windows,
) -> Result<Rest, AgentError> {
    let mut missing = Vec::new();
    for name in &wanted.features {
        if is_missing(work.system, name)? {
            missing.push(Difference::Feature(name));
        }
    }
    make_all_so(work, &missing)?;
    let mut rest = Rest::Now;
    for name in &wanted.features {
        if work.system.feature(name)? == Feature::Pending {
            // Whoever enabled it, and however often it was started since: what is left waits for a start.
            work.await_restart(feature_awaits(name));
            rest = Rest::AfterRestart;
        }
    }
    work.save()?;
    Ok(rest)
}

/// The words under which a feature waits for a start of the machine.
fn feature_awaits(name: &str) -> String {
    format!("the feature {name} is being enabled")
}

fn is_missing(system: &dyn System, feature: &str) -> Result<bool, SystemError> {
    let state = system.feature(feature)?;
    Ok(matches!(state, Feature::Disabled | Feature::Unknown))
}

/// Makes all of it so, and gives back what an earlier blueprint changed and this one does not name.
pub(super) fn set(work: &mut Work<'_, '_>, wanted: &Windows, rest: Rest) -> Result<(), AgentError> {
    authorities::check(work.system, wanted)?;
    values::check(work.system, wanted)?;
    give_back_where(work, Some(wanted))?;
    // Without its features there is no HNS to be asked.
    let now = Windows {
        network: wanted.network.clone().filter(|_| rest == Rest::Now),
        ..wanted.clone()
    };
    let differences = differences(work.system, &now)?;
    make_all_so(work, &differences)
}

fn make_all_so(work: &mut Work<'_, '_>, differences: &[Difference<'_>]) -> Result<(), AgentError> {
    if differences.is_empty() {
        return Ok(());
    }
    for difference in differences {
        write_down(work, difference)?;
    }
    work.touch()?;
    for difference in differences {
        let change = difference.change();
        let holds = make_so(work, difference).map_err(failed(&change))?;
        if holds == Holds::Now
            && let Some(words) = difference.awaits()
        {
            work.state.restarts.remove(&words);
        }
        work.report.applied(change);
    }
    Ok(())
}

/// Keeps what is there, unless something older is kept already; and what may have to wait for a start, since a kill
/// right after the change would lose that.
fn write_down(work: &mut Work<'_, '_>, difference: &Difference<'_>) -> Result<(), AgentError> {
    let system = work.system;
    if let Some(words) = difference.awaits() {
        work.await_restart(words);
    }
    let kept = &mut work.state.windows;
    match difference {
        Difference::Value(value) => values::keep(system, kept, value)?,
        Difference::Path(folder) => {
            kept.path.insert((*folder).to_owned());
        }
        Difference::Authority(certificate, _) => {
            kept.authorities.insert(certificate.clone());
        }
        Difference::PrivateFile(path) => private_files::keep(system, kept, path)?,
        Difference::HostName(_) if kept.host_name.is_none() => {
            kept.host_name = Some(system.next_host_name()?);
        }
        Difference::TimeZone(_) if kept.time_zone.is_none() => {
            kept.time_zone = Some(system.time_zone()?);
        }
        Difference::Ports(wanted) => {
            let is_kept = |ports: &DynamicPorts| ports.protocol == wanted.protocol;
            if !kept.ports.iter().any(is_kept) {
                kept.ports.push(system.dynamic_ports(wanted.protocol)?);
            }
        }
        Difference::Network(network) => kept.network = Some(network.name.clone()),
        // A feature stays: others may use it by now.
        Difference::Feature(_) | Difference::HostName(_) | Difference::TimeZone(_) => {}
    }
    Ok(())
}

fn make_so(work: &mut Work<'_, '_>, difference: &Difference<'_>) -> Result<Holds, SystemError> {
    let system = work.system;
    match difference {
        Difference::Feature(name) => {
            if system.feature(name)? == Feature::Unknown {
                let words = format!("this Windows has no feature `{name}`");
                return Err(SystemError::Nonsense(words));
            }
            work.report
                .doing(format!("feature {name} is being enabled"));
            return system.enable_feature(name);
        }
        Difference::Value(value) => {
            system.set_value(&value.key, &value.name, &value.value)?;
            if value.restart {
                return Ok(Holds::AfterRestart);
            }
        }
        Difference::Path(folder) => path::add(system, folder)?,
        Difference::Authority(_, bytes) => system.trust(bytes)?,
        Difference::PrivateFile(path) => system.set_mode(path, private_files::PRIVATE)?,
        // The system itself tells that a start is awaited.
        Difference::HostName(name) => system.set_host_name(name)?,
        Difference::TimeZone(name) => system.set_time_zone(name)?,
        Difference::Ports(ports) => system.set_dynamic_ports(*ports)?,
        Difference::Network(network) => {
            if system.network(network)? == NetworkState::Different {
                system.remove_network(&network.name)?;
            }
            work.report
                .doing("making a network of HNS: connections may be cut off for seconds");
            system.make_network(network)?;
        }
    }
    Ok(Holds::Now)
}

/// Gives everything back.
pub(crate) fn give_back(work: &mut Work<'_, '_>) -> Result<(), AgentError> {
    give_back_where(work, None)
}

/// Gives back what is not wanted any more, and forgets it.
fn give_back_where(work: &mut Work<'_, '_>, wanted: Option<&Windows>) -> Result<(), AgentError> {
    let network = work.state.windows.network.clone();
    if let Some(name) = network
        && wanted
            .and_then(|wanted| wanted.network.as_ref())
            .is_none_or(|network| network.name != name)
    {
        work.touch()?;
        let change = Change::Network(name.clone());
        let removed = work.system.remove_network(&name);
        let removed = removed.map_err(failed(&change))?;
        work.state.windows.network = None;
        tell(work, removed, change);
    }
    values::give_back(work, wanted)?;
    path::give_back(work, wanted)?;
    authorities::give_back(work, wanted)?;
    private_files::give_back(work, wanted)?;
    let host_name = work.state.windows.host_name.clone();
    if let Some(name) = host_name
        && wanted.is_none_or(|wanted| wanted.host_name.is_none())
    {
        work.touch()?;
        if work.system.next_host_name()? != name {
            let change = Change::HostName(name.clone());
            work.system.set_host_name(&name).map_err(failed(&change))?;
            work.report.applied(change);
        }
        work.state.windows.host_name = None;
    }
    let time_zone = work.state.windows.time_zone.clone();
    if let Some(name) = time_zone
        && wanted.is_none_or(|wanted| wanted.time_zone.is_none())
    {
        work.touch()?;
        // A zone that a program set by its rules alone has no name to put it back by.
        if !name.is_empty() && work.system.time_zone()? != name {
            let change = Change::TimeZone(name.clone());
            work.system.set_time_zone(&name).map_err(failed(&change))?;
            work.report.applied(change);
        }
        work.state.windows.time_zone = None;
    }
    for ports in work.state.windows.ports.clone() {
        let is_of = |other: &DynamicPorts| other.protocol == ports.protocol;
        if wanted.is_some_and(|wanted| wanted.dynamic_ports.iter().any(is_of)) {
            continue;
        }
        work.touch()?;
        if work.system.dynamic_ports(ports.protocol)? != ports {
            let change = Change::DynamicPorts(ports.protocol, ports.first);
            work.system
                .set_dynamic_ports(ports)
                .map_err(failed(&change))?;
            work.report.applied(change);
        }
        work.state.windows.ports.retain(|other| *other != ports);
    }
    Ok(())
}

fn tell(work: &mut Work<'_, '_>, removed: Removed, change: Change) {
    if removed == Removed::Gone {
        work.report.applied(change);
    }
}

fn failed(change: &Change) -> impl FnOnce(SystemError) -> AgentError + use<> {
    not_done(change.what())
}

fn not_done(what: String) -> impl FnOnce(SystemError) -> AgentError {
    move |source| AgentError::Windows {
        what,
        source: Box::new(source),
    }
}
