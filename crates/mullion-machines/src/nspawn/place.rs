//! Where machines are on the disk, and the labels on them.

use std::io::{ErrorKind, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;
use mullion_plan::{Identity, Size, TemplateId, Trouble};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::Os;
use serde::{Deserialize, Serialize};

use super::erase::erase;
pub(super) use super::erase::erase as remove;
use crate::error::DriverError;
use mullion_rights::{read_record, replace};

/// The folder that holds clusters and their machines.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    clusters: PathBuf,
}

/// The folder of one machine.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub(super) folder: PathBuf,
}

/// The form of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LabelVersion {
    #[serde(rename = "mullion.dev/machine/v1")]
    V1,
}

/// What a machine is to whoever logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Guise {
    /// Linux, which it is.
    #[default]
    Linux,
    /// Windows: a stand-in, of which the template makes it one.
    Windows,
}

impl Guise {
    /// Refuses to make a machine with another system.
    pub(super) fn makes(self, os: Os) -> Result<(), DriverError> {
        match (self, os) {
            (Self::Linux, Os::Linux) | (Self::Windows, Os::Windows) => Ok(()),
            _ => Err(DriverError::Cannot("make machines with that system")),
        }
    }

    /// Who logs in.
    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Linux => "root",
            Self::Windows => "Administrator",
        }
    }
}

/// What a machine's folder says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Label {
    pub(super) version: LabelVersion,
    pub(super) cluster: ClusterName,
    pub(super) name: MachineName,
    #[serde(default)]
    pub(super) guise: Guise,
    pub(super) template: TemplateId,
    /// The template's folder.
    pub(super) template_path: PathBuf,
    pub(super) address: Ipv4Addr,
    pub(super) network: Ipv4Net,
    pub(super) size: Size,
    /// Whether its making was finished.
    pub(super) whole: bool,
    /// Whether it was ever started.
    pub(super) ran: bool,
    /// Its public host key.
    pub(super) host_key: Option<String>,
    /// What tells its cluster from others of the name; older versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<Identity>,
    /// Whether it starts with this computer; older versions wrote nothing, and nothing of theirs did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) autostart: Option<bool>,
}

/// What the folder of a machine is marked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Marked {
    /// There is no folder.
    Absent,
    /// The machine's making had just begun, or its removal was cut off: nothing but the draft of a label is there.
    Bare,
    /// A label of ours.
    Ours(Box<Label>),
    /// What is there must be left as it is.
    LeftAlone(Trouble),
}

/// The file that is a machine's label.
const LABEL: &str = "machine.json";

/// Where a label is written before it takes its place.
const DRAFT: &str = "machine.json.new";

/// The folder that belongs to a disk.
const LOST: &str = "lost+found";

/// What every version of a label begins with.
const FORM: &str = "mullion.dev/machine/v";

/// The beginning of every version of a label.
#[derive(Deserialize)]
struct OnlyVersion {
    version: String,
}

/// Reads a label. Its version is judged before anything else: a newer one may look otherwise in all other parts.
fn read_label(
    file: &Path,
    bytes: &[u8],
    (cluster, machine): (&ClusterName, &MachineName),
) -> Result<Label, Trouble> {
    let name = file.display().to_string();
    let unreadable = |why: String| Trouble::Unreadable {
        file: name.clone(),
        why,
    };
    let broken = |error: serde_json::Error| unreadable(format!("is damaged: {error}"));
    let OnlyVersion { version } = serde_json::from_slice(bytes).map_err(broken)?;
    if version != format!("{FORM}1") {
        return Err(if version.starts_with(FORM) {
            Trouble::Newer {
                file: name.clone(),
                version,
            }
        } else {
            unreadable("is not the label of a machine".into())
        });
    }
    let label: Label = serde_json::from_slice(bytes).map_err(broken)?;
    if (&label.cluster, &label.name) != (cluster, machine) {
        return Err(unreadable(format!(
            "is the label of machine `{}` of cluster `{}`",
            label.name, label.cluster
        )));
    }
    Ok(label)
}

/// What a machine has on the real disk, beside its clone: containerd, kubelet and etcd do not work on an overlay.
pub(super) const ON_DISK: [(&str, &str); 3] = [
    ("containerd", "/var/lib/containerd"),
    ("kubelet", "/var/lib/kubelet"),
    ("etcd", "/var/lib/etcd"),
];

