//! Looks at the real computer. The only part that reads anything; it changes nothing.
//!
//! Paths of the kernel are taken below [`Place::root`] and programs are asked through [`Programs`], so that a
//! test can show it a computer that does not exist.

mod accelerator;
mod kernel;
mod network;
pub(super) mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mullion_catalog::{Catalog, Look, PackageManager};
use mullion_machines::{DiskLimit, disk_limit};

use super::computer::{
    Clock, Computer, Disk, DiskLimits, Distribution, Holds, Medium, Memory, User,
};
use programs::{Answer, Programs, Question};

/// How long a program may take to tell something about itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Folders of administrators' programs, which an ordinary user's PATH often lacks.
const FOR_ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where to look.
pub(super) struct Place<'a> {
    /// What stands for `/`.
    pub(super) root: &'a Path,
    /// The variables of the environment that may be looked at.
    pub(super) variables: &'a BTreeMap<String, OsString>,
    /// How programs are asked.
    pub(super) programs: &'a dyn Programs,
}

/// The folders and files that are ours or the cluster's.
pub(super) struct Belongings<'a> {
    pub(super) cache: &'a Path,
    pub(super) state: &'a Path,
    pub(super) machines: &'a Path,
    pub(super) media: &'a [PathBuf],
    pub(super) toolchains: &'a BTreeMap<String, (PathBuf, String)>,
}

/// Looks at everything that the catalog's requirements ask for.
pub(super) fn look(place: &Place<'_>, catalog: &Catalog, belongings: &Belongings<'_>) -> Computer {
    let looks = || {
        catalog
            .requirements()
            .iter()
            .map(|requirement| &requirement.look)
    };
    let system = place.distribution(catalog);
    let mut programs = place.find_programs(&asked_programs(catalog));
    let cached = belongings.toolchains.iter();
    programs.extend(cached.map(|(name, (path, _))| (name.clone(), path.clone())));
    let manager = system
        .family
        .and_then(|family| catalog.package_manager(family));
    let accelerators =
        catalog
            .requirements()
            .iter()
            .filter_map(|requirement| match &requirement.look {
                Look::Accelerator(accelerator) => {
                    let program = programs.get(&accelerator.program).map(PathBuf::as_path);
                    Some((
                        requirement.id.clone(),
                        place.try_accelerator(accelerator, program),
                    ))
                }
                _ => None,
            });
    let versions = looks().filter_map(|look| match look {
        Look::Toolchain {
            program, arguments, ..
        } => {
            if let Some((_, version)) = belongings.toolchains.get(program) {
                return Some((program.clone(), version.clone()));
            }
            // Go counts its calls in a file there.
            let uncounted = BTreeMap::from([("XDG_CONFIG_HOME".into(), "/dev/null".into())]);
            let said = place.ask_with(programs.get(program)?, arguments, &uncounted)?;
            Some((program.clone(), said.lines().next()?.to_owned()))
        }
        _ => None,
    });
    Computer {
        user: place.user(),
        first_process: place
            .read("/proc/1/comm")
            .map(|name| name.trim().to_owned()),
        kernel: place.kernel(looks(), &programs),
        cgroups: place.cgroups(),
        accelerators: accelerators.collect(),
        versions: versions.collect(),
        candidates: manager.map_or_else(BTreeMap::new, |manager| {
            place.candidates(catalog, &system, manager)
        }),
        paths: asked_paths(catalog)
            .into_iter()
            .filter(|path| place.has(path))
            .collect(),
        memory: place.memory(),
        disks: vec![
            disk(Holds::Cache, belongings.cache),
            disk(Holds::State, belongings.state),
        ],
        disk_limits: disk_limits(belongings.machines),
        udp_ports: place.udp_ports(),
        routes: place.routes(),
        clock: place.clock(catalog, &programs),
        media: belongings.media.iter().map(|path| medium(path)).collect(),
        variables: super::variables(catalog)
            .filter(|name| {
                place
                    .variables
                    .get(*name)
                    .is_some_and(|value| !value.is_empty())
            })
            .map(str::to_owned)
            .collect(),
        programs,
        system,
    }
}

