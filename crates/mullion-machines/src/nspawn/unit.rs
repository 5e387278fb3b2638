//! A machine as a service of this computer's systemd, where that is its first process: it keeps the machine running, and
//! its control group. The service is a unit file (`units.rs`), rendered here.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use mullion_spec::value::{ClusterName, MachineName};
use mullion_spec::words::Word as _;

use super::boot::{AGAIN, ENVIRONMENT, KILLED, PAUSE, becoming, open_console};
use super::network::Lock;
use super::place::{Home, Label};
use super::units::{Mark, Units};
use super::{exec, isolation, names};
use crate::error::DriverError;
use crate::quirks::{Cgroup, quirks};
use crate::wish::NetworkWish;

/// What a network waits for when the computer starts: the way out, and whoever replaces the firewall's rules. One that
/// is not installed is not waited for.
const AFTER: &str = "network-online.target docker.service firewalld.service iptables.service \
                     netfilter-persistent.service nftables.service ufw.service";

/// Starts a machine. `network` where it starts with this computer too.
pub(super) fn start(
    home: &Home,
    label: &Label,
    units: &Units,
    network: Option<&NetworkWish>,
) -> Result<(), DriverError> {
    drop(open_console(&home.console())?);
    {
        let _lock = Lock::wait()?;
        put(home, label, units, network)?;
    }
    let unit = names::unit(&label.cluster, &label.name);
    exec::run("systemctl", &["start", "--quiet", &unit])?;
    Ok(())
}

/// Writes the unit file of a machine.
pub(super) fn put(
    home: &Home,
    label: &Label,
    units: &Units,
    network: Option<&NetworkWish>,
) -> Result<(), DriverError> {
    let text = service(
        home,
        label,
        isolation::tasks(&label.size)?,
        quirks()?.cgroup,
    )?;
    units.put(label.into(), &label.name, &text, network)
}

impl<'a> From<&'a Label> for Mark<'a> {
    fn from(label: &'a Label) -> Self {
        Self {
            cluster: &label.cluster,
            identity: label.identity.as_ref(),
        }
    }
}

/// A machine as a unit file.
fn service(home: &Home, label: &Label, tasks: u64, cgroup: Cgroup) -> Result<String, DriverError> {
    let console = home.console().display().to_string();
    if console.contains(char::is_control) {
        return Err(DriverError::BadPlace {
            folder: home.folder.clone(),
            why: "a unit file cannot name a path with control characters".into(),
        });
    }
    // A path here is not quoted, and only `%` means something.
    let console = console.replace('%', "%%");
    let (cluster, machine) = (&label.cluster, &label.name);
    let mut text = format!(
        "# Mullion writes this file when it starts the machine, and removes it with the machine.\n\
         [Unit]\n\
         Description=Mullion machine {machine} of cluster {cluster}\n\
         After={}\n\
         RequiresMountsFor={} {}\n\
         CollectMode=inactive-or-failed\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=exec\n\
         Delegate=yes\n\
         KillMode=mixed\n\
         RestartForceExitStatus={AGAIN}\n\
         SuccessExitStatus={AGAIN}\n\
         TasksMax={tasks}\n\
         CPUQuota={}%\n\
         MemoryMax={}\n\
         StandardOutput=append:{console}\n\
         StandardError=append:{console}\n",
        names::network_unit(cluster),
        quoted(&home.folder.display().to_string()),
        quoted(&label.template_path.display().to_string()),
        u64::from(label.size.cpus) * 100,
        label.size.memory.bytes(),
    );
    for line in isolation::device_properties(cgroup) {
        let _ = writeln!(text, "{line}");
    }
    for (name, value) in [("PATH", exec::PATH)].into_iter().chain(ENVIRONMENT) {
        let _ = writeln!(text, "Environment={}", quoted(&format!("{name}={value}")));
    }
    let command = becoming(home, label);
    let words: Vec<_> = command.iter().map(|word| argument(word)).collect();
    // systemd takes a program by its whole path, and `env` has the same one everywhere.
    let _ = writeln!(text, "ExecStart=/usr/bin/env {}", words.join(" "));
    text.push_str(INSTALL);
    Ok(text)
}

/// The unit file that restores a cluster's network when the computer starts.
pub(super) fn network_service(program: &Path, place: &Path, wish: &NetworkWish) -> String {
    let mut command = vec![
        "restore-network".to_owned(),
        wish.cluster.to_string(),
        wish.network.trunc().to_string(),
        wish.access.word().to_owned(),
    ];
    if let Some(identity) = &wish.identity {
        command.extend([identity.id.to_string(), identity.owner.to_string()]);
    }
    let words: Vec<_> = command.iter().map(|word| argument(word)).collect();
    format!(
        "# Mullion writes this file when a machine of the cluster starts with this computer, and removes it with the last.\n\
         [Unit]\n\
         Description=Mullion network of cluster {}\n\
         Wants=network-online.target\n\
         After={AFTER}\n\
         RequiresMountsFor={}\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         TimeoutStartSec=5min\n\
         ExecStart={} {}\n\
         {INSTALL}",
        wish.cluster,
        quoted(&place.display().to_string()),
        // systemd replaces no variables in the program's own path.
        quoted(&program.display().to_string()),
        words.join(" ")
    )
}

