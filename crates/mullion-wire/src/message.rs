//! What the controller asks of an agent, and what the agent answers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::blueprint::Blueprint;
use crate::difference::Difference;
use crate::digest::Sha256Digest;
use crate::patience::Patience;
use crate::secret::Secret;
use crate::text::one_line;
use crate::windows_facts::WindowsFacts;

/// One thing that is asked of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "ask",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Request {
    /// What are you, and what have you? Changes nothing. Answered by [`Event::Facts`].
    Facts,
    /// Which of the blueprint's stored contents are neither in place nor in your store? Changes nothing. Answered by
    /// [`Event::Missing`].
    Missing {
        /// The blueprint.
        blueprint: Blueprint,
    },
    /// Turn on these optional features of Windows, which stay. Answered by events, then [`Event::Done`].
    Enable {
        /// The features, by DISM's names.
        features: BTreeSet<String>,
    },
    /// Become this. Answered by events, then [`Event::Done`].
    Apply {
        /// The blueprint.
        blueprint: Blueprint,
        /// By what the controller knows this state again; kept once all of it is so, and given back in the facts.
        mark: Mark,
    },
    /// How does what is there differ from this blueprint? Changes nothing. Answered by [`Event::Differences`], at least
    /// one and as many as it takes, then [`Event::Done`]. An agent that is older than this request fails with words that
    /// [`is_unknown_request`] knows.
    Compare {
        /// The blueprint.
        blueprint: Blueprint,
    },
    /// Which of these archives have images that containerd lacks, and are not in your store? Changes nothing. Answered by
    /// [`Event::Missing`].
    MissingImages {
        /// The archives.
        archives: Vec<ImageArchive>,
    },
    /// Let containerd have the images that it lacks, from archives in your store, which go. Answered by events, then
    /// [`Event::Done`].
    Import {
        /// The archives.
        archives: Vec<ImageArchive>,
    },
    /// Run kubeadm. Answered by events, then [`Event::Kubeadm`].
    Kubeadm {
        /// What to run.
        step: Kubeadm,
    },
    /// Run these commands of the user's, each unless it ran already, and remember those that ended well.
    Run {
        /// The commands, in order; the first that fails ends it.
        commands: Vec<UserCommand>,
        /// The list that is kept of those that ran: `before` or `after`.
        list: String,
    },
    /// What does kubelet complain of? Changes nothing. Answered by [`Event::Output`], a line each.
    KubeletLog,
    /// Put back everything that [`Request::Apply`] changed, and forget everything.
    Revert,
}

/// An archive of images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageArchive {
    /// The reference of its image, where that is known: `registry.k8s.io/pause:3.10`.
    pub reference: Option<String>,
    /// Its digest, and its name in the store.
    pub sha256: Sha256Digest,
    /// Its size.
    pub size: u64,
    /// Whether it is needed also where there is an image of that reference: the user gave it, and may give another one
    /// under the same name.
    #[serde(default)]
    pub exact: bool,
}

/// A command of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserCommand {
    /// The command line.
    pub run: String,
    /// By which it is remembered.
    pub mark: String,
}

/// What a controller writes down with an applied blueprint: opaque to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mark(pub serde_json::Value);

/// What kubeadm is run for. Configurations hold secrets, so they exist on the machine only as long as kubeadm runs, in
/// a file that root alone can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "run",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Kubeadm {
    /// `kubeadm init`. Where a finished control plane is there already, nothing is run.
    Init {
        /// The configuration.
        config: Secret,
        /// Preflight errors that are expected here, by name.
        ignore: BTreeSet<String>,
        /// Whether the certificates are uploaded for further control planes (the key is in the configuration).
        upload_certs: bool,
        /// A folder of patches that the blueprint laid down.
        patches: Option<String>,
    },
    /// `kubeadm join`. Where the machine is a node already, nothing is run.
    Join {
        /// The configuration, which names `discovery_path` as its discovery file.
        config: Secret,
        /// The discovery file: a kubeconfig with the cluster's authority.
        discovery: Secret,
        /// Where it is laid while kubeadm runs.
        discovery_path: String,
        /// Preflight errors that are expected here, by name.
        ignore: BTreeSet<String>,
        /// A folder of patches that the blueprint laid down.
        patches: Option<String>,
    },
    /// `kubeadm reset`, and everything that it leaves behind: certificates, CNI state, links, rules.
    Reset,
    /// kubeadm is not run; kubelet is restarted on a machine that is a node, so that it registers its Node object again.
    /// Pods get their network again, since the node may get other addresses for them. Static pods are left alone.
    Register,
    /// `kubeadm certs renew all` on a control plane, then a restart of its static pods. Nothing is run where every
    /// certificate ends later and no renewal was cut off.
    Renew {
        /// Certificates that end at this time or before are renewed, in seconds since 1970.
        expires: u64,
    },
    /// Nothing is run; the admin's kubeconfig is read, on a control plane.
    ReadAdmin,
    /// Nothing is run; the cluster's authorities and their keys are read, on a control plane. Answered by
    /// [`Event::Authority`].
    ReadAuthority,
    /// Nothing is run; the cluster's authorities are laid down for a join as a further control plane. A machine that
    /// belongs to a cluster is left as it is.
    HoldAuthority {
        /// Them, by their paths below kubeadm's folder of certificates.
        files: BTreeMap<String, Secret>,
    },
}

