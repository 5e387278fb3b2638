//! Makes a distribution's root file system one that a machine boots fast from.
//!
//! A machine shares this computer's kernel: whatever loads modules, sets the kernel up, watches devices or
//! waits for a keyboard has no business in it, and costs time at every boot. Such units are masked, so that
//! no preset brings them back.

use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::error::TemplateError;

/// Units that do nothing for a machine.
const MASKED: &[&str] = &[
    // Devices and modules are the computer's.
    "systemd-udevd.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udev-trigger.service",
    "systemd-udev-settle.service",
    "systemd-hwdb-update.service",
    "systemd-modules-load.service",
    "kmod-static-nodes.service",
    "modprobe@.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-binfmt.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "sys-fs-fuse-connections.mount",
    "dev-hugepages.mount",
    // So are disks.
    "systemd-remount-fs.service",
    "systemd-repart.service",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "cryptsetup.target",
    "integritysetup.target",
    "veritysetup.target",
    // Nobody sits at a machine; root comes in over the network.
    "getty.target",
    "getty@.service",
    "console-getty.service",
    "serial-getty@.service",
    "systemd-logind.service",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-initctl.socket",
    "systemd-journald-audit.socket",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    // What a first boot would do is done.
    "systemd-firstboot.service",
    "systemd-machine-id-commit.service",
    "systemd-sysusers.service",
    "systemd-journal-flush.service",
    // A machine changes when its blueprint does, never by itself.
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "unattended-upgrades.service",
    "motd-news.timer",
    // The address is set without a daemon: one would meddle with what the network plugin sets up.
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-networkd-wait-online.service",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
    "networking.service",
    // One SSH service, started at boot.
    "ssh.socket",
];

/// Folders that machines find.
const FOLDERS: &[&str] = &[
    "etc/cni/net.d",
    "etc/containerd",
    "etc/kubernetes",
    "etc/ssh/sshd_config.d",
    "etc/sysctl.d",
    "etc/systemd/journald.conf.d",
    "etc/systemd/system.conf.d",
    "etc/systemd/system/multi-user.target.wants",
    "opt/cni/bin",
    "usr/local/bin",
    "usr/local/lib/mullion",
    "var/lib/containerd",
    "var/lib/etcd",
    "var/lib/kubelet",
];

/// Root logs in with a key and nothing else does; many channels go over one connection.
const SSHD: &str = "\
# Laid down by Mullion.
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
HostKey /etc/ssh/ssh_host_ed25519_key
MaxSessions 64
MaxStartups 64:30:256
PrintMotd no
PrintLastLog no
UseDNS no
";

/// The kernel's log is the computer's, and a machine's own log may not fill its memory.
const JOURNALD: &str = "\
# Laid down by Mullion.
[Journal]
ReadKMsg=no
Audit=no
RuntimeMaxUse=64M
";

/// A machine that is to stop does so soon, whatever runs in it.
const SYSTEMD: &str = "\
# Laid down by Mullion.
[Manager]
DefaultTimeoutStopSec=10s
";

/// What a root file system must have, of which the first that is missing.
pub(crate) fn missing(root: &Path) -> Option<&'static str> {
    ["lib/systemd/systemd", "usr/sbin/sshd", "usr/bin/mount"]
        .into_iter()
        .find(|path| fs_err::symlink_metadata(root.join(path)).is_err())
}

/// Makes a root file system a machine's.
pub(crate) fn dress(root: &Path) -> Result<(), TemplateError> {
    for folder in FOLDERS {
        fs_err::create_dir_all(root.join(folder))?;
    }
    fs_err::set_permissions(
        root.join("var/lib/etcd"),
        std::fs::Permissions::from_mode(0o700),
    )?;
    let units = root.join("etc/systemd/system");
    for unit in MASKED {
        link("/dev/null", &units.join(unit))?;
    }
    link(
        "/lib/systemd/system/multi-user.target",
        &units.join("default.target"),
    )?;
    link(
        "/lib/systemd/system/ssh.service",
        &units.join("multi-user.target.wants/ssh.service"),
    )?;
    fs_err::write(root.join("etc/ssh/sshd_config.d/10-mullion.conf"), SSHD)?;
    fs_err::write(
        root.join("etc/systemd/journald.conf.d/10-mullion.conf"),
        JOURNALD,
    )?;
    fs_err::write(
        root.join("etc/systemd/system.conf.d/10-mullion.conf"),
        SYSTEMD,
    )?;
    mask_generators(root)?;
    quiet_kernel_settings(root)?;
    forget_itself(root)?;
    // Programs in it run as anybody: no other user of this computer gets at them. A machine has its own `/`.
    let own = std::fs::Permissions::from_mode(0o700);
    Ok(fs_err::set_permissions(root, own)?)
}

