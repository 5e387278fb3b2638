//! What fuzzing calls of Linux: readers of what programs and the kernel write.

use super::{describe, memory, rules, services};

/// What `systemctl`, `iptables-save`, `ip`, `/etc/os-release` and the kernel's counters say.
pub fn linux_programs(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let services = services::parse(&["containerd", "kubelet"], &text);
    assert_eq!(
        services.len(),
        2,
        "every service that was asked for is told"
    );
    let _ = memory::starved(|_| text.clone().into_owned());
    let _ = describe::system_name(&text);
    let _ = text.lines().filter_map(describe::address).count();
    if let Some(kept) = rules::without_pods(&text) {
        assert_eq!(rules::without_pods(&kept), None, "no rule of pods is left");
    }
    let _ = text
        .lines()
        .filter(|line| rules::is_pod_set(line) || rules::is_pod_link(line))
        .count();
    if text.trim().is_empty() {
        return Err("nothing".into());
    }
    Ok(())
}
