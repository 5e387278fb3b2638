//! Machines as system containers on this computer: systemd-nspawn.
//!
//! ```text
//! <place>/clusters/<cluster>/machines/<machine>/
//!   machine.json                      the label: whose it is, from which template, whether it is whole
//!   console.log
//!   disk/                             for root alone: programs in it may have any owner and any rights
//!     upper/ work/ root/              an overlay over the template's root, mounted while the machine runs
//!     containerd/ kubelet/ etcd/      on the real disk; containerd's begins as the template's files, shared
//! bridge mul<digits>             alias mullion.dev/cluster=<cluster>; the cluster's first address; its table in nft
//! ```
//!
//! Of a stand-in for Windows only the template and the user who logs in are others. Each driver sees its machines alone.
//!
//! A machine is its folder; whether it runs is told by this computer's processes. Making is work on files
//! alone; starting mounts, and ending takes every mount away with the machine's name spaces.

mod autostart;
mod boot;
mod cgroup;
mod erase;
mod exec;
mod firewall;
#[doc(hidden)]
pub mod fuzz;
mod isolation;
mod kernel;
mod keys;
mod links;
mod mounts;
mod names;
mod network;
mod place;
mod process;
mod profile;
mod quota;
mod record;
mod seed;
mod share;
mod unit;
mod units;
mod whose;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mullion_plan::{Attend, Identity, News, Power, Trouble};
use mullion_spec::value::{ClusterName, MachineName};
use mullion_wire::Patience;

pub use self::autostart::restore_network;
use self::boot::Pace;
pub use self::network::{Networks, networks};
use self::place::{Ground, Guise, Home, Label, LabelVersion, Marked};
use self::process::{Body, Running, Scan};
pub use self::quota::{DiskLimit, disk_limit};
use self::units::Units;
use self::whose::{difference, used_elsewhere};
use crate::driver::{Capabilities, Driver, Look, Privilege, Stop};
use crate::error::DriverError;
use crate::found::{Door, Found, Sighting};
use crate::quirks::cgroup_mounts;
use crate::wish::{Hosts, MachineWish, NetworkWish, gateway};

/// The driver of system containers on this computer.
#[derive(Debug, Clone)]
pub struct Nspawn {
    place: PathBuf,
    ground: Ground,
    guise: Guise,
    units: Units,
    /// Copies share it.
    patience: Arc<Mutex<Patience>>,
}

/// Whether anything of a cluster was made below that folder. Anybody may ask: it is not root's to know.
pub fn has_machines(place: &Path, cluster: &ClusterName) -> bool {
    let _rights = mullion_rights::as_root();
    // A link that leads nowhere is something.
    fs_err::symlink_metadata(Ground::new(place).cluster(cluster)).is_ok()
}

/// The kind of file system that an overlay is, as the kernel numbers it.
const OVERLAY: i64 = 0x794c_7630;

impl Nspawn {
    /// Machines below that folder, which need not be there yet.
    ///
    /// The folder is where the machines' files are, and nothing of them is anywhere else: it is on a local
    /// disk, best the one that the templates are on.
    pub fn new(place: impl Into<PathBuf>) -> Self {
        Self::with_guise(&place.into(), Guise::Linux)
    }

    /// Stand-ins for Windows below that folder, which may be the same one.
    pub fn stand_ins(place: impl Into<PathBuf>) -> Self {
        Self::with_guise(&place.into(), Guise::Windows)
    }

    fn with_guise(place: &Path, guise: Guise) -> Self {
        let place = settled(place);
        Self {
            ground: Ground::new(&place),
            units: Units::here(&place),
            patience: Arc::default(),
            place,
            guise,
        }
    }

