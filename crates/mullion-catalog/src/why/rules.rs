//! The rules behind the answers: one for each two keys that have to do with each other.
//!
//! A rule reads the catalog and the question, and nothing else. Keys come in the order of [`Key::ALL`].

use mullion_spec::words::{Os, Word};

use super::{Answer, Key, Question, Standing};
use crate::catalog::Catalog;
use crate::drivers::MediaNeed;
use crate::kubernetes::Support;

pub(super) fn answer(
    standing: Standing,
    about: String,
    reason: impl Into<String>,
    source: impl Into<String>,
) -> Answer {
    Answer {
        standing,
        about,
        reason: reason.into(),
        source: source.into(),
    }
}

impl Catalog {
    /// The answers about two keys; none where no rule joins them.
    pub(super) fn why_pair(
        &self,
        question: &Question<'_>,
        first: Key,
        second: Key,
    ) -> Option<Vec<Answer>> {
        let about = format!("{} with {}", question.name(first), question.name(second));
        match (first, second) {
            (Key::Kubernetes, Key::Windows) => self.kubernetes_windows(question, &about),
            (Key::Kubernetes, Key::Containerd) => self.kubernetes_containerd(question, about),
            (Key::Windows, Key::Cni) => self.windows_cni(question, &about),
            (Key::Windows, Key::Backend) | (Key::Backend, Key::Os) => {
                self.backend_system(question, &about)
            }
            (Key::Windows, Key::Driver) => self.driver_carries(question, Os::Windows, about),
            (Key::Driver, Key::Os) => self.driver_carries(question, question.os?, about),
            (Key::Windows, Key::Os) => Some(match question.os? {
                Os::Windows => Vec::new(),
                Os::Linux => vec![answer(
                    Standing::DoesNot,
                    about,
                    "a Windows release does not run on a Linux machine",
                    "by definition",
                )],
            }),
            (Key::Windows, Key::Update) => self.windows_update(question, about),
            (Key::Windows, Key::Container) => self.windows_container(question, about),
            (Key::Containerd, Key::Cni) => self.containerd_cni(question, about),
            (Key::Cni, Key::Backend) => self.cni_backend(question, about),
            (Key::Cni, Key::Os) => self.cni_system(question, about),
            (Key::Cni, Key::Update) => self.cni_update(question, &about),
            _ => None,
        }
    }

    /// The answers about a key that is asked for alone.
    pub(super) fn why_alone(&self, question: &Question<'_>, key: Key) -> Vec<Answer> {
        let about = question.name(key);
        let found = match key {
            Key::Kubernetes => question.kubernetes.map(|release| {
                let reason = format!(
                    "its kubeadm asks for etcd {}, CoreDNS {} and pause {}",
                    release.etcd, release.coredns, release.pause
                );
                vec![answer(Standing::Works, about.clone(), reason, &release.source)]
            }),
            Key::Windows => question.windows.map(|host| {
                let facts = self.windows(host.version);
                let reason = format!("build {}, extended support ends on {}", facts.build, facts.extended_end);
                let mut answers = vec![answer(Standing::Works, about.clone(), reason, &facts.source)];
                answers.extend(self.revision_faults(question, &about));
                answers
            }),
            Key::Containerd => question.containerd.as_ref().and_then(|version| {
                let line = self.containerd_line(version)?;
                let reason = format!(
                    "configuration version {}, plugin folder under `{}`, pause {} when told nothing",
                    line.config_version,
                    line.bin_key.key(),
                    line.default_pause
                );
                Some(vec![answer(Standing::Works, about.clone(), reason, &line.source)])
            }),
            Key::Cni => question.cni.and_then(|cni| {
                let release = self.cni(cni)?;
                let (standing, state) = availability(release.available);
                let reason = format!("version {}{state}; {}", release.version, release.policy);
                Some(vec![answer(standing, about.clone(), reason, &release.source)])
            }),
            Key::Driver => question.driver.map(|driver| {
                let facts = self.driver(driver);
                let (standing, state) = availability(facts.available);
                vec![answer(standing, about.clone(), format!("{}{state}", facts.summary), &facts.source)]
            }),
            Key::Update => question.update.as_ref().map(|update| self.update_alone(update, &about)),
            Key::Backend => self.backend_system(question, &about),
            Key::Os | Key::Container => None,
        };
        found.unwrap_or_else(|| {
            let reason = "the catalog holds nothing about it alone: ask together with another key";
            vec![answer(Standing::Unknown, about, reason, "no row")]
        })
    }

