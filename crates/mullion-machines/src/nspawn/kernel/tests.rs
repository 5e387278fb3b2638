use super::*;

fn kernel(folder: &Path) -> Kernel {
    let kernel = Kernel::played(folder);
    for (name, value) in [
        ("fs/inotify/max_user_instances", "128\n"),
        ("fs/inotify/max_user_watches", "1000000\n"),
        ("net/ipv4/ip_forward", "0\n"),
        ("kernel/panic", "0\n"),
    ] {
        let path = kernel.settings.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, value).unwrap();
    }
    kernel
}

fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn none() -> BTreeSet<ClusterName> {
    BTreeSet::new()
}

const INSTANCES: &str = "fs/inotify/max_user_instances";

#[test]
fn settings_are_raised_never_lowered_and_put_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    let read = |name: &str| kernel.read(name).unwrap().unwrap();
    kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
    assert_eq!(read(INSTANCES), "8192");
    assert_eq!(read("fs/inotify/max_user_watches"), "1000000");
    assert_eq!(read(FORWARDING), "1");
    // A kubelet's doing, and the same cluster again.
    fs_err::write(kernel.settings.join("kernel/panic"), "10").unwrap();
    kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
    for _ in 0..2 {
        kernel
            .put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
    }
    assert_eq!(read(INSTANCES), "128");
    assert_eq!(read(FORWARDING), "0");
    assert_eq!(read("kernel/panic"), "0");
    assert!(!kernel.record.exists());
}

#[test]
fn without_a_way_out_nothing_is_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    kernel.prepare(&cluster("a"), WayOut::Closed).unwrap();
    assert_eq!(kernel.read(FORWARDING).unwrap().unwrap(), "0");
}

#[test]
fn promise_08_what_somebody_else_has_set_since_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    let write = |name: &str, value: &str| {
        fs_err::write(kernel.settings.join(name), value).unwrap();
    };
    kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
    write(INSTANCES, "16384");
    write("fs/inotify/max_user_watches", "524288");
    write("kernel/panic", "30");
    kernel
        .put_back(&cluster("a"), &none(), Forwarding::Shared)
        .unwrap();
    let read = |name: &str| kernel.read(name).unwrap().unwrap();
    assert_eq!(read(INSTANCES), "16384");
    assert_eq!(read("fs/inotify/max_user_watches"), "524288");
    assert_eq!(read("kernel/panic"), "30");
    assert_eq!(read(FORWARDING), "1");
    assert!(!kernel.record.exists());
}

#[test]
fn promise_08_a_value_that_somebody_lowered_is_put_back_as_they_left_it() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
    fs_err::write(kernel.settings.join(INSTANCES), "256").unwrap();
    kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
    assert_eq!(kernel.read(INSTANCES).unwrap().unwrap(), "8192");
    kernel
        .put_back(&cluster("a"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(kernel.read(INSTANCES).unwrap().unwrap(), "256");
}

#[test]
fn promise_08_settings_that_a_file_or_a_kubelet_of_the_computer_wants_stay() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    };
    kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
    put("sys/kernel/panic", "10");
    put("proc/71/comm", "kubelet\n");
    put("proc/71/status", "Name:\tkubelet\nUid:\t0\t0\t0\t0\n");
    put("proc/71/cgroup", "0::/system.slice/kubelet.service\n");
    put(
        "root/etc/sysctl.d/60-router.conf",
        "# net.ipv4.ip_forward = 0\n-net.ipv4.conf.all.forwarding=1\n",
    );
    put(
        "root/etc/sysctl.conf",
        "fs/inotify/max_user_instances = 8192\n",
    );
    kernel
        .put_back(&cluster("a"), &none(), Forwarding::Ours)
        .unwrap();
    let read = |name: &str| kernel.read(name).unwrap().unwrap();
    assert_eq!(read(FORWARDING), "1");
    assert_eq!(read(INSTANCES), "8192");
    assert_eq!(read("kernel/panic"), "10");
    // Another value in a file is no reason.
    assert!(!sets("net.ipv4.ip_forward=0", FORWARDING, "1"));
    assert!(!sets("#net.ipv4.ip_forward=1", FORWARDING, "1"));
    assert!(sets(" net.ipv4.ip_forward = 1 ", FORWARDING, "1"));
}

