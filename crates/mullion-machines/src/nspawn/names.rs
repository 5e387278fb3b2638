//! Names that the kernel keeps short.

use mullion_spec::value::{ClusterName, MachineName};
use mullion_wire::Sha256Digest;

/// An interface's name has at most 15 characters: the first digits of a digest stand for the long name.
fn short(text: &str) -> String {
    let digest = Sha256Digest::of(text.as_bytes());
    format!("{SHORT}{}", &digest.as_str()[..DIGITS])
}

/// What a short name begins with, and how many digits it has.
const SHORT: &str = "mul";
const DIGITS: usize = 8;

/// A cluster's bridge, and its table of rules.
pub(super) fn bridge(cluster: &ClusterName) -> String {
    short(cluster.as_str())
}

/// What the container program calls a machine: told apart on the whole computer.
pub(super) fn container(cluster: &ClusterName, machine: &MachineName) -> String {
    short(&format!("{cluster}/{machine}"))
}

/// Whether a name is of the form that bridges, tables and control groups have here.
pub(super) fn is_short(name: &str) -> bool {
    name.strip_prefix(SHORT).is_some_and(|digits| {
        digits.len() == DIGITS && digits.chars().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// What the names of cables begin with.
const CABLE: &str = "vb-";

/// This computer's end of a machine's cable: the container program names it so.
pub(super) fn cable(cluster: &ClusterName, machine: &MachineName) -> String {
    format!("{CABLE}{}", container(cluster, machine))
}

/// What the container program calls the machine that a cable belongs to.
pub(super) fn container_of(cable: &str) -> &str {
    cable.strip_prefix(CABLE).unwrap_or(cable)
}

/// Whether an interface has the name of a cable of ours. The container program gives cables to other people's machines,
/// too.
pub(super) fn is_cable(name: &str) -> bool {
    name.strip_prefix(CABLE).is_some_and(is_short)
}

/// The service of the computer's systemd that a machine is, where there is one.
pub(super) fn unit(cluster: &ClusterName, machine: &MachineName) -> String {
    format!("{UNIT}{cluster}.{machine}{SERVICE}")
}

/// Whether a service can be a machine.
pub(super) fn is_unit(name: &str) -> bool {
    let name = name
        .strip_prefix(UNIT)
        .and_then(|name| name.strip_suffix(SERVICE));
    name.and_then(|name| name.split_once('.')).is_some()
}

/// The service that restores a cluster's network. A machine's has a dot in its name, and this one has none.
pub(super) fn network_unit(cluster: &ClusterName) -> String {
    format!("{UNIT}{cluster}{NETWORK}{SERVICE}")
}

/// Whether a service can restore a network.
pub(super) fn is_network_unit(name: &str) -> bool {
    is_unit_file(name) && !is_unit(name)
}

/// Whether a unit file can be ours: a machine's or a network's.
pub(super) fn is_unit_file(name: &str) -> bool {
    is_unit(name)
        || name
            .strip_prefix(UNIT)
            .and_then(|name| name.strip_suffix(SERVICE))
            .is_some_and(|name| name.ends_with(NETWORK))
}

/// Whether a unit file is named as one of that cluster.
pub(super) fn is_unit_of(name: &str, cluster: &ClusterName) -> bool {
    let of_machine = format!("{UNIT}{cluster}.");
    (is_unit(name) && name.starts_with(&of_machine)) || name == network_unit(cluster)
}

const NETWORK: &str = "-network";
const UNIT: &str = "mullion-";
const SERVICE: &str = ".service";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel_and_differ_between_clusters() {
        let cluster = |text: &str| text.parse::<ClusterName>().unwrap();
        let machine: MachineName = "cp1".parse().unwrap();
        let long = cluster(&"x".repeat(63));
        assert!(bridge(&long).len() <= 15);
        assert!(cable(&long, &machine).len() <= 15);
        assert_ne!(
            cable(&cluster("a"), &machine),
            cable(&cluster("b"), &machine)
        );
        // A cluster whose name ends like a network's unit is another one.
        let (one, other) = (cluster("a"), cluster("a-network"));
        assert!(is_unit_of("mullion-a-network.service", &one));
        assert!(!is_unit_of("mullion-a-network.service", &other));
        assert!(is_unit_of("mullion-a-network.cp1.service", &other));
        assert!(!is_unit_of("mullion-a-network.cp1.service", &one));
        assert!(!is_unit_file("mullion-exporter.service"));
        assert!(is_network_unit(&network_unit(&one)));
        assert!(!is_network_unit(&unit(&one, &machine)));
        // Stable for ever: what an older version made is found by a newer one.
        assert_eq!(bridge(&cluster("mullion")), "mul3637f234");
    }
}
