//! Pods.
//!
//! kubelet.exe sends a section for Linux beside the one for Windows. On Windows nobody obeys it, so nothing of it is
//! passed on: groups, system settings, profiles and the machine's network are asked for in vain. A pod is in the
//! machine's network only with `HostProcess`, as with containerd on Windows.
//!
//! What was asked for must be given back all the same: kubelet makes a pod anew when its sandbox says another network
//! than its manifest does. An annotation keeps it, which nobody but us gets to see.

use std::collections::BTreeMap;

use super::{Map, Refusal};
use crate::cri::groups;
use crate::cri::v1::{
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, ListPodSandboxResponse, NamespaceMode,
    NamespaceOption, PodSandboxConfig, PodSandboxStatus, PodSandboxStatusResponse,
    RunPodSandboxRequest, StreamPodSandboxesResponse,
};

/// Keeps which network was asked for.
const ASKED_NETWORK: &str = "mullion.dev/stand-in-asked-network";

/// What containerd on Windows calls its usual runtime. The Linux one has another name, and is its default.
pub(super) const WINDOWS_RUNTIME: &str = "runhcs-wcow-process";

/// The name of a runtime, for Linux.
pub(super) fn usual_runtime(name: &mut String) {
    if name == WINDOWS_RUNTIME {
        name.clear();
    }
}

/// Annotations as everyone else may see them.
pub(super) fn hide(annotations: &mut BTreeMap<String, String>) {
    annotations.remove(ASKED_NETWORK);
}

/// Which name spaces a pod or a container has: the machine's, or its own.
pub(super) fn namespaces(is_host_process: bool) -> NamespaceOption {
    let (network, pid, ipc) = if is_host_process {
        (
            NamespaceMode::Node,
            NamespaceMode::Node,
            NamespaceMode::Node,
        )
    } else {
        (
            NamespaceMode::Pod,
            NamespaceMode::Container,
            NamespaceMode::Pod,
        )
    };
    NamespaceOption {
        network: network.into(),
        pid: pid.into(),
        ipc: ipc.into(),
        ..NamespaceOption::default()
    }
}

/// A pod's state, on the way back.
fn sandbox_state(status: &mut PodSandboxStatus) {
    let asked = status.annotations.remove(ASKED_NETWORK);
    let asked = asked.and_then(|asked| asked.parse().ok());
    let options = status
        .linux
        .as_mut()
        .and_then(|linux| linux.namespaces.as_mut()?.options.as_mut());
    if let (Some(asked), Some(options)) = (asked, options) {
        options.network = asked;
    }
}

impl Map {
    /// A pod, for Linux.
    pub(super) fn sandbox(&self, config: &mut PodSandboxConfig) -> Result<(), Refusal> {
        config.log_directory = self.to_machine(&config.log_directory)?;
        let asked = config
            .linux
            .take()
            .and_then(|linux| linux.security_context?.namespace_options);
        let asked = asked.map_or(0, |options| options.network);
        config
            .annotations
            .insert(ASKED_NETWORK.into(), asked.to_string());
        let windows = config.windows.take().and_then(|it| it.security_context);
        let is_host_process = windows.is_some_and(|context| context.host_process);
        if config.hostname.is_empty() && !is_host_process {
            // kubelet leaves it out for what it believes to be in the machine's network.
            let name = config.metadata.as_ref().map(|metadata| &metadata.name);
            config.hostname = name.cloned().unwrap_or_default();
        }
        let number = config.metadata.as_ref().map(|metadata| &*metadata.uid);
        config.linux = Some(LinuxPodSandboxConfig {
            cgroup_parent: number.and_then(groups::of_pod).unwrap_or_default(),
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces(is_host_process)),
                privileged: is_host_process,
                ..LinuxSandboxSecurityContext::default()
            }),
            ..LinuxPodSandboxConfig::default()
        });
        Ok(())
    }

    /// `RunPodSandbox`
    pub(in crate::cri) fn run(&self, request: &mut RunPodSandboxRequest) -> Result<(), Refusal> {
        let config = request.config.as_mut();
        self.sandbox(config.ok_or(Refusal::Missing("sandbox"))?)?;
        usual_runtime(&mut request.runtime_handler);
        Ok(())
    }

    /// `PodSandboxStatus`, and what events tell of a pod.
    pub(in crate::cri) fn sandbox_status(&self, response: &mut PodSandboxStatusResponse) {
        self.pod(response.status.as_mut(), &mut response.containers_statuses);
    }

    /// A pod's state with its containers'.
    pub(super) fn pod(
        &self,
        status: Option<&mut PodSandboxStatus>,
        containers: &mut [crate::cri::v1::ContainerStatus],
    ) {
        if let Some(status) = status {
            sandbox_state(status);
        }
        for container in containers {
            self.container_state(container);
        }
    }
}

/// `ListPodSandbox`
pub(in crate::cri) fn list(response: &mut ListPodSandboxResponse) {
    for item in &mut response.items {
        hide(&mut item.annotations);
    }
}

