//! Unit files in this computer's systemd: by them machines are started, and start again when the computer starts.
//!
//! ```text
//! /etc/systemd/system/
//!   mullion-<cluster>.<machine>.service     a machine, whether it starts with the computer or not
//!   mullion-<cluster>-network.service       restores the cluster's network; there while a machine of it autostarts
//!   multi-user.target.wants/<unit>          a link: systemd starts the unit when the computer starts
//! <place>/boot/mullion                      a copy of this program, root's own, which restores networks
//! ```
//!
//! Every file ends with a section `[X-Mullion]`, which systemd does not read. It says whose the file is: one without it,
//! or of another cluster or place, is somebody else's, and is neither changed nor removed.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fs_err::File;
use mullion_plan::Identity;
use mullion_spec::value::{ClusterName, MachineName};

use super::erase::erase;
use super::exec;
use super::names;
use super::unit::{network_service, quoted};
use crate::error::DriverError;
use crate::quirks::{Init, quirks};
use crate::wish::NetworkWish;
use mullion_rights::{read_record, replace};

/// Where an administrator's unit files are.
const FOLDER: &str = "/etc/systemd/system";

/// What is started when the computer starts: a folder of links to units.
const WANTS: &str = "multi-user.target.wants";

/// The section that says whose a unit file is.
const SECTION: &str = "[X-Mullion]";

/// The folder of the program, below the place.
const BOOT: &str = "boot";

/// The program's name there.
const PROGRAM: &str = "mullion";

/// This computer's unit files for the machines of one place.
#[derive(Debug, Clone)]
pub(super) struct Units {
    folder: PathBuf,
    place: PathBuf,
    /// The program that restores networks; without one no machine starts with the computer.
    program: Option<PathBuf>,
}

/// Whose a unit file is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    Nobodys,
    Ours(String),
    Others,
}

/// What the section of a unit file has to say for the file to be ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark<'a> {
    pub(super) cluster: &'a ClusterName,
    /// Unknown where a label of an older version has none, or is lost.
    pub(super) identity: Option<&'a Identity>,
}

impl Units {
    /// Those of this computer.
    pub(super) fn here(place: &Path) -> Self {
        Self {
            folder: FOLDER.into(),
            place: place.into(),
            program: None,
        }
    }

    /// The same, with the program that is copied to restore networks.
    pub(super) fn with_program(mut self, program: &Path) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Whether machines can start with this computer at all.
    pub(super) fn can_autostart(&self) -> Result<bool, DriverError> {
        Ok(self.program.is_some() && quirks()?.init == Init::Systemd)
    }

    /// Whether a machine starts with this computer: all that it takes is there.
    pub(super) fn is_autostarted(&self, cluster: &ClusterName, machine: &MachineName) -> bool {
        let mark = Mark {
            cluster,
            identity: None,
        };
        let is_complete = |unit: &str| {
            let is_ours = matches!(self.whose(unit, mark), Ok(Whose::Ours(_)));
            is_ours && self.is_linked(unit)
        };
        is_complete(&names::unit(cluster, machine))
            && is_complete(&names::network_unit(cluster))
            && self.copy().is_file()
    }

    /// Refuses where the unit file of a machine is somebody else's.
    pub(super) fn check(&self, mark: Mark<'_>, machine: &MachineName) -> Result<(), DriverError> {
        let unit = names::unit(mark.cluster, machine);
        match self.whose(&unit, mark)? {
            Whose::Others => Err(self.not_ours(&unit)),
            Whose::Nobodys | Whose::Ours(_) => Ok(()),
        }
    }

    /// Writes the unit file of a machine. `network` where the machine starts with this computer.
    pub(super) fn put(
        &self,
        mark: Mark<'_>,
        machine: &MachineName,
        text: &str,
        network: Option<&NetworkWish>,
    ) -> Result<(), DriverError> {
        let unit = names::unit(mark.cluster, machine);
        let mut has_changed = self.write(&unit, mark, text)?;
        if let Some(wish) = network {
            has_changed |= self.put_network(mark, wish)?;
            // Last: with it the machine starts, and then all that it needs is there.
            has_changed |= self.link(&unit)?;
        } else {
            has_changed |= self.unlink(&unit)?;
            has_changed |= self.tidy(mark)?;
        }
        reload_if(has_changed)
    }

