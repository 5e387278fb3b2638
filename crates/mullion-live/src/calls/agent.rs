//! What machines answer over SSH: the scripts of this program, and the agent.

use mullion_testkit::ssh::{Asked, Said};
use mullion_wire::{
    Event, Facts, Kubeadm, KubeadmDone, Request, Secret, Sha256Digest, read_request, write_line,
};

/// What every machine of a world is like.
#[derive(Debug, Default)]
pub(super) struct Machine {
    /// What its agent tells.
    pub(super) facts: Facts,
    /// What its agent says that it lacks of everything that it is asked about.
    pub(super) lacks: Vec<Sha256Digest>,
    /// The kubeconfig that kubeadm left on it.
    pub(super) admin: String,
    /// The lines by which it tells how to speak to its etcd; empty where it has none.
    pub(super) etcd: String,
}

/// What a look at a machine finds.
const LOOK: &str = "arch=x86_64\ncpus=4\nmemory=8000000\nfree=99000000000\nsystemd=yes\ncontainer=none\ncgroups=2\n\
    capabilities=ffffffffffffffff\nswaps=0\nkubernetes=\naddress=host0 10.99.0.11/24\nresolver=yes\n";

impl Machine {
    /// What a command comes to.
    pub(super) fn answer(&self, asked: &Asked) -> Said {
        let line = asked.line.as_str();
        let stdin = String::from_utf8_lossy(&asked.stdin);
        let said = |out: String| Said { status: 0, out };
        if let Ok(request) = read_request(&stdin) {
            let events = self.events(&request).into_iter();
            said(events.map(|event| write_line(&event).unwrap()).collect())
        } else if line.contains("arch=$(uname -m)") {
            let clock = jiff::Timestamp::now().as_second();
            said(format!("{LOOK}clock={clock}\n"))
        } else if line.contains("healthcheck-client") {
            said(self.etcd.clone())
        } else if line.contains("echo wanted") {
            said("wanted\n".into())
        } else if line.contains(" digest ") {
            said(format!("{}\n", Sha256Digest::of(b"")))
        } else {
            said(String::new())
        }
    }

    fn events(&self, request: &Request) -> Vec<Event> {
        let done = Event::Done {
            changed: 1,
            reboot: None,
        };
        let event = match request {
            Request::Facts => Event::Facts {
                facts: Box::new(self.facts.clone()),
            },
            Request::Missing { .. } | Request::MissingImages { .. } => Event::Missing {
                sha256: self.lacks.iter().cloned().collect(),
                store: "/var/lib/mullion/store".into(),
            },
            Request::Kubeadm {
                step: Kubeadm::ReadAuthority,
            } => Event::Authority {
                files: [("ca.crt".into(), Secret::new("authority"))].into(),
            },
            Request::Kubeadm { .. } => Event::Kubeadm {
                done: KubeadmDone {
                    admin: Some(Secret::new(self.admin.clone())),
                },
            },
            _ => return vec![done],
        };
        vec![event, done]
    }
}
