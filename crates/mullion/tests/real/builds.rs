//! Stand-ins for several builds of Windows in one cluster.

use std::collections::BTreeSet;

use serde_json::json;

use crate::kube::{IMAGE, SPACE};
use crate::lab::Lab;
use crate::trial::Trial;
use crate::windows::{LARGEST, identity, is_windows, memory};

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn stand_ins_of_every_windows_are_nodes_of_one_cluster() {
    let mut trial = Trial::begin("stand_ins_of_every_windows_are_nodes_of_one_cluster");
    let text = "metadata: {name: NAME}\nnetwork: {machineCIDR: null}\nkubernetes: {allowUnsupported: true}\nmachines:\n\
                - {name: cp, role: control-plane}\n\
                - {name: old, os: windows, version: \"2019\"}\n\
                - {name: mid, os: windows, version: \"2022\"}\n\
                - {name: new, os: windows, version: \"2025\"}\n";
    let lab = Lab::new("builds", text);
    let _ = lab.up();
    trial.lap("up");
    lab.is_up(&["cp1", "old1", "mid1", "new1"]);
    let builds = [
        ("old1", "2019", "10.0.17763"),
        ("mid1", "2022", "10.0.20348"),
        ("new1", "2025", "10.0.26100"),
    ];
    let mut objects =
        vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})];
    let mut machines = BTreeSet::new();
    for (node, version, build) in builds {
        let image = format!("Windows Server {version} Datacenter");
        is_windows(&lab, node, &image, build);
        let class = lab.get(&["runtimeclass", &format!("windows-{version}")]);
        let selector = &class["scheduling"]["nodeSelector"];
        assert_eq!(
            selector["node.kubernetes.io/windows-build"], build,
            "{class:#}"
        );
        assert!(machines.insert(identity(&lab, node).0), "not its own");
        let (taken, most) = memory(&lab, node);
        assert!(taken < LARGEST, "{node} takes {taken} MiB:\n{most}");
        trial.lap(&format!("{node} takes {taken} MiB"));
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("for-{node}"), "namespace": SPACE},
            "spec": {
                "runtimeClassName": format!("windows-{version}"),
                "os": {"name": "windows"},
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": IMAGE, "args": ["pause"]}],
            },
        }));
    }
    lab.apply(&objects);
    lab.all_pods_run();
    for (node, ..) in builds {
        let space = format!("--namespace={SPACE}");
        let pod = lab.get(&["pod", &format!("for-{node}"), &space]);
        assert_eq!(pod["spec"]["nodeName"], node);
    }
    let _ = lab.down().says(&["nothing is left"]);
    trial.nothing_is_left();
    trial.lap("down leaves nothing");
}
