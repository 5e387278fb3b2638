//! What makes a clone of a template one machine: name, keys, address, names of others.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::keys::first_keys;
use super::place::Home;
use crate::error::DriverError;
use crate::wish::{Hosts, MachineWish, gateway};

/// Where a machine has the keys that root may log in with.
pub(super) const KEYS: &str = "root/.ssh/authorized_keys";

/// Where a machine has the names of others.
const HOSTS: &str = "etc/hosts";

/// The file of servers that a machine asks for names, below its root.
const RESOLVER: &str = "etc/resolv.conf";

/// Its first line as long as it is ours; only servers follow.
const OURS: &str = "# Laid down by Mullion.\n";

/// The machine's adapter.
const ADAPTER: &str = "host0";

/// Opens the control groups and shares mounts, before anything that runs containers; nothing else waits for it. On
/// a computer with the older control groups they are read-only inside; on others there is nothing to open.
const CGROUPS: &str = "\
[Unit]
Description=Control groups and mounts as container runtimes need them
DefaultDependencies=no
Before=containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'while read -r _ group kind _; do case $kind in cgroup|cgroup2) mount -o remount,rw,bind $group;; esac; done < /proc/self/mounts; mount --make-rshared /'
";

/// Gives the machine its address, in one go and before anybody asks for it.
const NETWORK: &str = "\
[Unit]
Description=The machine's address
DefaultDependencies=no
Wants=network.target
Before=network-pre.target network.target sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/ip -batch /etc/mullion/network
";

/// Lays everything of one machine over its template. The machine does not run, and nothing is mounted.
///
/// The host key is (private, public).
pub(super) fn seed(
    home: &Home,
    wish: &MachineWish,
    host_key: (&str, &str),
) -> Result<(), DriverError> {
    let upper = Layer {
        upper: home.upper(),
        lower: wish.template_path.join("root"),
    };
    let gateway = gateway(&wish.network).ok_or(DriverError::TooSmall(wish.network))?;
    let id = fs_err::read_to_string("/proc/sys/kernel/random/uuid")?.replace('-', "");
    upper.put("etc/hostname", &format!("{}\n", wish.name), 0o644)?;
    upper.put("etc/machine-id", &id, 0o444)?;
    upper.put(HOSTS, &wish.hosts.file(), 0o644)?;
    upper.put(RESOLVER, &resolver(&wish.dns)?, 0o644)?;
    upper.put("etc/ssh/ssh_host_ed25519_key", host_key.0, 0o600)?;
    upper.put(
        "etc/ssh/ssh_host_ed25519_key.pub",
        &format!("{}\n", host_key.1.trim_end()),
        0o644,
    )?;
    upper.set_mode("root/.ssh", 0o700)?;
    upper.put(KEYS, &first_keys(&wish.authorized_keys), 0o600)?;
    // The address first: whoever sees the link come up may ask for it.
    let network = format!(
        "address replace {}/{} dev {ADAPTER}\nlink set {ADAPTER} up\nroute replace default via {gateway}\n",
        wish.address,
        wish.network.prefix_len(),
    );
    upper.put("etc/mullion/network", &network, 0o644)?;
    for (unit, text) in [
        ("mullion-network.service", NETWORK),
        ("mullion-cgroups.service", CGROUPS),
    ] {
        upper.put(&format!("etc/systemd/system/{unit}"), text, 0o644)?;
        upper.link(
            &format!("etc/systemd/system/sysinit.target.wants/{unit}"),
            &format!("../{unit}"),
        )?;
    }
    Ok(())
}

/// A machine's resolver: the servers that were given, or this computer's.
///
/// A server on this computer's own loopback cannot be reached from a machine: where systemd's is one, the
/// servers behind it are taken.
fn resolver(servers: &[IpAddr]) -> Result<String, DriverError> {
    let servers = if servers.is_empty() {
        own_servers()?
    } else {
        servers.to_vec()
    };
    let mut text = OURS.to_owned();
    for server in servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    Ok(text)
}

/// Whether a machine has a server to ask for names where the file gives none.
pub(super) fn has_resolver() -> Result<bool, DriverError> {
    Ok(!own_servers()?.is_empty())
}

