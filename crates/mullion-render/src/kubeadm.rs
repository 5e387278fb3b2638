//! kubeadm's configurations, for the exact version.
//!
//! A configuration is a list of JSON documents, which YAML holds. It names the folder of patches itself: kubeadm takes
//! no `--patches` beside `--config`.

use std::collections::BTreeSet;

use mullion_spec::cluster::{Duty, Group};
use mullion_spec::value::{Address, Effect, MachineName, Taint};
use mullion_spec::version::Minor;
use mullion_spec::words::Os;
use mullion_wire::{KUBEADM_TIMEOUTS, Kubeadm, Patience, Secret};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::RenderError;
use crate::setting::{Ground, Seat, Setting};
use crate::{API_PORT, containerd, kubelet, windows};

/// Where the discovery file lies while kubeadm joins.
pub const DISCOVERY_PATH: &str = "/var/lib/mullion/discovery.conf";

/// The same on Windows, in the folder that the agent keeps secrets in.
const WINDOWS_DISCOVERY_PATH: &str = "C:/Program Files/mullion-secrets/discovery.conf";

/// How long a join token lives.
pub const TOKEN_MINUTES: u32 = 15;

/// From this minor on, kubeadm calls the first version of control groups an error, and says that whoever lets kubelet
/// run on it must let this check pass too (`k8s.io/system-validators` 1.12.1, `cgroup_validator_linux.go`).
const REFUSES_CGROUP_V1: Minor = Minor::one(35);

/// What the first control plane is begun with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitKeys {
    /// A join token, `[a-z0-9]{6}.[a-z0-9]{16}`. Without one kubeadm would make one that lives a day.
    pub token: Secret,
    /// What is written into it, so that it is known for ours where a run was killed before it could be removed.
    pub token_description: &'static str,
    /// The key that certificates are uploaded under, 64 hexadecimal digits, where further control planes follow.
    pub certificate_key: Option<Secret>,
    /// How long kubeadm waits.
    pub patience: Patience,
}

/// What a machine joins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinKeys {
    /// A join token.
    pub token: Secret,
    /// The key that certificates were uploaded under, for a control plane; none where it was given the authorities.
    pub certificate_key: Option<Secret>,
    /// How long kubeadm waits.
    pub patience: Patience,
}

/// What the first control plane is begun with, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitDocument {
    /// The documents of the configuration; the first is kubeadm's `InitConfiguration`, which the secrets are put into.
    pub configuration: Vec<Value>,
    /// Preflight errors that are expected, by kubeadm's names for them.
    pub ignore: BTreeSet<String>,
    /// The folder of patches, which the configuration names; the agent looks whether it is there.
    pub patches: String,
}

/// What a machine joins with, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinDocument {
    /// kubeadm's `JoinConfiguration`, which the secrets are put into.
    pub configuration: Value,
    /// Where the discovery file lies while kubeadm joins.
    pub discovery_path: String,
    /// Preflight errors that are expected, by kubeadm's names for them.
    pub ignore: BTreeSet<String>,
    /// The folder of patches, which the configuration names; the agent looks whether it is there.
    pub patches: String,
}

impl InitDocument {
    /// What the agent is asked for.
    pub fn with(&self, keys: &InitKeys) -> Kubeadm {
        let mut configuration = self.configuration.clone();
        if let Some(init) = configuration.first_mut() {
            init["bootstrapTokens"] = json!([{
                "description": keys.token_description,
                "token": keys.token.reveal(),
                "ttl": format!("{TOKEN_MINUTES}m0s"),
                // Not for signing: who joins has the authority from a file.
                "usages": ["authentication"],
                "groups": ["system:bootstrappers:kubeadm:default-node-token"],
            }]);
            if let Some(key) = &keys.certificate_key {
                init["certificateKey"] = key.reveal().into();
            }
            if let Some(timeouts) = timeouts(keys.patience) {
                init["timeouts"] = timeouts;
            }
        }
        Kubeadm::Init {
            config: documents(&configuration),
            ignore: self.ignore.clone(),
            upload_certs: keys.certificate_key.is_some(),
            patches: Some(self.patches.clone()),
        }
    }