/// What makes `systemctl enable` and `disable` do what `autostart` does.
const INSTALL: &str = "\n[Install]\nWantedBy=multi-user.target\n";

/// A text as one word of a unit file.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '%' => out.push_str("%%"),
            letter if letter.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A text as one word of a command: systemd would replace variables in it.
fn argument(text: &str) -> String {
    quoted(text).replace('$', "$$")
}

/// Waits until a machine's unit is at rest: until then it cannot be started again.
pub(super) fn settle(cluster: &ClusterName, machine: &MachineName) -> Result<(), DriverError> {
    let unit = names::unit(cluster, machine);
    let begun = Instant::now();
    while !is_at_rest(&unit)? {
        if begun.elapsed() > KILLED {
            return Err(DriverError::Left(unit));
        }
        // One that is not loaded any more is as wanted.
        let _ = exec::run("systemctl", &["stop", "--quiet", &unit]);
        // systemd remembers one that failed, also without its file.
        let _ = exec::run("systemctl", &["reset-failed", &unit]);
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Whether a unit does nothing. One that an older version made has no file on the disk, and is at rest when it is gone.
fn is_at_rest(unit: &str) -> Result<bool, DriverError> {
    let shown = show(unit)?;
    let is_gone = value(&shown, "LoadState") == "not-found";
    let is_idle = value(&shown, "ActiveState") == "inactive";
    Ok(is_idle && (is_gone || !value(&shown, "FragmentPath").starts_with("/run/")))
}

/// Whether systemd runs nothing of a machine and will not start it again: a unit that restarts is `activating`.
pub(super) fn has_ended(cluster: &ClusterName, machine: &MachineName) -> Result<bool, DriverError> {
    let shown = show(&names::unit(cluster, machine))?;
    Ok(["inactive", "failed"].contains(&value(&shown, "ActiveState")))
}

/// What systemd says about a unit, one property a line.
fn show(unit: &str) -> Result<String, DriverError> {
    exec::run(
        "systemctl",
        &[
            "show",
            "--property=LoadState,ActiveState,FragmentPath",
            unit,
        ],
    )
}

/// A property in what [`show`] gave; empty where it is not there.
fn value<'shown>(shown: &'shown str, name: &str) -> &'shown str {
    let mut lines = shown.lines().filter_map(|line| line.split_once('='));
    lines
        .find_map(|(key, value)| (key == name).then_some(value))
        .unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;
    use std::process::Command;

    use mullion_plan::{ClusterUid, Fingerprint, Identity, Size, TemplateId};
    use mullion_spec::value::ByteSize;
    use mullion_spec::words::MachineAccess;

    use super::super::place::LabelVersion;
    use super::*;

    pub(in super::super) fn label() -> Label {
        Label {
            version: LabelVersion::V1,
            cluster: "dev".parse().unwrap(),
            name: "lin1".parse().unwrap(),
            guise: crate::nspawn::Guise::Linux,
            template: TemplateId {
                name: "linux".into(),
                fingerprint: Fingerprint::of(&1),
            },
            template_path: "/templates/linux".into(),
            address: [10, 9, 0, 11].into(),
            network: "10.9.0.0/24".parse().unwrap(),
            size: Size {
                cpus: 2,
                memory: ByteSize::gib(2),
                disk: ByteSize::gib(20),
            },
            whole: true,
            ran: false,
            host_key: None,
            identity: Some(Identity {
                id: ClusterUid::of(7),
                owner: 1000,
            }),
            autostart: Some(true),
        }
    }

    pub(in super::super) fn network() -> NetworkWish {
        let label = label();
        NetworkWish {
            cluster: label.cluster,
            network: label.network,
            access: MachineAccess::Host,
            identity: label.identity,
        }
    }

    fn home(folder: &str) -> Home {
        Home {
            folder: folder.into(),
        }
    }

    #[test]
    fn as_a_service_a_machine_has_its_size_and_is_started_anew_when_it_wants_to_be() {
        let text = service(&home("/place/m"), &label(), 8192, Cgroup::V2).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for wanted in [
            "After=mullion-dev-network.service",
            "Delegate=yes",
            "CPUQuota=200%",
            "MemoryMax=2147483648",
            "RestartForceExitStatus=133",
            "TasksMax=8192",
            "DevicePolicy=closed",
            "WantedBy=multi-user.target",
        ] {
            assert!(lines.contains(&wanted), "{wanted}: {text}");
        }
        let start = lines.iter().find(|line| line.starts_with("ExecStart="));
        let start = start.unwrap();
        for wanted in [
            "\"lowerdir=/templates/linux/root,upperdir=/place/m/disk/upper,workdir=/place/m/disk/work\"",
            "\"--directory=/place/m/disk/root\"",
            "\"--hostname=lin1\"",
            "\"--bind=/place/m/disk/etcd:/var/lib/etcd\"",
            // The script's own variables are not systemd's.
            "\\\"$$1\\\" \\\"$$2\\\"",
        ] {
            assert!(start.contains(wanted), "{wanted}: {start}");
        }
        assert!(start.ends_with("\"--boot\""), "{start}");
    }

    #[test]
    fn a_network_is_restored_as_it_was_made() {
        let program = Path::new("/a place/boot/mullion");
        let text = network_service(program, Path::new("/a place"), &network());
        let start = "ExecStart=\"/a place/boot/mullion\" \"restore-network\" \"dev\" \"10.9.0.0/24\" \"host\" \
                     \"00000000000000000000000000000007\" \"1000\"";
        assert!(text.lines().any(|line| line == start), "{text}");
    }

    #[test]
    fn hostile_paths_stay_one_word_and_never_a_line() {
        assert_eq!(
            argument("a b\"c\\d$e%f\ng\u{1}"),
            r#""a b\"c\\d$$e%%f\ng\x01""#
        );
        let refused = service(
            &home("/place\nExecStart=/bin/x"),
            &label(),
            8192,
            Cgroup::V2,
        );
        assert!(matches!(refused, Err(DriverError::BadPlace { .. })));
        let text = service(&home("/100% $mine"), &label(), 8192, Cgroup::V2).unwrap();
        assert!(text.contains("append:/100%% $mine/console.log\n"), "{text}");
        assert!(text.contains("\"--directory=/100%% $$mine/disk/root\""));
    }

    #[test]
    fn systemd_understands_the_unit_files() {
        let tool = Command::new("systemd-analyze").arg("--version").output();
        if let Err(error) = tool {
            // `cargo xtask test` installs the tool, and says so.
            let is_expected = std::env::var_os("MULLION_TEST_TOOLS").is_some();
            assert!(!is_expected, "`systemd-analyze` cannot be run: {error}");
            eprintln!("skipped: `systemd-analyze` is not installed on this computer");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a place, 100% $mine");
        fs_err::create_dir_all(folder.join("units")).unwrap();
        let program = folder.join("mullion");
        fs_err::copy("/bin/true", &program).unwrap();
        let machine = service(&home(folder.to_str().unwrap()), &label(), 8192, Cgroup::V2);
        let texts = [
            (
                names::unit(&label().cluster, &label().name),
                machine.unwrap(),
            ),
            (
                names::network_unit(&label().cluster),
                network_service(&program, &folder, &network()),
            ),
        ];
        for (name, text) in &texts {
            let file = folder.join("units").join(name);
            let verify = |text: &str| {
                fs_err::write(&file, text).unwrap();
                let mut verify = Command::new("systemd-analyze");
                let told = verify.args(["verify", "--man=no", "--recursive-errors=no"]);
                told.arg(&file).output().unwrap()
            };
            let told = verify(&format!("{text}\n[X-Mullion]\nCluster=dev\n"));
            let words = String::from_utf8_lossy(&told.stderr);
            assert!(told.status.success() && words.is_empty(), "{name}: {words}");
            // The tool does find mistakes: a word that systemd does not know, and a program that is not there.
            let told = verify(&text.replace("ExecStart=", "ExecStart=/no/such/program "));
            assert!(!told.status.success(), "{name}");
        }
    }

    #[test]
    fn a_unit_is_at_rest_when_it_does_nothing_and_no_older_version_made_it() {
        for (load, active, path, wanted) in [
            ("not-found", "inactive", "", true),
            ("loaded", "inactive", "/etc/systemd/system/x.service", true),
            ("loaded", "failed", "/etc/systemd/system/x.service", false),
            ("not-found", "failed", "", false),
            ("loaded", "active", "/etc/systemd/system/x.service", false),
            (
                "loaded",
                "deactivating",
                "/etc/systemd/system/x.service",
                false,
            ),
            (
                "loaded",
                "inactive",
                "/run/systemd/transient/x.service",
                false,
            ),
        ] {
            exec::play::by(move |_, _| {
                Ok(format!(
                    "LoadState={load}\nActiveState={active}\nFragmentPath={path}\n"
                ))
            });
            assert_eq!(is_at_rest("x.service").unwrap(), wanted, "{load} {active}");
        }
    }
}
