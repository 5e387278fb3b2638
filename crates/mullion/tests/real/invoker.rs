//! The user who asks root to run the program: how they are known, and which of their folders, programs and kept files
//! count.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use crate::rights::{Bench, USER, Who, cluster, ran};

/// Starts a program with a mask that lets everyone write what it creates.
const OPEN_MASK: [&str; 4] = ["sh", "-c", "umask 0; exec \"$@\"", "sh"];

#[test]
#[ignore = "needs root, to be asked by another user"]
fn promise_02_a_variable_that_names_no_user_is_an_error_and_not_root() {
    let bench = Bench::new();
    bench.write("cluster.yaml", &cluster(""));
    let before = bench.owners();
    for (name, value) in [
        ("SUDO_UID", ""),
        ("SUDO_UID", "garbage"),
        ("SUDO_USER", "root"),
        ("SUDO_GID", "garbage"),
        ("DOAS_USER", ""),
        ("PKEXEC_UID", "-1"),
    ] {
        let who = if name == "SUDO_USER" || name == "SUDO_GID" {
            Who::Sudo
        } else {
            Who::Root
        };
        let mut command = bench.command(who, &[], &["up", "--yes"]);
        let ran = ran(command.env(name, value));
        assert_eq!(ran.code, 4, "{name}={value}: {ran:?}");
        assert!(ran.err.contains(&format!("`{name}`")), "{ran:?}");
        assert!(ran.err.contains(&format!("--unset={name}")), "{ran:?}");
    }
    let mut command = bench.command(Who::Root, &[], &["up", "--yes"]);
    command.env("SUDO_UID", "0").env("SUDO_USER", "nobody");
    let ran = ran(&mut command);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.err.contains("`SUDO_UID`") && ran.err.contains("`SUDO_USER`"),
        "{ran:?}"
    );
    assert_eq!(bench.owners(), before);
}

#[test]
#[ignore = "needs root, to be asked by another user"]
fn promise_02_state_of_a_stranger_is_not_used() {
    let bench = Bench::new();
    bench.write("cluster.yaml", &cluster(""));
    let planted = bench.repository().join(".local/state/mullion");
    fs_err::create_dir_all(planted.join("clusters/lab")).unwrap();
    fs_err::write(planted.join("clusters/lab/kubeconfig"), "{}").unwrap();
    let count = || fs_err::read_dir(&planted).unwrap().count();
    // Without a home folder, the one of the command is none: it may be somebody else's repository.
    for home in [None, Some("."), Some("")] {
        for who in [Who::Sudo, Who::Root] {
            let mut command = bench.command(who, &[], &["kubeconfig"]);
            command.env_remove("HOME");
            command.envs(home.map(|home| ("HOME", home)));
            let ran = ran(&mut command);
            assert_eq!(ran.code, 5, "{home:?} {ran:?}");
            assert!(ran.err.contains("no kubeconfig is kept"), "{ran:?}");
        }
    }
    // A home folder whose state someone else made, or can change.
    let stranger = USER + 1;
    for (owner, mode) in [
        (stranger, 0o755),
        (stranger, 0o777),
        (USER, 0o777),
        (0, 0o777),
    ] {
        chown(&planted, Some(owner), Some(owner)).unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        fs_err::set_permissions(&planted, mode).unwrap();
        for arguments in [
            &["up", "--yes"][..],
            &["kubeconfig"],
            &["--cluster", "lab", "validate"],
        ] {
            for who in [Who::Sudo, Who::Root] {
                let mut command = bench.command(who, &[], arguments);
                let ran = ran(command.env("HOME", bench.repository()));
                assert_eq!(ran.code, 4, "{owner} {arguments:?} {ran:?}");
                assert!(ran.err.contains("cannot be trusted"), "{ran:?}");
                assert!(ran.err.contains("chmod go-w"), "{ran:?}");
            }
        }
    }
    assert_eq!(count(), 1, "nothing is written there");
}

#[test]
#[ignore = "needs root, to be asked by another user"]
fn promise_01_nothing_that_is_written_can_be_written_by_others() {
    let bench = Bench::new();
    fs_err::create_dir_all(bench.home().join(".local/state")).unwrap();
    for folder in [".local", ".local/state"] {
        chown(bench.home().join(folder), Some(USER), Some(USER)).unwrap();
    }
    let before = bench.owners();
    for (arguments, codes) in [
        (&["init", "--file", "new.yaml"][..], [0, 0]),
        (
            &["plan", "--out", "plan.json", "--graph", "plan.svg"],
            [0, 0],
        ),
        (&["artifacts", "fetch"], [4, 4]),
        (&["up", "--yes"], [4, 5]),
    ] {
        bench.write("cluster.yaml", &cluster("artifacts: {cache: ./cache}\n"));
        let ran = ran(&mut bench.command(Who::Sudo, &OPEN_MASK, arguments));
        assert!(codes.contains(&ran.code), "{arguments:?} {ran:?}");
    }
    let made: Vec<_> = bench.owners().into_keys().collect();
    for wanted in ["new.yaml", "plan.json", "cache/locks"] {
        assert!(made.contains(&bench.repository().join(wanted)), "{wanted}");
    }
    for path in made.iter().filter(|path| !before.contains_key(*path)) {
        let found = fs_err::symlink_metadata(path).unwrap();
        let others_write = found.mode() & 0o022;
        assert_eq!(others_write, 0, "{:o} {}", found.mode(), path.display());
    }
}