/// Generators look for disks, consoles and kernel arguments, which a machine does not have.
fn mask_generators(root: &Path) -> Result<(), TemplateError> {
    let own = root.join("etc/systemd/system-generators");
    for name in names(&root.join("lib/systemd/system-generators"))? {
        fs_err::create_dir_all(&own)?;
        link("/dev/null", &own.join(name))?;
    }
    Ok(())
}

/// The distribution's own kernel settings would change this computer's kernel; those that a blueprint lays
/// down later stay in force.
fn quiet_kernel_settings(root: &Path) -> Result<(), TemplateError> {
    let own = root.join("etc/sysctl.d");
    for folder in ["usr/lib/sysctl.d", "lib/sysctl.d"] {
        for name in names(&root.join(folder))? {
            link("/dev/null", &own.join(name))?;
        }
    }
    for distributed in ["etc/sysctl.conf", "etc/sysctl.d/99-sysctl.conf"] {
        remove(&root.join(distributed))?;
    }
    Ok(())
}

/// Removes what would make all machines one, and what is only ballast.
fn forget_itself(root: &Path) -> Result<(), TemplateError> {
    for name in names(&root.join("etc/ssh"))? {
        if name.starts_with("ssh_host_") {
            remove(&root.join("etc/ssh").join(name))?;
        }
    }
    for file in [
        "etc/hostname",
        "etc/machine-id",
        "etc/resolv.conf",
        "var/lib/dbus/machine-id",
        "var/lib/systemd/random-seed",
    ] {
        remove(&root.join(file))?;
    }
    // An empty one is what distributions ship: without the file a first boot would be assumed.
    fs_err::write(root.join("etc/machine-id"), "")?;
    for folder in ["var/lib/apt/lists", "var/cache/apt"] {
        let folder = root.join(folder);
        for name in names(&folder)? {
            let path = folder.join(name);
            if fs_err::symlink_metadata(&path)?.is_dir() {
                fs_err::remove_dir_all(path)?;
            } else {
                fs_err::remove_file(path)?;
            }
        }
    }
    Ok(())
}

/// The names in a folder; none where it is not there.
fn names(folder: &Path) -> Result<Vec<String>, TemplateError> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

fn link(target: &str, path: &Path) -> Result<(), TemplateError> {
    remove(path)?;
    Ok(symlink(target, path)?)
}

fn remove(path: &Path) -> Result<(), TemplateError> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in [
            "etc/ssh",
            "lib/systemd",
            "usr/bin",
            "usr/sbin",
            "usr/lib/sysctl.d",
            "var/lib/apt/lists/partial",
        ] {
            fs_err::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in [
            "lib/systemd/systemd",
            "usr/sbin/sshd",
            "usr/bin/mount",
            "usr/lib/sysctl.d/50-pid-max.conf",
            "etc/ssh/ssh_host_rsa_key",
            "etc/ssh/sshd_config",
            "etc/hostname",
            "var/lib/apt/lists/debian_Packages",
        ] {
            fs_err::write(root.path().join(file), "from the distribution").unwrap();
        }
        root
    }

    #[test]
    fn a_root_without_an_init_or_a_login_is_refused() {
        let root = distribution();
        assert_eq!(missing(root.path()), None);
        fs_err::remove_file(root.path().join("usr/sbin/sshd")).unwrap();
        assert_eq!(missing(root.path()), Some("usr/sbin/sshd"));
    }

    #[test]
    fn nothing_in_a_template_tells_machines_apart() {
        let root = distribution();
        dress(root.path()).unwrap();
        dress(root.path()).unwrap();
        let path = |path: &str| root.path().join(path);
        assert!(!path("etc/ssh/ssh_host_rsa_key").exists());
        assert!(path("etc/ssh/sshd_config").exists());
        assert!(!path("etc/hostname").exists());
        assert_eq!(fs_err::read(path("etc/machine-id")).unwrap(), b"");
        assert!(names(&path("var/lib/apt/lists")).unwrap().is_empty());
    }

    #[test]
    fn what_would_reach_past_the_machine_is_masked() {
        let root = distribution();
        dress(root.path()).unwrap();
        for masked in [
            "etc/systemd/system/systemd-udevd.service",
            "etc/sysctl.d/50-pid-max.conf",
        ] {
            let target = fs_err::read_link(root.path().join(masked)).unwrap();
            assert_eq!(target, Path::new("/dev/null"), "{masked}");
        }
    }
}
