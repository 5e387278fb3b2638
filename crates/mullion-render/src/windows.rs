//! The blueprint of a Windows worker: programs, containerd, kubelet as a service.
//!
//! Paths are written with their drive: without one, Windows takes the drive that a program happens to be on. What
//! stands in for Windows gets the same document but for the inputs in the catalog's table of its driver.

use std::collections::{BTreeMap, BTreeSet};

use mullion_catalog::{BinKey, Catalog};
use mullion_spec::cluster::Duty;
use mullion_spec::value::MachineName;
use mullion_spec::words::Cni;
use mullion_wire::{
    Blueprint, Definition, Exclusions, File, Folder, Recovery, Service, ServiceState, Start,
    Windows,
};
use serde_json::json;

use crate::error::RenderError;
use crate::objects::flannel;
use crate::setting::{Seat, Setting};
use crate::system::text_file;

/// Where Kubernetes' programs are, and what the machine's `Path` leads to.
const PROGRAMS: &str = "C:/k";
const CONTAINERD: &str = "C:/Program Files/containerd";
const CONTAINERD_CONFIG: &str = "C:/Program Files/containerd/config.toml";
const PLUGINS: &str = "C:/opt/cni/bin";
const NETWORKS: &str = "C:/etc/cni/net.d";
/// Where kubelet and kubeadm reach the container runtime.
pub(crate) const PIPE: &str = "npipe:////./pipe/containerd-containerd";
pub(crate) const PATCHES_FOLDER: &str = "C:/etc/kubernetes/patches";
/// flannel's settings, the same as on Linux machines.
pub const NETWORK_SETTINGS: &str = "C:/etc/kube-flannel/net-conf.json";

/// The flags of kube-router, on a stand-in alone: its Linux twin reads them.
const POLICY_FLAGS: &str = "C:/etc/kube-router/flags";

/// Folders that programs expect and do not make.
const FOLDERS: [&str; 10] = [
    "C:/etc/cni/net.d",
    "C:/etc/kubernetes",
    "C:/k",
    "C:/opt/cni/bin",
    "C:/var/lib/kubelet",
    "C:/var/log/containerd",
    "C:/var/log/containers",
    "C:/var/log/kubelet",
    "C:/var/log/pods",
    "C:/run/flannel",
];

/// How the artifact is called that takes another's place on a stand-in.
const STAND_IN: &str = "-stand-in";

/// Kubernetes' programs, by the names of their artifacts.
const NODE_PROGRAMS: [&str; 4] = ["kubeadm", "kubelet", "kube-proxy", "kube-log-runner"];
const RUNTIME_PROGRAMS: [&str; 3] = ["containerd", "containerd-shim-runhcs-v1", "ctr"];