    /// Writes the network's unit file again where there is one, after the network has changed.
    pub(super) fn refresh_network(&self, wish: &NetworkWish) -> Result<(), DriverError> {
        let mark = Mark {
            cluster: &wish.cluster,
            identity: wish.identity.as_ref(),
        };
        let unit = names::network_unit(&wish.cluster);
        if !matches!(self.whose(&unit, mark)?, Whose::Ours(_)) || self.program.is_none() {
            return Ok(());
        }
        reload_if(self.put_network(mark, wish)?)
    }

    /// Removes the unit file of a machine, and the network's with the last. Files of others stay.
    pub(super) fn remove(&self, mark: Mark<'_>, machine: &MachineName) -> Result<(), DriverError> {
        let mut has_changed = self.take_away(&names::unit(mark.cluster, machine), mark)?;
        has_changed |= self.tidy(mark)?;
        reload_if(has_changed)
    }

    /// Removes all unit files of a cluster, also of machines whose folders are gone.
    pub(super) fn remove_all(&self, mark: Mark<'_>) -> Result<(), DriverError> {
        let mut has_changed = false;
        for unit in self.of_cluster(mark)? {
            has_changed |= self.take_away(&unit, mark)?;
        }
        has_changed |= self.tidy(mark)?;
        reload_if(has_changed)
    }

    /// Whether a unit file of the cluster is there.
    pub(super) fn has_any(&self, cluster: &ClusterName) -> Result<bool, DriverError> {
        let mark = Mark {
            cluster,
            identity: None,
        };
        Ok(!self.of_cluster(mark)?.is_empty())
    }

    /// The unit files of a cluster that are ours.
    fn of_cluster(&self, mark: Mark<'_>) -> Result<Vec<String>, DriverError> {
        let mut found = Vec::new();
        for unit in self.listed()? {
            let is_named = names::is_unit_of(&unit, mark.cluster);
            if is_named && matches!(self.whose(&unit, mark)?, Whose::Ours(_)) {
                found.push(unit);
            }
        }
        Ok(found)
    }

