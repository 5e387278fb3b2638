use super::*;

struct Wish {
    labels: BTreeMap<String, String>,
    taints: BTreeSet<Taint>,
    drop_labels: BTreeSet<String>,
    drop_taints: BTreeSet<Taint>,
}

impl Wish {
    fn new(labels: &[(&str, &str)], taints: &[&str]) -> Self {
        let labels = labels.iter();
        Self {
            labels: labels
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            taints: taints.iter().map(|taint| taint.parse().unwrap()).collect(),
            drop_labels: BTreeSet::new(),
            drop_taints: BTreeSet::new(),
        }
    }

    fn dropping(mut self, labels: &[&str], taints: &[&str]) -> Self {
        self.drop_labels = labels.iter().map(ToString::to_string).collect();
        self.drop_taints = taints.iter().map(|taint| taint.parse().unwrap()).collect();
        self
    }

    fn change(&self, node: &Value) -> Result<Option<Value>, KubeError> {
        let marks = Marks {
            labels: &self.labels,
            taints: &self.taints,
            drop_labels: &self.drop_labels,
            drop_taints: &self.drop_taints,
        };
        let node = serde_json::from_value(node.clone()).unwrap();
        marking(&node, &marks, &Owner::new(&"demo".parse().unwrap(), None))
    }
}

#[test]
fn a_new_node_gets_everything_in_one_change() {
    let node = json!({
        "metadata": {"name": "lin1", "resourceVersion": "7", "labels": {"kubernetes.io/os": "linux"}},
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-11-15T09:00:00Z"}]},
    });
    let change = Wish::new(&[("tier", "gold")], &["os=windows:NoSchedule"]).change(&node);
    assert_eq!(
        change.unwrap().unwrap(),
        json!({
            "metadata": {
                "annotations": {"mullion.dev/set": r#"{"labels":["tier"],"taints":["os=windows:NoSchedule"]}"#},
                "labels": {"tier": "gold", "mullion.dev/cluster": "demo"},
                "resourceVersion": "7",
            },
            "spec": {
                "taints": [
                    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-11-15T09:00:00Z"},
                    {"key": "os", "value": "windows", "effect": "NoSchedule"},
                ],
            },
        })
    );
}

fn marked() -> Value {
    json!({
        "metadata": {
            "name": "cp1", "resourceVersion": "7",
            "labels": {"mullion.dev/cluster": "demo", "tier": "gold", "mine": "too"},
            "annotations": {"mullion.dev/set": r#"{"labels":["tier"],"taints":["a=b:NoSchedule"]}"#},
        },
        "spec": {"taints": [
            {"key": "a", "value": "b", "effect": "NoSchedule"},
            {"key": "others", "effect": "PreferNoSchedule"},
        ]},
    })
}

#[test]
fn a_node_that_is_as_wanted_is_not_changed() {
    let wish = Wish::new(&[("tier", "gold")], &["a=b:NoSchedule"]);
    assert_eq!(wish.change(&marked()).unwrap(), None);
    let mut cordoned = marked();
    cordoned["spec"]["unschedulable"] = true.into();
    assert_eq!(
        wish.change(&cordoned).unwrap(),
        None,
        "somebody else did it"
    );
    cordoned["metadata"]["annotations"]["mullion.dev/drained"] = "true".into();
    let change = wish.change(&cordoned).unwrap().unwrap();
    assert_eq!(
        change["spec"],
        json!({"unschedulable": null}),
        "taints are not written for nothing"
    );
    assert!(
        change["metadata"].get("resourceVersion").is_none(),
        "nor is anybody in the way"
    );
    cordoned["spec"]["unschedulable"] = false.into();
    let change = wish.change(&cordoned).unwrap().unwrap();
    assert_eq!(
        change["metadata"]["annotations"]["mullion.dev/drained"],
        Value::Null,
        "whoever cordons it next is not us"
    );
}

#[test]
fn what_we_set_is_taken_away_and_what_others_set_is_not() {
    let wish = Wish::new(&[], &[]).dropping(
        &["tier", "never-there"],
        &["a=b:NoSchedule", "c:NoSchedule"],
    );
    let change = wish.change(&marked()).unwrap().unwrap();
    assert_eq!(change["metadata"]["labels"], json!({"tier": null}));
    assert_eq!(
        change["spec"]["taints"],
        json!([{"key": "others", "effect": "PreferNoSchedule"}])
    );
}

#[test]
fn a_taint_with_another_value_takes_the_place_of_the_old_one() {
    let change = Wish::new(&[("tier", "gold")], &["a=c:NoSchedule"]).change(&marked());
    assert_eq!(
        change.unwrap().unwrap()["spec"]["taints"],
        json!([
            {"key": "others", "effect": "PreferNoSchedule"},
            {"key": "a", "value": "c", "effect": "NoSchedule"},
        ])
    );
}

#[test]
fn kubeadms_taint_goes_unless_it_is_wanted() {
    let taint = "node-role.kubernetes.io/control-plane:NoSchedule";
    let mut node = marked();
    node["spec"]["taints"] =
        json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
    let change = Wish::new(&[], &[]).change(&node).unwrap().unwrap();
    assert_eq!(change["spec"]["taints"], json!([]));
    let change = Wish::new(&[], &[taint]).change(&node).unwrap().unwrap();
    assert!(change["spec"].get("taints").is_none());
}

#[test]
fn a_label_that_is_dropped_and_wanted_is_wanted() {
    let wish = Wish::new(&[("tier", "gold")], &["a=b:NoSchedule"])
        .dropping(&["tier"], &["a=b:NoSchedule"]);
    assert_eq!(wish.change(&marked()).unwrap(), None);
}

#[test]
fn another_clusters_node_is_not_touched() {
    let mut node = marked();
    node["metadata"]["labels"]["mullion.dev/cluster"] = "other".into();
    let error = Wish::new(&[], &[]).change(&node).unwrap_err();
    assert_eq!(error.to_string(), "node cp1 belongs to cluster `other`");
    assert_eq!(error.class(), mullion_plan::ErrorClass::NotOurs);
}
