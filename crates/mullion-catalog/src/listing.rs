//! The whole catalog as rows, for lists that people and programs read.

use mullion_spec::words::Word;
use serde::Serialize;

use crate::artifacts::{ArtifactRef, Build, CBuild, GoBuild};
use crate::catalog::Catalog;
use crate::digest::{Digest, DigestState};
use crate::drivers::DriverFacts;

/// Everything that the catalog knows of one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The subject, which is the name of its data file.
    pub subject: &'static str,
    /// What is known, in the order of the data.
    pub rows: Vec<Row>,
}

/// One thing that the catalog knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What it is about.
    pub name: String,
    /// What is known, in words.
    pub value: String,
    /// Where it was read.
    pub source: String,
    /// How well its digest is known, for what has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<DigestState>,
}

fn row(name: impl Into<String>, value: impl Into<String>, source: &str) -> Row {
    Row {
        name: name.into(),
        value: value.into(),
        source: source.into(),
        digest: None,
    }
}

fn joined<Item: ToString>(items: impl IntoIterator<Item = Item>) -> String {
    let words: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    words.join(", ")
}

impl Row {
    fn with(mut self, digest: &Digest) -> Self {
        self.digest = Some(digest.state());
        self
    }
}

impl Catalog {
    /// Everything, by subject.
    pub fn sections(&self) -> Vec<Section> {
        let section = |subject, rows| Section { subject, rows };
        vec![
            section("kubernetes", self.kubernetes_rows()),
            section("containerd", self.containerd_rows()),
            section("cni", self.cni_rows()),
            section("kube-proxy", self.kube_proxy_rows()),
            section("gates", self.gate_rows()),
            section("windows", self.windows_rows()),
            section("updates", self.update_rows()),
            section("container-os", self.container_rows()),
            section("linux", self.linux_rows()),
            section("drivers", self.driver_rows()),
            section("firewall", self.firewall_rows()),
            section("artifacts", self.artifact_rows()),
            section("modules", self.module_rows()),
        ]
    }

    fn kubernetes_rows(&self) -> Vec<Row> {
        let mut rows: Vec<_> = self
            .kubernetes_minors()
            .map(|minor| {
                let windows = minor.windows_minimum.map_or_else(String::new, |minimum| {
                    format!("; Windows nodes from {minimum} on")
                });
                let value = format!("takes {} ({}){windows}", minor.take, minor.take_reason);
                row(minor.minor.to_string(), value, &minor.source)
            })
            .collect();
        rows.extend(self.kubernetes_releases().map(|release| {
            let default = if release.version == self.default_kubernetes() {
                "the default; "
            } else {
                ""
            };
            let value = format!(
                "{default}etcd {}, CoreDNS {}, pause {}",
                release.etcd, release.coredns, release.pause
            );
            row(release.version.to_string(), value, &release.source)
        }));
        rows.extend(self.kubernetes.windows.iter().map(|(version, listing)| {
            let range = match (listing.first, listing.last) {
                (None, None) => "supported".to_owned(),
                (Some(first), None) => format!("supported from {first} on"),
                (None, Some(last)) => format!("supported up to {last}"),
                (Some(first), Some(last)) => format!("supported from {first} to {last}"),
            };
            row(format!("windows {version}"), range, &listing.source)
        }));
        rows.extend(self.kubernetes.fix.iter().map(|fix| {
            let value = format!("{}; mended in {}", fix.symptom, joined(&fix.fixed_in));
            row(format!("fix {}", fix.name), value, &fix.source)
        }));
        rows
    }

    fn containerd_rows(&self) -> Vec<Row> {
        let file = &self.containerd;
        let mut rows: Vec<_> = file
            .kubernetes
            .iter()
            .map(|need| {
                let value = format!(
                    "takes {} ({}); at least {}",
                    need.take,
                    need.take_reason,
                    joined(&need.minimum)
                );
                row(format!("kubernetes {}", need.minor), value, &need.source)
            })
            .collect();
        rows.extend(file.line.iter().map(|line| {
            let value = format!(
                "configuration version {}, key {}, own pause {}",
                line.config_version,
                line.bin_key.key(),
                line.default_pause
            );
            row(format!("line {}", line.line), value, &line.source)
        }));
        rows.extend(file.release.iter().map(|release| {
            let value = format!("hcsshim {}", release.hcsshim);
            row(release.version.to_string(), value, &release.source)
        }));
        rows
    }

