//! Containers, both ways.

use super::super::tests::map;
use super::*;
use crate::cri::v1::{
    ContainerResources, Device, LinuxContainerResources, LinuxContainerUser, NamespaceMode,
    PodSandboxConfig, WindowsContainerConfig, WindowsContainerResources,
};

const NANO: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

#[allow(
    clippy::unnecessary_wraps,
    reason = "every part of a message may be missing"
)]
fn image(name: &str) -> Option<ImageSpec> {
    Some(ImageSpec {
        image: name.into(),
        ..ImageSpec::default()
    })
}

fn mount(host: &str, container: &str) -> Mount {
    Mount {
        host_path: host.into(),
        container_path: container.into(),
        ..Mount::default()
    }
}

/// A container as kubelet.exe sends it.
fn asked() -> ContainerConfig {
    ContainerConfig {
        image: image(NANO),
        log_path: r"web\0.log".into(),
        windows: Some(WindowsContainerConfig::default()),
        ..ContainerConfig::default()
    }
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "every part of a message may be missing"
)]
fn as_user(name: &str, host_process: bool) -> Option<WindowsContainerConfig> {
    Some(WindowsContainerConfig {
        security_context: Some(WindowsContainerSecurityContext {
            run_as_username: name.into(),
            host_process,
            ..WindowsContainerSecurityContext::default()
        }),
        ..WindowsContainerConfig::default()
    })
}

fn created(config: ContainerConfig) -> Result<ContainerConfig, Refusal> {
    let mut request = CreateContainerRequest {
        config: Some(config),
        sandbox_config: Some(PodSandboxConfig {
            log_directory: r"C:\var\log\pods\p".into(),
            ..PodSandboxConfig::default()
        }),
        ..CreateContainerRequest::default()
    };
    map().create(&mut request)?;
    let sandbox = request.sandbox_config.unwrap();
    assert_eq!(sandbox.log_directory, "/srv/c/var/log/pods/p");
    Ok(request.config.unwrap())
}

#[test]
fn a_container_is_made_for_linux() {
    let mut config = asked();
    config.working_dir = r"C:\app".into();
    config.command = vec!["cmd".into(), "/c".into()];
    config.args = vec!["serve".into(), "web".into()];
    config.devices = vec![Device::default()];
    config.windows = Some(WindowsContainerConfig {
        resources: Some(WindowsContainerResources {
            cpu_maximum: 2_500,
            memory_limit_in_bytes: 1 << 20,
            ..WindowsContainerResources::default()
        }),
        security_context: None,
    });
    config.linux = Some(LinuxContainerConfig {
        security_context: Some(LinuxContainerSecurityContext {
            privileged: true,
            readonly_rootfs: true,
            ..LinuxContainerSecurityContext::default()
        }),
        ..LinuxContainerConfig::default()
    });
    let made = created(config).unwrap();
    assert_eq!(made.image.unwrap().image, "mullion.dev/nano:2022");
    assert_eq!(made.log_path, "web/0.log");
    assert_eq!(made.working_dir, "/app");
    assert_eq!(made.command, ["/bin/sh", "-c", "serve web"]);
    assert!(made.args.is_empty() && made.devices.is_empty());
    assert_eq!(made.windows, None);
    let linux = made.linux.unwrap();
    let resources = linux.resources.unwrap();
    assert_eq!(
        (resources.cpu_quota, resources.memory_limit_in_bytes),
        (100_000, 1 << 20)
    );
    let context = linux.security_context.unwrap();
    assert!(
        !context.privileged && !context.readonly_rootfs,
        "Linux' own wishes are not obeyed"
    );
    assert_eq!(context.run_as_user, None);
}

#[test]
fn arguments_without_a_command_are_the_images() {
    let mut config = asked();
    config.args = vec!["cmd".into(), "/c".into(), "x".into()];
    let made = created(config).unwrap();
    assert!(made.command.is_empty());
    assert_eq!(made.args, ["cmd", "/c", "x"]);
}

