//! Kernel modules, kernel settings, and a table of nftables.

use std::fmt::Write as _;
use std::path::Path;

use mullion_wire::{
    Blueprint, Content, File, Firewall, Protocol, Service, ServiceState, Sha256Digest,
};

use super::super::{
    Companions, FirewallState, Module, Program, Programs as _, Removed, Settings, SystemError,
    run_well,
};
use super::{Linux, if_there};

const MODULES_FILE: &str = "/etc/modules-load.d/mullion.conf";
const SETTINGS_FILE: &str = "/etc/sysctl.d/90-mullion.conf";
const FIREWALL_FILE: &str = "/etc/mullion/firewall.nft";
const FIREWALL_UNIT: &str = "/etc/systemd/system/mullion-firewall.service";
const FIREWALL_SERVICE: &str = "mullion-firewall";

/// By what modules that are built in and have no folder in `/sys/module` are seen.
const TRACES: &[(&str, &str)] = &[
    ("br_netfilter", "/proc/sys/net/bridge"),
    ("nf_conntrack", "/proc/sys/net/netfilter/nf_conntrack_max"),
    ("ip_tables", "/proc/net/ip_tables_names"),
    ("ip6_tables", "/proc/net/ip6_tables_names"),
    ("ip_vs", "/proc/net/ip_vs"),
];

impl Settings for Linux {
    fn module(&self, name: &str) -> Result<Module, SystemError> {
        if self.has_module(name) {
            return Ok(Module::Usable);
        }
        Ok(if self.loads_modules() {
            Module::Unloaded
        } else {
            Module::Hidden
        })
    }

    fn load_module(&self, name: &str) -> Result<(), SystemError> {
        match run_well(self, &Program::new("modprobe", ["--", name]), &mut |_| {}) {
            // It may have been built in under a name that only shows once it is used.
            Err(_) if self.has_module(name) => Ok(()),
            result => result,
        }
    }

    fn setting(&self, name: &str) -> Result<Option<String>, SystemError> {
        let text = if_there(fs_err::read_to_string(self.real(&setting_path(name))))?;
        Ok(text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")))
    }

    fn set(&self, name: &str, value: &str) -> Result<(), SystemError> {
        fs_err::write(self.real(&setting_path(name)), value).map_err(SystemError::File)
    }

    fn firewall(&self, wanted: &Firewall) -> Result<FirewallState, SystemError> {
        if self.find_program("nft").is_none() {
            return Ok(FirewallState::NoMeans);
        }
        let rules = rules(wanted);
        let mut is_ours = false;
        let list = Program::new("nft", ["list", "table", "inet", &wanted.group]);
        let ended = self.run(&list, &mut |line| is_ours |= line.contains(&rules.mark))?;
        Ok(if ended.is_well() && is_ours {
            FirewallState::Set
        } else {
            FirewallState::Different
        })
    }

    fn has_firewall(&self, group: &str) -> Result<bool, SystemError> {
        if self.find_program("nft").is_none() {
            return Ok(false);
        }
        let list = Program::new("nft", ["list", "table", "inet", group]);
        Ok(self.run(&list, &mut |_| {})?.is_well())
    }

    fn set_firewall(&self, wanted: &Firewall) -> Result<(), SystemError> {
        let program = Program::new("nft", ["-f", "-"]).reading(rules(wanted).text);
        run_well(self, &program, &mut |_| {})
    }

    fn remove_firewall(&self, group: &str) -> Result<Removed, SystemError> {
        if !self.has_firewall(group)? {
            return Ok(Removed::Nothing);
        }
        let delete = Program::new("nft", ["delete", "table", "inet", group]);
        run_well(self, &delete, &mut |_| {})?;
        Ok(Removed::Gone)
    }

    fn companions(&self, blueprint: &Blueprint) -> Result<Companions, SystemError> {
        let mut companions = Companions::default();
        let mut lay = |path: &str, text: String| {
            companions.files.push(File {
                path: path.to_owned(),
                content: Content::Text(text),
                mode: 0o644,
            });
        };
        // In a container the file would only make its start complain: the host loads modules.
        if !blueprint.modules.is_empty() && self.loads_modules() {
            let mut text = "# Written by mullion-agent.\n".to_owned();
            for name in &blueprint.modules {
                let _ = writeln!(text, "{name}");
            }
            lay(MODULES_FILE, text);
        }
        if !blueprint.sysctls.is_empty() {
            let mut text = "# Written by mullion-agent.\n".to_owned();
            for (name, value) in &blueprint.sysctls {
                let _ = writeln!(text, "{name} = {value}");
            }
            lay(SETTINGS_FILE, text);
        }
        if let Some(firewall) = &blueprint.firewall
            && let Some(nft) = self.find_program("nft")
        {
            lay(FIREWALL_FILE, rules(firewall).text);
            lay(FIREWALL_UNIT, firewall_unit(&nft));
            companions.services.push(Service {
                name: FIREWALL_SERVICE.to_owned(),
                after: std::collections::BTreeSet::new(),
                restarted_by: std::collections::BTreeSet::new(),
                state: ServiceState::Enabled,
                definition: None,
            });
        }
        Ok(companions)
    }
}

impl Linux {
    /// Whether the kernel has a module: loaded, built in, or seen by what it does.
    fn has_module(&self, name: &str) -> bool {
        let plain = name.replace('-', "_");
        let exists = |path: &str| self.real(path).exists();
        if exists(&format!("/sys/module/{plain}")) {
            return true;
        }
        let is_trace = |(module, path): &(&str, &str)| *module == plain && exists(path);
        if TRACES.iter().any(is_trace) {
            return true;
        }
        let filesystems = self.text("/proc/filesystems");
        if filesystems
            .lines()
            .any(|line| line.split_whitespace().last() == Some(name))
        {
            return true;
        }
        let built_in = self.text(&format!("{}/modules.builtin", modules_folder()));
        built_in.lines().any(|line| {
            let file = line.rsplit('/').next().unwrap_or_default();
            let stem = file.split(".ko").next().unwrap_or_default();
            stem.replace('-', "_") == plain
        })
    }