/// Whether machines in that folder can be held to the size of their disks.
fn disk_limits(folder: &Path) -> DiskLimits {
    let (available, seen) = match disk_limit(folder) {
        Ok(DiskLimit::Everyone { mount }) => (
            true,
            format!("`{}` has them, for every process", mount.display()),
        ),
        Ok(DiskLimit::ExceptResourceful { mount }) => (
            true,
            format!(
                "`{}` has them; ext4 holds no process with CAP_SYS_RESOURCE that writes past an overlay, as image stores and \
                 privileged pods do",
                mount.display()
            ),
        ),
        Ok(DiskLimit::None { why }) => (false, why),
        Err(error) => (false, error.to_string()),
    };
    DiskLimits { available, seen }
}

/// Every program that a requirement names.
fn asked_programs(catalog: &Catalog) -> BTreeSet<String> {
    let requirements = catalog.requirements().iter();
    requirements
        .flat_map(|requirement| match &requirement.look {
            Look::Program { names } => names.clone(),
            Look::Toolchain { program, .. } | Look::DiskLimits { program } => vec![program.clone()],
            Look::Accelerator(accelerator) => vec![accelerator.program.clone()],
            Look::Clock(clock) => vec![clock.program.clone()],
            _ => Vec::new(),
        })
        // The kernel's configuration is compressed.
        .chain([kernel::UNPACKER.to_owned()])
        .collect()
}

/// Every path that a requirement names.
fn asked_paths(catalog: &Catalog) -> BTreeSet<String> {
    let requirements = catalog.requirements().iter();
    requirements
        .flat_map(|requirement| match &requirement.look {
            Look::File { paths } => paths.clone(),
            Look::Kernel(feature) => feature.paths.clone(),
            Look::FirstProcess { mark, .. } => vec![mark.clone()],
            _ => Vec::new(),
        })
        .collect()
}