#[test]
fn mounts_are_found_on_both_sides() {
    let pods = r"C:\var\lib\kubelet\pods\1";
    let mut config = asked();
    let mut read_only = mount(&format!(r"{pods}\volumes\config"), r"C:\config");
    read_only.readonly = true;
    read_only.propagation = 2;
    read_only.selinux_relabel = true;
    config.mounts = vec![
        read_only,
        mount(
            &format!(r"{pods}\token"),
            r"C:\var\run\secrets\kubernetes.io\serviceaccount",
        ),
        mount(
            &format!(r"{pods}\etc-hosts"),
            r"C:\Windows\System32\drivers\etc\hosts",
        ),
        mount(r"\var\log", "c:/logs"),
        mount("/data", "/data"),
    ];
    let made = created(config.clone()).unwrap();
    let found: Vec<_> = made
        .mounts
        .iter()
        .map(|mount| (mount.host_path.as_str(), mount.container_path.as_str()))
        .collect();
    let machine = "/srv/c/var/lib/kubelet/pods/1";
    assert_eq!(
        found,
        [
            (&*format!("{machine}/volumes/config"), "/config"),
            (
                &*format!("{machine}/token"),
                "/var/run/secrets/kubernetes.io/serviceaccount"
            ),
            (&*format!("{machine}/etc-hosts"), "/etc/hosts"),
            ("/srv/c/var/log", "/logs"),
            ("/srv/c/data", "/data"),
        ]
    );
    assert!(made.mounts[0].readonly);
    assert_eq!(
        (made.mounts[0].propagation, made.mounts[0].selinux_relabel),
        (0, false)
    );

    let mut status = ContainerStatus {
        mounts: made.mounts,
        ..ContainerStatus::default()
    };
    map().container_state(&mut status);
    let back: Vec<_> = status
        .mounts
        .iter()
        .map(|mount| (mount.host_path.clone(), mount.container_path.clone()))
        .collect();
    assert_eq!(
        back[0],
        (format!(r"{pods}\volumes\config"), r"C:\config".into())
    );
    assert_eq!(back[2].1, r"C:\Windows\System32\drivers\etc\hosts");
    assert_eq!(back[4], (r"C:\data".into(), r"C:\data".into()));
}

