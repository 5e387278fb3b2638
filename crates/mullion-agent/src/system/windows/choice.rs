//! Choosing one adapter among several, and other small readings of text.

use mullion_wire::{Adapter, AdapterChoice};

use super::super::SystemError;
use super::super::registry::Value;

/// The adapter that is meant.
pub(super) fn adapter<'a>(
    adapters: &'a [Adapter],
    choice: &AdapterChoice,
) -> Result<&'a Adapter, SystemError> {
    let found = match choice {
        AdapterChoice::Name(name) => {
            let mut adapters = adapters.iter();
            adapters.find(|adapter| adapter.name.eq_ignore_ascii_case(name))
        }
        AdapterChoice::Address(address) => adapters.iter().find(|adapter| {
            let mut addresses = adapter.addresses.iter();
            addresses.any(|found| found.split('/').next() == Some(address))
        }),
        AdapterChoice::Outward => adapters
            .iter()
            .filter(|adapter| adapter.is_up && !adapter.gateways.is_empty())
            .min_by_key(|adapter| adapter.metric),
    };
    found.ok_or_else(|| {
        let names: Vec<_> = adapters
            .iter()
            .map(|adapter| format!("{} ({})", adapter.name, adapter.addresses.join(", ")))
            .collect();
        let wanted = match choice {
            AdapterChoice::Name(name) => format!("of the name `{name}`"),
            AdapterChoice::Address(address) => format!("with the address {address}"),
            AdapterChoice::Outward => "with a way out".to_owned(),
        };
        let words = format!(
            "there is no adapter {wanted}; there are: {}",
            names.join(", ")
        );
        SystemError::Nonsense(words)
    })
}

/// The adapter that is meant, looked for so often: the one under a network that was just removed is without its address
/// for seconds. `look` tells which there are.
pub(super) fn adapter_in_time(
    choice: &AdapterChoice,
    looks: u32,
    look: &mut dyn FnMut() -> Result<Vec<Adapter>, SystemError>,
    pause: &mut dyn FnMut(),
) -> Result<Adapter, SystemError> {
    for _ in 1..looks {
        if let Ok(found) = adapter(&look()?, choice) {
            return Ok(found.clone());
        }
        pause();
    }
    adapter(&look()?, choice).cloned()
}

/// The file that a service's command line logs to, where `kube-log-runner` or the program itself says so.
pub(super) fn log_file(command: &str) -> Option<String> {
    let at = ["-log-file=", "--log-file "]
        .iter()
        .find_map(|flag| command.find(flag).map(|at| at + flag.len()))?;
    let rest = &command[at..];
    let path = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([' ', '"']).next(),
    };
    path.filter(|path| !path.is_empty())
        .map(|path| path.replace('\\', "/"))
}

/// One start of the machine in words: its number, and when the machine was last shut down before it.
pub(super) fn start(count: &str, shutdown: Option<&Value>) -> String {
    let bytes = shutdown.map(|value| value.bytes.as_slice());
    let digits = bytes.unwrap_or_default().iter();
    let digits: Vec<_> = digits.map(|byte| format!("{byte:02x}")).collect();
    if digits.is_empty() {
        return count.to_owned();
    }
    format!("{count} after {}", digits.concat())
}

/// A process among all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: u32,
    pub(super) parent: u32,
    /// Its program's file name.
    pub(super) program: String,
}

/// The processes of a service: the one of this number, then those below it whose programs the service's command names.
pub(super) fn of_service(all: &[Listed], id: u32, command: &str) -> Vec<Listed> {
    let command = command.to_lowercase();
    let is_named = |program: &str| {
        let program = program.to_lowercase();
        let mut words = command.split(['\\', '/', '"', ' ']);
        words.any(|word| word == program || format!("{word}.exe") == program)
    };
    let mut found: Vec<_> = all
        .iter()
        .filter(|process| process.id == id)
        .cloned()
        .collect();
    let mut at = 0;
    while let Some(above) = found.get(at).map(|process| process.id) {
        let below = all
            .iter()
            .filter(|process| process.parent == above && is_named(&process.program))
            // Numbers are used again: a process may bear the number of one that it descends from.
            .filter(|process| found.iter().all(|known| known.id != process.id));
        let below: Vec<_> = below.cloned().collect();
        found.extend(below);
        at += 1;
    }
    found
}

/// The program that holds containers of HCS for containerd, and outlives it.
pub(super) const SHIM: &str = "containerd-shim-runhcs-v1.exe";

