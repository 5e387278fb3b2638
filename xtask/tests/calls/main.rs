//! What real Windows programs ask of the Host Network Service: the calls that the shims record, beside the calls that
//! are expected. Programs are told what the blueprint of a Windows machine tells them: a flag that changes there is one
//! that runs here.
//!
//! `MULLION_WINDOWS_RUNNER` names a program that runs Windows programs, and `MULLION_TEST_WINDOWS` a folder with
//! `flanneld.exe`, `kube-proxy.exe`, `kubelet.exe` and `mullion-agent.exe`, which that program can reach.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
mod api_server;
mod features;
mod firewall;
mod kubelet;
mod runtime;
mod told;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mullion_render::NETWORK_SETTINGS;
use serde_json::{Value, json};
use xtask::tools;

use api_server::Kind;
use told::{Bench, Told, on_drive};

/// Variables of a program's environment.
type Variables = BTreeMap<String, String>;

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
    bench: Bench,
}

impl Stage {
    /// One of its own, in a folder that goes with what is given beside it.
    fn new() -> (Self, tempfile::TempDir) {
        let programs = PathBuf::from(std::env::var_os("MULLION_TEST_WINDOWS").unwrap());
        let folder = tempfile::tempdir_in(&programs).unwrap();
        let stage = Self {
            programs,
            bench: Bench {
                drive: folder.path().join("drive"),
            },
            folder: folder.path().to_owned(),
        };
        (stage, folder)
    }

    fn calls(&self) -> PathBuf {
        self.folder.join("calls.jsonl")
    }

    /// Starts a program. It shares networks with those before it, and writes its words into a file.
    fn start(&self, program: &str, arguments: &[String], environment: &Variables) -> Running {
        let mut words = vec![self.programs.join(program).display().to_string()];
        words.extend_from_slice(arguments);
        Running(self.command(program, &words, environment).spawn().unwrap())
    }

    /// What runs a program of Windows with its arguments. `name` is that of the file that its words go into.
    fn command(&self, name: &str, words: &[String], environment: &Variables) -> Command {
        let log = fs_err::File::create(self.folder.join(format!("{name}.log"))).unwrap();
        let log = log.into_parts().0;
        let mut command = Command::new(std::env::var_os("MULLION_WINDOWS_RUNNER").unwrap());
        command
            .args(words)
            .current_dir(&self.folder)
            .env("MULLION_RUNNER_NETWORK", "callers")
            .env("MULLION_CALLS", on_drive(&self.calls()))
            .env("MULLION_SHIM_STATE", on_drive(&self.folder.join("state")))
            .env(
                "WINEDLLOVERRIDES",
                "iphlpapi,pdh,vmcompute,computenetwork,dismapi,hnetcfg=n",
            )
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        command
    }

    /// Starts the program that a service of the agent's attends to, as the agent would.
    fn attend(&self, told: &Told, service: &str) -> Running {
        let program = told.attended(service).program;
        let name = program.path.rsplit('/').next().unwrap();
        let arguments: Vec<_> = program.args.iter().map(|it| self.bench.adapt(it)).collect();
        self.start(name, &arguments, &told.definition(service).environment)
    }

    /// Waits until a program has changed as much as is expected, and compares.
    fn expect(&self, program: &str, expected: &str) {
        self.expect_of(program, expected, |calls, expected| {
            let changes: Vec<_> = calls.into_iter().filter(is_change).collect();
            (changes.len() >= expected).then_some(changes)
        });
    }

    /// Waits until there is enough among a program's calls, and compares what `choose` takes of them. That is told how
    /// many are expected.
    fn expect_of(
        &self,
        program: &str,
        expected: &str,
        choose: impl Fn(Vec<Value>, usize) -> Option<Vec<Value>>,
    ) {
        let expected = crate::expected(expected);
        let log = || {
            let log = fs_err::read_to_string(self.folder.join(format!("{program}.log")));
            log.unwrap_or_default()
        };
        let begun = Instant::now();
        let found = loop {
            let calls = self.calls_of(program);
            let shown = json!(calls);
            if let Some(found) = choose(calls, expected.len()) {
                break plain(found);
            }
            assert!(begun.elapsed() < PATIENCE, "{shown:#}\n{}", log());
            std::thread::sleep(Duration::from_millis(200));
        };
        assert_eq!(found, expected, "{:#}\n{}", json!(found), log());
    }

