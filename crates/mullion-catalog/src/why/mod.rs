//! `mullion catalog why kubernetes=1.36 windows=2019`: an answer from the catalog, with its reason and its source.
//!
//! [`Catalog::why`] reads the question here; [`rules`] and
//! [`network`] hold one rule for each two keys that have to do with each other, and one for each key alone.

mod network;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use mullion_spec::words::{Backend, Cni, Driver, Os, WindowsVersion, Word};
use serde::Serialize;

use crate::catalog::Catalog;
use crate::kubernetes::KubernetesRelease;
use crate::number::Number;

/// One answer: whether it works, why, and where that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Whether it works.
    pub standing: Standing,
    /// What was asked about, such as `kubernetes 1.36.4 with windows 2019`.
    pub about: String,
    /// Why, in words.
    pub reason: String,
    /// Where that was read.
    pub source: String,
}

/// Whether something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It works.
    Works,
    /// It works once something else is so.
    Needs,
    /// It does not.
    DoesNot,
    /// The catalog does not know.
    Unknown,
}

/// A key that can be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Key {
    /// A Kubernetes version.
    Kubernetes,
    /// A Windows release, or a build with its revision.
    Windows,
    /// A containerd version.
    Containerd,
    /// A network plugin.
    Cni,
    /// How it carries packets.
    Backend,
    /// A driver.
    Driver,
    /// An operating system.
    Os,
    /// A Windows update.
    Update,
    /// A Windows container's build.
    Container,
}

/// The question cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WhyError {
    /// Nothing was asked.
    #[error("nothing was asked; the keys are {}", known.join(", "))]
    Nothing {
        /// The keys that can be asked about.
        known: Vec<String>,
    },
    /// There is no such key.
    #[error("there is no key `{key}`; the keys are {}", known.join(", "))]
    UnknownKey {
        /// What was written.
        key: String,
        /// The keys that can be asked about.
        known: Vec<String>,
    },
    /// The catalog does not know the value.
    #[error("the catalog does not know {key} `{value}`; it knows {}", known.join(", "))]
    UnknownValue {
        /// The key.
        key: Key,
        /// What was written.
        value: String,
        /// The values that it knows.
        known: Vec<String>,
    },
    /// A key was given twice.
    #[error("{0} is given twice")]
    Twice(Key),
}

impl Key {
    /// Every key, in the order they are documented.
    pub const ALL: [Self; 9] = [
        Self::Kubernetes,
        Self::Windows,
        Self::Containerd,
        Self::Cni,
        Self::Backend,
        Self::Driver,
        Self::Os,
        Self::Update,
        Self::Container,
    ];

    /// The word that stands for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Windows => "windows",
            Self::Containerd => "containerd",
            Self::Cni => "cni",
            Self::Backend => "backend",
            Self::Driver => "driver",
            Self::Os => "os",
            Self::Update => "update",
            Self::Container => "container",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        // People know updates by their KB number, so that word is taken as well.
        let word = if word == "kb" { "update" } else { word };
        Self::ALL.into_iter().find(|key| key.word() == word)
    }

    fn words() -> Vec<String> {
        Self::ALL.map(|key| key.word().to_owned()).to_vec()
    }
}

impl Display for Key {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

impl Standing {
    /// The word that lists show.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Needs => "needs",
            Self::DoesNot => "does not work",
            Self::Unknown => "unknown",
        }
    }
}

impl Display for Standing {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

/// A Windows host: a release, and its revision where one was given.
#[derive(Debug, Clone, Copy)]
struct Host {
    version: WindowsVersion,
    revision: Option<u32>,
}

/// A question, every value read.
#[derive(Debug, Default)]
struct Question<'a> {
    /// The values as answers name them.
    shown: BTreeMap<Key, String>,
    kubernetes: Option<&'a KubernetesRelease>,
    windows: Option<Host>,
    containerd: Option<Number>,
    cni: Option<Cni>,
    backend: Option<Backend>,
    driver: Option<Driver>,
    os: Option<Os>,
    update: Option<String>,
    container: Option<u32>,
}

