//! `mullion kubeconfig`: the admin's kubeconfig, written out or merged into the user's own.

use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use mullion_catalog::{Judgement, Model};
use mullion_kube::{KubeconfigError, kubeconfig as text_of};
use mullion_live::ClusterState;
use mullion_rights::{draft_of, private_folder};
use mullion_spec::cluster::ControlPlane;
use mullion_wire::Secret;
use schemars::JsonSchema;
use serde::Serialize;

use super::validate::refuse;
use crate::arguments::KubeconfigArguments;
use crate::console::{Console, Format, GOOD};
use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::output_file;

/// A kubeconfig of the user's is not larger.
const LIMIT: u64 = 16 << 20;

/// The kubeconfig of a cluster, or what became of the file that it was merged into.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigDocument {
    /// The cluster.
    pub cluster: String,
    /// The context that leads to it.
    pub context: String,
    /// The kubeconfig, where it was not merged. It is a secret.
    pub kubeconfig: Option<String>,
    /// The file that it was merged into.
    pub file: Option<String>,
    /// What became of that file: `made`, `changed` or `unchanged`.
    pub change: Option<&'static str>,
}

/// Writes the kubeconfig out, or merges it.
pub fn kubeconfig(
    console: &mut Console<'_>,
    judgement: &Judgement,
    wishes: &KubeconfigArguments,
    environment: &Environment,
) -> Result<u8, Failure> {
    let Some(model) = &judgement.model else {
        return refuse(console, &judgement.verdict);
    };
    let cluster = model.cluster().name.as_str();
    if let ControlPlane::Existing { kubeconfig, .. } = &model.cluster().control_plane {
        let what = format!(
            "cluster `{cluster}` existed before: its kubeconfig is yours already, in `{}`",
            kubeconfig.display()
        );
        return Err(Failure::new(Class::Usage, what)
            .hint("use that file, or `mullion kubectl`, which uses it too"));
    }
    let context = wishes.context.as_deref().unwrap_or(cluster);
    if context.trim().is_empty() {
        return Err(Failure::new(Class::Usage, "a context's name is not empty"));
    }
    let kept = kept(model, environment)?;
    let ours = text_of::rename(kept.reveal(), context, None).map_err(|error| {
        let what = format!("the kubeconfig that is kept of cluster `{cluster}` cannot be used");
        Failure::new(Class::ThisComputer, what)
            .because(&error)
            .hint("fetch it again with `mullion up`")
    })?;
    let mut document = KubeconfigDocument {
        cluster: cluster.into(),
        context: context.into(),
        kubeconfig: None,
        file: None,
        change: None,
    };
    let Some(target) = &wishes.merge else {
        match console.format {
            Format::Text => console.out.write_all(ours.as_bytes())?,
            Format::Json => {
                document.kubeconfig = Some(ours);
                console.json("Kubeconfig", &document)?;
            }
        }
        return Ok(0);
    };
    let named = target.as_deref();
    let target = target_of(named, environment);
    // Root's own file where state is root's; what the user names, or has, is theirs.
    let is_roots = || target.parent().is_some_and(mullion_rights::belongs_to_root);
    let _rights = if named.is_none() && is_roots() {
        mullion_rights::as_default()
    } else {
        mullion_rights::as_invoker()
    };
    if let Some(link) = named.and_then(|path| link_in_folder(&environment.folder, path)) {
        let what = format!("nothing is merged into `{}`", target.display());
        let link = format!("`{}` is a symbolic link", link.display());
        return Err(Failure::new(Class::Usage, what)
            .because(&io::Error::other(link))
            .hint("name the file that the link leads to"));
    }
    let merged = merge(&target, &ours, context)?;
    let shown = target.display();
    document.file = Some(shown.to_string());
    document.change = Some(merged.change);
    if console.format == Format::Json {
        console.json("Kubeconfig", &document)?;
        return Ok(0);
    }
    let word = console.styled_err(GOOD, merged.change);
    writeln!(
        console.err,
        "{word} {shown}: context `{context}` leads to cluster `{cluster}`"
    )?;
    if merged.lost_comments {
        writeln!(console.err, "comments in it are gone")?;
    }
    writeln!(console.err, "\nnext: kubectl --context {context} get nodes")?;
    Ok(0)
}

