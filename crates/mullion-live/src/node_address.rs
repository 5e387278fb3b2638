//! By which of its addresses a machine is a node.

use std::net::{IpAddr, ToSocketAddrs as _};

use ipnet::Ipv4Net;
use mullion_plan::{ErrorClass, StepError, address_in_line, chosen_address};
use mullion_spec::cluster::NodeIp;
use mullion_spec::value::MachineName;

use super::talk::Told;
use super::{Adapter, lock};

impl Adapter<'_> {
    /// The address that the name of a machine of the user's leads to, where the file has it by its name.
    pub(super) fn login_address(&self, machine: &MachineName) -> Option<IpAddr> {
        let group = self.group(machine)?;
        if group.node_ip.is_some() {
            return None;
        }
        let machine = self.cluster().machine(machine)?;
        let given = machine.given_address()?.to_string();
        resolved(&machine.name, &given).ok()
    }

    /// The one that the file names, else the one that it is logged in to by.
    pub(super) fn node_address(&self, machine: &MachineName) -> Result<IpAddr, StepError> {
        if let Some(found) = lock(&self.node_addresses).get(machine) {
            return Ok(*found);
        }
        let wish = self.group(machine).and_then(|group| group.node_ip.as_ref());
        let found = match wish {
            Some(NodeIp::Address(address)) => *address,
            Some(wish) => self.told_address(machine, wish)?,
            None => {
                let basis = self.basis()?;
                resolved(machine, basis.roster.address(machine).unwrap_or_default())?
            }
        };
        lock(&self.node_addresses).insert(machine.clone(), found);
        Ok(found)
    }

    /// The one that fits among those that its agent tells.
    fn told_address(&self, machine: &MachineName, wish: &NodeIp) -> Result<IpAddr, StepError> {
        let Told::Facts(facts) = self.told(machine)? else {
            let words = format!("{machine} has not told its addresses yet");
            return Err(StepError::new(ErrorClass::Unreachable, words));
        };
        chosen_address(wish, &facts.addresses).ok_or_else(|| {
            let words = format!("{machine} has no address {}", place(wish));
            let hint = format!("it has {}; correct `nodeIP`", facts.addresses.join(", "));
            StepError::new(ErrorClass::Refused, words).hint(hint)
        })
    }

    /// Whether a machine's agent decides by which address the machine is a node.
    pub(super) fn is_told(&self, machine: &MachineName) -> bool {
        let wish = self.group(machine).and_then(|group| group.node_ip.as_ref());
        matches!(wish, Some(NodeIp::Network(_) | NodeIp::Adapter(_)))
    }

    /// The addresses of a machine that no other one may be a node by.
    ///
    /// `has_all` for all that its agent told, in an earlier run where it does not answer now. The file's own word about
    /// another machine counts more: then it is the address alone by which this one is a node, if it can be found now.
    pub(super) fn addresses_of_other(
        &self,
        machine: &MachineName,
        has_all: bool,
    ) -> Result<Vec<IpAddr>, StepError> {
        let is_told = self.is_told(machine);
        let mut found = Vec::new();
        if !is_told {
            found.extend(self.node_address(machine).ok());
        }
        if !is_told && !has_all {
            return Ok(found);
        }
        let lines = self.addresses.ask_once(machine, || {
            let told = self.told(machine).map(|_| ());
            // Whoever needs the machine next connects to it again, and then it can be asked.
            told.inspect_err(|_| self.drop_session(machine))
        });
        // One that does not answer is known by its Node object too.
        if let Some(lines) = lines.as_deref().filter(|_| is_told) {
            let wish = self.group(machine).and_then(|group| group.node_ip.as_ref());
            found.extend(wish.and_then(|wish| chosen_address(wish, lines)));
        }
        if has_all {
            let lines = match lines {
                Some(lines) => lines,
                None => self.kept_addresses(machine)?,
            };
            found.extend(own_addresses(self.cluster().network.pods, &lines));
        }
        Ok(found)
    }
}

/// Where an address was looked for, for people.
fn place(wish: &NodeIp) -> String {
    match wish {
        NodeIp::Address(address) => address.to_string(),
        NodeIp::Network(network) => format!("in {network}"),
        NodeIp::Adapter(adapter) => format!("on the adapter `{adapter}`"),
    }
}

/// The addresses in lines such as `host0 10.99.0.11/24` that no other machine may have. Left out are those that several
/// machines may have: on bridges for pods, and on a link of their own.
fn own_addresses(pods: Ipv4Net, lines: &[String]) -> Vec<IpAddr> {
    let addresses = lines
        .iter()
        .filter_map(|line| Some(address_in_line(line)?.1));
    addresses
        .filter(|address| !matches!(address, IpAddr::V4(v4) if pods.contains(v4)))
        .filter(|address| !is_link_local(*address))
        .collect()
}

/// Whether several machines may have the same address, each on a link of its own.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// The address that a text is, or the first IPv4 address of a name.
fn resolved(machine: &MachineName, text: &str) -> Result<IpAddr, StepError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let unknown = |cause: &str| {
        let words = format!("the address of {machine} is not known: `{text}` {cause}");
        StepError::new(ErrorClass::Unreachable, words)
            .hint("write the machine's IPv4 address, or see to it that its name can be resolved")
    };
    let found = (text, 0).to_socket_addrs();
    let found = found.map_err(|error| unknown(&format!("cannot be resolved ({error})")))?;
    // Servers of names give several addresses in another order each time.
    found
        .filter(std::net::SocketAddr::is_ipv4)
        .map(|address| address.ip())
        .min()
        .ok_or_else(|| unknown("has no IPv4 address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_11_every_address_of_another_machine_counts_as_its_own() {
        let lines = [
            "eth0 192.0.2.11/24",
            "eth0 fe80::1/64",
            "Ethernet 2 198.51.100.7/24",
            "cni0 10.244.1.1/24",
            "eth3 169.254.7.7/16",
        ];
        let pods = "10.244.0.0/16".parse().unwrap();
        let found = own_addresses(pods, &lines.map(str::to_owned));
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.11", "198.51.100.7"]);
    }

    #[test]
    fn a_name_is_resolved_once_and_one_that_cannot_be_is_told() {
        let machine = "lin1".parse().unwrap();
        let address = resolved(&machine, "192.0.2.11").unwrap();
        assert_eq!(address.to_string(), "192.0.2.11");
        assert_eq!(
            resolved(&machine, "localhost").unwrap().to_string(),
            "127.0.0.1"
        );
        let error = resolved(&machine, "no-such-machine.invalid").unwrap_err();
        assert!(error.words.contains("`no-such-machine.invalid`"), "{error}");
        assert!(!error.hints.is_empty());
    }
}