    /// The exact Kubernetes that the cluster begins with: `1.36.4`.
    pub fn kubernetes(&self) -> &str {
        let version = self.of_cluster("/kubernetesVersion");
        version.trim_start_matches('v')
    }

    /// The network of pods.
    pub fn pods(&self) -> &str {
        self.of_cluster("/networking/podSubnet")
    }

    /// The network of services.
    pub fn services(&self) -> &str {
        self.of_cluster("/networking/serviceSubnet")
    }

    fn of_cluster(&self, pointer: &str) -> &str {
        let mut values = self.configuration.iter();
        let found = values.find_map(|document| document.pointer(pointer)?.as_str());
        found.unwrap_or_default()
    }
}

impl JoinDocument {
    /// What the agent is asked for. `discovery` comes from [`discovery`].
    pub fn with(&self, keys: &JoinKeys, discovery: Secret) -> Kubeadm {
        let mut join = self.configuration.clone();
        join["discovery"]["tlsBootstrapToken"] = keys.token.reveal().into();
        if let (Some(key), Some(plane)) = (&keys.certificate_key, join.get_mut("controlPlane")) {
            plane["certificateKey"] = key.reveal().into();
        }
        if let Some(timeouts) = timeouts(keys.patience) {
            join["timeouts"] = timeouts;
        }
        Kubeadm::Join {
            config: documents(&[join]),
            discovery,
            discovery_path: self.discovery_path.clone(),
            ignore: self.ignore.clone(),
            patches: Some(self.patches.clone()),
        }
    }
}

/// What the cluster is begun with on its first control plane.
pub fn init(setting: &Setting<'_>, machine: &MachineName) -> Result<InitDocument, RenderError> {
    let seat = setting.linux_seat(machine)?;
    if seat.group.duty != Duty::ControlPlane {
        return Err(RenderError::OtherDuty {
            machine: machine.clone(),
            wanted: Duty::ControlPlane,
        });
    }
    let init = json!({
        "apiVersion": setting.kubernetes_minor()?.kubeadm_api,
        "kind": "InitConfiguration",
        "localAPIEndpoint": local_endpoint(seat),
        "nodeRegistration": registration(seat),
        "patches": {"directory": kubelet::PATCHES_FOLDER},
        // It would print the token.
        "skipPhases": ["show-join-command"],
    });
    Ok(InitDocument {
        configuration: vec![
            init,
            cluster_configuration(setting)?,
            kubelet_configuration(setting),
        ],
        ignore: expected_preflight_errors(seat.ground()?, setting.minor()),
        patches: kubelet::PATCHES_FOLDER.into(),
    })
}

/// What a machine joins with.
pub fn join(setting: &Setting<'_>, machine: &MachineName) -> Result<JoinDocument, RenderError> {
    let seat = setting.seat(machine)?;
    let places = Places::of(seat);
    if seat.group.duty == Duty::LoadBalancer {
        return Err(RenderError::OtherDuty {
            machine: machine.clone(),
            wanted: Duty::Worker,
        });
    }
    let mut configuration = json!({
        "apiVersion": setting.kubernetes_minor()?.kubeadm_api,
        "kind": "JoinConfiguration",
        "discovery": {"file": {"kubeConfigPath": places.discovery_in_config}},
        "nodeRegistration": registration(seat),
        "patches": {"directory": places.patches},
    });
    if seat.group.duty == Duty::ControlPlane {
        configuration["controlPlane"] = json!({"localAPIEndpoint": local_endpoint(seat)});
    }
    Ok(JoinDocument {
        configuration,
        discovery_path: places.discovery.into(),
        ignore: match seat.group.system.os() {
            Os::Linux => expected_preflight_errors(seat.ground()?, setting.minor()),
            Os::Windows => windows::expected_preflight_errors(seat),
        },
        patches: places.patches.into(),
    })
}

/// The discovery file: where the API server is and what it is known by, but no way to log in. `authority` is the
/// certificate in base64, as it stands in every kubeconfig (`certificate-authority-data`).
pub fn discovery(setting: &Setting<'_>, authority: &str) -> Secret {
    // The form of kubeadm's own `cluster-info`: one cluster without a name, and no context, since a context would have
    // to name a user. Line by line: the agent looks for the authority in it.
    Secret::new(format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: \"\"
  cluster:
    certificate-authority-data: {authority}
    server: https://{server}
contexts: []
current-context: \"\"
users: []
",
        server = setting.endpoint
    ))
}

