//! Holds a machine's disk to its size by a project quota, where the file system has them.
//!
//! A project is a number on files and folders, with one limit for all that have it. The machine's folders have it and
//! pass it on to what is made in them. Files that the machine shares with its template keep the template's number and
//! do not count. xfs holds every process to the limit. ext4 does not hold one with `CAP_SYS_RESOURCE`, but it holds
//! everything that is written through an overlay: a machine's own root and the roots of its containers.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mullion_spec::value::ByteSize;
use mullion_wire::Sha256Digest;

use super::exec;
use crate::error::DriverError;

/// The numbers of our projects: high, so that they meet none that an administrator counts up from one.
const OURS: RangeInclusive<u32> = 0x4000_0000..=0x7fff_ffff;

/// Files in which an administrator gives numbers to projects.
const GIVEN: [&str; 2] = ["/etc/projects", "/etc/projid"];

/// Whether the file system of a folder can hold machines to the size of their disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskLimit {
    /// It holds every process of a machine.
    Everyone {
        /// Where the file system is mounted.
        mount: PathBuf,
    },
    /// It does not hold processes with `CAP_SYS_RESOURCE`, except where they write through an overlay.
    ExceptResourceful {
        /// Where the file system is mounted.
        mount: PathBuf,
    },
    /// It cannot.
    None {
        /// Why, as the end of a sentence.
        why: String,
    },
}

/// Whether the disks of machines below that folder can be limited.
pub fn disk_limit(place: &Path) -> Result<DiskLimit, DriverError> {
    let mut there = place;
    // A folder that is still to be made will be on the file system of the one above it.
    while let (false, Some(above)) = (there.exists(), there.parent()) {
        there = above;
    }
    let there = fs_err::canonicalize(there)?;
    let device = fs_err::metadata(&there)?.dev();
    let device = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let mounts = fs_err::read_to_string("/proc/self/mountinfo")?;
    Ok(judge(&mounts, &device, &there))
}

/// The same from the kernel's list of mounts.
fn judge(mounts: &str, device: &str, folder: &Path) -> DiskLimit {
    let none = |why: String| DiskLimit::None { why };
    let mounts = mounts.lines().filter_map(Mount::parse);
    let above = mounts.filter(|mount| mount.device == device && folder.starts_with(&mount.path));
    let Some(mount) = above.max_by_key(|mount| mount.path.components().count()) else {
        return none(format!("`{}` is on no mount of its own", folder.display()));
    };
    let is_on = mount.options.split(',').any(|option| option == "prjquota");
    match mount.kind {
        "xfs" if is_on => DiskLimit::Everyone { mount: mount.path },
        "ext4" if is_on => DiskLimit::ExceptResourceful { mount: mount.path },
        "ext4" | "xfs" => none(format!(
            "`{}` is mounted without project quotas",
            mount.path.display()
        )),
        other => none(format!(
            "`{}` is {other}, whose project quotas are not used",
            mount.path.display()
        )),
    }
}

/// A mounted file system.
struct Mount<'a> {
    device: &'a str,
    path: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(2);
        let mut after = after.split(' ');
        Some(Self {
            device: before.next()?,
            path: before.nth(1)?.replace("\\040", " ").into(),
            kind: after.next()?,
            options: after.nth(1)?,
        })
    }
}

