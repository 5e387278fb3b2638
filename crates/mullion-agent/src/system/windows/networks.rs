//! Networks of HNS, by its interface HCN.

use std::ffi::c_void;
use std::time::Duration;

use mullion_wire::{HnsNetwork, OverlayNetwork};
use windows::Win32::System::Com::{CoCreateGuid, CoTaskMemFree};
use windows::core::{Error, GUID, HRESULT, PCWSTR, PWSTR};

use super::super::{NetworkState, Removed, SystemError};
use super::call::{Library, Wide, failed, text};
use super::documents::{self, Network};
use super::{adapters, choice, documents::everything};

/// So often an adapter is looked for, and so far apart: for a minute.
const LOOKS: u32 = 61;
const PAUSE: Duration = Duration::from_secs(1);

const LIBRARY: &str = "computenetwork.dll";
const WHAT: &str = "a network of HNS";

type Enumerate = unsafe extern "system" fn(PCWSTR, *mut PWSTR, *mut PWSTR) -> HRESULT;
type Open = unsafe extern "system" fn(*const GUID, *mut *mut c_void, *mut PWSTR) -> HRESULT;
type Query = unsafe extern "system" fn(*mut c_void, PCWSTR, *mut PWSTR, *mut PWSTR) -> HRESULT;
type Create =
    unsafe extern "system" fn(*const GUID, PCWSTR, *mut *mut c_void, *mut PWSTR) -> HRESULT;
type Delete = unsafe extern "system" fn(*const GUID, *mut PWSTR) -> HRESULT;
type Close = unsafe extern "system" fn(*mut c_void) -> HRESULT;

/// HNS.
struct Hns(Library);

/// Takes a text that HNS gave, and gives its memory back.
fn take(pointer: PWSTR) -> String {
    let found = unsafe { text(pointer) };
    unsafe { CoTaskMemFree(Some(pointer.0.cast_const().cast())) };
    found
}

/// The outcome of a call, with what HNS says of its failure.
fn outcome(call: &str, code: HRESULT, answer: PWSTR) -> Result<(), SystemError> {
    let said = documents::complaint(&take(answer));
    code.ok().map_err(|error| {
        let error = match said {
            Some(said) => Error::new(code, said),
            None => error,
        };
        failed(call)(error)
    })
}

impl Hns {
    fn open() -> Result<Self, SystemError> {
        Library::load(LIBRARY, WHAT).map(Self)
    }

    /// The names that HNS has for things of a kind: `Networks`, `Endpoints`, `LoadBalancers`.
    fn all(&self, kind: &str) -> Result<Vec<GUID>, SystemError> {
        let call = format!("HcnEnumerate{kind}");
        let ask: Enumerate = unsafe { self.0.entry(&call)? };
        let question = Wide::new(&everything());
        let (mut found, mut answer) = (PWSTR::null(), PWSTR::null());
        let code = unsafe { ask(question.as_ptr(), &raw mut found, &raw mut answer) };
        let found = take(found);
        outcome(&call, code, answer)?;
        let ids: Vec<String> = match found.trim() {
            "" => Vec::new(),
            found => serde_json::from_str(found).map_err(|error| {
                SystemError::Nonsense(format!("`{call}` gave no list of names: {error}"))
            })?,
        };
        Ok(ids.iter().filter_map(|id| guid(id)).collect())
    }

    /// What HNS tells of a thing of a kind; nothing where it has gone meanwhile.
    fn told(&self, kind: &str, id: &GUID) -> Result<Option<String>, SystemError> {
        let open: Open = unsafe { self.0.entry(&format!("HcnOpen{kind}"))? };
        let query: Query = unsafe { self.0.entry(&format!("HcnQuery{kind}Properties"))? };
        let close: Close = unsafe { self.0.entry(&format!("HcnClose{kind}"))? };
        let question = Wide::new(&everything());
        let mut handle = std::ptr::null_mut();
        let mut answer = PWSTR::null();
        let code = unsafe { open(std::ptr::from_ref(id), &raw mut handle, &raw mut answer) };
        let opened = outcome(&format!("HcnOpen{kind}"), code, answer);
        if documents::is_not_found(code.0.cast_unsigned()) {
            return Ok(None);
        }
        opened?;
        let (mut found, mut answer) = (PWSTR::null(), PWSTR::null());
        let code = unsafe { query(handle, question.as_ptr(), &raw mut found, &raw mut answer) };
        let found = take(found);
        let _ = unsafe { close(handle) };
        let told = outcome(&format!("HcnQuery{kind}Properties"), code, answer);
        if documents::is_not_found(code.0.cast_unsigned()) {
            return Ok(None);
        }
        told?;
        Ok(Some(found))
    }

    fn networks(&self) -> Result<Vec<(GUID, Network)>, SystemError> {
        let mut networks = Vec::new();
        for id in self.all("Networks")? {
            let Some(told) = self.told("Network", &id)? else {
                continue;
            };
            let network = serde_json::from_str(&told).map_err(|error| {
                SystemError::Nonsense(format!("HNS told no network: {error}: {told}"))
            })?;
            networks.push((id, network));
        }
        Ok(networks)
    }