    fn kubernetes_windows(&self, question: &Question<'_>, about: &str) -> Option<Vec<Answer>> {
        let (release, host) = (question.kubernetes?, question.windows?);
        let minor = release.version.minor;
        let mut answers = vec![match self.windows_support(minor, host.version) {
            Support::Supported { source } => {
                let reason = format!(
                    "the documentation of {minor} names Server {} as supported",
                    host.version
                );
                answer(Standing::Works, about.into(), reason, source)
            }
            Support::Unsupported { last_good, source } => {
                let reason = format!(
                    "the documentation names Server {} no more; {last_good} is the last minor that did",
                    host.version
                );
                answer(Standing::DoesNot, about.into(), reason, source)
            }
            Support::NotYet { first_good, source } => {
                let reason = format!(
                    "the documentation of {minor} does not name Server {}; {first_good} is the first minor that does",
                    host.version
                );
                answer(Standing::DoesNot, about.into(), reason, source)
            }
        }];
        for fix in self.missing_fixes(release.version) {
            let known = self
                .kubernetes_minor(minor)
                .and_then(|minor| minor.windows_minimum);
            let remedy =
                known.map_or_else(String::new, |minimum| format!("; take {minimum} or later"));
            let reason = format!(
                "{} has a known fault: {}{remedy}",
                release.version, fix.symptom
            );
            answers.push(answer(Standing::DoesNot, about.into(), reason, &fix.source));
        }
        let pause = self.pause_for(release, &[host.version]);
        if pause.because_of.is_some() {
            let reason = format!(
                "kubeadm's own pause {} has no variant for this build: the sandbox image is set to {}",
                release.pause, pause.tag
            );
            answers.push(answer(Standing::Works, about.into(), reason, pause.source));
        }
        answers.extend(self.revision_faults(question, about));
        Some(answers)
    }

    fn kubernetes_containerd(&self, question: &Question<'_>, about: String) -> Option<Vec<Answer>> {
        let (release, version) = (question.kubernetes?, question.containerd.as_ref()?);
        let need = self.containerd_need(release.version.minor)?;
        let (standing, reason) = match need.minimum_of(version) {
            Some(minimum) if version >= minimum => (
                Standing::Works,
                format!("{minimum} and later of this line are listed for it"),
            ),
            Some(minimum) => (
                Standing::DoesNot,
                format!(
                    "{minimum} is the first of this line that is listed for it; {} is taken",
                    need.take
                ),
            ),
            None => {
                let listed: Vec<_> = need
                    .minimum
                    .iter()
                    .map(|minimum| format!("{minimum}+"))
                    .collect();
                // Upstream lists what it has tested: a newer line may well work, an older one was dropped.
                let newer = need
                    .minimum
                    .iter()
                    .all(|minimum| minimum.line() < version.line());
                let standing = if newer {
                    Standing::Unknown
                } else {
                    Standing::DoesNot
                };
                let listed = listed.join(", ");
                (
                    standing,
                    format!(
                        "its line is not listed for it, only {listed}; {} is taken",
                        need.take
                    ),
                )
            }
        };
        Some(vec![answer(standing, about, reason, &need.source)])
    }

    /// The faults of the revision in the question; with a network plugin in it, only those that show with that one.
    pub(super) fn revision_faults(&self, question: &Question<'_>, about: &str) -> Vec<Answer> {
        let Some((host, revision)) = question
            .windows
            .and_then(|host| Some((host, host.revision?)))
        else {
            return Vec::new();
        };
        let faults = self.known_bad(host.version, revision).into_iter();
        let shown = faults.filter(|bad| question.cni.is_none_or(|cni| bad.shows_with(cni)));
        shown
            .map(|bad| {
                let reason = format!(
                    "revision {revision} is known to be bad: {}; {}",
                    bad.symptom, bad.remedy
                );
                answer(Standing::DoesNot, about.into(), reason, &bad.source)
            })
            .collect()
    }