#[test]
fn promise_08_two_clusters_share_a_record_and_the_last_puts_back() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    let read = |name: &str| kernel.read(name).unwrap().unwrap();
    for name in ["a", "b"] {
        kernel.prepare(&cluster(name), WayOut::Open).unwrap();
    }
    kernel
        .put_back(&cluster("a"), &[cluster("b")].into(), Forwarding::Ours)
        .unwrap();
    assert_eq!(
        (read(INSTANCES), read(FORWARDING)),
        ("8192".into(), "1".into())
    );
    assert!(kernel.names(&cluster("b")).unwrap() && !kernel.names(&cluster("a")).unwrap());
    kernel
        .put_back(&cluster("b"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(
        (read(INSTANCES), read(FORWARDING)),
        ("128".into(), "0".into())
    );
    assert!(!kernel.record.exists());
}

#[test]
fn promise_08_a_cluster_whose_bridge_is_gone_does_not_keep_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    kernel.prepare(&cluster("lost"), WayOut::Open).unwrap();
    assert!(kernel.names(&cluster("lost")).unwrap());
    kernel.prepare(&cluster("b"), WayOut::Open).unwrap();
    // What a killed run leaves beside it.
    fs_err::write(kernel.record.with_extension("new"), "{").unwrap();
    kernel
        .put_back(&cluster("b"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(kernel.read(INSTANCES).unwrap().unwrap(), "128");
    let left = fs_err::read_dir(folder.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["sys"]);
}

#[test]
fn promise_08_a_cluster_whose_namespace_is_gone_is_found_by_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let one = kernel(folder.path());
    one.prepare(&cluster("a"), WayOut::Open).unwrap();
    let mut other = one.clone();
    other.namespace = "2".into();
    other.is_roots = false;
    assert!(!other.names(&cluster("a")).unwrap(), "it may not look");
    other.is_roots = true;
    let first = folder.path().join("proc/1/ns/net");
    fs_err::create_dir_all(first.parent().unwrap()).unwrap();
    fs_err::write(&first, "").unwrap();
    assert!(other.names(&cluster("a")).unwrap());
    assert!(!other.names(&cluster("b")).unwrap());
    // Another namespace got its number.
    let mut one = one;
    one.namespace = namespace(&first).unwrap();
    one.prepare(&cluster("a"), WayOut::Open).unwrap();
    exec::play::by(|_, _| Ok(String::new()));
    assert!(!other.names(&cluster("a")).unwrap(), "its bridge is there");
    exec::play::by(|name, _| {
        Err(DriverError::Program {
            command: name.into(),
            tail: "Device \"mul1\" does not exist.".into(),
        })
    });
    assert!(other.names(&cluster("a")).unwrap());
    other
        .put_back(&cluster("a"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(one.read(INSTANCES).unwrap().unwrap(), "128");
    assert!(!one.record.exists());
}

#[test]
fn promise_08_network_namespaces_have_a_switch_each_and_share_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let one = kernel(folder.path());
    // The other namespace: its switch is another file, the limits are the same.
    let mut other = one.clone();
    other.namespace = "2".into();
    let read = |name: &str| one.read(name).unwrap().unwrap();
    one.prepare(&cluster("a"), WayOut::Open).unwrap();
    fs_err::write(one.settings.join(FORWARDING), "0").unwrap();
    other.prepare(&cluster("b"), WayOut::Open).unwrap();
    // A process is in the other one, where the cluster has its bridge.
    exec::play::by(|_, _| Ok(String::new()));
    let link = folder.path().join("proc/9/ns/net");
    fs_err::create_dir_all(link.parent().unwrap()).unwrap();
    fs_err::write(&link, "").unwrap();
    other.namespace = namespace(&link).unwrap();
    other.prepare(&cluster("b"), WayOut::Open).unwrap();
    one.put_back(&cluster("a"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(read(INSTANCES), "8192", "the other needs it");
    assert!(other.names(&cluster("b")).unwrap());
    other
        .put_back(&cluster("b"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(read(INSTANCES), "128");
    assert!(!one.record.exists());
}

#[test]
fn promise_08_a_process_that_is_only_called_kubelet_keeps_no_setting() {
    let root = "Uid:\t0\t0\t0\t0\n";
    for (status, cgroup) in [
        ("Uid:\t1000\t1000\t1000\t1000\n", "0::/user.slice\n"),
        ("Uid:\t1000\t0\t0\t0\n", "0::/user.slice\n"),
        ("", ""),
        (root, "3:pids:/mullion/mul0123abcd/kubelet.slice\n"),
        (root, "0::/system.slice/mullion-dev.lin1.service/payload\n"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        fs_err::write(kernel.settings.join("kernel/panic"), "10").unwrap();
        let process = kernel.processes.join("71");
        fs_err::create_dir_all(&process).unwrap();
        for (file, text) in [
            ("comm", "kubelet\n"),
            ("status", status),
            ("cgroup", cgroup),
        ] {
            fs_err::write(process.join(file), text).unwrap();
        }
        kernel
            .put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(
            kernel.read("kernel/panic").unwrap().unwrap(),
            "0",
            "{status}{cgroup}"
        );
    }
}

const OLDER: &str =
    r#"{"fs/inotify/max_user_instances":"128","net/ipv4/ip_forward":"0","kernel/panic":"0"}"#;

#[test]
fn promise_08_the_record_of_an_older_version_is_put_back() {
    for adopts_at in ["up", "down"] {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        fs_err::write(&kernel.record, OLDER).unwrap();
        kernel.adopt().unwrap();
        if adopts_at == "up" {
            kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        }
        kernel
            .put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
        let read = |name: &str| kernel.read(name).unwrap().unwrap();
        assert_eq!(
            (read(INSTANCES), read(FORWARDING)),
            ("128".into(), "0".into())
        );
        assert!(!kernel.record.exists());
    }
}

#[test]
fn promise_08_the_record_of_an_older_version_waits_for_a_cluster_of_another_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let older = kernel(folder.path());
    older.prepare(&cluster("a"), WayOut::Open).unwrap();
    fs_err::write(&older.record, OLDER).unwrap();
    // The other namespace passed packets on before: its switch is another file, the limits are the same.
    let mut other = older.clone();
    other.namespace = "2".into();
    let read = |name: &str| older.read(name).unwrap().unwrap();
    // A machine of the older version's cluster runs.
    let process = older.processes.join("9");
    fs_err::create_dir_all(&process).unwrap();
    fs_err::write(process.join("cgroup"), "2:pids:/mullion/mul0123abcd\n").unwrap();
    fs_err::os::unix::fs::symlink("/", process.join("root")).unwrap();
    other.prepare(&cluster("b"), WayOut::Open).unwrap();
    other
        .put_back(&cluster("b"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(read(FORWARDING), "1", "what the other had before");
    assert_eq!(read(INSTANCES), "8192", "the machine needs it");
    // A command that finds no network in a third one takes nothing for its own.
    other.namespace = "3".into();
    other
        .put_back(&cluster("c"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(
        (read(FORWARDING), read(INSTANCES)),
        ("1".into(), "8192".into())
    );
    fs_err::remove_dir_all(&process).unwrap();
    older.adopt().unwrap();
    older
        .put_back(&cluster("a"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(
        (read(FORWARDING), read(INSTANCES)),
        ("0".into(), "128".into())
    );
    assert!(!older.record.exists());
}

#[test]
fn promise_08_a_record_that_cannot_be_read_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    for text in [
        r#"{"clusters":{},"settings":{},"networks":{},"more":1}"#,
        "{",
    ] {
        fs_err::write(&kernel.record, text).unwrap();
        let made = kernel.prepare(&cluster("a"), WayOut::Open).unwrap_err();
        assert!(made.hint().is_some(), "{made:?}");
        let ended = kernel.put_back(&cluster("a"), &none(), Forwarding::Ours);
        assert!(
            matches!(ended, Err(DriverError::Record { .. })),
            "{ended:?}"
        );
        assert_eq!(fs_err::read_to_string(&kernel.record).unwrap(), text);
        assert_eq!(kernel.read(INSTANCES).unwrap().unwrap(), "128");
    }
}

#[test]
fn a_record_is_there_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
    let first = fs_err::File::open(&kernel.record).unwrap();
    kernel.prepare(&cluster("b"), WayOut::Open).unwrap();
    // Another file took its place: the old one was never open for writing.
    assert_eq!(first.metadata().unwrap().nlink(), 0);
    assert!(!kernel.record.with_extension("new").exists());
}

#[test]
fn promise_08_a_namespace_that_got_the_number_of_another_keeps_its_own_switch() {
    let folder = tempfile::tempdir().unwrap();
    let former = kernel(folder.path());
    let read = |name: &str| former.read(name).unwrap().unwrap();
    former.prepare(&cluster("lost"), WayOut::Open).unwrap();
    // The namespace went with its network. In the next one of this number the owner passes packets on themselves.
    let reused = former.clone();
    fs_err::write(reused.settings.join(FORWARDING), "1").unwrap();
    reused.forget_former(&none()).unwrap();
    reused.prepare(&cluster("a"), WayOut::Open).unwrap();
    let there = [cluster("a")].into();
    reused.forget_former(&there).unwrap();
    reused
        .put_back(&cluster("a"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(read(FORWARDING), "1");
    assert_eq!(read(INSTANCES), "128", "all namespaces share this one");
    assert!(!reused.record.exists());
}

#[test]
fn promise_08_down_in_a_namespace_that_got_the_number_of_another_leaves_its_switch() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel(folder.path());
    let read = |name: &str| kernel.read(name).unwrap().unwrap();
    kernel.prepare(&cluster("lost"), WayOut::Open).unwrap();
    kernel.forget_former(&none()).unwrap();
    kernel
        .put_back(&cluster("lost"), &none(), Forwarding::Ours)
        .unwrap();
    assert_eq!(read(FORWARDING), "1");
    assert_eq!(read(INSTANCES), "128");
    assert!(!kernel.record.exists());
}

#[test]
fn promise_08_a_network_that_somebody_removed_by_hand_is_still_put_back() {
    for is_firsts in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut kernel = kernel(folder.path());
        let first = folder.path().join("proc/1/ns/net");
        fs_err::create_dir_all(first.parent().unwrap()).unwrap();
        fs_err::write(&first, "").unwrap();
        if is_firsts {
            kernel.namespace = namespace(&first).unwrap();
        }
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        // No link is left; elsewhere the rules of the network are.
        let there = if is_firsts {
            none()
        } else {
            [cluster("a")].into()
        };
        kernel.forget_former(&there).unwrap();
        kernel.prepare(&cluster("a"), WayOut::Open).unwrap();
        kernel
            .put_back(&cluster("a"), &none(), Forwarding::Ours)
            .unwrap();
        assert_eq!(kernel.read(FORWARDING).unwrap().unwrap(), "0");
    }
}
