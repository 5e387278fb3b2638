//! The JSON that HNS is spoken to in (the HCN interface, schema 2.0), and what it answers.

use mullion_wire::{HnsNetwork, OverlayNetwork};
use serde::Deserialize;
use serde_json::{Value, json};

/// The port of VXLAN packets that HNS takes by itself.
const USUAL_PORT: u16 = 4789;

/// The types of networks that pod networks have; others are the user's.
const OF_PODS: &[&str] = &["overlay", "l2bridge", "l2tunnel"];

/// What HNS answers of a thing that it does not have: `HCN_E_NETWORK_NOT_FOUND`, `HCN_E_ENDPOINT_NOT_FOUND`, and for
/// the other kinds, load balancers for one, `ERROR_NOT_FOUND` as every part of Windows has it.
const NOT_FOUND: [u32; 3] = [0x803b_0001, 0x803b_0002, 0x8007_0490];

/// Whether the code of a call says that there is no such thing. Every other failure is one: whoever took it for that
/// would make a network a second time, or leave one behind.
pub(super) fn is_not_found(code: u32) -> bool {
    NOT_FOUND.contains(&code)
}

/// A question for all there is.
pub(super) fn everything() -> String {
    json!({"SchemaVersion": {"Major": 2, "Minor": 0}}).to_string()
}

