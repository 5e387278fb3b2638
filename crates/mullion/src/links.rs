//! Refuses symbolic links that came with a cluster file and lead root elsewhere.
//!
//! Under `sudo`, files open with the rights of the invoking user. Root itself has no such limit, and a link in somebody
//! else's repository would hide which file root reads.

use std::io;
use std::path::{Component, Path, PathBuf};

use mullion_spec::cluster::Cluster;

use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::views::reads;

/// Refuses each file that `cluster` names through such a link, where root runs the command for nobody else.
///
/// `file` is the cluster file, where there is one.
pub fn refuse_for_root(
    cluster: &Cluster,
    file: Option<&Path>,
    environment: &Environment,
) -> Result<(), Failure> {
    if mullion_rights::invoker().is_some() || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let folders = Folders::of(file, environment);
    let mut files = reads::files(cluster, environment).into_iter();
    let Some((link, target)) = files.find_map(|file| folders.hidden(&file, environment)) else {
        return Ok(());
    };
    let what = format!(
        "`{}` leads out of the folder of the cluster file, to `{}`",
        link.display(),
        target.display()
    );
    Err(Failure::new(Class::File, what).hint("name the file itself where root should read it"))
}

/// Folders whose links may have come with the cluster file.
struct Folders {
    /// Where relative paths begin.
    start: PathBuf,
    /// That one and the cluster file's own.
    all: Vec<PathBuf>,
}

impl Folders {
    fn of(file: Option<&Path>, environment: &Environment) -> Self {
        let real = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let start = real(&environment.paths);
        let own = file.and_then(|file| {
            let file = environment.folder.join(file);
            file.parent().map(real)
        });
        let all = own.into_iter().chain([start.clone()]).collect();
        Self { start, all }
    }

    /// The link on the way to a file that must not be there, and where it leads.
    fn hidden(&self, named: &Path, environment: &Environment) -> Option<(PathBuf, PathBuf)> {
        // A file that is not there is an error of what reads it.
        let (target, links) = follow(&self.start, &environment.expanded(named)).ok()?;
        let is_relative = named.is_relative() && !named.starts_with("~");
        let mut links = links.into_iter();
        let link = links.find(|link| {
            let around = self.all.iter().filter(|folder| link.starts_with(folder));
            // The closest: the command may run in `/`, which holds every target.
            match around.max_by_key(|folder| folder.components().count()) {
                Some(folder) => !target.starts_with(folder),
                // A path that goes up leads to links of the same repository, and an absolute one to this computer's own.
                None => is_relative,
            }
        })?;
        Some((link, target))
    }
}

/// Where a path leads as the kernel follows it, and the symbolic links on the way.
fn follow(start: &Path, path: &Path) -> io::Result<(PathBuf, Vec<PathBuf>)> {
    let mut at = start.to_owned();
    let mut links = Vec::new();
    for part in path.components() {
        match part {
            Component::Prefix(_) | Component::CurDir => {}
            Component::RootDir => at = PathBuf::from("/"),
            Component::ParentDir => {
                at.pop();
            }
            Component::Normal(name) => {
                at.push(name);
                if at.is_symlink() {
                    links.push(at.clone());
                    at = fs_err::canonicalize(&at)?;
                }
            }
        }
    }
    fs_err::symlink_metadata(&at)?;
    Ok((at, links))
}

#[cfg(test)]
mod tests {
    use fs_err::os::unix::fs::symlink;

    use super::*;

    /// The link that is refused, by its name below the scratch folder.
    fn hidden(start: &Path, file: &str, command: &str, named: &str) -> Option<String> {
        let environment = Environment::new(start.join(command), |_| None);
        let file = start.join(file);
        let folders = Folders::of(Some(&file), &environment);
        let named = named.replace("START", start.to_str().unwrap());
        let (link, _) = folders.hidden(Path::new(&named), &environment)?;
        let link = link.strip_prefix(start).unwrap_or(&link);
        Some(link.display().to_string())
    }

    #[test]
    fn promise_02_a_link_that_came_with_the_file_hides_nothing_whatever_the_path_or_the_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let start = fs_err::canonicalize(scratch.path()).unwrap();
        for folder in ["secrets", "repo/deploy/x", "repo/real", "elsewhere"] {
            fs_err::create_dir_all(start.join(folder)).unwrap();
        }
        for file in ["secrets/shadow", "repo/deploy/plain", "repo/real/plain"] {
            fs_err::write(start.join(file), "text").unwrap();
        }
        symlink(start.join("secrets"), start.join("repo/link")).unwrap();
        symlink("../../secrets", start.join("repo/deploy/link")).unwrap();
        symlink("plain", start.join("repo/deploy/inside")).unwrap();
        symlink("secrets", start.join("system")).unwrap();
        let file = "repo/deploy/cluster.yaml";
        for (command, named, expected) in [
            ("repo/deploy", "link/shadow", Some("repo/deploy/link")),
            ("repo/deploy", "x/../link/shadow", Some("repo/deploy/link")),
            (
                "repo/deploy",
                "./x/.././link/shadow",
                Some("repo/deploy/link"),
            ),
            ("repo/deploy", "../link/shadow", Some("repo/link")),
            (
                "repo/deploy",
                "link/../secrets/shadow",
                Some("repo/deploy/link"),
            ),
            (
                "repo/deploy",
                "START/repo/deploy/link/shadow",
                Some("repo/deploy/link"),
            ),
            ("repo", "link/shadow", Some("repo/link")),
            ("repo", "deploy/link/shadow", Some("repo/deploy/link")),
            ("", "repo/deploy/link/shadow", Some("repo/deploy/link")),
            (
                "elsewhere",
                "START/repo/deploy/link/shadow",
                Some("repo/deploy/link"),
            ),
            (
                "elsewhere",
                "../repo/deploy/link/shadow",
                Some("repo/deploy/link"),
            ),
            // What it names openly, links that stay inside, and links of the computer itself.
            ("repo/deploy", "plain", None),
            ("repo/deploy", "inside", None),
            ("repo/deploy", "../real/plain", None),
            ("repo/deploy", "START/secrets/shadow", None),
            ("repo/deploy", "START/system/shadow", None),
            ("repo/deploy", "missing", None),
        ] {
            let found = hidden(&start, file, command, named);
            assert_eq!(found.as_deref(), expected, "in `{command}`: {named}");
        }
    }
}