impl Ground {
    pub(super) fn new(place: &Path) -> Self {
        Self {
            clusters: place.join("clusters"),
        }
    }

    /// The folder of all clusters, there or not.
    pub(super) fn clusters_folder(&self) -> &Path {
        &self.clusters
    }

    /// The folder of a machine, there or not.
    pub(super) fn home(&self, cluster: &ClusterName, machine: &MachineName) -> Home {
        let folder = self.machines(cluster).join(machine.as_str());
        Home { folder }
    }

    fn machines(&self, cluster: &ClusterName) -> PathBuf {
        self.cluster(cluster).join("machines")
    }

    /// The folder of a cluster, there or not.
    pub(super) fn cluster(&self, cluster: &ClusterName) -> PathBuf {
        self.clusters.join(cluster.as_str())
    }

    /// The clusters that have a folder.
    pub(super) fn clusters(&self) -> Result<Vec<ClusterName>, DriverError> {
        let names = names(&self.clusters)?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The machines of a cluster that have a folder.
    pub(super) fn machines_of(
        &self,
        cluster: &ClusterName,
    ) -> Result<Vec<MachineName>, DriverError> {
        let names = names(&self.machines(cluster))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The folders among those of clusters whose names no cluster can have. Each may be a cluster's that was renamed.
    pub(super) fn strange_clusters(&self) -> Result<Vec<String>, DriverError> {
        strange_folders(&self.clusters, |name| name.parse::<ClusterName>().is_ok())
    }

    /// Why the machines of a cluster must be left as they are: a folder among theirs cannot be told. It may be a machine
    /// that was renamed or that a newer version made, and that still runs.
    pub(super) fn strange_machine(
        &self,
        cluster: &ClusterName,
    ) -> Result<Option<Trouble>, DriverError> {
        let is_machine = |name: &str| name.parse::<MachineName>().is_ok();
        let found = strange_folders(&self.machines(cluster), is_machine)?;
        let mut troubles = found
            .into_iter()
            .map(|folder| Trouble::StrangeFolder { folder });
        Ok(troubles.next())
    }

    /// Removes a cluster's folders once nothing is in them.
    pub(super) fn tidy(&self, cluster: &ClusterName) {
        let machines = self.machines(cluster);
        // One that is not empty stays.
        let mut folder = Some(machines.as_path());
        while let Some(path) = folder.filter(|path| path.starts_with(&self.clusters)) {
            if fs_err::remove_dir(path).is_err_and(|error| error.kind() != ErrorKind::NotFound) {
                break;
            }
            folder = path.parent();
        }
    }
}

impl Home {
    /// What the machine changed in its clone of the template.
    pub(super) fn upper(&self) -> PathBuf {
        self.on_disk("upper")
    }

    /// Where the overlay keeps its own files.
    pub(super) fn work(&self) -> PathBuf {
        self.on_disk("work")
    }

    /// Where the clone is mounted, in the machine's own name space.
    pub(super) fn root(&self) -> PathBuf {
        self.on_disk("root")
    }

    /// A folder of the machine's disk.
    pub(super) fn on_disk(&self, name: &str) -> PathBuf {
        self.disk().join(name)
    }

    /// The machine's disk: everything that it writes.
    pub(super) fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// Makes the machine's disk, with nothing of the template yet.
    pub(super) fn make_disk(&self) -> Result<(), DriverError> {
        let disk = self.disk();
        fs_err::create_dir(&disk)?;
        // Programs in it may run as anybody: no other user of this computer gets at them.
        fs_err::set_permissions(&disk, std::fs::Permissions::from_mode(0o700))?;
        for name in ["upper", "work", "root", "kubelet", "etcd"] {
            fs_err::create_dir(self.on_disk(name))?;
        }
        // It is what the machine has as `/`.
        let everybody = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(self.upper(), everybody)?;
        let own = std::fs::Permissions::from_mode(0o700);
        Ok(fs_err::set_permissions(self.on_disk("etcd"), own)?)
    }

    /// What it writes to its console.
    pub(super) fn console(&self) -> PathBuf {
        self.folder.join("console.log")
    }

    /// What the folder is marked with.
    pub(super) fn label(&self, cluster: &ClusterName, machine: &MachineName) -> Marked {
        let file = self.folder.join(LABEL);
        let unreadable = |why: String| {
            Marked::LeftAlone(Trouble::Unreadable {
                file: file.display().to_string(),
                why,
            })
        };
        match fs_err::symlink_metadata(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Marked::Absent,
            Err(error) => return unreadable(format!("cannot be read: {error}")),
            Ok(meta) if !meta.is_dir() => {
                return unreadable("is missing: its folder is not a folder".into());
            }
            Ok(_) => {}
        }
        let bytes = match read_record(&file) {
            Err(error) => return unreadable(format!("cannot be read: {error}")),
            Ok(bytes) => bytes,
        };
        if let Some(bytes) = bytes {
            return match read_label(&file, &bytes, (cluster, machine)) {
                Ok(label) => Marked::Ours(Box::new(label)),
                Err(trouble) => Marked::LeftAlone(trouble),
            };
        }
        // The label is written first and removed last: with anything else in the folder somebody took it away.
        match names(&self.folder) {
            Err(error) => unreadable(format!("cannot be looked for: {error}")),
            Ok(names) => match names.iter().find(|name| *name != DRAFT) {
                None => Marked::Bare,
                Some(other) => unreadable(format!("is missing, and `{other}` is beside it")),
            },
        }
    }

    /// Puts the label on the machine.
    pub(super) fn put_label(&self, label: &Label) -> Result<(), DriverError> {
        let text = serde_json::to_vec_pretty(label).map_err(std::io::Error::from)?;
        let (label, draft) = (self.folder.join(LABEL), self.folder.join(DRAFT));
        Ok(replace(&label, &draft, 0o644, |file| {
            file.write_all(&text)
        })?)
    }

    /// Refuses where something is mounted in the folder: its removal would not be one of the machine's alone.
    pub(super) fn has_no_mounts(&self) -> Result<(), DriverError> {
        match super::mounts::inside(&self.folder)? {
            None => Ok(()),
            Some(mount) => Err(DriverError::Mounted {
                folder: self.folder.clone(),
                mount,
            }),
        }
    }

    /// Removes everything, the label last: a removal that is cut off is still found.
    pub(super) fn remove(&self) -> Result<(), DriverError> {
        for name in names(&self.folder)? {
            if ![LABEL, DRAFT].contains(&name.as_str()) {
                erase(&self.folder.join(name))?;
            }
        }
        erase(&self.folder)
    }
}

/// What is in a folder under a name of no use there, and is no file.
fn strange_folders(
    folder: &Path,
    is_usable: impl Fn(&str) -> bool,
) -> Result<Vec<String>, DriverError> {
    let mut strange = Vec::new();
    for name in names(folder)? {
        // A disk that is mounted there has a folder of its own.
        if name == LOST || is_usable(&name) {
            continue;
        }
        let path = folder.join(name);
        // A name that is not text was changed when it was read: then the path leads nowhere.
        if !path.is_file() || path.is_symlink() {
            strange.push(path.display().to_string());
        }
    }
    Ok(strange)
}

/// The names in a folder; none where it is not there.
fn names(folder: &Path) -> Result<Vec<String>, DriverError> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A link that leads nowhere is there, and so may be what it led to: a disk that is not mounted, perhaps.
            let is_lost = |path: &&Path| path.is_symlink() && !path.exists();
            let Some(link) = folder.ancestors().find(is_lost) else {
                return Ok(Vec::new());
            };
            let words = format!("`{}` is a link that leads nowhere", link.display());
            return Err(std::io::Error::new(ErrorKind::InvalidData, words).into());
        }
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const V1: &str = r#"{"version":"mullion.dev/machine/v1","cluster":"dev","name":"lin1",
        "template":{"name":"linux","fingerprint":"00000000000000000000000000000000"},"templatePath":"/t",
        "address":"10.9.0.11","network":"10.9.0.0/24","size":{"cpus":1,"memory":"1GiB","disk":"1GiB"},
        "whole":true,"ran":true,"hostKey":null}"#;

    /// Labels of machines that the last version without ids made.
    const OLDER: [(&str, &str); 3] = [
        (
            "cp1",
            include_str!("../../../mullion/tests/adopted/machines/cp1/machine.json"),
        ),
        (
            "lin1",
            include_str!("../../../mullion/tests/adopted/machines/lin1/machine.json"),
        ),
        (
            "win1",
            include_str!("../../../mullion/tests/adopted/machines/win1/machine.json"),
        ),
    ];

    #[test]
    fn promise_09_machines_of_the_version_before_are_ours() {
        for (name, text) in OLDER {
            let place = tempfile::tempdir().unwrap();
            let (cluster, machine) = ("mullion".parse().unwrap(), name.parse().unwrap());
            let home = Ground::new(place.path()).home(&cluster, &machine);
            fs_err::create_dir_all(&home.folder).unwrap();
            fs_err::write(home.folder.join(LABEL), text).unwrap();
            match home.label(&cluster, &machine) {
                Marked::Ours(label) => assert!(label.whole && label.identity.is_none()),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    fn home() -> (tempfile::TempDir, Home) {
        let place = tempfile::tempdir().unwrap();
        let home =
            Ground::new(place.path()).home(&"dev".parse().unwrap(), &"lin1".parse().unwrap());
        fs_err::create_dir_all(&home.folder).unwrap();
        (place, home)
    }

    fn label(home: &Home) -> Marked {
        home.label(&"dev".parse().unwrap(), &"lin1".parse().unwrap())
    }

    fn with(text: &str) -> Marked {
        let (_place, home) = home();
        fs_err::write(home.folder.join(LABEL), text).unwrap();
        label(&home)
    }

    fn example() -> String {
        let fingerprint = mullion_plan::Fingerprint::of(&1);
        let fingerprint = serde_json::to_string(&fingerprint).unwrap();
        V1.replace("\"00000000000000000000000000000000\"", &fingerprint)
    }

    #[test]
    fn promise_09_a_label_of_an_older_version_has_no_id_and_is_read() {
        let Marked::Ours(label) = with(&example()) else {
            panic!("{:?}", with(&example()));
        };
        assert_eq!((label.identity.clone(), label.guise), (None, Guise::Linux));
        // It is written as it was.
        let text = serde_json::to_string(&label).unwrap();
        assert!(!text.contains("identity"), "{text}");
        let id = mullion_plan::ClusterUid::of(7);
        let text = example().replace(
            "\"whole\"",
            &format!("\"identity\":{{\"id\":\"{id}\",\"owner\":1000}},\"whole\""),
        );
        let Marked::Ours(label) = with(&text) else {
            panic!("{:?}", with(&text));
        };
        assert_eq!(label.identity, Some(Identity { id, owner: 1000 }));
        let text = serde_json::to_string(&label).unwrap();
        assert_eq!(with(&text), Marked::Ours(label));
    }

    #[test]
    fn promise_06_a_newer_label_is_told_as_newer_whatever_else_is_in_it() {
        for text in [
            r#"{"version":"mullion.dev/machine/v2"}"#,
            r#"{"version":"mullion.dev/machine/v17","cluster":7,"whole":"perhaps"}"#,
        ] {
            assert!(
                matches!(with(text), Marked::LeftAlone(Trouble::Newer { file, .. }) if file.ends_with("machine.json")),
                "{text}"
            );
        }
    }

    #[test]
    fn promise_06_a_damaged_label_is_neither_missing_nor_unfinished() {
        let whole = example();
        for text in [
            "",
            "{}",
            "null",
            &whole[..whole.len() / 2],
            r#"{"version":1}"#,
            &whole.replace(
                "\"whole\"",
                "\"identity\":{\"id\":\"x\",\"owner\":0},\"whole\"",
            ),
            r#"{"version":"somebody.else/v1"}"#,
            &whole.replace("\"lin1\"", "\"lin2\""),
            &whole.replace("\"dev\"", "\"other\""),
        ] {
            let found = with(text);
            assert!(
                matches!(&found, Marked::LeftAlone(Trouble::Unreadable { file, .. }) if file.ends_with("machine.json")),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn promise_06_only_a_folder_as_we_begin_it_was_not_finished() {
        let (place, home) = home();
        assert_eq!(label(&home), Marked::Bare);
        fs_err::write(home.folder.join(DRAFT), "{").unwrap();
        assert_eq!(label(&home), Marked::Bare);
        fs_err::create_dir(home.folder.join("disk")).unwrap();
        let found = label(&home);
        assert!(matches!(&found, Marked::LeftAlone(_)), "{found:?}");
        for made in ["mkdir", "mkfifo"] {
            let path = home.folder.join(LABEL);
            assert!(Command::new(made).arg(&path).status().unwrap().success());
            let found = label(&home);
            assert!(matches!(&found, Marked::LeftAlone(_)), "{made}: {found:?}");
            erase(&path).unwrap();
        }
        fs_err::os::unix::fs::symlink("nowhere", home.folder.join(LABEL)).unwrap();
        assert!(matches!(label(&home), Marked::LeftAlone(_)));
        erase(&home.folder).unwrap();
        assert_eq!(label(&home), Marked::Absent);
        fs_err::os::unix::fs::symlink(place.path(), &home.folder).unwrap();
        assert!(matches!(label(&home), Marked::LeftAlone(_)));
    }

    #[test]
    fn promise_06_a_folder_that_cannot_be_a_machine_is_told_by_its_name() {
        let cluster: ClusterName = "dev".parse().unwrap();
        let place = tempfile::tempdir().unwrap();
        let ground = Ground::new(place.path());
        assert_eq!(ground.strange_machine(&cluster).unwrap(), None);
        let machines = place.path().join("clusters/dev/machines");
        for name in ["lin1", LOST] {
            fs_err::create_dir_all(machines.join(name)).unwrap();
        }
        fs_err::write(machines.join(".notes.swp"), "").unwrap();
        assert_eq!(ground.strange_machine(&cluster).unwrap(), None);
        for name in ["LIN1", "lin1.old", "lin 1"] {
            let folder = machines.join(name);
            for is_link in [false, true] {
                if is_link {
                    fs_err::os::unix::fs::symlink("nowhere", &folder).unwrap();
                } else {
                    fs_err::create_dir(&folder).unwrap();
                }
                let expected = Trouble::StrangeFolder {
                    folder: folder.display().to_string(),
                };
                let found = ground.strange_machine(&cluster).unwrap();
                assert_eq!(found, Some(expected));
                erase(&folder).unwrap();
            }
        }
        let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"lin\xff1");
        fs_err::create_dir(machines.join::<&std::ffi::OsStr>(odd)).unwrap();
        let found = ground.strange_machine(&cluster).unwrap();
        assert!(
            matches!(found, Some(Trouble::StrangeFolder { .. })),
            "{found:?}"
        );
    }

    #[test]
    fn promise_06_a_folder_that_cannot_be_a_cluster_is_found() {
        let place = tempfile::tempdir().unwrap();
        let ground = Ground::new(place.path());
        assert!(ground.strange_clusters().unwrap().is_empty());
        let clusters = place.path().join("clusters");
        for name in ["demo", LOST] {
            fs_err::create_dir_all(clusters.join(name)).unwrap();
        }
        fs_err::write(clusters.join("notes.txt"), "").unwrap();
        assert!(ground.strange_clusters().unwrap().is_empty());
        fs_err::create_dir(clusters.join("demo.bak")).unwrap();
        fs_err::os::unix::fs::symlink("nowhere", clusters.join("demo.old")).unwrap();
        let found = ground.strange_clusters().unwrap();
        let expected = ["demo.bak", "demo.old"].map(|name| clusters.join(name));
        assert_eq!(found, expected.map(|path| path.display().to_string()));
        assert_eq!(ground.clusters().unwrap(), ["demo".parse().unwrap()]);
    }

    #[test]
    fn promise_06_a_folder_that_leads_nowhere_is_neither_missing_nor_empty() {
        let cluster: ClusterName = "dev".parse().unwrap();
        for link in ["clusters", "clusters/dev", "clusters/dev/machines"] {
            let place = tempfile::tempdir().unwrap();
            let ground = Ground::new(place.path());
            assert!(ground.machines_of(&cluster).unwrap().is_empty());
            let link = place.path().join(link);
            fs_err::create_dir_all(link.parent().unwrap()).unwrap();
            fs_err::os::unix::fs::symlink("nowhere", &link).unwrap();
            let DriverError::File(cause) = ground.machines_of(&cluster).unwrap_err() else {
                panic!("{link:?}");
            };
            let words = cause.to_string();
            assert!(words.contains(link.to_str().unwrap()), "{words}");
        }
    }
}
