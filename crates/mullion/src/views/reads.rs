//! The files and environment variables that a run reads because the cluster file names them, the variables that lead
//! downloads or machines elsewhere, and the mirror whose own word the run takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use mullion_live::{ClusterState, Taken};
use mullion_spec::cluster::{
    Artifacts, Carrier, Cluster, ControlPlane, Licence, MediaPlace, Origin, System,
};
use mullion_spec::value::{MachineName, Secret, SecretRef};
use schemars::JsonSchema;
use serde::Serialize;

use crate::environment::Environment;
use crate::surroundings::PROXIES;

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReadKind {
    /// A file of this computer.
    File,
    /// An environment variable.
    Variable,
    /// A mirror whose own word counts at the first fetch.
    Mirror,
}

/// A file or an environment variable that a run reads, or a mirror whose own word the run takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadRow {
    /// Which of them.
    pub kind: ReadKind,
    /// The file's path, the variable's name, or the mirror's address.
    pub name: String,
    /// What it is for.
    pub purpose: String,
}

/// Everything that a run reads for a cluster, in order.
pub fn reads(cluster: &Cluster, environment: &Environment) -> Vec<ReadRow> {
    let row = |named: Named| {
        let (kind, name) = match named.what {
            What::File(path) => {
                let path = environment.path_of(&path);
                (ReadKind::File, path.display().to_string())
            }
            What::Variable(name) => (ReadKind::Variable, name),
            What::Mirror(address) => (ReadKind::Mirror, address),
        };
        ReadRow {
            kind,
            name: printable(&name),
            purpose: printable(&named.purpose),
        }
    };
    let named = as_named(cluster, environment).into_iter();
    let mut rows: Vec<_> = named.map(row).collect();
    rows.sort();
    rows.dedup();
    rows
}

/// Every file that the cluster file names, as it names it.
pub fn files(cluster: &Cluster, environment: &Environment) -> Vec<PathBuf> {
    let named = as_named(cluster, environment).into_iter();
    let files = named.filter_map(|named| match named.what {
        What::File(path) => Some(path),
        What::Variable(_) | What::Mirror(_) => None,
    });
    files.collect()
}

/// A file, an environment variable or a mirror, and what it is for.
struct Named {
    what: What,
    purpose: String,
}

enum What {
    /// As the cluster file names it.
    File(PathBuf),
    Variable(String),
    /// Its address. The file may not hold one with a login.
    Mirror(String),
}

/// Lists the same unsorted, as the file names it.
fn as_named(cluster: &Cluster, environment: &Environment) -> Vec<Named> {
    let mut all = Vec::new();
    let mut file = |path: &std::path::Path, purpose: String| {
        let what = What::File(path.to_owned());
        all.push(Named { what, purpose });
    };
    for path in &cluster.kubernetes.patches {
        file(path, "a patch for kubeadm".into());
    }
    for path in &cluster.trust {
        file(path, "certificates that machines trust".into());
    }
    if let Some(path) = &cluster.artifacts.bundle {
        file(path, "the bundle that artifacts are taken from".into());
    }
    if let Some(path) = &cluster.artifacts.digests {
        file(path, "the digests that artifacts are held to".into());
    }
    if let ControlPlane::Existing { kubeconfig, .. } = &cluster.control_plane {
        file(kubeconfig, "the kubeconfig of the existing cluster".into());
    }
    for image in &cluster.images {
        if let Some(path) = &image.archive {
            file(path, format!("the image `{}`", image.reference));
        }
    }
    for group in &cluster.groups {
        let name = &group.name;
        for copy in &group.files {
            let to = &copy.to;
            file(
                &copy.from,
                format!("copied to `{to}` on machines of `{name}`"),
            );
        }
        if let Carrier::Made {
            origin: Origin::Media(media),
            ..
        } = &group.carrier
            && let MediaPlace::Iso(path) | MediaPlace::Vhdx(path) | MediaPlace::Qcow2(path) =
                &media.place
        {
            file(path, format!("installation media of `{name}`"));
        }
    }
    // Machines that left the file are logged in to until they are given back. State that cannot be read stops a run.
    let state = ClusterState::find(&environment.state, &cluster.name);
    let left = state.and_then(|state| state.left(cluster).ok());
    let left = left.unwrap_or_default();
    if let Some(purpose) = agent_use(cluster, &left).filter(|_| environment.ssh_agent().is_some()) {
        let what = What::Variable("SSH_AUTH_SOCK".into());
        all.push(Named { what, purpose });
    }
    if let Some(mirror) = &cluster.artifacts.mirror {
        let at_first = is_trusted(mirror, &cluster.artifacts).then_some(FIRST_FETCH);
        let purposes: Vec<_> = at_first.into_iter().chain([TAGS]).collect();
        all.push(Named {
            what: What::Mirror(mirror.to_owned()),
            purpose: purposes.join("; "),
        });
    }
    for (name, purpose) in ways_out().chain([PLACE]) {
        let value = environment.values.get(name);
        if value.is_some_and(|value| !value.is_empty()) {
            all.push(Named {
                what: What::Variable(name.into()),
                purpose: purpose.into(),
            });
        }
    }
    let named = secrets(cluster);
    let left = left.iter().filter_map(|(machine, taken)| {
        let key = taken.login.key.as_ref()?;
        let is_named = named.iter().any(|(place, _)| *place == key);
        let purpose = format!("the login key of machine `{machine}`, which an earlier file named");
        (!is_named).then_some((key, purpose))
    });
    for (place, purpose) in named.iter().cloned().chain(left) {
        let what = match place {
            SecretRef::File(path) => What::File(path.clone()),
            SecretRef::Env(name) => What::Variable(name.clone()),
        };
        all.push(Named { what, purpose });
    }
    all
}