/// `StreamPodSandboxes`
pub(in crate::cri) fn stream(response: &mut StreamPodSandboxesResponse) {
    for item in &mut response.pod_sandboxes {
        hide(&mut item.annotations);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::map;
    use super::*;
    use crate::cri::v1::{
        LinuxPodSandboxStatus, Namespace, PodSandboxMetadata, WindowsPodSandboxConfig,
        WindowsSandboxSecurityContext,
    };

    /// A pod as kubelet.exe sends it.
    fn pod(network: NamespaceMode, is_host_process: bool) -> RunPodSandboxRequest {
        RunPodSandboxRequest {
            config: Some(PodSandboxConfig {
                metadata: Some(PodSandboxMetadata {
                    name: "web".into(),
                    uid: "1-2".into(),
                    ..PodSandboxMetadata::default()
                }),
                log_directory: r"\var\log\pods\default_web_1".into(),
                annotations: [("kept".to_owned(), "1".to_owned())].into(),
                linux: Some(LinuxPodSandboxConfig {
                    cgroup_parent: "/elsewhere".into(),
                    sysctls: [("net.core.somaxconn".to_owned(), "1".to_owned())].into(),
                    security_context: Some(LinuxSandboxSecurityContext {
                        namespace_options: Some(NamespaceOption {
                            network: network.into(),
                            ..NamespaceOption::default()
                        }),
                        supplemental_groups: vec![7],
                        privileged: true,
                        readonly_rootfs: true,
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
            }),
            runtime_handler: WINDOWS_RUNTIME.into(),
        }
    }

    #[test]
    fn only_host_process_is_in_the_machines_network() {
        for (network, is_host_process, expected) in [
            (NamespaceMode::Pod, false, NamespaceMode::Pod),
            (NamespaceMode::Node, false, NamespaceMode::Pod),
            (NamespaceMode::Node, true, NamespaceMode::Node),
        ] {
            let mut request = pod(network, is_host_process);
            map().run(&mut request).unwrap();
            assert_eq!(request.runtime_handler, "");
            let config = request.config.unwrap();
            assert_eq!(config.log_directory, "/srv/c/var/log/pods/default_web_1");
            assert_eq!(config.windows, None);
            let linux = config.linux.unwrap();
            assert_eq!(
                linux.cgroup_parent, "/mullion-pods/pod1-2",
                "its own, not kubelet's"
            );
            assert!(linux.sysctls.is_empty());
            let context = linux.security_context.unwrap();
            assert_eq!(context.privileged, is_host_process);
            assert!(context.supplemental_groups.is_empty() && !context.readonly_rootfs);
            let options = context.namespace_options.unwrap();
            assert_eq!(options.network(), expected);

            // On the way back kubelet finds what it asked for.
            let mut response = PodSandboxStatusResponse {
                status: Some(PodSandboxStatus {
                    annotations: config.annotations,
                    linux: Some(LinuxPodSandboxStatus {
                        namespaces: Some(Namespace {
                            options: Some(options),
                        }),
                    }),
                    ..PodSandboxStatus::default()
                }),
                ..PodSandboxStatusResponse::default()
            };
            map().sandbox_status(&mut response);
            let status = response.status.unwrap();
            assert_eq!(status.annotations, [("kept".into(), "1".into())].into());
            let options = status.linux.unwrap().namespaces.unwrap().options.unwrap();
            assert_eq!(options.network(), network);
        }
    }

    #[test]
    fn a_pod_has_a_name_though_kubelet_gave_it_none() {
        let mut request = pod(NamespaceMode::Node, false);
        map().run(&mut request).unwrap();
        assert_eq!(request.config.unwrap().hostname, "web");
    }

    #[test]
    fn other_runtimes_are_left_to_containerd() {
        let mut request = pod(NamespaceMode::Pod, false);
        request.runtime_handler = "runhcs-wcow-hypervisor".into();
        map().run(&mut request).unwrap();
        assert_eq!(request.runtime_handler, "runhcs-wcow-hypervisor");
    }

    #[test]
    fn a_pod_without_a_section_or_a_folder_passes() {
        let mut bare = RunPodSandboxRequest {
            config: Some(PodSandboxConfig::default()),
            ..RunPodSandboxRequest::default()
        };
        map().run(&mut bare).unwrap();
        assert_eq!(bare.config.unwrap().log_directory, "");
        let missing = map().run(&mut RunPodSandboxRequest::default());
        assert_eq!(missing, Err(Refusal::Missing("sandbox")));
    }

    #[test]
    fn nobody_sees_the_annotation() {
        let mut request = pod(NamespaceMode::Pod, false);
        map().run(&mut request).unwrap();
        let annotations = request.config.unwrap().annotations;
        let item = crate::cri::v1::PodSandbox {
            annotations,
            ..Default::default()
        };
        let mut list = ListPodSandboxResponse {
            items: vec![item.clone()],
        };
        super::list(&mut list);
        let mut stream = StreamPodSandboxesResponse {
            pod_sandboxes: vec![item],
        };
        super::stream(&mut stream);
        for item in list.items.iter().chain(&stream.pod_sandboxes) {
            assert_eq!(item.annotations, [("kept".into(), "1".into())].into());
        }
    }
}
