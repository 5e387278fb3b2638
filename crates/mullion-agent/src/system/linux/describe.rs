//! What this machine is.

use std::time::{SystemTime, UNIX_EPOCH};

use mullion_wire::{Disk, Facts, Sha256Digest, agent_version};

use super::super::{Program, Programs as _, System as _, SystemError, parent};
use super::Linux;

/// The system's half of the facts. What cannot be found out stays empty: facts are asked for to see what is wrong.
pub(super) fn describe(linux: &Linux) -> Result<Facts, SystemError> {
    let kernel = rustix::system::uname();
    Ok(Facts {
        agent: own_version(),
        host_name: linux.host_name()?,
        os: "linux".to_owned(),
        system: system_name(&linux.text("/etc/os-release")),
        kernel: kernel.release().to_string_lossy().into_owned(),
        architecture: kernel.machine().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism()
            .map_or(0, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        memory: memory(linux),
        disk: disk(linux),
        clock: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        addresses: addresses(linux),
        ..Facts::default()
    })
}

/// The agent's version, with the digest of the program that runs.
fn own_version() -> String {
    let program = fs_err::File::open("/proc/self/exe").and_then(Sha256Digest::of_reader);
    match program {
        Ok((digest, _)) => agent_version(crate::VERSION, &digest),
        Err(_) => crate::VERSION.to_owned(),
    }
}

pub(super) fn system_name(release: &str) -> String {
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key))?;
        let value = line.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    };
    value("PRETTY_NAME=")
        .or_else(|| value("NAME="))
        .unwrap_or_else(|| "Linux".to_owned())
}

/// The memory that this machine may use: the kernel's, or less where a container is held to less.
fn memory(linux: &Linux) -> u64 {
    let text = linux.text("/proc/meminfo");
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kibibytes| kibibytes.saturating_mul(1024));
    [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .filter_map(|path| linux.text(path).trim().parse().ok())
    .fold(total, u64::min)
}

/// The tightest of the places that fill up.
fn disk(linux: &Linux) -> Disk {
    let paths = linux.paths();
    let places = [
        paths.state.as_str(),
        "/var/lib/containerd",
        paths.kubelet.as_str(),
    ];
    places
        .into_iter()
        .filter_map(|place| space(linux, place))
        .min_by_key(|disk| disk.free)
        .unwrap_or_default()
}

/// The space at a path, or where it would be made.
fn space(linux: &Linux, path: &str) -> Option<Disk> {
    let mut path = path;
    loop {
        if let Ok(found) = rustix::fs::statvfs(linux.real(path)) {
            return Some(Disk {
                total: found.f_blocks.saturating_mul(found.f_frsize),
                free: found.f_bavail.saturating_mul(found.f_frsize),
            });
        }
        path = parent(path)?;
    }
}

fn addresses(linux: &Linux) -> Vec<String> {
    let program = Program::new("ip", ["-o", "addr", "show", "scope", "global"]);
    let mut addresses = Vec::new();
    // Without the program nothing can be told of addresses; the rest still can.
    let _ = linux.run(&program, &mut |line| addresses.extend(address(line)));
    addresses
}

/// The adapter and address in `2: host0    inet 10.99.0.11/24 brd …`.
pub(super) fn address(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip(1);
    let adapter = words.next()?;
    let family = words.next()?;
    let address = words.next()?;
    let is_wanted = adapter != "lo" && matches!(family, "inet" | "inet6");
    is_wanted.then(|| format!("{adapter} {address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_named_as_for_people() {
        let text = "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(system_name(text), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(system_name(""), "Linux");
    }

    #[test]
    fn addresses_are_read_without_loopback() {
        assert_eq!(
            address(
                "2: host0    inet 10.99.0.11/24 brd 10.99.0.255 scope global host0\\  valid_lft"
            ),
            Some("host0 10.99.0.11/24".into())
        );
        assert_eq!(address("1: lo    inet 127.0.0.2/8 scope global lo"), None);
        assert_eq!(address("nonsense"), None);
    }
}
