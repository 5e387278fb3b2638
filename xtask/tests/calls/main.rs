//! What real Windows programs ask of the Host Network Service: the calls that the shims record, beside the calls that
//! are expected.
//!
//! `MULLION_WINDOWS_RUNNER` names a program that runs Windows programs, and `MULLION_TEST_WINDOWS` a folder with
//! `flanneld.exe`, `kube-proxy.exe` and `mullion-agent.exe`, which that program can reach.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod api_server;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mullion_catalog::Catalog;
use mullion_spec::words::{Backend, Cni};
use mullion_wire::{AdapterChoice, Blueprint, Mark, OverlayNetwork, Request, Windows, write_line};
use serde_json::{Value, json};
use xtask::tools;

use api_server::Kind;

/// The address of the one node, and of its adapter.
const NODE: &str = "10.99.7.21";
/// No program takes longer for its calls; kube-proxy alone waits ten seconds for its network.
const PATIENCE: Duration = Duration::from_mins(2);

/// A network of the test's own. The adapter's hardware address is in the calls.
const PREPARE: &str = "
ip link set lo up
ip link add eth0 address 02:11:0a:63:07:15 type veth peer name eth1
ip link set eth0 up
ip link set eth1 up
ip address add 10.99.7.21/24 dev eth0
ip route add default via 10.99.7.1
exec \"$@\"
";

/// A node, a Service, and one pod of it on another node.
fn kinds() -> Vec<Kind> {
    let node = |name: &str, address: &str, pods: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "annotations": {
                "flannel.alpha.coreos.com/kube-subnet-manager": "true",
            }},
            "spec": {"podCIDR": pods, "podCIDRs": [pods]},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        })
    };
    vec![
        Kind {
            path: "/api/v1/nodes",
            api_version: "v1",
            name: "Node",
            objects: vec![node("win1", NODE, "10.244.32.0/24")],
        },
        Kind {
            path: "/api/v1/services",
            api_version: "v1",
            name: "Service",
            objects: vec![json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "web", "namespace": "default", "uid": "web", "resourceVersion": "1"},
                "spec": {
                    "type": "ClusterIP", "clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77"],
                    "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                    "internalTrafficPolicy": "Cluster",
                    "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
                },
            })],
        },
        Kind {
            path: "/apis/discovery.k8s.io/v1/endpointslices",
            api_version: "discovery.k8s.io/v1",
            name: "EndpointSlice",
            objects: vec![json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": "web-1", "namespace": "default", "uid": "web-1", "resourceVersion": "1",
                    "labels": {"kubernetes.io/service-name": "web"},
                },
                "addressType": "IPv4",
                "endpoints": [{
                    "addresses": ["10.244.1.5"], "nodeName": "lin1", "conditions": {"ready": true},
                }],
                "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
            })],
        },
        Kind {
            path: "/apis/networking.k8s.io/v1/servicecidrs",
            api_version: "networking.k8s.io/v1",
            name: "ServiceCIDR",
            objects: vec![],
        },
    ]
}

/// Where programs are, what they read, and what they are heard to call.
struct Stage {
    programs: PathBuf,
    folder: PathBuf,
}

impl Stage {
    /// A file of the stage as Windows programs name it.
    fn windows(path: &Path) -> String {
        format!("Z:{}", path.display().to_string().replace('/', "\\"))
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        fs_err::write(&path, text).unwrap();
        Self::windows(&path)
    }

    fn calls(&self) -> PathBuf {
        self.folder.join("calls.jsonl")
    }

    /// Starts a program. It shares networks with those before it, and writes its words into a file.
    fn start(&self, program: &str, arguments: &[String], input: Stdio) -> Running {
        let log = fs_err::File::create(self.folder.join(format!("{program}.log"))).unwrap();
        let log = log.into_parts().0;
        let child = Command::new(std::env::var_os("MULLION_WINDOWS_RUNNER").unwrap())
            .arg(self.programs.join(program))
            .args(arguments)
            .current_dir(&self.folder)
            .env("MULLION_RUNNER_NETWORK", "callers")
            .env("MULLION_CALLS", Self::windows(&self.calls()))
            .env(
                "MULLION_SHIM_STATE",
                Self::windows(&self.folder.join("state")),
            )
            .env(
                "WINEDLLOVERRIDES",
                "iphlpapi,pdh,vmcompute,computenetwork,dismapi=n",
            )
            .env("NODE_NAME", "win1")
            .stdin(input)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Running(child)
    }

