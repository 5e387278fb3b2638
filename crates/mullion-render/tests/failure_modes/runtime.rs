//! containerd and images.

use crate::windows::{CONTAINERD, blueprint, blueprints, definition, text};

#[test]
fn mode_36_the_folder_of_plugins_has_one_key() {
    for (version, blueprint) in blueprints() {
        let config = text(&blueprint, CONTAINERD);
        assert_eq!(config.matches("bin_dir").count(), 1, "{version}: {config}");
    }
}

#[test]
fn mode_37_a_backslash_is_one_in_containerd_s_configuration() {
    for (version, blueprint) in blueprints() {
        let config = text(&blueprint, CONTAINERD);
        let values = config.lines().filter_map(|line| line.split_once(" = "));
        for (key, value) in values {
            assert!(!value.contains('"'), "{version}: {key} = {value}");
        }
        assert!(
            config.contains(r"'\\.\pipe\containerd-containerd'"),
            "{config}"
        );
    }
}

#[test]
fn mode_38_containerd_writes_to_a_file_whose_folder_is_there() {
    let blueprint = blueprint();
    let command = &definition(&blueprint, "containerd").command;
    let flag = "--log-file C:\\var\\log\\containerd\\containerd.log";
    assert!(command.contains(flag), "{command}");
    let folder = "C:/var/log/containerd";
    assert!(blueprint.folders.iter().any(|found| found.path == folder));
}

#[test]
fn mode_39_defender_does_not_hold_layers() {
    let excluded = blueprint().windows.unwrap().exclusions;
    assert!(excluded.paths.contains("C:\\ProgramData\\containerd"));
    let program = "C:\\Program Files\\containerd\\containerd.exe";
    assert!(excluded.processes.contains(program));
}

#[test]
fn mode_40_defender_does_not_look_into_what_is_unpacked() {
    let excluded = blueprint().windows.unwrap().exclusions;
    let shim = "C:\\Program Files\\containerd\\containerd-shim-runhcs-v1.exe";
    assert!(excluded.processes.contains(shim));
}

#[test]
fn mode_42_large_layers_have_time() {
    for (version, blueprint) in blueprints() {
        let config = text(&blueprint, CONTAINERD);
        let key = "image_pull_progress_timeout = '30m'";
        assert!(config.contains(key), "{version}: {config}");
        // In the table that this line of containerd reads.
        let at = config.find(key).unwrap();
        let table = config[..at].rsplit('[').next().unwrap();
        assert!(
            table.contains("cri.v1.images") || table.contains("grpc.v1.cri"),
            "{table}"
        );
    }
}

#[test]
fn mode_43_the_pause_image_is_upstream_s_which_forwards_ports() {
    let blueprint = blueprint();
    let config = text(&blueprint, CONTAINERD);
    assert!(config.contains("'registry.k8s.io/pause:"), "{config}");
}
