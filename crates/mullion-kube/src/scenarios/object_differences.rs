//! What a comparison of a set tells is what an apply of it then does.

use std::collections::BTreeMap;

use mullion_plan::Fingerprint;

use super::*;
use crate::{HIDDEN, ObjectChange, ObjectDifference};

const SET: &str = "network-flannel";
const RECORD: &str = "/api/v1/namespaces/kube-system/configmaps/mullion-sets";
const DAEMONS: &str = "/apis/apps/v1/namespaces/kube-flannel/daemonsets/flannel";
const SETTINGS: &str = "/api/v1/namespaces/kube-flannel/configmaps/flannel";

fn object(api_version: &str, kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": (kind != "Namespace").then_some("kube-flannel")},
    });
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

fn flannel(image: &str, token: &str) -> Vec<Value> {
    let template = json!({"spec": {"containers": [{"name": "kube-flannel", "image": image}]}});
    vec![
        object(
            "apps/v1",
            "DaemonSet",
            "flannel",
            &json!({"spec": {"template": template}}),
        ),
        object(
            "v1",
            "ConfigMap",
            "flannel",
            &json!({"data": {"net-conf.json": "{}"}}),
        ),
        object(
            "v1",
            "Secret",
            "flannel",
            &json!({"data": {"token": token}}),
        ),
        object("v1", "Namespace", "kube-flannel", &json!({})),
    ]
}

fn compare(fake: &Fake, objects: &[Value]) -> Vec<ObjectDifference> {
    let (before, changes) = (fake.objects(), fake.changes().len());
    let differences = fake.api().compare_set(SET, objects, &owner()).unwrap();
    assert_eq!(fake.objects(), before, "asking changes nothing");
    let made = fake.made();
    let asked = made.iter().filter(|made| made.method != Method::GET);
    for made in asked.skip(changes) {
        assert_eq!(made.method, Method::PATCH);
        for part in ["dryRun=All", "fieldManager=mullion", "force=true"] {
            assert!(made.query.split('&').any(|found| found == part), "{made:?}");
        }
    }
    differences
}

fn apply(fake: &Fake, objects: &[Value]) {
    let fingerprint = Fingerprint::of(&format!("{objects:?}"));
    let look = fake.api().apply_set(SET, &fingerprint, objects, &owner());
    assert!(look.unwrap().is_so());
}

