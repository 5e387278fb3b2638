//! Kubernetes, Windows, Linux and network plugins: which go together.

use mullion_spec::cluster::{Cluster, ControlPlane, Group, System, Windows};
use mullion_spec::draft::Draft;
use mullion_spec::finding::{Finding, Place, Severity};
use mullion_spec::rules::{network as network_rule, release, versions as rule};
use mullion_spec::shape::quoted;
use mullion_spec::source::Path;
use mullion_spec::words::{Backend, Cni, Os};

use super::{unsupported, windows_field};
use crate::catalog::Catalog;
use crate::kubernetes::{KubernetesRelease, Support};

impl Catalog {
    pub(super) fn admit_versions(&self, cluster: &Cluster, draft: &mut Draft) {
        let kubernetes = self.admit_kubernetes(cluster, draft);
        for (index, group) in cluster.groups.iter().enumerate() {
            match &group.system {
                System::Linux { release } => self.admit_linux(release, index, draft),
                System::Windows(windows) if !group.numbers.is_empty() => {
                    self.admit_time_zone(windows, group, index, draft);
                    if let Some(kubernetes) = kubernetes {
                        self.admit_windows(cluster, kubernetes, windows, group, index, draft);
                    }
                }
                System::Windows(_) => {}
            }
        }
        self.admit_network(cluster, draft);
        if let ControlPlane::Existing { .. } = cluster.control_plane {
            draft.report(Finding::new(
                &release::EXISTING_LATER,
                Place::Key(Path::top().key("controlPlane").key("existing")),
            ));
        }
    }

    fn admit_kubernetes(&self, cluster: &Cluster, draft: &mut Draft) -> Option<&KubernetesRelease> {
        let at = Path::top().key("kubernetes");
        let release = match self.resolve_kubernetes(cluster.kubernetes.version) {
            Ok(release) => release,
            Err(error) => {
                let hint = match error.newest_of_minor {
                    Some(newest) => format!("write `version: \"{newest}\"`"),
                    None => format!("take one of {}", quoted(error.known_minors)),
                };
                draft.report(
                    Finding::new(&rule::UNKNOWN_KUBERNETES, at.key("version"))
                        .message(format!(
                            "the catalog does not know Kubernetes {}",
                            cluster.kubernetes.version
                        ))
                        .hint(hint),
                );
                return None;
            }
        };
        let minor = release.version.minor;
        for (gate, value) in &cluster.kubernetes.feature_gates {
            if let Some(lock) = self.locked_gate(gate, minor)
                && lock.value != *value
            {
                draft.report(
                    Finding::new(&rule::GATE, at.key("featureGates").key(gate)).message(format!(
                        "`{gate}` is locked to {} from Kubernetes {} on",
                        lock.value, lock.locked_from
                    )),
                );
            }
        }
        let oldest = self
            .kubernetes_minor(minor)
            .and_then(|known| known.windows_minimum);
        if let Some(oldest) = oldest
            && release.version < oldest
            && cluster.systems().contains(&Os::Windows)
        {
            let symptoms: Vec<_> = self
                .missing_fixes(release.version)
                .iter()
                .map(|fix| fix.symptom.as_str())
                .collect();
            draft.report(
                Finding::new(&rule::OLD_PATCH, at.key("version"))
                    .message(format!(
                        "Kubernetes {} lacks fixes that Windows nodes need: {}",
                        release.version,
                        symptoms.join("; ")
                    ))
                    .hint(format!("take {oldest} or later of the same minor release")),
            );
        }
        Some(release)
    }

    fn admit_linux(&self, release: &str, group: usize, draft: &mut Draft) {
        if self.linux(release).is_none() {
            let known = self
                .linux_releases()
                .map(|release| format!("\"{}\" ({})", release.version, release.name));
            draft.report(
                Finding::new(&rule::UNKNOWN_LINUX, draft.group_field(group, "version"))
                    .message(format!(
                        "the catalog does not know the Linux release `{release}`"
                    ))
                    .also(draft.group_field(group, "os"), "the group runs Linux")
                    .hint(format!(
                        "take one of {}",
                        known.collect::<Vec<_>>().join(", ")
                    )),
            );
        }
    }

    fn admit_windows(
        &self,
        cluster: &Cluster,
        kubernetes: &KubernetesRelease,
        windows: &Windows,
        group: &Group,
        index: usize,
        draft: &mut Draft,
    ) {
        let at = draft.group_field(index, "version");
        let minor = kubernetes.version.minor;
        let (limit, hint) = match self.windows_support(minor, windows.version) {
            Support::Supported { .. } => (None, String::new()),
            Support::Unsupported { last_good, .. } => (
                Some(format!("the last that did is {last_good}")),
                format!("write `version: \"{last_good}\"` under `kubernetes`"),
            ),
            Support::NotYet { first_good, .. } => (
                Some(format!("the first that does is {first_good}")),
                format!("write `version: \"{first_good}\"` under `kubernetes`"),
            ),
        };
        if let Some(limit) = limit {
            let supported = self
                .windows_releases()
                .map(|(version, _)| version)
                .filter(|version| {
                    matches!(
                        self.windows_support(minor, *version),
                        Support::Supported { .. }
                    )
                });
            let finding = Finding::new(&rule::WINDOWS_UNSUPPORTED, at.clone())
                .severity(unsupported(cluster))
                .message(format!(
                    "Kubernetes {minor} does not support Windows Server {}; {limit}",
                    windows.version
                ))
                .also(
                    Path::top().key("kubernetes").key("version"),
                    format!("Kubernetes {}", kubernetes.version),
                )
                .hint(format!(
                    "take Windows Server {}, or {hint}",
                    quoted(supported)
                ));
            draft.report(with_way_out(cluster, finding));
        }
        if let Some(cni) = self.cni(cluster.network.cni)
            && cni.windows(windows.version).is_none()
            // An empty list means that nobody looked, not that there is none.
            && !cni.windows.is_empty()
        {
            let listed = cni.windows.iter().map(|listed| listed.release);
            let finding = Finding::new(&rule::CNI_WINDOWS, at)
                .severity(unsupported(cluster))
                .message(format!(
                    "group `{}`: {} {} does not list Windows Server {}",
                    group.name, cluster.network.cni, cni.version, windows.version
                ))
                .hint(format!(
                    "take another network plugin, or a Windows that it lists: {}",
                    quoted(listed)
                ));
            draft.report(with_way_out(cluster, finding));
        }
        self.admit_updates(cluster, windows, index, draft);
    }

