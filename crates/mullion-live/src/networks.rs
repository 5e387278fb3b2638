//! The networks that a cluster was created with, in its state folder.
//!
//! A network that Mullion chose must not move when the routes of the computer change.

use ipnet::Ipv4Net;
use mullion_spec::networks::Settled;
use serde::{Deserialize, Serialize};

use super::state::{ClusterState, StateError};

/// The file that holds them.
pub(super) const NETWORKS: &str = "networks.json";

#[derive(Debug, Serialize, Deserialize)]
struct Networks {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machines: Option<Ipv4Net>,
    pods: Ipv4Net,
    services: Ipv4Net,
}

impl ClusterState {
    /// The networks of the cluster; none where no run wrote them, as in earlier versions.
    pub fn networks(&self) -> Result<Option<Settled>, StateError> {
        let kept = self.read_versioned(NETWORKS)?;
        Ok(kept.map(|networks: Networks| Settled {
            machines: networks.machines,
            pods: Some(networks.pods),
            services: Some(networks.services),
        }))
    }

    /// Keeps the networks of the cluster.
    pub fn keep_networks(
        &self,
        machines: Option<Ipv4Net>,
        pods: Ipv4Net,
        services: Ipv4Net,
    ) -> Result<(), StateError> {
        let networks = Networks {
            machines,
            pods,
            services,
        };
        self.keep_versioned(NETWORKS, networks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_networks_of_a_cluster_are_kept_and_what_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let state = ClusterState::of(folder.path(), &"demo".parse().unwrap());
        assert_eq!(state.networks().unwrap(), None);
        let net = |text: &str| text.parse::<Ipv4Net>().unwrap();
        let (pods, services) = (net("172.29.0.0/16"), net("172.28.0.0/16"));
        for machines in [Some(net("172.30.0.0/24")), None] {
            state.keep_networks(machines, pods, services).unwrap();
            let kept = state.networks().unwrap().unwrap();
            assert_eq!(kept.machines, machines);
            assert_eq!((kept.pods, kept.services), (Some(pods), Some(services)));
        }
        let file = state.folder().join(NETWORKS);
        for text in [
            "",
            "[]",
            "{}",
            "{\"version\":1}",
            "{\"version\":1,\"pods\":\"x\"}",
        ] {
            fs_err::write(&file, text).unwrap();
            let error = state.networks().unwrap_err();
            assert!(matches!(error, StateError::Damaged { .. }), "{text}");
            assert!(error.to_string().contains(NETWORKS), "{error}");
            assert!(state.check().is_err(), "{text}");
        }
        fs_err::write(&file, "{\"version\":2,\"pods\":{}}").unwrap();
        assert!(matches!(state.networks(), Err(StateError::Newer { .. })));
    }
}