    /// Waits until a program has changed as much as is expected, and compares.
    fn expect(&self, program: &str, expected: &str) {
        let file = tools::repository().join("shims/expected").join(expected);
        let expected: Vec<Value> =
            serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap();
        let begun = Instant::now();
        let found = loop {
            let found = self.changes(program);
            if found.len() >= expected.len() || begun.elapsed() > PATIENCE {
                break found;
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        let log = fs_err::read_to_string(self.folder.join(format!("{program}.log")));
        let shown = serde_json::to_string_pretty(&found).unwrap();
        assert_eq!(found, expected, "{shown}\n{}", log.unwrap_or_default());
    }

    /// The calls of a program that changed something, ids numbered in the order in which they came up.
    fn changes(&self, program: &str) -> Vec<Value> {
        let text = fs_err::read_to_string(self.calls()).unwrap_or_default();
        let mut ids = Vec::new();
        let calls = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        calls
            .filter(|call| call["program"] == program)
            .filter(|call| {
                let function = call["function"].as_str().unwrap_or_default();
                let verbs = ["HcnCreate", "HcnModify", "HcnDelete"];
                let method = &call["arguments"]["method"];
                verbs.iter().any(|verb| function.starts_with(verb))
                    || (function == "HNSCall" && method != "GET")
            })
            .map(|call| {
                assert_eq!(call["result"], "0x00000000", "{call}");
                let mut arguments = call["arguments"].clone();
                number(&mut arguments, &mut ids);
                json!({"function": call["function"], "arguments": arguments})
            })
            .collect()
    }
}

/// Puts numbers in the place of ids.
fn number(value: &mut Value, ids: &mut Vec<String>) {
    match value {
        Value::String(text) if is_id(text) => {
            let id = text.to_lowercase();
            let at = ids.iter().position(|known| *known == id);
            let at = at.unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            });
            *text = format!("<id {}>", at + 1);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| number(item, ids)),
        Value::Object(fields) => fields.values_mut().for_each(|field| number(field, ids)),
        _ => {}
    }
}

fn is_id(text: &str) -> bool {
    let groups: Vec<_> = text.trim_matches(['{', '}']).split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups
            .iter()
            .all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A program that is ended with its name spaces.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root, Windows programs and a program that runs them; cargo xtask test runs it"]
fn real_programs_ask_for_the_networks_that_are_expected() {
    if std::env::var_os("MULLION_TEST_APART").is_none() {
        let status = Command::new("unshare")
            .args(["--net", "sh", "-euc", PREPARE, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "real_programs_ask_for_the_networks_that_are_expected",
            ])
            .args(["--ignored", "--nocapture"])
            .env("MULLION_TEST_APART", "yes")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let programs = PathBuf::from(std::env::var_os("MULLION_TEST_WINDOWS").unwrap());
    let folder = tempfile::tempdir_in(&programs).unwrap();
    let stage = Stage {
        programs,
        folder: folder.path().to_owned(),
    };
    let server = api_server::serve(kinds());
    let kubeconfig = stage.write("kubeconfig", &kubeconfig(&server));

    let network = json!({
        "Network": "10.244.0.0/16",
        "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789},
    });
    let network = stage.write("net-conf.json", &network.to_string());
    let flannel = stage.start(
        "flanneld.exe",
        &[
            "--kube-subnet-mgr".into(),
            format!("--kubeconfig-file={kubeconfig}"),
            format!("--iface={NODE}"),
            "--ip-masq".into(),
            format!("--net-config-path={network}"),
        ],
        Stdio::null(),
    );
    stage.expect("flanneld.exe", "flanneld.json");
    drop(flannel);

    let proxy = stage.start(
        "kube-proxy.exe",
        &[
            format!("--kubeconfig={kubeconfig}"),
            "--hostname-override=win1".into(),
            "--proxy-mode=kernelspace".into(),
            "--network-name=flannel.4096".into(),
            "--source-vip=10.244.32.254".into(),
            "--enable-dsr=true".into(),
            "--cluster-cidr=10.244.0.0/16".into(),
        ],
        Stdio::null(),
    );
    stage.expect("kube-proxy.exe", "kube-proxy.json");
    drop(proxy);

    stage.write("request", &write_line(&external_network()).unwrap());
    let request = fs_err::File::open(stage.folder.join("request")).unwrap();
    let agent = stage.start(
        "mullion-agent.exe",
        &["serve".into()],
        request.into_parts().0.into(),
    );
    stage.expect("mullion-agent.exe", "mullion-agent.json");
    drop(agent);
}

fn kubeconfig(server: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
        "users": [{"name": "here", "user": {}}],
    })
    .to_string()
}

/// A blueprint that asks for the network that the pod network is made over.
fn external_network() -> Request {
    let flannel = Catalog::builtin().cni(Cni::Flannel).unwrap();
    let vxlan = flannel.backend(Backend::Vxlan).unwrap();
    let beforehand = vxlan.beforehand.as_ref().unwrap();
    Request::Apply {
        blueprint: Blueprint {
            version: mullion_wire::VERSION,
            machine: "win1".into(),
            packages: vec![],
            modules: [].into(),
            sysctls: [].into(),
            folders: vec![],
            files: vec![],
            services: vec![],
            firewall: None,
            windows: Some(Windows {
                network: Some(OverlayNetwork {
                    name: beforehand.name.clone(),
                    subnet: beforehand.subnet.clone(),
                    gateway: beforehand.gateway.clone(),
                    vsid: beforehand.vsid,
                    port: vxlan.port.unwrap(),
                    adapter: AdapterChoice::Outward,
                }),
                ..Windows::default()
            }),
        },
        mark: Mark(Value::Null),
    }
}
