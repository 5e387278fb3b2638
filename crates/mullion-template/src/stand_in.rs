//! Makes a template of stand-ins for Windows: a Linux one with Wine in it, that looks like Windows from outside.
//!
//! ```text
//! root/root/.wine                        Wine's prefix; its registry says which Windows this is
//! root/root/.wine/drive_c                drive C:, with the files that are given
//! root/usr/local/lib/mullion/mullion-standin   login shell, SFTP, and the gateway to containerd
//! root/etc/mullion/standin.toml          what that program reads
//! ```
//!
//! Wine runs once, in name spaces of its own without a network, and dies with the thread that started it.

use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mullion_plan::Attend;
use mullion_wire::Patience;

use crate::error::TemplateError;
use crate::images::{await_end, program, tail_of};
pub use crate::known_images::KnownImage;
use crate::linux::{self, LinuxTemplate, finish, lay_root, tell};
pub use crate::registry::Face;
use crate::source::Source;
use crate::tree::Tree;
use crate::{known_images, registry, twins};

/// The template of stand-ins to make.
#[derive(Debug, Clone)]
pub struct StandInTemplate {
    /// The Linux below: a root file system with Wine in it, the programs that do what Windows' would, and images.
    pub linux: LinuxTemplate,
    /// Which Windows it stands in for.
    pub face: Face,
    /// The stand-in's own program.
    pub program: Vec<u8>,
    /// What lies on drive `C:`.
    pub drive: Vec<DriveFile>,
    /// The settings of containerd.
    pub containerd: String,
    /// Where kubelet reaches the container runtime, on the machine's loopback.
    pub cri_port: u16,
    /// The images that it takes for Windows', and those that it knows to be none.
    pub images: Vec<KnownImage>,
    /// The script that writes the pods' network down from what flannel wrote.
    pub write_network: String,
}

/// A file of a stand-in's drive `C:`.
#[derive(Debug, Clone)]
pub struct DriveFile {
    /// Where, below the drive, with `/` between its parts: `Windows/System32/pdh.dll`.
    pub path: String,
    /// What is in it.
    pub content: DriveContent,
}

/// What is in a file of a drive.
#[derive(Debug, Clone)]
pub enum DriveContent {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Those of a file of this computer.
    Copy(Source),
}

/// Where Wine's prefix is, without the leading slash.
pub(crate) const PREFIX: &str = "root/.wine";
/// Where drive `C:` is.
const DRIVE: &str = "root/.wine/drive_c";
/// Where the stand-in's program is.
const PROGRAM: &str = "/usr/local/lib/mullion/mullion-standin";
/// The table of images that are taken for Windows'.
const IMAGES: &str = "/etc/mullion/images.toml";
/// Who logs in, as on Windows. The same user as root, under another name and with another shell.
const USER: &str = "Administrator";

/// Folders of the drive that Windows programs expect to be there.
const FOLDERS: [&str; 8] = [
    "Users/Administrator",
    "ProgramData/mullion",
    "etc/cni/net.d",
    "etc/kubernetes",
    "opt/cni/bin",
    "run/flannel",
    "var/lib/kubelet",
    "var/log/pods",
];

/// Wine ends its services with the last ordinary program, so one stays. What listened at a socket when its machine was
/// stopped left the socket's file behind, and kubelet takes away none but those that Windows itself calls sockets.
const SESSION: &str = "\
[Unit]
Description=Windows' session: its services run as long as it does
After=mullion-network.service mullion-identity.service
Wants=containerd.service mullion-gateway.service

[Service]
Environment=HOME=/root WINEPREFIX=/root/.wine WINEDEBUG=-all LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=/run
ExecStartPre=-/usr/bin/mkfifo -m 600 /run/mullion-session
ExecStartPre=/bin/sh -c 'pgrep wineserver || find /root/.wine/drive_c/var/lib/kubelet -type f -name \"*.sock\" -delete'
ExecStart=/bin/sh -c 'exec /usr/lib/wine/wine64 cmd.exe 0<>/run/mullion-session'
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
";

/// Tells machines of one template from each other, and each of their starts from the one before. Wine keeps its registry
/// in memory, so this is done before it runs.
const IDENTITY: &str = r#"#!/bin/sh
set -eu
registry=/root/.wine/system.reg
id=$(sed -E 's/^(.{8})(.{4})(.{4})(.{4})(.{12})$/{\1-\2-\3-\4-\5}/' /etc/machine-id)
start=$(sed -n 's/^"BootId"=dword:\([0-9a-f]*\)$/\1/p' $registry)
next=$(printf %08x $((0x$start + 1)))
sed -i -e "s/^\"LastConfig\"=.*/\"LastConfig\"=\"$id\"/" -e "s/^\"BootId\"=.*/\"BootId\"=dword:$next/" $registry
"#;

const IDENTITY_UNIT: &str = "\
[Unit]
Description=Which machine this is, and which of its starts
Before=mullion-windows.service ssh.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/lib/mullion/identity

[Install]
WantedBy=multi-user.target
";