/// The servers of this computer that a machine can reach.
fn own_servers() -> Result<Vec<IpAddr>, DriverError> {
    let mut servers = Vec::new();
    for file in ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"] {
        if servers.is_empty() {
            match fs_err::read_to_string(file) {
                Ok(text) => servers = nameservers(&text),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(servers)
}

/// What a machine's resolver becomes, where it does not stay. Without a server it stays: a computer that has none just
/// now has some later.
fn resolver_after(found: &str, wanted: &str) -> Option<String> {
    (is_ours(found) && wanted != OURS && found != wanted).then(|| wanted.to_owned())
}

/// Whether a resolver's file is as we write it. A line of any other kind is the owner's, and with it the file.
fn is_ours(found: &str) -> bool {
    let is_server = |line: &str| {
        let server = line.strip_prefix("nameserver ");
        server.is_some_and(|server| server.parse::<IpAddr>().is_ok())
    };
    found
        .strip_prefix(OURS)
        .is_some_and(|servers| servers.lines().all(is_server))
}

/// The servers of a resolver's file that a machine can reach.
fn nameservers(text: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|server| server.trim().parse().ok())
        .filter(|server: &IpAddr| !server.is_loopback())
        .collect()
}

/// A machine's own files, over those of its template. Links in it lead nowhere outside it.
struct Layer {
    upper: PathBuf,
    lower: PathBuf,
}

impl Layer {
    /// Opens a folder, made where it is not there as the template has it: owner and mode replace the template's.
    fn folder(&self, path: &Path) -> std::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = rustix::fs::open(&self.upper, flags | OFlags::CLOEXEC, Mode::empty())?;
        let mut folder = root.try_clone()?;
        let mut path_so_far = PathBuf::new();
        for part in path.components() {
            path_so_far.push(part);
            let made = rustix::fs::mkdirat(&folder, part.as_os_str(), Mode::from_raw_mode(0o755));
            let is_new = match made {
                Err(Errno::EXIST) => false,
                other => other.map(|()| true)?,
            };
            folder = open_below(&root, &path_so_far, flags)?;
            if is_new && let Ok(meta) = fs_err::symlink_metadata(self.lower.join(&path_so_far)) {
                std::os::unix::fs::fchown(&folder, Some(meta.uid()), Some(meta.gid()))?;
                rustix::fs::fchmod(&folder, Mode::from_raw_mode(meta.mode() & 0o7777))?;
            }
        }
        Ok(folder)
    }

    /// Opens the folder above a file, takes away what is there under its name, and lays something else there.
    fn replace<T>(
        &self,
        path: &str,
        lay: impl FnOnce(&OwnedFd, &OsStr) -> std::io::Result<T>,
    ) -> Result<T, DriverError> {
        let replaced = || {
            let path = Path::new(path);
            let folder = self.folder(path.parent().unwrap_or(Path::new("")))?;
            let name = path.file_name().unwrap_or_default();
            match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
                Err(Errno::NOENT) => {}
                other => other?,
            }
            lay(&folder, name)
        };
        Ok(replaced().map_err(|cause| named(path, &cause))?)
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<(), DriverError> {
        let set = || {
            let folder = self.folder(Path::new(path))?;
            Ok(rustix::fs::fchmod(folder, Mode::from_raw_mode(mode))?)
        };
        Ok(set().map_err(|cause: std::io::Error| named(path, &cause))?)
    }

    fn put(&self, path: &str, text: &str, mode: u32) -> Result<(), DriverError> {
        self.replace(path, |folder, name| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
            // Before anything is in it: a key must never be readable, not even for a moment.
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
            std::fs::File::from(file).write_all(text.as_bytes())
        })
    }

    fn link(&self, path: &str, target: &str) -> Result<(), DriverError> {
        self.replace(path, |folder, name| {
            Ok(rustix::fs::symlinkat(target, folder, name)?)
        })
    }
}

/// A machine's files as they are now: those of a running one through its first process, those of a stopped one
/// over its template.
pub(super) enum Inside {
    /// Its root folder, as its first process has it, held open.
    Running(OwnedFd),
    /// Its own layer, and the template's root below it.
    Stopped {
        /// The machine's own layer.
        upper: PathBuf,
        /// The template's root file system.
        lower: PathBuf,
    },
}

