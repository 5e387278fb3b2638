//! Figures: what Linux measured, in the sections that the Windows kubelet reads.

use super::image::store_back;
use super::sandbox::hide;
use crate::cri::v1::{
    ContainerStats, ContainerStatsResponse, CpuUsage, FilesystemUsage, LinuxPodSandboxStats,
    ListContainerStatsResponse, ListPodSandboxStatsResponse, MemoryUsage, NetworkInterfaceUsage,
    NetworkUsage, PodSandboxStats, PodSandboxStatsResponse, ProcessUsage,
    StreamContainerStatsResponse, StreamPodSandboxStatsResponse, WindowsContainerStats,
    WindowsCpuUsage, WindowsFilesystemUsage, WindowsMemoryUsage, WindowsNetworkInterfaceUsage,
    WindowsNetworkUsage, WindowsPodSandboxStats, WindowsProcessUsage,
};

fn cpu(linux: CpuUsage) -> WindowsCpuUsage {
    WindowsCpuUsage {
        timestamp: linux.timestamp,
        usage_core_nano_seconds: linux.usage_core_nano_seconds,
        usage_nano_cores: linux.usage_nano_cores,
    }
}

fn memory(linux: MemoryUsage) -> WindowsMemoryUsage {
    WindowsMemoryUsage {
        timestamp: linux.timestamp,
        working_set_bytes: linux.working_set_bytes,
        available_bytes: linux.available_bytes,
        page_faults: linux.page_faults,
        // What a process may use without asking again: all that it has.
        commit_memory_bytes: linux.usage_bytes,
    }
}

fn interface(linux: NetworkInterfaceUsage) -> WindowsNetworkInterfaceUsage {
    WindowsNetworkInterfaceUsage {
        name: linux.name,
        rx_bytes: linux.rx_bytes,
        rx_packets_dropped: linux.rx_errors,
        tx_bytes: linux.tx_bytes,
        tx_packets_dropped: linux.tx_errors,
    }
}

fn network(linux: NetworkUsage) -> WindowsNetworkUsage {
    WindowsNetworkUsage {
        timestamp: linux.timestamp,
        default_interface: linux.default_interface.map(interface),
        interfaces: linux.interfaces.into_iter().map(interface).collect(),
    }
}

fn processes(linux: ProcessUsage) -> WindowsProcessUsage {
    WindowsProcessUsage {
        timestamp: linux.timestamp,
        process_count: linux.process_count,
    }
}

fn layer(linux: FilesystemUsage) -> WindowsFilesystemUsage {
    WindowsFilesystemUsage {
        timestamp: linux.timestamp,
        fs_id: linux.fs_id,
        used_bytes: linux.used_bytes,
    }
}

fn container(linux: ContainerStats) -> WindowsContainerStats {
    WindowsContainerStats {
        attributes: linux.attributes,
        cpu: linux.cpu.map(cpu),
        memory: linux.memory.map(memory),
        writable_layer: linux.writable_layer.map(layer),
    }
}

fn container_figures(stats: &mut ContainerStats) {
    if let Some(layer) = &mut stats.writable_layer {
        store_back(layer);
    }
    // Windows has neither.
    stats.swap = None;
    stats.io = None;
    if let Some(cpu) = &mut stats.cpu {
        cpu.psi = None;
    }
    if let Some(memory) = &mut stats.memory {
        memory.psi = None;
    }
}

fn pod_figures(stats: &mut PodSandboxStats) {
    if let Some(attributes) = &mut stats.attributes {
        hide(&mut attributes.annotations);
    }
    let Some(linux) = stats.linux.take() else {
        return;
    };
    let LinuxPodSandboxStats {
        cpu: cpu_usage,
        memory: memory_usage,
        network: network_usage,
        process,
        mut containers,
        ..
    } = linux;
    for container in &mut containers {
        container_figures(container);
    }
    stats.windows = Some(WindowsPodSandboxStats {
        cpu: cpu_usage.map(cpu),
        memory: memory_usage.map(memory),
        network: network_usage.map(network),
        process: process.map(processes),
        containers: containers.into_iter().map(container).collect(),
    });
}

/// `ContainerStats`
pub(in crate::cri) fn container_stats(response: &mut ContainerStatsResponse) {
    if let Some(stats) = &mut response.stats {
        container_figures(stats);
    }
}

/// `ListContainerStats`
pub(in crate::cri) fn container_stats_list(response: &mut ListContainerStatsResponse) {
    for stats in &mut response.stats {
        container_figures(stats);
    }
}

/// `StreamContainerStats`
pub(in crate::cri) fn container_stats_stream(response: &mut StreamContainerStatsResponse) {
    for stats in &mut response.container_stats {
        container_figures(stats);
    }
}

