//! Windows itself.

use mullion_wire::{RegistryData, ServiceState, Start};

use crate::scene;
use crate::windows::{attended, blueprint, blueprint_of, blueprints, definition, file};

#[test]
fn mode_45_no_feature_asks_the_processor_for_virtual_machines() {
    let features = blueprint().windows.unwrap().features;
    assert_eq!(features, ["Containers".to_owned()].into());
    // Where the file asks for it, it is there, whoever says so.
    let usual = file("2022");
    let own = usual.replace("os: windows,", "os: windows, hyperv: true,");
    let shared = format!("{usual}windows: {{hyperv: true}}\n");
    for text in [own, shared] {
        let windows = blueprint_of(&scene::model(&text, "1.36")).windows.unwrap();
        let wanted = ["Containers", "Microsoft-Hyper-V"].map(str::to_owned);
        assert_eq!(windows.features, wanted.into());
    }
}

#[test]
fn mode_52_the_file_of_administrators_keys_is_nobody_else_s() {
    let keys = "C:/ProgramData/ssh/administrators_authorized_keys";
    let private = blueprint().windows.unwrap().private_files;
    assert_eq!(private, [keys.to_owned()].into());
}

#[test]
fn mode_53_the_login_s_port_is_opened_whichever_it_is() {
    let usual = file("2022");
    let other = usual.replace("user: Administrator", "port: 2222, user: Administrator");
    assert_ne!(usual, other);
    for (text, port) in [(usual, 22), (other, 2222)] {
        let open = blueprint_of(&scene::model(&text, "1.36")).firewall.unwrap();
        let ssh = open.open.iter().find(|open| open.name == "ssh").unwrap();
        assert_eq!((ssh.first, ssh.last), (port, port));
    }
}

/// How each program that stays answers the service control manager, which ends a service that does not.
const STAYS: [(&str, &str); 4] = [
    ("containerd", " --run-service"),
    ("kubelet", " --windows-service"),
    ("flanneld", r"\mullion-agent.exe attend "),
    ("kube-proxy", r"\mullion-agent.exe attend "),
];

#[test]
fn mode_54_whatever_stays_is_a_service_that_starts_with_the_machine() {
    for (version, blueprint) in blueprints() {
        for (name, way) in STAYS {
            let definition = definition(&blueprint, name);
            let command = &definition.command;
            assert!(command.contains(way), "{version}: {command}");
            assert_eq!(definition.start, Start::Automatic, "{version}: {name}");
            let mut services = blueprint.services.iter();
            let service = services.find(|service| service.name == name).unwrap();
            assert_ne!(service.state, ServiceState::Stopped, "{version}: {name}");
        }
        // What the agent attends to is what the service is called after.
        for name in ["flanneld", "kube-proxy"] {
            let program = attended(&blueprint, name).program.path;
            assert_eq!(program, format!("C:/k/{name}.exe"), "{version}");
        }
    }
}

#[test]
fn mode_55_no_service_goes_through_a_shell() {
    for (version, blueprint) in blueprints() {
        let mut commands: Vec<_> = ["flanneld", "kube-proxy"]
            .map(|name| attended(&blueprint, name).program.path)
            .into();
        let services = blueprint.services.into_iter();
        commands.extend(services.map(|service| service.definition.unwrap().command));
        for command in commands {
            let plain = command.to_lowercase();
            for shell in ["powershell", "pwsh", "cmd.exe", "cmd /", ".ps1", ".bat"] {
                assert!(!plain.contains(shell), "{version}: {command}");
            }
        }
    }
}

#[test]
fn mode_56_windows_takes_the_clock_of_a_machine_that_we_make_for_utc() {
    let made = "kubernetes: {allowUnsupported: true}\nmachines:\n- {name: cp, role: control-plane}\n\
        - {name: win, os: windows, version: \"RELEASE\", driver: qemu, media: {iso: ./windows.iso}}\n";
    let is_set = |text: &str| {
        let windows = blueprint_of(&scene::model(text, "1.36")).windows.unwrap();
        let mut values = windows.registry.iter().filter(|value| {
            value.key.ends_with(r"\Control\TimeZoneInformation")
                && value.name == "RealTimeIsUniversal"
        });
        values.any(|value| value.data == RegistryData::Dword(1))
    };
    for release in ["2019", "2022", "2025"] {
        assert!(is_set(&made.replace("RELEASE", release)), "{release}");
        // The clock of another's machine is its owner's.
        assert!(!is_set(&file(release)), "{release}");
    }
}
