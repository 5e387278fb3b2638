//! Every field of `cluster.yaml` acts: another value of it changes what is rendered, planned, fetched, logged in with or
//! found, for each driver, or the field is refused by name.
//!
//! `fields.toml` has a value to try for every field, and what the field acts on. `docs/reference/fields.md` is generated
//! from it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod effects;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use effects::{Effects, Scene};

/// `fields.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Files to change a field in, by the column of the table.
    base: BTreeMap<String, Value>,
    field: Vec<Row>,
}

/// One field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    path: String,
    /// A legal value that is not the one that the bases have.
    value: Value,
    /// Other values for some bases.
    #[serde(default)]
    values: BTreeMap<String, Value>,
    /// What both files have besides, by path.
    #[serde(default)]
    with: Map<String, Value>,
    /// What it acts on, by base: kinds of effects, or `refused` with the code of a rule.
    acts: BTreeMap<String, String>,
    /// What it acts on without the values of `with`, by base.
    #[serde(default)]
    alone: BTreeMap<String, String>,
}

impl Row {
    /// A file of that base, and the same with another value of the field.
    fn files(&self, table: &Table, base: &str) -> (Value, Value) {
        self.files_with(&self.with, table, base)
    }

    /// The same for a file that has these values besides.
    fn files_with(&self, with: &Map<String, Value>, table: &Table, base: &str) -> (Value, Value) {
        let mut before = table.base[base].clone();
        for (path, value) in with {
            walk::set(&mut before, path, value.clone());
        }
        let mut after = before.clone();
        let value = self.values.get(base).unwrap_or(&self.value);
        walk::set(&mut after, &self.path, value.clone());
        (before, after)
    }
}

/// The bases that every field of a group is tried in.
const OF_GROUPS: [&str; 4] = ["nspawn", "wine", "ssh-linux", "ssh-windows"];

fn table() -> Table {
    toml::from_str(include_str!("fields.toml")).unwrap()
}

#[test]
fn every_field_of_the_schema_has_a_row_and_every_row_a_field() {
    let schema: BTreeSet<_> = walk::leaves(&mullion_spec::schema()).into_iter().collect();
    let table = table();
    let rows: BTreeSet<_> = table.field.iter().map(|row| row.path.clone()).collect();
    assert_eq!(rows.len(), table.field.len(), "a field has two rows");
    let missing: Vec<_> = schema.difference(&rows).collect();
    assert!(missing.is_empty(), "fields.toml lacks {missing:#?}");
    let stale: Vec<_> = rows.difference(&schema).collect();
    assert!(stale.is_empty(), "the schema has no {stale:#?}");
    for row in &table.field {
        let has_with = !row.with.is_empty() || row.alone.is_empty();
        assert!(has_with, "{} has no `with` to leave out", row.path);
        let tried: Vec<_> = row.acts.keys().map(String::as_str).collect();
        if row.path.starts_with("machines[]") {
            let mut all = OF_GROUPS;
            all.sort_unstable();
            assert_eq!(tried, all, "{}", row.path);
        }
        assert!(!tried.is_empty(), "{} is tried nowhere", row.path);
        for base in tried {
            assert!(table.base.contains_key(base), "{}: `{base}`", row.path);
        }
    }
}