    /// The same, with the program whose copy restores networks when the computer starts. Without one no machine starts
    /// with the computer.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        self.units = self.units.with_program(program);
        self
    }

    /// How a start is waited for.
    fn pace(&self) -> Pace {
        Pace::of(*self.patience.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the folder of a machine is marked with, for this driver: a machine of the other one is absent.
    ///
    /// What cannot be told both find, and neither touches.
    fn marked(&self, home: &Home, cluster: &ClusterName, machine: &MachineName) -> Marked {
        match home.label(cluster, machine) {
            Marked::Ours(label) if label.guise != self.guise => Marked::Absent,
            marked => marked,
        }
    }

    /// A machine that is there and whole.
    fn whole(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
    ) -> Result<(Home, Label), DriverError> {
        let home = self.ground.home(cluster, machine);
        match self.marked(&home, cluster, machine) {
            Marked::Ours(label) if label.whole => Ok((home, *label)),
            Marked::Ours(_) | Marked::Bare => Err(DriverError::NotWhole {
                cluster: cluster.clone(),
                machine: machine.clone(),
            }),
            Marked::Absent => Err(DriverError::NoMachine {
                cluster: cluster.clone(),
                machine: machine.clone(),
            }),
            Marked::LeftAlone(trouble) => Err(left_alone(machine, trouble)),
        }
    }

    /// What is seen of one machine; nothing where it is the other driver's.
    fn sight(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        scan: &Scan,
    ) -> Result<Option<Sighting>, DriverError> {
        let home = self.ground.home(cluster, machine);
        let body = Body::new(&home, cluster, machine)?;
        let (label, mut trouble) = match self.marked(&home, cluster, machine) {
            Marked::Absent => return Ok(None),
            Marked::Ours(label) => (Some(label), None),
            Marked::LeftAlone(trouble) => (None, Some(trouble)),
            // Nobody knows whose it was to be: the Linux driver tells of it.
            Marked::Bare if self.guise != Guise::Linux => return Ok(None),
            Marked::Bare => (None, None),
        };
        trouble = trouble.or_else(|| used_elsewhere(&body));
        let power = if body.is_alive(scan) {
            Power::On
        } else if label.as_ref().is_some_and(|label| label.ran) {
            Power::Off
        } else {
            Power::New
        };
        let autostart = match &label {
            Some(label) => self.is_autostarted(label, power)?,
            None => None,
        };
        Ok(Some(Sighting {
            ours: trouble.is_none(),
            made: true,
            whole: label.as_ref().is_some_and(|label| label.whole),
            power,
            size: label.as_ref().map(|label| label.size),
            template: label.as_ref().map(|label| label.template.clone()),
            template_path: label.as_ref().map(|label| label.template_path.clone()),
            address: label.as_ref().map(|label| label.address.into()),
            identity: label.and_then(|label| label.identity),
            autostart,
            trouble,
        }))
    }

    /// Why a cluster's network must be left as it is: machines use it that have no folder here, or a folder may be a
    /// machine's.
    fn network_trouble(
        &self,
        seen: &network::Seen,
        machines: &[MachineName],
        cluster: &ClusterName,
    ) -> Result<Option<Trouble>, DriverError> {
        if let Some(trouble) = self.ground.strange_machine(cluster)? {
            return Ok(Some(trouble));
        }
        if let Err(trouble) = &seen.identity {
            return Ok(Some(trouble.clone()));
        }
        let own: Vec<_> = machines
            .iter()
            .map(|machine| names::cable(cluster, machine))
            .collect();
        for cable in seen.cables.iter().filter(|cable| !own.contains(cable)) {
            let group = cgroup::Group::named(&cgroup_mounts()?, names::container_of(cable));
            if group.is_populated() {
                return Ok(Some(Trouble::UsedElsewhere {
                    by: format!(
                        "a running machine that has no folder in `{}` (its interface is `{cable}`)",
                        self.place.display()
                    ),
                }));
            }
        }
        Ok(None)
    }

    /// Whether machines can be carried here, before anything is made.
    fn check_place(&self, template: &Path) -> Result<(), DriverError> {
        if !rustix::process::geteuid().is_root() {
            return Err(DriverError::NeedsRoot);
        }
        fs_err::create_dir_all(&self.place)?;
        let refuse = |why: String| {
            Err(DriverError::BadPlace {
                folder: self.place.clone(),
                why,
            })
        };
        let kind = rustix::fs::statfs(&self.place).map_err(std::io::Error::from)?;
        if kind.f_type == OVERLAY {
            return refuse("it is on an overlay itself, and overlays cannot be stacked".into());
        }
        for path in [&self.place, template] {
            let text = path.to_string_lossy();
            if let Some(odd) = text.chars().find(|letter| ",:\\\"".contains(*letter)) {
                return refuse(format!(
                    "mounts cannot name a path with `{odd}`, as in `{text}`"
                ));
            }
        }
        Ok(())
    }
}

fn left_alone(machine: &MachineName, trouble: Trouble) -> DriverError {
    DriverError::LeftAlone {
        machine: Some(machine.clone()),
        trouble,
    }
}

/// A machine's files as they are now.
fn inside(home: &Home, label: &Label) -> Result<seed::Inside, DriverError> {
    let body = Body::new(home, &label.cluster, &label.name)?;
    if let Some(trouble) = used_elsewhere(&body) {
        return Err(left_alone(&label.name, trouble));
    }
    Ok(match body.open_root()? {
        Some(root) => seed::Inside::Running(root),
        None => seed::Inside::Stopped {
            upper: home.upper(),
            lower: label.template_path.join("root"),
        },
    })
}

/// Makes a machine in its folder.
fn build(
    home: &Home,
    label: &mut Label,
    wish: &MachineWish,
    attendant: &dyn Attend,
) -> Result<(), DriverError> {
    fs_err::create_dir_all(&home.folder)?;
    // The label first: whatever is cut off from here on is found, and known as not whole.
    home.put_label(label)?;
    home.make_disk()?;
    share::share(
        &wish.template_path.join("containerd"),
        &home.on_disk("containerd"),
    )?;
    let name = names::container(&label.cluster, &label.name);
    if let Some(why) = quota::hold(&home.disk(), &name, label.size.disk)? {
        attendant.hear(News::Unlimited { what: "disk", why });
    }
    let (private, public) = host_key(&wish.name)?;
    seed::seed(home, wish, (&private, &public))?;
    label.host_key = Some(public);
    label.whole = true;
    home.put_label(label)
}

/// The one name of a folder, whatever links lead to it: machines that run are known by it.
///
/// What is not there yet is taken as it is written.
fn settled(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = path.ancestors().find_map(|above| {
        let real = fs_err::canonicalize(above).ok()?;
        let rest = path.strip_prefix(above).ok()?;
        // Joining an empty rest would end the path with a slash.
        Some(if rest.as_os_str().is_empty() {
            real
        } else {
            real.join(rest)
        })
    });
    known.unwrap_or(path)
}

/// A new host key: private, public.
fn host_key(machine: &MachineName) -> Result<(String, String), DriverError> {
    let pair = mullion_ssh::generate_key().map_err(|cause| DriverError::Key {
        machine: machine.clone(),
        cause,
    })?;
    Ok((pair.private.reveal().to_owned(), pair.public))
}

impl Look for Nspawn {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            makes_machines: true,
            networks: true,
            power: true,
            console: true,
            authorizes: true,
            sizes: true,
            privilege: Privilege::Root,
        }
    }

    fn find(&self, cluster: &ClusterName) -> Result<Found, DriverError> {
        let seen = network::look(cluster)?;
        let machines = self.ground.machines_of(cluster)?;
        // In whatever network namespace: their control groups would have the names of ours. They come before the cables,
        // which do not tell whether a folder was removed or is elsewhere.
        let stray = match &seen.identity {
            Ok(_) => process::stray(cluster, self.ground.clusters_folder())?,
            Err(_) => None,
        };
        let trouble = match stray {
            Some(trouble) => Some(trouble),
            None => self.network_trouble(&seen, &machines, cluster)?,
        };
        let mut found = Found {
            network: seen.network,
            network_lacks: seen.lacks,
            network_access: seen.access,
            network_identity: seen.identity.ok().flatten(),
            network_trouble: trouble,
            foreign: seen.foreign.into_iter().collect(),
            ground: profile::ground(),
            ..Found::default()
        };
        self.look_for_units(cluster, &mut found)?;
        found.clusters.extend(seen.clusters);
        found.clusters.extend(self.ground.clusters()?);
        found
            .strange_clusters
            .extend(self.ground.strange_clusters()?);
        let scan = Scan::now()?;
        for machine in machines {
            if let Some(sighting) = self.sight(cluster, &machine, &scan)? {
                found.machines.insert(machine, sighting);
            }
        }
        Ok(found)
    }

    fn door(&self, cluster: &ClusterName, machine: &MachineName) -> Result<Door, DriverError> {
        let (_, label) = self.whole(cluster, machine)?;
        Ok(Door {
            address: label.address.to_string(),
            port: 22,
            user: label.guise.user().into(),
            host_key: label.host_key,
        })
    }

    fn console_tail(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        lines: usize,
    ) -> Result<Vec<String>, DriverError> {
        let home = self.ground.home(cluster, machine);
        match self.marked(&home, cluster, machine) {
            Marked::Absent => {
                return Err(DriverError::NoMachine {
                    cluster: cluster.clone(),
                    machine: machine.clone(),
                });
            }
            // A console that is not there would be told as one that nothing was written to.
            Marked::LeftAlone(trouble) => return Err(left_alone(machine, trouble)),
            Marked::Bare | Marked::Ours(_) => {}
        }
        boot::tail(&home.console(), lines)
    }
}

