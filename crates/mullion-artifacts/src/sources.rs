//! Where parts may come from, as the caller says. Nothing here is read from the environment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mullion_program::SYSTEM_PATH;
use mullion_spec::cluster::{Artifacts, Proxy};
use mullion_spec::words::BuildPolicy;

/// Where parts may come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// A bundle to take them from.
    pub bundle: Option<PathBuf>,
    /// A mirror that is asked before upstream: see [`crate::mirror`].
    pub mirror: Option<String>,
    /// A list of digests, as `sha256sum` writes them, that mirrors are held to.
    pub digests: Option<PathBuf>,
    /// Whether nothing outside may be asked.
    pub offline: bool,
    /// When programs are built from source.
    pub build: BuildPolicy,
    /// The way out.
    pub proxy: Proxy,
    /// Files with more certificates that are trusted.
    pub trust: Vec<PathBuf>,
    /// How Go is found.
    pub go: GoSource,
    /// The archives that packages of distributions come from.
    pub packages: PackageSource,
    /// The variables that tools we start may see: of these only the few that they need are handed on (`PATH`,
    /// `HOME`, `TMPDIR` and Go's own folders), so that nothing else changes what they make.
    pub environment: BTreeMap<String, String>,
    /// How long a download waits, and how often it is tried.
    pub patience: Patience,
    /// What could not be reached; shared by the clones of this value.
    pub reach: Reach,
    /// What the user must see, however quiet they want it; shared by the clones of this value.
    pub notices: Notices,
}

/// Lines that the user must see.
#[derive(Debug, Clone, Default)]
pub struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, line: String) {
        self.lines().push(line);
    }

    /// Whether no line came since the last time.
    pub fn is_empty(&self) -> bool {
        self.lines().is_empty()
    }

    /// Takes the lines that came since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines())
    }
}

/// How Go is found.
#[derive(Debug, Clone, Default)]
pub struct GoSource {
    /// The program; one that is too old, or none, and a newer one is fetched into the cache.
    pub program: Option<PathBuf>,
    /// The module proxy; the Go tool's own settings where none is given.
    pub module_proxy: Option<String>,
    /// Where it keeps what it fetched and made.
    pub caches: GoCaches,
}

/// Where Go keeps what it fetched and made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GoCaches {
    /// In the user's own folders, as when they use it themselves.
    #[default]
    Users,
    /// In our cache: whoever runs is not whose folders the variables name.
    Ours,
}

/// Where packages of distributions come from; the distribution's own place where none is given.
#[derive(Debug, Clone, Default)]
pub struct PackageSource {
    /// The address of an archive for Debian.
    pub debian: Option<String>,
    /// The address of an archive for Ubuntu.
    pub ubuntu: Option<String>,
}

/// How long a download waits, and how often it is tried.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte.
    pub stall: Duration,
    /// For the head of an answer, and then again and again for the next [`Patience::least`] bytes: a server that sends
    /// one byte at a time must not hold a fetch for ever.
    pub window: Duration,
    /// The fewest bytes that must come within one window.
    pub least: u64,
    /// How often a transient failure is met before giving up; [`Patience::least`] more bytes start the count again.
    pub attempts: u32,
    /// The first wait between attempts; it doubles.
    pub pause: Duration,
    /// The most bytes that one download may have: a server may send without end.
    pub most: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            window: Duration::from_mins(1),
            least: 64 << 10,
            attempts: 4,
            pause: Duration::from_millis(500),
            most: 32 << 30,
        }
    }
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            bundle: None,
            mirror: None,
            digests: None,
            offline: false,
            build: BuildPolicy::Auto,
            proxy: Proxy::default(),
            trust: Vec::new(),
            go: GoSource::default(),
            packages: PackageSource::default(),
            environment: BTreeMap::new(),
            patience: Patience::default(),
            reach: Reach::default(),
            notices: Notices::default(),
        }
    }
}

impl Sources {
    /// What the `artifacts`, `proxy` and `trust` fields of a cluster file say; the rest as by default.
    pub fn of(artifacts: &Artifacts, proxy: &Proxy, trust: Vec<PathBuf>) -> Self {
        Self {
            bundle: artifacts.bundle.clone(),
            mirror: artifacts.mirror.clone(),
            digests: artifacts.digests.clone(),
            offline: artifacts.offline,
            build: artifacts.build,
            proxy: proxy.clone(),
            trust,
            ..Self::default()
        }
    }

    /// A tool, with the few variables that it may see.
    pub(crate) fn tool(&self, program: impl Into<PathBuf>) -> Command {
        let mut command = Command::new(program.into());
        command.env_clear();
        for name in PASSED_ON {
            if let Some(value) = self.environment.get(*name) {
                command.env(name, value);
            }
        }
        if !self.environment.contains_key("PATH") {
            command.env("PATH", SYSTEM_PATH);
        }
        command.env("LC_ALL", "C.UTF-8");
        let pairs = [
            ("http_proxy", &self.proxy.http),
            ("https_proxy", &self.proxy.https),
        ];
        for (name, value) in pairs {
            if let Some(value) = value {
                command.env(name, value).env(name.to_uppercase(), value);
            }
        }
        if !self.proxy.no.is_empty() {
            let no = self.proxy.no.join(",");
            command.env("no_proxy", &no).env("NO_PROXY", no);
        }
        command
    }
}

const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "GOCACHE",
    "GOENV",
    "GOMODCACHE",
    "GOPATH",
    "GOPROXY",
    "GOSUMDB",
];

/// Hosts that could not be reached. They are not asked again, so that not every part waits for the same silence.
#[derive(Debug, Clone, Default)]
pub struct Reach(Arc<Mutex<Hosts>>);

#[derive(Debug, Default)]
struct Hosts {
    answered: BTreeSet<String>,
    lost: BTreeSet<String>,
}

impl Reach {
    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_lost(&self, host: &str) -> bool {
        self.hosts().lost.contains(host)
    }

    pub(crate) fn answered(&self, host: &str) {
        self.hosts().answered.insert(host.to_owned());
    }

    /// Notes that a host did not answer. Whether it is lost by that: one that answered before may come back.
    pub(crate) fn lose(&self, host: &str) -> bool {
        let mut hosts = self.hosts();
        let is_lost = !hosts.answered.contains(host);
        if is_lost {
            hosts.lost.insert(host.to_owned());
        }
        is_lost
    }

    /// The hosts that could not be reached so far.
    pub fn lost(&self) -> BTreeSet<String> {
        self.hosts().lost.clone()
    }
}
