//! This computer's kernel, which all machines share: settings that they need, and settings that they change.
//!
//! What the settings were is written down before the first machine, and put back after the last, as far as they are
//! still what we or a kubelet made of them. In memory, as the settings are: both are gone after a restart of the
//! computer.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::DriverError;

/// Settings with the least value that machines need. Every machine's systemd, kubelet and containerd watch files
/// as the same user: the usual limits are those of one computer and not of ten.
const NEEDED: &[(&str, u64)] = &[
    ("fs/inotify/max_user_instances", 8192),
    ("fs/inotify/max_user_watches", 524_288),
];

/// The switch for passing packets on between interfaces.
const FORWARDING: &str = "net/ipv4/ip_forward";

/// Settings that kubelet changes on whatever computer it runs, with the value that it gives them.
const CHANGED: &[(&str, &str)] = &[
    ("kernel/keys/root_maxbytes", "25000000"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
];

/// The settings with the least value that they need.
fn needed(way_out: WayOut) -> impl Iterator<Item = (&'static str, u64)> {
    let forwarding = (way_out == WayOut::Open).then_some((FORWARDING, 1));
    NEEDED.iter().copied().chain(forwarding)
}

/// What we or a kubelet make of a setting.
fn made_of(name: &str, before: &str) -> String {
    let raised = needed(WayOut::Open).find(|(needed, _)| *needed == name);
    let changed = CHANGED.iter().find(|(changed, _)| *changed == name);
    match (raised, changed) {
        (Some((_, least)), _) => {
            let before = before.parse().unwrap_or(u64::MAX);
            before.max(least).to_string()
        }
        (None, Some((_, value))) => (*value).to_owned(),
        (None, None) => before.to_owned(),
    }
}

/// Whether machines have a way out through this computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WayOut {
    Open,
    Closed,
}

/// Whether anybody but machines needs packets passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forwarding {
    /// Machines alone.
    Ours,
    /// Others too, who may count on the switch by now.
    Shared,
}

/// A kernel's settings, and where it is written down what they were.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    settings: PathBuf,
    before: PathBuf,
}

impl Kernel {
    /// This computer's.
    pub(super) fn here() -> Self {
        Self {
            settings: "/proc/sys".into(),
            before: "/run/mullion-kernel.json".into(),
        }
    }

    /// One whose settings and record, `sys` and `before.json`, lie in a folder.
    #[cfg(test)]
    pub(super) fn played(folder: &Path) -> Self {
        Self {
            settings: folder.join("sys"),
            before: folder.join("before.json"),
        }
    }