/// The kubeconfig that a run of `up` kept.
fn kept(model: &Model, environment: &Environment) -> Result<Secret, Failure> {
    let cluster = &model.cluster().name;
    let state = ClusterState::find(&environment.state, cluster);
    let text = state
        .map(|state| state.kubeconfig())
        .transpose()
        .map_err(|error| {
            let what = format!("the kubeconfig of cluster `{cluster}` cannot be read");
            Failure::new(Class::ThisComputer, what).because(&error)
        })?;
    text.flatten().ok_or_else(|| not_up(model))
}

/// The cluster was never up, or everything that was known of it here is lost.
pub(super) fn not_up(model: &Model) -> Failure {
    let cluster = &model.cluster().name;
    let what = format!("cluster `{cluster}` is not up: no kubeconfig is kept of it");
    Failure::new(Class::Machine, what).hint("bring it up with `mullion up`")
}

/// The file to merge into: the named one, the first of `KUBECONFIG`, or the usual one.
fn target_of(named: Option<&Path>, environment: &Environment) -> PathBuf {
    if let Some(named) = named {
        return environment.folder.join(named);
    }
    let first = environment.values.get("KUBECONFIG").and_then(|paths| {
        let mut paths = std::env::split_paths(paths);
        paths.find(|path| !path.as_os_str().is_empty())
    });
    match first {
        Some(path) => environment.folder.join(path),
        None => environment.home.join(".kube").join("config"),
    }
}

/// The first link of a relative path: in somebody else's repository it may lead anywhere.
fn link_in_folder(folder: &Path, path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return None;
    }
    output_file::link_on_the_way(folder, path)
}

struct Merged {
    change: &'static str,
    lost_comments: bool,
}

fn merge(target: &Path, ours: &str, context: &str) -> Result<Merged, Failure> {
    let shown = target.display();
    let target = resolved(target);
    let existing = read(&target).map_err(|error| {
        Failure::new(
            Class::ThisComputer,
            format!("`{shown}` cannot be read, and was not changed"),
        )
        .because(&error)
    })?;
    let merged = text_of::merge(existing.as_deref(), ours, context).map_err(|error| {
        let failure = Failure::new(
            Class::ThisComputer,
            format!("`{shown}` was not changed: nothing can be merged into it"),
        )
        .because(&error);
        match error {
            KubeconfigError::Taken { .. } => {
                failure.hint("give ours another name with `--context NAME`")
            }
            _ => failure.hint("mend that file, or name another one: `--merge FILE`"),
        }
    })?;
    let lost_comments = existing.as_deref().is_some_and(has_comments);
    let change = match existing {
        None => "made",
        Some(existing) if existing == merged => "unchanged",
        Some(_) => "changed",
    };
    if change != "unchanged" {
        replace(&target, merged.as_bytes()).map_err(|error| {
            Failure::new(
                Class::ThisComputer,
                format!("`{shown}` could not be written"),
            )
            .because(&error)
        })?;
    }
    Ok(Merged {
        change,
        lost_comments: lost_comments && change == "changed",
    })
}

fn has_comments(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with('#'))
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let found = match fs_err::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if found.len() > LIMIT {
        return Err(io::Error::other("it is too large for a kubeconfig"));
    }
    fs_err::read_to_string(path).map(Some)
}

/// Where a path leads, through links, also where the last one leads to nothing yet.
pub(super) fn resolved(path: &Path) -> PathBuf {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(real) = fs_err::canonicalize(&path) {
            return real;
        }
        let Ok(next) = std::fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("/")).join(next);
    }
    path
}

/// Puts a file in the place of another, or where none is: its readers see the old one or all of the new one.
///
/// The old one's mode and owner stay. A new one is readable by its owner alone.
pub(super) fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        private_folder(folder)?;
    }
    mullion_rights::replace(target, &draft_of(target), 0o600, |file| {
        file.write_all(bytes)?;
        keep_owner_and_mode(file, target)
    })
}