/// What was made, changed and deleted between two looks, without what the API server and the record keep.
fn done(
    before: &BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
) -> Vec<(String, ObjectChange)> {
    let plain = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = Value::Null;
        object
    };
    let mut done = Vec::new();
    for (path, object) in after.iter().filter(|(path, _)| *path != RECORD) {
        match before.get(path) {
            None => done.push((path.clone(), ObjectChange::New)),
            Some(old) if plain(old) != plain(object) => {
                done.push((path.clone(), ObjectChange::Changed));
            }
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    done.extend(gone.map(|path| (path.clone(), ObjectChange::Removed)));
    done.sort();
    done
}

/// Where the objects of differences are.
fn places(differences: &[ObjectDifference]) -> Vec<(String, ObjectChange)> {
    let mut places: Vec<_> = differences
        .iter()
        .map(|difference| {
            let root = match difference.api_version.as_str() {
                "v1" => "/api/v1".to_owned(),
                version => format!("/apis/{version}"),
            };
            let plural = format!("{}s", difference.kind.to_lowercase());
            let folder = match &difference.namespace {
                Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
                None => format!("{root}/{plural}"),
            };
            (format!("{folder}/{}", difference.name), difference.change)
        })
        .collect();
    places.sort();
    places
}

/// A comparison tells what an apply then does, and afterwards nothing.
fn check_told(fake: &Fake, objects: &[Value]) -> Vec<ObjectDifference> {
    let differences = compare(fake, objects);
    let before = fake.objects();
    apply(fake, objects);
    assert_eq!(places(&differences), done(&before, &fake.objects()));
    assert_eq!(compare(fake, objects), []);
    differences
}

#[test]
fn what_is_told_is_what_an_apply_then_makes_changes_and_deletes() {
    let fake = Fake::default();
    let differences = check_told(&fake, &flannel("flannel:1", "b25l"));
    assert_eq!(differences.len(), 4);
    let is_new = |difference: &ObjectDifference| difference.change == ObjectChange::New;
    assert!(differences.iter().all(is_new), "{differences:#?}");
    assert_eq!(differences[0].kind, "Namespace", "in the order of an apply");

    let next = flannel("flannel:2", "dHdv");
    let fewer: Vec<_> = next
        .into_iter()
        .filter(|object| object["kind"] != "ConfigMap")
        .collect();
    let differences = check_told(&fake, &fewer);
    let shown: Vec<_> = differences
        .iter()
        .map(|difference| (difference.kind.as_str(), difference.change))
        .collect();
    assert_eq!(
        shown,
        [
            ("Secret", ObjectChange::Changed),
            ("DaemonSet", ObjectChange::Changed),
            ("ConfigMap", ObjectChange::Removed),
        ]
    );
    let [secret] = &differences[0].fields[..] else {
        panic!("{differences:#?}");
    };
    assert_eq!(secret.path, "data.token");
    assert_eq!(
        (&secret.before, &secret.after),
        (&Some(HIDDEN.into()), &Some(HIDDEN.into()))
    );
    let [image] = &differences[1].fields[..] else {
        panic!("{differences:#?}");
    };
    assert_eq!(
        image.path,
        "spec.template.spec.containers[name=kube-flannel].image"
    );
    assert_eq!(image.before, Some("flannel:1".into()));
    assert_eq!(image.after, Some("flannel:2".into()));
    check_told(&fake, &[]);
}

#[test]
fn what_others_changed_and_took_over_is_told_as_an_apply_finds_it() {
    let fake = Fake::default();
    let objects = flannel("flannel:1", "b25l");
    apply(&fake, &objects);
    let mut daemons = fake.at(DAEMONS).unwrap();
    daemons["spec"]["template"]["spec"]["containers"][0]["image"] = "theirs".into();
    daemons["spec"]["minReadySeconds"] = 5.into();
    fake.put(DAEMONS, daemons);
    let differences = check_told(&fake, &objects);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].fields[0].before, Some("theirs".into()));
    // If another client deletes an object and creates it again, the set no longer owns it.
    fake.put(SETTINGS, json!({"metadata": {"labels": {}}}));
    let fewer: Vec<_> = objects
        .into_iter()
        .filter(|object| object["kind"] != "ConfigMap")
        .collect();
    assert!(check_told(&fake, &fewer).is_empty());
    assert!(fake.at(SETTINGS).is_some());
}

#[test]
fn an_object_that_is_being_deleted_already_is_not_told() {
    let fake = Fake::default();
    let objects = flannel("flannel:1", "b25l");
    apply(&fake, &objects);
    let mut ending = fake.at(SETTINGS).unwrap();
    ending["metadata"]["deletionTimestamp"] = "2026-11-15T09:00:00Z".into();
    fake.put(SETTINGS, ending);
    let fewer: Vec<_> = objects
        .into_iter()
        .filter(|object| object["kind"] != "ConfigMap")
        .collect();
    assert!(compare(&fake, &fewer).is_empty());
}

#[test]
fn objects_of_a_kind_that_the_set_defines_are_new() {
    let fake = Fake::default();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "names": {"kind": "Thing"}},
    });
    let thing = object("example.org/v1", "Thing", "a", &json!({"spec": {"b": 1}}));
    let differences = compare(&fake, &[thing.clone(), definition]);
    let shown: Vec<_> = differences
        .iter()
        .map(|difference| (difference.kind.as_str(), difference.change))
        .collect();
    assert_eq!(
        shown,
        [
            ("CustomResourceDefinition", ObjectChange::New),
            ("Thing", ObjectChange::New),
        ]
    );
    let error = fake.api().compare_set(SET, &[thing], &owner()).unwrap_err();
    assert!(error.to_string().contains("`Thing`"), "{error}");
}

#[test]
fn what_an_apply_would_be_refused_is_refused_in_a_dry_run() {
    let fake = Fake::default();
    apply(&fake, &flannel("flannel:1", "b25l"));
    let words = "admission webhook \"guard.example\" denied the request: no daemons here";
    fake.answer_once(Method::PATCH, DAEMONS, 403, words);
    let objects = flannel("flannel:2", "b25l");
    let error = fake.api().compare_set(SET, &objects, &owner()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Refused);
    assert_eq!(
        error.in_one_line(),
        format!(
            "cannot apply DaemonSet kube-flannel/flannel in a dry run: the API server refuses: {words}"
        )
    );
}
