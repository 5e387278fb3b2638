//! What can go wrong, and of what class it is.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use mullion_plan::ErrorClass;
use mullion_wire::duration::shown;
use mullion_wire::error_chain;
use mullion_wire::text::{one_line, without_controls};

use crate::kubeconfig::KubeconfigError;
use crate::request::Unfit;

/// Why something could not be done.
///
/// `doing` completes "cannot …". No message repeats its cause: that is the error's source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeError {
    /// The kubeconfig does not say how to connect.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[from] KubeconfigError),
    /// The means to connect could not be made.
    #[error("cannot prepare a connection to {server}")]
    Prepare {
        /// Where to.
        server: String,
        /// Why.
        #[source]
        cause: Cause,
    },
    /// Nothing answered, or the connection was lost.
    #[error("cannot {doing}: the API server does not answer")]
    Silent {
        /// What was tried.
        doing: String,
        /// Why.
        #[source]
        cause: Cause,
    },
    /// Whoever answered is not of this cluster, or its certificate is not valid now.
    #[error("cannot {doing}: the certificate of the API server cannot be trusted")]
    Untrusted {
        /// What was tried.
        doing: String,
        /// Why.
        #[source]
        cause: Cause,
    },
    /// Somebody else changed the same thing at the same moment.
    #[error("cannot {doing}: it was changed by somebody else at the same moment")]
    Conflict {
        /// What was tried.
        doing: String,
        /// What the API server said.
        #[source]
        answer: Answer,
    },
    /// The API server is overloaded, or something behind it fails.
    #[error("cannot {doing}: the API server is busy or failing")]
    Failing {
        /// What was tried.
        doing: String,
        /// What the API server said.
        #[source]
        answer: Answer,
    },
    /// The API server, or a webhook that it asks, does not want it.
    #[error("cannot {doing}: the API server refuses")]
    Refused {
        /// What was tried.
        doing: String,
        /// What the API server said.
        #[source]
        answer: Answer,
    },
    /// The request could not be written, or the answer not be read.
    #[error("cannot {doing}: the API server and this program do not understand each other")]
    Misunderstood {
        /// What was tried.
        doing: String,
        /// Why.
        #[source]
        cause: Cause,
    },
    /// It carries another cluster's label.
    #[error("{what} belongs to cluster `{owner}`")]
    NotOurs {
        /// What.
        what: String,
        /// Whose it is.
        owner: String,
    },
    /// An object to apply is not one.
    #[error("object {place} of set `{set}` has no {lacks}")]
    Object {
        /// The set.
        set: String,
        /// Which object of it, counted from 1.
        place: usize,
        /// What is missing.
        lacks: &'static str,
    },
    /// Nobody serves objects of this kind.
    #[error("the cluster does not know objects of kind `{kind}` in `{api_version}`")]
    UnknownKind {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A node asks for a certificate that it must not have.
    #[error("certificate request `{request}` of node {node} is not approved")]
    WrongRequest {
        /// The request.
        request: String,
        /// Who asked.
        node: String,
        /// What is wrong with it.
        #[source]
        unfit: Unfit,
    },
    /// etcd gave no snapshot, or one that is not whole.
    #[error("cannot save a snapshot of etcd")]
    Snapshot {
        /// Why.
        #[source]
        cause: Cause,
    },
    /// The run was called off.
    #[error("cannot {doing}: the run was called off")]
    CalledOff {
        /// What was being done.
        doing: String,
    },
    /// A node that the run has seen is not there any more.
    #[error("node {node} was deleted from the cluster")]
    NodeGone {
        /// The node.
        node: String,
    },
    /// The system gave no threads.
    #[error("cannot start threads for connections")]
    Threads(#[source] std::io::Error),
    /// The system gave no random numbers.
    #[error("the system gives no random numbers")]
    Random(#[source] getrandom::Error),
}

impl KubeError {
    /// What class of failure it is: that decides whether it is tried again.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Silent { .. } | Self::Failing { .. } | Self::Snapshot { .. } => {
                ErrorClass::Unreachable
            }
            Self::Refused { answer, .. } if answer.is_by_roles() || answer.is_by_allocation() => {
                ErrorClass::Unreachable
            }
            Self::Conflict { .. } => ErrorClass::Conflict,
            Self::NotOurs { .. } => ErrorClass::NotOurs,
            Self::CalledOff { .. } => ErrorClass::Interrupted,
            Self::Kubeconfig(_)
            | Self::Prepare { .. }
            | Self::Untrusted { .. }
            | Self::Refused { .. }
            | Self::Misunderstood { .. }
            | Self::Object { .. }
            | Self::UnknownKind { .. }
            | Self::WrongRequest { .. }
            | Self::NodeGone { .. }
            | Self::Threads(_)
            | Self::Random(_) => ErrorClass::Refused,
        }
    }

    /// What a person can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::WrongRequest { request, .. } => Some(format!(
                "look at it with `mullion kubectl describe csr {request}`; `mullion kubectl certificate deny {request}` \
                 sends it away"
            )),
            Self::NodeGone { .. } => {
                Some("the next `mullion up` registers it again; find out what deletes it if it happens twice".into())
            }
            Self::Untrusted { .. } => {
                Some("compare the clocks, and see whether another cluster has this address".into())
            }
            Self::Refused { answer, .. } if answer.is_by_allocation() => Some(
                "see with `mullion kubectl get services -A` which Service has it; if none has, the API server frees it \
                 within minutes"
                    .into(),
            ),
            Self::Refused { answer, .. } if answer.code == 401 => {
                Some("the credentials are not, or no longer, those of this cluster".into())
            }
            _ => None,
        }
    }

    pub(crate) fn new(doing: impl Into<String>, error: kube::Error) -> Self {
        let doing = doing.into();
        match error {
            kube::Error::Api(status) => {
                let answer = Answer {
                    code: status.code,
                    reason: one_line(&status.reason).into_owned(),
                    message: without_controls(&status.message).into_owned(),
                };
                match answer.code {
                    // A list that grew too old while it was read is read again like anything that changed.
                    409 | 410 => Self::Conflict { doing, answer },
                    408 | 429 | 500.. => Self::Failing { doing, answer },
                    _ => Self::Refused { doing, answer },
                }
            }
            // An answer that ends too early came over a connection that was lost.
            kube::Error::SerdeError(cause) if cause.is_eof() => Self::Silent {
                doing,
                cause: Cause::of(&cause),
            },
            error @ (kube::Error::HyperError(_)
            | kube::Error::Service(_)
            | kube::Error::ReadEvents(_)) => {
                let cause = Cause::inside(&error);
                if cause.is_distrust() {
                    Self::Untrusted { doing, cause }
                } else {
                    Self::Silent { doing, cause }
                }
            }
            error => Self::Misunderstood {
                doing,
                cause: Cause::inside(&error),
            },
        }
    }

    pub(crate) fn late(doing: impl Into<String>, patience: std::time::Duration) -> Self {
        Self::Silent {
            doing: doing.into(),
            cause: Cause::words(format!("no answer within {}", shown(patience))),
        }
    }

    /// The status code that the API server answered with.
    pub(crate) const fn code(&self) -> Option<u16> {
        match self {
            Self::Conflict { answer, .. }
            | Self::Failing { answer, .. }
            | Self::Refused { answer, .. } => Some(answer.code),
            _ => None,
        }
    }

    /// The error and the causes behind it, in one line.
    pub(crate) fn in_one_line(&self) -> String {
        error_chain(self).join(": ")
    }
}