impl Inside {
    /// A file's text; nothing where it is not there.
    pub(super) fn read(&self, path: &str) -> Result<String, DriverError> {
        let places = match self {
            Self::Running(root) => vec![root.try_clone()],
            Self::Stopped { upper, lower } => vec![folder(upper), folder(lower)],
        };
        for root in places {
            match root.and_then(|root| open(&root, path)) {
                Ok(file) => return Ok(read(file, path)?),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(String::new())
    }

    /// Reads a file that we write; nothing where it is not ours. We write a short text, so anything else is the owner's.
    fn read_ours(&self, path: &str) -> Result<Option<String>, DriverError> {
        match self.read(path) {
            Err(DriverError::File(cause)) if cause.kind() == ErrorKind::InvalidData => Ok(None),
            read => read.map(Some),
        }
    }

    /// Tells the machine the names of others.
    pub(super) fn set_hosts(&self, hosts: &Hosts) -> Result<(), DriverError> {
        let Some(found) = self.read_ours(HOSTS)? else {
            return Ok(());
        };
        let wanted = hosts.within(&found);
        if found == wanted {
            return Ok(());
        }
        self.write(HOSTS, &wanted, 0o644)
    }

    /// Has the machine ask these servers for names, or this computer's where there are none.
    pub(super) fn set_dns(&self, servers: &[IpAddr]) -> Result<(), DriverError> {
        let Some(found) = self.read_ours(RESOLVER)? else {
            return Ok(());
        };
        match resolver_after(&found, &resolver(servers)?) {
            Some(wanted) => self.write(RESOLVER, &wanted, 0o644),
            None => Ok(()),
        }
    }

    /// Writes a file anew.
    pub(super) fn write(&self, path: &str, text: &str, mode: u32) -> Result<(), DriverError> {
        match self {
            Self::Running(root) => Ok(replace(root, Path::new(path), text, mode)?),
            Self::Stopped { upper, lower } => Layer {
                upper: upper.clone(),
                lower: lower.clone(),
            }
            .put(path, text, mode),
        }
    }
}

/// Puts a file in another's place: whoever reads it meanwhile, or after a cut, finds one of the two whole.
fn replace(root: &OwnedFd, path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default();
    let mut fresh = name.to_owned();
    fresh.push(".mullion-new");
    let above = path.parent().unwrap_or(Path::new("."));
    let above = open_below(root, above, OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(|cause| named(&path.to_string_lossy(), &cause))?;
    // Whatever the machine put there, a pipe or a device perhaps, is not written into.
    match rustix::fs::unlinkat(&above, &fresh, AtFlags::empty()) {
        Err(Errno::NOENT) => {}
        other => other?,
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(mode);
    let file = rustix::fs::openat(&above, &fresh, flags | OFlags::CLOEXEC, mode)?;
    rustix::fs::fchmod(&file, mode)?;
    std::fs::File::from(file).write_all(text.as_bytes())?;
    Ok(rustix::fs::renameat(&above, &fresh, &above, name)?)
}

/// Opens a folder by its path.
fn folder(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens a file below a folder, to read it, as if the folder were the root: no link in it leads out. A pipe does not make
/// the caller wait.
fn open(root: &OwnedFd, path: &str) -> std::io::Result<std::fs::File> {
    let file = open_below(root, Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK);
    let file = file.map_err(|cause| match Errno::from_io_error(&cause) {
        // A socket, the mark of a file that was deleted over the template, a link to itself.
        Some(Errno::NXIO | Errno::LOOP) => refused(path, IRREGULAR),
        _ => named(path, &cause),
    });
    Ok(file?.into())
}

/// No file that we read in a machine is longer.
const LONGEST: u64 = 1 << 20;

/// What is wrong with a folder, a pipe or a device.
const IRREGULAR: &str = "is not a regular file";

/// What is there is no text that we read.
fn refused(path: &str, what: &str) -> std::io::Error {
    named(path, &std::io::Error::new(ErrorKind::InvalidData, what))
}

/// The text of a regular file of a machine.
fn read(file: std::fs::File, path: &str) -> std::io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(refused(path, IRREGULAR));
    }
    let mut text = String::new();
    file.take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|cause| named(path, &cause))?;
    if text.len() as u64 > LONGEST {
        return Err(refused(path, "is too long"));
    }
    Ok(text)
}

fn open_below(root: &OwnedFd, path: &Path, flags: OFlags) -> std::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(
        root,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::IN_ROOT,
    )?)
}