/// Whether a shim with this command line holds containers of a pod: others may have containers of their own, which are
/// in other namespaces of containerd's.
pub(super) fn holds_pod(command: &str) -> bool {
    let mut words = command
        .split([' ', '=', '"'])
        .filter(|word| !word.is_empty());
    let is_flag = |word: &str| matches!(word, "-namespace" | "--namespace");
    words.any(is_flag) && words.next() == Some("k8s.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shims_of_pods_are_told_from_others() {
        let of = |namespace: &str| {
            format!(
                r"{namespace} --address \\.\pipe\containerd-containerd --publish-binary C:\k8s.io\containerd.exe --id 1 serve"
            )
        };
        for namespace in [
            "--namespace k8s.io",
            "-namespace \"k8s.io\"",
            "--namespace=k8s.io",
        ] {
            assert!(holds_pod(&of(namespace)), "{namespace}");
            assert!(holds_pod(&format!(r"C:\b\{SHIM} {}", of(namespace))));
        }
        for namespace in ["--namespace default", "--namespace moby", "--id k8s.io", ""] {
            assert!(!holds_pod(&of(namespace)), "{namespace}");
        }
    }

    fn adapters() -> Vec<Adapter> {
        let adapter = |name: &str, address: &str, gateway: &str, metric| Adapter {
            name: name.into(),
            addresses: vec![address.into()],
            gateways: [gateway]
                .iter()
                .filter(|text| !text.is_empty())
                .map(|text| (*text).to_owned())
                .collect(),
            is_up: true,
            metric,
            ..Adapter::default()
        };
        vec![
            adapter("Storage", "10.0.0.5/24", "", 5),
            adapter("Slow", "192.168.1.5/24", "192.168.1.1", 50),
            adapter("Ethernet", "10.99.0.21/24", "10.99.0.1", 25),
        ]
    }

    #[test]
    fn the_right_adapter_is_chosen_among_several() {
        let chosen = |choice| adapter(&adapters(), &choice).map(|found| found.name.clone());
        assert_eq!(chosen(AdapterChoice::Outward).unwrap(), "Ethernet");
        assert_eq!(
            chosen(AdapterChoice::Name("storage".into())).unwrap(),
            "Storage"
        );
        let address = AdapterChoice::Address("192.168.1.5".into());
        assert_eq!(chosen(address).unwrap(), "Slow");
        let error = chosen(AdapterChoice::Address("10.99.0.2".into())).unwrap_err();
        assert!(
            error.to_string().contains("Ethernet (10.99.0.21/24)"),
            "{error}"
        );
    }

    #[test]
    fn an_adapter_without_its_address_is_waited_for() {
        let found = |choice: &AdapterChoice, bare: u32| {
            let (mut looks, mut pauses) = (0, 0);
            let look = &mut || {
                looks += 1;
                let mut all = adapters();
                if looks <= bare {
                    all[2].addresses.clear();
                    all[2].gateways.clear();
                    all.remove(1);
                }
                Ok(all)
            };
            let found = adapter_in_time(choice, 5, look, &mut || pauses += 1);
            (found.map(|found| found.name).ok(), looks, pauses)
        };
        let ethernet = Some("Ethernet".to_owned());
        let address = AdapterChoice::Address("10.99.0.21".into());
        for choice in [address, AdapterChoice::Outward] {
            assert_eq!(found(&choice, 0), (ethernet.clone(), 1, 0));
            assert_eq!(found(&choice, 3), (ethernet.clone(), 4, 3));
            assert_eq!(found(&choice, 4), (ethernet.clone(), 5, 4));
            assert_eq!(found(&choice, 5), (None, 5, 4));
        }
    }

    #[test]
    fn starts_are_told_apart_where_nobody_counts_them() {
        let shut_down = |byte| Value {
            kind: 3,
            bytes: vec![byte, 0xd9, 1],
        };
        assert_eq!(start("7", None), "7");
        assert_eq!(start("7", Some(&shut_down(10))), "7 after 0ad901");
        assert_ne!(
            start("7", Some(&shut_down(10))),
            start("7", Some(&shut_down(11)))
        );
    }

    #[test]
    fn a_service_has_the_processes_that_its_command_names_and_no_others() {
        let process = |id, parent, program: &str| Listed {
            id,
            parent,
            program: program.into(),
        };
        let all = [
            process(4, 1, "services.exe"),
            process(8, 4, "kube-log-runner.exe"),
            process(9, 8, "Kubelet.exe"),
            process(10, 9, "probe.exe"),
            process(11, 4, "containerd.exe"),
            process(12, 11, "containerd-shim-runhcs-v1.exe"),
            process(13, 4, "kube-log-runner.exe"),
        ];
        let numbers = |id, command: &str| -> Vec<u32> {
            let found = of_service(&all, id, command);
            found.iter().map(|process| process.id).collect()
        };
        let kubelet = r"C:\k\kube-log-runner.exe -log-file=C:\k.log C:\k\kubelet.exe --v=2";
        assert_eq!(numbers(8, kubelet), [8, 9]);
        // A container outlives the one that started it.
        let containerd = r#""C:\Program Files\containerd\containerd" --run-service"#;
        assert_eq!(numbers(11, containerd), [11]);
        assert_eq!(numbers(99, kubelet), [0; 0]);
    }

    #[test]
    fn the_log_of_a_service_is_found_in_its_command_line() {
        for (command, file) in [
            (
                r"C:\k\kube-log-runner.exe -log-file=C:\var\log\k.log C:\k\kubelet.exe",
                "C:/var/log/k.log",
            ),
            (
                r#""C:\Program Files\x.exe" --log-file="C:\var log\c.log" --run-service"#,
                "C:/var log/c.log",
            ),
            (r#""C:\x.exe" "--log-file=C:\var\c.log""#, "C:/var/c.log"),
        ] {
            assert_eq!(log_file(command).as_deref(), Some(file));
        }
        assert_eq!(log_file(r"C:\k\kubelet.exe --v=2"), None);
    }
}
