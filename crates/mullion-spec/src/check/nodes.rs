//! What a group's machines are as nodes: labels, taints, the node's address, and what the user adds to them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::addresses::ipv4_net;
use super::{Checker, GroupPlace};
use crate::cluster::{Command, FileCopy, NodeIp};
use crate::finding::{Finding, Place, Severity};
use crate::hidden;
use crate::raw::{RawCommand, RawGroup};
use crate::rules::{machines as machine_rule, network as network_rule, shape as rule};
use crate::source::Path;
use crate::value::{Taint, is_label_value, is_qualified_name};
use crate::words::Os;

/// The word for no taint in a group, where null means that the group says nothing.
const NO_TAINT: &str = "none";

/// Labels that kubelet sets itself, beside those under `topology.kubernetes.io`.
const KUBELET_LABELS: [&str; 7] = [
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "node.kubernetes.io/windows-build",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

impl Checker<'_> {
    /// The group's taints, the one that all Windows machines get among them.
    pub(super) fn taints(
        &mut self,
        shared: Option<&Taint>,
        raw: &RawGroup,
        place: &GroupPlace,
        os: Os,
    ) -> Vec<Taint> {
        let mut taints: Vec<(Taint, Path)> = Vec::new();
        let at = place.field("taints");
        for (index, text) in raw.taints.iter().enumerate() {
            let at = at.index(index);
            let Some(taint) = self.taint(&at, text) else {
                continue;
            };
            match taints.iter().find(|(other, _)| is_same(other, &taint)) {
                Some((_, first)) => self.report(
                    Finding::new(&machine_rule::DUPLICATE_TAINT, at)
                        .message(format!(
                            "two taints have the key `{}` and the effect `{:?}`",
                            taint.key, taint.effect
                        ))
                        .also(first.clone(), "the first"),
                ),
                None => taints.push((taint, at)),
            }
        }
        let own = raw.taint.as_ref().filter(|_| os == Os::Windows);
        let (of_windows, from) = match own {
            Some(text) => {
                let at = place.field("taint");
                (self.taint_or_none(&at, text), at)
            }
            None => (shared.cloned(), Path::top().key("windows").key("taint")),
        };
        if let Some(taint) = of_windows.filter(|_| os == Os::Windows) {
            match taints.iter().find(|(other, _)| is_same(other, &taint)) {
                // Whoever writes the same taint out again gets what they ask for.
                Some((other, _)) if *other == taint => {}
                Some((_, at)) => self.report(
                    Finding::new(&machine_rule::DUPLICATE_TAINT, at.clone())
                        .message(format!(
                            "every Windows machine has the taint `{taint}`, with the same key and effect"
                        ))
                        .also(from, "the taint of Windows machines")
                        .hint("remove the taint here, or write `taint: none` in the group"),
                ),
                None => taints.push((taint, from)),
            }
        }
        let mut taints: Vec<_> = taints.into_iter().map(|(taint, _)| taint).collect();
        taints.sort();
        taints
    }

    /// A taint, where the text is not the word for none.
    pub(super) fn taint_or_none(&mut self, path: &Path, text: &str) -> Option<Taint> {
        if text == NO_TAINT {
            return None;
        }
        self.taint(path, text)
    }

    fn taint(&mut self, path: &Path, text: &str) -> Option<Taint> {
        let error = match text.parse::<Taint>() {
            Ok(taint) => return Some(taint),
            Err(error) => error,
        };
        let finding = Finding::new(&rule::BAD_VALUE, path.clone())
            .message(format!("`{path}`: {error}"))
            .hint("the effects are `NoSchedule`, `PreferNoSchedule` and `NoExecute`");
        self.reject(finding, path);
        None
    }

    pub(super) fn labels(
        &mut self,
        raw: &RawGroup,
        place: &GroupPlace,
    ) -> BTreeMap<String, String> {
        for (key, value) in &raw.labels {
            let at = place.field("labels").key(key);
            if !is_qualified_name(key) || !is_label_value(value) {
                let finding = Finding::new(&rule::BAD_VALUE, Place::Key(at.clone()))
                    .message(format!("`{key}: {value}` is not a Kubernetes label"))
                    .hint("keys are like `example.com/name`, values have letters, digits, `-`, `_` and `.`, at most 63");
                self.reject(finding, &at);
            } else if let Some(owner) = label_owner(key) {
                self.report(
                    Finding::new(&machine_rule::RESERVED_LABEL, Place::Key(at))
                        .message(format!("the label `{key}` is set by {owner}")),
                );
            }
        }
        raw.labels.clone()
    }

    /// Which of a machine's addresses is the node's, for a group of so many machines.
    pub(super) fn node_ip(&mut self, path: &Path, text: &str, machines: usize) -> NodeIp {
        let adapter = NodeIp::Adapter(text.to_owned());
        let ip = text.parse::<IpAddr>().ok();
        let net = text.parse::<IpNet>().ok();
        if matches!(ip, Some(IpAddr::V6(_))) || matches!(net, Some(IpNet::V6(_))) {
            let finding = Finding::new(&network_rule::IPV6, path.clone())
                .message(format!("`{path}`: a node's address must be IPv4"))
                .hint("give the machine's IPv4 address, or the network that it is in");
            self.reject(finding, path);
            return adapter;
        }
        if let Some(ip) = ip {
            if machines > 1 {
                self.report(
                    Finding::new(&machine_rule::NODE_IP_SHARED, path.clone()).message(format!(
                        "{machines} machines cannot all have the address {ip}"
                    )),
                );
            }
            return NodeIp::Address(ip);
        }
        if let Some(net) = ipv4_net(text) {
            return NodeIp::Network(net.into());
        }
        if looks_like_address(text) {
            let finding = Finding::new(&rule::BAD_VALUE, path.clone())
                .message(format!(
                    "`{path}`: `{text}` is neither an address nor a network"
                ))
                .hint("write it like `10.0.0.3`, like `10.0.0.0/24`, or give the adapter's name");
            self.reject(finding, path);
            return adapter;
        }
        NodeIp::Adapter(self.text(path, text))
    }

    pub(super) fn commands(&mut self, at: &Path, raw: &[RawCommand], os: Os) -> Vec<Command> {
        raw.iter()
            .enumerate()
            .filter_map(|(index, command)| {
                let command_at = at.index(index);
                let at = command_at.key("run");
                let run = self.text(&at, command.run.as_ref()?);
                if hidden::in_command(&run) {
                    self.report(
                        Finding::new(&rule::LITERAL_SECRET, Place::Key(at.clone()))
                            .severity(Severity::Warning)
                            .message(format!(
                                "`{at}` seems to hold a secret, and plans show commands"
                            ))
                            .hint(
                                "read it from a file on the machine, which `files` can bring there",
                            ),
                    );
                }
                match command.os {
                    Some(only) if only != os => {
                        let why = format!("no machine of the group runs {only}");
                        self.report_idle(&command_at.key("os"), &why);
                        None
                    }
                    _ => Some(Command { run }),
                }
            })
            .collect()
    }

    pub(super) fn files(&mut self, raw: &RawGroup, place: &GroupPlace, os: Os) -> Vec<FileCopy> {
        let at = place.field("files");
        raw.files
            .iter()
            .enumerate()
            .filter_map(|(index, file)| {
                let at = at.index(index);
                let mode = file
                    .mode
                    .as_ref()
                    .and_then(|text| self.mode(&at.key("mode"), text, place, os));
                Some(FileCopy {
                    from: self.text(&at.key("from"), file.from.as_ref()?).into(),
                    to: self.destination(&at.key("to"), file.to.as_ref()?, place, os),
                    mode,
                })
            })
            .collect()
    }

    fn mode(&mut self, path: &Path, text: &str, place: &GroupPlace, os: Os) -> Option<u32> {
        if os == Os::Windows {
            self.report(
                Finding::new(&machine_rule::WRONG_SYSTEM_FIELD, Place::Key(path.clone()))
                    .message("`mode` is for Linux, and this group runs Windows")
                    .also(place.field("os"), "the group runs Windows")
                    .hint("remove `mode`"),
            );
            return None;
        }
        let mode = u32::from_str_radix(text.trim_start_matches("0o"), 8)
            .ok()
            .filter(|mode| *mode <= 0o7777);
        if mode.is_none() {
            let finding = Finding::new(&rule::BAD_VALUE, path.clone())
                .message(format!("`{path}`: `{text}` is not a file mode in octal"))
                .hint("write it like \"0644\"");
            self.reject(finding, path);
        }
        mode
    }

    /// Where a file goes: a whole path, for a machine has no folder that others would be relative to. Of Windows' two
    /// signs between names it has the one that all else has here: only then are two paths compared by their text.
    fn destination(&mut self, path: &Path, text: &str, place: &GroupPlace, os: Os) -> String {
        let text = self.text(path, text);
        let (is_whole, example) = match os {
            Os::Linux => (text.starts_with('/'), "/etc/example.conf"),
            Os::Windows => (has_drive(&text), r"C:\example.conf"),
        };
        if !is_whole {
            self.report(
                Finding::new(&rule::BAD_VALUE, path.clone())
                    .message(format!("`{path}`: `{text}` is not a whole path on {os}"))
                    .also(place.field("os"), format!("the group runs {os}"))
                    .hint(format!("write it like `{example}`")),
            );
        }
        match os {
            Os::Linux => text,
            Os::Windows => text.replace('\\', "/"),
        }
    }
}

