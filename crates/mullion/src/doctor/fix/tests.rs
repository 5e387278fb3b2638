use std::collections::BTreeMap;

use mullion_catalog::{Catalog, Family};

use super::super::examine::{activities, examine};
use super::super::samples::{bare_debian, fedora_user, laptop};
use super::*;
use crate::doctor::computer::Computer;

fn lines(computer: &Computer) -> Vec<String> {
    let catalog = Catalog::builtin();
    let activities = activities(catalog.activities(), &BTreeMap::new());
    let diagnoses = examine(catalog.requirements(), &activities, computer);
    let manager = catalog
        .package_manager(computer.system.family.unwrap())
        .unwrap();
    let commands = commands(&diagnoses, catalog.requirements(), manager);
    commands
        .iter()
        .map(|words| typed(words, computer.user.is_root()))
        .collect()
}

#[test]
fn debian_gets_one_update_one_install_and_the_emulator_apart() {
    assert_eq!(
        lines(&bare_debian()),
        [
            "apt-get update",
            "apt-get install -y --no-install-recommends systemd-container mmdebstrap iproute2 iptables nftables \
             util-linux kmod qemu-utils ovmf swtpm xorriso wimtools gcc libc6-dev gcc-mingw-w64-x86-64",
            "apt-get install -y --no-install-recommends qemu-system-x86",
        ]
    );
}

#[test]
fn other_families_get_their_own_commands() {
    let mut computer = fedora_user();
    assert_eq!(
        lines(&computer),
        [
            "sudo dnf install -y systemd-container mmdebstrap iproute iptables-nft nftables util-linux kmod qemu-img swtpm \
             xorriso wimlib-utils golang gcc mingw64-gcc quota",
            "sudo dnf install -y qemu-system-x86",
        ]
    );
    for (family, first) in [
        (Family::Arch, "sudo pacman -S --needed --noconfirm systemd "),
        (
            Family::Suse,
            "sudo zypper --non-interactive install systemd-container ",
        ),
        (Family::Alpine, "sudo apk add iproute2 "),
    ] {
        computer.system.family = Some(family);
        assert!(
            lines(&computer)[0].starts_with(first),
            "{:?}",
            lines(&computer)
        );
    }
}

#[test]
fn where_nothing_is_missing_nothing_is_typed() {
    assert!(lines(&laptop()).is_empty());
}
