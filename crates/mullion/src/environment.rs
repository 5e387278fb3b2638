//! What is taken from the environment: one table of variables, read once.
//!
//! Nothing else in the program reads the environment, so that a test can give any it likes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mullion_live::{ClusterState, StateError};
use mullion_rights::Detour;
use mullion_spec::cluster::Cluster;

use crate::arguments::Global;
use crate::failure::{Class, Failure};

/// Machines are this computer's and not one user's: whoever lost the state folder finds them here.
const PLACE: &str = "/var/lib/mullion";

/// A variable that the program looks at.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// Every variable that the program looks at.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "ALL_PROXY",
        meaning: "As `HTTPS_PROXY`.",
    },
    Variable {
        name: "CI",
        meaning: "Set and not empty: nobody sits at the terminal, so nothing is asked and nothing is animated.",
    },
    Variable {
        name: "DOAS_USER",
        meaning: "Set by `doas`: as `SUDO_UID`, by name.",
    },
    Variable {
        name: "GOCACHE",
        meaning: "Handed to the Go tool, which builds programs from source.",
    },
    Variable {
        name: "GOENV",
        meaning: "As `GOCACHE`.",
    },
    Variable {
        name: "GOMODCACHE",
        meaning: "As `GOCACHE`.",
    },
    Variable {
        name: "GOPATH",
        meaning: "As `GOCACHE`.",
    },
    Variable {
        name: "GOPROXY",
        meaning: "As `GOCACHE`; also where a newer Go is fetched from.",
    },
    Variable {
        name: "GOSUMDB",
        meaning: "As `GOCACHE`.",
    },
    Variable {
        name: "HOME",
        meaning: "The user's folder, where the folders below are not given. Not set or relative: the one of the system's database of users.",
    },
    Variable {
        name: "HTTPS_PROXY",
        meaning: "The way out for downloads; machines do not get it: the cluster file's `proxy` does that.",
    },
    Variable {
        name: "HTTP_PROXY",
        meaning: "As `HTTPS_PROXY`.",
    },
    Variable {
        name: "KUBECONFIG",
        meaning: "The file that `kubeconfig --merge` merges into, where none is named.",
    },
    Variable {
        name: "MULLION_FILE",
        meaning: "The cluster file, where `--file` is not given.",
    },
    Variable {
        name: "MULLION_PLACE",
        meaning: "Where machines and templates of this computer are, instead of `/var/lib/mullion`.",
    },
    Variable {
        name: "NO_COLOR",
        meaning: "Set and not empty: no colours.",
    },
    Variable {
        name: "NO_PROXY",
        meaning: "Told by `doctor`, with the proxies.",
    },
    Variable {
        name: "PATH",
        meaning: "Where `doctor` looks for programs.",
    },
    Variable {
        name: "PKEXEC_UID",
        meaning: "Set by `pkexec`: as `SUDO_UID`.",
    },
    Variable {
        name: "SSH_AUTH_SOCK",
        meaning: "The SSH agent, for machines that exist already and name no key.",
    },
    Variable {
        name: "SUDO_GID",
        meaning: "As `SUDO_UID`: the group.",
    },
    Variable {
        name: "SUDO_UID",
        meaning: "Set by `sudo`: with whose rights files are read and written, where root runs `mullion`.",
    },
    Variable {
        name: "SUDO_USER",
        meaning: "As `SUDO_UID`, by name, where `SUDO_UID` is not set.",
    },
    Variable {
        name: "TERM",
        meaning: "`dumb`: no colours, and nothing is asked.",
    },
    Variable {
        name: "TMPDIR",
        meaning: "Where temporary files go.",
    },
    Variable {
        name: "XDG_CACHE_HOME",
        meaning: "Where the cache folder `mullion` is, instead of `~/.cache`.",
    },
    Variable {
        name: "XDG_CONFIG_HOME",
        meaning: "Handed to tools that look for their settings there.",
    },
    Variable {
        name: "XDG_STATE_HOME",
        meaning: "Where the state folder `mullion` is, instead of `~/.local/state`.",
    },
    Variable {
        name: "all_proxy",
        meaning: "As `HTTPS_PROXY`.",
    },
    Variable {
        name: "http_proxy",
        meaning: "As `HTTPS_PROXY`.",
    },
    Variable {
        name: "https_proxy",
        meaning: "As `HTTPS_PROXY`.",
    },
    Variable {
        name: "no_proxy",
        meaning: "As `NO_PROXY`.",
    },
];