/// The preflight errors that are expected on a machine, by kubeadm's names for them. Of the checks of kubeadm 1.32.13
/// and 1.36.4 no other one fails on a ground that we make: swap is a warning, forwarding is in the blueprint, and too
/// few processors or too little memory are real.
pub fn expected_preflight_errors(ground: Ground, minor: Minor) -> BTreeSet<String> {
    // The check looks for the kernel's configuration below /boot and /lib/modules or loads a module for it: a system
    // container has the kernel of the computer around it, and neither.
    let cannot_be_verified = ground.is_container();
    // Kubelet is told to run on it (`failCgroupV1`).
    let is_refused = ground.is_v1() && minor >= REFUSES_CGROUP_V1;
    let names: &[&str] = if cannot_be_verified || is_refused {
        &["SystemVerification"]
    } else {
        &[]
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Where kubeadm finds things on a machine.
struct Places {
    discovery: &'static str,
    /// The same file, as the configuration names it: with its drive it would be taken for a URL.
    discovery_in_config: &'static str,
    patches: &'static str,
}

impl Places {
    fn of(seat: Seat<'_>) -> Self {
        match seat.group.system.os() {
            Os::Linux => Self {
                discovery: DISCOVERY_PATH,
                discovery_in_config: DISCOVERY_PATH,
                patches: kubelet::PATCHES_FOLDER,
            },
            Os::Windows => Self {
                discovery: WINDOWS_DISCOVERY_PATH,
                discovery_in_config: r"\Program Files\mullion-secrets\discovery.conf",
                patches: windows::PATCHES_FOLDER,
            },
        }
    }
}

/// kubeadm's own timeouts, for a run that waits longer than usual. Any other run leaves them out, and kubeadm takes its
/// defaults: a run that waits less ends kubeadm at the agent's deadline.
///
/// kubeadm also writes `controlPlaneComponentHealthCheck` into the startup probes of the static pods, where it stays:
/// kubelet gives a control plane on a slow computer as long to start as kubeadm does.
fn timeouts(patience: Patience) -> Option<Value> {
    if patience <= Patience::USUAL {
        return None;
    }
    let seconds = |usual| format!("{}s", patience.times(usual).as_secs());
    let scaled = KUBEADM_TIMEOUTS.map(|(name, usual)| (name.to_owned(), seconds(usual).into()));
    Some(Value::Object(Map::from_iter(scaled)))
}

fn local_endpoint(seat: Seat<'_>) -> Value {
    json!({"advertiseAddress": seat.address.to_string(), "bindPort": API_PORT})
}

fn registration(seat: Seat<'_>) -> Value {
    let taints: Vec<_> = taints(seat.group)
        .into_iter()
        .map(|taint| {
            let mut json = json!({"key": taint.key, "effect": taint.effect});
            if !taint.value.is_empty() {
                json["value"] = taint.value.into();
            }
            json
        })
        .collect();
    json!({
        "name": seat.name.as_str(),
        "criSocket": match seat.group.system.os() {
            Os::Linux => containerd::SOCKET.to_owned(),
            Os::Windows => windows::PIPE.to_owned(),
        },
        "imagePullPolicy": "IfNotPresent",
        "imagePullSerial": false,
        "kubeletExtraArgs": [{"name": "node-ip", "value": seat.address.to_string()}],
        // An empty list is said: with none, a control plane would get kubeadm's own.
        "taints": taints,
    })
}

/// The taints that a group's nodes should have, and register with: its own, and the one that keeps pods away from control
/// planes.
pub fn taints(group: &Group) -> BTreeSet<Taint> {
    let mut taints: BTreeSet<_> = group.taints.iter().cloned().collect();
    if group.duty == Duty::ControlPlane && !group.schedulable {
        taints.insert(control_plane_taint());
    }
    taints
}

/// The taint that kubeadm gives to control planes.
pub fn control_plane_taint() -> Taint {
    Taint {
        key: "node-role.kubernetes.io/control-plane".into(),
        value: String::new(),
        effect: Effect::NoSchedule,
    }
}

fn cluster_configuration(setting: &Setting<'_>) -> Result<Value, RenderError> {
    let network = &setting.cluster().network;
    let argument = |name: &str, value: String| json!({"name": name, "value": value});
    let gates = feature_gates(setting);
    let with_gates = |mut arguments: Vec<Value>| {
        if !gates.is_empty() {
            arguments.push(argument("feature-gates", gates.clone()));
        }
        arguments
    };
    let share = argument("node-cidr-mask-size", network.pods_per_node.to_string());
    // At its start it asks for the account of every controller, some 150 requests: with the 20 a second that it allows
    // itself, no certificate is signed and no pod is made for five seconds.
    let rate = argument("kube-api-qps", "100".into());
    let burst = argument("kube-api-burst", "200".into());
    Ok(json!({
        "apiVersion": setting.kubernetes_minor()?.kubeadm_api,
        "kind": "ClusterConfiguration",
        // As strong as the RSA of the default, and made in a tenth of the time.
        "encryptionAlgorithm": "ECDSA-P256",
        "clusterName": setting.cluster().name.as_str(),
        "kubernetesVersion": format!("v{}", setting.model.kubernetes().version),
        "controlPlaneEndpoint": setting.endpoint.to_string(),
        "networking": {
            "dnsDomain": network.domain,
            "podSubnet": network.pods.to_string(),
            "serviceSubnet": network.services.to_string(),
        },
        "apiServer": {
            "certSANs": server_names(setting),
            "extraArgs": with_gates(vec![]),
        },
        "controllerManager": {"extraArgs": with_gates(vec![share, rate, burst])},
        "scheduler": {"extraArgs": with_gates(vec![])},
        "etcd": {"local": {"dataDir": "/var/lib/etcd"}},
        // Both are object sets of ours. Said here and not as skipped phases, so that an upgrade leaves them out, too.
        "dns": {"disabled": true},
        "proxy": {"disabled": true},
    }))
}

/// What holds for every kubelet, whatever its system. The rest is in each machine's patch.
fn kubelet_configuration(setting: &Setting<'_>) -> Value {
    let mut kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "rotateCertificates": true,
        "serverTLSBootstrap": true,
    });
    let gates = &setting.cluster().kubernetes.feature_gates;
    if !gates.is_empty() {
        kubelet["featureGates"] = json!(gates);
    }
    kubelet
}