/// The preflight errors that are expected, by kubeadm's names for them. kubeadm knows no way to a container runtime but
/// pipes, and a stand-in's is reached otherwise; there everybody may do everything, and nobody is called elevated.
pub(crate) fn expected_preflight_errors(seat: Seat<'_>) -> BTreeSet<String> {
    let names: &[&str] = if seat.differs().is_some() {
        &["CRI", "ContainerRuntimeVersion", "IsPrivilegedUser"]
    } else {
        &[]
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The blueprint of a Windows worker.
pub fn windows_blueprint(
    setting: &Setting<'_>,
    machine: &MachineName,
) -> Result<Blueprint, RenderError> {
    let seat = setting.windows_seat(machine)?;
    if seat.group.duty != Duty::Worker {
        return Err(RenderError::OtherDuty {
            machine: machine.clone(),
            wanted: Duty::Worker,
        });
    }
    let mut files = programs(setting, seat)?;
    files.push(text_file(CONTAINERD_CONFIG, containerd_config(setting)?));
    files.push(text_file(
        format!("{PATCHES_FOLDER}/kubeletconfiguration!ground+merge.json"),
        format!("{:#}\n", kubelet_patch(seat)),
    ));
    if setting.cluster().network.cni == Cni::Flannel {
        let network = format!("{:#}\n", flannel::network(setting));
        files.push(text_file(NETWORK_SETTINGS, network));
        if seat.differs().is_some() && setting.cluster().network.policy {
            let flags = crate::objects::policy::flags(setting).join("\n");
            files.push(text_file(POLICY_FLAGS, format!("{flags}\n")));
        }
    }
    for copy in &seat.group.files {
        files.push(File {
            path: copy.to.clone(),
            content: setting.contents_of(&copy.from)?,
            mode: copy.mode.unwrap_or(0o644),
        });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let folders = FOLDERS.map(|path| Folder {
        path: path.into(),
        mode: 0o755,
    });
    Ok(Blueprint {
        version: mullion_wire::VERSION,
        machine: seat.name.to_string(),
        packages: vec![],
        modules: [].into(),
        sysctls: BTreeMap::new(),
        folders: folders.into(),
        files,
        services: vec![containerd_service(seat), kubelet_service(seat)],
        firewall: crate::system::firewall(setting, seat),
        windows: Some(windows(seat)),
    })
}

/// Where a Windows machine has the program of an artifact.
pub fn windows_program_path(artifact: &str) -> String {
    let name = artifact.strip_suffix(STAND_IN).unwrap_or(artifact);
    let is_plugin = |plugin: &String| plugin == name;
    let folder = if RUNTIME_PROGRAMS.contains(&name) {
        CONTAINERD
    } else if Catalog::builtin()
        .cni_plugins()
        .windows
        .iter()
        .any(is_plugin)
    {
        PLUGINS
    } else {
        PROGRAMS
    };
    format!("{folder}/{name}.exe")
}

fn programs(setting: &Setting<'_>, seat: Seat<'_>) -> Result<Vec<File>, RenderError> {
    let mut files = Vec::new();
    let mut put = |artifact: &str| {
        files.push(File {
            path: windows_program_path(artifact),
            content: setting.windows_program(artifact)?,
            mode: 0o644,
        });
        Ok(())
    };
    for name in NODE_PROGRAMS {
        let stand_in = format!("{name}{STAND_IN}");
        let is_other = seat.differs().is_some() && setting.windows_programs.contains_key(&stand_in);
        put(if is_other { &stand_in } else { name })?;
    }
    for name in RUNTIME_PROGRAMS {
        put(name)?;
    }
    if setting.cluster().network.cni == Cni::Flannel {
        put("flanneld")?;
        for plugin in &Catalog::builtin().cni_plugins().windows {
            put(plugin)?;
        }
    }
    Ok(files)
}

/// containerd's own small file; single quotes, in which a backslash is one.
fn containerd_config(setting: &Setting<'_>) -> Result<String, RenderError> {
    let line = setting.containerd_line()?;
    let pause = setting.image("pause-image")?;
    let plugins = match line.bin_key {
        BinKey::BinDir => format!("'{PLUGINS}'"),
        BinKey::BinDirs => format!("['{PLUGINS}']"),
    };
    let (sandbox, key) = line
        .sandbox_key
        .rsplit_once('.')
        .unwrap_or(("", &line.sandbox_key));
    Ok(format!(
        "\
# Written by Mullion.
version = {version}
root = 'C:/ProgramData/containerd/root'
state = 'C:/ProgramData/containerd/state'

[grpc]
address = '\\\\.\\pipe\\containerd-containerd'

[{cni}]
{bin_key} = {plugins}
conf_dir = '{NETWORKS}'

[{sandbox}]
{key} = '{pause}'
",
        version = line.config_version,
        cni = line.cni_table,
        bin_key = line.bin_key.key(),
    ))
}

/// What of kubelet's configuration depends on the system: there are no control groups, and DNS is Windows' own matter.
fn kubelet_patch(seat: Seat<'_>) -> serde_json::Value {
    let mut patch = json!({
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "resolvConf": "",
    });
    if seat.differs().is_some() {
        // The disk is the computer's own, as that of every system container.
        patch["imageGCHighThresholdPercent"] = 100.into();
        patch["evictionHard"] = json!({
            "imagefs.available": "0%",
            "memory.available": "100Mi",
            "nodefs.available": "0%",
        });
    }
    patch
}

fn containerd_service(seat: Seat<'_>) -> Service {
    let command = format!(
        "\"{}\\containerd.exe\" --config \"{}\" --log-file C:\\var\\log\\containerd\\containerd.log --run-service",
        backward(CONTAINERD),
        backward(CONTAINERD_CONFIG)
    );
    Service {
        name: "containerd".into(),
        after: [].into(),
        restarted_by: [
            CONTAINERD_CONFIG.to_owned(),
            format!("{CONTAINERD}/containerd.exe"),
        ]
        .into(),
        state: state(seat, "containerd", ServiceState::Running),
        definition: Some(Definition {
            display_name: "containerd".into(),
            command,
            depends_on: [].into(),
            start: Start::Automatic,
            recovery: recovery(),
            environment: BTreeMap::new(),
        }),
    }
}

/// A service of its own, so that Windows tells it when the machine shuts down; what it writes goes through
/// `kube-log-runner`, since it writes to no file itself.
fn kubelet_service(seat: Seat<'_>) -> Service {
    let programs = backward(PROGRAMS);
    let mut command = vec![
        format!("{programs}\\kube-log-runner.exe"),
        "-log-file=C:\\var\\log\\kubelet\\kubelet.log".into(),
        "-log-file-size=50M".into(),
        "-log-file-age=168h".into(),
        format!("{programs}\\kubelet.exe"),
        "--windows-service".into(),
        "--config=C:\\var\\lib\\kubelet\\config.yaml".into(),
        "--bootstrap-kubeconfig=C:\\etc\\kubernetes\\bootstrap-kubelet.conf".into(),
        "--kubeconfig=C:\\etc\\kubernetes\\kubelet.conf".into(),
        // Without the drive kubelet looks below the folder of its kubeconfig.
        "--cert-dir=C:\\var\\lib\\kubelet\\pki".into(),
        format!("--hostname-override={}", seat.name),
        format!("--node-ip={}", seat.address),
        // Pods must not starve it.
        "--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS".into(),
    ];
    if !seat.group.taints.is_empty() {
        // kubeadm writes them into a file that only systemd's unit reads.
        let taints = seat.group.taints.iter().map(ToString::to_string);
        let taints: Vec<_> = taints.collect();
        command.push(format!("--register-with-taints={}", taints.join(",")));
    }
    if let Some(differs) = seat.differs() {
        // A flag holds before what kubeadm writes down.
        command.push(format!("--container-runtime-endpoint={}", differs.cri()));
    }
    // What is carried does not run.
    let depends_on = match seat.differs() {
        Some(differs) if differs.carried.iter().any(|name| name == "containerd") => [].into(),
        _ => ["containerd".to_owned()].into(),
    };
    Service {
        name: "kubelet".into(),
        after: ["containerd".to_owned()].into(),
        restarted_by: [
            format!("{PROGRAMS}/kubelet.exe"),
            format!("{PROGRAMS}/kube-log-runner.exe"),
        ]
        .into(),
        // kubeadm starts it.
        state: ServiceState::Enabled,
        definition: Some(Definition {
            display_name: "kubelet".into(),
            command: command.join(" "),
            depends_on,
            start: Start::Automatic,
            recovery: recovery(),
            environment: BTreeMap::new(),
        }),
    }
}

fn recovery() -> Recovery {
    Recovery {
        restart_after_ms: vec![1_000, 5_000, 10_000],
        reset_after_s: 600,
    }
}

/// What is carried is laid down and not started.
fn state(seat: Seat<'_>, service: &str, usual: ServiceState) -> ServiceState {
    let is_carried = seat
        .differs()
        .is_some_and(|differs| differs.carried.iter().any(|name| name == service));
    if is_carried {
        ServiceState::Stopped
    } else {
        usual
    }
}

fn windows(seat: Seat<'_>) -> Windows {
    let mut windows = Windows {
        path: vec![backward(PROGRAMS), backward(CONTAINERD)],
        ..Windows::default()
    };
    if seat.differs().is_none() {
        windows.features = ["Containers".to_owned()].into();
        windows.exclusions = Exclusions {
            paths: [
                "C:\\ProgramData\\containerd",
                "C:\\var\\lib\\kubelet",
                "C:\\var\\log",
            ]
            .map(str::to_owned)
            .into(),
            processes: [
                format!("{}\\containerd.exe", backward(CONTAINERD)),
                format!("{}\\kubelet.exe", backward(PROGRAMS)),
            ]
            .into(),
        };
    }
    windows
}

/// The path as Windows' own programs write it.
fn backward(path: &str) -> String {
    path.replace('/', "\\")
}
