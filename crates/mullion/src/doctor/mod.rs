//! `mullion doctor`: what this computer lacks, what that blocks, and how to cure it.
//!
//! What to look for is data of the catalog. `probe` looks, [`examine`] judges, `fix` turns what is missing into
//! commands, `view` shows. Only `probe` and `fix` touch the computer, and only `fix` changes it.

pub mod computer;
pub mod examine;
mod fix;
mod probe;
pub mod report;
#[cfg(test)]
mod samples;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mullion_catalog::{Catalog, Look};
use mullion_spec::words::{Driver, Os};

use crate::console::Console;
use crate::failure::{Class, Failure};
use probe::programs::{Programs, RealPrograms};
use probe::{Belongings, Place};
pub use report::DoctorReport;

/// Whether to cure what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// Only look.
    Look,
    /// Install what is missing.
    Install,
}

/// What `mullion doctor` is asked for.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// Whether to cure what is missing.
    pub fix: Fix,
    /// The folder for programs, images and templates.
    pub cache: PathBuf,
    /// The folder for records of runs.
    pub state: PathBuf,
    /// The folder for machines.
    pub place: PathBuf,
    /// The drivers that the cluster uses, each with the systems it carries there. Empty: everything is looked at,
    /// and only what the default cluster needs must be there.
    pub machines: BTreeMap<Driver, BTreeSet<Os>>,
    /// The installation media that the cluster names.
    pub media: Vec<PathBuf>,
    /// Toolchains in the cache, by their programs' names: where each is, and what it would say of its version. They are
    /// not asked: a cache that a file names may hold any program.
    pub toolchains: BTreeMap<String, (PathBuf, String)>,
    /// The environment's variables out of [`variables`], as far as they are set.
    pub variables: BTreeMap<String, OsString>,
}

/// The variables of the environment that matter here.
pub fn variables(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let requirements = catalog.requirements().iter();
    let proxies = requirements.flat_map(|requirement| match &requirement.look {
        Look::Proxy {
            variables,
            exceptions,
        } => variables
            .iter()
            .chain(exceptions)
            .map(String::as_str)
            .collect(),
        _ => Vec::new(),
    });
    ["PATH"].into_iter().chain(proxies)
}

/// Looks at this computer, cures it where that is wished, and tells. The exit code: 0 when what is wanted can work,
/// 4 when something that it needs is missing.
pub fn doctor(console: &mut Console<'_>, wishes: &Wishes) -> Result<u8, Failure> {
    let place = Place {
        root: Path::new("/"),
        variables: &wishes.variables,
        programs: &RealPrograms,
    };
    doctor_at(console, wishes, &place, Catalog::builtin())
}

fn doctor_at(
    console: &mut Console<'_>,
    wishes: &Wishes,
    place: &Place<'_>,
    catalog: &Catalog,
) -> Result<u8, Failure> {
    let activities = examine::activities(catalog.activities(), &wishes.machines);
    let look = || {
        let belongings = Belongings {
            cache: &wishes.cache,
            state: &wishes.state,
            machines: &wishes.place,
            media: &wishes.media,
            toolchains: &wishes.toolchains,
        };
        // Of what root can use: root is who makes machines.
        let _rights = mullion_rights::as_root();
        let computer = probe::look(place, catalog, &belongings);
        DoctorReport::new(catalog, &activities, computer, wishes.fix)
    };
    let mut report = look();
    if wishes.fix == Fix::Install {
        if can_install(&report, catalog) {
            report = install(console, place.programs, catalog, report, &look)?;
        } else if !report.commands.is_empty() {
            view::show(console, &report)?;
            return Ok(Class::ThisComputer.exit_code());
        }
    }
    view::show(console, &report)?;
    Ok(report.exit_code())
}

/// Whether packages can be installed for the person, rather than named.
fn can_install(report: &DoctorReport, catalog: &Catalog) -> bool {
    let manager = report
        .computer
        .system
        .family
        .and_then(|family| catalog.package_manager(family));
    report.computer.user.is_root() && manager.is_some_and(|manager| manager.automatic)
}

/// Installs what is missing and looks again. The lists of packages are renewed first, since they decide what can be had.
fn install(
    console: &mut Console<'_>,
    programs: &dyn Programs,
    catalog: &Catalog,
    report: DoctorReport,
    look: &dyn Fn() -> DoctorReport,
) -> Result<DoctorReport, Failure> {
    let Some(manager) = report
        .computer
        .system
        .family
        .and_then(|family| catalog.package_manager(family))
    else {
        return Ok(report);
    };
    if !is_curable(&report, catalog) {
        return Ok(report);
    }
    let mut report = report;
    if let Some(refresh) = &manager.refresh {
        fix::run(console, programs, manager, refresh)?;
        report = look();
    }
    let commands = fix::commands(&report.diagnoses, catalog.requirements(), manager);
    let installs: Vec<_> = commands
        .iter()
        .filter(|words| Some(*words) != manager.refresh.as_ref())
        .collect();
    for words in &installs {
        fix::run(console, programs, manager, words)?;
    }
    Ok(if installs.is_empty() { report } else { look() })
}

/// Whether something is missing that a package of this distribution may bring, once its lists are renewed.
fn is_curable(report: &DoctorReport, catalog: &Catalog) -> bool {
    let family = report.computer.system.family;
    let has_packages = |id: &str| {
        let requirement = catalog
            .requirements()
            .iter()
            .find(|requirement| requirement.id == id);
        requirement.is_some_and(|requirement| {
            family.is_some_and(|family| requirement.packages.contains_key(&family))
        })
    };
    let mut missing = report
        .diagnoses
        .iter()
        .filter(|found| found.state == examine::State::Missing);
    missing.any(|found| has_packages(&found.requirement))
}

#[cfg(test)]
mod tests;