/// `PodSandboxStats`
pub(in crate::cri) fn pod_stats(response: &mut PodSandboxStatsResponse) {
    if let Some(stats) = &mut response.stats {
        pod_figures(stats);
    }
}

/// `ListPodSandboxStats`
pub(in crate::cri) fn pod_stats_list(response: &mut ListPodSandboxStatsResponse) {
    for stats in &mut response.stats {
        pod_figures(stats);
    }
}

/// `StreamPodSandboxStats`
pub(in crate::cri) fn pod_stats_stream(response: &mut StreamPodSandboxStatsResponse) {
    for stats in &mut response.pod_sandbox_stats {
        pod_figures(stats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::v1::{
        ContainerAttributes, FilesystemIdentifier, IoUsage, SwapUsage, UInt64Value,
    };

    #[allow(clippy::unnecessary_wraps, reason = "every figure may be missing")]
    fn number(value: u64) -> Option<UInt64Value> {
        Some(UInt64Value { value })
    }

    fn measured() -> ContainerStats {
        ContainerStats {
            attributes: Some(ContainerAttributes {
                id: "c1".into(),
                ..ContainerAttributes::default()
            }),
            cpu: Some(CpuUsage {
                timestamp: 1,
                usage_core_nano_seconds: number(2),
                usage_nano_cores: number(3),
                psi: None,
            }),
            memory: Some(MemoryUsage {
                timestamp: 4,
                working_set_bytes: number(5),
                available_bytes: number(6),
                usage_bytes: number(7),
                page_faults: number(8),
                ..MemoryUsage::default()
            }),
            writable_layer: Some(FilesystemUsage {
                timestamp: 9,
                fs_id: Some(FilesystemIdentifier {
                    mountpoint: "/var/lib/containerd/overlayfs".into(),
                }),
                used_bytes: number(10),
                inodes_used: number(11),
            }),
            swap: Some(SwapUsage::default()),
            io: Some(IoUsage::default()),
        }
    }

    #[test]
    fn a_pods_figures_are_in_the_section_for_windows() {
        let mut response = ListPodSandboxStatsResponse {
            stats: vec![PodSandboxStats {
                linux: Some(LinuxPodSandboxStats {
                    cpu: measured().cpu,
                    memory: measured().memory,
                    network: Some(NetworkUsage {
                        timestamp: 12,
                        default_interface: Some(NetworkInterfaceUsage {
                            name: "eth0".into(),
                            rx_bytes: number(13),
                            rx_errors: number(14),
                            tx_bytes: number(15),
                            tx_errors: number(16),
                        }),
                        interfaces: Vec::new(),
                    }),
                    process: Some(ProcessUsage {
                        timestamp: 17,
                        process_count: number(18),
                    }),
                    containers: vec![measured()],
                    io: None,
                }),
                ..PodSandboxStats::default()
            }],
        };
        pod_stats_list(&mut response);
        let stats = response.stats.remove(0);
        assert_eq!(stats.linux, None);
        let windows = stats.windows.unwrap();
        assert_eq!(windows.cpu.unwrap().usage_nano_cores, number(3));
        let network = windows.network.unwrap().default_interface.unwrap();
        assert_eq!(network.name, "eth0");
        assert_eq!(network.tx_packets_dropped, number(16));
        assert_eq!(windows.process.unwrap().process_count, number(18));
        let container = windows.containers.into_iter().next().unwrap();
        assert_eq!(container.attributes.unwrap().id, "c1");
        assert_eq!(container.memory.unwrap().commit_memory_bytes, number(7));
        let layer = container.writable_layer.unwrap();
        assert_eq!(layer.fs_id.unwrap().mountpoint, r"C:\");
        assert_eq!(layer.used_bytes, number(10));
    }

    #[test]
    fn a_container_has_nothing_that_windows_does_not_measure() {
        let mut response = ContainerStatsResponse {
            stats: Some(measured()),
        };
        container_stats(&mut response);
        let stats = response.stats.unwrap();
        assert_eq!(stats.cpu, measured().cpu);
        assert_eq!((stats.swap, stats.io), (None, None));
        let place = stats.writable_layer.unwrap().fs_id.unwrap();
        assert_eq!(place.mountpoint, r"C:\");
    }

    #[test]
    fn a_pod_without_figures_stays_without() {
        let mut response = PodSandboxStatsResponse {
            stats: Some(PodSandboxStats::default()),
        };
        pod_stats(&mut response);
        assert_eq!(response.stats.unwrap(), PodSandboxStats::default());
        pod_stats(&mut PodSandboxStatsResponse::default());
    }
}
