//! flannel on Windows: its service, and the configuration of the pods' network.

use crate::document::File;
use mullion_catalog::{Catalog, HnsNetwork};
use mullion_spec::words::{Backend, Cni};
use mullion_wire::{
    AdapterChoice, Attended, AttendedFile, AttendedProgram, Awaited, OverlayNetwork, Service,
};
use serde_json::{Value, json};

use super::ours::Ours;
use super::{KUBECONFIG, backward, logs, ours, windows_program_path};
use crate::error::RenderError;
use crate::objects::flannel;
use crate::setting::{Seat, Setting};
use crate::system::text_file;

/// flannel's settings, the same as on Linux machines.
pub const NETWORK_SETTINGS: &str = "C:/etc/kube-flannel/net-conf.json";
/// Where flannel writes the machine's share of the pods' addresses down.
pub(super) const SHARE: &str = "C:/run/flannel/subnet.env";
/// Where containerd finds the pods' network.
pub(super) const NETWORKS: &str = "C:/etc/cni/net.d";
/// What kubelet waits for.
const CONFIG: &str = "C:/etc/cni/net.d/10-flannel.conflist";
const FLANNELD: &str = "flanneld";
/// The service of the Host Network Service.
pub(super) const HNS: &str = "hns";

/// The pods' network on Windows machines.
pub(super) struct Network {
    /// What kind of network HNS has.
    pub(super) kind: HnsNetwork,
    /// Its name there.
    pub(super) name: String,
}

impl Network {
    /// The network that flannel makes; none with another plugin.
    pub(super) fn of(setting: &Setting<'_>) -> Option<Self> {
        let network = &setting.cluster().network;
        if network.cni != Cni::Flannel {
            return None;
        }
        let known = Catalog::builtin().cni(network.cni)?;
        let backend = known.backend(network.backend)?;
        Some(Self {
            kind: backend.network?,
            // flannel names an overlay after its number.
            name: match network.backend {
                Backend::Vxlan => format!("flannel.{}", network.vni),
                _ => backend.hns_network.clone()?,
            },
        })
    }

    /// The overlay that is made before flannel makes its own, while nothing depends on connections yet.
    pub(super) fn beforehand(setting: &Setting<'_>, seat: Seat<'_>) -> Option<OverlayNetwork> {
        let network = &setting.cluster().network;
        let known = Catalog::builtin().cni(network.cni)?;
        let wanted = known.backend(network.backend)?.beforehand.as_ref()?;
        Some(OverlayNetwork {
            name: wanted.name.clone(),
            subnet: wanted.subnet.clone(),
            gateway: wanted.gateway.clone(),
            // Two networks of one number would take each other's packets: where the file wants ours, the next is free.
            vsid: wanted.vsid + u32::from(wanted.vsid == network.vni),
            port: network.port,
            adapter: AdapterChoice::Address(seat.address.to_string()),
        })
    }

    pub(super) fn files(
        &self,
        setting: &Setting<'_>,
        seat: Seat<'_>,
    ) -> Result<[File; 2], RenderError> {
        let settings = format!("{:#}\n", flannel::network(setting));
        Ok([
            text_file(NETWORK_SETTINGS, settings),
            ours::file(&self.attended(setting, seat)?),
        ])
    }

    fn attended(&self, setting: &Setting<'_>, seat: Seat<'_>) -> Result<Attended, RenderError> {
        let node = [KUBECONFIG, NETWORK_SETTINGS].map(str::to_owned);
        Ok(Attended {
            version: mullion_wire::VERSION,
            service: FLANNELD.into(),
            share: SHARE.into(),
            program: AttendedProgram {
                awaits: Awaited {
                    files: node.into(),
                    network: None,
                },
                renewed_with: Some(HNS.into()),
                path: windows_program_path(FLANNELD),
                args: vec![
                    "--kube-subnet-mgr".into(),
                    format!("--kubeconfig-file={}", backward(KUBECONFIG)),
                    format!("--net-config-path={}", backward(NETWORK_SETTINGS)),
                    format!("--subnet-file={}", backward(SHARE)),
                    format!("--iface={}", seat.address),
                    "--ip-masq".into(),
                ],
            },
            files: vec![AttendedFile {
                // Before the network is there, every pod would fail: kubelet is not to know of it.
                awaits: Awaited {
                    files: vec![],
                    network: Some(self.name.clone()),
                },
                path: CONFIG.into(),
                text: format!("{:#}\n", self.config(setting, seat)),
            }],
            // One service for all of them: two would take them from each other.
            logs: logs::attended(setting)?,
        })
    }

    /// What flannel's own plugin would make of the machine's share. The second address is kube-proxy's.
    fn config(&self, setting: &Setting<'_>, seat: Seat<'_>) -> Value {
        let network = &setting.cluster().network;
        let policy = |kind: &str, settings: Value| json!({"name": "EndpointPolicy", "value": {"Type": kind, "Settings": settings}});
        let inside = [network.pods, network.services].map(|network| network.to_string());
        let mut policies = vec![
            policy("OutBoundNAT", json!({"Exceptions": inside})),
            policy(
                "SDNRoute",
                json!({"DestinationPrefix": network.services.to_string(), "NeedEncap": true}),
            ),
        ];
        let mut plugin = json!({
            "apiVersion": 2,
            "capabilities": {"dns": true, "portMappings": true},
            // A pod that reaches itself through its Service.
            "loopbackDSR": true,
            "ipam": {
                "type": "host-local",
                "dataDir": "C:/var/lib/cni/networks",
                "subnet": "$(share)",
                "rangeStart": "$(first-pod)",
            },
        });
        match self.kind {
            HnsNetwork::Overlay => {
                plugin["type"] = "win-overlay".into();
                policies.push(policy(
                    "ProviderAddress",
                    json!({"ProviderAddress": seat.address.to_string()}),
                ));
            }
            HnsNetwork::L2bridge => plugin["type"] = "win-bridge".into(),
        }
        plugin["policies"] = policies.into();
        json!({"cniVersion": "1.0.0", "name": self.name, "plugins": [plugin]})
    }

    pub(super) fn service(setting: &Setting<'_>, seat: Seat<'_>) -> Result<Service, RenderError> {
        Ours {
            name: FLANNELD,
            after: "kubelet",
            // Whoever starts HNS anew starts this anew, and what depends on it. Where it crashes, nobody is told: the
            // service looks.
            depends_on: HNS,
            restarted_by: vec![NETWORK_SETTINGS.into()],
            environment: [("NODE_NAME".to_owned(), seat.name.to_string())].into(),
        }
        .service(setting)
    }
}