/// The names and addresses that the API server's certificate is good for.
fn server_names(setting: &Setting<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["127.0.0.1".to_owned(), "localhost".to_owned()]);
    names.insert(match &setting.endpoint.address {
        Address::Ip(address) => address.to_string(),
        Address::Name(name) => name.clone(),
    });
    for seat in setting.control_planes() {
        names.insert(seat.name.to_string());
        names.insert(seat.address.to_string());
    }
    names
}

fn feature_gates(setting: &Setting<'_>) -> String {
    let gates = setting.cluster().kubernetes.feature_gates.iter();
    let gates: Vec<_> = gates.map(|(name, on)| format!("{name}={on}")).collect();
    gates.join(",")
}

fn documents(documents: &[Value]) -> Secret {
    let texts: Vec<_> = documents
        .iter()
        .map(|document| format!("{document:#}\n"))
        .collect();
    Secret::new(texts.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{Cgroups, Footing};

    fn ground(footing: Footing, cgroups: Cgroups) -> Ground {
        Ground {
            footing,
            cgroups,
            can_raise_limits: false,
            has_swap: true,
            has_resolver: false,
        }
    }

    #[test]
    fn only_a_ground_that_cannot_pass_the_check_has_it_passed() {
        let expected = |footing, cgroups, minor| {
            expected_preflight_errors(ground(footing, cgroups), Minor::one(minor))
        };
        for minor in 32..=36 {
            assert!(expected(Footing::Computer, Cgroups::V2, minor).is_empty());
            for cgroups in [Cgroups::V1, Cgroups::Hybrid, Cgroups::V2] {
                assert_eq!(
                    expected(Footing::SystemContainer, cgroups, minor),
                    ["SystemVerification".to_owned()].into()
                );
            }
        }
        assert!(expected(Footing::Computer, Cgroups::V1, 34).is_empty());
        assert!(!expected(Footing::Computer, Cgroups::Hybrid, 35).is_empty());
    }
}
