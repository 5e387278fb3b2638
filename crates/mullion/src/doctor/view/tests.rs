use std::collections::BTreeMap;

use mullion_catalog::Catalog;

use super::super::Fix;
use super::super::computer::AcceleratorFound;
use super::super::examine::activities;
use super::super::samples::{fedora_user, laptop};
use super::*;
use crate::doctor::computer::Computer;

fn report(computer: Computer, fix: Fix) -> DoctorReport {
    let catalog = Catalog::builtin();
    let activities = activities(catalog.activities(), &BTreeMap::new());
    DoctorReport::new(catalog, &activities, computer, fix)
}

fn plain(report: &DoctorReport) -> String {
    text(report, &|_, text| text.to_owned())
}

#[test]
fn a_computer_that_is_ready_is_told_so_and_what_to_type() {
    let report = report(laptop(), Fix::Look);
    assert_eq!(report.exit_code(), 0);
    insta::assert_snapshot!(plain(&report), @r"
    This computer: Debian GNU/Linux 12 (bookworm), kernel 6.1.0-54-amd64

    Linux machines on this computer: ready
    Windows stand-ins on this computer: ready
    Linux virtual machines on this computer: ready
    Windows virtual machines on this computer: ready
    Machines that exist already, by SSH: ready
    Programs built from source: ready

    ok: root, CAP_SYS_RESOURCE, systemd as the first process, cgroups, namespaces, overlayfs, network
        bridges, filters on bridges, veth pairs, VXLAN, packet filter tables, address translation,
        connection tracking, address sets, tap devices, KVM, systemd-nspawn, mmdebstrap, ip, iptables,
        nft, unshare, setpriv, modprobe, qemu-system-x86_64, qemu-img, UEFI firmware, swtpm, xorriso,
        wimlib-imagex, Go, gcc, static C library, C compiler for Windows, memory for three small
        machines, memory for a Windows machine and two small ones, project quotas, disk space for small
        machines, disk space for a Windows machine, the machines' network, UDP port 4789, the clock,
        proxy settings

    Next:
      - see what would happen: `mullion plan`
    ");
}

#[test]
fn what_is_missing_is_told_with_what_it_blocks_and_how_to_cure_it() {
    let mut computer = laptop();
    computer.programs.remove("mmdebstrap");
    computer.programs.remove("qemu-system-x86_64");
    computer
        .accelerators
        .insert("kvm".into(), AcceleratorFound::Opened);
    let report = report(computer, Fix::Look);
    assert_eq!(report.exit_code(), 4);
    insta::assert_snapshot!(plain(&report), @r"
    This computer: Debian GNU/Linux 12 (bookworm), kernel 6.1.0-54-amd64

    Linux machines on this computer: not ready, lacking mmdebstrap
    Windows stand-ins on this computer: not ready, lacking mmdebstrap (not needed now)
    Linux virtual machines on this computer: not ready, lacking qemu-system-x86_64 (not needed now)
    Windows virtual machines on this computer: not ready, lacking qemu-system-x86_64 (not needed now)
    Machines that exist already, by SSH: ready
    Programs built from source: ready

    missing: mmdebstrap (makes the machines' root file systems)
      seen:    no program `mmdebstrap`
      blocks:  Linux machines on this computer; Windows stand-ins on this computer
      remedy:  install `mmdebstrap`

    missing: qemu-system-x86_64 (runs virtual machines)
      seen:    no program `qemu-system-x86_64`
      blocks:  Linux virtual machines on this computer; Windows virtual machines on this computer
      remedy:  install `qemu-system-x86`

    not proven: KVM (runs virtual machines at the speed of this computer)
      seen:    `/dev/kvm` opens; only `qemu-system-x86_64` could tell whether it works
      remedy:  install `qemu-system-x86_64`, then look again

    ok: root, CAP_SYS_RESOURCE, systemd as the first process, cgroups, namespaces, overlayfs, network
        bridges, filters on bridges, veth pairs, VXLAN, packet filter tables, address translation,
        connection tracking, address sets, tap devices, systemd-nspawn, ip, iptables, nft, unshare,
        setpriv, modprobe, qemu-img, UEFI firmware, swtpm, xorriso, wimlib-imagex, Go, gcc, static C
        library, C compiler for Windows, memory for three small machines, memory for a Windows machine
        and two small ones, project quotas, disk space for small machines, disk space for a Windows
        machine, the machines' network, UDP port 4789, the clock, proxy settings

    These commands install what is missing:
        apt-get update
        apt-get install -y --no-install-recommends mmdebstrap
        apt-get install -y --no-install-recommends qemu-system-x86

    Next:
      - install what is missing: `mullion doctor --fix`
    ");
}

#[test]
fn an_ordinary_user_is_told_to_become_root() {
    let mut computer = fedora_user();
    let ready = laptop();
    (computer.programs, computer.versions) = (ready.programs, ready.versions);
    computer.programs.remove("ip");
    let report = report(computer, Fix::Install);
    assert_eq!(report.exit_code(), 4);
    assert_eq!(report.commands, ["sudo dnf install -y iproute"]);
    assert_eq!(
        report.next,
        [
            "install what is missing with the commands above, then look again: `mullion doctor`",
            "root: run it as root: `sudo mullion …`",
        ]
    );
}

#[test]
fn what_an_unwanted_activity_lacks_does_not_decide() {
    let mut computer = laptop();
    computer
        .accelerators
        .insert("kvm".into(), AcceleratorFound::TooSlow(5));
    let report = report(computer, Fix::Look);
    assert_eq!(report.exit_code(), 0);
    let shown = plain(&report);
    let expected =
        "Windows virtual machines on this computer: not ready, lacking KVM (not needed now)\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn the_json_form_follows_its_schema() {
    let schema = schemars::schema_for!(DoctorReport).to_value();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for computer in [laptop(), fedora_user()] {
        let value = serde_json::to_value(report(computer, Fix::Look)).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}
