//! Refuses symbolic links that came with a cluster file and lead root elsewhere.
//!
//! Under `sudo`, files open with the rights of the invoking user. Root itself has no such limit, and a link in somebody
//! else's repository would hide which file root reads.

use std::io;
use std::path::{Component, Path, PathBuf};

use mullion_spec::cluster::Cluster;

use crate::environment::{Environment, real};
use crate::failure::{Class, Failure};
use crate::views::reads;

/// Refuses each file that `cluster` names through such a link, when root runs the command without `sudo`.
pub fn refuse_for_root(cluster: &Cluster, environment: &Environment) -> Result<(), Failure> {
    if mullion_rights::invoker().is_some() || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let bases = Bases::of(environment);
    let mut files = reads::files(cluster, environment).into_iter();
    let Some(way_out) = files.find_map(|file| bases.way_out(&environment.expanded(&file))) else {
        return Ok(());
    };
    let what = format!(
        "`{}` leads out of the folder `{}`, to `{}`",
        way_out.link.display(),
        way_out.folder.display(),
        way_out.target.display()
    );
    Err(Failure::new(Class::File, what).hint("name the file itself where root should read it"))
}

/// A symbolic link that hides which file root would read.
#[derive(Debug, PartialEq, Eq)]
struct WayOut {
    link: PathBuf,
    /// What holds both the link and the cluster file.
    folder: PathBuf,
    target: PathBuf,
}

/// Folders of the computer in which a cluster file may lie beside files of others, as `/etc/mullion/cluster.yaml` does
/// beside the authorities in `/etc/ssl`.
const SYSTEM_FOLDERS: [&str; 7] = ["/", "/etc", "/opt", "/run", "/srv", "/usr", "/var"];

/// Folders that may be part of somebody else's repository.
struct Bases {
    /// Where relative paths begin.
    start: PathBuf,
    /// The cluster file's own. A kept file has the folder that it was in.
    own: PathBuf,
    /// The folder of the file that the cluster file leads to; the same one where it is no link.
    real: PathBuf,
    /// The user's home folder: links in it are the user's own.
    home: PathBuf,
}

impl Bases {
    fn of(environment: &Environment) -> Self {
        Self {
            start: real(&environment.paths),
            own: real(&environment.file_folder),
            real: real(&environment.real_file_folder),
            home: real(&environment.home),
        }
    }

    /// Returns the first link on the path that must not be there.
    fn way_out(&self, path: &Path) -> Option<WayOut> {
        // The code that opens a missing file reports it.
        let (target, links) = follow(&self.start, path).ok()?;
        let mut ways_out = links.into_iter().flat_map(|link| {
            let folders = [&self.start, &self.own, &self.real].map(|base| shared(&link, base));
            let target = &target;
            folders.into_iter().map(move |folder| WayOut {
                link: link.clone(),
                folder,
                target: target.clone(),
            })
        });
        ways_out.find(|way_out| {
            let folder = &way_out.folder;
            !self.is_no_repository(folder) && !way_out.target.starts_with(folder)
        })
    }

    /// Whether a folder belongs to the computer or to the user, and so do the links in it.
    fn is_no_repository(&self, folder: &Path) -> bool {
        // A repository may lie in `/srv` itself: then its cluster file does too.
        let holds_file = [&self.own, &self.real].into_iter().any(|own| own == folder);
        let is_systems = SYSTEM_FOLDERS.iter().any(|own| folder == Path::new(own)) && !holds_file;
        is_systems || self.home.starts_with(folder)
    }
}

