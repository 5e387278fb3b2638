use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::Marks;

fn mark(api: &Api) -> Result<Look, crate::KubeError> {
    let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    let taints = BTreeSet::from(["os=windows:NoSchedule".parse().unwrap()]);
    let marks = Marks {
        labels: &labels,
        taints: &taints,
        drop_labels: &BTreeSet::new(),
        drop_taints: &BTreeSet::new(),
    };
    api.mark("lin1", &marks, &owner())
}

#[test]
fn a_marked_node_is_seen_as_marked_and_not_changed_again() {
    let fake = Fake::default();
    let mut new = node("True");
    new["spec"] = json!({"unschedulable": true});
    new["metadata"]["annotations"] = json!({"mullion.dev/drained": "true"});
    new["metadata"]["labels"] = json!({});
    fake.put("/api/v1/nodes/lin1", new);
    let api = fake.api();
    assert!(mark(&api).unwrap().is_so());
    let facts = api.facts(&owner()).unwrap().facts;
    let lin1 = &facts.nodes["lin1"];
    assert!(lin1.ours && !lin1.cordoned);
    assert_eq!(lin1.labels["tier"], "gold");
    assert_eq!(lin1.set_labels, BTreeSet::from(["tier".to_owned()]));
    assert_eq!(lin1.taints, lin1.set_taints);
    assert_eq!(fake.changes().len(), 1);
    assert!(mark(&api).unwrap().is_so());
    assert_eq!(fake.changes().len(), 1);
}

#[test]
fn promise_09_a_node_of_another_cluster_of_the_same_name_is_not_ours() {
    let fake = Fake::default();
    let mut others = node("True");
    let other = ClusterUid::of(2);
    others["metadata"]["labels"] =
        json!({"mullion.dev/cluster": "demo", "mullion.dev/cluster-id": other.as_str()});
    fake.put("/api/v1/nodes/lin1", others);
    let api = fake.api();
    let is_ours = |owner: &Owner| api.facts(owner).unwrap().facts.nodes["lin1"].ours;
    assert!(!is_ours(&owner()));
    assert!(!is_ours(&Owner::new(&cluster(), None)));
    assert!(is_ours(&Owner::new(&cluster(), Some(&other))));
    let error = mark(&api).unwrap_err();
    assert_eq!(error.class(), ErrorClass::NotOurs);
    assert!(error.to_string().contains(other.as_str()), "{error}");
    // A node of an older version has no id: the name decides, and the mark adds the id.
    let mut older = node("True");
    older["metadata"]["labels"] = json!({"mullion.dev/cluster": "demo"});
    fake.put("/api/v1/nodes/lin1", older);
    assert!(is_ours(&owner()) && is_ours(&Owner::new(&cluster(), Some(&other))));
    assert!(mark(&api).unwrap().is_so());
    assert!(is_ours(&owner()) && !is_ours(&Owner::new(&cluster(), Some(&other))));
}

#[test]
fn a_node_that_changes_all_the_time_is_marked_in_the_end() {
    let fake = Fake::default();
    fake.put("/api/v1/nodes/lin1", node("True"));
    for _ in 0..4 {
        fake.answer_once(Method::PATCH, "/api/v1/nodes/lin1", 409, "changed");
    }
    assert!(mark(&fake.api()).unwrap().is_so());
    for _ in 0..5 {
        fake.answer_once(Method::PATCH, "/api/v1/nodes/lin1", 409, "changed");
    }
    fake.put("/api/v1/nodes/lin1", node("True"));
    assert_eq!(mark(&fake.api()).unwrap_err().class(), ErrorClass::Conflict);
}

#[test]
fn a_node_that_is_not_there_yet_is_waited_for() {
    let api = Fake::default().api();
    assert_eq!(
        words(mark(&api).unwrap()),
        "the cluster knows no node lin1 yet"
    );
}

#[test]
fn promise_04_a_node_that_is_deleted_during_a_run_is_not_waited_for() {
    let fake = Fake::default();
    fake.put("/api/v1/nodes/lin1", node("False"));
    let api = fake.api();
    let old = api.node_sign("lin1").unwrap().unwrap();
    api.forget("lin1").unwrap();
    for look in [
        api.node_ready("lin1"),
        api.node_ready_since("lin1", &old),
        api.node_network("lin1"),
    ] {
        let error = look.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Refused, "{error:?}");
        assert!(error.hint().unwrap().contains("mullion up"));
    }
}

#[test]
fn conditions_are_told_in_words() {
    let fake = Fake::default();
    fake.put("/api/v1/nodes/lin1", node("False"));
    let api = fake.api();
    assert_eq!(
        words(api.node_ready("lin1").unwrap()),
        "lin1 is not Ready: cni plugin not initialized"
    );
    assert_eq!(
        words(api.node_network("lin1").unwrap()),
        "the runtime of lin1 has no network plugin yet"
    );
}

#[test]
fn forgetting_twice_is_forgetting_once() {
    let fake = Fake::default();
    fake.put("/api/v1/nodes/lin1", node("Unknown"));
    let api = fake.api();
    api.forget("lin1").unwrap();
    api.forget("lin1").unwrap();
    assert!(fake.at("/api/v1/nodes/lin1").is_none());
}

#[test]
fn what_somebody_else_cordoned_stays_so() {
    let fake = Fake::default();
    let mut cordoned = node("True");
    cordoned["spec"] = json!({"unschedulable": true});
    fake.put("/api/v1/nodes/lin1", cordoned);
    let api = fake.api();
    assert!(mark(&api).unwrap().is_so());
    let node = fake.at("/api/v1/nodes/lin1").unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert!(!api.facts(&owner()).unwrap().facts.nodes["lin1"].cordoned);
}

