//! One judgement a kind of requirement: how it stands, and what was seen.

use std::collections::BTreeSet;

use ipnet::Ipv4Net;
use mullion_catalog::{Accelerator, ClockLook, KernelFeature, Look, Number, Requirement};
use mullion_spec::networks::{Purpose, RANGES, Relation, choose, relation};

use super::super::computer::{AcceleratorFound, CgroupVersion, Computer, DiskLimits, Holds, Made};
use super::{State, quoted};

/// How it stands with a requirement, and what was seen; none where the question does not arise.
pub(super) fn judge(requirement: &Requirement, computer: &Computer) -> Option<(State, String)> {
    Some(match &requirement.look {
        Look::Root {} => root(computer),
        Look::Capability { name, bit } => capability(name, *bit, computer),
        Look::FirstProcess { name, mark } => first_process(name, mark, computer),
        Look::Cgroups { controllers } => cgroups(controllers, computer),
        Look::Namespaces(names) => namespaces(names, computer),
        Look::Kernel(feature) => kernel(feature, computer),
        Look::Accelerator(accelerator) => self::accelerator(&requirement.id, accelerator, computer),
        Look::Program { names } => program(names, computer),
        Look::File { paths } => file(paths, computer),
        Look::Toolchain {
            program, minimum, ..
        } => toolchain(program, minimum, computer),
        Look::Memory { mib } => memory(*mib, computer),
        Look::Disk { gib } => disk(*gib, computer),
        Look::DiskLimits { program } => disk_limits(program, computer),
        Look::UdpPort { port } => udp_port(*port, computer),
        Look::Network { cidr, own } => network(cidr, own, computer),
        Look::Clock(clock) => self::clock(clock, computer),
        Look::Media { smallest_mib } => return media(*smallest_mib, computer),
        Look::Proxy {
            variables,
            exceptions,
        } => proxy(variables, exceptions, computer),
    })
}

fn root(computer: &Computer) -> (State, String) {
    if computer.user.is_root() {
        (State::Ok, "you are root".into())
    } else {
        (
            State::Missing,
            format!("you are user {}, not root", computer.user.id),
        )
    }
}

fn capability(name: &str, bit: u8, computer: &Computer) -> (State, String) {
    let has = |set: u64| set.checked_shr(bit.into()).is_some_and(|set| set & 1 == 1);
    let user = &computer.user;
    match (user.is_root(), has(user.capabilities), has(user.bounding)) {
        (_, true, _) => (State::Ok, "in effect".into()),
        (false, false, true) => (State::Ok, "root may have it".into()),
        (_, false, _) => (State::Weak, format!("even root is without {name} here")),
    }
}

fn first_process(name: &str, mark: &str, computer: &Computer) -> (State, String) {
    match &computer.first_process {
        _ if computer.paths.contains(mark) => (State::Ok, format!("`{mark}` exists")),
        Some(first) if first == name => (State::Ok, format!("the first process is `{first}`")),
        Some(first) => (State::Weak, format!("the first process is `{first}`")),
        None => (State::NotProven, "the first process is hidden".into()),
    }
}

fn cgroups(wanted: &BTreeSet<String>, computer: &Computer) -> (State, String) {
    let found = &computer.cgroups;
    let lacking: Vec<_> = wanted.difference(&found.controllers).collect();
    let kind = match found.version {
        CgroupVersion::None => return (State::Missing, "no control groups are mounted".into()),
        CgroupVersion::V1 => "version 1",
        CgroupVersion::Hybrid => "version 1 with version 2 beside it",
        CgroupVersion::V2 => "version 2",
    };
    if !lacking.is_empty() {
        return (
            State::Missing,
            format!("{kind}, without {}", quoted(lacking)),
        );
    }
    match found.version {
        CgroupVersion::V2 => (State::Ok, kind.into()),
        CgroupVersion::None | CgroupVersion::V1 | CgroupVersion::Hybrid => {
            (State::Weak, kind.into())
        }
    }
}

fn namespaces(wanted: &BTreeSet<String>, computer: &Computer) -> (State, String) {
    let found = &computer.kernel.namespaces;
    let lacking: Vec<_> = wanted.difference(found).collect();
    if found.is_empty() {
        (
            State::NotProven,
            "the kernel does not show its namespaces".into(),
        )
    } else if lacking.is_empty() {
        (State::Ok, format!("all {} of them", wanted.len()))
    } else {
        (
            State::Missing,
            format!("the kernel has no {}", quoted(lacking)),
        )
    }
}