/// What kubeadm left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmDone {
    /// The admin's kubeconfig, after an init or a renewal, or where it was asked for.
    pub admin: Option<Secret>,
}

/// One line of the agent's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Event {
    /// Something is being done: one short line for people.
    Doing {
        /// What.
        words: String,
    },
    /// A line that a program wrote: kubeadm, a package manager, a command of the user's.
    Output {
        /// The line.
        line: String,
    },
    /// Something was changed.
    Changed {
        /// What: a path, a service, a setting.
        what: String,
    },
    /// The answer to [`Request::Facts`].
    Facts {
        /// Them.
        facts: Box<Facts>,
    },
    /// The answer to [`Request::Missing`] and [`Request::MissingImages`].
    Missing {
        /// Contents to bring into the store, each as a file of this name.
        sha256: BTreeSet<Sha256Digest>,
        /// The store's folder.
        store: String,
    },
    /// The answer to [`Request::Compare`], or the next part of it.
    Differences {
        /// What an apply would change, in the order in which it would. Those of a later event follow.
        differences: Vec<Difference>,
    },
    /// The cluster's authorities and their keys.
    Authority {
        /// Them, by their paths below kubeadm's folder of certificates.
        files: BTreeMap<String, Secret>,
    },
    /// What kubeadm left.
    Kubeadm {
        /// That.
        done: KubeadmDone,
    },
    /// It is so.
    Done {
        /// How many things were changed; 0 when all was so already.
        changed: u64,
        /// Whether the system wants to be started anew, and why.
        reboot: Option<String>,
    },
    /// It is not so.
    Failed {
        /// What failed.
        words: String,
        /// The causes, outermost first.
        causes: Vec<String>,
        /// What a person can do.
        hint: Option<String>,
        /// The last lines of the program that failed.
        tail: Vec<String>,
    },
}

/// What a machine is and has, as its agent finds it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The version of what the agent speaks.
    pub version: u32,
    /// The agent's own version.
    pub agent: String,
    /// The host name.
    pub host_name: String,
    /// `linux` or `windows`.
    pub os: String,
    /// The system's name for people: `Debian GNU/Linux 12 (bookworm)`.
    pub system: String,
    /// The kernel's version.
    pub kernel: String,
    /// The processor: `x86_64`.
    pub architecture: String,
    /// Processors.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Space in bytes where the agent's state, containers and kubelet are.
    pub disk: Disk,
    /// Seconds since 1970 by the machine's clock.
    pub clock: u64,
    /// Addresses of its adapters, without loopback: `host0 10.99.0.11/24`.
    pub addresses: Vec<String>,
    /// Whether the system waits for a reboot, and why.
    pub reboot_pending: Option<String>,
    /// Whether it is the system alone that waits for it: nothing that the agent changed does.
    #[serde(default)]
    pub reboot_of_system: bool,
    /// What waits for the next start and is no reason to make one, for people.
    #[serde(default)]
    pub next_start: Option<String>,
    /// The blueprint that is wholly applied, and still is: none where [`Facts::drift`] tells something.
    pub blueprint: Option<Sha256Digest>,
    /// What the controller wrote down with it.
    pub mark: Option<Mark>,
    /// What it wrote down with the blueprint that was begun last, whether or not that is wholly applied: whose the
    /// machine is.
    #[serde(default)]
    pub claim: Option<Mark>,
    /// Marks of the user's commands that ran, by list.
    pub ran: BTreeMap<String, BTreeSet<String>>,
    /// The digest of the authority of the cluster that its kubelet belongs to.
    pub joined: Option<Sha256Digest>,
    /// Whether a control plane was begun on it.
    pub control_plane: bool,
    /// How far the agent came with kubeadm; none where it ran none, and what there is of Kubernetes is another's.
    #[serde(default)]
    pub kubeadm: Option<KubeadmPhase>,
    /// Why its kubelet can no longer be what it was, for people: its certificate has expired by the machine's clock. Older
    /// agents say so; newer ones say until when the certificate is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<String>,
    /// Until when kubelet's certificate is good, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires: Option<u64>,
    /// The name of its node, as kubelet's certificate has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Until when the certificates of its control plane are good; older agents do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Box<Certificates>>,
    /// The version of kubelet, where there is one.
    pub kubelet: Option<String>,
    /// What is no longer as it was applied, for people: ``the service `containerd` does not run``.
    #[serde(default)]
    pub drift: Vec<String>,
    /// What only Windows tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Box<WindowsFacts>>,
}

