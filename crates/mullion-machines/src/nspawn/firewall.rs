//! Packet rules of a cluster's network. They stand in tables and a chain of their own.
//!
//! - nft's table `inet BRIDGE` keeps other networks away from the machines. It is there as long as the network is.
//! - nft's table `ip BRIDGE` gives the machines this computer's address on their way out.
//! - iptables' chain `mullion-BRIDGE` lets the machines' packets pass where the `FORWARD` chain drops by its policy. An
//!   accept in another table does not override that policy, so one jump at the end of `FORWARD` leads to the chain.
//!
//! Rules of others are never changed, and nothing but whether a setting stays depends on them. The jump is the last rule on purpose: an administrator who drops or
//! rejects the machines' packets with a rule of their own means it.

use ipnet::Ipv4Net;
use mullion_spec::words::MachineAccess;

use super::{exec, names};
use crate::error::DriverError;

/// How long iptables waits for others who change rules, in seconds.
const LOCK: &str = "10";

/// What iptables says when others held the rules all that time.
const HELD: &str = "xtables lock";

/// The most jumps to the chain that are removed: more than one are the work of two runs at once.
const JUMPS: usize = 8;

/// The families of the two tables.
const GUARD: &str = "inet";
const WAY_OUT: &str = "ip";

/// Which of a network's tables there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tables {
    pub(super) guard: bool,
    pub(super) way_out: bool,
}

impl Tables {
    /// Looks which there are, whatever they hold.
    pub(super) fn of(bridge: &str) -> Result<Self, DriverError> {
        // Without the program Mullion made none, or the kernel lost them when the computer restarted.
        let tables = match exec::run("nft", &["list", "tables"]) {
            Ok(tables) => tables,
            Err(DriverError::MissingProgram(_)) => String::new(),
            Err(error) => return Err(error),
        };
        let has = |family: &str| {
            let ours = format!("table {family} {bridge}");
            tables.lines().any(|line| line.trim() == ours)
        };
        Ok(Self {
            guard: has(GUARD),
            way_out: has(WAY_OUT),
        })
    }

    /// Whether a version made the network that had no guard yet, and put rules into a chain of others.
    pub(super) const fn are_older(self, has_bridge: bool) -> bool {
        !self.guard && (has_bridge || self.way_out)
    }

    pub(super) const fn any(self) -> bool {
        self.guard || self.way_out
    }
}

/// Sets from where the machines can be reached.
pub(super) fn set_access(bridge: &str, access: MachineAccess) -> Result<(), DriverError> {
    let chain = match access {
        MachineAccess::Host => format!(" chain access {{\n{}\n }}\n", guard(bridge).join("\n")),
        // An empty table: it shows that this network has no rules outside of chains of its own.
        MachineAccess::Lan => String::new(),
    };
    replace_table(GUARD, bridge, &chain)
}

/// From where the machines can be reached, as the firewall has it.
pub(super) fn access(bridge: &str) -> Result<MachineAccess, DriverError> {
    let table = list_table(GUARD, bridge)?.unwrap_or_default();
    Ok(if has_chain_in(&table, "access", &guard(bridge)) {
        MachineAccess::Host
    } else {
        MachineAccess::Lan
    })
}

/// Whether a table as nft prints it works, and has a chain that begins with these lines. A rule in front of them could let
/// packets pass them by.
fn has_chain_in(table: &str, chain: &str, wanted: &[String]) -> bool {
    let found: Vec<_> = table.lines().map(str::trim).collect();
    let begin = format!("chain {chain} {{");
    let is_asleep = found
        .iter()
        .any(|line| line.starts_with("flags") && line.contains("dormant"));
    !is_asleep
        && found
            .windows(wanted.len() + 1)
            .any(|lines| lines[0] == begin && lines[1..].iter().zip(wanted).all(|(a, b)| a == b))
}

/// The guard's chain as nft prints it: what comes from another interface passes only if a machine asked for it. A drop
/// is final in whatever table it stands.
fn guard(bridge: &str) -> [String; 3] {
    let from_elsewhere = format!("iifname != \"{bridge}\" oifname \"{bridge}\"");
    [
        "type filter hook forward priority 0; policy accept;".into(),
        format!("{from_elsewhere} ct state established,related accept"),
        format!("{from_elsewhere} drop"),
    ]
}