    /// Waits until a file of the Windows machine says something.
    fn says(&self, path: &str, words: &str) {
        let begun = Instant::now();
        let place = self.bench.place(path);
        loop {
            let text = fs_err::read_to_string(&place).unwrap_or_default();
            if text.lines().any(|line| line.trim() == words) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{path}: {text}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The calls of a program, without what differs from run to run but for ids.
    fn calls_of(&self, program: &str) -> Vec<Value> {
        let text = fs_err::read_to_string(self.calls()).unwrap_or_default();
        let calls = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        calls
            .filter(|call| call["program"] == program)
            .map(|call| {
                json!({
                    "function": call["function"], "arguments": call["arguments"],
                    "result": call["result"],
                })
            })
            .collect()
    }
}

fn is_change(call: &Value) -> bool {
    let function = call["function"].as_str().unwrap_or_default();
    let verbs = ["HcnCreate", "HcnModify", "HcnDelete"];
    let method = &call["arguments"]["method"];
    verbs.iter().any(|verb| function.starts_with(verb))
        || (function == "HNSCall" && method != "GET")
}

/// The calls that are expected.
fn expected(file: &str) -> Vec<Value> {
    let file = tools::repository().join("shims/expected").join(file);
    serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap()
}

/// Calls that went well.
fn well(calls: Vec<Value>) -> impl Iterator<Item = Value> {
    calls.into_iter().map(|call| {
        assert_eq!(call["result"], "0x00000000", "{call}");
        json!({"function": call["function"], "arguments": call["arguments"]})
    })
}

/// Calls that went well, ids numbered in the order in which they came up.
fn plain(calls: Vec<Value>) -> Vec<Value> {
    let mut ids = Vec::new();
    let mut calls: Vec<_> = well(calls).collect();
    for call in &mut calls {
        number(&mut call["arguments"], &mut ids);
    }
    calls
}

/// Puts numbers in the place of ids, in paths too.
fn number(value: &mut Value, ids: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let pieces = text.split('/').map(|piece| {
                if !is_id(piece) {
                    return piece.to_owned();
                }
                let id = piece.to_lowercase();
                let at = ids.iter().position(|known| *known == id);
                let at = at.unwrap_or_else(|| {
                    ids.push(id);
                    ids.len() - 1
                });
                format!("<id {}>", at + 1)
            });
            *text = pieces.collect::<Vec<_>>().join("/");
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

impl Running {
    /// Waits for its end.
    fn wait(&mut self, patience: Duration) {
        let begun = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < patience, "it takes too long");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

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
    let (stage, _folder) = Stage::new();
    let told = Told::render();
    let server = api_server::serve(kinds());
    // kubelet's, which kubeadm and the API server would have made.
    let own = "C:/etc/kubernetes/kubelet.conf";
    stage.bench.write(own, &kubeconfig(&server));
    stage
        .bench
        .write(NETWORK_SETTINGS, told.text(NETWORK_SETTINGS));

    let flannel = stage.attend(&told, "flanneld");
    stage.expect("flanneld.exe", "flanneld.json");
    stage.says(&told.attended("flanneld").share, told::SHARE);
    drop(flannel);

    let proxy = stage.attend(&told, "kube-proxy");
    stage.expect("kube-proxy.exe", "kube-proxy.json");
    drop(proxy);

    // It asks after the endpoints that kube-proxy has made.
    kubelet::write_settings(&told, &stage.bench);
    let arguments = kubelet::arguments(&told, &stage.bench, runtime::serve());
    let kubelet = stage.start("kubelet.exe", &arguments, &[].into());
    stage.expect_of("kubelet.exe", "kubelet.json", |calls, _| {
        kubelet::round(calls)
    });
    drop(kubelet);

    agent::networks_come_and_go(&stage, &told);
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