    fn windows_update(&self, question: &Question<'_>, about: String) -> Option<Vec<Answer>> {
        let (host, update) = (question.windows?, question.update.as_ref()?);
        let found: Vec<_> = self
            .update_alone(update, &about)
            .into_iter()
            .filter(|_| {
                self.known_bad_updates().any(|bad| {
                    bad.release == host.version
                        && [&bad.update, &bad.fixed_by]
                            .iter()
                            .any(|known| known.as_ref() == Some(update))
                })
            })
            .collect();
        if found.is_empty() {
            let reason = format!(
                "the catalog knows nothing of {update} on Server {}",
                host.version
            );
            return Some(vec![answer(Standing::Unknown, about, reason, "no row")]);
        }
        Some(found)
    }

    fn update_alone(&self, update: &str, about: &str) -> Vec<Answer> {
        let mut answers = Vec::new();
        for bad in self.known_bad_updates() {
            if bad.update.as_deref() == Some(update) {
                let reason = format!(
                    "Server {} from revision {} to before {}: {}; {}",
                    bad.release, bad.first_bad, bad.first_good, bad.symptom, bad.remedy
                );
                answers.push(answer(Standing::DoesNot, about.into(), reason, &bad.source));
            } else if bad.fixed_by.as_deref() == Some(update) {
                let reason = format!("on Server {} it mends: {}", bad.release, bad.symptom);
                answers.push(answer(Standing::Works, about.into(), reason, &bad.source));
            }
        }
        if answers.is_empty() {
            let reason = format!("the catalog knows nothing of {update}");
            answers.push(answer(Standing::Unknown, about.into(), reason, "no row"));
        }
        answers
    }

    fn windows_container(&self, question: &Question<'_>, about: String) -> Option<Vec<Answer>> {
        let (host, container) = (question.windows?, question.container?);
        let build = self.windows(host.version).build;
        let (standing, reason) = if self.container_runs(build, container) {
            (
                Standing::Works,
                format!("a host of build {build} runs it in process isolation"),
            )
        } else {
            let runs = self
                .container_bases()
                .filter(|base| self.container_runs(build, base.build));
            let names: Vec<_> = runs.map(|base| base.name.as_str()).collect();
            let reason = format!(
                "a host of build {build} runs {} in process isolation",
                names.join(" and ")
            );
            (Standing::DoesNot, reason)
        };
        Some(vec![answer(
            standing,
            about,
            reason,
            self.container_rule_source(),
        )])
    }

    fn driver_carries(
        &self,
        question: &Question<'_>,
        os: Os,
        about: String,
    ) -> Option<Vec<Answer>> {
        let driver = question.driver?;
        let facts = self.driver(driver);
        let Some(media) = facts.media(os) else {
            let carried: Vec<_> = facts.carries.keys().map(|os| os.word()).collect();
            let reason = format!("{driver} carries {} machines only", carried.join(" and "));
            return Some(vec![answer(
                Standing::DoesNot,
                about,
                reason,
                &facts.source,
            )]);
        };
        let media = match media {
            MediaNeed::None => "takes no media",
            MediaNeed::Optional => "can take media",
            MediaNeed::Needed => "needs media or a template",
        };
        let (standing, state) = availability(facts.available);
        let stand_in = if facts.stand_in && os == Os::Windows {
            "; it stands in for Windows and proves nothing about it"
        } else {
            ""
        };
        let reason = format!("{driver} carries {os} machines{state} and {media}{stand_in}");
        Some(vec![answer(standing, about, reason, &facts.source)])
    }
}

fn availability(available: bool) -> (Standing, &'static str) {
    if available {
        (Standing::Works, "")
    } else {
        (Standing::DoesNot, " (not in this release of Mullion yet)")
    }
}