impl Driver for Nspawn {
    fn make_network(&self, wish: &NetworkWish, _attendant: &dyn Attend) -> Result<(), DriverError> {
        if !rustix::process::geteuid().is_root() {
            return Err(DriverError::NeedsRoot);
        }
        network::make(wish)?;
        self.refresh_units(wish)
    }

    fn remove_network(
        &self,
        cluster: &ClusterName,
        _attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        if !self.ground.machines_of(cluster)?.is_empty() {
            return Err(DriverError::NetworkInUse(cluster.clone()));
        }
        if let Some(trouble) = self.network_trouble(&network::look(cluster)?, &[], cluster)? {
            return Err(DriverError::LeftAlone {
                machine: None,
                trouble,
            });
        }
        self.forget_units(cluster)?;
        network::remove(cluster)?;
        self.ground.tidy(cluster);
        Ok(())
    }

    fn make(&self, wish: &MachineWish, attendant: &dyn Attend) -> Result<(), DriverError> {
        self.guise.makes(wish.os)?;
        let network = wish.network.trunc();
        let own = gateway(&network).ok_or(DriverError::TooSmall(network))?;
        let is_good = network.contains(&wish.address)
            && ![own, network.network(), network.broadcast()].contains(&wish.address);
        if !is_good {
            return Err(DriverError::BadAddress {
                address: wish.address,
                network,
            });
        }
        self.check_place(&wish.template_path)?;
        self.units.check(wish.into(), &wish.name)?;
        let home = self.ground.home(&wish.cluster, &wish.name);
        match home.label(&wish.cluster, &wish.name) {
            Marked::Absent | Marked::Bare => {}
            Marked::LeftAlone(trouble) => return Err(left_alone(&wish.name, trouble)),
            Marked::Ours(there) => match difference(&there, wish, self.guise) {
                None if there.whole => return Ok(()),
                // What was never finished is made again, unless it is somebody else's.
                Some(what) if there.whole || ["cluster", "driver"].contains(&what) => {
                    return Err(DriverError::Different {
                        cluster: wish.cluster.clone(),
                        machine: wish.name.clone(),
                        what,
                    });
                }
                _ => {}
            },
        }
        if network::look(&wish.cluster)?.network != Some(network) {
            return Err(DriverError::NoNetwork(wish.cluster.clone()));
        }
        if !wish.template_path.join("template.json").is_file() {
            return Err(DriverError::NoTemplate(wish.template_path.clone()));
        }
        if attendant.is_called_off() {
            return Err(DriverError::CalledOff);
        }
        self.remove(&wish.cluster, &wish.name, attendant)?;
        let mut label = Label {
            version: LabelVersion::V1,
            cluster: wish.cluster.clone(),
            name: wish.name.clone(),
            guise: self.guise,
            template: wish.template.clone(),
            template_path: wish.template_path.clone(),
            address: wish.address,
            network,
            size: wish.size,
            whole: false,
            ran: false,
            host_key: None,
            identity: wish.identity.clone(),
            autostart: Some(wish.autostart),
        };
        build(&home, &mut label, wish, attendant)
    }