/// Gives machines this computer's address when they reach other networks, and lets their packets pass.
pub(super) fn open_way_out(
    bridge: &str,
    network: Ipv4Net,
    access: MachineAccess,
) -> Result<(), DriverError> {
    let chain = format!(" chain way-out {{\n{}\n }}\n", way_out(network).join("\n"));
    replace_table(WAY_OUT, bridge, &chain)?;
    if drops_by_policy()? && !has_passes(bridge, access)? {
        let chain = chain_name(bridge);
        if !has_chain(&chain)? {
            iptables(&["-N", &chain])?;
        }
        iptables(&["-F", &chain])?;
        for rule in passes(bridge, access) {
            iptables(&[&["-A", chain.as_str()], rule.as_slice()].concat())?;
        }
        if !holds(&["FORWARD", "-j", &chain])? {
            iptables(&["-A", "FORWARD", "-j", &chain])?;
        }
    }
    Ok(())
}

/// The chain of a way out as nft prints it.
fn way_out(network: Ipv4Net) -> [String; 2] {
    [
        "type nat hook postrouting priority 100; policy accept;".into(),
        format!("ip saddr {network} ip daddr != {network} masquerade"),
    ]
}

/// What of the way out is missing, in words.
pub(super) fn way_out_lacks(
    bridge: &str,
    network: Ipv4Net,
    access: MachineAccess,
) -> Result<Option<String>, DriverError> {
    let table = list_table(WAY_OUT, bridge)?.unwrap_or_default();
    if !has_chain_in(&table, "way-out", &way_out(network)) {
        return Ok(Some(format!(
            "its way out, nft's table {bridge}, is gone or was changed"
        )));
    }
    let is_passed = !drops_by_policy()?
        || has_passes(bridge, access)?
        // What an older version made serves as well, and is replaced when the network is made again.
        || hold_all(&older_passes(bridge))?;
    Ok((!is_passed).then(|| format!("the firewall drops what passes through {bridge}")))
}

/// Whether the network's chain for packets that pass is there.
pub(super) fn has_pass_chain(bridge: &str) -> Result<bool, DriverError> {
    has_chain(&chain_name(bridge))
}

/// Removes the rules that let packets pass; `by_older` where an older version made the network.
pub(super) fn remove_passes(bridge: &str, by_older: bool) -> Result<(), DriverError> {
    // Without the program there are no rules of its making.
    match exec::run("iptables", &["--version"]) {
        Err(DriverError::MissingProgram(_)) => return Ok(()),
        told => told?,
    };
    let chain = chain_name(bridge);
    let jump = ["FORWARD", "-j", chain.as_str()];
    for _ in 0..JUMPS {
        if !holds(&jump)? {
            break;
        }
        iptables(&[&["-D"], jump.as_slice()].concat())?;
    }
    if has_chain(&chain)? {
        iptables(&["-F", &chain])?;
        // It stays, and holds nothing, where a rule of somebody else leads to it: that rule is not Mullion's to delete.
        let _ = iptables(&["-X", &chain]);
    }
    if by_older {
        remove_older_passes(bridge)?;
    }
    Ok(())
}

/// Removes the two rules that older versions put into `FORWARD` itself, and only these: each is known exactly.
pub(super) fn remove_older_passes(bridge: &str) -> Result<(), DriverError> {
    for rule in older_passes(bridge) {
        if holds(&rule)? {
            iptables(&[&["-D"], rule.as_slice()].concat())?;
        }
    }
    Ok(())
}

/// Removes a network's way out.
pub(super) fn remove_way_out(bridge: &str) -> Result<(), DriverError> {
    exec::run("nft", &["delete", "table", WAY_OUT, bridge]).map(drop)
}

/// Removes a network's guard.
pub(super) fn remove_guard(bridge: &str) -> Result<(), DriverError> {
    exec::run("nft", &["delete", "table", GUARD, bridge]).map(drop)
}

/// Gives a table these chains, in one transaction, whatever it held before.
fn replace_table(family: &str, bridge: &str, chains: &str) -> Result<(), DriverError> {
    let rules = format!(
        "add table {family} {bridge}\ndelete table {family} {bridge}\n\
         table {family} {bridge} {{\n{chains}}}\n"
    );
    exec::run_with("nft", &["-f", "-"], &rules).map(drop)
}

