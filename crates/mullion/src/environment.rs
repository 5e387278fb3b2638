//! What is taken from the environment: one table of variables, read once.
//!
//! Nothing else in the program reads the environment, so that a test can give any it likes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mullion_spec::cluster::Cluster;

use crate::elevation::Owner;

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
        meaning: "The user's folder, where the folders below are not given.",
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
        name: "MULLION_OWNER",
        meaning: "Set by `mullion` itself when it asks `sudo`: whose files it writes, as USER:GROUP numbers.",
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
        name: "SSH_AUTH_SOCK",
        meaning: "The SSH agent, for machines that exist already and name no key.",
    },
    Variable {
        name: "SUDO_GID",
        meaning: "As `SUDO_UID`: the group.",
    },
    Variable {
        name: "SUDO_UID",
        meaning: "Set by `sudo`: whose files are written, where `MULLION_OWNER` does not say it.",
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
    /// Whose files are written, where that is not whoever runs this process: `sudo` was asked.
    pub owner: Option<Owner>,
    /// Where the command was given.
    pub folder: PathBuf,
    /// Where paths in the cluster file begin: there, or where the command was given that a kept file is of.
    pub paths: PathBuf,
    /// Every variable of the table that is set.
    pub values: BTreeMap<&'static str, OsString>,
}

impl Environment {
    /// The environment that a look-up of variables gives.
    pub fn new(folder: PathBuf, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let home = given("HOME").map_or_else(|| folder.clone(), PathBuf::from);
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
            owner: Owner::given(|name| given(name)?.into_string().ok()),
            home,
            paths: folder.clone(),
            folder,
            values: VARIABLES
                .iter()
                .filter_map(|known| Some((known.name, variable(known.name)?)))
                .collect(),
        }
    }

    /// A path of the file: `~` is the user's folder, and what is relative is so to where the file was given.
    pub fn path_of(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("~") {
            Ok(rest) => self.home.join(rest),
            Err(_) => self.paths.join(path),
        }
    }

    /// The cache that a cluster's parts are in: the one that its file names, or the user's.
    pub fn cache_of(&self, cluster: &Cluster) -> PathBuf {
        let named = cluster.artifacts.cache.as_ref();
        named.map_or_else(|| self.cache.clone(), |named| self.path_of(named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