/// Puts a program into a folder that writes down as whom it runs, with which mask.
fn plant(folder: &Path, name: &str, seen: &Path) {
    let path = folder.join(name);
    let seen = seen.display();
    let text = format!("#!/bin/sh\necho \"$(id -u) $(umask) {name}\" >> {seen}\n");
    fs_err::write(&path, text).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(&path, executable).unwrap();
}

#[test]
#[ignore = "needs root, to be asked by another user"]
fn promise_03_doctor_runs_programs_of_the_users_path_as_the_user() {
    let bench = Bench::new();
    bench.write(
        "cluster.yaml",
        "metadata: {name: lab}\nmachines: {linux: 1}\n",
    );
    let (tools, seen) = (bench.home().join("tools"), bench.home().join("seen"));
    fs_err::create_dir(&tools).unwrap();
    fs_err::write(&seen, "").unwrap();
    for path in [&tools, &seen] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
    for name in [
        "go",
        "apt-cache",
        "timedatectl",
        "zcat",
        "gzip",
        "qemu-system-x86_64",
    ] {
        plant(&tools, name, &seen);
    }
    // The same folder by a link, which its owner can turn at any time.
    symlink(&tools, bench.home().join("link")).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    for folder in ["tools", "link"] {
        let folder = bench.home().join(folder);
        for home in [bench.home(), bench.folder.path().join("root-home")] {
            let mut command = bench.command(Who::Sudo, &OPEN_MASK, &["doctor"]);
            command.env("PATH", format!("{}:{path}", folder.display()));
            let ran = ran(command.env("HOME", home));
            assert!(!ran.err.contains("bug of ours"), "{ran:?}");
            let lines = fs_err::read_to_string(&seen).unwrap();
            assert!(!lines.is_empty(), "no program was asked: {ran:?}");
            for line in lines.lines() {
                assert!(line.starts_with(&format!("{USER} 0022 ")), "{lines}");
            }
            fs_err::write(&seen, "").unwrap();
        }
    }
}

#[test]
#[ignore = "needs root, to be asked by another user"]
fn promise_03_a_cache_that_the_file_names_is_looked_at_with_the_users_rights() {
    let bench = Bench::new();
    // Root's own state, so that threads have root's rights unless they ask for the user's.
    let home = bench.folder.path().join("root-home");
    fs_err::create_dir(&home).unwrap();
    let hidden = bench.outside().join("deep");
    symlink("/etc", hidden.join("link")).unwrap();
    let private = std::fs::Permissions::from_mode(0o700);
    fs_err::set_permissions(bench.outside(), private).unwrap();
    let mut told = Vec::new();
    for cache in ["deep", "none"] {
        let folder = bench.outside().join(cache);
        let text = format!("artifacts: {{cache: \"{}\"}}\n", folder.display());
        bench.write("cluster.yaml", &cluster(&text));
        for command in ["validate", "doctor", "plan"] {
            let mut command = bench.command(Who::Sudo, &[], &[command]);
            let ran = ran(command.env("HOME", &home));
            assert_eq!(ran.code, 3, "{ran:?}");
            assert!(!ran.err.contains("symbolic link"), "{ran:?}");
            told.push(ran.err.replace(cache, "X"));
        }
    }
    // What is there and what is not looks the same.
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
#[ignore = "needs root; cargo xtask test runs it"]
fn promise_02_root_follows_no_link_of_a_kept_file() {
    let bench = Bench::new();
    let link = bench.repository().join("link");
    symlink(bench.outside().join("secret"), &link).unwrap();
    let state = bench.home().join(".local/state/mullion/clusters/lab");
    fs_err::create_dir_all(&state).unwrap();
    let keep = |name: &str, path: &Path| {
        fs_err::write(state.join(name), path.to_str().unwrap()).unwrap();
    };
    let absolute = link.display().to_string();
    // The command that kept the file was given in the folder of the file, or in another one.
    for (link, paths) in [
        ("link", bench.repository()),
        (absolute.as_str(), bench.repository()),
        (absolute.as_str(), "/".into()),
    ] {
        let text = cluster(&format!("trust: [{{file: \"{link}\"}}]\n"));
        fs_err::write(state.join("cluster.yaml"), text).unwrap();
        keep("cluster.folder", &paths);
        keep("cluster.file-folder", &bench.repository());
        for command in [&["plan"][..], &["artifacts", "fetch"], &["status"]] {
            let arguments = [&["--cluster", "lab"][..], command].concat();
            let mut command = bench.command(Who::Root, &[], &arguments);
            let ran = ran(command.current_dir("/"));
            assert_eq!(ran.code, 3, "{link} {paths:?} {ran:?}");
            assert!(ran.err.contains("leads out of the folder"), "{ran:?}");
        }
    }
}
