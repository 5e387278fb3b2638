//! Where a secret must not be: journals, logs, the process list, other users' reach.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::lab::Lab;

/// What of a text is secret: tokens to join with, private keys, a kubeconfig's own key. The place, not the secret.
pub(crate) fn secrets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('.') {
        let (before, after) = (&text.as_bytes()[..at], &text.as_bytes()[at + 1..]);
        let is_word = |byte: &&u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let left = before.iter().rev().take_while(is_word).count();
        let right = after.iter().take_while(is_word).count();
        let ends = |byte: Option<&u8>| {
            byte.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b".-_/".contains(byte))
        };
        let is_alone = ends(before.iter().rev().nth(left)) && ends(after.get(right));
        // A word of letters alone is a name, such as that of a file.
        let token = &text.as_bytes()[at - left..at + 1 + right];
        if left == 6 && right == 16 && is_alone && token.iter().any(u8::is_ascii_digit) {
            found.push(format!("a token after {:?}", around(text, at - left)));
        }
    }
    for mark in ["PRIVATE KEY-----", "client-key-data"] {
        let places = text.match_indices(mark);
        found.extend(places.map(|(at, _)| format!("`{mark}` after {:?}", around(text, at))));
    }
    found
}

/// The last characters before a place.
fn around(text: &str, at: usize) -> String {
    let start = (0..=at.saturating_sub(60))
        .rev()
        .find(|start| text.is_char_boundary(*start));
    text[start.unwrap_or(0)..at].to_owned()
}

/// No journal, no log, nothing that was said holds a secret, and none of the tokens is left.
#[track_caller]
pub(crate) fn are_in_no_log(lab: &Lab, machines: &[&str]) {
    let mut texts = vec![("what was said".to_owned(), lab.said())];
    let mut files = Vec::new();
    for run in lab.runs() {
        all_files(&run, &mut files);
    }
    assert!(!files.is_empty(), "there is no journal");
    for machine in machines {
        files.push(lab.machine(machine).join("console.log"));
        let disk = lab.machine(machine).join("disk/upper");
        let drive = disk.join("root/.wine/drive_c");
        if drive.exists() {
            // Each keeps its own log where there is no journal to ask for.
            let logs = drive.join("var/log");
            assert!(
                logs.join("kubelet/kubelet.log").exists(),
                "{}",
                logs.display()
            );
            all_files(&logs, &mut files);
            all_files(&drive.join("Program Files/mullion"), &mut files);
            continue;
        }
        // What the agent keeps on the machine.
        all_files(&disk.join("var/lib/mullion"), &mut files);
        let ran = lab
            .run(&["ssh", machine, "--", "journalctl", "--no-pager", "--quiet"])
            .good();
        assert!(ran.out.lines().count() > 10, "{ran}");
        texts.push((format!("the journal of {machine}"), ran.out));
    }
    for file in files {
        let bytes = fs_err::read(&file).unwrap();
        texts.push((
            file.display().to_string(),
            String::from_utf8_lossy(&bytes).into_owned(),
        ));
    }
    let found = texts.iter().flat_map(|(place, text)| {
        let secrets = secrets(text).into_iter();
        secrets.map(move |secret| format!("{place}: {secret}"))
    });
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "{found:#?}");
    let tokens = lab.list(&[
        "secrets",
        "--namespace=kube-system",
        "--field-selector=type=bootstrap.kubernetes.io/token",
    ]);
    assert!(tokens.is_empty(), "{tokens:#?}");
}

/// What is kept of a cluster is its owner's alone.
#[track_caller]
pub(crate) fn are_private(lab: &Lab) {
    let mode = |path: &Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
    let kept = lab.kept();
    assert_eq!(mode(&kept), 0o700, "{}", kept.display());
    let mut files = Vec::new();
    all_files(&kept, &mut files);
    for run in lab.runs() {
        assert_eq!(mode(&run), 0o700, "{}", run.display());
        all_files(&run, &mut files);
    }
    let has = |name: &str| files.contains(&kept.join(name));
    assert!(has("kubeconfig") && has("id_ed25519"), "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// Every file below a folder.
pub(crate) fn all_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs_err::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            all_files(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

#[test]
fn a_token_and_a_key_are_seen_and_a_name_is_not() {
    assert_eq!(
        secrets("kubeadm join --token abc123.0123456789abcdef x").len(),
        1
    );
    assert_eq!(secrets("-----BEGIN EC PRIVATE KEY-----").len(), 1);
    assert_eq!(secrets("client-key-data: AAAA").len(), 1);
    assert_eq!(
        secrets("flanneld.0123456789abcdef system.slice-and-more k8s.io/a.b"),
        Vec::<String>::new()
    );
}