    fn be_patient(&self, patience: Patience) {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience;
    }

    fn start(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let (home, mut label) = self.whole(cluster, machine)?;
        let body = Body::new(&home, cluster, machine)?;
        if Running::find(&body)?.is_some() {
            return if body.is_led() {
                Ok(())
            } else {
                boot::resume(&home, &label, &body, &self.pace(), attendant)
            };
        }
        if network::look(cluster)?.network != Some(label.network) {
            return Err(DriverError::NoNetwork(cluster.clone()));
        }
        if !label.template_path.join("root").is_dir() {
            return Err(DriverError::NoTemplate(label.template_path));
        }
        if attendant.is_called_off() {
            return Err(DriverError::CalledOff);
        }
        // What an unclean end left.
        boot::end(&home, (cluster, machine), Stop::AtOnce, attendant)?;
        if !label.ran {
            // Before it runs: from here on it may hold more than its template.
            label.ran = true;
            home.put_label(&label)?;
        }
        attendant.hear(News::Line(format!("booting {machine}")));
        let network = self.restored(&label)?;
        let units = (&self.units, network.as_ref());
        boot::start(&home, &label, units, &self.pace(), attendant)
    }

    fn claim(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        identity: &Identity,
    ) -> Result<(), DriverError> {
        self.put_identity(cluster, machine, identity)
    }

