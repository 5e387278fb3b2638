//! What makes a clone of a template one machine: name, keys, address, names of others.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fs_err::File;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::place::Home;
use crate::error::DriverError;
use crate::wish::{MachineWish, gateway};

/// Where a machine has the keys that root may log in with.
pub(super) const KEYS: &str = "root/.ssh/authorized_keys";

/// Where a machine has the names of others.
pub(super) const HOSTS: &str = "etc/hosts";

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
    upper.put("etc/resolv.conf", &resolv(&wish.dns)?, 0o644)?;
    upper.put("etc/environment", &environment(&wish.environment), 0o644)?;
    upper.put("etc/ssh/ssh_host_ed25519_key", host_key.0, 0o600)?;
    upper.put(
        "etc/ssh/ssh_host_ed25519_key.pub",
        &format!("{}\n", host_key.1.trim_end()),
        0o644,
    )?;
    upper.folder("root/.ssh", 0o700)?;
    upper.put(KEYS, &lines(&wish.authorized_keys), 0o600)?;
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

fn lines(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim());
        text
    })
}

fn environment(variables: &BTreeMap<String, String>) -> String {
    variables
        .iter()
        .fold(String::new(), |mut text, (name, value)| {
            let _ = writeln!(text, "{name}={value}");
            text
        })
}

/// A machine's resolver: the servers that were given, or this computer's.
///
/// A server on this computer's own loopback cannot be reached from a machine: where systemd's is one, the
/// servers behind it are taken.
fn resolv(servers: &[IpAddr]) -> Result<String, DriverError> {
    let mut servers = servers.to_vec();
    for file in ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"] {
        if servers.is_empty() {
            match fs_err::read_to_string(file) {
                Ok(text) => servers = nameservers(&text),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut text = String::from("# Laid down by Mullion.\n");
    for server in servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    Ok(text)
}

/// The servers of a resolver's file that a machine can reach.
fn nameservers(text: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|server| server.trim().parse().ok())
        .filter(|server: &IpAddr| !server.is_loopback())
        .collect()
}

/// A machine's own files, over those of its template.
struct Layer {
    upper: PathBuf,
    lower: PathBuf,
}

impl Layer {
    /// Makes the folders above a file, as the template has them: their owner and mode replace the template's.
    fn parents(&self, path: &Path) -> Result<(), DriverError> {
        let Some(parent) = path.parent() else {
            return Ok(());
        };
        let mut path_so_far = PathBuf::new();
        for part in parent.components() {
            path_so_far.push(part);
            let (upper, lower) = (self.upper.join(&path_so_far), self.lower.join(&path_so_far));
            match fs_err::create_dir(&upper) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                other => other?,
            }
            if let Ok(meta) = fs_err::symlink_metadata(&lower) {
                std::os::unix::fs::lchown(&upper, Some(meta.uid()), Some(meta.gid()))?;
                let mode = std::fs::Permissions::from_mode(meta.mode() & 0o7777);
                fs_err::set_permissions(&upper, mode)?;
            }
        }
        Ok(())
    }

    fn folder(&self, path: &str, mode: u32) -> Result<(), DriverError> {
        self.parents(&Path::new(path).join("x"))?;
        let mode = std::fs::Permissions::from_mode(mode);
        Ok(fs_err::set_permissions(self.upper.join(path), mode)?)
    }

    fn put(&self, path: &str, text: &str, mode: u32) -> Result<(), DriverError> {
        self.parents(Path::new(path))?;
        let target = self.upper.join(path);
        super::place::remove(&target)?;
        let mut file = File::create_new(&target)?;
        // Before anything is in it: a key must never be readable, not even for a moment.
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        Ok(file.write_all(text.as_bytes())?)
    }

    fn link(&self, path: &str, target: &str) -> Result<(), DriverError> {
        self.parents(Path::new(path))?;
        let link = self.upper.join(path);
        super::place::remove(&link)?;
        Ok(std::os::unix::fs::symlink(target, link)?)
    }
}

/// A machine's files as they are now: those of a running one through its first process, those of a stopped one
/// over its template.
pub(super) enum Inside {
    /// Its root folder, as its first process has it.
    Running(PathBuf),
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
        let places: Vec<&Path> = match self {
            Self::Running(root) => vec![root],
            Self::Stopped { upper, lower } => vec![upper, lower],
        };
        for root in places {
            match open(root, path, OFlags::RDONLY, 0) {
                Ok(mut file) => {
                    let mut text = String::new();
                    file.read_to_string(&mut text)?;
                    return Ok(text);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(String::new())
    }

    /// Writes a file anew.
    pub(super) fn write(&self, path: &str, text: &str, mode: u32) -> Result<(), DriverError> {
        match self {
            Self::Running(root) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
                Ok(open(root, path, flags, mode)?.write_all(text.as_bytes())?)
            }
            Self::Stopped { upper, lower } => Layer {
                upper: upper.clone(),
                lower: lower.clone(),
            }
            .put(path, text, mode),
        }
    }
}

/// Opens a file below a folder as if the folder were the root: no link in it leads out.
fn open(root: &Path, path: &str, flags: OFlags, mode: u32) -> std::io::Result<std::fs::File> {
    let folder = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    let file = rustix::fs::openat2(
        folder,
        path,
        flags | OFlags::CLOEXEC,
        Mode::from_raw_mode(mode),
        ResolveFlags::IN_ROOT,
    )?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_link_inside_a_machine_leads_nowhere_outside_it() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        let root = folder.path().join("root");
        fs_err::create_dir_all(root.join("etc")).unwrap();
        fs_err::write(&outside, "the computer's").unwrap();
        fs_err::os::unix::fs::symlink(&outside, root.join("etc/hosts")).unwrap();
        let inside = Inside::Running(root);
        assert!(inside.write("etc/hosts", "the machine's", 0o644).is_err());
        assert_eq!(fs_err::read_to_string(&outside).unwrap(), "the computer's");
    }
}