/// Returns the deepest folder that holds both.
fn shared(link: &Path, base: &Path) -> PathBuf {
    let pairs = link.components().zip(base.components());
    let same = pairs.take_while(|(one, other)| one == other);
    same.map(|(part, _)| part).collect()
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
    use clap::Parser as _;
    use fs_err::os::unix::fs::symlink;
    use mullion_live::ClusterState;

    use super::*;
    use crate::arguments::{Arguments, Global};

    /// The link that is refused, by its name below the scratch folder.
    fn refused(start: &Path, home: &str, command: &str, named: &str) -> Option<String> {
        let home = start.join(home);
        let environment = Environment::new(start.join(command), |name| {
            (name == "HOME").then(|| home.clone().into())
        });
        let file = start.join("repo/deploy/cluster.yaml");
        let bases = Bases::of(&Environment {
            file_folder: file.parent().unwrap().into(),
            real_file_folder: file.parent().unwrap().into(),
            ..environment.clone()
        });
        let named = named.replace("START", start.to_str().unwrap());
        let link = bases
            .way_out(&environment.expanded(Path::new(&named)))?
            .link;
        let link = link.strip_prefix(start).unwrap_or(&link);
        Some(link.display().to_string())
    }

    #[test]
    fn promise_02_a_folder_of_the_computer_is_a_repository_where_the_cluster_file_lies_in_it() {
        let bases = |own: &str| Bases {
            start: "/".into(),
            own: own.into(),
            real: own.into(),
            home: "/root".into(),
        };
        for (own, folder, expected) in [
            ("/srv", "/srv", false),
            ("/srv/repo", "/srv", true),
            ("/srv/repo", "/srv/repo", false),
            ("/etc/mullion", "/etc", true),
            ("/root/repo", "/root", true),
        ] {
            let found = bases(own).is_no_repository(Path::new(folder));
            assert_eq!(found, expected, "{folder} for a file in {own}");
        }
    }

    #[test]
    fn promise_02_the_file_of_the_folder_is_the_cluster_file_where_none_is_named() {
        let environment = Environment::new("/srv".into(), |_| None);
        assert_eq!(bases(&environment, &[]).own, Path::new("/srv"));
        let named = bases(&environment, &["--file", "/var/tmp/c.yaml"]);
        assert_eq!(named.own, Path::new("/var/tmp"));
    }

    fn bases(environment: &Environment, words: &[&str]) -> Bases {
        let words = [&["mullion", "plan"], words].concat();
        let global = Arguments::try_parse_from(words).unwrap().global;
        Bases::of(&environment.beside(&global).unwrap())
    }

    #[test]
    fn promise_02_a_kept_file_is_guarded_as_in_the_folder_that_it_was_in() {
        let scratch = tempfile::tempdir().unwrap();
        let scratch = fs_err::canonicalize(scratch.path()).unwrap();
        let (repository, secrets) = (scratch.join("repo"), scratch.join("secrets"));
        for folder in [repository.join("deploy"), secrets.clone()] {
            fs_err::create_dir_all(folder).unwrap();
        }
        fs_err::write(secrets.join("shadow"), "text").unwrap();
        symlink(&secrets, repository.join("deploy/link")).unwrap();
        let environment = |folder: &str| {
            let home = scratch.join("home");
            Environment::new(folder.into(), move |name| {
                (name == "HOME").then(|| home.clone().into())
            })
        };
        let here = environment("/");
        let state = ClusterState::of(&here.state, &"demo".parse().unwrap());
        // The command that brought the cluster up was given in a folder of the computer.
        let first = here.beside(&Global {
            file: Some(repository.join("deploy/cluster.yaml")),
            ..Arguments::try_parse_from(["mullion", "up"]).unwrap().global
        });
        let first = first.unwrap();
        state
            .keep_file(
                "machines: {}",
                &first.paths,
                (&first.file_folder, &first.real_file_folder),
            )
            .unwrap();
        let hidden = repository.join("deploy/link/shadow");
        let kept = bases(&environment("/srv"), &["--cluster", "demo"]);
        assert_eq!(kept.start, Path::new("/"));
        assert_eq!(kept.own, repository.join("deploy"));
        let way_out = kept.way_out(&hidden).unwrap();
        assert_eq!(way_out.link, repository.join("deploy/link"));
        // A file in a folder such as `/srv` makes that a repository, also once it is kept. Older versions kept only where
        // its paths begin.
        for is_old in [false, true] {
            state
                .keep_file(
                    "machines: {}",
                    Path::new("/srv"),
                    (Path::new("/srv"), Path::new("/srv")),
                )
                .unwrap();
            if is_old {
                for name in ["cluster.file-folder", "cluster.real-file-folder"] {
                    fs_err::remove_file(state.folder().join(name)).unwrap();
                }
            }
            let kept = bases(&environment("/"), &["--cluster", "demo"]);
            assert!(!kept.is_no_repository(Path::new("/srv")), "{is_old}");
        }
    }

    #[test]
    fn promise_02_a_cluster_file_that_is_a_link_is_guarded_where_it_leads_too() {
        let scratch = tempfile::tempdir().unwrap();
        let scratch = fs_err::canonicalize(scratch.path()).unwrap();
        let (repository, away) = (scratch.join("repo"), scratch.join("away"));
        for folder in ["repo", "away", "secrets"] {
            fs_err::create_dir(scratch.join(folder)).unwrap();
        }
        fs_err::write(scratch.join("secrets/shadow"), "text").unwrap();
        fs_err::write(repository.join("cluster.yaml"), "text").unwrap();
        symlink("../secrets", repository.join("link")).unwrap();
        symlink("../secrets", away.join("link")).unwrap();
        symlink(repository.join("cluster.yaml"), away.join("c.yaml")).unwrap();
        let environment = Environment::new("/".into(), |name| {
            (name == "HOME").then(|| scratch.join("home").into())
        });
        let file = away.join("c.yaml").display().to_string();
        let global = Arguments::try_parse_from(["mullion", "plan", "--file", &file]);
        let named = environment.beside(&global.unwrap().global).unwrap();
        let check = |environment: &Environment| {
            let bases = Bases::of(environment);
            for link in [repository.join("link"), away.join("link")] {
                let way_out = bases.way_out(&link.join("shadow")).unwrap();
                assert_eq!(way_out.link, link);
            }
        };
        check(&named);
        // So is the file that is kept of it.
        let state = ClusterState::of(&named.state, &"demo".parse().unwrap());
        state
            .keep_file(
                "machines: {}",
                &named.paths,
                (&named.file_folder, &named.real_file_folder),
            )
            .unwrap();
        let global = Arguments::try_parse_from(["mullion", "plan", "--cluster", "demo"]);
        check(&environment.beside(&global.unwrap().global).unwrap());
    }

    #[test]
    fn promise_02_a_link_that_came_with_the_file_hides_nothing_whatever_the_path_or_the_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let start = fs_err::canonicalize(scratch.path()).unwrap();
        for folder in ["secrets", "repo/deploy/x", "repo/real", "elsewhere", "home"] {
            fs_err::create_dir_all(start.join(folder)).unwrap();
        }
        for file in ["secrets/shadow", "repo/deploy/plain", "repo/real/plain"] {
            fs_err::write(start.join(file), "text").unwrap();
        }
        symlink(start.join("secrets"), start.join("repo/link")).unwrap();
        symlink("../../secrets", start.join("repo/deploy/link")).unwrap();
        symlink("plain", start.join("repo/deploy/inside")).unwrap();
        symlink("plain", start.join("repo/real/current")).unwrap();
        symlink("/etc", start.join("system")).unwrap();
        for (home, command, named, expected) in [
            (
                "home",
                "repo/deploy",
                "link/shadow",
                Some("repo/deploy/link"),
            ),
            (
                "home",
                "repo/deploy",
                "x/../link/shadow",
                Some("repo/deploy/link"),
            ),
            (
                "home",
                "repo/deploy",
                "./x/.././link/shadow",
                Some("repo/deploy/link"),
            ),
            ("home", "repo/deploy", "../link/shadow", Some("repo/link")),
            (
                "home",
                "repo/deploy",
                "link/../secrets/shadow",
                Some("repo/deploy/link"),
            ),
            (
                "home",
                "repo/deploy",
                "START/repo/deploy/link/shadow",
                Some("repo/deploy/link"),
            ),
            (
                "home",
                "repo/deploy",
                "START/repo/link/shadow",
                Some("repo/link"),
            ),
            ("home", "repo", "link/shadow", Some("repo/link")),
            (
                "home",
                "repo",
                "deploy/link/shadow",
                Some("repo/deploy/link"),
            ),
            (
                "home",
                "",
                "repo/deploy/link/shadow",
                Some("repo/deploy/link"),
            ),
            ("home", "", "repo/link/shadow", Some("repo/link")),
            (
                "home",
                "elsewhere",
                "START/repo/deploy/link/shadow",
                Some("repo/deploy/link"),
            ),
            (
                "home",
                "elsewhere",
                "../repo/deploy/link/shadow",
                Some("repo/deploy/link"),
            ),
            // The repository lies in the user's folder, and the link leads to the user's own files.
            ("", "", "repo/link/shadow", Some("repo/link")),
            // What the file names openly, and links that stay inside.
            ("home", "repo/deploy", "plain", None),
            ("home", "repo/deploy", "inside", None),
            ("home", "repo/deploy", "../real/plain", None),
            ("home", "repo/deploy", "../real/current", None),
            ("home", "repo/deploy", "START/secrets/shadow", None),
            ("home", "repo/deploy", "missing", None),
            // Links of the user's and of the computer's own.
            ("", "repo/deploy", "~/system/shadow", None),
            ("", "repo/deploy", "/proc/self/exe", None),
        ] {
            let found = refused(&start, home, command, named);
            assert_eq!(found.as_deref(), expected, "in `{command}`: {named}");
        }
    }
}
