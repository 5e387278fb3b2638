//! Drivers, media and sizes: what can carry a group's machines.

use mullion_spec::cluster::{Carrier, Cluster, Duty, Group, Licence, Origin, Size, System};
use mullion_spec::draft::Draft;
use mullion_spec::finding::{Finding, Place};
use mullion_spec::rules::{carriers as rule, release};
use mullion_spec::shape::quoted;
use mullion_spec::value::ByteSize;
use mullion_spec::words::{Driver, Os};

use super::windows_field;
use crate::catalog::Catalog;
use crate::drivers::{self, DriverFacts, MachineOrigin, MediaNeed};

impl Catalog {
    pub(super) fn admit_carriers(&self, cluster: &Cluster, draft: &mut Draft) {
        for (index, group) in cluster.groups.iter().enumerate() {
            // The load balancer is carried as the control planes are, and they have been looked at.
            // A group without machines needs nothing that carries them.
            if group.duty == Duty::LoadBalancer || group.numbers.is_empty() {
                continue;
            }
            let driver = group.carrier.driver();
            let facts = self.driver(driver);
            self.admit_driver(driver, facts, group, index, draft);
            let Some(media) = facts.media(group.system.os()) else {
                continue;
            };
            match &group.carrier {
                Carrier::Made {
                    origin, size, host, ..
                } => {
                    if facts.machines == MachineOrigin::Existing {
                        draft.report(
                            Finding::new(&rule::ADDRESSES_MISSING, draft.group_field(index, "driver")).message(format!(
                                "group `{}`: driver `{driver}` takes machines that exist, and no address is given",
                                group.name
                            )),
                        );
                        continue;
                    }
                    admit_media(driver, media, origin, group, index, draft);
                    self.admit_size(facts, *size, group, index, draft);
                    if host.is_some() && facts.place == drivers::Place::ThisComputer {
                        let elsewhere = self
                            .drivers()
                            .filter(|(_, facts)| facts.place == drivers::Place::Hosts)
                            .map(|(driver, _)| driver);
                        draft.report(
                            Finding::new(&rule::HOST_UNUSED, draft.group_field(index, "host"))
                                .message(format!(
                                    "driver `{driver}` carries machines on this computer only"
                                ))
                                .hint(format!(
                                    "remove `host`, or take one of {}",
                                    quoted(elsewhere)
                                )),
                        );
                    }
                    if media == MediaNeed::Needed && *origin != Origin::Packages {
                        self.note_evaluation(group, index, draft);
                    }
                }
                Carrier::Existing { .. } if facts.machines == MachineOrigin::Made => {
                    draft.report(
                        Finding::new(
                            &rule::ADDRESSES_UNUSED,
                            Place::Key(draft.group_field(index, "addresses")),
                        )
                        .message(format!(
                            "driver `{driver}` makes machines, and takes no addresses"
                        ))
                        .also(draft.group_field(index, "driver"), "the driver"),
                    );
                }
                Carrier::Existing { .. } => {}
            }
        }
    }

    fn admit_driver(
        &self,
        driver: Driver,
        facts: &DriverFacts,
        group: &Group,
        index: usize,
        draft: &mut Draft,
    ) {
        let os = group.system.os();
        let at = draft.group_field(index, "driver");
        if facts.media(os).is_none() {
            let able = self
                .drivers()
                .filter(|(_, facts)| facts.available && facts.media(os).is_some())
                .map(|(driver, _)| driver);
            draft.report(
                Finding::new(&rule::CANNOT_CARRY, at.clone())
                    .message(format!(
                        "group `{}`: driver `{driver}` cannot carry {os}",
                        group.name
                    ))
                    .also(
                        draft.group_field(index, "os"),
                        format!("the group runs {os}"),
                    )
                    .hint(format!("for {os}, take one of {}", quoted(able))),
            );
        }
        if !facts.available {
            let have = self
                .drivers()
                .filter(|(_, facts)| facts.available)
                .map(|(driver, _)| driver);
            let mut finding = Finding::new(&release::DRIVER_LATER, at)
                .message(format!("this release does not have driver `{driver}` yet"))
                .hint(format!("take one of {}", quoted(have)));
            if os == Os::Windows {
                finding = finding.hint(
                    "for a real Windows, install it yourself and give its address with `addresses`",
                );
            }
            draft.report(finding);
        }
    }