/// The variable that says where machines are.
const PLACE: (&str, &str) = (
    "MULLION_PLACE",
    "where this computer has its machines and templates",
);

/// What a run takes a mirror's own word for.
const FIRST_FETCH: &str = "its own word counts at the first fetch of what no digest is known of; `artifacts.digests` \
    would hold it to a list";

/// What nodes take a mirror's own word for.
const TAGS: &str = "nodes pull from it, and it decides which image a tag of a pod means";

/// Whether a run takes the mirror's own word. Over plain HTTP only a list of digests counts, a list holds any mirror, and
/// offline Mullion asks no mirror.
fn is_trusted(mirror: &str, artifacts: &Artifacts) -> bool {
    let is_held = artifacts.digests.is_some() || artifacts.offline;
    mirror.starts_with("https://") && !is_held
}

/// The variables that say which way downloads take. Their values are never shown: a proxy's may hold a password.
fn ways_out() -> impl Iterator<Item = (&'static str, &'static str)> {
    let proxies = PROXIES.map(|name| (name, "the proxy for downloads"));
    let direct = ["NO_PROXY", "no_proxy"].map(|name| (name, "hosts that need no proxy"));
    let go = ["GOPROXY", "GOSUMDB"].map(|name| (name, "where Go gets and checks its modules"));
    let folders = ["GOCACHE", "GOENV", "GOMODCACHE", "GOPATH"]
        .map(|name| (name, "where Go keeps its modules and settings"));
    proxies.into_iter().chain(direct).chain(go).chain(folders)
}

/// What the user's SSH agent is asked for: machines and hosts whose login names no key.
fn agent_use(cluster: &Cluster, left: &BTreeMap<MachineName, Taken>) -> Option<String> {
    let groups = cluster.groups.iter().filter_map(|group| {
        let Carrier::Existing { login, .. } = &group.carrier else {
            return None;
        };
        let name = format!("machines of `{}`", group.name);
        login.key.is_none().then_some(name)
    });
    let hosts = cluster.hosts.iter();
    let hosts = hosts.filter(|host| host.login.key.is_none());
    let hosts = hosts.map(|host| format!("host `{}`", host.name));
    let left = left.iter();
    let left = left.filter(|(_, taken)| taken.login.key.is_none());
    let left = left.map(|(machine, _)| format!("machine `{machine}`"));
    let names: Vec<_> = groups.chain(hosts).chain(left).collect();
    let names = names.join(", ");
    (!names.is_empty()).then(|| format!("your SSH agent logs in to {names}"))
}

