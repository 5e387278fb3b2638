//! `down --purge` and what comes with a cluster file, as root. No machine is made.

use crate::lab::Lab;

/// A lab whose machines and templates would be its own.
fn lab(word: &str, artifacts: &str) -> Lab {
    let text =
        format!("metadata: {{name: NAME}}\nartifacts: {artifacts}\nmachines: {{linux: 1}}\n");
    let mut lab = Lab::new(word, &text);
    let place = lab.path("place").display().to_string();
    lab.environment.push(("MULLION_PLACE".into(), place));
    lab
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_05_down_purge_removes_nothing_of_a_folder_that_is_not_a_cache() {
    let lab = lab("purge", "{cache: .}");
    let users = ["work/thesis.tex", "parts/engine.step", "layers/map.svg"];
    for file in users {
        let path = lab.path(file);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, "years of work").unwrap();
    }
    let folder = lab.path("").display().to_string();
    let folder = folder.trim_end_matches('/');
    for arguments in [
        ["down", "--purge", "--yes"].as_slice(),
        &["artifacts", "fetch"],
        &["artifacts", "adopt"],
    ] {
        let ran = lab.run(arguments).code(4);
        let _ = ran.says(&[folder, "is not a cache of Mullion's", "artifacts.cache"]);
    }
    for file in users {
        let text = fs_err::read_to_string(lab.path(file)).unwrap();
        assert_eq!(text, "years of work", "{file}");
    }
    // The cluster itself can be taken down.
    let _ = lab.run(&["down", "--yes"]).good();
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_05_down_purge_names_the_folder_and_leaves_what_is_not_mullions() {
    let lab = lab("purged", "{cache: mine}");
    let _ = lab.run(&["artifacts", "adopt"]).good();
    fs_err::write(lab.path("mine/thesis.tex"), "years of work").unwrap();
    let cache = lab.path("mine").display().to_string();
    let _ = lab
        .run(&["down", "--purge"])
        .code(2)
        .says(&[&cache, "--yes"]);
    assert!(lab.path("mine/parts").is_dir());
    let ran = lab.run(&["down", "--purge", "--yes"]).good();
    let _ = ran.says(&["mine/thesis.tex", "Mullion did not make it"]);
    assert!(!lab.path("mine/parts").exists());
    assert!(lab.path("mine/thesis.tex").is_file());
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_10_a_bundle_a_cache_and_a_mirror_that_come_with_a_file_are_not_believed() {
    let plain = lab("plain", "{mirror: \"http://127.0.0.1:9/\"}");
    let _ = plain.run(&["validate"]).code(3).says(&["E0211", "digests"]);
    plain.write("metadata: {name: NAME}\nmachines: {linux: 1}\n");
    // A cache of another computer, which the repository holds.
    let lab = lab("shipped", "{cache: cache}");
    for name in ["parts", "locks", "work"] {
        fs_err::create_dir_all(lab.path("cache").join(name)).unwrap();
    }
    let mark = r#"{"format": "mullion.dev/cache/v1", "id": "0123456789abcdef"}"#;
    fs_err::write(lab.path("cache/mullion-cache.json"), mark).unwrap();
    let ran = lab.run(&["artifacts", "fetch"]).code(4);
    let _ = ran.says(&["was not made on this computer", "artifacts adopt"]);
    let ran = lab.run(&["down", "--purge", "--yes"]).code(4);
    let _ = ran.says(&["was not made on this computer"]);
    // What root would run from there, others could change.
    let _ = lab.run(&["artifacts", "adopt"]).good();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    fs_err::set_permissions(lab.path("cache/parts"), mode).unwrap();
    let ran = lab.run(&["artifacts", "fetch"]).code(4);
    let _ = ran.says(&["users other than root", "cache/parts"]);
}