    fn admit_size(
        &self,
        facts: &DriverFacts,
        size: Size,
        group: &Group,
        index: usize,
        draft: &mut Draft,
    ) {
        let (memory, disk, what) = match (&group.system, &facts.minima) {
            (System::Windows(_), Some(minima)) => (
                ByteSize::mib(minima.memory_mib),
                ByteSize::gib(minima.disk_gib),
                "a stand-in".to_owned(),
            ),
            (System::Windows(windows), None) => {
                Self::admit_page_file(windows.settings.page_file, size, index, draft);
                let release = self.windows(windows.version);
                let (minima, form) = if windows.desktop {
                    (&release.desktop, "with the desktop")
                } else {
                    (&release.core, "as Server Core")
                };
                (
                    ByteSize::mib(minima.memory_mib),
                    ByteSize::gib(minima.disk_gib),
                    format!("{} {form}", release.product),
                )
            }
            (System::Linux { release }, _) => {
                let Some(release) = self.linux(release) else {
                    return;
                };
                if group.duty == Duty::ControlPlane && size.cpus < release.control_plane_cpus {
                    let needs = release.control_plane_cpus;
                    draft.report(
                        Finding::new(&rule::CPUS_SMALL, draft.group_field(index, "cpus"))
                            .message(format!(
                                "a control plane needs {needs} processors, and the group has {}",
                                size.cpus
                            ))
                            .hint(format!("write `cpus: {needs}` or more")),
                    );
                }
                let (memory, what) = match group.duty {
                    Duty::ControlPlane => (release.control_plane_memory_mib, "a control plane on "),
                    Duty::Worker | Duty::LoadBalancer => (release.memory_mib, ""),
                };
                (
                    ByteSize::mib(memory),
                    ByteSize::gib(release.disk_gib),
                    format!("{what}{}", release.name),
                )
            }
        };
        for (rule, field, has, needs) in [
            (&rule::MEMORY_SMALL, "memory", size.memory, memory),
            (&rule::DISK_SMALL, "disk", size.disk, disk),
        ] {
            if has < needs {
                draft.report(
                    Finding::new(rule, draft.group_field(index, field))
                        .message(format!(
                            "{what} needs {needs} of {field}, and the group has {has}"
                        ))
                        .hint(format!("write `{field}: {needs}` or more")),
                );
            }
        }
    }

    /// Sees that the page file leaves room for Windows itself.
    fn admit_page_file(page_file: ByteSize, size: Size, index: usize, draft: &mut Draft) {
        if page_file >= size.disk {
            let at = windows_field(draft, index, "pageFile");
            draft.report(
                Finding::new(&rule::PAGE_FILE_LARGE, at)
                    .message(format!(
                        "a page file of {page_file} does not fit a disk of {}",
                        size.disk
                    ))
                    .also(
                        draft.group_field(index, "disk"),
                        format!("the disk has {}", size.disk),
                    ),
            );
        }
    }

    fn note_evaluation(&self, group: &Group, index: usize, draft: &mut Draft) {
        if let System::Windows(windows) = &group.system
            && windows.settings.licence == Licence::Evaluation
        {
            draft.report(
                Finding::new(&rule::EVALUATION, Place::Key(draft.group_field(index, "name"))).message(format!(
                    "group `{}`: Windows runs under an evaluation licence, which ends after {} days",
                    group.name,
                    self.evaluation_days()
                )),
            );
        }
    }
}

fn admit_media(
    driver: Driver,
    media: MediaNeed,
    origin: &Origin,
    group: &Group,
    index: usize,
    draft: &mut Draft,
) {
    let field = match origin {
        Origin::Template(_) => "template",
        Origin::Media(_) | Origin::Packages => "media",
    };
    match (media, origin) {
        (MediaNeed::None, Origin::Media(_) | Origin::Template(_)) => draft.report(
            Finding::new(
                &rule::MEDIA_UNUSED,
                Place::Key(draft.group_field(index, field)),
            )
            .message(format!("driver `{driver}` takes no {field}"))
            .hint(format!(
                "remove `{field}`, or take a driver that installs from it"
            )),
        ),
        (MediaNeed::Needed, Origin::Packages) if group.system.os() == Os::Windows => {
            draft.report(
                Finding::new(&rule::MEDIA_MISSING, draft.group_field(index, "driver")).message(format!(
                    "group `{}`: driver `{driver}` needs media or a template to install Windows from",
                    group.name
                )),
            );
        }
        _ => {}
    }
}
