//! The gateway in front of a real containerd, with real containers.
//!
//! Programs and images are the parts of a Linux template, in the folder that `MULLION_TEST_PARTS` names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::containerd::{Containerd, PODS_OF_TESTS, groups_of_pods, number};
use super::stage::{Stage, of_images, of_runtime};
use crate::cri::v1::*;
use crate::cri::{Images, Map, OsVersion};
use crate::drive::Drive;

const WINDOWS: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0-windows";
const LOCAL: &str = "mullion.dev/stand-in/agnhost:1";

fn pod(name: &str, is_host_process: bool) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: name.into(),
            uid: number(name),
            namespace: "default".into(),
            attempt: 0,
        }),
        log_directory: format!(r"\var\log\pods\default_{name}_1"),
        linux: Some(LinuxPodSandboxConfig {
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(NamespaceOption {
                    network: NamespaceMode::Node.into(),
                    ..NamespaceOption::default()
                }),
                ..LinuxSandboxSecurityContext::default()
            }),
            ..LinuxPodSandboxConfig::default()
        }),
        windows: Some(WindowsPodSandboxConfig {
            security_context: Some(WindowsSandboxSecurityContext {
                host_process: is_host_process,
                ..WindowsSandboxSecurityContext::default()
            }),
        }),
        ..PodSandboxConfig::default()
    }
}

fn container(image: &str, line: &str, is_host_process: bool) -> ContainerConfig {
    ContainerConfig {
        metadata: Some(ContainerMetadata {
            name: "main".into(),
            attempt: 0,
        }),
        image: Some(ImageSpec {
            image: image.into(),
            user_specified_image: WINDOWS.into(),
            ..ImageSpec::default()
        }),
        command: vec!["cmd".into(), "/c".into(), line.into()],
        log_path: r"main\0.log".into(),
        mounts: vec![Mount {
            host_path: r"C:\CONFIG".into(),
            container_path: r"C:\config".into(),
            readonly: true,
            ..Mount::default()
        }],
        windows: Some(WindowsContainerConfig {
            resources: Some(WindowsContainerResources {
                cpu_maximum: 5_000,
                memory_limit_in_bytes: 256 << 20,
                ..WindowsContainerResources::default()
            }),
            security_context: Some(WindowsContainerSecurityContext {
                host_process: is_host_process,
                ..WindowsContainerSecurityContext::default()
            }),
        }),
        ..ContainerConfig::default()
    }
}

/// A pod with one container: both their numbers.
async fn start(
    stage: &Stage,
    image: &str,
    name: &str,
    line: &str,
    is_host_process: bool,
) -> (String, String) {
    let config = pod(name, is_host_process);
    let run = RunPodSandboxRequest {
        config: Some(config.clone()),
        runtime_handler: "runhcs-wcow-process".into(),
    };
    let answer: RunPodSandboxResponse =
        stage.ask(&of_runtime("RunPodSandbox"), &run).await.unwrap();
    let sandbox = answer.pod_sandbox_id;
    let create = CreateContainerRequest {
        pod_sandbox_id: sandbox.clone(),
        config: Some(container(image, line, is_host_process)),
        sandbox_config: Some(config),
    };
    let answer: CreateContainerResponse = stage
        .ask(&of_runtime("CreateContainer"), &create)
        .await
        .unwrap();
    let container_id = answer.container_id;
    let begin = StartContainerRequest {
        container_id: container_id.clone(),
    };
    let _: StartContainerResponse = stage
        .ask(&of_runtime("StartContainer"), &begin)
        .await
        .unwrap();
    (sandbox, container_id)
}

async fn remove(stage: &Stage, sandbox: &str) {
    let pod_sandbox_id = sandbox.to_owned();
    let stop = StopPodSandboxRequest {
        pod_sandbox_id: pod_sandbox_id.clone(),
    };
    let _: StopPodSandboxResponse = stage
        .ask(&of_runtime("StopPodSandbox"), &stop)
        .await
        .unwrap();
    let remove = RemovePodSandboxRequest { pod_sandbox_id };
    let _: RemovePodSandboxResponse = stage
        .ask(&of_runtime("RemovePodSandbox"), &remove)
        .await
        .unwrap();
}

async fn sandbox_status(stage: &Stage, sandbox: &str) -> PodSandboxStatus {
    let request = PodSandboxStatusRequest {
        pod_sandbox_id: sandbox.into(),
        verbose: false,
    };
    let answer: PodSandboxStatusResponse = stage
        .ask(&of_runtime("PodSandboxStatus"), &request)
        .await
        .unwrap();
    answer.status.unwrap()
}