fn word<Value: Word>(key: Key, text: &str) -> Result<Value, WhyError> {
    Value::from_word(text).ok_or_else(|| WhyError::UnknownValue {
        key,
        value: text.into(),
        known: Value::ALL
            .iter()
            .map(|value| value.word().to_owned())
            .collect(),
    })
}

impl<'a> Question<'a> {
    fn read(catalog: &'a Catalog, pairs: &[(String, String)]) -> Result<Self, WhyError> {
        let mut question = Self::default();
        for (key, value) in pairs {
            let Some(key) = Key::from_word(key) else {
                return Err(WhyError::UnknownKey {
                    key: key.clone(),
                    known: Key::words(),
                });
            };
            let shown = question.set(catalog, key, value)?;
            if question.shown.insert(key, shown).is_some() {
                return Err(WhyError::Twice(key));
            }
        }
        if question.shown.is_empty() {
            return Err(WhyError::Nothing {
                known: Key::words(),
            });
        }
        Ok(question)
    }

    /// Sets one value, and gives it as answers name it.
    fn set(&mut self, catalog: &'a Catalog, key: Key, text: &str) -> Result<String, WhyError> {
        let unknown = |known: Vec<String>| WhyError::UnknownValue {
            key,
            value: text.into(),
            known,
        };
        match key {
            Key::Kubernetes => {
                let release = read_kubernetes(catalog, text).map_err(unknown)?;
                self.kubernetes = Some(release);
                return Ok(release.version.to_string());
            }
            Key::Windows => {
                let host =
                    read_host(catalog, text).ok_or_else(|| unknown(known_windows(catalog)))?;
                self.windows = Some(host);
                return Ok(match host.revision {
                    Some(revision) => format!("{} revision {revision}", host.version),
                    None => host.version.word().to_owned(),
                });
            }
            Key::Containerd => {
                let version = read_containerd(catalog, text).map_err(unknown)?;
                let shown = version.to_string();
                self.containerd = Some(version);
                return Ok(shown);
            }
            Key::Cni => self.cni = Some(word(key, text)?),
            Key::Backend => self.backend = Some(word(key, text)?),
            Key::Driver => self.driver = Some(word(key, text)?),
            Key::Os => self.os = Some(word(key, text)?),
            Key::Update => {
                let number = text.trim_start_matches(['K', 'B', 'k', 'b']);
                if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(unknown(known_updates(catalog)));
                }
                let update = format!("KB{number}");
                self.update = Some(update.clone());
                return Ok(update);
            }
            Key::Container => {
                let build = read_container(catalog, text).ok_or_else(|| {
                    let bases = catalog.container_bases();
                    unknown(
                        bases
                            .map(|base| format!("{} ({})", base.name, base.build))
                            .collect(),
                    )
                })?;
                self.container = Some(build);
                return Ok(format!("build {build}"));
            }
        }
        Ok(text.to_owned())
    }

    fn name(&self, key: Key) -> String {
        format!("{key} {}", self.shown.get(&key).map_or("", String::as_str))
    }

    /// Whether the question is about Windows machines.
    fn with_windows(&self) -> bool {
        self.windows.is_some() || self.os == Some(Os::Windows)
    }
}

fn read_kubernetes<'a>(
    catalog: &'a Catalog,
    text: &str,
) -> Result<&'a KubernetesRelease, Vec<String>> {
    let minors = || {
        catalog
            .kubernetes_minors()
            .map(|minor| minor.minor.to_string())
            .collect()
    };
    let wish = text.parse().map_err(|_| minors())?;
    catalog
        .resolve_kubernetes(wish)
        .map_err(|error| match error.newest_of_minor {
            Some(newest) => {
                let known = catalog.kubernetes_releases().map(|release| release.version);
                let same = known.filter(|version| version.minor == newest.minor);
                same.map(|version| version.to_string()).collect()
            }
            None => minors(),
        })
}

