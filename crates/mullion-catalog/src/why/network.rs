//! The rules about network plugins and how they carry packets.

use mullion_spec::words::Word;

use super::rules::answer;
use super::{Answer, Host, Question, Standing};
use crate::catalog::Catalog;
use crate::cni::CniRelease;

impl Catalog {
    pub(super) fn windows_cni(&self, question: &Question<'_>, about: &str) -> Option<Vec<Answer>> {
        let (host, cni) = (question.windows?, question.cni?);
        let Some(release) = self.cni(cni) else {
            let reason = "no network plugin is installed, so nothing is known of it";
            return Some(vec![answer(
                Standing::Unknown,
                about.into(),
                reason,
                "by definition",
            )]);
        };
        let mut answers = vec![Self::listed_windows(release, host, about)];
        answers.extend(not_in_this_release(release, about));
        let needs = release.precondition.iter();
        answers.extend(
            needs.map(|need| answer(Standing::Needs, about.into(), &need.what, &need.source)),
        );
        if question.kubernetes.is_none() {
            answers.extend(self.revision_faults(question, about));
        }
        Some(answers)
    }

    /// What a network plugin says of a Windows release and its revision.
    fn listed_windows(release: &CniRelease, host: Host, about: &str) -> Answer {
        let Some(listed) = release.windows(host.version) else {
            let known = release.unlisted_windows.as_deref();
            let reason = known.unwrap_or("it does not list the release");
            return answer(Standing::Unknown, about.into(), reason, &release.source);
        };
        let Some(minimum) = listed.minimum_revision else {
            return answer(
                Standing::Works,
                about.into(),
                "nothing of it stands against the release",
                &listed.source,
            );
        };
        let standing = if host.revision.is_some_and(|revision| revision < minimum) {
            Standing::DoesNot
        } else {
            Standing::Works
        };
        let reason = format!(
            "it lists Server {} from revision {minimum} on",
            host.version
        );
        answer(standing, about.into(), reason, &listed.source)
    }

    pub(super) fn cni_update(&self, question: &Question<'_>, about: &str) -> Option<Vec<Answer>> {
        let (cni, update) = (question.cni?, question.update.as_ref()?);
        let mut known = self.known_bad_updates();
        let bad = known.find(|bad| bad.update.as_ref() == Some(update))?;
        let (standing, reason) = if bad.shows_with(cni) {
            (
                Standing::DoesNot,
                format!("{}; {}", bad.symptom, bad.remedy),
            )
        } else {
            (
                Standing::Works,
                format!("its fault is not known to show with {cni}"),
            )
        };
        Some(vec![answer(standing, about.into(), reason, &bad.source)])
    }

    pub(super) fn containerd_cni(
        &self,
        question: &Question<'_>,
        about: String,
    ) -> Option<Vec<Answer>> {
        let (version, release) = (question.containerd.as_ref()?, self.cni(question.cni?)?);
        let minimum = release.windows_minimum_containerd.as_ref()?;
        let standing = if version >= minimum {
            Standing::Works
        } else {
            Standing::DoesNot
        };
        let reason = format!("its Windows parts run on containerd {minimum} and later");
        Some(vec![answer(standing, about, reason, &release.source)])
    }

    pub(super) fn cni_backend(
        &self,
        question: &Question<'_>,
        about: String,
    ) -> Option<Vec<Answer>> {
        let (cni, backend) = (question.cni?, question.backend?);
        let release = self.cni(cni)?;
        let Some(known) = release.backend(backend) else {
            let names: Vec<_> = release
                .backend
                .iter()
                .map(|known| known.backend.word())
                .collect();
            let reason = if names.is_empty() {
                format!("{cni} has a way of its own and takes no backend")
            } else {
                format!("{cni} has {}", names.join(", "))
            };
            return Some(vec![answer(
                Standing::DoesNot,
                about,
                reason,
                &release.source,
            )]);
        };
        let mut answers = not_in_this_release(release, &about);
        answers.push(match (question.with_windows(), known.on_windows) {
            (true, false) => {
                let reason = known.refusal.as_deref().unwrap_or("Windows cannot use it");
                answer(Standing::DoesNot, about, reason, &known.source)
            }
            (true, true) => {
                let reason = format!("Windows can use it; it needs: {}", known.needs.join("; "));
                answer(Standing::Works, about, reason, &known.source)
            }
            (false, true) => answer(
                Standing::Works,
                about,
                "both systems can use it",
                &known.source,
            ),
            (false, false) => answer(Standing::Works, about, "on Linux nodes only", &known.source),
        });
        Some(answers)
    }

    /// Which network plugins have a backend, and what Windows can do with it. With a plugin in the question, the
    /// rule about the two has said so already.
    pub(super) fn backend_system(
        &self,
        question: &Question<'_>,
        about: &str,
    ) -> Option<Vec<Answer>> {
        if question.cni.is_some() {
            return Some(Vec::new());
        }
        let backend = question.backend?;
        let having = self
            .cni
            .cni
            .iter()
            .filter_map(|(cni, release)| Some((cni, release.backend(backend)?)));
        let answers = having.map(|(cni, known)| {
            let (standing, reason) = if question.with_windows() && !known.on_windows {
                let refusal = known.refusal.as_deref().unwrap_or("Windows cannot use it");
                (Standing::DoesNot, format!("{cni}: {refusal}"))
            } else if known.on_windows {
                (Standing::Works, format!("{cni}: both systems can use it"))
            } else {
                (Standing::Works, format!("{cni}: on Linux nodes only"))
            };
            answer(standing, about.into(), reason, &known.source)
        });
        Some(answers.collect())
    }

    pub(super) fn cni_system(&self, question: &Question<'_>, about: String) -> Option<Vec<Answer>> {
        let release = self.cni(question.cni?)?;
        let os = question.os?;
        let mut answers = not_in_this_release(release, &about);
        let policy = if release.policy_on.contains(&os) {
            "is"
        } else {
            "is not"
        };
        let reason = format!("it runs there; NetworkPolicy {policy} enforced on {os} nodes");
        answers.push(answer(Standing::Works, about, reason, &release.source));
        Some(answers)
    }
}

fn not_in_this_release(release: &CniRelease, about: &str) -> Vec<Answer> {
    if release.available {
        return Vec::new();
    }
    let reason = "this release of Mullion does not install it yet";
    vec![answer(
        Standing::DoesNot,
        about.into(),
        reason,
        &release.source,
    )]
}
