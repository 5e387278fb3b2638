//! Groups of machines, one at a time.

use super::windows::Shared;
use super::{Checker, GroupPlace};
use crate::cluster::{Duty, Group, Host, System, Windows, WindowsSettings};
use crate::finding::{Finding, Place};
use crate::raw::{RawCluster, RawGroup, RawMachines, RawShort};
use crate::rules::{carriers as carrier_rule, machines as machine_rule, shape as rule, versions};
use crate::source::Path;
use crate::value::GroupName;
use crate::words::{Edition, Os, Role, WindowsVersion, Word};

/// More machines in one group than any Kubernetes cluster bears; the limit keeps a slip of the
/// finger from filling the memory.
const MOST_MACHINES: u64 = 20_000;

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
                    (self.group(&shared, group, &place, index, hosts), place)
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
                    (self.group(&shared, group, &place, index, hosts), place)
                })
                .unzip(),
        }
    }

    fn group(
        &mut self,
        shared: &Shared,
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
        let system = self.system(&shared.settings, raw, place, os);
        let numbers = self.numbers(raw, place);
        let carrier = self.carrier(raw, place, os, hosts);
        let taints = self.taints(shared.taint.as_ref(), raw, place, os);
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
        let node_ip = raw.node_ip.as_ref();
        Group {
            node_ip: node_ip.map(|text| self.node_ip(&place.field("nodeIP"), text, numbers.len())),
            duty,
            system,
            numbers,
            carrier,
            labels: self.labels(raw, place),
            taints,
            // Whether a control plane takes pods when nobody says so depends on the other groups.
            schedulable: raw.schedulable.unwrap_or(duty == Duty::Worker),
            before: self.commands(&place.field("before"), &raw.before, os),
            after: self.commands(&place.field("after"), &raw.after, os),
            files: self.files(raw, place, os),
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
                ("hyperv", raw.hyperv.is_some()),
                ("rdp", raw.rdp.is_some()),
                ("taint", raw.taint.is_some()),
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
                        .also(place.field("os"), "the group runs Linux")
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