#[test]
fn another_value_of_any_field_changes_what_the_table_says() {
    let table = table();
    let scene = Scene::new();
    let mut wrong = Vec::new();
    for row in &table.field {
        let nothing = Map::new();
        let tried = row.acts.iter().map(|case| (&row.with, case));
        let alone = row.alone.iter().map(|case| (&nothing, case));
        for (with, (base, expected)) in tried.chain(alone) {
            let (before, after) = row.files_with(with, &table, base);
            if before == after {
                wrong.push(format!("{} in {base}: the base has this value", row.path));
                continue;
            }
            let found = told(&scene.effects(&before), &scene.effects(&after));
            let found = found.unwrap_or_else(|error| format!("the base is refused: {error}"));
            if found != *expected {
                wrong.push(format!(
                    "{} in {base}: the table says `{expected}`, and it is `{found}`",
                    row.path
                ));
            }
            if found.is_empty() {
                wrong.push(format!("{} in {base} does nothing", row.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The clusters that every field of the whole cluster is tried in, beside those that the table names.
const KINDS: [&str; 7] = [
    "cluster",
    "host-gw",
    "linux-only",
    "no-plugin",
    "short",
    "ssh-linux",
    "ssh-windows",
];

#[test]
fn no_kind_of_cluster_ignores_a_field_in_silence() {
    let table = table();
    let scene = Scene::new();
    let mut ignored = Vec::new();
    let rows = table.field.iter();
    for row in rows.filter(|row| !row.path.starts_with("machines")) {
        for base in KINDS {
            let (before, after) = row.files(&table, base);
            let effects = (scene.effects(&before), scene.effects(&after));
            // What is wrong with the file before is about another field.
            if before != after && told(&effects.0, &effects.1).is_ok_and(|told| told.is_empty()) {
                ignored.push(format!("{} in {base}", row.path));
            }
        }
    }
    assert!(ignored.is_empty(), "{ignored:#?}");
}

/// Effects that a cluster which is up has to be changed for.
const LASTING: [&str; 5] = ["blueprint", "kubeadm", "objects", "plan", "templates"];

/// Another name is another cluster, the world in memory has no host that starts machines, what a command did is not taken
/// back, and a suite that is not asked for any more is not run.
const WITHOUT_STEPS: [&str; 5] = [
    "metadata.name",
    "machines[].autostart",
    "machines[].before[].os",
    "machines[].after[].os",
    "verify.after",
];

#[test]
fn a_cluster_that_is_up_is_not_left_as_it_is_when_a_field_changes() {
    let table = table();
    let mut ignored = Vec::new();
    for row in &table.field {
        for (base, acts) in &row.acts {
            if !acts.split(' ').any(|kind| LASTING.contains(&kind)) {
                continue;
            }
            let (before, after) = row.files(&table, base);
            if Scene::later(&before, &after) == Some(false) {
                ignored.push(row.path.as_str());
            }
        }
    }
    ignored.dedup();
    assert_eq!(ignored, WITHOUT_STEPS);
}

#[test]
fn a_host_key_is_that_of_a_name_in_whatever_letters_and_of_nobody_else() {
    let scene = Scene::new();
    let with = |name: &str| {
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILagOJFgwaMNhBWQINinKOXmqS4Gh5NgxgriXwdOoINJ";
        let ssh = json!({"key": {"file": "id"}, "hostKeys": {name: key}});
        let machine =
            json!({"name": "cp", "role": "control-plane", "addresses": ["Node1.example"]});
        let mut file = json!({"machines": [machine]});
        file["machines"][0]["ssh"] = ssh;
        scene.effects(&file)
    };
    let found = told(&with("other.example"), &with("node1.Example"));
    assert_eq!(found.unwrap(), "findings logins");
}

#[test]
fn a_field_that_does_nothing_would_be_found() {
    let scene = Scene::new();
    let file = json!({"machines": {"linux": 1}, "metadata": {"name": "demo"}});
    let found = told(&scene.effects(&file), &scene.effects(&file));
    assert_eq!(found.unwrap(), "");
}

/// The kinds of effects that differ, or the rules that refuse the second file.
fn told(before: &Effects, after: &Effects) -> Result<String, String> {
    Ok(match (before, after) {
        // Also where the first is refused: a field of what is refused is refused with it.
        (_, Err(refused)) => format!("refused {}", refused.join(" ")),
        (Err(refused), Ok(_)) => return Err(refused.join(" ")),
        (Ok(before), Ok(after)) => {
            let kinds: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            let differs = kinds
                .into_iter()
                .filter(|kind| before.get(*kind) != after.get(*kind));
            differs.copied().collect::<Vec<_>>().join(" ")
        }
    })
}