fn kernel(feature: &KernelFeature, computer: &Computer) -> (State, String) {
    let kernel = &computer.kernel;
    let filesystem = feature
        .filesystem
        .iter()
        .find(|name| kernel.filesystems.contains(*name));
    let loaded = feature
        .modules
        .iter()
        .find(|name| kernel.loaded.contains(*name));
    let path = feature
        .paths
        .iter()
        .find(|path| computer.paths.contains(*path));
    let option = kernel.options.as_ref().and_then(|set| {
        // A kernel can be made with a module that is not installed: then the modules on disk decide.
        let counts = |made: &Made| *made == Made::BuiltIn || kernel.loadable.is_none();
        let mut options = feature.options.iter();
        options.find(|option| set.get(*option).is_some_and(counts))
    });
    let on_disk = kernel.loadable.as_ref().and_then(|set| {
        let mut modules = feature.modules.iter();
        modules.find(|name| set.contains(*name))
    });
    let witness = filesystem
        .map(|name| format!("file system `{name}`"))
        .or_else(|| loaded.map(|name| format!("module `{name}` is loaded")))
        .or_else(|| path.map(|path| format!("`{path}` exists")))
        .or_else(|| on_disk.map(|name| format!("module `{name}` can be loaded")))
        .or_else(|| option.map(|option| format!("the kernel has `{option}`")));
    match witness {
        Some(seen) => (State::Ok, seen),
        None if kernel.loadable.is_some() => (
            State::Missing,
            format!(
                "kernel {} has no module {}",
                kernel.release,
                quoted(&feature.modules)
            ),
        ),
        None if kernel.options.is_some() => (
            State::Missing,
            format!("the kernel is made without {}", quoted(&feature.options)),
        ),
        None => (
            State::NotProven,
            "not in use yet, and neither the kernel's configuration nor its modules can be seen"
                .into(),
        ),
    }
}

fn accelerator(id: &str, look: &Accelerator, computer: &Computer) -> (State, String) {
    let device = &look.device;
    match computer.accelerators.get(id) {
        None | Some(AcceleratorFound::Absent) => {
            (State::Missing, format!("there is no `{device}`"))
        }
        Some(AcceleratorFound::Refused(why)) => (
            State::Missing,
            format!("`{device}` cannot be opened: {why}"),
        ),
        Some(AcceleratorFound::Opened) => (
            State::NotProven,
            format!(
                "`{device}` opens; only `{}` could tell whether it works",
                look.program
            ),
        ),
        Some(AcceleratorFound::Failed(why)) => (
            State::Missing,
            format!("`{device}` is there and unusable: {why}"),
        ),
        Some(AcceleratorFound::TooSlow(seconds)) => (
            State::Missing,
            format!(
                "`{device}` is there and unusable: a tenth of a second's work was not done in {seconds} s"
            ),
        ),
        Some(AcceleratorFound::Proven) => (State::Ok, "a virtual machine ran with it".into()),
    }
}

fn program(names: &[String], computer: &Computer) -> (State, String) {
    match names.iter().find_map(|name| computer.programs.get(name)) {
        Some(path) => (State::Ok, format!("`{}`", path.display())),
        None => (State::Missing, format!("no program {}", any_of(names))),
    }
}

fn file(paths: &[String], computer: &Computer) -> (State, String) {
    match paths.iter().find(|path| computer.paths.contains(*path)) {
        Some(path) => (State::Ok, format!("`{path}`")),
        None => (State::Missing, no_file(paths)),
    }
}

fn no_file(paths: &[String]) -> String {
    match paths {
        [first, _, ..] => format!(
            "none of the {} files known for it, such as `{first}`",
            paths.len()
        ),
        paths => format!("no file {}", any_of(paths)),
    }
}

fn any_of(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(" or ")
}

fn toolchain(program: &str, minimum: &Number, computer: &Computer) -> (State, String) {
    let Some(path) = computer.programs.get(program) else {
        return (State::Missing, format!("no program `{program}`"));
    };
    let path = path.display();
    match computer
        .versions
        .get(program)
        .and_then(|said| version_in(said))
    {
        Some(version) if version >= *minimum => (State::Ok, format!("{version} at `{path}`")),
        Some(version) => (
            State::Missing,
            format!("`{path}` is {version}, and {minimum} is needed"),
        ),
        None => (
            State::NotProven,
            format!("`{path}` does not tell its version"),
        ),
    }
}

/// The first version number in a text: `1.26.8` in `go version go1.26.8 linux/amd64`, `1.19` in `2:1.19~1`.
pub(super) fn version_in(text: &str) -> Option<Number> {
    let mut pieces = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    pieces.find_map(|piece| {
        let piece = piece.trim_matches('.');
        piece.contains('.').then(|| piece.parse().ok()).flatten()
    })
}

fn memory(mib: u64, computer: &Computer) -> (State, String) {
    let Some(memory) = computer.memory else {
        return (State::NotProven, "the kernel does not tell".into());
    };
    let (total, available, wanted) = (gib(memory.total_mib), gib(memory.available_mib), gib(mib));
    if memory.total_mib < mib {
        (
            State::Missing,
            format!("{total} in all, and {wanted} are needed"),
        )
    } else if memory.available_mib < mib {
        (
            State::Weak,
            format!("{available} of {total} are free now, and {wanted} are needed"),
        )
    } else {
        (State::Ok, format!("{available} of {total} are free"))
    }
}