/// The same error, with the file that it is about.
fn named(path: &str, cause: &std::io::Error) -> std::io::Error {
    std::io::Error::new(cause.kind(), format!("`/{path}` in the machine: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_resolver_follows_the_file_unless_the_owner_wrote_it() {
        let of = |server: &str| resolver(&[server.parse().unwrap()]).unwrap();
        let (old, new) = (of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(resolver_after(&old, &new), Some(new.clone()));
        assert_eq!(resolver_after(&new, &new), None);
        assert_eq!(resolver_after(&old, OURS), None, "no server is known");
        assert_eq!(resolver_after(OURS, &new), Some(new.clone()));
        assert_eq!(resolver_after("nameserver 192.0.2.1\n", &new), None);
        for line in [
            "search lan",
            "options ndots:2",
            "# mine",
            "",
            "nameserver fe80::1%host0",
        ] {
            let edited = format!("{old}{line}\n");
            assert_eq!(resolver_after(&edited, &new), None, "{line}");
        }
    }

    #[test]
    fn a_resolver_or_a_list_of_names_that_is_no_text_file_is_the_owners() {
        let dns = |inside: &Inside| inside.set_dns(&["192.0.2.1".parse().unwrap()]);
        let text = is_the_owners_unless_text(RESOLVER, dns);
        assert_eq!(text, format!("{OURS}nameserver 192.0.2.1\n"));
        let hosts = Hosts::from_iter([("lin1", [192, 0, 2, 1])]);
        let text = is_the_owners_unless_text(HOSTS, |inside| inside.set_hosts(&hosts));
        assert!(text.contains("192.0.2.1 lin1\n"), "{text}");
    }

    /// Checks that `set` leaves alone what is no text file. Gives what `set` makes of a file that is ours.
    fn is_the_owners_unless_text(
        name: &str,
        set: impl Fn(&Inside) -> Result<(), DriverError>,
    ) -> String {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs_err::create_dir_all(root.join("etc")).unwrap();
        let path = root.join(name);
        let running = Inside::Running(folder_of(&root));
        let stopped = Inside::Stopped {
            upper: root.clone(),
            lower: folder.path().to_owned(),
        };
        let stays = |what: &str| {
            let before = fs_err::symlink_metadata(&path).unwrap().ino();
            for inside in [&running, &stopped] {
                let set = set(inside);
                assert!(set.is_ok(), "{name} {what}: {set:?}");
            }
            let after = fs_err::symlink_metadata(&path).unwrap().ino();
            assert_eq!(before, after, "{name} {what}");
        };
        fs_err::create_dir(&path).unwrap();
        stays("a folder");
        fs_err::remove_dir(&path).unwrap();
        // As the mark of a deleted file, it cannot be opened at all.
        let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        stays("a socket");
        drop(socket);
        fs_err::remove_file(&path).unwrap();
        fs_err::os::unix::fs::symlink(path.file_name().unwrap(), &path).unwrap();
        stays("a link to itself");
        fs_err::remove_file(&path).unwrap();
        fs_err::write(&path, [OURS.as_bytes(), b"\xff\n"].concat()).unwrap();
        stays("no UTF-8");
        let long = "nameserver 192.0.2.9\n".repeat(1 << 16);
        fs_err::write(&path, format!("{OURS}{long}")).unwrap();
        stays("too long");
        // And one that is ours does not stay.
        fs_err::write(&path, OURS).unwrap();
        set(&running).unwrap();
        fs_err::read_to_string(&path).unwrap()
    }

    #[test]
    fn servers_on_the_computers_own_loopback_are_not_given_to_machines() {
        let text =
            "# comment\nnameserver 127.0.0.53\nsearch lan\nnameserver 192.0.2.1\nnameserver ::1\n";
        let expected: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap()];
        assert_eq!(nameservers(text), expected);
    }

    #[test]
    fn folders_over_a_template_look_like_the_templates() {
        let folder = tempfile::tempdir().unwrap();
        let layer = Layer {
            upper: folder.path().join("upper"),
            lower: folder.path().join("lower"),
        };
        fs_err::create_dir_all(layer.lower.join("etc/ssh")).unwrap();
        fs_err::create_dir(&layer.upper).unwrap();
        let mode = std::fs::Permissions::from_mode(0o711);
        fs_err::set_permissions(layer.lower.join("etc/ssh"), mode).unwrap();
        layer.put("etc/ssh/key", "secret", 0o600).unwrap();
        layer.put("etc/ssh/key", "newer", 0o600).unwrap();
        let mode = |path: &str| fs_err::metadata(layer.upper.join(path)).unwrap().mode() & 0o777;
        assert_eq!((mode("etc/ssh"), mode("etc/ssh/key")), (0o711, 0o600));
    }

    #[test]
    fn a_stopped_machines_file_is_its_own_or_else_the_templates() {
        let folder = tempfile::tempdir().unwrap();
        let (upper, lower) = (folder.path().join("upper"), folder.path().join("lower"));
        fs_err::create_dir_all(lower.join("etc")).unwrap();
        fs_err::create_dir_all(&upper).unwrap();
        fs_err::write(lower.join("etc/hosts"), "template").unwrap();
        let inside = Inside::Stopped {
            upper,
            lower: lower.clone(),
        };
        assert_eq!(inside.read("etc/hosts").unwrap(), "template");
        inside.write("etc/hosts", "own", 0o644).unwrap();
        assert_eq!(inside.read("etc/hosts").unwrap(), "own");
        assert_eq!(inside.read("etc/none").unwrap(), "");
        assert_eq!(
            fs_err::read_to_string(lower.join("etc/hosts")).unwrap(),
            "template"
        );
    }

    fn folder_of(root: &Path) -> OwnedFd {
        super::folder(root).unwrap()
    }

    #[test]
    fn promise_07_a_pipe_in_a_machine_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs_err::create_dir_all(root.join("etc")).unwrap();
        for name in ["hosts", "hosts.mullion-new"] {
            let made = std::process::Command::new("mkfifo")
                .arg(root.join("etc").join(name))
                .status();
            assert!(made.unwrap().success());
        }
        let inside = Inside::Running(folder_of(&root));
        let refused = inside.read("etc/hosts").unwrap_err();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains("not a regular file"), "{cause}");
        inside.write("etc/hosts", "text", 0o644).unwrap();
        assert_eq!(inside.read("etc/hosts").unwrap(), "text");
    }

    #[test]
    fn a_link_inside_a_machine_leads_nowhere_outside_it() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        let root = folder.path().join("root");
        fs_err::create_dir_all(root.join("etc")).unwrap();
        fs_err::write(&outside, "the computer's").unwrap();
        fs_err::os::unix::fs::symlink(&outside, root.join("etc/hosts")).unwrap();
        let inside = Inside::Running(folder_of(&root));
        inside.write("etc/hosts", "the machine's", 0o644).unwrap();
        assert_eq!(inside.read("etc/hosts").unwrap(), "the machine's");
        assert_eq!(fs_err::read_to_string(&outside).unwrap(), "the computer's");
        // Nor does a folder that is one.
        fs_err::remove_dir_all(root.join("etc")).unwrap();
        fs_err::os::unix::fs::symlink(folder.path(), root.join("etc")).unwrap();
        assert!(inside.write("etc/outside", "the machine's", 0o644).is_err());
        assert_eq!(fs_err::read_to_string(&outside).unwrap(), "the computer's");
    }

    #[test]
    fn a_link_in_a_stopped_machine_leads_nowhere_outside_it_either() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        let upper = folder.path().join("upper");
        fs_err::create_dir_all(upper.join("root")).unwrap();
        fs_err::create_dir_all(upper.join("data")).unwrap();
        fs_err::create_dir_all(&outside).unwrap();
        fs_err::write(outside.join("authorized_keys"), "the computer's").unwrap();
        let inside = Inside::Stopped {
            upper: upper.clone(),
            lower: folder.path().join("lower"),
        };
        // A folder that is a link to one of the computer's.
        fs_err::os::unix::fs::symlink(&outside, upper.join("root/.ssh")).unwrap();
        let refused = inside.write(KEYS, "the machine's", 0o600).unwrap_err();
        let cause = std::error::Error::source(&refused).unwrap().to_string();
        assert!(cause.contains(KEYS), "{cause}");
        let kept = fs_err::read_to_string(outside.join("authorized_keys")).unwrap();
        assert_eq!(kept, "the computer's");
        // Absolute inside the machine means below its own root.
        fs_err::remove_file(upper.join("root/.ssh")).unwrap();
        fs_err::os::unix::fs::symlink("/data", upper.join("root/.ssh")).unwrap();
        inside.write(KEYS, "the machine's", 0o600).unwrap();
        assert_eq!(inside.read(KEYS).unwrap(), "the machine's");
        assert!(upper.join("data/authorized_keys").is_file());
        // A file that is a link is replaced, not followed.
        let file = outside.join("authorized_keys");
        fs_err::create_dir(upper.join("etc")).unwrap();
        fs_err::os::unix::fs::symlink(&file, upper.join("etc/hosts")).unwrap();
        inside.write(HOSTS, "names", 0o644).unwrap();
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "the computer's");
        assert_eq!(inside.read(HOSTS).unwrap(), "names");
    }
}