    fn cni_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, cni) in &self.cni.cni {
            let state = if cni.available {
                ""
            } else {
                "; not in this release"
            };
            let value = format!(
                "{} ({}){state}; {}",
                cni.version, cni.version_reason, cni.policy
            );
            rows.push(row(name.word(), value, &cni.source));
            for listed in &cni.windows {
                let minimum = listed.minimum_revision.map_or_else(
                    || "nothing stands against it".to_owned(),
                    |revision| format!("listed from revision {revision} on"),
                );
                rows.push(row(
                    format!("{name} windows {}", listed.release),
                    minimum,
                    &listed.source,
                ));
            }
            for backend in &cni.backend {
                let value = match &backend.refusal {
                    Some(refusal) => format!("not with Windows: {refusal}"),
                    None if backend.needs.is_empty() => "works with Windows".to_owned(),
                    None => format!("works with Windows; needs {}", backend.needs.join("; ")),
                };
                rows.push(row(
                    format!("{name} {}", backend.backend),
                    value,
                    &backend.source,
                ));
            }
            let preconditions = cni.precondition.iter();
            rows.extend(
                preconditions.map(|need| row(format!("{name} needs"), &need.what, &need.source)),
            );
        }
        let plugins = self.cni_plugins();
        rows.push(row("plugins", plugins.version.to_string(), &plugins.source));
        let policy = self.policy_agent();
        rows.push(row(
            &policy.name,
            policy.version.to_string(),
            &policy.source,
        ));
        rows
    }

    fn kube_proxy_rows(&self) -> Vec<Row> {
        let file = &self.kube_proxy;
        let mut rows: Vec<_> = file
            .minor
            .iter()
            .map(|way| {
                let gates = if way.windows_gates.is_empty() {
                    "no feature gates".to_owned()
                } else {
                    way.windows_gates.join(", ")
                };
                let value = format!("{gates} on Windows: {}", way.reason);
                row(format!("kubernetes {}", way.minor), value, &way.source)
            })
            .collect();
        let flags = file.windows_flag.iter();
        rows.extend(flags.map(|flag| row(&flag.flag, flag.when.word(), &flag.source)));
        rows
    }

    fn gate_rows(&self) -> Vec<Row> {
        let gates = self.locked_gates();
        gates
            .map(|gate| {
                let value = format!("locked to {} from {} on", gate.value, gate.locked_from);
                row(&gate.name, value, &gate.source)
            })
            .collect()
    }

    fn windows_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (version, release) in self.windows_releases() {
            let value = format!(
                "build {}, mainstream support to {}, extended to {}, pause from {} on",
                release.build, release.mainstream_end, release.extended_end, release.first_pause
            );
            rows.push(row(version.word(), value, &release.source));
            for (name, minima) in [("core", &release.core), ("desktop", &release.desktop)] {
                let value = format!(
                    "memory {} MiB, advised {}; disk {} GiB, advised {}",
                    minima.memory_mib,
                    minima.advised_memory_mib,
                    minima.disk_gib,
                    minima.advised_disk_gib
                );
                rows.push(row(format!("{version} {name}"), value, &minima.source));
            }
            for (name, edition) in release.editions() {
                let value = format!("`{}`, `{}`", edition.core_image, edition.desktop_image);
                rows.push(row(format!("{version} {name}"), value, &edition.source));
            }
        }
        rows.extend(self.windows.media.iter().map(|media| {
            let name = format!("{} evaluation disc", media.release);
            let value = format!(
                "revision {}, {} bytes, {}",
                media.revision, media.bytes, media.digest
            );
            row(name, value, &media.source).with(&media.digest)
        }));
        rows.push(row(
            "evaluation",
            format!("{} days", self.evaluation_days()),
            &self.windows.evaluation_source,
        ));
        let features = &self.windows.features;
        let names = format!("`{}`, `{}`", features.containers, features.hyperv);
        rows.push(row("features", names, &features.source));
        let keys = &self.windows.administrators_keys;
        rows.push(row("administrators' keys", &keys.path, &keys.source));
        rows.push(row(
            "time zones",
            format!(
                "{} of Windows, with IANA's names",
                self.time_zones.zone.len()
            ),
            &self.time_zones.source,
        ));
        for value in &self.windows.registry {
            let text = format!("{} = {} ({})", value.name, value.data, value.reason);
            let releases = joined(&value.releases);
            rows.extend(
                value
                    .keys()
                    .iter()
                    .map(|key| row(format!("{releases} HKLM\\{key}"), &text, &value.source)),
            );
        }
        rows
    }

    fn update_rows(&self) -> Vec<Row> {
        let row_of = |bad: &crate::updates::KnownBad| {
            let name = bad.update.as_deref().unwrap_or("before");
            let value = format!("{}; {}", bad.symptom, bad.remedy);
            let range = format!(
                "{} {name} {}..{}",
                bad.release, bad.first_bad, bad.first_good
            );
            row(range, value, &bad.source)
        };
        self.known_bad_updates().map(row_of).collect()
    }

    fn container_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (version, release) in self.windows_releases() {
            let runs = self
                .container_bases()
                .filter(|base| self.container_runs(release.build, base.build));
            let value = format!("runs {}", joined(runs.map(|base| base.name.as_str())));
            rows.push(row(
                format!("host {version}"),
                value,
                self.container_rule_source(),
            ));
        }
        let bases = self.container_bases();
        rows.extend(
            bases.map(|base| row(&base.name, format!("build {}", base.build), &base.source)),
        );
        rows
    }

    fn linux_rows(&self) -> Vec<Row> {
        let row_of = |release: &crate::linux::LinuxRelease| {
            let value = format!(
                "suite {}, {}, memory {} MiB, control plane {} MiB, disk {} GiB",
                release.suite,
                release.python,
                release.memory_mib,
                release.control_plane_memory_mib,
                release.disk_gib
            );
            row(&release.name, value, &release.source)
        };
        let root = self.root_packages();
        let packages = row("packages", joined(&root.packages), &root.source);
        let inside = self.stand_in_root();
        let value = format!("suite {}, {}", inside.suite, joined(&inside.packages));
        let stand_in = row("stand-in for Windows", value, &inside.source);
        [packages, stand_in]
            .into_iter()
            .chain(self.linux_releases().map(row_of))
            .collect()
    }

    fn driver_rows(&self) -> Vec<Row> {
        let text = |facts: &DriverFacts| {
            let state = if facts.available {
                ""
            } else {
                "; not in this release"
            };
            format!(
                "{}; carries {}{state}",
                facts.summary,
                joined(facts.carries.keys())
            )
        };
        self.drivers()
            .map(|(name, facts)| row(name.word(), text(facts), &facts.source))
            .collect()
    }

    fn firewall_rows(&self) -> Vec<Row> {
        let ports = self.firewall.port.iter();
        ports
            .map(|port| {
                row(
                    &port.name,
                    format!("{} {}", port.protocol.word(), port.ports),
                    &port.source,
                )
            })
            .collect()
    }

    /// Artifacts as the default Kubernetes version needs them.
    fn artifact_rows(&self) -> Vec<Row> {
        let Some(release) = self.kubernetes_release(self.default_kubernetes()) else {
            return Vec::new();
        };
        let row_of = |artifact: ArtifactRef| {
            let name = format!("{} {}", artifact.os, artifact.name);
            let shown = |from: &str| {
                let value = format!("{}: {from}", artifact.version);
                row(name.clone(), value, &artifact.source)
            };
            match (&artifact.address, &artifact.build) {
                (Some(address), _) => shown(address).with(&artifact.digest),
                (
                    None,
                    Some(Build::Go(GoBuild { module, .. }) | Build::C(CBuild { module, .. })),
                ) => shown(&format!("built from {} {}", module.path, module.version))
                    .with(&module.sum),
                (None, Some(_)) => shown("made here"),
                (None, None) => row(name.clone(), "of the distribution", &artifact.source),
            }
        };
        self.all_artifacts(release)
            .into_iter()
            .map(row_of)
            .collect()
    }

    fn module_rows(&self) -> Vec<Row> {
        let recipes = self.recipes.recipe.iter();
        let mut rows: Vec<_> = recipes
            .map(|(name, recipe)| row(format!("recipe {name}"), &recipe.module, &recipe.source))
            .collect();
        rows.extend(self.modules().map(|pin| {
            let name = format!("{} {}", pin.module, pin.version);
            row(name, pin.sum.to_string(), &pin.source).with(&pin.sum)
        }));
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_a_value_and_a_source() {
        for section in Catalog::builtin().sections() {
            assert!(!section.rows.is_empty(), "{}", section.subject);
            for row in section.rows {
                assert!(
                    !row.name.is_empty() && !row.value.is_empty() && !row.source.is_empty(),
                    "{row:?}"
                );
            }
        }
    }

    #[test]
    fn no_row_is_listed_twice() {
        for section in Catalog::builtin().sections() {
            let mut seen = BTreeSet::new();
            for row in &section.rows {
                assert!(
                    seen.insert((&row.name, &row.value)),
                    "{}: {row:?}",
                    section.subject
                );
            }
        }
    }

    #[test]
    fn a_list_tells_pinned_digests_from_unknown_ones() {
        let sections = Catalog::builtin().sections();
        let state = |subject, name: &str| {
            let section = sections
                .iter()
                .find(|section| section.subject == subject)
                .unwrap();
            section
                .rows
                .iter()
                .find(|row| row.name == name)
                .unwrap()
                .digest
        };
        assert_eq!(
            state("windows", "2022 evaluation disc"),
            Some(DigestState::Pinned)
        );
        assert_eq!(
            state("artifacts", "linux kubeadm"),
            Some(DigestState::Unknown)
        );
        assert_eq!(state("artifacts", "linux runc"), None);
        assert_eq!(
            state("modules", "k8s.io/kubernetes v1.36.4"),
            Some(DigestState::Pinned)
        );
    }
}
