//! A machine as a service of this computer's systemd, where that is its first process: it keeps the machine running, and
//! its control group.

use std::time::Instant;

use mullion_spec::value::{ClusterName, MachineName};

use super::boot::{AGAIN, ENVIRONMENT, KILLED, PAUSE, becoming, open_console};
use super::place::{Home, Label};
use super::{exec, isolation, names};
use crate::error::DriverError;
use crate::quirks::{Cgroup, quirks};

/// Starts a machine.
pub(super) fn start(home: &Home, label: &Label) -> Result<(), DriverError> {
    drop(open_console(&home.console())?);
    let args = service(
        home,
        label,
        isolation::tasks(&label.size)?,
        quirks()?.cgroup,
    );
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    exec::run("systemd-run", &args)?;
    Ok(())
}

/// A machine as a service of this computer's systemd.
fn service(home: &Home, label: &Label, tasks: u64, cgroup: Cgroup) -> Vec<String> {
    let console = home.console().display().to_string();
    let mut args: Vec<String> = vec![
        format!("--unit={}", names::unit(&label.cluster, &label.name)),
        "--collect".into(),
        "--quiet".into(),
        "--property=Type=exec".into(),
        "--property=Delegate=yes".into(),
        "--property=KillMode=mixed".into(),
        format!("--property=RestartForceExitStatus={AGAIN}"),
        format!("--property=SuccessExitStatus={AGAIN}"),
        format!("--property=TasksMax={tasks}"),
        format!("--property=StandardOutput=append:{console}"),
        format!("--property=StandardError=append:{console}"),
        format!("--property=CPUQuota={}%", u64::from(label.size.cpus) * 100),
        format!("--property=MemoryMax={}", label.size.memory.bytes()),
        format!("--setenv=PATH={}", exec::PATH),
    ];
    args.extend(isolation::device_properties(cgroup));
    args.extend(ENVIRONMENT.map(|(name, value)| format!("--setenv={name}={value}")));
    args.extend(becoming(home, label));
    args
}

/// Waits until systemd knows nothing of a machine that has ended: until then its name is taken.
pub(super) fn forget(cluster: &ClusterName, machine: &MachineName) -> Result<(), DriverError> {
    let unit = names::unit(cluster, machine);
    let begun = Instant::now();
    while is_known(&unit)? {
        if begun.elapsed() > KILLED {
            return Err(DriverError::Left(unit));
        }
        // One that is not loaded any more is as wanted.
        let _ = exec::run("systemctl", &["stop", "--quiet", &unit]);
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn is_known(unit: &str) -> Result<bool, DriverError> {
    let state = exec::run(
        "systemctl",
        &["show", "--property=LoadState", "--value", unit],
    )?;
    Ok(state.trim() != "not-found")
}

#[cfg(test)]
mod tests {
    use mullion_plan::{Fingerprint, Size, TemplateId};
    use mullion_spec::value::ByteSize;

    use super::super::place::LabelVersion;
    use super::*;

    #[test]
    fn as_a_service_a_machine_has_its_size_and_is_started_anew_when_it_wants_to_be() {
        let home = Home {
            folder: "/place/m".into(),
        };
        let label = Label {
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
            identity: None,
        };
        let args = service(&home, &label, 8192, Cgroup::V2);
        for wanted in [
            "--unit=mullion-dev.lin1.service",
            "--property=Delegate=yes",
            "--property=CPUQuota=200%",
            "--property=MemoryMax=2147483648",
            "--property=RestartForceExitStatus=133",
            "--property=TasksMax=8192",
            "--property=DevicePolicy=closed",
            "lowerdir=/templates/linux/root,upperdir=/place/m/disk/upper,workdir=/place/m/disk/work",
            "--directory=/place/m/disk/root",
            "--hostname=lin1",
            "--bind=/place/m/disk/etcd:/var/lib/etcd",
        ] {
            assert!(args.iter().any(|arg| arg == wanted), "{wanted}: {args:#?}");
        }
        assert_eq!(args.last().unwrap(), "--boot");
    }
}
