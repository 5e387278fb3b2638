//! Makes a distribution's root file system one that a machine boots fast from.
//!
//! A machine shares this computer's kernel: whatever loads modules, sets the kernel up, watches devices or
//! waits for a keyboard has no business in it, and costs time at every boot. Such units are masked, so that
//! no preset brings them back.

use std::path::Path;

use crate::error::TemplateError;
use crate::tree::Tree;

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
pub(crate) fn missing(root: &Tree) -> Option<&'static str> {
    ["lib/systemd/systemd", "usr/sbin/sshd", "usr/bin/mount"]
        .into_iter()
        .find(|path| !root.has(path))
}

/// Makes a root file system a machine's.
pub(crate) fn dress(root: &Tree) -> Result<(), TemplateError> {
    for folder in FOLDERS {
        root.make_folder(folder)?;
    }
    root.set_mode("var/lib/etcd", 0o700)?;
    let units = Path::new("etc/systemd/system");
    for unit in MASKED {
        root.link("/dev/null", units.join(unit))?;
    }
    root.link(
        "/lib/systemd/system/multi-user.target",
        units.join("default.target"),
    )?;
    root.link(
        "/lib/systemd/system/ssh.service",
        units.join("multi-user.target.wants/ssh.service"),
    )?;
    for (path, text) in [
        ("etc/ssh/sshd_config.d/10-mullion.conf", SSHD),
        ("etc/systemd/journald.conf.d/10-mullion.conf", JOURNALD),
        ("etc/systemd/system.conf.d/10-mullion.conf", SYSTEMD),
    ] {
        root.write(path, text, 0o644)?;
    }
    mask_generators(root)?;
    quiet_kernel_settings(root)?;
    forget_itself(root)?;
    // Programs in it run as anybody: no other user of this computer gets at them. A machine has its own `/`.
    Ok(root.set_mode("", 0o700)?)
}

/// Generators look for disks, consoles and kernel arguments, which a machine does not have.
fn mask_generators(root: &Tree) -> Result<(), TemplateError> {
    let own = Path::new("etc/systemd/system-generators");
    for name in root.names("lib/systemd/system-generators")? {
        root.link("/dev/null", own.join(name))?;
    }
    Ok(())
}

/// The distribution's own kernel settings would change this computer's kernel; those that a blueprint lays
/// down later stay in force.
fn quiet_kernel_settings(root: &Tree) -> Result<(), TemplateError> {
    let own = Path::new("etc/sysctl.d");
    for folder in ["usr/lib/sysctl.d", "lib/sysctl.d"] {
        for name in root.names(folder)? {
            root.link("/dev/null", own.join(name))?;
        }
    }
    for distributed in ["etc/sysctl.conf", "etc/sysctl.d/99-sysctl.conf"] {
        root.remove(distributed)?;
    }
    Ok(())
}

/// Removes what would make all machines one, and what is only ballast.
fn forget_itself(root: &Tree) -> Result<(), TemplateError> {
    for name in root.names("etc/ssh")? {
        if name.starts_with("ssh_host_") {
            root.remove(Path::new("etc/ssh").join(name))?;
        }
    }
    for file in [
        "etc/hostname",
        "etc/machine-id",
        "etc/resolv.conf",
        "var/lib/dbus/machine-id",
        "var/lib/systemd/random-seed",
    ] {
        root.remove(file)?;
    }
    // An empty one is what distributions ship: without the file a first boot would be assumed.
    root.write("etc/machine-id", "", 0o644)?;
    for folder in ["var/lib/apt/lists", "var/cache/apt"] {
        for name in root.names(folder)? {
            root.remove(Path::new(folder).join(name))?;
        }
    }
    Ok(())
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

    fn tree(root: &tempfile::TempDir) -> Tree {
        Tree::open(root.path()).unwrap()
    }

    #[test]
    fn a_root_without_an_init_or_a_login_is_refused() {
        let root = distribution();
        assert_eq!(missing(&tree(&root)), None);
        fs_err::remove_file(root.path().join("usr/sbin/sshd")).unwrap();
        assert_eq!(missing(&tree(&root)), Some("usr/sbin/sshd"));
    }

    #[test]
    fn nothing_in_a_template_tells_machines_apart() {
        let root = distribution();
        dress(&tree(&root)).unwrap();
        dress(&tree(&root)).unwrap();
        let path = |path: &str| root.path().join(path);
        assert!(!path("etc/ssh/ssh_host_rsa_key").exists());
        assert!(path("etc/ssh/sshd_config").exists());
        assert!(!path("etc/hostname").exists());
        assert_eq!(fs_err::read(path("etc/machine-id")).unwrap(), b"");
        assert!(tree(&root).names("var/lib/apt/lists").unwrap().is_empty());
    }

    #[test]
    fn what_would_reach_past_the_machine_is_masked() {
        let root = distribution();
        dress(&tree(&root)).unwrap();
        for masked in [
            "etc/systemd/system/systemd-udevd.service",
            "etc/sysctl.d/50-pid-max.conf",
        ] {
            let target = fs_err::read_link(root.path().join(masked)).unwrap();
            assert_eq!(target, Path::new("/dev/null"), "{masked}");
        }
    }
}