/// Takes the place of containerd.exe.
const CONTAINERD: &str = "\
[Unit]
Description=containerd, in place of the one for Windows
After=mullion-cgroups.service mullion-network.service

[Service]
Type=notify
Environment=GOGC=40
ExecStart=/usr/local/bin/containerd
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
";

/// Initialises the prefix. `$1` the root, `$2` the script that runs inside it.
const INSIDE: &str = r#"set -eu
hostname stand-in
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs tmpfs run
mount --rbind /dev dev
ip link set lo up || true
exec chroot . /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
  WINEPREFIX=/root/.wine WINEDEBUG=fixme-all WINEDLLOVERRIDES=mscoree,mshtml= LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=/run \
  /bin/sh -euc "$2"
"#;

/// An unwaited prefix lacks drivers: whatever is started is waited for.
const INITIALISE: &str = "\
wineboot --init
wineserver -w
/usr/lib/wine/wine64 regedit.exe /S 'C:\\mullion.reg'
wineserver -w
";

/// What takes some ten seconds on two cores has not come to its end by then because one of Wine's programs hangs.
const INITIALISED_WITHIN: Duration = Duration::from_mins(5);

/// Makes the template in a folder that is not there yet.
pub(crate) fn build(
    folder: &Path,
    wish: &StandInTemplate,
    patience: Patience,
    attendant: &dyn Attend,
) -> Result<(), TemplateError> {
    let linux = &wish.linux;
    let root = lay_root(folder, &linux.root_tar, &linux.programs, attendant)?;
    root.write(PROGRAM, &wish.program, 0o755)?;
    write_settings(&root, &wish.face, wish.cri_port)?;
    root.write("etc/containerd/config.toml", &wish.containerd, 0o644)?;
    root.write(IMAGES, known_images::table(&wish.images), 0o644)?;
    twins::write(&root, &wish.write_network)?;
    tell(attendant, "initialising Wine");
    let limit = patience.times(INITIALISED_WITHIN);
    if let Err(error) = initialise(folder, &root, &wish.face, limit, attendant) {
        if !matches!(
            error,
            TemplateError::Wine { .. } | TemplateError::TooSlow { .. }
        ) {
            return Err(error);
        }
        // Now and then, on a busy computer, Wine's first start ends without a word or hangs; the next one succeeds.
        tell(attendant, format!("{error}; once more"));
        root.remove(PREFIX)?;
        initialise(folder, &root, &wish.face, limit, attendant)?;
    }
    keep_own_adapters(&root)?;
    tell(attendant, "filling drive C:");
    for file in &wish.drive {
        if attendant.is_called_off() {
            return Err(TemplateError::CalledOff);
        }
        let path = on_drive(&root, &file.path)?;
        match &file.content {
            DriveContent::Bytes(bytes) => root.write(&path, bytes, 0o755)?,
            DriveContent::Copy(source) => linux::put(source, &root, &path)?,
        }
    }
    finish(folder, linux, patience, attendant)
}

/// Logins, services, and what the stand-in's program reads.
fn write_settings(root: &Tree, face: &Face, cri_port: u16) -> Result<(), TemplateError> {
    let units = Path::new("etc/systemd/system");
    let gateway = format!(
        "[Unit]\nDescription=kubelet.exe's way to containerd\nAfter=containerd.service\n\n[Service]\n\
         ExecStart={PROGRAM} cri --listen 127.0.0.1:{cri_port} --drive /{PREFIX}/drive_c --build {} --revision {} \
         --images {IMAGES}\n\
         StandardError=journal+console\nRestart=always\nRestartSec=1\n\n[Install]\nWantedBy=multi-user.target\n",
        face.build, face.revision
    );
    for (unit, text) in [
        ("containerd.service", CONTAINERD),
        ("mullion-gateway.service", gateway.as_str()),
        ("mullion-identity.service", IDENTITY_UNIT),
        ("mullion-windows.service", SESSION),
    ] {
        root.write(units.join(unit), text, 0o644)?;
        let wants = units.join("multi-user.target.wants").join(unit);
        root.link(format!("../{unit}"), wants)?;
    }
    root.write("usr/local/lib/mullion/identity", IDENTITY, 0o755)?;
    root.write(
        "etc/mullion/standin.toml",
        "# The usual values hold.\n",
        0o644,
    )?;
    root.append(
        "etc/passwd",
        &format!("{USER}:x:0:0:{USER}:/root:{PROGRAM}\n"),
    )?;
    root.append("etc/shadow", &format!("{USER}:*:20000:0:99999:7:::\n"))?;
    root.append("etc/shells", &format!("{PROGRAM}\n"))?;
    let sshd = "etc/ssh/sshd_config";
    let text = root.read(sshd)?;
    let text = String::from_utf8_lossy(&text);
    // A second line of its kind is an error to the server.
    let rest = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("Subsystem"));
    let own = format!("Subsystem sftp {PROGRAM} sftp");
    let lines = rest.chain([own.as_str()]);
    let kept: String = lines.flat_map(|line| [line, "\n"]).collect();
    Ok(root.write(sshd, kept, 0o644)?)
}