/// What the API server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// One word for programs: `Conflict`.
    pub reason: String,
    /// Words for people.
    pub message: String,
}

impl Answer {
    /// Whether the roles of whoever asks were in the way, and no webhook. An API server that has just started forbids
    /// everything to everybody, until it has read them.
    fn is_by_roles(&self) -> bool {
        self.code == 403 && self.message.contains("is forbidden: User ")
    }

    /// Whether an address or a port of a Service is allocated already. A client that is killed while the API server makes
    /// a Service can leave an allocation without the Service, which the API server frees about a minute later.
    fn is_by_allocation(&self) -> bool {
        self.code == 422 && self.message.contains("is already allocated")
    }
}

impl Display for Answer {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(out, "HTTP status {}", self.code)
        } else {
            out.write_str(&one_line(&self.message))
        }
    }
}

impl Error for Answer {}

/// A failure below the API: of the connection, of TLS, of reading.
///
/// The libraries' own errors repeat their causes in their words; here each is said once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    words: String,
    behind: Option<Box<Cause>>,
}

impl Cause {
    pub(crate) fn words(words: impl Into<String>) -> Self {
        Self {
            words: one_line(&words.into()).into_owned(),
            behind: None,
        }
    }

    /// The error and its causes.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let texts = error_chain(error);
        let mut chain: Option<Self> = None;
        for index in (0..texts.len()).rev() {
            let mut words = texts[index].as_str();
            if let Some(below) = texts.get(index + 1) {
                words = words.strip_suffix(below.as_str()).unwrap_or(words);
                words = words.trim_end_matches([':', ' ']);
            }
            if !words.is_empty() {
                chain = Some(Self {
                    words: one_line(words).into_owned(),
                    behind: chain.map(Box::new),
                });
            }
        }
        chain.unwrap_or_else(|| Self::words("no reason was given"))
    }

    /// What is inside an error of the client library: its own words only name the library's parts.
    fn inside(error: &kube::Error) -> Self {
        Self::of(error.source().unwrap_or(error))
    }

    /// Whether TLS did not trust the other side.
    fn is_distrust(&self) -> bool {
        self.words.contains("invalid peer certificate")
            || self
                .behind
                .as_ref()
                .is_some_and(|cause| cause.is_distrust())
    }
}