/// Until when the certificates of a control plane are good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificates {
    /// The one that ends first of those that kubeadm renews.
    pub first: Certificate,
    /// The one that ends first of the authorities' own, which kubeadm does not renew.
    #[serde(default)]
    pub authority: Option<Certificate>,
    /// Whether a renewal was begun and has not come to its end.
    #[serde(default)]
    pub renewing: bool,
    /// The digest of the certificate in the admin's kubeconfig.
    #[serde(default)]
    pub admin: Option<Sha256Digest>,
}

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Its file, below kubeadm's folder: `pki/apiserver.crt`.
    pub file: String,
    /// When it was issued, in seconds since 1970.
    pub issued: u64,
    /// Until when it is good, in seconds since 1970.
    pub expires: u64,
}

/// How far kubeadm came on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KubeadmPhase {
    /// An init or a join was begun: what is there is half made.
    Begun,
    /// It ended well.
    Finished,
    /// A reset was begun.
    Resetting,
}

/// Space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// All of it.
    pub total: u64,
    /// What is free.
    pub free: u64,
}

/// Why a line is no request or no event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It is of a version that we do not know.
    #[error("it speaks version {found} and this side knows up to {known}")]
    Newer {
        /// Theirs.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// It is not what it should be.
    #[error("it cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    body: T,
}

#[derive(Deserialize)]
struct OnlyVersion {
    version: u32,
}

/// Beside the request, and not a part of it: agents of earlier versions pass over it.
#[derive(Serialize)]
struct Asked<'a> {
    #[serde(skip_serializing_if = "Patience::is_usual")]
    patience: Patience,
    #[serde(flatten)]
    request: &'a Request,
}

#[derive(Deserialize)]
struct OnlyPatience {
    #[serde(default)]
    patience: Patience,
}

/// A request or an event as one line, its version in front, its end of line included.
pub fn write_line(message: &impl Serialize) -> Result<String, RequestError> {
    let line = Versioned {
        version: crate::VERSION,
        body: message,
    };
    let mut text = serde_json::to_string(&line).map_err(RequestError::Unreadable)?;
    text.push('\n');
    Ok(text)
}

/// A request as one line, with the caller's patience.
pub fn write_request(request: &Request, patience: Patience) -> Result<String, RequestError> {
    write_line(&Asked { patience, request })
}

/// The request in a line.
pub fn read_request(line: &str) -> Result<Request, RequestError> {
    read(line)
}

/// The caller's patience; the usual one where the line does not name it.
pub fn read_patience(line: &str) -> Patience {
    let asked = serde_json::from_str(line);
    asked.map_or_else(|_| Patience::USUAL, |asked: OnlyPatience| asked.patience)
}

/// The event in a line. Words for people have no control sequences and no line ends: whoever has the machine writes them.
pub fn read_event(line: &str) -> Result<Event, RequestError> {
    read(line).map(printable)
}

/// Whether a failure with these words and causes is the answer of an agent that does not know a request of that name:
/// it is older than the request, and cannot say.
///
/// Agents have said it in these words from the first one on.
pub fn is_unknown_request(name: &str, words: &str, causes: &[String]) -> bool {
    let unknown = format!("unknown variant `{name}`");
    words == "the request cannot be understood"
        && causes.iter().any(|cause| cause.starts_with(&unknown))
}

fn printable(mut event: Event) -> Event {
    match &mut event {
        Event::Doing { words: text }
        | Event::Output { line: text }
        | Event::Changed { what: text }
        | Event::Done {
            reboot: Some(text), ..
        } => clean([text]),
        Event::Failed {
            words,
            causes,
            hint,
            tail,
        } => clean([words].into_iter().chain(causes).chain(hint).chain(tail)),
        Event::Facts { facts } => clean(facts.words_for_people()),
        // The texts that differ keep their lines: whoever shows them makes what a terminal obeys visible.
        Event::Differences { differences } => clean(
            differences
                .iter_mut()
                .flat_map(|difference| [&mut difference.name, &mut difference.what]),
        ),
        Event::Missing { .. }
        | Event::Authority { .. }
        | Event::Kubeadm { .. }
        | Event::Done { reboot: None, .. } => {}
    }
    event
}