#[test]
fn mounts_that_cannot_be_are_refused_with_their_reason() {
    for (host, container, words) in [
        (r"\\.\pipe\docker_engine", r"C:\pipe", "is a named pipe"),
        (r"C:\x", r"\\.\pipe\docker_engine", "is a named pipe"),
        (r"D:\x", r"C:\x", "is on another drive"),
        (r"C:\x", r"D:\x", "is on another drive"),
        (r"\\server\share", r"C:\x", "is a share"),
        (r"C:\x", r"C:\", "whole drive"),
        (r"C:\x", r"C:\a\..", "whole drive"),
        (r"C:\x", "", "is empty"),
        (r"C:\a|b", r"C:\x", "no Windows name"),
    ] {
        let mut config = asked();
        config.mounts = vec![mount(host, container)];
        let told = created(config).unwrap_err().to_string();
        assert!(told.contains(words), "{host} at {container}: {told}");
    }
    let mut config = asked();
    config.log_path = r"..\..\x".into();
    assert!(created(config).is_err());
}

#[test]
fn users_of_windows_have_their_like() {
    for (name, number, kept) in [
        ("", None, ""),
        ("ContainerAdministrator", Some(0), ""),
        (r"NT AUTHORITY\SYSTEM", Some(0), ""),
        (r"nt authority\Local service", Some(0), ""),
        ("containeruser", Some(1000), ""),
        ("app", None, "app"),
        (r"CORP\app", None, "app"),
    ] {
        let mut config = asked();
        config.windows = as_user(name, false);
        let context = created(config).unwrap().linux.unwrap().security_context;
        let context = context.unwrap();
        let found = context.run_as_user.map(|user| user.value);
        assert_eq!(
            (found, context.run_as_username.as_str()),
            (number, kept),
            "{name}"
        );
    }
}

#[test]
fn host_process_is_in_the_machine_with_its_drive() {
    let mut config = asked();
    config.image = image("mcr.microsoft.com/windows/nanoserver:1809");
    config.windows = as_user(r"NT AUTHORITY\NetworkService", true);
    let made = created(config).unwrap();
    assert_eq!(
        made.image.unwrap().image,
        "mullion.dev/nano:1809",
        "no build has to match"
    );
    let context = made.linux.unwrap().security_context.unwrap();
    assert!(context.privileged);
    assert_eq!(context.run_as_user.unwrap().value, 0);
    let options = context.namespace_options.unwrap();
    assert_eq!(options.network(), NamespaceMode::Node);
    assert_eq!(options.pid(), NamespaceMode::Node);
    assert_eq!(made.mounts, [mount("/srv/c", "/mnt/c")]);
    let mut status = ContainerStatus {
        mounts: made.mounts,
        ..ContainerStatus::default()
    };
    map().container_state(&mut status);
    assert!(status.mounts.is_empty(), "nobody asked for it");
}

#[test]
fn an_image_for_another_system_does_not_start() {
    let number = format!("sha256:{}", "1".repeat(64));
    for name in ["mcr.microsoft.com/windows/nanoserver:1809", "nginx"] {
        for by_number in [false, true] {
            let mut config = asked();
            config.image = image(if by_number { &number } else { name });
            if by_number {
                config.image.as_mut().unwrap().user_specified_image = name.into();
            }
            let told = created(config).unwrap_err().to_string();
            assert!(
                told.contains("(0xc0370101)") && told.contains(name),
                "{told}"
            );
        }
    }
    let mut config = asked();
    config.image = image(&number);
    config.image.as_mut().unwrap().user_specified_image = NANO.into();
    let made = created(config).unwrap().image.unwrap();
    assert_eq!(
        (made.image, made.user_specified_image.as_str()),
        (number, NANO)
    );
    let mut config = asked();
    config.image = None;
    assert_eq!(created(config), Err(Refusal::Missing("image")));
}

#[test]
fn a_state_is_told_in_windows_words() {
    let digest = format!("sha256:{}", "2".repeat(64));
    let mut response = ContainerStatusResponse {
        status: Some(ContainerStatus {
            log_path: "/srv/c/var/log/pods/p/web/0.log".into(),
            image: image("mullion.dev/nano:2022"),
            image_ref: format!("mullion.dev/nano@{digest}"),
            resources: Some(ContainerResources {
                linux: Some(LinuxContainerResources {
                    cpu_period: 100_000,
                    cpu_quota: 100_000,
                    ..LinuxContainerResources::default()
                }),
                windows: None,
            }),
            user: Some(crate::cri::v1::ContainerUser {
                linux: Some(LinuxContainerUser::default()),
            }),
            ..ContainerStatus::default()
        }),
        ..ContainerStatusResponse::default()
    };
    map().container_status(&mut response);
    let status = response.status.unwrap();
    assert_eq!(status.log_path, r"C:\var\log\pods\p\web\0.log");
    assert_eq!(status.image.unwrap().image, NANO);
    assert_eq!(
        status.image_ref,
        format!("mcr.microsoft.com/windows/nanoserver@{digest}")
    );
    let resources = status.resources.unwrap();
    assert_eq!(resources.linux, None);
    assert_eq!(resources.windows.unwrap().cpu_maximum, 2_500);
    assert_eq!(status.user, None);
}

#[test]
fn events_and_lists_are_told_alike() {
    let container = || Container {
        image: image("mullion.dev/nano:2022"),
        ..Container::default()
    };
    let mut list = ListContainersResponse {
        containers: vec![container()],
    };
    map().containers(&mut list);
    let mut stream = StreamContainersResponse {
        containers: vec![container()],
    };
    map().container_stream(&mut stream);
    for container in list.containers.iter().chain(&stream.containers) {
        assert_eq!(container.image.as_ref().unwrap().image, NANO);
    }
    let mut event = ContainerEventResponse {
        containers_statuses: vec![ContainerStatus {
            log_path: "/srv/c/x.log".into(),
            ..ContainerStatus::default()
        }],
        ..ContainerEventResponse::default()
    };
    map().event(&mut event);
    assert_eq!(event.containers_statuses[0].log_path, r"C:\x.log");
}

#[test]
fn limits_and_checkpoints_are_changed_on_their_way() {
    let mut update = UpdateContainerResourcesRequest {
        windows: Some(WindowsContainerResources {
            memory_limit_in_bytes: 5,
            ..WindowsContainerResources::default()
        }),
        ..UpdateContainerResourcesRequest::default()
    };
    map().update(&mut update);
    assert_eq!(update.windows, None);
    assert_eq!(update.linux.unwrap().memory_limit_in_bytes, 5);
    let mut checkpoint = CheckpointContainerRequest {
        location: r"C:\var\lib\kubelet\checkpoints\a.tar".into(),
        ..CheckpointContainerRequest::default()
    };
    map().checkpoint(&mut checkpoint).unwrap();
    assert_eq!(
        checkpoint.location,
        "/srv/c/var/lib/kubelet/checkpoints/a.tar"
    );
}