    /// The first setting that is not good for machines.
    pub(super) fn lacks(&self, way_out: WayOut) -> Result<Option<&'static str>, DriverError> {
        for (name, least) in needed(way_out) {
            if self.is_below(name, least)? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Makes the settings good for machines.
    pub(super) fn prepare(&self, way_out: WayOut) -> Result<(), DriverError> {
        let needed: Vec<_> = needed(way_out).collect();
        // Written down before anything is changed: a run that is cut off here puts back what is so already.
        let mut before = self.recorded()?;
        let names = needed.iter().map(|(name, _)| *name);
        for name in names.chain(CHANGED.iter().map(|(name, _)| *name)) {
            if !before.contains_key(name)
                && let Some(value) = self.read(name)?
            {
                before.insert(name.to_owned(), value);
            }
        }
        let text = serde_json::to_vec(&before).map_err(std::io::Error::from)?;
        // Never half a record: without it the last machine's end could put nothing back.
        let draft = self.before.with_extension("new");
        fs_err::write(&draft, text)?;
        fs_err::rename(&draft, &self.before)?;
        for (name, least) in needed {
            if self.is_below(name, least)? {
                fs_err::write(self.settings.join(name), least.to_string())?;
            }
        }
        Ok(())
    }

    /// Puts back what the settings were. What somebody else has changed since is left as it is.
    pub(super) fn put_back(&self, forwarding: Forwarding) -> Result<(), DriverError> {
        for (name, before) in self.recorded()? {
            if name == FORWARDING && forwarding == Forwarding::Shared {
                continue;
            }
            let is_our_doing = |now: &String| *now != before && made_of(&name, &before) == *now;
            if self.read(&name)?.is_some_and(|now| is_our_doing(&now)) {
                fs_err::write(self.settings.join(&name), before)?;
            }
        }
        super::place::remove(&self.before)
    }

    fn recorded(&self) -> Result<BTreeMap<String, String>, DriverError> {
        match fs_err::read(&self.before) {
            // Half a record is what a power cut leaves, and the settings went with the power.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn is_below(&self, name: &str, least: u64) -> Result<bool, DriverError> {
        let value = self.read(name)?.and_then(|value| value.parse().ok());
        Ok(value.is_some_and(|value: u64| value < least))
    }

    /// A setting's value; nothing where this kernel does not have it.
    fn read(&self, name: &str) -> Result<Option<String>, DriverError> {
        let path: &Path = &self.settings.join(name);
        match fs_err::read_to_string(path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(folder: &Path) -> Kernel {
        let kernel = Kernel::played(folder);
        for (name, value) in [
            ("fs/inotify/max_user_instances", "128\n"),
            ("fs/inotify/max_user_watches", "1000000\n"),
            ("net/ipv4/ip_forward", "0\n"),
            ("kernel/panic", "0\n"),
        ] {
            let path = kernel.settings.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, value).unwrap();
        }
        kernel
    }

    #[test]
    fn settings_are_raised_never_lowered_and_put_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        let read = |name: &str| kernel.read(name).unwrap().unwrap();
        kernel.prepare(WayOut::Open).unwrap();
        assert_eq!(read("fs/inotify/max_user_instances"), "8192");
        assert_eq!(read("fs/inotify/max_user_watches"), "1000000");
        assert_eq!(read("net/ipv4/ip_forward"), "1");
        // A kubelet's doing, and a second cluster.
        fs_err::write(kernel.settings.join("kernel/panic"), "10").unwrap();
        kernel.prepare(WayOut::Open).unwrap();
        kernel.put_back(Forwarding::Ours).unwrap();
        kernel.put_back(Forwarding::Ours).unwrap();
        assert_eq!(read("fs/inotify/max_user_instances"), "128");
        assert_eq!(read("net/ipv4/ip_forward"), "0");
        assert_eq!(read("kernel/panic"), "0");
        assert!(!folder.path().join("before.json").exists());
    }

    #[test]
    fn without_a_way_out_nothing_is_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        kernel.prepare(WayOut::Closed).unwrap();
        assert_eq!(kernel.read(FORWARDING).unwrap().unwrap(), "0");
    }

    #[test]
    fn what_somebody_else_has_set_since_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        let write = |name: &str, value: &str| {
            fs_err::write(kernel.settings.join(name), value).unwrap();
        };
        kernel.prepare(WayOut::Open).unwrap();
        write("fs/inotify/max_user_instances", "16384");
        write("fs/inotify/max_user_watches", "524288");
        write("kernel/panic", "30");
        kernel.put_back(Forwarding::Shared).unwrap();
        let read = |name: &str| kernel.read(name).unwrap().unwrap();
        assert_eq!(read("fs/inotify/max_user_instances"), "16384");
        assert_eq!(read("fs/inotify/max_user_watches"), "524288");
        assert_eq!(read("kernel/panic"), "30");
        assert_eq!(read("net/ipv4/ip_forward"), "1");
        assert!(!folder.path().join("before.json").exists());
    }

    #[test]
    fn a_record_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = kernel(folder.path());
        kernel.prepare(WayOut::Open).unwrap();
        let first = fs_err::File::open(&kernel.before).unwrap();
        kernel.prepare(WayOut::Open).unwrap();
        // Another file took its place: the old one was never open for writing.
        let links = std::os::unix::fs::MetadataExt::nlink(&first.metadata().unwrap());
        assert_eq!(links, 0);
        assert!(!kernel.before.with_extension("new").exists());
    }
}