fn clean<'a>(texts: impl IntoIterator<Item = &'a mut String>) {
    for text in texts {
        if let Cow::Owned(clean) = one_line(text) {
            *text = clean;
        }
    }
}

impl Facts {
    /// What views and messages show of them.
    fn words_for_people(&mut self) -> impl Iterator<Item = &mut String> {
        let Self {
            agent,
            host_name,
            os,
            system,
            kernel,
            architecture,
            addresses,
            reboot_pending,
            next_start,
            expired,
            kubelet,
            drift,
            certificates,
            ..
        } = self;
        let certificates = certificates.iter_mut().flat_map(|found| {
            let authority = found.authority.iter_mut();
            authority.chain([&mut found.first])
        });
        [agent, host_name, os, system, kernel, architecture]
            .into_iter()
            .chain(
                [reboot_pending, next_start, expired, kubelet]
                    .into_iter()
                    .flatten(),
            )
            .chain(addresses)
            .chain(drift)
            .chain(certificates.map(|certificate| &mut certificate.file))
    }
}

fn read<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, RequestError> {
    // A newer message may hold what we cannot read, so its version is looked at first.
    let OnlyVersion { version } = serde_json::from_str(line).map_err(RequestError::Unreadable)?;
    if version > crate::VERSION {
        return Err(RequestError::Newer {
            found: version,
            known: crate::VERSION,
        });
    }
    let read: Versioned<T> = serde_json::from_str(line).map_err(RequestError::Unreadable)?;
    Ok(read.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_stands_beside_a_request_and_only_where_it_is_not_the_usual() {
        let usual = write_request(&Request::Revert, Patience::USUAL).unwrap();
        assert_eq!(usual, write_line(&Request::Revert).unwrap());
        assert_eq!(read_patience(&usual), Patience::USUAL);
        let patient = Patience::of_hundredths(300);
        let line = write_request(&Request::Revert, patient).unwrap();
        assert_eq!(read_request(&line).unwrap(), Request::Revert);
        assert_eq!(read_patience(&line), patient);
    }

    #[test]
    fn promise_12_words_of_an_agent_have_no_control_sequences() {
        let hostile = "a\u{1b}[2J\nerror: b\u{9b}0m\u{202e}";
        let read = |event: &Event| read_event(write_line(event).unwrap().trim()).unwrap();
        let failed = Event::Failed {
            words: hostile.into(),
            causes: vec![hostile.into()],
            hint: Some(hostile.into()),
            tail: vec![hostile.into()],
        };
        let facts = Facts {
            host_name: hostile.into(),
            drift: vec![hostile.into()],
            expired: Some(hostile.into()),
            ..Facts::default()
        };
        let done = Event::Done {
            changed: 0,
            reboot: Some(hostile.into()),
        };
        let facts = Event::Facts {
            facts: facts.into(),
        };
        let output = Event::Output {
            line: hostile.into(),
        };
        for event in [failed, facts, done, output] {
            let read = format!("{:?}", read(&event));
            assert!(read.contains("a error: b"), "{read}");
            assert!(!read.contains("\\u{"), "{read}");
            assert!(!read.contains("\\n"), "{read}");
        }
        let differences = Event::Differences {
            differences: vec![Difference {
                kind: crate::DifferenceKind::File,
                name: hostile.into(),
                what: hostile.into(),
                now: None,
                after: None,
                after_restart: false,
            }],
        };
        let shown = format!("{:?}", read(&differences));
        assert!(
            shown.contains("a error: b") && !shown.contains("\\u{"),
            "{shown}"
        );
        // Certificates have lines.
        let files = BTreeMap::from([("ca.crt".to_owned(), Secret::new("a\nb\n"))]);
        let authority = Event::Authority { files };
        assert_eq!(read(&authority), authority);
    }

    #[test]
    fn a_request_is_one_line_and_survives_it() {
        let request = Request::Kubeadm {
            step: Kubeadm::Init {
                config: Secret::new("a: 1\nb: 2\n"),
                ignore: BTreeSet::new(),
                upload_certs: false,
                patches: None,
            },
        };
        let line = write_line(&request).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(read_request(&line).unwrap(), request);
        assert!(!format!("{request:?}").contains("a: 1"));
    }

    #[test]
    fn a_newer_message_is_refused_by_its_version_alone() {
        let error = read_event(r#"{"version":99,"event":"dances"}"#).unwrap_err();
        assert!(
            matches!(error, RequestError::Newer { found: 99, .. }),
            "{error}"
        );
        assert!(matches!(read_event("{}"), Err(RequestError::Unreadable(_))));
    }

    #[test]
    fn an_event_survives_being_sent() {
        let event = Event::Facts {
            facts: Box::default(),
        };
        assert_eq!(read_event(&write_line(&event).unwrap()).unwrap(), event);
    }
}