impl Place<'_> {
    /// An absolute path below the root.
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file of the kernel, none where it cannot be read. Why not does not matter: what is not told is not known.
    fn read(&self, path: &str) -> Option<String> {
        fs_err::read(self.at(path))
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn has(&self, path: &str) -> bool {
        self.at(path).try_exists().unwrap_or(false)
    }

    /// What a program says when asked; none where it fails.
    fn ask(&self, program: &Path, arguments: &[String]) -> Option<String> {
        self.ask_with(program, arguments, &BTreeMap::new())
    }

    fn ask_with(
        &self,
        program: &Path,
        arguments: &[String],
        environment: &BTreeMap<String, String>,
    ) -> Option<String> {
        let question = Question {
            program,
            arguments,
            environment,
            deadline: PATIENCE,
        };
        match self.programs.ask(&question) {
            Answer::Exited {
                status: Some(0),
                output,
                ..
            } => Some(output),
            _ => None,
        }
    }

    fn find_programs(&self, names: &BTreeSet<String>) -> BTreeMap<String, PathBuf> {
        let path = self.variables.get("PATH").cloned().unwrap_or_default();
        // A relative folder in PATH would make the answer depend on where the command was given.
        let mut folders: Vec<_> = std::env::split_paths(&path)
            .filter(|folder| folder.is_absolute())
            .collect();
        folders.extend(FOR_ADMINISTRATORS.iter().map(|folder| self.at(folder)));
        let find = |name: &String| {
            let found = folders
                .iter()
                .map(|folder| folder.join(name))
                .find(|path| is_program(path));
            found.map(|path| (name.clone(), path))
        };
        names.iter().filter_map(find).collect()
    }

    fn distribution(&self, catalog: &Catalog) -> Distribution {
        let text = self
            .read("/etc/os-release")
            .or_else(|| self.read("/usr/lib/os-release"));
        let text = text.unwrap_or_default();
        let value = |name: &str| {
            text.lines().find_map(|line| {
                let value = line.strip_prefix(name)?.strip_prefix('=')?;
                Some(value.trim_matches(['"', '\'']))
            })
        };
        let ids = value("ID")
            .into_iter()
            .chain(value("ID_LIKE").unwrap_or_default().split(' '));
        Distribution {
            name: value("PRETTY_NAME")
                .or(value("ID"))
                .unwrap_or("Linux")
                .to_owned(),
            family: catalog.family(ids),
        }
    }

    fn user(&self) -> User {
        let status = self.read("/proc/self/status").unwrap_or_default();
        let field = |name: &str, place: usize| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(place))
        };
        let set = |name| {
            field(name, 0)
                .and_then(|bits| u64::from_str_radix(bits, 16).ok())
                .unwrap_or_default()
        };
        User {
            // The second number is the effective one. Who cannot be told apart is nobody.
            id: field("Uid:", 1)
                .and_then(|id| id.parse().ok())
                .unwrap_or(u32::MAX),
            capabilities: set("CapEff:"),
            bounding: set("CapBnd:"),
        }
    }

    fn memory(&self) -> Option<Memory> {
        let text = self.read("/proc/meminfo")?;
        let mib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
            Some(kib / 1024)
        };
        Some(Memory {
            total_mib: mib("MemTotal:")?,
            available_mib: mib("MemAvailable:")?,
        })
    }

    fn clock(&self, catalog: &Catalog, programs: &BTreeMap<String, PathBuf>) -> Clock {
        let mut looks = catalog
            .requirements()
            .iter()
            .filter_map(|requirement| match &requirement.look {
                Look::Clock(clock) => Some(clock),
                _ => None,
            });
        let synchronised = looks.next().and_then(|clock| {
            if self.has(&clock.mark) {
                return Some(true);
            }
            let said = self.ask(programs.get(&clock.program)?, &clock.arguments)?;
            match said.trim() {
                "yes" => Some(true),
                "no" => Some(false),
                _ => None,
            }
        });
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Clock {
            unix_seconds: now.as_secs(),
            synchronised,
        }
    }

    /// The versions of toolchains that packages would bring: of those alone it matters.
    fn candidates(
        &self,
        catalog: &Catalog,
        system: &Distribution,
        manager: &PackageManager,
    ) -> BTreeMap<String, String> {
        let Some([name, arguments @ ..]) = manager.candidate.as_deref() else {
            return BTreeMap::new();
        };
        let programs = self.find_programs(&BTreeSet::from([name.clone()]));
        let Some(program) = programs.get(name) else {
            return BTreeMap::new();
        };
        let toolchains = catalog
            .requirements()
            .iter()
            .filter(|requirement| matches!(requirement.look, Look::Toolchain { .. }));
        let packages =
            toolchains.filter_map(|requirement| requirement.packages.get(&system.family?));
        packages
            .flatten()
            .filter_map(|package| {
                let arguments: Vec<_> = arguments.iter().chain([package]).cloned().collect();
                let said = self.ask(program, &arguments)?;
                let version = said
                    .lines()
                    .find_map(|line| line.trim().strip_prefix("Candidate:"))?
                    .trim();
                (version != "(none)").then(|| (package.clone(), version.to_owned()))
            })
            .collect()
    }
}

fn is_program(path: &Path) -> bool {
    fs_err::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The disk that a folder lies on, or will lie on once it is made.
fn disk(holds: Holds, folder: &Path) -> Disk {
    let existing = folder
        .ancestors()
        .find(|folder| folder.try_exists().unwrap_or(false));
    let free = existing.and_then(|folder| rustix::fs::statvfs(folder).ok());
    Disk {
        holds,
        folder: folder.to_owned(),
        free_mib: free.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >> 20),
    }
}

fn medium(path: &Path) -> Medium {
    // The file names it.
    let _rights = mullion_rights::as_invoker();
    let found = fs_err::metadata(path)
        .ok()
        .filter(std::fs::Metadata::is_file);
    Medium {
        path: path.to_owned(),
        size_mib: found.map(|found| found.len() >> 20),
    }
}

#[cfg(test)]
mod tests;
