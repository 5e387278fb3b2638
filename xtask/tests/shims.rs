//! The DLLs of the stand-in: what real programs asked them for, and how they answer.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;

use mullion_catalog::Catalog;
use mullion_spec::words::{Backend, Cni};
use serde_json::Value;
use xtask::{shims, tools};

/// The calls in a file, without what differs from run to run.
fn calls(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| {
        let mut call: Value = serde_json::from_str(line).unwrap();
        let fields = call.as_object_mut().unwrap();
        fields.remove("time");
        fields.remove("process");
        call
    });
    lines.collect()
}

/// Calls that were recorded when the program of that name ran under Wine. Ids are numbered.
fn recorded(program: &str) -> Vec<Value> {
    let file = format!("shims/recorded/{program}.jsonl");
    calls(&fs_err::read_to_string(tools::repository().join(file)).unwrap())
}

fn of_function<'a>(calls: &'a [Value], function: &str) -> Vec<&'a Value> {
    let calls = calls.iter();
    calls
        .filter(|call| call["function"] == function)
        .map(|call| &call["arguments"])
        .collect()
}

#[test]
fn the_network_that_flannel_makes_is_the_one_that_the_catalog_names() {
    let facts = Catalog::builtin().cni(Cni::Flannel).unwrap();
    let vxlan = facts.backend(Backend::Vxlan).unwrap();
    let calls = recorded("flanneld");
    let made = of_function(&calls, "HcnCreateNetwork");
    let [arguments] = made[..] else {
        panic!("one network: {made:?}");
    };
    let settings = &arguments["settings"];
    assert_eq!(settings["Name"].as_str(), vxlan.hns_network.as_deref());
    let kind = serde_json::to_value(vxlan.network.unwrap()).unwrap();
    let made_kind = settings["Type"].as_str().unwrap().to_lowercase();
    assert_eq!(kind.as_str(), Some(made_kind.as_str()));
    let policy = &settings["Ipams"][0]["Subnets"][0]["Policies"][0];
    assert_eq!(policy["Type"], "VSID");
    assert_eq!(
        policy["Settings"]["IsolationId"].as_u64(),
        Some(mullion_spec::raw::RawNetwork::default().vni.into())
    );
}

#[test]
fn kube_proxy_looks_for_the_network_that_flannel_makes() {
    let facts = Catalog::builtin().cni(Cni::Flannel).unwrap();
    let name = facts.backend(Backend::Vxlan).unwrap().hns_network.clone();
    let calls = recorded("kube-proxy");
    for arguments in of_function(&calls, "HcnEnumerateNetworks") {
        let filter = arguments["query"]["Filter"].as_str().unwrap();
        let filter: Value = serde_json::from_str(filter).unwrap();
        assert_eq!(filter["Name"].as_str(), name.as_deref());
    }
    // What it makes of a Service is a load balancer over endpoints that it made before.
    let balancers = of_function(&calls, "HcnCreateLoadBalancer");
    assert!(!balancers.is_empty());
    assert!(
        balancers
            .iter()
            .all(|balancer| !balancer["settings"]["HostComputeEndpoints"][0].is_null())
    );
}

/// `MULLION_WINDOWS_RUNNER` names a program that runs Windows programs: `wine`, or one that enters a folder with it.
#[test]
#[ignore = "needs a program that runs Windows programs, and the compiler for them"]
fn the_shims_answer_as_they_should_and_record_every_call() {
    let folder = shims::build().unwrap();
    let scratch = tempfile::tempdir_in(&folder).unwrap();
    let on_drive = |name: &str| {
        let path = scratch.path().join(name).display().to_string();
        format!("Z:{}", path.replace('/', "\\"))
    };
    let runner = std::env::var("MULLION_WINDOWS_RUNNER").unwrap();
    let ran = Command::new(runner)
        .arg(folder.join("exercise.exe"))
        .env("WINEDEBUG", "-all")
        .env(
            "WINEDLLOVERRIDES",
            "pdh,vmcompute,computenetwork,dismapi,hnetcfg=n",
        )
        .env("MULLION_CALLS", on_drive("calls.jsonl"))
        .env("MULLION_SHIM_STATE", on_drive("state"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let text = fs_err::read_to_string(scratch.path().join("calls.jsonl")).unwrap();
    assert_eq!(calls(&text), recorded("exercise"));
}