/// An overlay network over an adapter.
pub(super) fn overlay(wanted: &OverlayNetwork, adapter: &str) -> String {
    let mut policies = vec![json!({
        "Type": "NetAdapterName",
        "Settings": {"NetworkAdapterName": adapter},
    })];
    if wanted.port != USUAL_PORT {
        policies.push(json!({"Type": "VxlanPort", "Settings": {"Port": wanted.port}}));
    }
    json!({
        "Name": wanted.name,
        "Type": "Overlay",
        "Policies": policies,
        "Ipams": [{
            "Type": "Static",
            "Subnets": [{
                "IpAddressPrefix": wanted.subnet,
                "Policies": [{"Type": "VSID", "Settings": {"IsolationId": wanted.vsid}}],
                "Routes": [{"NextHop": wanted.gateway, "DestinationPrefix": "0.0.0.0/0"}],
            }],
        }],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
    .to_string()
}

/// A network as HNS tells it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Network {
    #[serde(rename = "ID", alias = "Id")]
    pub(super) id: String,
    pub(super) name: String,
    #[serde(rename = "Type")]
    pub(super) kind: String,
    policies: Vec<Policy>,
    ipams: Vec<Ipam>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Ipam {
    subnets: Vec<Subnet>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Subnet {
    ip_address_prefix: String,
    policies: Vec<Policy>,
    routes: Vec<Route>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Route {
    next_hop: String,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Policy {
    #[serde(rename = "Type")]
    kind: String,
    settings: Value,
}

impl Network {
    fn subnets(&self) -> impl Iterator<Item = &Subnet> {
        self.ipams.iter().flat_map(|ipam| &ipam.subnets)
    }

    /// Whether it is as wanted. The adapter is not compared: HNS may name the one that it made of it.
    pub(super) fn is(&self, wanted: &OverlayNetwork) -> bool {
        let has_vsid = |subnet: &Subnet| {
            subnet.policies.iter().any(|policy| {
                policy.kind.eq_ignore_ascii_case("VSID")
                    && policy.settings["IsolationId"] == wanted.vsid
            })
        };
        let leads_out = |subnet: &Subnet| {
            let mut routes = subnet.routes.iter();
            routes.any(|route| route.next_hop == wanted.gateway)
        };
        let port = self.policies.iter().find_map(|policy| {
            let is_port = policy.kind.eq_ignore_ascii_case("VxlanPort");
            is_port.then(|| policy.settings["Port"].as_u64())?
        });
        self.kind.eq_ignore_ascii_case("Overlay")
            && port.unwrap_or(u64::from(USUAL_PORT)) == u64::from(wanted.port)
            && self.subnets().any(|subnet| {
                subnet.ip_address_prefix == wanted.subnet && has_vsid(subnet) && leads_out(subnet)
            })
    }

    /// Whether it is one that a pod network leaves behind.
    pub(super) fn is_of_pods(&self) -> bool {
        OF_PODS
            .iter()
            .any(|kind| self.kind.eq_ignore_ascii_case(kind))
    }

    pub(super) fn fact(&self) -> HnsNetwork {
        HnsNetwork {
            id: self.id.clone(),
            name: self.name.clone(),
            kind: self.kind.clone(),
            subnets: self
                .subnets()
                .map(|subnet| subnet.ip_address_prefix.clone())
                .collect(),
        }
    }
}

/// The network that an endpoint is in.
pub(super) fn network_of(endpoint: &str) -> Option<String> {
    let endpoint: Value = serde_json::from_str(endpoint).ok()?;
    let network = &endpoint["HostComputeNetwork"];
    network.as_str().map(str::to_owned)
}

/// What HNS says of a call that failed.
pub(super) fn complaint(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    answer["Error"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use mullion_wire::AdapterChoice;

    use super::*;

    fn wanted() -> OverlayNetwork {
        OverlayNetwork {
            name: "flannel.4096".into(),
            subnet: "10.244.3.0/24".into(),
            gateway: "10.244.3.1".into(),
            vsid: 4096,
            port: 4789,
            adapter: AdapterChoice::Outward,
        }
    }

    #[test]
    fn an_overlay_is_asked_for_as_flannel_asks_for_it() {
        let text = overlay(&wanted(), "Ethernet");
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            document,
            json!({
                "Name": "flannel.4096",
                "Type": "Overlay",
                "Policies": [
                    {"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "Ethernet"}}
                ],
                "Ipams": [{"Type": "Static", "Subnets": [{
                    "IpAddressPrefix": "10.244.3.0/24",
                    "Policies": [{"Type": "VSID", "Settings": {"IsolationId": 4096}}],
                    "Routes": [{"NextHop": "10.244.3.1", "DestinationPrefix": "0.0.0.0/0"}]
                }]}],
                "SchemaVersion": {"Major": 2, "Minor": 0}
            })
        );
        let mut other = wanted();
        other.port = 4790;
        assert!(overlay(&other, "Ethernet").contains(r#""Port":4790"#));
    }

    #[test]
    fn what_hns_tells_is_compared_with_what_was_asked_for() {
        let told = overlay(&wanted(), "vEthernet (Ethernet)");
        let network: Network = serde_json::from_str(&told).unwrap();
        assert!(network.is(&wanted()));
        for change in [
            |wanted: &mut OverlayNetwork| wanted.vsid = 4097,
            |wanted: &mut OverlayNetwork| wanted.port = 4790,
            |wanted: &mut OverlayNetwork| wanted.subnet = "10.244.4.0/24".into(),
            |wanted: &mut OverlayNetwork| wanted.gateway = "10.244.3.2".into(),
        ] {
            let mut other = wanted();
            change(&mut other);
            assert!(!network.is(&other), "{other:?}");
        }
    }

    #[test]
    fn a_network_is_told_to_people() {
        let told = r#"{"ID":"b95d","Name":"nat","Type":"NAT","Flags":0,
            "Ipams":[{"Type":"Static","Subnets":[{"IpAddressPrefix":"172.30.0.0/20"}]}]}"#;
        let network: Network = serde_json::from_str(told).unwrap();
        let fact = network.fact();
        assert_eq!((fact.id.as_str(), fact.name.as_str()), ("b95d", "nat"));
        assert_eq!(fact.subnets, ["172.30.0.0/20"]);
        assert_eq!(everything(), r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#);
    }

    #[test]
    fn only_networks_of_pods_are_cleared() {
        let network = |kind: &str| Network {
            kind: kind.into(),
            ..Network::default()
        };
        assert!(network("Overlay").is_of_pods());
        assert!(network("L2Bridge").is_of_pods());
        for kind in ["NAT", "nat", "ICS", "Transparent", ""] {
            assert!(!network(kind).is_of_pods(), "{kind}");
        }
    }

    #[test]
    fn an_endpoint_tells_its_network() {
        let told = r#"{"ID":"a","HostComputeNetwork":"b95d0c5e-57d4-412b-b571-18a81a16e005"}"#;
        let network = network_of(told).unwrap();
        assert_eq!(network, "b95d0c5e-57d4-412b-b571-18a81a16e005");
        assert_eq!(network_of("{}"), None);
    }

    #[test]
    fn only_a_thing_that_is_missing_counts_as_missing() {
        for (code, expected) in [
            (0x803b_0001, true),
            (0x803b_0002, true),
            (0x8007_0490, true),
            // It went well.
            (0, false),
            // Access denied, no service that answers, not JSON, no such library.
            (0x8007_0005, false),
            (0x8007_06ba, false),
            (0x803b_001b, false),
            (0x8007_007e, false),
        ] {
            assert_eq!(is_not_found(code), expected, "{code:#x}");
        }
    }

    #[test]
    fn a_complaint_is_read() {
        let text = r#"{"Success":false,"Error":"Element not found. ","ErrorCode":2147943568}"#;
        assert_eq!(complaint(text).as_deref(), Some("Element not found. "));
        assert_eq!(complaint("nonsense"), None);
    }
}