async fn exec(stage: &Stage, container: &str, line: &str) -> ExecSyncResponse {
    let request = ExecSyncRequest {
        container_id: container.into(),
        cmd: vec!["cmd.exe".into(), "/c".into(), line.into()],
        timeout: 20,
    };
    stage.ask(&of_runtime("ExecSync"), &request).await.unwrap()
}

/// The file that a Windows path of kubelet's is, once it says what is expected.
async fn read_log(drive: &Path, path: &str, expected: &str) -> String {
    let place = path.strip_prefix(r"C:\").expect("a Windows path");
    let file = drive.join(place.replace('\\', "/"));
    for _ in 0..100 {
        let text = fs_err::read_to_string(&file).unwrap_or_default();
        if text.contains(expected) {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} never said {expected}", file.display());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root and the parts of a template in MULLION_TEST_PARTS; cargo xtask test --slow runs it"]
async fn windows_pods_run_on_a_real_containerd() {
    let parts = std::env::var("MULLION_TEST_PARTS").expect("MULLION_TEST_PARTS");
    let parts = Path::new(&parts);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    let containerd = Containerd::start(parts, &place);
    for image in ["pause", "agnhost"] {
        let archive = parts.join("images").join(format!("{image}.tar"));
        let archive = archive.display().to_string();
        containerd.ctr(&["images", "import", &archive]).unwrap();
    }
    let agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
    containerd.ctr(&["images", "tag", agnhost, LOCAL]).unwrap();
    let drive = place.join("drive");
    fs_err::write(drive.join("config/key"), "from the drive\n").unwrap();
    let table = format!(
        "[[image]]\nname = \"{WINDOWS}\"\nlocal = \"{LOCAL}\"\nos-version = \"10.0.20348.1\"\n"
    );
    let found = Drive::open(&drive).unwrap();
    let map = Map::new(
        found.folder().display().to_string(),
        {
            let found = found.clone();
            move |path| Ok(found.locate(path)?.display().to_string())
        },
        OsVersion::of_build(20_348, 3807),
        2,
        Images::parse(&table).unwrap(),
    );
    let stage = Stage::around(folder, map).await;

    the_runtime_speaks(&stage).await;
    let image = the_image_is_windows(&stage).await;
    a_pod_runs(&stage, &image, found.folder()).await;
    host_process_runs(&stage, &image).await;
    drop(containerd);
}

async fn the_runtime_speaks(stage: &Stage) {
    let version: VersionResponse = stage
        .ask(&of_runtime("Version"), &VersionRequest::default())
        .await
        .unwrap();
    assert_eq!(version.runtime_name, "containerd");
    let status: StatusResponse = stage
        .ask(&of_runtime("Status"), &StatusRequest { verbose: true })
        .await
        .unwrap();
    let conditions = status.status.unwrap().conditions;
    assert!(
        conditions
            .iter()
            .any(|condition| condition.r#type == "RuntimeReady" && condition.status)
    );
    assert!(status.info["system"].contains("10.0.20348.3807"));
    let config: RuntimeConfigResponse = stage
        .ask(&of_runtime("RuntimeConfig"), &RuntimeConfigRequest {})
        .await
        .unwrap();
    assert_eq!(config.linux, None);
    let store: ImageFsInfoResponse = stage
        .ask(&of_images("ImageFsInfo"), &ImageFsInfoRequest {})
        .await
        .unwrap();
    let store = store.image_filesystems[0].fs_id.clone().unwrap();
    assert_eq!(store.mountpoint, r"C:\");
}

async fn the_image_is_windows(stage: &Stage) -> String {
    let spec = |name: &str| {
        Some(ImageSpec {
            image: name.into(),
            ..ImageSpec::default()
        })
    };
    let request = ImageStatusRequest {
        image: spec(WINDOWS),
        verbose: true,
    };
    let status: ImageStatusResponse = stage
        .ask(&of_images("ImageStatus"), &request)
        .await
        .unwrap();
    assert!(
        status.info["info"].contains(r#""os":"windows""#),
        "{:?}",
        status.info
    );
    let image = status.image.unwrap();
    assert_eq!(image.repo_tags, [WINDOWS]);
    let list: ListImagesResponse = stage
        .ask(&of_images("ListImages"), &ListImagesRequest::default())
        .await
        .unwrap();
    let tags: Vec<_> = list
        .images
        .iter()
        .flat_map(|image| &image.repo_tags)
        .collect();
    assert_eq!(tags, [WINDOWS], "Linux' own are not told");
    let pull = PullImageRequest {
        image: spec(WINDOWS),
        ..PullImageRequest::default()
    };
    let pulled: PullImageResponse = stage.ask(&of_images("PullImage"), &pull).await.unwrap();
    assert_eq!(pulled.image_ref, image.id);
    image.id
}

async fn a_pod_runs(stage: &Stage, image: &str, drive: &Path) {
    let line = "cat /config/key; echo err >&2; exec sleep 600";
    let (sandbox, container) = start(stage, image, PODS_OF_TESTS[0], line, false).await;
    let status = sandbox_status(stage, &sandbox).await;
    let address = status.network.unwrap().ip;
    assert!(
        address.starts_with("10.77.0."),
        "a pod's address: {address}"
    );
    let options = status.linux.unwrap().namespaces.unwrap().options.unwrap();
    assert_eq!(
        options.network(),
        NamespaceMode::Node,
        "as it was asked for"
    );
    assert!(status.annotations.is_empty(), "{:?}", status.annotations);

    let request = ContainerStatusRequest {
        container_id: container.clone(),
        verbose: false,
    };
    let status: ContainerStatusResponse = stage
        .ask(&of_runtime("ContainerStatus"), &request)
        .await
        .unwrap();
    let status = status.status.unwrap();
    assert_eq!(
        status.state(),
        ContainerState::ContainerRunning,
        "{status:?}"
    );
    assert_eq!(status.log_path, r"C:\var\log\pods\default_web_1\main\0.log");
    assert_eq!(status.mounts[0].container_path, r"C:\config");
    assert_eq!(status.image.unwrap().image, WINDOWS);
    let resources = status.resources.unwrap().windows.unwrap();
    assert_eq!(
        (resources.cpu_maximum, resources.memory_limit_in_bytes),
        (5_000, 256 << 20)
    );
    let log = read_log(drive, &status.log_path, "stderr F err").await;
    assert!(log.contains("stdout F from the drive"), "{log}");

    let answer = exec(stage, &container, "echo out; exit 3").await;
    assert_eq!(
        (answer.stdout.as_slice(), answer.exit_code),
        (&b"out\n"[..], 3)
    );
    let request = ExecRequest {
        container_id: container.clone(),
        cmd: vec!["cmd".into()],
        stdout: true,
        ..ExecRequest::default()
    };
    let answer: ExecResponse = stage.ask(&of_runtime("Exec"), &request).await.unwrap();
    assert!(
        answer.url.starts_with("http://127.0.0.1:"),
        "{}",
        answer.url
    );

    figures_are_windows(stage).await;
    remove(stage, &sandbox).await;
    assert_eq!(groups_of_pods(), Vec::<PathBuf>::new(), "they are gone");
}

async fn figures_are_windows(stage: &Stage) {
    let stats: ListContainerStatsResponse = stage
        .ask(
            &of_runtime("ListContainerStats"),
            &ListContainerStatsRequest::default(),
        )
        .await
        .unwrap();
    let memory = stats.stats[0].memory.unwrap();
    assert!(memory.working_set_bytes.unwrap().value > 0);
    let stats: ListPodSandboxStatsResponse = stage
        .ask(
            &of_runtime("ListPodSandboxStats"),
            &ListPodSandboxStatsRequest::default(),
        )
        .await
        .unwrap();
    let windows = stats.stats[0].windows.clone().unwrap();
    assert_eq!(windows.containers.len(), 1);
    assert!(windows.memory.is_some() && windows.network.is_some());
}

async fn host_process_runs(stage: &Stage, image: &str) {
    let (sandbox, container) = start(stage, image, PODS_OF_TESTS[1], "exec sleep 600", true).await;
    let options = sandbox_status(stage, &sandbox).await.linux.unwrap();
    let options = options.namespaces.unwrap().options.unwrap();
    assert_eq!(options.network(), NamespaceMode::Node);
    // The machine's drive, its network and its processes.
    let answer = exec(
        stage,
        &container,
        "cat /mnt/c/config/key; ls /sys/class/net; cat /proc/1/comm",
    )
    .await;
    let said = String::from_utf8(answer.stdout).unwrap();
    assert!(said.starts_with("from the drive\n"), "{said}");
    assert!(
        said.contains("cni0") && said.contains("containerd"),
        "{said}"
    );
    remove(stage, &sandbox).await;
}