/// `2022`, `20348`, `20348.2582` or `10.0.20348.2582`.
fn read_host(catalog: &Catalog, text: &str) -> Option<Host> {
    let text = text.strip_prefix("10.0.").unwrap_or(text);
    let (release, revision) = match text.split_once('.') {
        Some((release, revision)) => (release, Some(revision.parse().ok()?)),
        None => (text, None),
    };
    let mut all = catalog.windows_releases();
    let found = all
        .find(|(version, facts)| version.word() == release || facts.build.to_string() == release);
    found.map(|(version, _)| Host { version, revision })
}

fn known_windows(catalog: &Catalog) -> Vec<String> {
    let all = catalog.windows_releases();
    all.map(|(version, facts)| format!("{version} ({})", facts.build))
        .collect()
}

/// An exact version of a known line, or a line alone, which stands for its newest known release.
fn read_containerd(catalog: &Catalog, text: &str) -> Result<Number, Vec<String>> {
    let lines = || {
        let lines = catalog.containerd.line.iter();
        lines.map(|line| line.line.to_string()).collect::<Vec<_>>()
    };
    let asked: Number = text.parse().map_err(|_| lines())?;
    if catalog.containerd_line(&asked).is_none() {
        return Err(lines());
    }
    if asked != asked.line() {
        return Ok(asked);
    }
    let releases = catalog
        .containerd
        .release
        .iter()
        .map(|release| &release.version);
    let newest = releases.filter(|version| version.line() == asked).max();
    newest.cloned().ok_or_else(lines)
}

fn known_updates(catalog: &Catalog) -> Vec<String> {
    let named = catalog
        .known_bad_updates()
        .flat_map(|bad| [bad.update.clone(), bad.fixed_by.clone()]);
    named.flatten().collect()
}

/// `ltsc2022`, `2022`, `servercore:ltsc2022` or a build.
fn read_container(catalog: &Catalog, text: &str) -> Option<u32> {
    let image = text.rsplit('/').next().unwrap_or(text);
    let mut bases = catalog.container_bases();
    let base = bases.find(|base| {
        let year = base
            .name
            .trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        base.name == text || year == text || base.tags.iter().any(|tag| tag == image)
    });
    base.map(|base| base.build)
        .or_else(|| text.parse().ok().filter(|build| *build > 9999))
}

impl Catalog {
    /// Answers a question of keys and values, each answer with its reason and its source.
    ///
    /// Every two keys that have to do with each other give answers. A key that has to do with none of the others is
    /// answered as unknown rather than passed over.
    pub fn why(&self, question: &[(String, String)]) -> Result<Vec<Answer>, WhyError> {
        let question = Question::read(self, question)?;
        let keys: Vec<_> = question.shown.keys().copied().collect();
        if let [key] = keys[..] {
            return Ok(self.why_alone(&question, key));
        }
        let mut answers = Vec::new();
        let mut related = BTreeSet::new();
        for (place, first) in keys.iter().enumerate() {
            for second in &keys[place + 1..] {
                if let Some(found) = self.why_pair(&question, *first, *second) {
                    answers.extend(found);
                    related.extend([*first, *second]);
                }
            }
        }
        // Two rules may meet the same obstacle: a network plugin that is not there yet, say. Once is enough.
        let mut said = BTreeSet::new();
        answers
            .retain(|answer: &Answer| said.insert((answer.reason.clone(), answer.source.clone())));
        for key in keys.into_iter().filter(|key| !related.contains(key)) {
            answers.push(Answer {
                standing: Standing::Unknown,
                about: question.name(key),
                reason: "the catalog holds nothing about it together with the rest of the question"
                    .into(),
                source: "no row".into(),
            });
        }
        Ok(answers)
    }
}

#[cfg(test)]
mod tests;