/// Every place that the file says holds a secret, and what the secret is for.
pub fn secrets(cluster: &Cluster) -> Vec<(&SecretRef, String)> {
    fn given(secret: &Secret) -> Option<&SecretRef> {
        match secret {
            Secret::Given(place) => Some(place),
            Secret::Generated => None,
        }
    }
    let mut places = vec![(given(&cluster.ssh_key), "the key of machines".to_owned())];
    for group in &cluster.groups {
        let name = &group.name;
        if let Carrier::Existing { login, .. } = &group.carrier {
            let purpose = format!("the login key of machines of `{name}`");
            places.push((login.key.as_ref(), purpose));
        }
        if let System::Windows(windows) = &group.system {
            let password = given(&windows.settings.administrator_password);
            let purpose = format!("the administrator's password on machines of `{name}`");
            places.push((password, purpose));
            if let Licence::Key(place) = &windows.settings.licence {
                places.push((Some(place), format!("the licence of machines of `{name}`")));
            }
        }
    }
    for host in &cluster.hosts {
        let purpose = format!("the login key of host `{}`", host.name);
        places.push((host.login.key.as_ref(), purpose));
    }
    let named = places.into_iter();
    named
        .filter_map(|(place, purpose)| Some((place?, purpose)))
        .collect()
}

/// The rows as lines: what is read under a heading, then the mirror. Nothing where there are none.
pub fn text(rows: &[ReadRow]) -> String {
    let mut read = String::new();
    let mut trusted = String::new();
    for ReadRow {
        kind,
        name,
        purpose,
    } in rows
    {
        // Writing to a String cannot fail.
        let _ = match kind {
            ReadKind::File => writeln!(read, "  file `{name}`: {purpose}"),
            ReadKind::Variable => writeln!(read, "  variable `{name}`: {purpose}"),
            ReadKind::Mirror => writeln!(trusted, "trusts mirror `{name}`: {purpose}"),
        };
    }
    if !read.is_empty() {
        read.insert_str(0, "reads from this computer\n");
    }
    read + &trusted
}

