//! Machines that exist already, prepared by us and by ansible: the same files, settings and services.
//!
//! The machines are those of a first cluster that is brought no further than to its machines, without the programs
//! that its template gave them. Ansible's are laid by `bench/by-ansible.yml` from what lies on a machine of ours.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::clusters::{Bed, Times, file_of, quietly};
use crate::{XtaskError, tools};

/// Four bare machines prepared by us.
pub const PREPARE: &str = "prepare 4 machines by SSH";
/// The same again.
pub const PREPARE_AGAIN: &str = "prepare 4 machines by SSH again";
/// Four bare machines prepared by ansible.
pub const ANSIBLE: &str = "ansible: prepare 4 machines";
/// The same again.
pub const ANSIBLE_AGAIN: &str = "ansible: prepare 4 machines again";

/// The peer, at its exact version: its speed changes between versions.
const ANSIBLE_CORE: &str = "ansible-core==2.19.14";

const NAME: &str = "bench-metal";
const MACHINES: [&str; 4] = ["cp1", "lin1", "lin2", "lin3"];

/// What a template has that a bare machine has not.
const STRIP: &str = "rm -rf /usr/local/bin/* /opt/cni";

/// Measures us and ansible on machines of the same kind.
pub fn measure(times: &mut Times, program: &Path) -> Result<(), XtaskError> {
    let playbook = install_ansible()?;
    let metal = Metal::new(program)?;
    let bed = Bed::new(program, &metal.file()?)?;
    let until = ["up", "--yes", "--until", "prepare"];
    times.take(PREPARE, &mut bed.mullion(&until))?;
    times.take(PREPARE_AGAIN, &mut bed.mullion(&until))?;
    let laid = metal.fetch("lin1")?;
    quietly(&mut bed.mullion(&["down", "--yes"]))?;
    metal.each(STRIP)?;
    metal
        .each("apt-get update --quiet && apt-get install --yes --no-install-recommends python3")?;
    let inventory = metal.inventory()?;
    let mut play = Command::new(playbook);
    play.arg("--inventory")
        .arg(inventory)
        .args(["--forks", "10", "--extra-vars"])
        .arg(format!("laid={}", laid.display()))
        .arg(tools::repository().join("bench/by-ansible.yml"))
        .env("ANSIBLE_PIPELINING", "1");
    times.take(ANSIBLE, &mut play)?;
    times.take(ANSIBLE_AGAIN, &mut play)
}

/// Ansible in a folder of its own; gives the program that plays.
fn install_ansible() -> Result<PathBuf, XtaskError> {
    let folder = tools::target_folder()?.join("tmp").join("ansible");
    let program = |name: &str| folder.join("bin").join(name);
    if !program("ansible-playbook").exists() {
        println!("   installing {ANSIBLE_CORE}");
        quietly(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        quietly(Command::new(program("pip")).args(["install", "--quiet", ANSIBLE_CORE]))?;
    }
    Ok(program("ansible-playbook"))
}

/// Machines with a login and nothing else.
struct Metal {
    bed: Bed,
}

impl Metal {
    fn new(program: &Path) -> Result<Self, XtaskError> {
        let bed = Bed::new(program, &file_of(NAME, MACHINES.len() - 1))?;
        quietly(&mut bed.mullion(&["up", "--yes", "--until", "machines"]))?;
        let metal = Self { bed };
        metal.each(STRIP)?;
        Ok(metal)
    }

    /// Runs a script on every one.
    fn each(&self, script: &str) -> Result<(), XtaskError> {
        MACHINES
            .iter()
            .try_for_each(|machine| quietly(&mut self.bed.mullion(&["ssh", machine, "--", script])))
    }

    /// The private key that lets root in.
    fn key(&self) -> PathBuf {
        let state = self.bed.folder.path().join("state/mullion/clusters");
        state.join(NAME).join("id_ed25519")
    }

    /// Every machine with what the driver wrote down of it.
    fn labels() -> Result<Vec<(&'static str, Value)>, XtaskError> {
        let folder = Path::new("/var/lib/mullion/clusters").join(NAME);
        let label = |machine: &'static str| {
            let path = folder.join("machines").join(machine).join("machine.json");
            let text = fs_err::read_to_string(&path)?;
            let label = serde_json::from_str(&text).map_err(|error| XtaskError::Answer {
                command: path.display().to_string(),
                detail: error.to_string(),
            })?;
            Ok((machine, label))
        };
        MACHINES.into_iter().map(label).collect()
    }

    /// The file of a cluster that takes them as they are.
    fn file(&self) -> Result<String, XtaskError> {
        let mut file = "metadata: {name: bench-ssh}\nmachines:\n".to_owned();
        for (index, (_, label)) in Self::labels()?.into_iter().enumerate() {
            let role = if index == 0 {
                "control-plane"
            } else {
                "worker"
            };
            let _ = writeln!(
                file,
                "- {{name: {}, role: {role}, driver: ssh, addresses: [{}], ssh: {{user: root, key: {{file: {}}}, \
                 hostKey: {}}}}}",
                ["cp", "a", "b", "c"][index],
                address(&label),
                self.key().display(),
                text(&label, "hostKey"),
            );
        }
        Ok(file)
    }

    /// The files that we laid on a machine, in a folder of this computer.
    fn fetch(&self, machine: &str) -> Result<PathBuf, XtaskError> {
        let archive = self.bed.folder.path().join("laid.tar");
        let folder = self.bed.folder.path().join("laid");
        fs_err::create_dir(&folder)?;
        let script = "tar -C / -c usr/local/bin opt/cni etc/containerd etc/crictl.yaml etc/kubernetes/patches etc/mullion \
                      etc/sysctl.d/90-mullion.conf etc/systemd/system/containerd.service \
                      etc/systemd/system/kubelet.service etc/systemd/system/mullion-firewall.service";
        let mut fetch = self.bed.mullion(&["ssh", machine, "--", script]);
        tools::run(fetch.stdout(fs_err::File::create(&archive)?.into_parts().0))?;
        tools::run(
            Command::new("tar")
                .arg("-C")
                .arg(&folder)
                .arg("-xf")
                .arg(&archive),
        )?;
        Ok(folder)
    }

    /// What ansible wants to know of them. Keys that are known are kept, as people do.
    fn inventory(&self) -> Result<PathBuf, XtaskError> {
        let known = self.bed.folder.path().join("known_hosts");
        let (mut inventory, mut keys) = (String::new(), String::new());
        for (machine, label) in Self::labels()? {
            let address = address(&label);
            let _ = writeln!(keys, "{address} {}", text(&label, "hostKey"));
            let _ = writeln!(
                inventory,
                "{machine} ansible_host={address} ansible_user=root ansible_ssh_private_key_file={} \
                 ansible_ssh_common_args='-o UserKnownHostsFile={}'",
                self.key().display(),
                known.display(),
            );
        }
        fs_err::write(&known, keys)?;
        let path = self.bed.folder.path().join("inventory");
        fs_err::write(&path, inventory)?;
        Ok(path)
    }
}

fn text<'a>(label: &'a Value, key: &str) -> &'a str {
    label[key].as_str().unwrap_or_default()
}

/// A machine's address without its network.
fn address(label: &Value) -> &str {
    let address = text(label, "address");
    address.split('/').next().unwrap_or(address)
}