/// Gives a new file the owner and the mode of the one that it replaces.
fn keep_owner_and_mode(file: &fs_err::File, target: &Path) -> io::Result<()> {
    if let Ok(old) = fs_err::metadata(target) {
        let new = file.metadata()?;
        if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
            fchown(file, Some(old.uid()), Some(old.gid()))?;
        }
        // After its owner: that takes some bits away.
        file.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o7777))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    const OURS: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: kubernetes\n  cluster: {server: \"https://10.99.0.2:6443\"}\n\
                        contexts:\n- name: admin\n  context: {cluster: kubernetes, user: admin}\ncurrent-context: admin\n\
                        users:\n- name: admin\n  user: {token: abc}\n";

    fn mode(path: &Path) -> u32 {
        fs_err::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/config");
        assert_eq!(merge(&file, OURS, "demo").unwrap().change, "made");
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        assert_eq!(merge(&file, OURS, "demo").unwrap().change, "unchanged");
        let open = std::fs::Permissions::from_mode(0o640);
        fs_err::set_permissions(&file, open).unwrap();
        assert_eq!(merge(&file, OURS, "other").unwrap().change, "changed");
        assert_eq!(mode(&file), 0o640);
        assert_eq!(fs_err::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        let text = fs_err::read_to_string(&file).unwrap();
        assert!(text.contains("demo") && text.contains("other"), "{text}");
    }

    #[test]
    fn links_are_followed_even_to_where_nothing_is_yet() {
        let folder = tempfile::tempdir().unwrap();
        let (link, real) = (folder.path().join("config"), folder.path().join("real"));
        fs_err::os::unix::fs::symlink("real", &link).unwrap();
        for change in ["made", "changed"] {
            let context = format!("demo-{change}");
            assert_eq!(merge(&link, OURS, &context).unwrap().change, change);
            assert!(link.is_symlink() && real.is_file());
        }
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs_err::os::unix::fs::symlink("other", &one).unwrap();
        fs_err::os::unix::fs::symlink("one", &other).unwrap();
        assert!(merge(&one, OURS, "demo").is_err(), "a ring of links");
    }

    #[test]
    fn promise_03_a_link_in_a_repository_is_not_merged_into() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        for (path, is_refused) in [("link", true), ("link/config", true), ("config", false)] {
            let link = link_in_folder(folder.path(), Path::new(path));
            assert_eq!(link.is_some(), is_refused, "{path}");
        }
        // What the user names from the root on is their own choice, such as the one that a tool of theirs made.
        let whole = folder.path().join("link");
        assert_eq!(link_in_folder(folder.path(), &whole), None);
    }

    #[test]
    fn a_file_that_does_not_read_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let taken = "contexts: [{name: demo, context: {cluster: a, user: b}}]\n";
        for (bad, word) in [
            (&b"clusters: [\n"[..], "--merge"),
            (b"- a\n", "--merge"),
            (taken.as_bytes(), "--context"),
            (b"\xff\xfe", "cannot be read"),
        ] {
            fs_err::write(&file, bad).unwrap();
            let failure = merge(&file, OURS, "demo").err().unwrap();
            assert!(failure.to_string().contains(word), "{failure}");
            assert_eq!(fs_err::read(&file).unwrap(), bad);
        }
        let failure = merge(folder.path(), OURS, "demo").err().unwrap();
        assert!(failure.to_string().contains("not a file"), "{failure}");
    }

    #[test]
    fn the_first_named_file_is_merged_into() {
        let environment = |kubeconfig: &'static str| {
            Environment::new("/work".into(), move |name| match name {
                "HOME" => Some("/home/user".into()),
                "KUBECONFIG" => Some(OsString::from(kubeconfig)),
                _ => None,
            })
        };
        let first = |kubeconfig| target_of(None, &environment(kubeconfig));
        assert_eq!(first("/a:/b"), PathBuf::from("/a"));
        assert_eq!(first(":/b"), PathBuf::from("/b"));
        assert_eq!(first(""), PathBuf::from("/home/user/.kube/config"));
        let named = target_of(Some(Path::new("mine")), &environment("/a"));
        assert_eq!(named, PathBuf::from("/work/mine"));
    }
}