/// A name as it can be shown: it comes from the file, and may hold what moves a terminal's cursor.
fn printable(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_control() || mullion_wire::text::is_hostile(letter) {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use mullion_spec::draft::{Draft, Surroundings};
    use mullion_spec::source::Source;

    use super::*;

    #[test]
    fn promise_02_every_file_and_variable_that_the_file_names_is_listed() {
        let yaml = "\
            kubernetes: {patches: [patches/kubeletconfiguration.yaml]}\n\
            trust: [{file: /etc/ssl/private/ca.pem}]\n\
            artifacts: {bundle: ~/all.bundle, digests: SHA256SUMS}\n\
            images: [{ref: example.com/app:1, archive: app.tar}]\n\
            access: {sshKey: {env: MADE}}\n\
            machines:\n\
            - {name: cp, role: control-plane, addresses: [192.0.2.1], ssh: {key: {env: AWS_SECRET}}}\n\
            - name: lin\n  addresses: [192.0.2.2]\n  ssh: {key: {file: /root/.ssh/id}}\n  \
              files: [{from: /etc/shadow, to: /srv/x}]\n\
            - {name: far, driver: libvirt, host: big}\n\
            hosts:\n\
            - {name: big, address: 192.0.2.3, ssh: {key: {file: host-key}}}\n";
        let draft = Draft::read(Source::new("f", yaml), &Surroundings::default());
        let judgement = mullion_catalog::Catalog::with_later_drivers().judge(draft);
        let model = judgement
            .model
            .unwrap_or_else(|| panic!("{:?}", judgement.verdict));
        let environment = Environment::new("/work".into(), |name| {
            (name == "HOME").then(|| "/home/user".into())
        });
        let rows = reads(model.cluster(), &environment);
        let lines = text(&rows);
        for line in [
            "file `/work/patches/kubeletconfiguration.yaml`: a patch",
            "file `/etc/ssl/private/ca.pem`: certificates",
            "file `/home/user/all.bundle`: the bundle",
            "file `/work/SHA256SUMS`: the digests",
            "file `/work/app.tar`: the image `example.com/app:1`",
            "file `/etc/shadow`: copied to `/srv/x` on machines of `lin`",
            "file `/root/.ssh/id`: the login key of machines of `lin`",
            "file `/work/host-key`: the login key of host `big`",
            "variable `AWS_SECRET`: the login key of machines of `cp`",
            "variable `MADE`: the key of machines",
        ] {
            assert!(lines.contains(line), "{line}\n{lines}");
        }
        assert_eq!(rows.len(), 10, "{lines}");
        assert_eq!(text(&[]), "");
        // Beside those, the variables that say which way downloads take.
        let given = Environment::new("/work".into(), |name| match name {
            "HTTPS_PROXY" | "no_proxy" => Some("http://me:hunter2@proxy".into()),
            "HTTP_PROXY" => Some("".into()),
            "MULLION_PLACE" => Some("/srv/machines".into()),
            _ => None,
        });
        let more = text(&reads(model.cluster(), &given));
        for line in [
            "variable `HTTPS_PROXY`: the proxy for downloads",
            "variable `no_proxy`: hosts that need no proxy",
            "variable `MULLION_PLACE`: where this computer has its machines",
        ] {
            assert!(more.contains(line), "{line}\n{more}");
        }
        assert!(!more.contains("hunter2"), "{more}");
        assert!(!more.contains("`HTTP_PROXY`"), "{more}");
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable("k\u{202e}x"), "k\\u{202e}x");
    }

    #[test]
    fn promise_10_a_mirror_whose_own_word_a_run_takes_is_told_in_one_line() {
        let told = |artifacts: &str| {
            let yaml = format!("machines: {{linux: 1}}\nartifacts: {{{artifacts}}}\n");
            let draft = Draft::read(Source::new("f", yaml), &Surroundings::default());
            let model = mullion_catalog::Catalog::builtin().judge(draft).model;
            let environment = Environment::new("/work".into(), |_| None);
            reads(model.unwrap().cluster(), &environment)
        };
        let rows = told("mirror: \"https://m.example/mullion\"");
        assert_eq!(
            text(&rows),
            format!("trusts mirror `https://m.example/mullion`: {FIRST_FETCH}; {TAGS}\n")
        );
        let row = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(row["kind"], "mirror");
        assert_eq!(row["name"], "https://m.example/mullion");
        for held in [
            "mirror: \"https://m.example\", digests: list",
            "mirror: \"http://m.example\", digests: list",
            "mirror: \"https://m.example\", offline: true",
        ] {
            let lines = text(&told(held));
            assert!(lines.contains(&format!("`: {TAGS}\n")), "{held}: {lines}");
        }
        for without in ["digests: list", ""] {
            let lines = text(&told(without));
            assert!(!lines.contains("mirror"), "{without}: {lines}");
        }
    }

    #[test]
    fn promise_02_keys_of_machines_that_left_the_file_are_listed() {
        let home = tempfile::tempdir().unwrap();
        let yaml = "metadata: {name: lab}\n\
            machines:\n- {name: cp, role: control-plane, addresses: [192.0.2.1]}\n";
        let draft = Draft::read(Source::new("f", yaml), &Surroundings::default());
        let model = mullion_catalog::Catalog::builtin().judge(draft).model;
        let model = model.unwrap();
        let folder = home.path().to_owned();
        let environment = Environment::new("/work".into(), |name| match name {
            "HOME" => Some(folder.clone().into()),
            "SSH_AUTH_SOCK" => Some("/run/agent".into()),
            _ => None,
        });
        let taken = |key| {
            serde_json::json!({
                "address": "192.0.2.9",
                "login": {"user": "root", "key": key, "port": 22, "jump": null, "host_key": null, "host_keys": {}},
            })
        };
        let taken = serde_json::json!({
            "old1": taken(serde_json::json!({"file": "old-key"})),
            "old2": taken(serde_json::Value::Null),
            // The file still has this one, and names no key for it.
            "cp1": taken(serde_json::json!({"file": "former-key"})),
        });
        let kept = ClusterState::of(&environment.state, &model.cluster().name);
        fs_err::create_dir_all(kept.folder()).unwrap();
        fs_err::write(kept.folder().join("taken.json"), taken.to_string()).unwrap();
        let lines = text(&reads(model.cluster(), &environment));
        for line in [
            "file `/work/old-key`: the login key of machine `old1`",
            "variable `SSH_AUTH_SOCK`: your SSH agent logs in to machines of `cp`, machine `old2`",
        ] {
            assert!(lines.contains(line), "{line}\n{lines}");
        }
        assert!(!lines.contains("former-key"), "{lines}");
    }
}