    /// Refuses a zone that Windows would refuse, where the driver sets one.
    fn admit_time_zone(&self, windows: &Windows, group: &Group, index: usize, draft: &mut Draft) {
        let zone = &windows.settings.timezone;
        let refuses = &self.driver(group.carrier.driver()).refuses;
        if refuses.contains_key("timezone") || self.windows_time_zone(zone).is_some() {
            return;
        }
        let at = windows_field(draft, index, "timezone");
        draft.report(
            Finding::new(&rule::UNKNOWN_TIME_ZONE, at)
                .message(format!("the catalog does not know the time zone `{zone}`")),
        );
    }

    /// Warns of updates that are known to be bad and of which no other in the list mends them.
    fn admit_updates(&self, cluster: &Cluster, windows: &Windows, index: usize, draft: &mut Draft) {
        let updates = &windows.settings.updates;
        let at = windows_field(draft, index, "updates");
        for bad in self.known_bad_updates() {
            let same = |known: &Option<String>, update: &String| {
                known
                    .as_ref()
                    .is_some_and(|known| known.eq_ignore_ascii_case(update))
            };
            let place = updates.iter().position(|update| same(&bad.update, update));
            let is_mended = updates.iter().any(|update| same(&bad.fixed_by, update));
            let Some(place) = place.filter(|_| bad.release == windows.version && !is_mended) else {
                continue;
            };
            // Nobody knows which plugin takes the place of none.
            let cni = cluster.network.cni;
            let (severity, with) = if cni == Cni::None || bad.shows_with(cni) {
                (Severity::Warning, String::new())
            } else {
                (Severity::Note, format!(" with {}", quoted(&bad.cni)))
            };
            draft.report(
                Finding::new(&rule::KNOWN_BAD_UPDATE, at.index(place))
                    .severity(severity)
                    .message(format!(
                        "{} is known to be bad on Windows Server {}{with}: {}",
                        updates[place], bad.release, bad.symptom
                    ))
                    .hint(bad.remedy.clone()),
            );
        }
    }

    fn admit_network(&self, cluster: &Cluster, draft: &mut Draft) {
        let network = &cluster.network;
        let at = Path::top().key("network");
        let Some(cni) = self.cni(network.cni) else {
            return;
        };
        // Antrea has a way of its own, so the default backend is not a choice against it.
        let is_choice = !cni.backend.is_empty() || draft.says(&at.key("backend"));
        match cni.backend(network.backend) {
            None if is_choice => {
                let known = cni.backend.iter().map(|known| known.backend);
                let usable = known.filter(|backend| !is_linux_only(*backend));
                let hint = if cni.backend.is_empty() {
                    "remove `backend`".into()
                } else {
                    format!("take one of {}", quoted(usable))
                };
                draft.report(
                    Finding::new(&network_rule::BACKEND, at.key("backend"))
                        .message(format!(
                            "{} has no backend `{}`",
                            network.cni, network.backend
                        ))
                        .hint(hint),
                );
            }
            Some(backend) if !backend.on_windows && cluster.systems().contains(&Os::Windows) => {
                let why = backend.refusal.as_deref().unwrap_or("it is for Linux only");
                draft.report(
                    Finding::new(&network_rule::BACKEND_WINDOWS, at.key("backend")).message(
                        format!(
                            "{} with backend `{}` does not work with Windows: {why}",
                            network.cni, network.backend
                        ),
                    ),
                );
            }
            _ => {}
        }
        if !cni.available {
            let have = [Cni::Flannel, Cni::Calico, Cni::Antrea]
                .into_iter()
                .filter(|cni| self.cni(*cni).is_some_and(|cni| cni.available))
                .chain([Cni::None]);
            draft.report(
                Finding::new(&release::CNI_LATER, at.key("cni"))
                    .message(format!("this release does not have {} yet", network.cni))
                    .hint(format!("take one of {}", quoted(have))),
            );
        }
    }
}

/// Names the way around a rule about what upstream calls unsupported, unless it is taken already.
fn with_way_out(cluster: &Cluster, finding: Finding) -> Finding {
    if cluster.kubernetes.allow_unsupported {
        finding
    } else {
        finding.hint("to try it all the same, set `kubernetes.allowUnsupported: true`")
    }
}

fn is_linux_only(backend: Backend) -> bool {
    matches!(backend, Backend::Ipip | Backend::Ebpf)
}
