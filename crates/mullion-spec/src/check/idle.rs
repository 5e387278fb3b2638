//! Warns of settings that have no effect in this cluster.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{Checker, GroupPlace};
use crate::cluster::Group;
use crate::finding::{Finding, Place};
use crate::raw::{RawCluster, RawNetwork, RawSsh, RawWindows};
use crate::rules::shape as rule;
use crate::source::Path;
use crate::value::{Address, Jump};
use crate::words::{Backend, Cni, Os};

impl Checker<'_> {
    /// Warns of settings about machines or programs that the cluster does not have.
    pub(super) fn idle(&mut self, raw: &RawCluster, groups: &[Group], places: &[GroupPlace]) {
        self.idle_windows(&raw.windows, groups, places);
        self.idle_network(&raw.network);
        let makes_machines = |group: &Group| group.carrier.is_made() && !group.numbers.is_empty();
        if groups.iter().any(makes_machines) {
            return;
        }
        let why = "every machine exists already";
        let network = Path::top().key("network");
        // Nodes reach the machine network without the proxy, also where no machine is made.
        let has_proxy = raw.proxy.http.is_some() || raw.proxy.https.is_some();
        for field in chosen(&raw.network) {
            if field == "machineAccess" || (field == "machineCIDR" && !has_proxy) {
                self.report_idle(&network.key(&field), why);
            }
        }
        for field in chosen(&raw.access) {
            self.report_idle(&Path::top().key("access").key(&field), why);
        }
    }

    fn idle_windows(&mut self, raw: &RawWindows, groups: &[Group], places: &[GroupPlace]) {
        let windows = groups.iter().zip(places);
        // A group of no machines counts: the settings are kept for the next one.
        let windows = windows.filter(|(group, _)| group.system.os() == Os::Windows);
        let windows: Vec<_> = windows.map(|(_, place)| place).collect();
        for field in chosen(raw) {
            let has_own =
                |place: &&GroupPlace| place.has_fields && self.root.says(&place.field(&field));
            if !windows.iter().all(has_own) {
                continue;
            }
            let why = if windows.is_empty() {
                "no machine runs Windows".to_owned()
            } else {
                format!("every group of Windows machines has its own `{field}`")
            };
            self.report_idle(&Path::top().key("windows").key(&field), &why);
        }
    }

    fn idle_network(&mut self, raw: &RawNetwork) {
        let (fields, why): (&[&str], _) = match (raw.cni, raw.backend) {
            (Cni::None, _) => (
                &["backend", "mtu", "port", "vni"],
                "no network plugin is installed",
            ),
            (Cni::Flannel, Backend::HostGw) => (&["port", "vni"], "`host-gw` has no VXLAN"),
            _ => return,
        };
        for field in chosen(raw) {
            if fields.contains(&field.as_str()) {
                self.report_idle(&Path::top().key("network").key(&field), why);
            }
        }
    }

    /// Warns of host keys of computers that Mullion does not log in to.
    pub(super) fn idle_host_keys(&mut self, at: &Path, raw: &RawSsh, addresses: &[Address]) {
        let jump = raw.jump.as_ref().and_then(|jump| jump.parse().ok());
        let jump = jump.map(|jump: Jump| jump.address);
        let known = addresses.iter().chain(&jump);
        let known: BTreeSet<_> = known
            .map(|address| address.to_string().to_ascii_lowercase())
            .collect();
        for key in raw.host_keys.keys() {
            if !known.contains(&key.to_ascii_lowercase()) {
                let why = "neither a machine of the group nor `jump` has this address";
                self.report_idle(&at.key("hostKeys").key(key), why);
            }
        }
    }

    /// Warns of one setting, where the file has it.
    pub(super) fn report_idle(&mut self, at: &Path, why: &str) {
        if self.root.says(at) {
            self.report(
                Finding::new(&rule::IDLE, Place::Key(at.clone()))
                    .message(format!("`{at}` has no effect: {why}")),
            );
        }
    }
}

/// The fields of a section that have other values than the usual ones.
fn chosen<T: Serialize + Default>(section: &T) -> Vec<String> {
    let object = |section: &T| match serde_json::to_value(section) {
        Ok(Value::Object(fields)) => fields,
        // The raw types are objects.
        _ => serde_json::Map::new(),
    };
    let usual = object(&T::default());
    let given = object(section).into_iter();
    let given = given.filter(|(name, value)| usual.get(name) != Some(value));
    given.map(|(name, _)| name).collect()
}