    /// Whether this system has modules of the kernel that it runs on.
    fn loads_modules(&self) -> bool {
        let list = format!("{}/modules.dep", modules_folder());
        self.real(&list).exists()
    }
}

fn modules_folder() -> String {
    let kernel = rustix::system::uname();
    format!("/lib/modules/{}", kernel.release().to_string_lossy())
}

/// Where the kernel keeps a setting: dots part its name, and a slash stands for a dot within a part.
fn setting_path(name: &str) -> String {
    let swapped: String = name
        .chars()
        .map(|sign| match sign {
            '.' => '/',
            '/' => '.',
            sign => sign,
        })
        .collect();
    // The slash in front keeps a name from being taken for a path of its own.
    Path::new("/proc/sys")
        .join(swapped.trim_start_matches('/'))
        .display()
        .to_string()
}

struct Rules {
    /// The whole group, in place of what it was.
    text: String,
    /// By which a group is seen to be this one.
    mark: String,
}

/// The rules of a group: its ports are accepted. What other tables drop is dropped all the same.
fn rules(firewall: &Firewall) -> Rules {
    let mut ports = String::new();
    for port in &firewall.open {
        let protocol = match port.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let range = if port.first == port.last {
            port.first.to_string()
        } else {
            format!("{}-{}", port.first, port.last)
        };
        let name: String = port
            .name
            .chars()
            .filter(|sign| sign.is_ascii_alphanumeric() || " -_./".contains(*sign))
            .take(60)
            .collect();
        let _ = writeln!(
            ports,
            "\t\t{protocol} dport {range} accept comment \"{name}\""
        );
    }
    let group = &firewall.group;
    let digest = Sha256Digest::of(ports.as_bytes());
    let mark = format!("mullion {}", &digest.as_str()[..16]);
    // Named first, so that there is something to delete the first time, too.
    let text = format!(
        "# Written by mullion-agent.\n\
         table inet {group}\n\
         delete table inet {group}\n\
         table inet {group} {{\n\
         \tcomment \"{mark}\"\n\
         \tchain input {{\n\
         \t\ttype filter hook input priority -10; policy accept;\n\
         {ports}\
         \t}}\n\
         }}\n"
    );
    Rules { text, mark }
}

fn firewall_unit(nft: &str) -> String {
    format!(
        "# Written by mullion-agent.\n\
         [Unit]\n\
         Description=Ports that Mullion opens\n\
         Wants=network-pre.target\n\
         Before=network-pre.target\n\
         After=nftables.service\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart={nft} -f {FIREWALL_FILE}\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

#[cfg(test)]
mod tests {
    use mullion_wire::OpenPort;

    use super::*;

    #[test]
    fn a_setting_is_a_path_below_the_kernels_folder() {
        assert_eq!(
            setting_path("net.ipv4.ip_forward"),
            "/proc/sys/net/ipv4/ip_forward"
        );
        assert_eq!(
            setting_path("net.ipv4.conf.eth0/100.rp_filter"),
            "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
        );
    }

    #[test]
    fn a_group_accepts_its_ports_and_is_known_by_them() {
        let port = |name: &str, first, last| OpenPort {
            name: name.into(),
            protocol: Protocol::Tcp,
            first,
            last,
        };
        let mut firewall = Firewall {
            group: "mullion".into(),
            open: vec![
                port("API \"server\"", 6443, 6443),
                port("nodes", 30000, 32767),
            ],
        };
        let first = rules(&firewall);
        assert!(
            first
                .text
                .contains("tcp dport 6443 accept comment \"API server\"\n")
        );
        assert!(first.text.contains("tcp dport 30000-32767 accept"));
        assert!(first.text.contains(&first.mark));
        firewall.open.pop();
        assert_ne!(rules(&firewall).mark, first.mark);
    }
}