/// A table of ours as nft prints it; `None` where it is not there.
fn list_table(family: &str, bridge: &str) -> Result<Option<String>, DriverError> {
    // Priorities as numbers: nft has a name for some, and which depends on its version.
    match exec::run("nft", &["-y", "list", "table", family, bridge]) {
        Ok(table) => Ok(Some(table)),
        Err(DriverError::MissingProgram(_) | DriverError::Program { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// iptables allows 28 characters.
fn chain_name(bridge: &str) -> String {
    format!("mullion-{bridge}")
}

/// The rules of the chain.
fn passes(bridge: &str, access: MachineAccess) -> [Vec<&str>; 2] {
    let mut to_machines = vec!["-o", bridge];
    if access == MachineAccess::Host {
        // The guard drops the rest; this holds where somebody flushed nft's tables and kept iptables'.
        to_machines.extend(["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"]);
    }
    to_machines.extend(["-j", "ACCEPT"]);
    [vec!["-i", bridge, "-j", "ACCEPT"], to_machines]
}

/// What older versions put in front of everyone else's rules.
fn older_passes(bridge: &str) -> [[&str; 5]; 2] {
    ["-i", "-o"].map(|direction| ["FORWARD", direction, bridge, "-j", "ACCEPT"])
}

fn has_passes(bridge: &str, access: MachineAccess) -> Result<bool, DriverError> {
    let chain = chain_name(bridge);
    let rules = passes(bridge, access).map(|rule| [&[chain.as_str()], rule.as_slice()].concat());
    // Nothing else is in it: a rule in front could drop what ours let pass.
    let has_others = || {
        let listed = iptables(&["-S", &chain])?;
        Ok::<_, DriverError>(listed.lines().count() != rules.len() + 1)
    };
    Ok(holds(&["FORWARD", "-j", &chain])? && hold_all(&rules)? && !has_others()?)
}

fn hold_all<'a>(rules: &[impl AsRef<[&'a str]>]) -> Result<bool, DriverError> {
    for rule in rules {
        if !holds(rule.as_ref())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a rule of somebody else changes the addresses of packets, as a computer does that passes packets on for others.
///
/// Rules are only searched for these words. A comment that has one is taken for such a rule: then a setting stays. It
/// stays, too, where a program is there and cannot list the rules: that must not keep a network from being removed.
pub(super) fn others_translate() -> Result<bool, DriverError> {
    let is_translation = |line: &str| {
        let mut words = line.split([' ', '"']);
        words.any(|word| TRANSLATIONS.contains(&word.to_ascii_lowercase().as_str()))
    };
    let listed = match exec::run("nft", &["list", "ruleset"]) {
        Ok(listed) => listed,
        Err(DriverError::MissingProgram(_)) => String::new(),
        Err(DriverError::CalledOff) => return Err(DriverError::CalledOff),
        Err(_) => return Ok(true),
    };
    let mut is_ours = false;
    for line in listed.lines() {
        if line.starts_with("table ") {
            is_ours = line.split(' ').nth(2).is_some_and(names::is_short);
        }
        if !is_ours && is_translation(line) {
            return Ok(true);
        }
    }
    // The older way of the kernel, where it is in use: nft does not list its rules.
    match exec::run("iptables-legacy-save", &["-t", "nat"]) {
        Ok(saved) => Ok(saved.lines().any(is_translation)),
        // It also fails on a kernel that does not have the older way.
        Err(DriverError::MissingProgram(_) | DriverError::Program { .. }) => Ok(false),
        Err(DriverError::CalledOff) => Err(DriverError::CalledOff),
        Err(_) => Ok(true),
    }
}

/// What rules that change addresses are called, in lower case.
const TRANSLATIONS: [&str; 4] = ["dnat", "masquerade", "netmap", "snat"];

/// Whether packets that no rule names are dropped; container engines set it up so.
fn drops_by_policy() -> Result<bool, DriverError> {
    match iptables(&["-S", "FORWARD"]) {
        // The first line alone is the policy. What follows are rules of others, whose comments can hold any text.
        Ok(rules) => Ok(rules.lines().next() == Some("-P FORWARD DROP")),
        Err(DriverError::Program { tail, .. }) if !tail.contains(HELD) => Ok(false),
        Err(DriverError::MissingProgram(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether exactly this rule is there.
fn holds(rule: &[&str]) -> Result<bool, DriverError> {
    is_there(&[&["-C"], rule].concat())
}

fn has_chain(chain: &str) -> Result<bool, DriverError> {
    is_there(&["-S", chain])
}

/// Whether iptables finds what is asked for. One that could not look has not said that it is absent.
fn is_there(args: &[&str]) -> Result<bool, DriverError> {
    match iptables(args) {
        Ok(_) => Ok(true),
        Err(DriverError::Program { tail, .. }) if !tail.contains(HELD) => Ok(false),
        Err(DriverError::MissingProgram(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn iptables(args: &[&str]) -> Result<String, DriverError> {
    exec::run("iptables", &[&["-w", LOCK], args].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(tail: &'static str) {
        exec::play::by(move |name, args| {
            if args == ["--version"] {
                return Ok(String::new());
            }
            Err(DriverError::Program {
                command: name.into(),
                tail: tail.into(),
            })
        });
    }

    #[test]
    fn promise_08_a_computer_that_translates_addresses_for_others_is_known() {
        let translates = |nft: &str, legacy: &str| {
            let (nft, legacy) = (nft.to_owned(), legacy.to_owned());
            exec::play::by(move |name, _| Ok(if name == "nft" { &nft } else { &legacy }.clone()));
            others_translate().unwrap()
        };
        let own = "table ip mul0123abcd {\n\tchain way-out {\n\t\tip saddr 10.9.0.0/24 masquerade\n\t}\n}\n";
        assert!(!translates("", ""));
        assert!(!translates(
            own,
            "*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n"
        ));
        assert!(translates("", "-A POSTROUTING -o eth1 -j MASQUERADE\n"));
        for theirs in [
            "table ip nat {\n\tchain POSTROUTING {\n\t\toifname \"eth1\" counter packets 0 bytes 0 masquerade\n\t}\n}",
            "table ip nat {\n\tchain POSTROUTING {\n\t\tcounter packets 0 bytes 0 xt target \"MASQUERADE\"\n\t}\n}",
            "table inet mullet {\n\tchain a {\n\t\tip saddr 10.0.0.0/8 snat to 192.0.2.1\n\t}\n}",
        ] {
            assert!(translates(theirs, ""), "{theirs}");
            assert!(translates(&format!("{own}{theirs}"), ""), "{theirs}");
        }
    }

    #[test]
    fn promise_08_rules_that_nft_cannot_list_are_taken_for_those_of_others() {
        failing("Error: Could not process rule: Invalid argument");
        assert!(others_translate().unwrap());
        exec::play::by(|name, _| Err(DriverError::MissingProgram(name.into())));
        assert!(!others_translate().unwrap());
        // Who cancels `down` has not said that the setting stays.
        exec::play::by(|_, _| Err(DriverError::CalledOff));
        assert!(others_translate().is_err());
    }

    #[test]
    fn promise_08_rules_are_known_by_what_they_do() {
        let network: Ipv4Net = "10.9.0.0/24".parse().unwrap();
        let table = |first: &str, rules: &str| {
            let [hook, masquerade] = way_out(network);
            format!(
                "table ip mul1 {{\n{first}\tchain way-out {{\n\t\t{hook}\n{rules}\t\t{masquerade}\n\t}}\n}}\n"
            )
        };
        let holds = |table: &str| has_chain_in(table, "way-out", &way_out(network));
        assert!(holds(&table("", "")));
        assert!(!holds(&table("\tflags dormant\n", "")));
        assert!(!holds(&table("", "\t\treturn comment \"masquerade\"\n")));
        assert!(!holds(
            &table("", "").replace("10.9.0.0/24 masq", "10.9.0.0/8 masq")
        ));
    }

    #[test]
    fn promise_08_rules_that_could_not_be_looked_at_are_not_taken_as_absent() {
        failing("Another app is currently holding the xtables lock; still 1s 0us time ahead");
        assert!(remove_passes("mul1", true).is_err());
        failing("iptables: Bad rule (does a matching rule exist in that chain?).");
        remove_passes("mul1", true).unwrap();
        exec::play::by(|name, _| Err(DriverError::MissingProgram(name.into())));
        remove_passes("mul1", true).unwrap();
    }
}
