//! The firewall: rules of one group, by the interface `INetFwPolicy2`.

use mullion_wire::{Firewall, OpenPort, Protocol};
use windows::Win32::Foundation::{E_NOTIMPL, REGDB_E_CLASSNOTREG, VARIANT_TRUE};
use windows::Win32::NetworkManagement::WindowsFirewall::{
    INetFwPolicy2, INetFwRule, INetFwRules, NET_FW_ACTION, NET_FW_ACTION_ALLOW,
    NET_FW_PROFILE2_ALL, NET_FW_RULE_DIR_IN, NET_FW_RULE_DIRECTION, NetFwPolicy2, NetFwRule,
};
use windows::Win32::System::Com::{
    CLSCTX_INPROC_SERVER, COINIT_MULTITHREADED, CoCreateInstance, CoInitializeEx, IDispatch,
};
use windows::Win32::System::Ole::IEnumVARIANT;
use windows::Win32::System::Variant::VARIANT;
use windows::core::{BSTR, Error, HRESULT, Interface as _};

use super::super::{FirewallState, Removed, SystemError};
use super::call::failed;

/// Nobody answers where the firewall's service should.
const EPT_S_NOT_REGISTERED: u32 = 1753;

/// The numbers of the protocols.
const TCP: i32 = 6;
const UDP: i32 = 17;

/// A rule, as it is compared and as it is made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    name: String,
    protocol: i32,
    ports: String,
    is_enabled: bool,
    action: i32,
    direction: i32,
    /// The kinds of networks in which it holds, a bit each.
    profiles: i32,
}

fn rules() -> Result<INetFwRules, Error> {
    // A thread that is in another apartment already serves as well.
    let _ = unsafe { CoInitializeEx(None, COINIT_MULTITHREADED) };
    let policy: INetFwPolicy2 =
        unsafe { CoCreateInstance(&NetFwPolicy2, None, CLSCTX_INPROC_SERVER) }?;
    unsafe { policy.Rules() }
}

/// Whether a failure says that there is no firewall to be asked.
fn is_missing(error: &Error) -> bool {
    [E_NOTIMPL, REGDB_E_CLASSNOTREG].contains(&error.code()) || is_stopped(error)
}

/// Whether a failure says that the firewall's service does not run. Its rules are kept all the same.
fn is_stopped(error: &Error) -> bool {
    error.code() == HRESULT::from_win32(EPT_S_NOT_REGISTERED)
}

/// A rule that a port needs.
fn wanted_rule(group: &str, port: &OpenPort) -> Rule {
    Rule {
        name: format!("{group}: {}", port.name),
        protocol: match port.protocol {
            Protocol::Tcp => TCP,
            Protocol::Udp => UDP,
        },
        ports: if port.first == port.last {
            port.first.to_string()
        } else {
            format!("{}-{}", port.first, port.last)
        },
        is_enabled: true,
        action: NET_FW_ACTION_ALLOW.0,
        direction: NET_FW_RULE_DIR_IN.0,
        // A new network is a public one, until somebody says otherwise.
        profiles: NET_FW_PROFILE2_ALL.0,
    }
}

/// The rules of a group.
fn of_group(rules: &INetFwRules, group: &str) -> Result<Vec<Rule>, Error> {
    let all: IEnumVARIANT = unsafe { rules._NewEnum() }?.cast()?;
    let mut found = Vec::new();
    loop {
        let mut one = [VARIANT::default()];
        let mut count = 0;
        // The end is told as a failure too.
        let next = unsafe { all.Next(&mut one, &raw mut count) };
        if count == 0 {
            next.ok()?;
            break;
        }
        let [one] = one;
        let rule: INetFwRule = IDispatch::try_from(&one)?.cast()?;
        if unsafe { rule.Grouping() }? != *group {
            continue;
        }
        found.push(unsafe {
            Rule {
                name: rule.Name()?.to_string(),
                protocol: rule.Protocol()?,
                ports: rule.LocalPorts()?.to_string(),
                is_enabled: rule.Enabled()? == VARIANT_TRUE,
                action: rule.Action()?.0,
                direction: rule.Direction()?.0,
                profiles: rule.Profiles()?,
            }
        });
    }
    found.sort();
    Ok(found)
}