/// Runs Wine once, until its prefix is whole.
fn initialise(
    folder: &Path,
    root: &Tree,
    face: &Face,
    limit: Duration,
    attendant: &dyn Attend,
) -> Result<(), TemplateError> {
    for folder in FOLDERS {
        root.make_folder(Path::new(DRIVE).join(folder))?;
    }
    let settings = Path::new(DRIVE).join("mullion.reg");
    root.write(&settings, registry::file(face), 0o644)?;
    let log = folder.join("wine.log");
    let file = fs_err::File::create(&log)?.into_parts().0;
    let mut child = program("setpriv")
        .args([
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
        ])
        .args(["--net", "--uts", "--ipc", "sh", "-c", INSIDE, "sh"])
        .arg(root.path())
        .arg(INITIALISE)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .map_err(|cause| TemplateError::Start {
            program: "setpriv".into(),
            cause,
        })?;
    let what = "Wine to initialise its prefix";
    let status = await_end(what, &mut child, limit, &log, attendant)?;
    let registry = Path::new(PREFIX).join("system.reg");
    if !status.success() || !root.has_file(registry) {
        return Err(TemplateError::Wine {
            status,
            tail: tail_of(&log),
        });
    }
    root.remove(settings)?;
    Ok(fs_err::remove_file(log)?)
}

/// Where Debian has Wine's own libraries.
const OWN_LIBRARIES: &str = "usr/lib/x86_64-linux-gnu/wine/x86_64-windows";
/// By this, at this place, Wine knows a library as its own and loads it by its name, whatever a file holds.
const OWN_MARK: (usize, &[u8]) = (0x40, b"Wine builtin DLL");

/// Keeps Wine's library of network adapters under the name by which the shim in its place passes calls on to it.
fn keep_own_adapters(root: &Tree) -> Result<(), TemplateError> {
    let mut library = root.read(Path::new(OWN_LIBRARIES).join("iphlpapi.dll"))?;
    let (place, mark) = OWN_MARK;
    let found = library.get_mut(place..place + mark.len());
    if let Some(found) = found.filter(|found| *found == mark) {
        found.fill(0);
    }
    let path = on_drive(root, "windows/system32/wine_iphlpapi.dll")?;
    Ok(root.write(path, library, 0o755)?)
}

/// A file of the drive, as a path of the root file system. No part of its path leads elsewhere, and letters are as Windows
/// has them: a folder that is there under a name of other letters is that folder.
fn on_drive(root: &Tree, path: &str) -> Result<PathBuf, TemplateError> {
    let mut at = PathBuf::from(DRIVE);
    for part in Path::new(path).components() {
        let Component::Normal(name) = part else {
            return Err(TemplateError::NotOnDrive(path.to_owned()));
        };
        let wanted = name.to_string_lossy().to_lowercase();
        let names = root.names(&at).unwrap_or_default();
        let there = names
            .into_iter()
            .find(|found| found.to_lowercase() == wanted);
        match there {
            Some(there) => at.push(there),
            None => at.push(name),
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_drive_stays_on_it_whatever_letters_its_path_has() {
        let folder = tempfile::tempdir().unwrap();
        let root = Tree::open(folder.path()).unwrap();
        root.make_folder(Path::new(DRIVE).join("windows/system32"))
            .unwrap();
        let place = |path: &str| on_drive(&root, path);
        assert_eq!(
            place("Windows/System32/pdh.dll").unwrap(),
            Path::new(DRIVE).join("windows/system32/pdh.dll")
        );
        for bad in ["../x", "/etc/passwd", "a/../../b"] {
            assert!(
                matches!(place(bad), Err(TemplateError::NotOnDrive(_))),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_login_of_the_stand_in_is_roots_with_another_shell() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["etc/ssh", "etc/systemd/system/multi-user.target.wants"] {
            fs_err::create_dir_all(root.path().join(folder)).unwrap();
        }
        let sshd = root.path().join("etc/ssh/sshd_config");
        fs_err::write(
            &sshd,
            "UsePAM yes\nSubsystem\tsftp\t/usr/lib/openssh/sftp-server\n",
        )
        .unwrap();
        let face = Face {
            build: 26100,
            revision: 1,
            product: "Windows Server 2025 Standard".into(),
            edition: "ServerStandard".into(),
            desktop: false,
        };
        write_settings(&Tree::open(root.path()).unwrap(), &face, 2376).unwrap();
        let text = fs_err::read_to_string(sshd).unwrap();
        assert_eq!(
            text,
            "UsePAM yes\nSubsystem sftp /usr/local/lib/mullion/mullion-standin sftp\n"
        );
        let users = fs_err::read_to_string(root.path().join("etc/passwd")).unwrap();
        assert!(users.starts_with("Administrator:x:0:0:"), "{users}");
        let gateway = root
            .path()
            .join("etc/systemd/system/mullion-gateway.service");
        let gateway = fs_err::read_to_string(gateway).unwrap();
        assert!(gateway.contains("--build 26100 --revision 1"), "{gateway}");
    }
}
