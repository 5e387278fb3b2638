//! Machines that stand in for Windows: every view marks them alike.

use mullion_catalog::Catalog;
use mullion_spec::cluster::Cluster;

/// The machines of a cluster that stand in for Windows.
pub fn stand_ins(cluster: &Cluster) -> Vec<String> {
    let catalog = Catalog::builtin();
    let machines = cluster.machines();
    machines
        .filter(|machine| catalog.driver(machine.group.carrier.driver()).stand_in)
        .map(|machine| machine.name.to_string())
        .collect()
}

/// The line that marks them; none where there are none.
pub fn stand_in_mark(machines: &[String]) -> Option<String> {
    let machines = (!machines.is_empty()).then(|| machines.join(", "))?;
    Some(format!(
        "stand-in: {machines} (real Windows programs, no Windows: a rehearsal, not a proof)"
    ))
}