fn disk(wanted_gib: u64, computer: &Computer) -> (State, String) {
    let wanted = wanted_gib << 10;
    let name = |holds| match holds {
        Holds::Cache => "cache",
        Holds::State => "state",
    };
    let seen = computer.disks.iter().map(|disk| {
        let free = disk.free_mib.map_or_else(
            || "unknown space".to_owned(),
            |free| format!("{} free", gib(free)),
        );
        format!(
            "{free} for the {} in `{}`",
            name(disk.holds),
            disk.folder.display()
        )
    });
    let seen = seen.collect::<Vec<_>>().join(", ");
    if computer
        .disks
        .iter()
        .any(|disk| disk.free_mib.is_some_and(|free| free < wanted))
    {
        (
            State::Missing,
            format!("{seen}; {} are needed", gib(wanted)),
        )
    } else if computer.disks.iter().any(|disk| disk.free_mib.is_none()) {
        (State::NotProven, seen)
    } else {
        (State::Ok, seen)
    }
}

/// MiB as GiB with one digit, rounded down: what is not all there is not shown as there.
pub(in super::super) fn gib(mib: u64) -> String {
    let tenths = mib.saturating_mul(10) / 1024;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} GiB"),
        (whole, tenth) => format!("{whole}.{tenth} GiB"),
    }
}

fn disk_limits(program: &str, computer: &Computer) -> (State, String) {
    let DiskLimits { available, seen } = &computer.disk_limits;
    if !available {
        (State::Weak, format!("{seen}: a machine may fill all of it"))
    } else if computer.programs.contains_key(program) {
        (State::Ok, seen.clone())
    } else {
        (State::Missing, format!("{seen}; no program `{program}`"))
    }
}

fn udp_port(port: u16, computer: &Computer) -> (State, String) {
    if computer.udp_ports.contains(&port) {
        (
            State::Weak,
            "another program or network of this computer listens on it".into(),
        )
    } else {
        (State::Ok, "free".into())
    }
}

fn network(cidr: &str, own: &str, computer: &Computer) -> (State, String) {
    let Ok(wanted) = cidr.parse::<Ipv4Net>() else {
        return (State::NotProven, format!("`{cidr}` is no network"));
    };
    let overlaps = |net: Ipv4Net| relation(wanted, net) != Relation::Apart;
    let taken = computer
        .routes
        .iter()
        .find(|route| overlaps(route.network) && !route.interface.starts_with(own));
    let Some(route) = taken else {
        return (State::Ok, format!("{wanted}, the default, is free"));
    };
    let seen = format!(
        "{wanted}, the default, overlaps {} on `{}`",
        route.network, route.interface
    );
    let routes = computer.routes.iter().map(|route| route.network);
    match choose(Purpose::Machines, &routes.collect()) {
        Some(free) => (
            State::Ok,
            format!("{seen}; a new cluster takes {free} instead"),
        ),
        None => (
            State::Weak,
            format!("{seen}, and no network is free in {RANGES}"),
        ),
    }
}

fn clock(look: &ClockLook, computer: &Computer) -> (State, String) {
    let year = year(computer.clock.unix_seconds);
    if !(u64::from(look.first_year)..=u64::from(look.last_year)).contains(&year) {
        return (State::Missing, format!("it shows the year {year}"));
    }
    match computer.clock.synchronised {
        Some(true) => (State::Ok, "follows a time server".into()),
        Some(false) => (
            State::Weak,
            format!("it shows the year {year}, and follows no time server"),
        ),
        None => (
            State::NotProven,
            format!("it shows the year {year}; nothing here tells whether it is right"),
        ),
    }
}

/// The year of a time, UTC.
fn year(unix_seconds: u64) -> u64 {
    let mut days = unix_seconds / 86_400;
    let mut year = 1970_u64;
    // A clock that is far off must not keep us here for long.
    while year < 10_000 {
        let is_leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let length = if is_leap { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    year
}

fn media(smallest_mib: u64, computer: &Computer) -> Option<(State, String)> {
    let bad = computer
        .media
        .iter()
        .filter_map(|medium| match medium.size_mib {
            None => Some(format!("no file `{}`", medium.path.display())),
            Some(size) if size < smallest_mib => Some(format!(
                "`{}` has {size} MiB, too few for Windows",
                medium.path.display()
            )),
            Some(_) => None,
        });
    let bad: Vec<_> = bad.collect();
    let sizes = computer.media.iter().map(|medium| {
        format!(
            "`{}`, {}",
            medium.path.display(),
            gib(medium.size_mib.unwrap_or_default())
        )
    });
    match (computer.media.is_empty(), bad.is_empty()) {
        (true, _) => None,
        (false, true) => Some((State::Ok, sizes.collect::<Vec<_>>().join("; "))),
        (false, false) => Some((State::Missing, bad.join("; "))),
    }
}

fn proxy(
    variables: &BTreeSet<String>,
    exceptions: &BTreeSet<String>,
    computer: &Computer,
) -> (State, String) {
    let set: Vec<_> = variables.intersection(&computer.variables).collect();
    if set.is_empty() {
        (State::Ok, "none are set".into())
    } else if exceptions.is_disjoint(&computer.variables) {
        (
            State::Weak,
            format!(
                "{} set, and nothing is reached without the proxy",
                quoted(set)
            ),
        )
    } else {
        (State::Ok, format!("{} set, with exceptions", quoted(set)))
    }
}