    /// The names of all unit files that can be ours.
    fn listed(&self) -> Result<Vec<String>, DriverError> {
        let entries = match fs_err::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_str().filter(|name| names::is_unit_file(name));
            found.extend(name.map(str::to_owned));
        }
        found.sort();
        Ok(found)
    }

    /// Removes the network's unit file where no machine of the cluster starts with this computer any more, and the
    /// program where no network's is left.
    fn tidy(&self, mark: Mark<'_>) -> Result<bool, DriverError> {
        let network = names::network_unit(mark.cluster);
        let units = self.of_cluster(mark)?;
        let is_needed = |unit: &String| *unit != network && self.is_linked(unit);
        if units.iter().any(is_needed) {
            return Ok(false);
        }
        let has_changed = self.take_away(&network, mark)?;
        let place = self.place_line();
        for unit in self
            .listed()?
            .iter()
            .filter(|unit| names::is_network_unit(unit))
        {
            let text = read_record(&self.folder.join(unit)).ok().flatten();
            let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            if text.is_some_and(|text| text.lines().any(|line| line == place)) {
                return Ok(has_changed);
            }
        }
        erase(&self.draft())?;
        erase(&self.copy())?;
        // One that holds something else stays.
        let _ = fs_err::remove_dir(self.place.join(BOOT));
        Ok(has_changed)
    }

    fn put_network(&self, mark: Mark<'_>, wish: &NetworkWish) -> Result<bool, DriverError> {
        let program = self.install()?;
        let unit = names::network_unit(mark.cluster);
        let text = network_service(&program, &self.place, wish);
        let is_written = self.write(&unit, mark, &text)?;
        Ok(self.link(&unit)? || is_written)
    }

    /// Copies the program to where only root can change it: the user's own copy is run at a later start of the computer,
    /// and may be gone or another one by then.
    fn install(&self) -> Result<PathBuf, DriverError> {
        let copy = self.copy();
        let Some(program) = &self.program else {
            return Err(DriverError::Cannot("start machines with this computer"));
        };
        let mut source = File::open(program)?;
        let meta = source.metadata()?;
        let is_same = fs_err::symlink_metadata(&copy).is_ok_and(|there| {
            there.is_file()
                && (there.len(), there.mtime(), there.mtime_nsec())
                    == (meta.len(), meta.mtime(), meta.mtime_nsec())
        });
        if is_same {
            return Ok(copy);
        }
        let folder = self.place.join(BOOT);
        fs_err::create_dir_all(&folder)?;
        // Whatever the caller's mask is: root runs what is in it.
        fs_err::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
        replace(&copy, &self.draft(), 0o755, |file| {
            std::io::copy(&mut source, file)?;
            file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
            file.file().set_modified(meta.modified()?)
        })?;
        Ok(copy)
    }

    fn copy(&self) -> PathBuf {
        self.place.join(BOOT).join(PROGRAM)
    }

    fn draft(&self) -> PathBuf {
        self.copy().with_extension("new")
    }

    fn place_line(&self) -> String {
        format!("Place={}", quoted(&self.place.display().to_string()))
    }

    /// Whose a unit file is. What cannot be read is somebody else's.
    fn whose(&self, unit: &str, mark: Mark<'_>) -> Result<Whose, DriverError> {
        let path = self.folder.join(unit);
        match fs_err::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Whose::Nobodys),
            Err(error) => return Err(error.into()),
            Ok(meta) if !meta.is_file() => return Ok(Whose::Others),
            Ok(_) => {}
        }
        let Some(bytes) = read_record(&path)? else {
            return Ok(Whose::Nobodys);
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut lines = text.lines().skip_while(|line| *line != SECTION).skip(1);
        let mut has_cluster = false;
        let mut has_place = false;
        let mut is_other = false;
        for line in lines.by_ref() {
            match line.split_once('=') {
                Some(("Cluster", name)) => has_cluster = name == mark.cluster.as_str(),
                Some(("Id", id)) => {
                    is_other = mark.identity.is_some_and(|own| own.id.as_str() != id);
                }
                Some(("Place", _)) => has_place = line == self.place_line(),
                // A newer version may say more.
                _ => {}
            }
        }
        Ok(if has_cluster && has_place && !is_other {
            Whose::Ours(text)
        } else {
            Whose::Others
        })
    }

    fn not_ours(&self, unit: &str) -> DriverError {
        DriverError::NotOurs {
            what: "the unit file",
            name: self.folder.join(unit).display().to_string(),
        }
    }

    /// Writes a unit file with its mark, whole or not at all; whether that changed it.
    fn write(&self, unit: &str, mark: Mark<'_>, text: &str) -> Result<bool, DriverError> {
        let text = self.marked(mark, text);
        match self.whose(unit, mark)? {
            Whose::Others => return Err(self.not_ours(unit)),
            Whose::Ours(there) if there == text => return Ok(false),
            Whose::Nobodys | Whose::Ours(_) => {}
        }
        fs_err::create_dir_all(&self.folder)?;
        let (path, draft) = (self.folder.join(unit), self.unit_draft(unit));
        replace(&path, &draft, 0o644, |file| file.write_all(text.as_bytes()))?;
        Ok(true)
    }

    /// A unit file's text with the section that says whose it is.
    fn marked(&self, mark: Mark<'_>, text: &str) -> String {
        let id = mark.identity.map_or_else(String::new, |identity| {
            format!("Id={}\n", identity.id.as_str())
        });
        format!(
            "{text}\n{SECTION}\nCluster={}\n{id}{}\n",
            mark.cluster,
            self.place_line()
        )
    }

    /// Where a unit file is written before it takes its place. systemd reads no file of this name.
    fn unit_draft(&self, unit: &str) -> PathBuf {
        self.folder.join(format!(".{unit}.mullion-draft"))
    }

    /// Removes a unit file and the link to it, if they are ours; whether anything was there.
    fn take_away(&self, unit: &str, mark: Mark<'_>) -> Result<bool, DriverError> {
        // What a killed run left.
        erase(&self.unit_draft(unit))?;
        match self.whose(unit, mark)? {
            Whose::Others => return Ok(false),
            Whose::Nobodys => return self.unlink(unit),
            Whose::Ours(_) => {}
        }
        self.unlink(unit)?;
        fs_err::remove_file(self.folder.join(unit))?;
        Ok(true)
    }

    fn is_linked(&self, unit: &str) -> bool {
        let link = self.folder.join(WANTS).join(unit);
        fs_err::read_link(link).is_ok_and(|target| target == self.folder.join(unit))
    }

    /// Makes systemd start a unit when the computer starts; whether that changed anything.
    fn link(&self, unit: &str) -> Result<bool, DriverError> {
        if self.is_linked(unit) {
            return Ok(false);
        }
        let wants = self.folder.join(WANTS);
        fs_err::create_dir_all(&wants)?;
        match fs_err::os::unix::fs::symlink(self.folder.join(unit), wants.join(unit)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(DriverError::NotOurs {
                what: "the link",
                name: wants.join(unit).display().to_string(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Undoes [`Self::link`]. A link that leads elsewhere is somebody else's.
    fn unlink(&self, unit: &str) -> Result<bool, DriverError> {
        if !self.is_linked(unit) {
            return Ok(false);
        }
        fs_err::remove_file(self.folder.join(WANTS).join(unit))?;
        Ok(true)
    }
}

/// Has systemd read its unit files again.
fn reload_if(has_changed: bool) -> Result<(), DriverError> {
    if has_changed && quirks()?.init == Init::Systemd {
        exec::run("systemctl", &["daemon-reload"])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mullion_plan::ClusterUid;
    use mullion_spec::words::MachineAccess;

    use super::super::unit::tests::{label, network};
    use super::*;

    /// Unit files in a folder of a test, and what is there of them.
    struct Bench {
        folder: tempfile::TempDir,
        units: Units,
    }

    impl Bench {
        fn new() -> Self {
            exec::play::by(|_, _| Ok(String::new()));
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join("program");
            fs_err::write(&program, "one").unwrap();
            let units = Units {
                folder: folder.path().join("units"),
                place: folder.path().join("place"),
                program: Some(program),
            };
            Self { folder, units }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.units.folder.join(name)
        }

        fn put(&self, machine: &str, autostart: bool) -> Result<(), DriverError> {
            let (label, wish) = (label(), network());
            let machine = machine.parse().unwrap();
            let network = autostart.then_some(&wish);
            self.units
                .put((&label).into(), &machine, "[Service]\n", network)
        }

        fn remove(&self, machine: &str) {
            let label = label();
            let machine = machine.parse().unwrap();
            self.units.remove((&label).into(), &machine).unwrap();
        }

        fn starts(&self, machine: &str) -> bool {
            let machine = machine.parse().unwrap();
            self.units.is_autostarted(&label().cluster, &machine)
        }

        /// Everything in the folder of units, links included.
        fn all(&self) -> Vec<String> {
            let mut found = Vec::new();
            for folder in [self.units.folder.clone(), self.at(WANTS)] {
                for entry in fs_err::read_dir(folder).into_iter().flatten() {
                    found.push(entry.unwrap().file_name().into_string().unwrap());
                }
            }
            found.retain(|name| name != WANTS);
            found.sort();
            found
        }
    }

    const LIN1: &str = "mullion-dev.lin1.service";
    const LIN2: &str = "mullion-dev.lin2.service";
    const NETWORK: &str = "mullion-dev-network.service";

    #[test]
    fn machines_start_with_the_computer_by_links_and_the_last_takes_the_network_along() {
        let bench = Bench::new();
        for _ in 0..2 {
            bench.put("lin1", true).unwrap();
            bench.put("lin2", false).unwrap();
            assert_eq!(bench.all(), [NETWORK, NETWORK, LIN1, LIN1, LIN2]);
            assert!(bench.starts("lin1") && !bench.starts("lin2"));
        }
        let copy = bench.units.copy();
        assert_eq!(fs_err::read_to_string(&copy).unwrap(), "one");
        // A newer program replaces the copy, and a network that changed is restored as it is now.
        let program = bench.folder.path().join("program");
        fs_err::write(&program, "another").unwrap();
        let wish = NetworkWish {
            access: MachineAccess::Lan,
            ..network()
        };
        bench.units.refresh_network(&wish).unwrap();
        assert_eq!(fs_err::read_to_string(&copy).unwrap(), "another");
        let text = fs_err::read_to_string(bench.at(NETWORK)).unwrap();
        assert!(text.contains("\"lan\""), "{text}");
        bench.put("lin1", false).unwrap();
        assert_eq!(bench.all(), [LIN1, LIN2]);
        assert!(!copy.exists() && !bench.units.place.join(BOOT).exists());
        bench.put("lin2", true).unwrap();
        bench.remove("lin1");
        assert!(bench.starts("lin2"));
        for _ in 0..2 {
            bench.remove("lin2");
            assert!(bench.all().is_empty(), "{:?}", bench.all());
        }
        assert!(!copy.exists());
    }

    #[test]
    fn promise_06_unit_files_of_others_are_neither_overwritten_nor_removed() {
        let other = |id| Identity {
            id: ClusterUid::of(id),
            owner: 0,
        };
        let place = |place: &str| format!("Place=\"{place}\"");
        let bench = Bench::new();
        let own = bench.units.place_line();
        let theirs = [
            "[Service]\nExecStart=/bin/true\n".to_owned(),
            format!("[X-Mullion]\nCluster=other\n{own}\n"),
            format!("[X-Mullion]\nCluster=dev\n{}\n", place("/elsewhere")),
            format!("[X-Mullion]\nCluster=dev\nId={}\n{own}\n", other(8).id),
            format!("[Service]\nCluster=dev\n{own}\n"),
        ];
        for text in &theirs {
            for unit in [LIN1, NETWORK] {
                let bench = Bench {
                    folder: tempfile::tempdir().unwrap(),
                    units: bench.units.clone(),
                };
                let _ = fs_err::remove_dir_all(&bench.units.folder);
                fs_err::create_dir_all(&bench.units.folder).unwrap();
                fs_err::write(bench.at(unit), text).unwrap();
                let refused = bench.put("lin1", true).unwrap_err();
                assert!(matches!(refused, DriverError::NotOurs { .. }), "{text}");
                assert!(refused.hint().unwrap().contains(unit), "{text}");
                assert!(!bench.starts("lin1"));
                bench.remove("lin1");
                let label = label();
                bench.units.remove_all((&label).into()).unwrap();
                assert_eq!(fs_err::read_to_string(bench.at(unit)).unwrap(), *text);
            }
        }
        let machine = "lin1".parse().unwrap();
        let _ = fs_err::remove_dir_all(&bench.units.folder);
        fs_err::create_dir_all(&bench.units.folder).unwrap();
        // A mask, a folder and a link are somebody's too.
        fs_err::os::unix::fs::symlink("/dev/null", bench.at(LIN1)).unwrap();
        assert!(bench.units.check((&label()).into(), &machine).is_err());
        bench.remove("lin1");
        fs_err::remove_file(bench.at(LIN1)).unwrap();
        fs_err::create_dir(bench.at(LIN1)).unwrap();
        assert!(bench.put("lin1", false).is_err());
        bench.remove("lin1");
        assert!(bench.at(LIN1).is_dir());
        fs_err::remove_dir(bench.at(LIN1)).unwrap();
        fs_err::create_dir_all(bench.at(WANTS)).unwrap();
        let link = bench.at(WANTS).join(LIN1);
        fs_err::os::unix::fs::symlink("/elsewhere", &link).unwrap();
        assert!(bench.put("lin1", true).is_err());
        bench.remove("lin1");
        assert!(fs_err::symlink_metadata(&link).is_ok());
    }

    #[test]
    fn what_a_killed_run_left_is_finished_or_removed() {
        let label = label();
        let bench = Bench::new();
        // Killed before the link, then before the network's unit.
        bench.put("lin1", true).unwrap();
        fs_err::remove_file(bench.at(WANTS).join(LIN1)).unwrap();
        assert!(!bench.starts("lin1"));
        fs_err::write(bench.at(&format!(".{LIN1}.mullion-draft")), "[Ser").unwrap();
        bench.put("lin1", true).unwrap();
        fs_err::remove_file(bench.at(NETWORK)).unwrap();
        assert!(!bench.starts("lin1"));
        bench.put("lin1", true).unwrap();
        assert!(bench.starts("lin1"));
        // Killed between the file and the link, and with the machine's folder gone.
        bench.put("lin2", true).unwrap();
        fs_err::remove_file(bench.at(LIN2)).unwrap();
        bench.remove("lin2");
        assert!(bench.units.has_any(&label.cluster).unwrap());
        bench.units.remove_all((&label).into()).unwrap();
        assert!(!bench.units.has_any(&label.cluster).unwrap());
        assert!(bench.all().is_empty(), "{:?}", bench.all());
    }
}
