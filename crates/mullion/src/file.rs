//! The cluster file: found, read and judged.

use std::io::{ErrorKind, Read};
use std::path::Path;

use mullion_catalog::{Catalog, Judgement};
use mullion_live::ClusterState;
use mullion_spec::draft::{Draft, Lookup, Surroundings, Verdict};
use mullion_spec::finding::{Finding, Place};
use mullion_spec::networks::Settled;
use mullion_spec::rules::file as rule;
use mullion_spec::source::{MAX_BYTES, Source};
use mullion_spec::value::ClusterName;

use crate::environment::Environment;
use crate::failure::{Class, Failure};
use crate::surroundings;

/// The file that is taken where none is named.
pub const USUAL: &str = "cluster.yaml";
/// What the built-in cluster is called in messages.
pub const BUILT_IN: &str = "the built-in cluster";
/// The cluster that is taken where there is no file.
const BUILT_IN_TEXT: &str = "machines: {linux: 1, windows: 1}\n";

/// Reads the named file, the usual one, or the built-in cluster, in this order.
///
/// `folder` is where the usual file is looked for; `input` is what `-` stands for.
pub fn read(
    named: Option<&Path>,
    folder: &Path,
    input: &mut dyn Read,
) -> Result<Source, Box<Verdict>> {
    match named {
        Some(path) if path == Path::new("-") => take("standard input", input),
        Some(path) => open(&path.display().to_string(), &folder.join(path)),
        None => {
            let usual = folder.join(USUAL);
            // A link that leads nowhere is a file that cannot be read, not the absence of one.
            if usual.is_symlink() || usual.exists() {
                open(USUAL, &usual)
            } else {
                Ok(Source::new(BUILT_IN, BUILT_IN_TEXT))
            }
        }
    }
}

/// The file that a cluster was last brought up with.
///
/// Of a cluster of which nothing is kept, only its name is known: enough to find by its label what was made.
pub fn of_cluster(cluster: &ClusterName, state: &Path) -> Result<Source, Failure> {
    let kept = ClusterState::find(state, cluster).map(|state| state.file());
    let text = kept.transpose().map_err(|error| {
        Failure::new(
            Class::ThisComputer,
            format!("the file of cluster `{cluster}` cannot be read"),
        )
        .because(&error)
    })?;
    Ok(match text.flatten() {
        Some(text) => Source::new(format!("the file of cluster {cluster}"), text),
        None => Source::new(
            format!("cluster {cluster}, of which no file is kept"),
            format!("metadata: {{name: {cluster}}}\n{BUILT_IN_TEXT}"),
        ),
    })
}

/// Judges a file beside what is given.
pub fn judge(source: Source, surroundings: &Surroundings) -> Judgement {
    Catalog::builtin().judge(Draft::read(source, surroundings))
}

/// What a command does with the cluster of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// It makes networks and machines, or says what making them would do.
    Make,
    /// It looks at the cluster, uses it or removes it.
    Use,
}

impl Aim {
    /// What the file of such a command is judged beside. One that makes no network needs none that is free: `down`
    /// removes a cluster whose network somebody else has by now.
    fn of(self, around: Surroundings) -> Surroundings {
        match self {
            Self::Make => around,
            Self::Use => Surroundings {
                bridge: around.kept.machines,
                // The command may run without the proxy that the cluster was made with.
                has_proxy: true,
                // The machines are there, whatever their names lead to by now.
                lookup: Lookup::default(),
                ..around
            },
        }
    }
}

/// A file that was judged beside what is known of this computer.
#[derive(Debug)]
pub struct Judged {
    /// What was found about it.
    pub judgement: Judgement,
    /// The whole text, with its secrets.
    source: Source,
}

impl Judged {
    /// Judges a file beside what is known of this computer and of the cluster.
    pub fn here(source: Source, environment: &Environment, aim: Aim) -> Result<Self, Failure> {
        let read = source.clone();
        let draft = Draft::read_beside(read, |cluster| {
            surroundings::of(cluster, environment).map(|around| aim.of(around))
        });
        let draft = draft.map_err(|error| {
            let words = "the state of the cluster cannot be read";
            Failure::new(Class::ThisComputer, words).because(&error)
        })?;
        Ok(Self {
            judgement: Catalog::builtin().judge(draft),
            source,
        })
    }

    /// A file that could not be read.
    pub fn unreadable(verdict: Verdict) -> Self {
        Self {
            source: verdict.source.clone(),
            judgement: Judgement {
                verdict,
                model: None,
            },
        }
    }

    /// Judges the same file again, to make its cluster: another run may have changed what is around it.
    pub fn again(&self, environment: &Environment) -> Result<Self, Failure> {
        Self::here(self.source.clone(), environment, Aim::Make)
    }