    fn create(&self, settings: &str) -> Result<(), SystemError> {
        let create: Create = unsafe { self.0.entry("HcnCreateNetwork")? };
        let close: Close = unsafe { self.0.entry("HcnCloseNetwork")? };
        let id = unsafe { CoCreateGuid() }.map_err(failed("CoCreateGuid"))?;
        let settings = Wide::new(settings);
        let mut handle = std::ptr::null_mut();
        let mut answer = PWSTR::null();
        let code = unsafe {
            create(
                &raw const id,
                settings.as_ptr(),
                &raw mut handle,
                &raw mut answer,
            )
        };
        outcome("HcnCreateNetwork", code, answer)?;
        let _ = unsafe { close(handle) };
        Ok(())
    }

    /// Deletes a thing of a kind: `Network`, `Endpoint`, `LoadBalancer`.
    fn delete(&self, kind: &str, id: &GUID) -> Result<(), SystemError> {
        let call = format!("HcnDelete{kind}");
        let delete: Delete = unsafe { self.0.entry(&call)? };
        let mut answer = PWSTR::null();
        let code = unsafe { delete(std::ptr::from_ref(id), &raw mut answer) };
        outcome(&call, code, answer)
    }
}

/// The GUID in `b95d0c5e-57d4-412b-b571-18a81a16e005`, in braces or not.
fn guid(text: &str) -> Option<GUID> {
    let digits: String = text
        .chars()
        .filter(|sign| !matches!(sign, '-' | '{' | '}'))
        .collect();
    let is_guid = digits.len() == 32;
    let number = u128::from_str_radix(&digits, 16).ok()?;
    is_guid.then(|| GUID::from_u128(number))
}

/// Every network, for the facts; none where there is no HNS.
pub(super) fn facts() -> Vec<HnsNetwork> {
    let found = Hns::open().and_then(|hns| hns.networks());
    let networks = found.unwrap_or_default();
    networks.iter().map(|(_, network)| network.fact()).collect()
}

/// Whether a network is as wanted.
pub(super) fn state(wanted: &OverlayNetwork) -> Result<NetworkState, SystemError> {
    let networks = Hns::open()?.networks()?;
    let mut ours = networks
        .iter()
        .filter(|(_, network)| network.name == wanted.name);
    Ok(match ours.next() {
        None => NetworkState::Absent,
        Some((_, network)) if network.is(wanted) => NetworkState::Set,
        Some(_) => NetworkState::Different,
    })
}

/// Whether there is a network of that name.
pub(super) fn has(name: &str) -> Result<bool, SystemError> {
    let networks = Hns::open()?.networks()?;
    Ok(networks.iter().any(|(_, network)| network.name == name))
}

/// Makes a network.
pub(super) fn make(wanted: &OverlayNetwork) -> Result<(), SystemError> {
    let pause = &mut || std::thread::sleep(PAUSE);
    let adapter = choice::adapter_in_time(&wanted.adapter, LOOKS, &mut adapters::all, pause)?;
    Hns::open()?.create(&documents::overlay(wanted, &adapter.name))
}

/// Removes the networks of a name. Without HNS there are none.
pub(super) fn remove(name: &str) -> Result<Removed, SystemError> {
    let hns = match Hns::open() {
        Err(SystemError::NoLibrary { .. }) => return Ok(Removed::Nothing),
        hns => hns?,
    };
    let mut removed = Removed::Nothing;
    for (id, network) in hns.networks()? {
        if network.name == name {
            hns.delete("Network", &id)?;
            removed = Removed::Gone;
        }
    }
    Ok(removed)
}

/// Removes what a pod network leaves: ways to services first, then pods' ends, then networks but the one of that name.
pub(super) fn clear(kept: Option<&str>, on_line: &mut dyn FnMut(&str)) -> Result<(), SystemError> {
    let hns = match Hns::open() {
        Err(SystemError::NoLibrary { .. }) => return Ok(()),
        hns => hns?,
    };
    let mut networks = hns.networks()?;
    networks.retain(|(_, network)| network.is_of_pods() && Some(network.name.as_str()) != kept);
    let mut doomed = Vec::new();
    for id in hns.all("LoadBalancers")? {
        doomed.push(("LoadBalancer", id));
    }
    for id in hns.all("Endpoints")? {
        let told = hns.told("Endpoint", &id)?.unwrap_or_default();
        let of = documents::network_of(&told).and_then(|network| guid(&network));
        if networks.iter().any(|(network, _)| of == Some(*network)) {
            doomed.push(("Endpoint", id));
        }
    }
    for (kind, id) in doomed {
        // One may go with another.
        if let Err(error) = hns.delete(kind, &id) {
            on_line(&format!("{kind} {id:?} stays: {error}"));
        }
    }
    for (id, network) in networks {
        on_line(&format!("removing the network {}", network.name));
        hns.delete("Network", &id)?;
    }
    Ok(())
}
