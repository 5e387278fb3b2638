//! Running Windows programs on this computer: with Wine, in the root file system of stand-ins, and in name spaces that
//! go with the program.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use mullion::environment::Environment;
use mullion_catalog::Catalog;
use mullion_plan::{Fingerprint, TemplateId, Unattended};
use mullion_spec::words::WindowsVersion;
use mullion_template::{DriveContent, DriveFile, Face, LinuxTemplate, StandInTemplate, Templates};

use crate::{XtaskError, shims, stand_in, tools};

/// The program that runs Windows programs. `$ROOT` and `$SHARED` are replaced.
///
/// What a program writes on its drives is in memory alone and gone with it; the build's folder is the same inside.
/// Where `MULLION_RUNNER_NETWORK` is `callers` the network is that of whoever calls, and else one with an adapter that
/// leads nowhere.
const RUNNER: &str = r#"#!/bin/sh
case ${MULLION_RUNNER_NETWORK-} in
callers) network= ;;
*) network=--net ;;
esac
exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --uts --ipc $network sh -euc '
root=$1 shared=$2 folder=$3
shift 3
hostname stand-in
if [ "${MULLION_RUNNER_NETWORK-}" != callers ]; then
  ip link set lo up
  ip link add eth0 type veth peer name eth1
  ip link set eth0 up
  ip link set eth1 up
  ip address add 192.0.2.2/24 dev eth0
  ip route add default via 192.0.2.1
fi
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/root
cd /mnt/root
mount -t proc proc proc
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs tmpfs run
mount --rbind /dev dev
mkdir -p ".$shared"
mount --bind "$shared" ".$shared"
mkdir -p ".$folder"
exec chroot . /usr/bin/env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
  WINEPREFIX=/root/.wine WINEDEBUG="${WINEDEBUG--all}" LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=/run \
  /bin/sh -c "cd \"\$1\" && shift && /usr/lib/wine/wine64 \"\$@\"" sh "$folder" "$@"
' sh "$ROOT" "$SHARED" "$PWD" "$@"
"#;

/// The user's cache.
pub(crate) fn cache() -> PathBuf {
    Environment::new(PathBuf::from("."), |name| std::env::var_os(name)).cache
}

/// Makes a program that runs Windows programs, and gives back where it is. A second call finds what the first one made.
pub(crate) fn prepare() -> Result<PathBuf, XtaskError> {
    let root = stand_in::root(&cache())?;
    let target = tools::target_folder()?;
    let folder = target.join("wine");
    let libraries = shims::build()?;
    let mut drive = Vec::new();
    for name in stand_in::SHIMS {
        let bytes = fs_err::read(libraries.join(format!("{name}.dll")))?;
        drive.push(DriveFile {
            path: format!("Windows/System32/{name}.dll"),
            content: DriveContent::Bytes(bytes),
        });
    }
    let wish = wish(&root, drive)?;
    let templates = Templates::new(&folder);
    let failed = |error| XtaskError::part("the root file system with Wine", error);
    // One that is of other parts is of no use any more, and large.
    let keep = [wish.linux.id.clone()].into();
    templates.purge(&keep, &Unattended).map_err(failed)?;
    let made = templates
        .build_stand_in(&wish, &Unattended)
        .map_err(failed)?;
    let root = made.join("root");
    let runner = folder.join("run");
    fs_err::write(&runner, script(&root, &target))?;
    fs_err::set_permissions(&runner, std::fs::Permissions::from_mode(0o755))?;
    Ok(runner)
}

fn wish(root: &Path, drive: Vec<DriveFile>) -> Result<StandInTemplate, XtaskError> {
    let root_tar = fs_err::canonicalize(root)?;
    let release = Catalog::builtin().windows(WindowsVersion::V2022);
    let contents: Vec<_> = drive.iter().map(|file| format!("{file:?}")).collect();
    let id = TemplateId {
        name: "wine".into(),
        fingerprint: Fingerprint::of(&(root_tar.display().to_string(), contents)),
    };
    Ok(StandInTemplate {
        linux: LinuxTemplate {
            id,
            root_tar: root_tar.into(),
            programs: Vec::new(),
            images: Vec::new(),
        },
        face: Face {
            build: release.build,
            revision: 3807,
            product: format!("{} Datacenter", release.product),
            edition: "ServerDatacenter".into(),
            desktop: false,
        },
        // Nobody logs in, and no container runs.
        program: Vec::new(),
        containerd: String::new(),
        cri_port: 0,
        images: Vec::new(),
        write_network: String::new(),
        drive,
    })
}

fn script(root: &Path, shared: &Path) -> String {
    RUNNER
        .replace("$ROOT", &root.display().to_string())
        .replace("$SHARED", &shared.display().to_string())
}

/// A file of this computer as a Windows program names it, which finds `/` at `Z:`.
pub(crate) fn on_drive(path: &Path) -> String {
    format!("Z:{}", path.display().to_string().replace('/', "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runner_knows_its_root_and_what_it_shares() {
        let script = script(Path::new("/a/root"), Path::new("/b/target"));
        assert!(script.contains(r#"sh "/a/root" "/b/target" "$PWD" "$@""#));
        assert!(!script.contains("$ROOT") && !script.contains("$SHARED"));
    }

    #[test]
    fn other_libraries_make_another_root() {
        let root = tempfile::NamedTempFile::new().unwrap();
        let of = |bytes: &[u8]| {
            let file = DriveFile {
                path: "a".into(),
                content: DriveContent::Bytes(bytes.to_vec()),
            };
            wish(root.path(), vec![file]).unwrap().linux.id
        };
        assert_eq!(of(b"1"), of(b"1"));
        assert_ne!(of(b"1"), of(b"2"));
    }

    #[test]
    fn a_windows_program_finds_files_on_its_last_drive() {
        assert_eq!(on_drive(Path::new("/a/b c.txt")), r"Z:\a\b c.txt");
    }
}