    /// The networks that the cluster has by this judgement.
    pub fn networks(&self) -> Option<Settled> {
        let model = self.judgement.model.as_ref()?;
        Some(model.cluster().networks())
    }
}

fn open(name: &str, path: &Path) -> Result<Source, Box<Verdict>> {
    // A file of the same name in somebody's repository may be a link to what only root can read.
    let _rights = mullion_rights::as_invoker();
    let refuse = |finding: Finding| Box::new(Verdict::unreadable(name, finding));
    // A shell gives what a command writes as a path there.
    let is_stream = path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd");
    let found = path.metadata().ok();
    let kind = found.as_ref().map(std::fs::Metadata::file_type);
    if kind.is_some_and(|kind| !kind.is_file() && !kind.is_dir() && !is_stream) {
        let words = format!("`{name}` is a pipe or a device, and no file");
        return Err(refuse(
            Finding::new(&rule::NOT_A_FILE, Place::File).message(words),
        ));
    }
    let size = found.filter(std::fs::Metadata::is_file);
    let size = size.map(|found| found.len());
    if let Some(size) = size.filter(|size| *size > MAX_BYTES as u64) {
        let words = format!("`{name}` has {size} bytes, and at most {MAX_BYTES} are read");
        return Err(refuse(
            Finding::new(&rule::TOO_LARGE, Place::File).message(words),
        ));
    }
    if path.is_dir() {
        return Err(refuse(
            Finding::new(&rule::NOT_A_FILE, Place::File)
                .message(format!("`{name}` is a folder"))
                .hint(format!(
                    "name the file in it: `{}`",
                    Path::new(name).join(USUAL).display()
                )),
        ));
    }
    match fs_err::File::open(path) {
        Ok(mut file) => take(name, &mut file),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(refuse(
            Finding::new(&rule::MISSING, Place::File).message(format!("there is no file `{name}`")),
        )),
        Err(error) => Err(refuse(unreadable(name, &error))),
    }
}

/// Reads at most a little more than is allowed, so that a disk image named by mistake is not read whole.
fn take(name: &str, input: &mut dyn Read) -> Result<Source, Box<Verdict>> {
    let refuse = |finding: Finding| Box::new(Verdict::unreadable(name, finding));
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    if let Err(error) = input.take(limit).read_to_end(&mut bytes) {
        return Err(refuse(unreadable(name, &error)));
    }
    if bytes.len() > MAX_BYTES {
        return Err(refuse(Finding::new(&rule::TOO_LARGE, Place::File).message(
            format!("`{name}` has more than {MAX_BYTES} bytes, and at most that many are read"),
        )));
    }
    // Windows editors put a mark before the text; it says nothing.
    let text = bytes
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(&bytes)
        .to_vec();
    String::from_utf8(text)
        .map(|text| Source::new(name, text))
        .map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = String::from_utf8_lossy(&bytes[..at]).matches('\n').count() + 1;
            refuse(Finding::new(&rule::NOT_UTF8, Place::File).message(format!(
                "`{name}` is not UTF-8 text: byte {at}, in line {line}"
            )))
        })
}

fn unreadable(name: &str, error: &std::io::Error) -> Finding {
    Finding::new(&rule::UNREADABLE, Place::File)
        .message(format!("`{name}` cannot be read: {}", cause(error)))
}

/// What the system said, without the path that our own words name already.
fn cause(error: &std::io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.source()) {
        Some(inner) => inner.to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_05_a_network_that_somebody_else_has_by_now_stops_up_and_not_down() {
        let network = "192.168.0.0/24".parse().unwrap();
        let judged = |aim: Aim, bridge| {
            let around = Surroundings {
                networks: vec![(network, "eth0".into())],
                kept: Settled {
                    machines: Some(network),
                    ..Settled::default()
                },
                bridge,
                ..Surroundings::default()
            };
            let source = Source::new("f", "machines: {linux: 1}\n");
            judge(source, &aim.of(around)).model.is_some()
        };
        assert!(!judged(Aim::Make, None));
        assert!(judged(Aim::Make, Some(network)), "the bridge is up");
        assert!(judged(Aim::Use, None));
    }

    #[test]
    fn a_cluster_that_was_made_with_the_environments_proxy_is_used_without_it() {
        let judged = |aim: Aim| {
            let source = Source::new("f", "machines: {linux: 1}\nproxy: {no: [a.example]}\n");
            judge(source, &aim.of(Surroundings::default()))
                .model
                .is_some()
        };
        assert!(!judged(Aim::Make));
        assert!(judged(Aim::Use));
    }
}
