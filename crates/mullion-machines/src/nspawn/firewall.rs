//! Packet rules of a cluster's network. They stand in tables and a chain of their own.
//!
//! - nft's table `inet BRIDGE` keeps other networks away from the machines. It is there as long as the network is.
//! - nft's table `ip BRIDGE` gives the machines this computer's address on their way out.
//! - iptables' chain `mullion-BRIDGE` lets the machines' packets pass where the `FORWARD` chain drops by its policy. An
//!   accept in another table does not override that policy, so one jump at the end of `FORWARD` leads to the chain.
//!
//! Rules of others are neither read nor changed. The jump is the last rule on purpose: an administrator who drops or
//! rejects the machines' packets with a rule of their own means it.

use ipnet::Ipv4Net;
use mullion_spec::words::MachineAccess;

use super::exec;
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
    let found: Vec<_> = table.lines().map(str::trim).collect();
    let wanted = guard(bridge);
    // Next to each other, and nothing before them: a rule in front could let others in.
    let is_guarded = found.windows(wanted.len() + 1).any(|lines| {
        lines[0] == "chain access {" && lines[1..].iter().zip(&wanted).all(|(a, b)| a == b)
    });
    Ok(if is_guarded {
        MachineAccess::Host
    } else {
        MachineAccess::Lan
    })
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
    let chain = format!(
        " chain way-out {{\n{HOOK} policy accept;\n{}\n }}\n",
        masquerade(network)
    );
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

/// Where the chain of a way out hangs.
const HOOK: &str = "type nat hook postrouting priority 100;";

fn masquerade(network: Ipv4Net) -> String {
    format!("ip saddr {network} ip daddr != {network} masquerade")
}

/// What of the way out is missing, in words.
pub(super) fn way_out_lacks(
    bridge: &str,
    network: Ipv4Net,
    access: MachineAccess,
) -> Result<Option<String>, DriverError> {
    let table = list_table(WAY_OUT, bridge)?.unwrap_or_default();
    let masquerade = masquerade(network);
    let has = |wanted: &str| table.lines().any(|line| line.trim().starts_with(wanted));
    if !has(HOOK) || !has(&masquerade) {
        return Ok(Some(format!("its way out, nft's table {bridge}, is gone")));
    }
    let is_passed = !drops_by_policy()?
        || has_passes(bridge, access)?
        // What an older version made serves as well, and is replaced when the network is made again.
        || hold_all(&older_passes(bridge))?;
    Ok((!is_passed).then(|| format!("the firewall drops what passes through {bridge}")))
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
    Ok(holds(&["FORWARD", "-j", &chain])? && hold_all(&rules)?)
}

fn hold_all<'a>(rules: &[impl AsRef<[&'a str]>]) -> Result<bool, DriverError> {
    for rule in rules {
        if !holds(rule.as_ref())? {
            return Ok(false);
        }
    }
    Ok(true)
}

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
    fn promise_08_rules_that_could_not_be_looked_at_are_not_taken_as_absent() {
        failing("Another app is currently holding the xtables lock; still 1s 0us time ahead");
        assert!(remove_passes("mul1", true).is_err());
        failing("iptables: Bad rule (does a matching rule exist in that chain?).");
        remove_passes("mul1", true).unwrap();
        exec::play::by(|name, _| Err(DriverError::MissingProgram(name.into())));
        remove_passes("mul1", true).unwrap();
    }
}