impl Display for Cause {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.words)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let behind = self.behind.as_deref()?;
        Some(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16) -> KubeError {
        let status = kube::core::Status::failure("said so", "Reason").with_code(code);
        KubeError::new("read node lin1", kube::Error::Api(status.boxed()))
    }

    #[test]
    fn every_status_has_its_class() {
        let classes = [
            (400, ErrorClass::Refused),
            (401, ErrorClass::Refused),
            (403, ErrorClass::Refused),
            (404, ErrorClass::Refused),
            (409, ErrorClass::Conflict),
            (410, ErrorClass::Conflict),
            (422, ErrorClass::Refused),
            (429, ErrorClass::Unreachable),
            (500, ErrorClass::Unreachable),
            (503, ErrorClass::Unreachable),
        ];
        for (code, class) in classes {
            assert_eq!(api(code).class(), class, "{code}");
        }
        let words =
            "nodes \"cp1\" is forbidden: User \"kubernetes-admin\" cannot get resource \"nodes\"";
        let status = kube::core::Status::failure(words, "Forbidden").with_code(403);
        let fresh = KubeError::new("read node cp1", kube::Error::Api(status.boxed()));
        assert_eq!(fresh.class(), ErrorClass::Unreachable);
        let words = "Service \"kube-dns\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.10\"]: failed to \
                     allocate IP 10.96.0.10: provided IP is already allocated";
        let status = kube::core::Status::failure(words, "Invalid").with_code(422);
        let leaked = KubeError::new("apply Service kube-dns", kube::Error::Api(status.boxed()));
        assert_eq!(leaked.class(), ErrorClass::Unreachable, "it is freed soon");
        assert!(leaked.hint().is_some());
    }

    #[test]
    fn no_message_repeats_its_cause() {
        let error = api(403);
        assert_eq!(
            error.to_string(),
            "cannot read node lin1: the API server refuses"
        );
        assert_eq!(error.source().unwrap().to_string(), "said so");

        let refused = std::io::Error::from_raw_os_error(111);
        let error = KubeError::new("read node lin1", kube::Error::Service(Box::new(refused)));
        assert_eq!(error.class(), ErrorClass::Unreachable);
        assert_eq!(
            error.in_one_line(),
            "cannot read node lin1: the API server does not answer: Connection refused (os error 111)"
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {0}")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn a_cause_that_libraries_say_twice_is_said_once() {
        let inner = std::io::Error::other("inner");
        let cause = Cause::of(&Outer(inner));
        assert_eq!(cause.to_string(), "outer");
        assert_eq!(cause.source().unwrap().to_string(), "inner");
    }

    #[test]
    fn promise_12_words_of_the_api_server_have_no_control_sequences_and_one_line() {
        let words = "no\u{1b}[2J\nerror: all is lost\u{9b}0m\u{202e}";
        let status = kube::core::Status::failure(words, "Rea\u{1b}]0;t\u{7}son").with_code(403);
        let error = KubeError::new("read node lin1", kube::Error::Api(status.boxed()));
        let KubeError::Refused { answer, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(answer.to_string(), "no error: all is lost");
        assert_eq!(answer.reason, "Reason");
        let cause = Cause::of(&std::io::Error::other("a\u{1b}[31mb\rc"));
        assert_eq!(cause.to_string(), "ab c");
    }

    #[test]
    fn a_stranger_at_the_address_is_not_waited_for() {
        let words = "invalid peer certificate: UnknownIssuer";
        let stranger = kube::Error::Service(std::io::Error::other(words).into());
        let error = KubeError::new("read nodes", stranger);
        assert!(matches!(error, KubeError::Untrusted { .. }), "{error:?}");
        assert_eq!(error.class(), ErrorClass::Refused);
    }

    #[test]
    fn an_answer_that_was_cut_off_is_a_lost_connection() {
        let cut = serde_json::from_str::<serde_json::Value>("{\"a\":").unwrap_err();
        let error = KubeError::new("read nodes", kube::Error::SerdeError(cut));
        assert_eq!(error.class(), ErrorClass::Unreachable);
        let strange = serde_json::from_str::<u8>("\"a\"").unwrap_err();
        let error = KubeError::new("read nodes", kube::Error::SerdeError(strange));
        assert_eq!(error.class(), ErrorClass::Refused);
    }
}
