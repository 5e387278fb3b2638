//! Images as containerd sees them: a containerd of our own build takes them in and runs them.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;

/// A containerd that ends with the test.
struct Containerd {
    child: Child,
    folder: tempfile::TempDir,
    ctr: PathBuf,
}

impl Containerd {
    fn start(store: &Store) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir_all(&programs).unwrap();
        for name in ["containerd", "containerd-shim-runc-v2", "ctr"] {
            let path = timed(store, &part(name, PartKind::Program));
            std::os::unix::fs::symlink(path, programs.join(name)).unwrap();
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let at = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "version = 3\nroot = '{}'\nstate = '{}'\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n[grpc]\naddress = '{}'\n[ttrpc]\naddress = '{}'\n",
            at("root"),
            at("state"),
            at("sock"),
            at("ttrpc")
        );
        fs::write(folder.path().join("config.toml"), config).unwrap();
        // What it mounts goes with its name space, however the test ends.
        let child = Command::new("unshare")
            .arg("--mount")
            .arg(programs.join("containerd"))
            .arg("--config")
            .arg(folder.path().join("config.toml"))
            .env("PATH", path)
            .stdout(Stdio::null())
            .stderr(
                fs::File::create(folder.path().join("log"))
                    .unwrap()
                    .into_file(),
            )
            .spawn()
            .unwrap();
        let ctr = programs.join("ctr");
        let started = Self { child, folder, ctr };
        for _ in 0..100 {
            if started.ctr(&["version"]).is_ok() {
                return started;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!(
            "{}",
            fs::read_to_string(started.folder.path().join("log")).unwrap()
        );
    }

    fn ctr(&self, args: &[&str]) -> Result<String, String> {
        let output = Command::new("nsenter")
            .args(["--mount", "--target", &self.child.id().to_string()])
            .arg(&self.ctr)
            .arg("--address")
            .arg(self.folder.path().join("sock"))
            .args(args)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    /// A path as its name space of mounts has it.
    fn seen(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.child.id()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs root and real machines; cargo xtask test --slow runs it"]
fn images_are_taken_in_under_their_names_and_their_files_are_in_place() {
    let store = store();
    let containerd = Containerd::start(&store);
    for artifact in &artifacts() {
        let Some(part) = part_of(artifact).filter(|part| part.kind == PartKind::Image) else {
            continue;
        };
        let path = timed(&store, &part);
        let path = path.to_str().unwrap();
        containerd.ctr(&["images", "import", path]).unwrap();
    }
    let listed = containerd.ctr(&["images", "ls", "-q"]).unwrap();
    for artifact in artifacts()
        .iter()
        .filter(|one| one.kind == mullion_catalog::ArtifactKind::Image)
    {
        let address = artifact.address.as_deref().unwrap();
        assert!(
            listed.lines().any(|line| line == address),
            "{address}\n{listed}"
        );
        let place = tempfile::tempdir().unwrap();
        let mount = place.path().to_str().unwrap();
        containerd
            .ctr(&["images", "mount", address, mount])
            .unwrap();
        let checked = look(artifact, &containerd.seen(place.path()));
        containerd.ctr(&["images", "unmount", mount]).unwrap();
        checked.unwrap_or_else(|error| panic!("{address}: {error}"));
    }
}

/// Sees that an image's files are in place and that its programs start.
fn look(artifact: &ArtifactRef, root: &Path) -> Result<(), String> {
    let Some(Build::Image(build)) = &artifact.build else {
        return Err("it has no build".into());
    };
    let inside = root.join(build.path.trim_start_matches('/'));
    if !inside.exists() {
        return Err(format!("{} is not there", build.path));
    }
    if build.needs.is_empty() {
        return Ok(());
    }
    for command in [
        "iptables --version",
        "iptables-save --version",
        "iptables-restore --version",
        "ip6tables --version",
        "ipset --version",
        "conntrack --version",
        "nft --version",
        "sh -c 'echo hello | cat && ls / && cp --version'",
    ] {
        let output = Command::new("chroot")
            .arg(root)
            .args(["/bin/sh", "-c", command])
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!(
                "{command}: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    Ok(())
}
