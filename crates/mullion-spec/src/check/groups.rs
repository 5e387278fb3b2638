//! Groups of machines, one at a time.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Checker, GroupPlace};
use crate::cluster::{
    Carrier, Command, Duty, FileCopy, Group, Host, Media, MediaPlace, NodeIp, Origin, Size, System,
    Windows, WindowsSettings,
};
use crate::finding::{Finding, Place};
use crate::raw::{RawCluster, RawCommand, RawGroup, RawMachines, RawMedia, RawShort};
use crate::rules::{carriers as carrier_rule, machines as machine_rule, shape as rule, versions};
use crate::source::Path;
use crate::value::{Address, ByteSize, GroupName, Taint, is_label_value, is_qualified_name};
use crate::words::{Driver, Edition, Os, Role, WindowsVersion, Word};

/// More machines in one group than any Kubernetes cluster bears; the limit keeps a slip of the
/// finger from filling the memory.
const MOST_MACHINES: u64 = 20_000;

/// Labels that kubelet sets itself.
const KUBELET_LABELS: [&str; 4] = [
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "node.kubernetes.io/windows-build",
];

impl Checker<'_> {
    /// The groups of the file, each with its place.
    pub(super) fn groups(
        &mut self,
        raw: &RawCluster,
        hosts: &[Host],
    ) -> (Vec<Group>, Vec<GroupPlace>) {
        let at = Path::top().key("machines");
        let shared = self.windows(&raw.windows);
        let no_groups = RawMachines::Groups(Vec::new());
        match raw.machines.as_ref().unwrap_or(&no_groups) {
            RawMachines::Groups(groups) => groups
                .iter()
                .enumerate()
                .map(|(index, group)| {
                    let place = GroupPlace {
                        path: at.index(index),
                        has_fields: true,
                    };
                    (self.group(raw, &shared, group, &place, index, hosts), place)
                })
                .unzip(),
            RawMachines::Short(short) => spelled_out(short, &at)
                .iter()
                .enumerate()
                .map(|(index, (group, path))| {
                    let place = GroupPlace {
                        path: path.clone(),
                        has_fields: false,
                    };
                    (self.group(raw, &shared, group, &place, index, hosts), place)
                })
                .unzip(),
        }
    }

    fn group(
        &mut self,
        cluster: &RawCluster,
        shared: &WindowsSettings,
        raw: &RawGroup,
        place: &GroupPlace,
        index: usize,
        hosts: &[Host],
    ) -> Group {
        let fallback = crate::fallback::<GroupName>(&format!("unnamed{index}"));
        let name = match &raw.name {
            Some(name) => self.parse(
                &machine_rule::BAD_NAME,
                &place.field("name"),
                name,
                fallback,
            ),
            None => fallback,
        };
        let os = raw.os.unwrap_or(Os::Linux);
        let duty = match raw.role.unwrap_or(Role::Worker) {
            Role::ControlPlane => Duty::ControlPlane,
            Role::Worker => Duty::Worker,
        };
        if os == Os::Windows && duty == Duty::ControlPlane {
            self.report(
                Finding::new(&machine_rule::WINDOWS_CONTROL_PLANE, place.field("role"))
                    .message(format!("group `{name}`: Windows cannot be a control plane"))
                    .also(place.field("os"), "the group runs Windows"),
            );
        }
        let system = self.system(shared, raw, place, os);
        let numbers = self.numbers(raw, place);
        let carrier = self.carrier(raw, place, os, hosts);
        let taints = self.taints(cluster, raw, place, os);
        if duty == Duty::Worker && raw.schedulable == Some(false) {
            let at = place.field("schedulable");
            self.report(
                Finding::new(&rule::BAD_VALUE, at)
                    .message("`schedulable` is for control planes")
                    .hint(
                        "give a worker a taint instead: `taints: [\"reserved=true:NoSchedule\"]`",
                    ),
            );
        }
        Group {
            duty,
            system,
            numbers,
            carrier,
            node_ip: raw
                .node_ip
                .as_ref()
                .map(|text| self.node_ip(&place.field("nodeIP"), text)),
            labels: self.labels(raw, place),
            taints,
            // Whether a control plane takes pods when nobody says so depends on the other groups.
            schedulable: raw.schedulable.unwrap_or(duty == Duty::Worker),
            before: self.commands(&place.field("before"), &raw.before, os),
            after: self.commands(&place.field("after"), &raw.after, os),
            files: self.files(raw, place),
            name,
        }
    }

    fn system(
        &mut self,
        shared: &WindowsSettings,
        raw: &RawGroup,
        place: &GroupPlace,
        os: Os,
    ) -> System {
        if os == Os::Linux {
            for (field, given) in [
                ("edition", raw.edition.is_some()),
                ("desktop", raw.desktop.is_some()),
                ("timezone", raw.timezone.is_some()),
                ("locale", raw.locale.is_some()),
                ("licence", raw.licence.is_some()),
                (
                    "administratorPassword",
                    raw.administrator_password.is_some(),
                ),
                ("updates", raw.updates.is_some()),
                ("pageFile", raw.page_file.is_some()),
                ("defenderExclusions", raw.defender_exclusions.is_some()),
                ("rdp", raw.rdp.is_some()),
            ] {
                if given {
                    self.report(
                        Finding::new(
                            &machine_rule::WRONG_SYSTEM_FIELD,
                            Place::Key(place.field(field)),
                        )
                        .message(format!(
                            "`{field}` is for Windows, and this group runs Linux"
                        ))
                        .hint(format!("remove `{field}`, or write `os: windows`")),
                    );
                }
            }
            let release = raw.version.clone().unwrap_or_else(|| "12".into());
            return System::Linux { release };
        }
        let version = match &raw.version {
            None => WindowsVersion::V2022,
            Some(text) => self.word(
                &versions::UNKNOWN_WINDOWS,
                &place.field("version"),
                text,
                WindowsVersion::V2022,
            ),
        };
        let edition = match &raw.edition {
            None => Edition::Datacenter,
            Some(text) => self.word(
                &carrier_rule::EDITION,
                &place.field("edition"),
                text,
                Edition::Datacenter,
            ),
        };
        System::Windows(Windows {
            version,
            edition,
            desktop: raw.desktop.unwrap_or(false),
            settings: self.overridden(shared, raw, place),
        })
    }

    /// The value that a word stands for, for sets whose breach has a rule of its own.
    fn word<T: Word>(
        &mut self,
        rule: &'static crate::rules::Rule,
        path: &Path,
        text: &str,
        fallback: T,
    ) -> T {
        if let Some(value) = T::from_word(text) {
            return value;
        }
        let words: Vec<_> = T::ALL.iter().map(|value| value.word()).collect();
        let mut finding = Finding::new(rule, path.clone())
            .message(format!("`{path}` does not take `{text}`"))
            .hint(format!("take one of {}", crate::shape::quoted(&words)));
        if let Some(meant) = crate::shape::nearest(text, words.iter().copied()) {
            finding = finding.label(format!("did you mean `{meant}`?"));
        }
        self.reject(finding, path);
        fallback
    }

    /// The numbers of the group's machines: as many as are asked for, without those left out.
    fn numbers(&mut self, raw: &RawGroup, place: &GroupPlace) -> Vec<u32> {
        let addresses = u32::try_from(raw.addresses.len()).unwrap_or(u32::MAX);
        if let Some(count) = raw.count {
            if addresses != 0 && addresses != count {
                self.report(
                    Finding::new(&machine_rule::ADDRESS_COUNT, place.field("count"))
                        .message(format!(
                            "`count` is {count}, and there are {addresses} addresses"
                        ))
                        .also(
                            Place::Key(place.field("addresses")),
                            format!("{addresses} addresses"),
                        ),
                );
            }
            self.within(&place.field("count"), count.into(), 0, MOST_MACHINES);
        }
        for (index, number) in raw.skip.iter().enumerate() {
            self.within(
                &place.field("skip").index(index),
                (*number).into(),
                1,
                MOST_MACHINES,
            );
        }
        let count = if addresses == 0 {
            raw.count.unwrap_or(1)
        } else {
            addresses
        };
        let skip: std::collections::BTreeSet<_> = raw.skip.iter().copied().collect();
        (1..)
            .filter(|number| !skip.contains(number))
            .take(usize::try_from(u64::from(count).min(MOST_MACHINES)).unwrap_or(0))
            .collect()
    }

    fn carrier(&mut self, raw: &RawGroup, place: &GroupPlace, os: Os, hosts: &[Host]) -> Carrier {
        let sized = [
            ("cpus", raw.cpus.is_some()),
            ("memory", raw.memory.is_some()),
            ("disk", raw.disk.is_some()),
        ];
        let given = sized
            .iter()
            .filter(|(_, given)| *given)
            .map(|(field, _)| *field);
        let has_origin = raw.media.is_some() || raw.template.is_some();
        let usual = match os {
            _ if !raw.addresses.is_empty() => Driver::Ssh,
            Os::Linux => Driver::Nspawn,
            Os::Windows if has_origin => Driver::Qemu,
            Os::Windows => Driver::Wine,
        };
        let driver = raw.driver.unwrap_or(usual);
        if raw.addresses.is_empty() {
            if raw.ssh.is_some() && driver != Driver::Ssh {
                self.report(
                    Finding::new(
                        &carrier_rule::ADDRESSES_UNUSED,
                        Place::Key(place.field("ssh")),
                    )
                    .message("`ssh` is for machines that exist already, and these are made")
                    .hint("remove `ssh`, or add `addresses`"),
                );
            }
            let host = self.host(raw, place, hosts);
            return Carrier::Made {
                driver,
                host,
                size: self.size(raw, place, os),
                origin: self.origin(raw, place),
            };
        }
        if let Some(field) = given.into_iter().next() {
            self.report(
                Finding::new(&carrier_rule::SIZE_UNUSED, Place::Key(place.field(field))).also(
                    Place::Key(place.field("addresses")),
                    "these machines exist already",
                ),
            );
        }
        let mut seen: std::collections::BTreeMap<Address, usize> =
            std::collections::BTreeMap::new();
        let nowhere = Address::Ip(std::net::Ipv4Addr::UNSPECIFIED.into());
        let at = place.field("addresses");
        let mut addresses = Vec::with_capacity(raw.addresses.len());
        for (index, text) in raw.addresses.iter().enumerate() {
            let address = self.parse(&rule::BAD_VALUE, &at.index(index), text, nowhere.clone());
            if let Some(first) = seen.insert(address.clone(), index) {
                self.report(
                    Finding::new(&machine_rule::DUPLICATE_ADDRESS, at.index(index))
                        .message(format!("`{address}` is given twice"))
                        .also(at.index(first), "first given here"),
                );
            }
            addresses.push(address);
        }
        Carrier::Existing {
            driver,
            addresses,
            login: self.login(&place.field("ssh"), raw.ssh.as_ref(), os),
        }
    }

    fn host(
        &mut self,
        raw: &RawGroup,
        place: &GroupPlace,
        hosts: &[Host],
    ) -> Option<crate::value::HostName> {
        let text = raw.host.as_ref()?;
        let found = hosts.iter().find(|host| host.name.as_str() == text);
        if found.is_none() {
            let names: Vec<_> = hosts.iter().map(|host| host.name.as_str()).collect();
            let mut finding = Finding::new(&machine_rule::UNKNOWN_HOST, place.field("host"))
                .message(format!("`hosts` has no `{text}`"));
            if let Some(meant) = crate::shape::nearest(text, names.iter().copied()) {
                finding = finding.label(format!("did you mean `{meant}`?"));
            }
            self.reject(finding, &place.field("host"));
        }
        found.map(|host| host.name.clone())
    }

    fn size(&mut self, raw: &RawGroup, place: &GroupPlace, os: Os) -> Size {
        let (cpus, memory, disk) = match os {
            Os::Linux => (2, ByteSize::gib(2), ByteSize::gib(20)),
            Os::Windows => (4, ByteSize::gib(6), ByteSize::gib(60)),
        };
        if let Some(cpus) = raw.cpus {
            self.within(&place.field("cpus"), cpus.into(), 1, 1024);
        }
        let mut read = |field: &str, text: &Option<String>, usual: ByteSize| match text {
            Some(text) => self.parse(&rule::BAD_VALUE, &place.field(field), text, usual),
            None => usual,
        };
        Size {
            cpus: raw.cpus.unwrap_or(cpus),
            memory: read("memory", &raw.memory, memory),
            disk: read("disk", &raw.disk, disk),
        }
    }

    fn origin(&mut self, raw: &RawGroup, place: &GroupPlace) -> Origin {
        match (&raw.media, &raw.template) {
            (None, None) => Origin::Packages,
            (None, Some(template)) => {
                Origin::Template(self.text(&place.field("template"), template))
            }
            (Some(media), template) => {
                if template.is_some() {
                    self.report(
                        Finding::new(
                            &carrier_rule::TWO_ORIGINS,
                            Place::Key(place.field("template")),
                        )
                        .message("both `media` and `template` are given")
                        .also(Place::Key(place.field("media")), "the media"),
                    );
                }
                self.media(media, &place.field("media"))
                    .map_or(Origin::Packages, Origin::Media)
            }
        }
    }

    fn media(&mut self, raw: &RawMedia, at: &Path) -> Option<Media> {
        let mut places = Vec::new();
        for (field, text, place) in [
            (
                "iso",
                &raw.iso,
                MediaPlace::Iso as fn(std::path::PathBuf) -> MediaPlace,
            ),
            ("vhdx", &raw.vhdx, MediaPlace::Vhdx),
            ("qcow2", &raw.qcow2, MediaPlace::Qcow2),
        ] {
            if let Some(text) = text {
                places.push((field, place(self.text(&at.key(field), text).into())));
            }
        }
        if let Some(url) = &raw.url {
            places.push(("url", MediaPlace::Url(self.address(&at.key("url"), url))));
            if raw.sha256.is_none() {
                self.report(Finding::new(&carrier_rule::DIGEST_MISSING, at.key("url")));
            }
        }
        if let Some(digest) = &raw.sha256 {
            let hex = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !hex {
                let at = at.key("sha256");
                let finding = Finding::new(&rule::BAD_VALUE, at.clone()).message(format!(
                    "`{at}` is not a SHA-256 digest: 64 digits from 0 to f"
                ));
                self.reject(finding, &at);
            }
        }
        if places.len() > 1 {
            self.report(
                Finding::new(&carrier_rule::TWO_ORIGINS, Place::Key(at.key(places[1].0)))
                    .message("media are one file, and several are given")
                    .also(Place::Key(at.key(places[0].0)), "the first"),
            );
        }
        if places.is_empty() {
            let finding = Finding::new(&rule::MISSING_FIELD, Place::Key(at.clone()))
                .message(format!("`{at}` names no file"))
                .hint(
                    "write one of `{iso: …}`, `{url: …, sha256: …}`, `{vhdx: …}` and `{qcow2: …}`",
                );
            self.reject(finding, at);
        }
        places.into_iter().next().map(|(_, place)| Media {
            place,
            sha256: raw.sha256.as_ref().map(|digest| digest.to_lowercase()),
        })
    }

    fn taints(
        &mut self,
        cluster: &RawCluster,
        raw: &RawGroup,
        place: &GroupPlace,
        os: Os,
    ) -> Vec<Taint> {
        let mut taints = Vec::new();
        let mut read = |path: Path, text: &str| match text.parse::<Taint>() {
            Ok(taint) => taints.push(taint),
            Err(error) => {
                let finding = Finding::new(&rule::BAD_VALUE, path.clone())
                    .message(format!("`{path}`: {error}"))
                    .hint("the effects are `NoSchedule`, `PreferNoSchedule` and `NoExecute`");
                self.reject(finding, &path);
            }
        };
        for (index, text) in raw.taints.iter().enumerate() {
            read(place.field("taints").index(index), text);
        }
        if os == Os::Windows
            && let Some(text) = &cluster.windows.taint
        {
            read(Path::top().key("windows").key("taint"), text);
        }
        taints.sort();
        taints.dedup();
        taints
    }

    fn labels(
        &mut self,
        raw: &RawGroup,
        place: &GroupPlace,
    ) -> std::collections::BTreeMap<String, String> {
        for (key, value) in &raw.labels {
            let at = place.field("labels").key(key);
            if !is_qualified_name(key) || !is_label_value(value) {
                let finding = Finding::new(&rule::BAD_VALUE, Place::Key(at.clone()))
                    .message(format!("`{key}: {value}` is not a Kubernetes label"))
                    .hint("keys are like `example.com/name`, values have letters, digits, `-`, `_` and `.`, at most 63");
                self.reject(finding, &at);
            } else if KUBELET_LABELS.contains(&key.as_str()) || key.starts_with("mullion.dev/") {
                self.report(Finding::new(&machine_rule::RESERVED_LABEL, Place::Key(at)));
            }
        }
        raw.labels.clone()
    }

    fn node_ip(&mut self, path: &Path, text: &str) -> NodeIp {
        if let Ok(address) = text.parse::<IpAddr>() {
            NodeIp::Address(address)
        } else if let Ok(network) = text.parse::<IpNet>() {
            NodeIp::Network(network)
        } else {
            NodeIp::Adapter(self.text(path, text))
        }
    }

    fn commands(&mut self, at: &Path, raw: &[RawCommand], os: Os) -> Vec<Command> {
        raw.iter()
            .enumerate()
            .filter_map(|(index, command)| {
                let run = self.text(&at.index(index).key("run"), command.run.as_ref()?);
                command
                    .os
                    .is_none_or(|only| only == os)
                    .then_some(Command { run })
            })
            .collect()
    }

    fn files(&mut self, raw: &RawGroup, place: &GroupPlace) -> Vec<FileCopy> {
        let at = place.field("files");
        raw.files
            .iter()
            .enumerate()
            .filter_map(|(index, file)| {
                let at = at.index(index);
                let mode = file.mode.as_ref().and_then(|text| {
                    let mode = u32::from_str_radix(text.trim_start_matches("0o"), 8)
                        .ok()
                        .filter(|mode| *mode <= 0o7777);
                    if mode.is_none() {
                        let at = at.key("mode");
                        let finding = Finding::new(&rule::BAD_VALUE, at.clone())
                            .message(format!("`{at}`: `{text}` is not a file mode in octal"))
                            .hint("write it like \"0644\"");
                        self.reject(finding, &at);
                    }
                    mode
                });
                Some(FileCopy {
                    from: self.text(&at.key("from"), file.from.as_ref()?).into(),
                    to: self.text(&at.key("to"), file.to.as_ref()?),
                    mode,
                })
            })
            .collect()
    }
}

/// The groups that the short form stands for, each with the place of its number.
fn spelled_out(short: &RawShort, at: &Path) -> Vec<(RawGroup, Path)> {
    let group = |name: &str, role, os, count, path| {
        let group = RawGroup {
            name: Some(name.into()),
            role: Some(role),
            os: Some(os),
            count: Some(count),
            ..RawGroup::default()
        };
        (group, path)
    };
    let mut groups = vec![group("cp", Role::ControlPlane, Os::Linux, 1, at.clone())];
    if short.linux > 0 {
        groups.push(group(
            "lin",
            Role::Worker,
            Os::Linux,
            short.linux,
            at.key("linux"),
        ));
    }
    if short.windows > 0 {
        groups.push(group(
            "win",
            Role::Worker,
            Os::Windows,
            short.windows,
            at.key("windows"),
        ));
    }
    groups
}