/// Whether Kubernetes takes two taints for one: it tells them apart by key and effect alone.
fn is_same(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.effect == b.effect
}

/// Who sets a label that the file may not, where somebody does.
fn label_owner(key: &str) -> Option<&'static str> {
    if key.starts_with("mullion.dev/") {
        Some("Mullion")
    } else if KUBELET_LABELS.contains(&key) || key.starts_with("topology.kubernetes.io/") {
        Some("Kubernetes")
    } else {
        None
    }
}

/// Whether a text that is no address was probably meant to be one. Adapters' names have no slash,
/// and none is made of numbers and dots.
fn looks_like_address(text: &str) -> bool {
    let all = |allowed: fn(u8) -> bool| text.bytes().all(allowed);
    text.contains('/')
        || text.contains('.') && all(|byte| byte.is_ascii_digit() || byte == b'.')
        || text.matches(':').count() > 1 && all(|byte| byte.is_ascii_hexdigit() || byte == b':')
}

/// Whether a path begins with a drive and the drive's root.
fn has_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use crate::draft::{Draft, Surroundings};
    use crate::source::Source;

    fn goes_to(os: &str, to: &str) -> String {
        let text = format!(
            "machines: [{{name: cp, role: control-plane}}, {{name: a, os: {os}, files: [{{from: ./x, to: '{to}'}}]}}]\n"
        );
        let draft = Draft::read(Source::new("the file", text), &Surroundings::default());
        let cluster = draft.provisional().unwrap();
        cluster.groups[1].files[0].to.clone()
    }

    #[test]
    fn a_file_s_path_has_one_spelling_on_windows_and_its_own_on_linux() {
        assert_eq!(goes_to("windows", r"C:\Tools\x"), "C:/Tools/x");
        assert_eq!(goes_to("windows", r"C:\Tools/x"), "C:/Tools/x");
        assert_eq!(goes_to("linux", r"/etc/a\b"), r"/etc/a\b");
    }
}