/// Whether a group is as wanted.
pub(super) fn state(wanted: &Firewall) -> Result<FirewallState, SystemError> {
    let found = rules().and_then(|rules| of_group(&rules, &wanted.group));
    let found = match found {
        Ok(found) => found,
        Err(error) if is_stopped(&error) => return Ok(FirewallState::Stopped),
        Err(error) if is_missing(&error) => return Ok(FirewallState::NoMeans),
        Err(error) => return Err(failed("INetFwPolicy2")(error)),
    };
    let ports = wanted.open.iter();
    let mut rules: Vec<_> = ports.map(|port| wanted_rule(&wanted.group, port)).collect();
    rules.sort();
    Ok(if found == rules {
        FirewallState::Set
    } else {
        FirewallState::Different
    })
}

/// Makes a group as wanted.
pub(super) fn set(wanted: &Firewall) -> Result<(), SystemError> {
    remove(&wanted.group)?;
    let add = || -> Result<(), Error> {
        let rules = rules()?;
        for port in &wanted.open {
            let wanted_rule = wanted_rule(&wanted.group, port);
            unsafe {
                let rule: INetFwRule = CoCreateInstance(&NetFwRule, None, CLSCTX_INPROC_SERVER)?;
                rule.SetName(&BSTR::from(&wanted_rule.name))?;
                rule.SetGrouping(&BSTR::from(&wanted.group))?;
                // Ports can be given only after the protocol.
                rule.SetProtocol(wanted_rule.protocol)?;
                rule.SetLocalPorts(&BSTR::from(&wanted_rule.ports))?;
                rule.SetDirection(NET_FW_RULE_DIRECTION(wanted_rule.direction))?;
                rule.SetAction(NET_FW_ACTION(wanted_rule.action))?;
                rule.SetProfiles(wanted_rule.profiles)?;
                rule.SetEnabled(wanted_rule.is_enabled.into())?;
                rules.Add(&rule)?;
            }
        }
        Ok(())
    };
    add().map_err(failed("INetFwRules.Add"))
}

/// Removes a group.
pub(super) fn remove(group: &str) -> Result<Removed, SystemError> {
    let take = || -> Result<Removed, Error> {
        let rules = rules()?;
        let found = of_group(&rules, group)?;
        for rule in &found {
            unsafe { rules.Remove(&BSTR::from(&rule.name)) }?;
        }
        Ok(if found.is_empty() {
            Removed::Nothing
        } else {
            Removed::Gone
        })
    };
    match take() {
        Ok(removed) => Ok(removed),
        Err(error) if is_stopped(&error) => {
            Ok(Removed::Stays("the firewall's service does not run"))
        }
        Err(error) if is_missing(&error) => Ok(Removed::Nothing),
        Err(error) => Err(failed("INetFwRules.Remove")(error)),
    }
}

#[cfg(test)]
mod tests {
    use windows::Win32::NetworkManagement::WindowsFirewall::{
        NET_FW_PROFILE2_DOMAIN, NET_FW_PROFILE2_PRIVATE, NET_FW_PROFILE2_PUBLIC,
    };

    use super::*;

    #[test]
    fn a_firewall_whose_service_does_not_run_is_none_to_be_asked() {
        let answer = |code: u32| Error::from_hresult(HRESULT(code.cast_signed()));
        assert!(is_missing(&answer(0x8007_06d9)) && is_stopped(&answer(0x8007_06d9)));
        assert!(is_missing(&answer(0x8000_4001)) && !is_stopped(&answer(0x8000_4001)));
        // Access denied.
        assert!(!is_missing(&answer(0x8007_0005)));
    }

    #[test]
    fn mode_53_a_port_is_open_in_public_networks_too() {
        let port = OpenPort {
            name: "ssh".into(),
            protocol: Protocol::Tcp,
            first: 22,
            last: 22,
        };
        let rule = wanted_rule("mullion", &port);
        for profile in [
            NET_FW_PROFILE2_PUBLIC,
            NET_FW_PROFILE2_PRIVATE,
            NET_FW_PROFILE2_DOMAIN,
        ] {
            assert_ne!(rule.profiles & profile.0, 0, "{rule:?}");
        }
        assert!(rule.is_enabled);
        assert_eq!(
            (rule.action, rule.direction),
            (NET_FW_ACTION_ALLOW.0, NET_FW_RULE_DIR_IN.0)
        );
    }
}