    fn set_autostart(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        autostart: bool,
    ) -> Result<(), DriverError> {
        self.put_autostart(cluster, machine, autostart)
    }

    fn stop(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        how: Stop,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let (home, _) = self.whole(cluster, machine)?;
        boot::end(&home, (cluster, machine), how, attendant)
    }

    fn remove(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        attendant: &dyn Attend,
    ) -> Result<(), DriverError> {
        let home = self.ground.home(cluster, machine);
        let label = match self.marked(&home, cluster, machine) {
            Marked::Absent => return Ok(()),
            Marked::LeftAlone(trouble) => return Err(left_alone(machine, trouble)),
            Marked::Bare => None,
            Marked::Ours(label) => Some(label),
        };
        // Before the machine is ended: what cannot be removed wholly stays as it is.
        home.has_no_mounts()?;
        boot::end(&home, (cluster, machine), Stop::AtOnce, attendant)?;
        self.forget_unit(cluster, machine, label.as_deref())?;
        if let Some(mut label) = label.filter(|label| label.whole) {
            // From here on it is not one any more, whatever happens.
            label.whole = false;
            home.put_label(&label)?;
        }
        if let Err(error) = quota::release(&home.disk()) {
            // A limit of a project that no file has any more limits nothing: the machine goes all the same.
            attendant.hear(News::Line(format!(
                "the limit of the disk of {machine} stays: {error}"
            )));
        }
        home.remove()?;
        self.ground.tidy(cluster);
        Ok(())
    }

    fn authorize(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        public_key: &str,
    ) -> Result<(), DriverError> {
        let (home, label) = self.whole(cluster, machine)?;
        let inside = inside(&home, &label)?;
        let found = inside.read(seed::KEYS)?;
        let keys = keys::authorized(&found, public_key);
        if found == keys {
            return Ok(());
        }
        inside.write(seed::KEYS, &keys, 0o600)
    }

    fn set_hosts(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        hosts: &Hosts,
    ) -> Result<(), DriverError> {
        let (home, label) = self.whole(cluster, machine)?;
        inside(&home, &label)?.set_hosts(hosts)
    }

    fn set_dns(
        &self,
        cluster: &ClusterName,
        machine: &MachineName,
        servers: &[IpAddr],
    ) -> Result<(), DriverError> {
        let (home, label) = self.whole(cluster, machine)?;
        inside(&home, &label)?.set_dns(servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_name_whatever_links_lead_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let real = fs_err::canonicalize(folder.path()).unwrap();
        fs_err::os::unix::fs::symlink(&real, real.join("link")).unwrap();
        assert_eq!(settled(&real.join("link")), real);
        assert_eq!(settled(&real.join("link/a/b")), real.join("a/b"));
    }

    #[test]
    fn promise_06_the_console_of_a_machine_whose_label_is_damaged_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let driver = Nspawn::new(place.path());
        let (cluster, machine) = ("dev".parse().unwrap(), "cp1".parse().unwrap());
        let folder = place.path().join("clusters/dev/machines/cp1");
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("machine.json"), "{").unwrap();
        let refused = driver.console_tail(&cluster, &machine, 3).unwrap_err();
        assert!(refused.to_string().contains("machine.json"), "{refused}");
    }

    #[test]
    fn a_start_is_waited_for_as_patiently_as_the_run_is() {
        let machines = Nspawn::new("/no/such");
        let limit = || machines.pace().limit.as_secs();
        assert_eq!(limit(), 60);
        let driver = crate::as_root::AsRoot(machines.clone());
        driver.be_patient(Patience::of_hundredths(300));
        assert_eq!(limit(), 180);
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let folder = tempfile::tempdir().unwrap();
        let driver = Nspawn::new(folder.path().join("none"));
        let (cluster, machine) = ("none".parse().unwrap(), "cp1".parse().unwrap());
        assert!(matches!(
            driver.door(&cluster, &machine),
            Err(DriverError::NoMachine { .. })
        ));
        assert!(matches!(
            driver.console_tail(&cluster, &machine, 3),
            Err(DriverError::NoMachine { .. })
        ));
        assert!(
            !folder.path().join("none").exists(),
            "looking makes nothing"
        );
    }
}
