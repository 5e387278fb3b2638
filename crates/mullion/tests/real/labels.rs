//! Folders of machines that this program must leave as they are. No machine is made.

use std::path::Path;

use mullion_plan::{ClusterUid, Fingerprint};

use crate::lab::Lab;

/// A cluster with a folder for machines of its own, and one in which a machine seems to be.
fn lab(word: &str) -> Lab {
    let mut lab = Lab::linux(word, 1);
    let place = lab.path("place").display().to_string();
    lab.environment.push(("MULLION_PLACE".into(), place));
    let member = lab.machine("cp1").join("disk/etcd/member");
    fs_err::create_dir_all(&member).unwrap();
    fs_err::write(member.join("snap"), "everything that the cluster knows").unwrap();
    lab
}

/// Every path below a folder, with what is in it.
fn tree(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.display().to_string();
        if entry.file_type().unwrap().is_dir() {
            found.push((name, String::new()));
            found.extend(tree(&path));
        } else {
            found.push((name, fs_err::read_to_string(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

/// A label of a machine that is whole and does not run.
fn label(lab: &Lab, identity: Option<(&ClusterUid, u32)>) -> String {
    let mut label = serde_json::json!({
        "version": "mullion.dev/machine/v1",
        "cluster": lab.name,
        "name": "cp1",
        "template": { "name": "linux", "fingerprint": Fingerprint::of(&1) },
        "templatePath": "/nowhere",
        "address": "10.99.200.11",
        "network": "10.99.200.0/24",
        "size": { "cpus": 1, "memory": "1GiB", "disk": "1GiB" },
        "whole": true,
        "ran": true,
        "hostKey": null,
    });
    if let Some((id, owner)) = identity {
        label["identity"] = serde_json::json!({ "id": id.as_str(), "owner": owner });
    }
    label.to_string()
}

/// Commands that must refuse, with these words, and change nothing in the folder of machines.
fn refuse(lab: &Lab, words: &[&str]) {
    let folder = lab.machine("");
    let before = tree(&folder);
    let by_name = ["down", "--yes", "--cluster", lab.name.as_str()];
    for arguments in [
        &["plan"][..],
        &["up", "--yes"],
        &["down", "--yes"],
        &by_name,
        &["down", "--yes", "--purge"],
    ] {
        let ran = lab.run(arguments).code(5).says(words);
        for lie in ["nothing is left", "nothing to remove", "make machine"] {
            assert!(!ran.out.contains(lie) && !ran.err.contains(lie), "{ran}");
        }
        assert_eq!(tree(&folder), before, "{arguments:?}");
    }
}

fn remove_place(lab: &Lab) {
    fs_err::remove_dir_all(lab.path("place")).unwrap();
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_06_plan_up_and_down_leave_a_machine_whose_label_they_cannot_read() {
    let lab = lab("unread");
    let file = lab.machine("cp1").join("machine.json");
    let name = file.display().to_string();
    refuse(&lab, &[&name, "is missing"]);
    fs_err::write(&file, r#"{"version":"mullion.dev/machine/v2"}"#).unwrap();
    refuse(&lab, &[&name, "newer version", "machine/v2"]);
    let whole = label(&lab, None);
    fs_err::write(&file, &whole[..whole.len() / 2]).unwrap();
    refuse(&lab, &[&name, "is damaged"]);
    // One of the machine that the file no longer has is not retired either.
    fs_err::rename(lab.machine("cp1"), lab.machine("old1")).unwrap();
    let moved = lab.machine("old1").join("machine.json");
    refuse(&lab, &[&moved.display().to_string()]);
    remove_place(&lab);
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_06_a_file_of_state_that_cannot_be_read_is_told_by_its_name() {
    let lab = lab("state");
    fs_err::write(lab.machine("cp1").join("machine.json"), label(&lab, None)).unwrap();
    fs_err::create_dir_all(lab.kept()).unwrap();
    let before = tree(&lab.machine(""));
    for file in ["taken.json", "id"] {
        let path = lab.kept().join(file);
        for text in ["{\"version\":9,\"machines\":", "{\"version\":9}"] {
            fs_err::write(&path, text).unwrap();
            for arguments in [&["plan"][..], &["up", "--yes"], &["down", "--yes"]] {
                let _ = lab
                    .run(arguments)
                    .code(4)
                    .says(&[&path.display().to_string()]);
            }
            assert_eq!(fs_err::read_to_string(&path).unwrap(), text);
        }
        fs_err::remove_file(&path).unwrap();
    }
    assert_eq!(tree(&lab.machine("")), before);
    remove_place(&lab);
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_09_a_cluster_of_the_same_name_and_another_id_is_refused() {
    let mut lab = lab("ids");
    let file = lab.machine("cp1").join("machine.json");
    let (theirs, ours) = (ClusterUid::of(0xa11), ClusterUid::of(0xb0b));
    fs_err::write(&file, label(&lab, Some((&theirs, 1000)))).unwrap();
    // This cluster has another id.
    fs_err::create_dir_all(lab.kept()).unwrap();
    fs_err::write(lab.kept().join("id"), ours.as_str()).unwrap();
    refuse(
        &lab,
        &[theirs.as_str(), ours.as_str(), "`cp1`", "another cluster"],
    );
    // It has none, and another user asks.
    fs_err::remove_dir_all(lab.kept()).unwrap();
    for (name, value) in [("SUDO_UID", "1001"), ("SUDO_GID", "1001")] {
        lab.environment.push((name.into(), value.into()));
    }
    refuse(&lab, &[theirs.as_str(), "number 1000", "metadata.name"]);
    // Nor does root take over the cluster of a user.
    lab.environment.truncate(2);
    let _ = fs_err::remove_dir_all(lab.kept());
    refuse(&lab, &[theirs.as_str(), "number 1000", "install -D"]);
    // Root's own, whose state was lost, root may remove by its name.
    fs_err::write(&file, label(&lab, Some((&theirs, 0)))).unwrap();
    let _ = fs_err::remove_dir_all(lab.kept());
    let _ = lab.run(&["down", "--yes", "--cluster", &lab.name]).good();
    assert!(!lab.machine("cp1").exists());
    // A label without an id is of an older version: it belongs to the cluster of its name.
    fs_err::create_dir_all(lab.machine("cp1")).unwrap();
    fs_err::write(&file, label(&lab, None)).unwrap();
    fs_err::create_dir_all(lab.kept()).unwrap();
    fs_err::write(lab.kept().join("id"), ours.as_str()).unwrap();
    let _ = lab.down();
    assert!(!lab.machine("cp1").exists());
}