const LIN1: &str = "/api/v1/nodes/lin1";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/lin1";
const SILENT: &str = "the kubelet of lin1 has not reported since it was started";

/// A Ready node as its kubelet wrote it at that second, in that start of its machine.
fn reported(boot: &str, second: u32) -> Value {
    let mut node = node("True");
    let time = format!("2026-01-01T00:00:{second:02}Z");
    node["status"]["conditions"][0]["lastHeartbeatTime"] = time.into();
    let mut info = json!({"bootID": boot});
    for name in [
        "architecture",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ] {
        info[name] = "".into();
    }
    node["status"]["nodeInfo"] = info;
    node
}

fn renew(fake: &Fake, second: u32) {
    let time = format!("2026-01-01T00:00:{second:02}.000001Z");
    fake.put(LEASE, json!({"spec": {"renewTime": time}}));
}

#[test]
fn a_node_that_was_ready_before_its_start_is_not_ready_until_its_kubelet_reports() {
    let fake = Fake::default();
    let api = fake.api();
    assert_eq!(api.node_sign("lin1").unwrap(), None);
    fake.put(LIN1, reported("a", 1));
    renew(&fake, 1);
    let old = api.node_sign("lin1").unwrap().unwrap().ended();
    let look = || api.node_ready_since("lin1", &old).unwrap();
    assert_eq!(words(look()), SILENT);
    // A lease that is renewed says that it lives, and not that it is Ready.
    renew(&fake, 2);
    assert_eq!(words(look()), SILENT);
    fake.put(LIN1, reported("a", 2));
    assert!(look().is_so());
    fake.put(LIN1, reported("b", 1));
    assert!(look().is_so());
    // What it says then is what counts.
    let mut unready = reported("b", 3);
    unready["status"]["conditions"][0]["status"] = "False".into();
    fake.put(LIN1, unready);
    assert!(words(look()).contains("is not Ready"));
}

#[test]
fn a_kubelet_that_may_not_have_been_started_anew_shows_by_its_lease_that_it_lives() {
    let fake = Fake::default();
    let api = fake.api();
    fake.put(LIN1, reported("a", 1));
    renew(&fake, 1);
    let old = api.node_sign("lin1").unwrap().unwrap();
    let look = || api.node_ready_since("lin1", &old).unwrap();
    assert_eq!(words(look()), SILENT);
    renew(&fake, 2);
    assert!(look().is_so());
}

#[test]
fn promise_04_a_node_is_registered_once_its_kubelet_says_so() {
    let fake = Fake::default();
    let api = fake.api();
    let look = api.is_registered("cp1").unwrap();
    assert_eq!(words(look), "the cluster knows no node cp1 yet");
    // A kubelet that runs gives this label to a node that somebody else made.
    let mut made = node("True");
    made["metadata"]["labels"] = json!({"kubernetes.io/os": "linux"});
    assert!(api.may_register("cp1").unwrap().is_so(), "there is none");
    fake.put("/api/v1/nodes/cp1", made.clone());
    assert!(!api.is_registered("cp1").unwrap().is_so());
    let look = api.may_register("cp1").unwrap();
    assert_eq!(words(look), "node cp1 has no resources yet");
    made["metadata"]["name"] = "cp1".into();
    made["status"]["allocatable"] = json!({"cpu": "2"});
    fake.put("/api/v1/nodes/cp1", made.clone());
    assert!(api.may_register("cp1").unwrap().is_so());
    made["metadata"]["labels"]["kubernetes.io/hostname"] = "cp1".into();
    fake.put("/api/v1/nodes/cp1", made);
    assert!(api.is_registered("cp1").unwrap().is_so());
}

#[test]
fn promise_04_a_role_is_given_and_nothing_else_is_changed() {
    let fake = Fake::default();
    let api = fake.api();
    let role = "node-role.kubernetes.io/control-plane";
    let labels = BTreeMap::from([(role.to_owned(), String::new())]);
    let taint = format!("{role}:NoSchedule").parse().unwrap();
    let taints = BTreeSet::from([taint]);
    let give = |taints| api.give_role("cp1", &labels, taints).unwrap();
    assert!(!give(&taints).is_so(), "there is no node yet");
    let mut new = node("True");
    new["metadata"]["labels"] = json!({"kubernetes.io/hostname": "cp1", "own": "kept"});
    new["spec"] = json!({"taints": [{"key": "mine", "effect": "NoExecute"}]});
    fake.put("/api/v1/nodes/cp1", new);
    assert!(give(&taints).is_so());
    let found = fake.at("/api/v1/nodes/cp1").unwrap();
    assert_eq!(
        found["metadata"]["labels"],
        json!({"kubernetes.io/hostname": "cp1", "own": "kept", role: ""})
    );
    assert_eq!(
        found["spec"]["taints"],
        json!([{"key": "mine", "effect": "NoExecute"}, {"key": role, "effect": "NoSchedule"}])
    );
    assert!(found["metadata"]["annotations"]["mullion.dev/set"].is_null());
    assert_eq!(fake.changes().len(), 1);
    assert!(give(&taints).is_so());
    // A taint that the file does not want goes when the node is marked, and not here.
    assert!(give(&BTreeSet::new()).is_so());
    assert_eq!(fake.changes().len(), 1, "it is so already");
}