/// The environment of one invocation.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Nobody sits at the terminal.
    pub is_ci: bool,
    /// No colours.
    pub is_colourless: bool,
    /// A terminal that can neither colour nor move its cursor.
    pub is_dumb: bool,
    /// Where programs and images are kept.
    pub cache: PathBuf,
    /// Where runs leave their records.
    pub state: PathBuf,
    /// Where machines and templates of this computer are.
    pub place: PathBuf,
    /// The user's folder.
    pub home: PathBuf,
    /// Where the command was given.
    pub folder: PathBuf,
    /// Where paths in the cluster file begin: there, or where the command was given that a kept file is of.
    pub paths: PathBuf,
    /// The folder of the cluster file, or of the one that a kept file is of: it may be somebody else's repository.
    pub file_folder: PathBuf,
    /// The folder of the file that the cluster file leads to; the same one where it is no link.
    pub real_file_folder: PathBuf,
    /// Every variable of the table that is set.
    pub values: BTreeMap<&'static str, OsString>,
}

impl Environment {
    /// The environment that a look-up of variables gives.
    pub fn new(folder: PathBuf, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        // Never the folder of the command: it may be somebody else's repository.
        let home = given("HOME").map_or_else(|| "/".into(), PathBuf::from);
        // The specification of these variables says that a relative path counts as none.
        let folder_of = |name: &str, usual: &str| {
            given(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .unwrap_or_else(|| home.join(usual))
                .join("mullion")
        };
        Self {
            is_ci: given("CI").is_some(),
            is_colourless: given("NO_COLOR").is_some(),
            is_dumb: given("TERM").is_some_and(|term| term == "dumb"),
            cache: folder_of("XDG_CACHE_HOME", ".cache"),
            state: folder_of("XDG_STATE_HOME", ".local/state"),
            place: given("MULLION_PLACE").map_or_else(|| PLACE.into(), PathBuf::from),
            home,
            paths: folder.clone(),
            file_folder: folder.clone(),
            real_file_folder: folder.clone(),
            folder,
            values: VARIABLES
                .iter()
                .filter_map(|known| Some((known.name, variable(known.name)?)))
                .collect(),
        }
    }

    /// The same, with the folders of the cluster file that the command line names, or of the kept file of its cluster.
    pub fn beside(&self, global: &Global) -> Result<Self, StateError> {
        let mut environment = self.clone();
        if let Some(file) = global.cluster_file() {
            let file = self.folder.join(file);
            environment.file_folder = file.parent().map(real).unwrap_or_default();
            // A file that cannot be followed cannot be read either.
            let followed = fs_err::canonicalize(&file).ok();
            let real_folder = followed.as_deref().and_then(Path::parent);
            real_folder
                .unwrap_or(&environment.file_folder)
                .clone_into(&mut environment.real_file_folder);
            return Ok(environment);
        }
        let named = global.cluster.as_ref();
        let kept = named.and_then(|cluster| ClusterState::find(&self.state, cluster));
        let Some(kept) = kept else {
            return Ok(environment);
        };
        if let Some(paths) = kept.paths()? {
            environment.paths = paths;
        }
        if let Some(folder) = kept.file_folder()? {
            environment.file_folder = folder;
        }
        if let Some(folder) = kept.real_file_folder()? {
            environment.real_file_folder = folder;
        }
        Ok(environment)
    }

    /// The socket of the user's SSH agent, where there is one.
    pub fn ssh_agent(&self) -> Option<&OsString> {
        let socket = self.values.get("SSH_AUTH_SOCK")?;
        Some(socket).filter(|socket| !socket.is_empty())
    }

    /// A path of the file: `~` is the user's folder, and what is relative is so to where the file was given.
    pub fn path_of(&self, path: &Path) -> PathBuf {
        self.paths.join(self.expanded(path))
    }

    /// A path of the file with the user's folder for `~`.
    pub fn expanded(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("~") {
            Ok(rest) => self.home.join(rest),
            Err(_) => path.to_owned(),
        }
    }

    /// Refuses a state folder that someone else can write to: it says which digests, host keys and files are trusted.
    pub fn check_state(&self) -> Result<(), Failure> {
        const OTHERS_WRITE: u32 = 0o022;
        // One that is not there, or cannot be looked at, is told by whoever needs it.
        let Ok(found) = fs_err::metadata(&self.state) else {
            return Ok(());
        };
        let user = match mullion_rights::invoker() {
            Some(invoker) if !mullion_rights::is_root_by_default() => invoker.user,
            Some(_) => 0,
            None => rustix::process::geteuid().as_raw(),
        };
        let why = if ![user, 0].contains(&found.uid()) {
            format!("it belongs to user {}, and not to user {user}", found.uid())
        } else if found.mode() & OTHERS_WRITE != 0 {
            format!(
                "its mode is {:03o}: others can write to it",
                found.mode() & 0o777
            )
        } else {
            return Ok(());
        };
        let folder = self.state.display();
        let what = format!("the state folder `{folder}` cannot be trusted");
        Err(Failure::new(Class::ThisComputer, what)
            .because(&Whose(why))
            .hint(format!(
                "if you know what is in it, type `chown --recursive {user} {folder}` and `chmod go-w {folder}`"
            ))
            .hint("or name another one: `HOME` or `XDG_STATE_HOME` says where it is"))
    }

    /// The cache that a cluster's parts are in: the one that its file names, or the user's.
    ///
    /// The one place that decides which folder a file may name: no other is ever created or written to for it.
    pub fn cache_of(&self, cluster: &Cluster) -> Result<PathBuf, Failure> {
        let Some(named) = &cluster.artifacts.cache else {
            return Ok(self.cache.clone());
        };
        let refused = || {
            let what = format!("`artifacts.cache` cannot be `{}`", named.display());
            Failure::new(Class::File, what)
        };
        let (start, rest) = match named.strip_prefix("~") {
            Ok(rest) => (&self.home, rest),
            Err(_) => (&self.paths, named.as_path()),
        };
        let folder = start.join(rest);
        // Programs that run as root get this path in their settings, where these characters would end it.
        let is_strange = |letter: char| letter.is_control() || "\"\\".contains(letter);
        let has_colon = rest.to_string_lossy().contains(':');
        if has_colon || folder.to_string_lossy().contains(is_strange) {
            return Err(refused()
                .because(&Whose(format!(
                    "the path `{}` has a character that ends a path in the settings of other programs",
                    folder.to_string_lossy().escape_debug()
                )))
                .hint("name a folder whose path has no quotation mark, backslash, colon or control character"));
        }
        // The file names it: what is there is looked at with the rights of its reader.
        let _rights = mullion_rights::as_invoker();
        mullion_rights::no_detour(start, rest)
            .and_then(|()| no_link_inside(&folder))
            .map_err(|detour| {
                refused()
                    .because(&detour)
                    .hint("name the folder itself, by a path without `..` and symbolic links")
            })?;
        let Some(_) = mullion_rights::invoker() else {
            return Ok(folder);
        };
        if mullion_rights::is_root_by_default() {
            let state = self.state.display();
            return Err(refused()
                .because(&Whose(format!("the state folder `{state}` is root's")))
                .hint("run the command without `sudo`: it asks for root itself")
                .hint("or keep your home folder: `sudo --preserve-env=HOME mullion …`"));
        }
        if !folder.is_dir() && !mullion_rights::can_use(&folder) {
            return Err(refused()
                .because(&Whose(
                    "you could not create that folder without root".into(),
                ))
                .hint("name a folder of yours, or create that one and make it yours"));
        }
        Ok(folder)
    }
}

/// The name of a folder without symbolic links, where it is there.
pub fn real(path: &Path) -> PathBuf {
    fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Refuses a cache of which a part is somewhere else.
fn no_link_inside(folder: &Path) -> Result<(), Detour> {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let mut paths = entries.map(|entry| entry.path());
    match paths.find(|path| path.is_symlink()) {
        Some(link) => Err(Detour::Link(link)),
        None => Ok(()),
    }
}

/// Whose a folder is, as a cause.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Whose(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_01_a_cache_that_leads_elsewhere_is_refused() {
        use mullion_spec::draft::Surroundings;
        use mullion_spec::source::Source;
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repository");
        fs_err::create_dir_all(repository.join("filled")).unwrap();
        fs_err::os::unix::fs::symlink("/etc", repository.join("link")).unwrap();
        fs_err::os::unix::fs::symlink("/etc", repository.join("filled/parts")).unwrap();
        let environment = Environment::new(repository.clone(), |name| {
            (name == "HOME").then(|| folder.path().into())
        });
        let cache = |named: &str| {
            let text = format!("machines: {{linux: 1}}\nartifacts: {{cache: \"{named}\"}}\n");
            let judgement = crate::file::judge(Source::new("f", text), &Surroundings::default());
            environment.cache_of(judgement.model.unwrap().cluster())
        };
        for (bad, cause) in [
            ("../../../etc", "`..`"),
            ("a/../b", "`..`"),
            ("~/../x", "`..`"),
            ("link", "symbolic link"),
            ("link/ssh", "symbolic link"),
            ("~/repository/link", "symbolic link"),
            ("filled", "filled/parts` is a symbolic link"),
            (
                r#"x\"; APT::Update::Pre-Invoke {\"id\";}; A \"y"#,
                "settings of other programs",
            ),
            (r"x\ny", "settings of other programs"),
            ("x:y", "settings of other programs"),
        ] {
            let failure = cache(bad).unwrap_err().to_string();
            assert!(failure.contains("`artifacts.cache`"), "{failure}");
            assert!(failure.contains(cause), "{failure}");
            assert!(failure.contains("hint"), "{failure}");
        }
        for good in ["cache", "a/b/c", "~/cache"] {
            assert!(cache(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn promise_02_a_state_folder_that_others_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::new("/work".into(), |name| {
            (name == "HOME").then(|| home.path().into())
        });
        environment.check_state().unwrap();
        fs_err::create_dir_all(&environment.state).unwrap();
        for (mode, is_good) in [
            (0o700, true),
            (0o755, true),
            (0o775, false),
            (0o1777, false),
        ] {
            let mode = std::fs::Permissions::from_mode(mode);
            fs_err::set_permissions(&environment.state, mode.clone()).unwrap();
            let checked = environment.check_state();
            assert_eq!(checked.is_ok(), is_good, "{mode:?}");
            if let Err(failure) = checked {
                let folder = environment.state.display().to_string();
                assert!(failure.to_string().contains(&folder), "{failure}");
                assert!(failure.to_string().contains("chmod go-w"), "{failure}");
            }
        }
    }

    #[test]
    fn promise_02_without_a_home_nothing_is_taken_from_the_folder_of_the_command() {
        let environment = Environment::new("/repository".into(), |_| None);
        for folder in [&environment.home, &environment.state, &environment.cache] {
            assert!(!folder.starts_with("/repository"), "{}", folder.display());
        }
    }

    #[test]
    fn the_table_has_every_variable_that_doctor_looks_at() {
        for name in crate::doctor::variables(mullion_catalog::Catalog::builtin()) {
            assert!(VARIABLES.iter().any(|known| known.name == name), "{name}");
        }
    }

    #[test]
    fn an_empty_or_relative_variable_counts_as_none() {
        let environment = Environment::new("/work".into(), |name| match name {
            "HOME" => Some("/home/user".into()),
            "XDG_CACHE_HOME" => Some("relative".into()),
            "NO_COLOR" => Some("".into()),
            _ => None,
        });
        assert_eq!(
            environment.cache,
            PathBuf::from("/home/user/.cache/mullion")
        );
        assert_eq!(
            environment.state,
            PathBuf::from("/home/user/.local/state/mullion")
        );
        assert!(!environment.is_colourless && !environment.is_ci);
    }

    #[test]
    fn paths_of_the_file_begin_at_home_or_where_the_command_was_given() {
        let environment = Environment::new("/work".into(), |name| {
            (name == "HOME").then(|| "/home/user".into())
        });
        for (path, whole) in [
            ("~/cache", "/home/user/cache"),
            ("~", "/home/user"),
            ("images/a.tar", "/work/images/a.tar"),
            ("/srv/cache", "/srv/cache"),
            ("~other/x", "/work/~other/x"),
        ] {
            assert_eq!(environment.path_of(Path::new(path)), Path::new(whole));
        }
    }
}
