//! Fields that do nothing in this release or on a driver's machines, refused by name unless they have their default
//! value. On machines that exist already a default is refused too where the file has it: nothing makes them so.

use mullion_spec::cluster::{Carrier, Cluster, Group, System, Windows};
use mullion_spec::draft::Draft;
use mullion_spec::finding::{Finding, Place, Severity};
use mullion_spec::rules::{carriers, release};
use mullion_spec::source::Path;

use super::windows_field;
use crate::catalog::Catalog;
use crate::drivers::{DriverFacts, MachineOrigin};

impl Catalog {
    pub(super) fn admit_later(&self, cluster: &Cluster, draft: &mut Draft) {
        self.admit_windows_settings(cluster, draft);
        admit_hosts(cluster, draft);
    }

    /// Refuses settings of Windows that a group's driver does nothing with. One that all groups share is refused where
    /// it acts on none of them. For a group without machines it is a warning: the file works as it is, and `node add`
    /// refuses the group's first machine.
    fn admit_windows_settings(&self, cluster: &Cluster, draft: &mut Draft) {
        let windows: Vec<_> = self.windows_groups(cluster).collect();
        for (index, group, wanted, facts) in &windows {
            for (field, is_chosen) in wanted.settings.chosen() {
                let at = windows_field(draft, *index, field);
                let exists = facts.machines == MachineOrigin::Existing;
                // An empty list of updates asks for nothing.
                let is_set = exists && field != "updates" && draft.says(&at);
                let Some(refusal) = facts.refuses.get(field).filter(|_| is_chosen || is_set) else {
                    continue;
                };
                let is_shared = at == Path::top().key("windows").key(field);
                let acts = |(_, group, wanted, facts): &(_, &Group, &Windows, &DriverFacts)| {
                    let chosen = wanted.settings.chosen();
                    !group.numbers.is_empty()
                        && chosen.contains(&(field, true))
                        && !facts.refuses.contains_key(field)
                };
                let has_machines = !group.numbers.is_empty();
                let severity = if !has_machines || (is_shared && windows.iter().any(acts)) {
                    Severity::Warning
                } else {
                    Severity::Error
                };
                let rule = match facts.machines {
                    MachineOrigin::Existing => &carriers::INSTALLATION_UNUSED,
                    MachineOrigin::Made => &release::FEATURE_LATER,
                };
                let mut finding = Finding::new(rule, Place::Key(at))
                    .severity(severity)
                    .message(format!(
                        "`{field}` does nothing on machines of `{}`: {}",
                        group.name, refusal.why
                    ))
                    .hint(format!(
                        "leave `{field}` out, or set it for the groups that it acts on"
                    ));
                if let Some(remedy) = &refusal.remedy {
                    finding = finding.hint(remedy);
                }
                draft.report(finding);
            }
        }
    }

    /// The groups of Windows machines whose driver this release has.
    fn windows_groups<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> impl Iterator<Item = (usize, &'a Group, &'a Windows, &'a DriverFacts)> {
        let groups = cluster.groups.iter().enumerate();
        groups.filter_map(|(index, group)| match &group.system {
            System::Windows(windows) => {
                let facts = self.driver(group.carrier.driver());
                facts.available.then_some((index, group, windows, facts))
            }
            System::Linux { .. } => None,
        })
    }
}

/// Refuses hosts that carry no machines; what is wrong with a group that names one is told there.
fn admit_hosts(cluster: &Cluster, draft: &mut Draft) {
    for (index, host) in cluster.hosts.iter().enumerate() {
        let is_named = cluster.groups.iter().any(|group| {
            matches!(&group.carrier, Carrier::Made { host: Some(named), .. } if *named == host.name)
        });
        if !is_named {
            let at = Path::top().key("hosts").index(index);
            draft.report(
                Finding::new(&release::FEATURE_LATER, at.key("name"))
                    .message(format!(
                        "host `{}` carries no machines: no driver of this release uses hosts",
                        host.name
                    ))
                    // Where the address itself is wrong, that is what is told.
                    .also(at.key("address"), "its address")
                    .hint("remove the host"),
            );
        }
    }
}
