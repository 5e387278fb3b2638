//! Limits: Windows counts processors in ten-thousandths of the whole machine, Linux in microseconds of a period.

use super::Map;
use crate::cri::v1::{ContainerResources, LinuxContainerResources, WindowsContainerResources};

/// The period of Linux, in microseconds.
const PERIOD: i64 = 100_000;

/// The smallest share of a period that the kernel takes.
const LEAST_QUOTA: i64 = 1_000;

/// The whole machine, as Windows counts.
const WHOLE: i64 = 10_000;

/// The bounds of Linux' shares.
const SHARES: std::ops::RangeInclusive<i64> = 2..=262_144;

impl Map {
    /// Limits for Linux. A count of processors goes before a part of the machine, as on Windows.
    pub(super) fn linux_resources(
        &self,
        windows: &WindowsContainerResources,
    ) -> LinuxContainerResources {
        let maximum = windows.cpu_maximum.clamp(0, WHOLE);
        let quota = if windows.cpu_count > 0 {
            windows.cpu_count.min(self.processors) * PERIOD
        } else {
            maximum * self.processors * PERIOD / WHOLE
        };
        let shares = windows.cpu_shares;
        LinuxContainerResources {
            cpu_period: if quota > 0 { PERIOD } else { 0 },
            cpu_quota: if quota > 0 { quota.max(LEAST_QUOTA) } else { 0 },
            cpu_shares: if shares > 0 {
                shares.clamp(*SHARES.start(), *SHARES.end())
            } else {
                0
            },
            memory_limit_in_bytes: windows.memory_limit_in_bytes.max(0),
            ..LinuxContainerResources::default()
        }
    }

    /// Limits as Windows counts them.
    pub(super) fn windows_resources(
        &self,
        linux: &LinuxContainerResources,
    ) -> WindowsContainerResources {
        let machine = linux.cpu_period.saturating_mul(self.processors);
        let maximum = if linux.cpu_quota > 0 && machine > 0 {
            (linux.cpu_quota.saturating_mul(WHOLE) / machine).clamp(1, WHOLE)
        } else {
            0
        };
        WindowsContainerResources {
            cpu_maximum: maximum,
            memory_limit_in_bytes: linux.memory_limit_in_bytes.max(0),
            ..WindowsContainerResources::default()
        }
    }

    /// A container's limits, on the way back.
    pub(super) fn resources_back(&self, resources: &mut ContainerResources) {
        if let Some(linux) = resources.linux.take() {
            resources.windows = Some(self.windows_resources(&linux));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::map;
    use super::*;

    #[test]
    fn processors_and_memory_are_counted_both_ways() {
        let map = map();
        // Of four processors: (maximum, count, shares, memory), then (period, quota, shares, memory).
        for (windows, linux) in [
            ((0, 0, 0, 0), (0, 0, 0, 0)),
            ((2_500, 0, 0, 1 << 30), (PERIOD, 100_000, 0, 1 << 30)),
            ((10_000, 0, 0, 0), (PERIOD, 400_000, 0, 0)),
            ((1, 0, 0, 0), (PERIOD, LEAST_QUOTA, 0, 0)),
            ((99_999, 0, 0, 0), (PERIOD, 400_000, 0, 0)),
            ((2_500, 2, 0, 0), (PERIOD, 200_000, 0, 0)),
            ((0, i64::MAX, 0, 0), (PERIOD, 400_000, 0, 0)),
            ((0, 0, 1, 0), (0, 0, 2, 0)),
            ((0, 0, i64::MAX, 0), (0, 0, 262_144, 0)),
            ((-5, -1, -1, -1), (0, 0, 0, 0)),
        ] {
            let asked = WindowsContainerResources {
                cpu_maximum: windows.0,
                cpu_count: windows.1,
                cpu_shares: windows.2,
                memory_limit_in_bytes: windows.3,
                ..WindowsContainerResources::default()
            };
            let found = map.linux_resources(&asked);
            let found = (
                found.cpu_period,
                found.cpu_quota,
                found.cpu_shares,
                found.memory_limit_in_bytes,
            );
            assert_eq!(found, linux, "{windows:?}");
        }
        for maximum in [25, 2_500, 10_000] {
            let asked = WindowsContainerResources {
                cpu_maximum: maximum,
                memory_limit_in_bytes: 7,
                ..WindowsContainerResources::default()
            };
            assert_eq!(map.windows_resources(&map.linux_resources(&asked)), asked);
        }
        let absurd = LinuxContainerResources {
            cpu_quota: i64::MAX,
            cpu_period: i64::MAX,
            ..LinuxContainerResources::default()
        };
        assert!((0..=WHOLE).contains(&map.windows_resources(&absurd).cpu_maximum));
    }
}
