//! Files that are no cluster files: each gets a clear message and exit code 3, never a panic.

use crate::Bench;

#[test]
fn what_cannot_be_read_is_named() {
    let bench = Bench::new();
    fs_err::create_dir(bench.path().join("folder.yaml")).unwrap();
    bench.write("utf16.yaml", b"\xff\xfem\0a\0c\0h\0".as_slice());
    bench.write("latin.yaml", b"machines: {linux: 1} # \xe9\n".as_slice());
    bench.write("empty.yaml", "");
    bench.write("comment.yaml", "# nothing\n");
    bench.write("null.yaml", "null\n");
    bench.write("text.yaml", "hello\n");
    bench.write("list.yaml", "[1, 2]\n");
    bench.write("tab.yaml", "machines:\n\tlinux: 1\n");
    bench.write("anchor.yaml", "machines: {linux: &a 1, windows: *a}\n");
    bench.write(
        "two.yaml",
        "machines: {linux: 1}\n---\nmachines: {linux: 1}\n",
    );
    bench.write("twice.yaml", "machines: {linux: 1}\nmachines: {linux: 2}\n");
    bench.write(
        "deep.yaml",
        format!("machines: {}{}", "[".repeat(200), "]".repeat(200)),
    );
    bench.write("deeper.yaml", "[".repeat(500_000));
    bench.write("large.yaml", vec![b'#'; 2 << 20]);
    bench.write("nul.yaml", "machines: {linux: 1}\0");
    bench.write("key.yaml", "{[a]: 1}\n");
    for (file, code) in [
        ("missing.yaml", "E0101"),
        ("folder.yaml", "E0102"),
        ("utf16.yaml", "E0103"),
        ("latin.yaml", "E0103"),
        ("empty.yaml", "E0111"),
        ("comment.yaml", "E0111"),
        ("null.yaml", "E0111"),
        ("text.yaml", "E0202"),
        ("list.yaml", "E0202"),
        ("tab.yaml", "E0107"),
        ("anchor.yaml", "E0108"),
        ("two.yaml", "E0109"),
        ("twice.yaml", "E0110"),
        ("deep.yaml", "E0105"),
        ("deeper.yaml", "E0106"),
        ("large.yaml", "E0104"),
        ("nul.yaml", "E0106"),
        ("key.yaml", "E0106"),
    ] {
        for command in ["validate", "plan"] {
            let ran = bench.run(&[command, "--file", file]);
            assert_eq!(ran.code, 3, "{command} {file}\n{}", ran.err);
            assert!(
                ran.err.contains(&format!("[{code}]")),
                "{command} {file}\n{}",
                ran.err
            );
            assert!(ran.err.contains(file), "{command} {file}\n{}", ran.err);
            assert!(ran.out.is_empty(), "{command} {file}");
        }
    }
}

#[test]
fn a_mark_before_the_text_is_no_mistake() {
    let bench = Bench::new();
    bench.write(
        "cluster.yaml",
        "\u{feff}machines: {linux: 1}\r\nnetwork: {vni: 4096}\r\n",
    );
    let ran = bench.run(&["validate"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn standard_input_is_a_file_too() {
    let bench = Bench::new();
    let output = bench
        .command()
        .args(["validate", "--file", "-"])
        .write_stdin("machines: {linux: 1}\n")
        .output()
        .unwrap();
    let ran = crate::ran(output);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("standard input is sound"),
        "{}",
        ran.out
    );
}

#[test]
fn without_a_file_the_built_in_cluster_is_taken() {
    let bench = Bench::new();
    let ran = bench.run(&["validate"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out
            .contains("the built-in cluster is sound: cluster `mullion`"),
        "{}",
        ran.out
    );
}

#[test]
fn a_link_that_leads_nowhere_is_not_the_absence_of_a_file() {
    let bench = Bench::new();
    fs_err::os::unix::fs::symlink("gone", bench.path().join("cluster.yaml")).unwrap();
    let ran = bench.run(&["validate"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("[E0101]"), "{}", ran.err);
}

#[test]
fn the_environment_may_name_the_file_and_the_flag_wins() {
    let bench = Bench::new();
    bench.write("a.yaml", "machines: {linux: 1}\nmetadata: {name: aaa}\n");
    bench.write("b.yaml", "machines: {linux: 1}\nmetadata: {name: bbb}\n");
    let output = bench
        .command()
        .env("MULLION_FILE", "a.yaml")
        .arg("validate")
        .output();
    assert!(crate::ran(output.unwrap()).out.contains("`aaa`"));
    let output = bench
        .command()
        .env("MULLION_FILE", "a.yaml")
        .args(["validate", "-f", "b.yaml"])
        .output();
    assert!(crate::ran(output.unwrap()).out.contains("`bbb`"));
}

/// A name that kubeadm takes for a patch.
const SPARSE: &str = "kubeletconfiguration-sparse.yaml";

#[test]
fn promise_02_a_file_that_is_too_large_is_refused_by_name_size_and_limit() {
    let bench = Bench::new();
    let sparse = fs_err::File::create(bench.path().join(SPARSE)).unwrap();
    sparse.set_len(20 << 30).unwrap();
    let cluster = |of_machine: &str, rest: &str| {
        format!(
            "machines:\n- name: cp\n  role: control-plane\n  addresses: [192.0.2.9]\n  {of_machine}\n{rest}\n"
        )
    };
    let limits = (4_u64 << 30, 16 << 20, 1 << 20);
    for (text, limit) in [
        (cluster("files: [{from: SPARSE, to: /srv/x}]", ""), limits.0),
        (cluster("", "kubernetes: {patches: [SPARSE]}"), limits.1),
        (cluster("", "trust: [{file: SPARSE}]"), limits.1),
        (cluster("ssh: {key: {file: SPARSE}}", ""), limits.1),
        (String::new(), limits.2),
    ] {
        let text = text.replace("SPARSE", SPARSE);
        bench.write("cluster.yaml", &text);
        let arguments = if text.is_empty() {
            &["plan", "--file", SPARSE][..]
        } else {
            &["plan"]
        };
        let begun = std::time::Instant::now();
        let ran = bench.run(arguments);
        assert_eq!(ran.code, 3, "{text}{}", ran.err);
        for word in [
            &format!("{SPARSE}`")[..],
            "21474836480 bytes",
            &format!("at most {limit} "),
        ] {
            assert!(ran.err.contains(word), "{word}: {}", ran.err);
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(10));
    }
}
