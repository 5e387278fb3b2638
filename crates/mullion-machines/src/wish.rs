//! What a driver is asked to make.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use ipnet::Ipv4Net;
use mullion_plan::{Identity, Size, TemplateId};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::{MachineAccess, Os};

/// A cluster's machine network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkWish {
    /// The cluster.
    pub cluster: ClusterName,
    /// The network; its first address is this computer's.
    pub network: Ipv4Net,
    /// From where its machines can be reached.
    pub access: MachineAccess,
    /// What its label says of the cluster beside the name.
    pub identity: Option<Identity>,
}

/// A machine to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineWish {
    /// The cluster.
    pub cluster: ClusterName,
    /// The machine; also its host name.
    pub name: MachineName,
    /// The template it is made from.
    pub template: TemplateId,
    /// Where that template is.
    pub template_path: PathBuf,
    /// The system in it.
    pub os: Os,
    /// How large it is.
    pub size: Size,
    /// Its address.
    pub address: Ipv4Addr,
    /// The network of that address; the gateway is its first.
    pub network: Ipv4Net,
    /// Keys that root may log in with, a line each.
    pub authorized_keys: Vec<String>,
    /// Names that it knows.
    pub hosts: Hosts,
    /// DNS servers; this computer's own when empty.
    pub dns: Vec<IpAddr>,
    /// Whether it starts when this computer starts.
    pub autostart: bool,
    /// What its label says of the cluster beside the name.
    pub identity: Option<Identity>,
}

/// The first address of a network, which is this computer's.
pub fn gateway(network: &Ipv4Net) -> Option<Ipv4Addr> {
    (network.prefix_len() <= 30)
        .then(|| network.hosts().next())
        .flatten()
}

/// Names of machines, and where they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hosts(pub BTreeMap<String, IpAddr>);

impl Hosts {
    /// What a Linux machine is made with as `/etc/hosts`.
    pub fn file(&self) -> String {
        self.within("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
    }

    /// A hosts file with these names in place of those that stood there before; other lines are their owner's, and stay.
    pub fn within(&self, found: &str) -> String {
        let mut text = String::new();
        let mut is_ours = false;
        for line in found.lines() {
            is_ours |= line == FIRST_LINE;
            if !is_ours {
                text.push_str(line);
                text.push('\n');
            }
            is_ours &= line != LAST_LINE;
        }
        text.push_str(FIRST_LINE);
        for (name, address) in &self.0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{address} {name}");
        }
        text.push('\n');
        text.push_str(LAST_LINE);
        text.push('\n');
        text
    }
}

/// Between these two lines stand the names that we put there.
const FIRST_LINE: &str = "# Machines of the cluster, by Mullion:";
const LAST_LINE: &str = "# The end of them.";

impl<N: Into<String>, A: Into<IpAddr>> FromIterator<(N, A)> for Hosts {
    fn from_iter<I: IntoIterator<Item = (N, A)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, address)| (name.into(), address.into()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_has_every_name_once_and_always_localhost() {
        let hosts: Hosts = [("lin1", [10, 0, 0, 12]), ("cp1", [10, 0, 0, 11])]
            .into_iter()
            .collect();
        let file = hosts.file();
        assert!(file.contains("127.0.0.1 localhost\n"));
        assert!(file.contains("\n10.0.0.11 cp1\n10.0.0.12 lin1\n"));
    }

    #[test]
    fn names_change_and_lines_of_others_stay() {
        let one = |name: &str| -> Hosts { [(name, [10, 0, 0, 12])].into_iter().collect() };
        let own = "10.0.0.5 registry.lan\n";
        let first = one("lin1").file() + own;
        let second = one("lin2").within(&first);
        assert!(second.contains("127.0.0.1 localhost\n") && second.contains(own));
        assert!(second.contains("10.0.0.12 lin2\n") && !second.contains("lin1"));
        assert_eq!(one("lin2").within(&second), second, "twice is once");
        // A file that somebody wrote anew.
        assert!(one("lin2").within("1.2.3.4 a").starts_with("1.2.3.4 a\n#"));
        // One whose end was lost is not taken for ours to its end for ever.
        let cut = first.replace(LAST_LINE, "");
        assert_eq!(one("lin2").within(&cut), one("lin2").file());
    }

    #[test]
    fn the_gateway_is_the_first_address_where_machines_fit() {
        let gateway = |text: &str| gateway(&text.parse().unwrap());
        assert_eq!(gateway("10.9.0.0/24"), Some([10, 9, 0, 1].into()));
        assert_eq!(gateway("10.9.0.77/24"), Some([10, 9, 0, 1].into()));
        assert_eq!(gateway("10.9.0.0/31"), None);
        assert_eq!(gateway("10.9.0.0/32"), None);
    }
}