/// Limits the disk of a machine that has never run, or gives why that cannot be.
pub(super) fn hold(disk: &Path, name: &str, size: ByteSize) -> Result<Option<String>, DriverError> {
    let mount = match disk_limit(disk)? {
        DiskLimit::Everyone { mount } | DiskLimit::ExceptResourceful { mount } => mount,
        DiskLimit::None { why } => return Ok(Some(why)),
    };
    let held = taken(&mount).and_then(|taken| {
        let project = free(name, &taken).to_string();
        set_limit(&project, size.bytes() / 1024, &mount)?;
        put_on(disk, &project)
    });
    match held {
        Ok(()) => Ok(None),
        // The limit is worth less than the machine: it works without.
        Err(DriverError::MissingProgram(program)) => {
            Ok(Some(format!("`{program}` is not installed")))
        }
        Err(error @ DriverError::Program { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Takes the limit of a machine's disk away. Before its files: whatever is cut off in between can be repeated.
pub(super) fn release(disk: &Path) -> Result<(), DriverError> {
    if !disk.is_dir() {
        return Ok(());
    }
    let mount = match disk_limit(disk)? {
        DiskLimit::Everyone { mount } | DiskLimit::ExceptResourceful { mount } => mount,
        DiskLimit::None { .. } => return Ok(()),
    };
    let told = exec::run("lsattr", &["-d", "-p", &shown(disk)])?;
    match project_in(&told) {
        Some(project) if OURS.contains(&project) => set_limit(&project.to_string(), 0, &mount),
        // Made before disks were limited, or by somebody else's hand.
        _ => Ok(()),
    }
}

/// The project that `lsattr` tells.
fn project_in(told: &str) -> Option<u32> {
    told.split_whitespace().next()?.parse().ok()
}

/// Sets how many KiB a project may have; none is no limit.
fn set_limit(project: &str, kib: u64, mount: &Path) -> Result<(), DriverError> {
    let kib = kib.to_string();
    let args = ["-P", project, "0", &kib, "0", "0", &shown(mount)];
    exec::run("setquota", &args).map(drop)
}

/// Puts a project on a machine's folders, which pass it on, and on the files that are the machine's alone.
///
/// A folder that passes its project on takes no hard link to a file of another: the template's files are linked first.
fn put_on(disk: &Path, project: &str) -> Result<(), DriverError> {
    let disk = shown(disk);
    let own = [&disk, "-xdev", "-type", "f", "-links", "1"];
    let folders = [&disk, "-xdev", "-type", "d"];
    let on_files = ["-exec", "chattr", "-p", project, "{}", "+"];
    let on_folders = ["-exec", "chattr", "-p", project, "+P", "{}", "+"];
    exec::run("find", &[&own[..], &on_files].concat())?;
    exec::run("find", &[&folders[..], &on_folders].concat())?;
    Ok(())
}

/// The numbers that projects have already: on this file system, or in the administrator's files.
fn taken(mount: &Path) -> Result<BTreeSet<u32>, DriverError> {
    let used = exec::run("repquota", &["-P", "-n", &shown(mount)])?;
    let mut taken = used_in(&used);
    for file in GIVEN {
        // Most computers have none.
        let text = fs_err::read_to_string(file).unwrap_or_default();
        taken.extend(
            text.split([':', '\n', ' '])
                .filter_map(|word| word.parse::<u32>().ok()),
        );
    }
    Ok(taken)
}

/// The projects in a report of `repquota`, which writes a number as `#12`.
fn used_in(report: &str) -> BTreeSet<u32> {
    let number = |line: &str| {
        line.strip_prefix('#')?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    report.lines().filter_map(number).collect()
}

/// A number for a machine's project that is nobody's yet.
fn free(name: &str, taken: &BTreeSet<u32>) -> u32 {
    let digest = Sha256Digest::of(name.as_bytes());
    let first = u32::from_str_radix(&digest.as_str()[..8], 16).unwrap_or_default();
    let span = OURS.end() - OURS.start();
    let numbers = (0..=span).map(|more| OURS.start() + (first.wrapping_add(more) & span));
    numbers
        .into_iter()
        .find(|number| !taken.contains(number))
        .unwrap_or(*OURS.end())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 7:0 / /srv/ma\\040chines rw,relatime - ext4 /dev/loop0 rw,prjquota
31 22 7:1 / /data rw,relatime - xfs /dev/loop1 rw,attr2,inode64,prjquota
32 22 7:2 / /plain rw,relatime - xfs /dev/loop2 rw,attr2,noquota
33 22 0:40 / /pool rw,relatime - btrfs /dev/sdb rw
";

    #[test]
    fn promise_13_a_file_system_with_project_quotas_is_known() {
        let judge = |device: &str, folder: &str| judge(MOUNTS, device, Path::new(folder));
        let mount = PathBuf::from("/srv/ma chines");
        let found = judge("7:0", "/srv/ma chines/clusters/dev");
        assert_eq!(found, DiskLimit::ExceptResourceful { mount });
        let mount = PathBuf::from("/data");
        assert_eq!(judge("7:1", "/data"), DiskLimit::Everyone { mount });
        for (device, folder) in [
            ("254:0", "/var/lib/mullion"),
            ("7:2", "/plain/m"),
            ("0:40", "/pool"),
            ("9:9", "/elsewhere"),
        ] {
            let found = judge(device, folder);
            assert!(matches!(found, DiskLimit::None { .. }), "{found:?}");
        }
    }

    #[test]
    fn promise_13_a_project_of_somebody_else_is_never_taken() {
        let report = "*** Report for project quotas on device /dev/loop0\n\
                      Project         used    soft    hard  grace    used  soft  hard  grace\n\
                      #0        --      20       0       0              2     0     0\n\
                      #1073741830 --   20       0   20480              2     0     0\n";
        assert_eq!(used_in(report), [0, 1_073_741_830].into());
        let first = free("mul1", &BTreeSet::new());
        assert!(OURS.contains(&first));
        assert_eq!(free("mul1", &BTreeSet::new()), first);
        let second = free("mul1", &[first].into());
        assert!(OURS.contains(&second) && second != first);
    }

    #[test]
    fn promise_13_only_a_project_of_ours_loses_its_limit() {
        assert_eq!(
            project_in("1073741830 ---------e----P-- /d\n"),
            Some(1_073_741_830)
        );
        assert_eq!(project_in("    0 --------------e------- /d\n"), Some(0));
        assert_eq!(project_in(""), None);
        assert!(!OURS.contains(&0) && !OURS.contains(&1000));
    }
}
