//! Control groups of pods. The Windows kubelet makes none, and containerd measures a pod by its group, so each pod gets
//! one by name; containerd makes it, and whoever removes the pod removes it.

use std::path::Path;

/// What all pods' groups are in. Not what a Linux kubelet calls it: what is below is ours.
pub(super) const PODS: &str = "/mullion-pods";

/// Where control groups are on a machine.
pub(super) const ROOT: &str = "/sys/fs/cgroup";

/// The group of a pod, by its number. None for what is no number of a pod: it becomes a folder.
pub(super) fn of_pod(number: &str) -> Option<String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let is_number = !number.is_empty() && number.len() <= 64 && number.chars().all(is_plain);
    is_number.then(|| format!("{PODS}/pod{number}"))
}

/// Removes a pod's group in every hierarchy that has it: the root itself (version 2) or each of its folders (version
/// 1). One that is still in use stays.
pub(super) fn remove(root: &Path, group: &str) {
    let group = group.trim_start_matches('/');
    let hierarchies = fs_err::read_dir(root).into_iter().flatten().flatten();
    let below = hierarchies.map(|entry| entry.path());
    for hierarchy in below.chain([root.to_owned()]) {
        // The kernel refuses while anything is in it, and that is the whole point.
        let _ = fs_err::remove_dir(hierarchy.join(group));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_group_is_a_folder_of_its_own() {
        assert_eq!(of_pod("1f-2A").as_deref(), Some("/mullion-pods/pod1f-2A"));
        for refused in ["", "..", "a/b", "../../x", "a b", &"x".repeat(65)] {
            assert_eq!(of_pod(refused), None, "{refused}");
        }
    }

    #[test]
    fn only_an_empty_group_goes() {
        let root = tempfile::tempdir().unwrap();
        let of = |path: &str| root.path().join(path);
        for path in [
            "mullion-pods/pod1",
            "memory/mullion-pods/pod1",
            "cpu/mullion-pods/pod1/busy",
            "cpu/mullion-pods/pod2",
        ] {
            fs_err::create_dir_all(of(path)).unwrap();
        }
        remove(root.path(), "/mullion-pods/pod1");
        assert!(!of("mullion-pods/pod1").exists() && !of("memory/mullion-pods/pod1").exists());
        assert!(of("cpu/mullion-pods/pod1/busy").exists() && of("cpu/mullion-pods/pod2").exists());
        remove(Path::new("/no/such/folder"), "/mullion-pods/pod1");
    }
}
