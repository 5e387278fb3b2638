//! What this computer has of a cluster.

use mullion_plan::{Discover, DiscoverError, HostFacts, Observed, Place};
use mullion_spec::cluster::Cluster;
use mullion_spec::draft::Surroundings;

/// This computer, as far as this release can look: its networks.
///
/// No driver makes anything yet, so there is nothing of ours to find.
#[derive(Debug)]
pub struct ThisComputer {
    /// What is around.
    pub surroundings: Surroundings,
}

impl Discover for ThisComputer {
    fn observe(&self, _cluster: &Cluster) -> Result<Observed, DiscoverError> {
        let networks = self.surroundings.networks.iter();
        let here = HostFacts {
            network: None,
            foreign: networks.map(|(net, _)| (*net).into()).collect(),
        };
        let mut observed = Observed::default();
        observed.hosts.insert(Place::Here, here);
        Ok(observed)
    }
}
