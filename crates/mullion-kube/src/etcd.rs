//! Asks etcd itself, at its client port: who its members are, which of them are healthy, and for a snapshot.
//!
//! The API server cannot tell: it shows the static pods of members, and those go with their Node object. kubeadm removes
//! a member only on the machine that is the member. One that is lost stays counted, and no further control plane can join
//! while it does.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use mullion_plan::Health;
use mullion_wire::Secret;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Cause, KubeError};
use crate::kubeconfig::{Way, certificates};
use crate::session::{Credentials, Session, side_by_side};
use crate::snapshot::Snapshot;

/// How long a member has to answer. A healthy one answers within milliseconds, and who cannot be reached must not keep
/// everybody who only looks.
const HEALTH_PATIENCE: Duration = Duration::from_secs(3);
/// How long etcd has for the next part of a snapshot.
const PART_PATIENCE: Duration = Duration::from_secs(15);

/// How to speak to the etcd of a control plane, as the files of that machine say.
#[derive(Debug)]
pub struct EtcdDoor {
    /// `https://10.99.0.11:2379`.
    pub server: String,
    /// Its authority's certificate in PEM, in base64.
    pub authority: String,
    /// A client's certificate in PEM, in base64.
    pub certificate: String,
    /// The client's key in PEM, in base64.
    pub key: Secret,
}

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMember {
    /// The number by which etcd knows it.
    pub id: String,
    /// Its name, which is its node's; empty where it never came up. Two members can have one name.
    pub name: String,
    /// Where the other members reach it, as far as these are addresses and not names.
    pub peers: BTreeSet<IpAddr>,
    /// Whether it counts for the majority: one that is still being filled does not.
    pub voting: bool,
    /// What it said of its health.
    pub health: Health,
}

/// One member, as etcd lists it. Numbers come as texts.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    #[serde(rename = "ID")]
    id: String,
    /// Empty for one that never came up.
    #[serde(default)]
    name: String,
    #[serde(default, rename = "peerURLs")]
    peer_urls: Vec<String>,
    #[serde(default, rename = "clientURLs")]
    client_urls: Vec<String>,
    #[serde(default)]
    is_learner: bool,
}

impl Member {
    fn peers(&self) -> BTreeSet<IpAddr> {
        let urls = self.peer_urls.iter();
        let places = urls.filter_map(|url| url.parse::<http::Uri>().ok());
        let hosts = places.filter_map(|place| {
            let host = place.host()?;
            host.trim_matches(['[', ']']).parse().ok()
        });
        hosts.collect()
    }

    /// Whether it is that machine's: it has its name, or an address of the machine's.
    fn is_of(&self, name: &str, addresses: &BTreeSet<IpAddr>) -> bool {
        self.name == name || (self.name.is_empty() && !self.peers().is_disjoint(addresses))
    }
}

/// What `/health` says.
#[derive(Debug, Deserialize)]
struct Answer {
    health: String,
    #[serde(default)]
    reason: String,
}

/// What etcd gives as its reason where nothing is wrong but the missing majority.
const NO_LEADER: &str = "RAFT NO LEADER";

impl Answer {
    fn judge(&self) -> Health {
        if self.health == "true" {
            Health::Healthy
        } else if self.reason == NO_LEADER {
            Health::Leaderless
        } else {
            Health::Unhealthy
        }
    }
}

/// Every member, each asked for its health. A member that does not answer is not healthy.
pub(crate) async fn members(door: &EtcdDoor) -> Result<Vec<EtcdMember>, KubeError> {
    let session = open(door)?;
    let doing = "list the members of etcd";
    // Not by the majority's word: where there is none, the members are still to be known.
    let body = json!({ "linearizable": false });
    let list = post(&session, doing, "/v3/cluster/member/list", &body);
    let list = tokio::time::timeout(HEALTH_PATIENCE, list)
        .await
        .map_err(|_| KubeError::late(doing, HEALTH_PATIENCE))??;
    let listed = listed(&list).ok_or_else(|| KubeError::Misunderstood {
        doing: doing.into(),
        cause: Cause::words("the answer has no members"),
    })?;
    let looks = listed.iter().cloned().map(|member| {
        let session = session.clone();
        async move { health(&session, &member).await }
    });
    let healths = side_by_side(looks).await;
    let members = listed.into_iter().zip(healths);
    Ok(members
        .map(|(member, health)| EtcdMember {
            peers: member.peers(),
            id: member.id,
            name: member.name,
            voting: !member.is_learner,
            health,
        })
        .collect())
}

/// What a member says of its health at its own address.
async fn health(session: &Session, member: &Member) -> Health {
    for url in &member.client_urls {
        // Its certificate must be of the same authority, so no one else can answer for it.
        let Ok(session) = session.at(url, Credentials::Shown) else {
            continue;
        };
        let request = http::Request::get("/health").body(kube::client::Body::empty());
        let answer = async {
            // Sent as it is: with status 503 the body says why the member is not healthy.
            let answer = session.client().send(request.ok()?).await.ok()?;
            let body = answer.into_body().collect_bytes().await.ok()?;
            serde_json::from_slice::<Answer>(&body).ok()
        };
        if let Ok(Some(answer)) = tokio::time::timeout(HEALTH_PATIENCE, answer).await {
            return answer.judge();
        }
    }
    Health::Unhealthy
}

/// Writes a snapshot of the member's data, and gives its size once it is known to be whole.
pub(crate) async fn save_snapshot(
    door: &EtcdDoor,
    out: &mut (dyn Write + Send),
) -> Result<u64, KubeError> {
    let session = open(door)?;
    let doing = "save a snapshot of etcd";
    let opened = async {
        let request = http::Request::post("/v3/maintenance/snapshot")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(b"{}".to_vec())
            .map_err(kube::Error::HttpError)?;
        session.client().request_stream(request).await
    };
    let mut lines = Box::pin(session.ask(doing, opened).await?);
    let mut snapshot = Snapshot::new(out);
    let failed = |cause| KubeError::Snapshot { cause };
    let mut line = Vec::new();
    loop {
        line.clear();
        let next = Snapshot::read_line(&mut lines, &mut line);
        let read = match tokio::time::timeout(PART_PATIENCE, next).await {
            Ok(read) => read.map_err(|error| failed(Cause::of(&error)))?,
            Err(_) => return Err(KubeError::late(doing, PART_PATIENCE)),
        };
        if read == 0 {
            return snapshot.finish().map_err(failed);
        }
        snapshot.take(&line).map_err(failed)?;
    }
}

fn listed(list: &Value) -> Option<Vec<Member>> {
    serde_json::from_value(list["members"].clone()).ok()
}

/// Lets every member of a machine go.
pub(crate) async fn remove_members(
    door: &EtcdDoor,
    name: &str,
    addresses: &BTreeSet<IpAddr>,
) -> Result<(), KubeError> {
    let session = open(door)?;
    let doing = "list the members of etcd";
    let list = post(&session, doing, "/v3/cluster/member/list", &json!({})).await?;
    let doing = format!("take {name} out of etcd");
    for id in find(&list, name, addresses) {
        let body = json!({ "ID": id });
        post(&session, &doing, "/v3/cluster/member/remove", &body).await?;
    }
    Ok(())
}

/// The numbers of a machine's members.
pub(crate) fn find(list: &Value, name: &str, addresses: &BTreeSet<IpAddr>) -> Vec<String> {
    let members = listed(list).unwrap_or_default().into_iter();
    members
        .filter(|member| member.is_of(name, addresses))
        .map(|member| member.id)
        .collect()
}

fn open(door: &EtcdDoor) -> Result<Session, KubeError> {
    let unfit = |words: &str| KubeError::Prepare {
        server: door.server.clone(),
        cause: Cause::words(words),
    };
    let server = door
        .server
        .parse()
        .map_err(|_| unfit("its address is none"))?;
    let authority = certificates(&door.authority).ok_or_else(|| unfit("its authority is none"))?;
    let way = Way {
        server,
        authority,
        authority_data: door.authority.clone(),
        tls_server_name: None,
        identity: Some((door.certificate.clone(), door.key.clone())),
        token: None,
    };
    Session::new(way.config())
}

async fn post(
    session: &Session,
    doing: &str,
    path: &str,
    body: &Value,
) -> Result<Value, KubeError> {
    let request = async {
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        session.client().request(request).await
    };
    session.ask(doing, request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_etcd_lists_them() {
        let list = json!({"members": [
            {"ID": "1", "name": "cp1", "clientURLs": ["https://10.99.0.2:2379"]},
            {"ID": "2", "peerURLs": ["https://10.99.0.3:2380"], "isLearner": true},
        ]});
        let members = listed(&list).unwrap();
        assert_eq!(members[0].client_urls, ["https://10.99.0.2:2379"]);
        assert!(!members[0].is_learner);
        assert!(members[1].is_learner && members[1].client_urls.is_empty());
        assert!(listed(&json!({"error": "etcdserver: no leader"})).is_none());
    }

    #[test]
    fn promise_04_what_a_member_says_of_its_health_is_told_apart() {
        for (text, health) in [
            (r#"{"health":"true","reason":""}"#, Health::Healthy),
            (r#"{"health":"true"}"#, Health::Healthy),
            (
                r#"{"health":"false","reason":"RAFT NO LEADER"}"#,
                Health::Leaderless,
            ),
            (
                r#"{"health":"false","reason":"ALARM CORRUPT"}"#,
                Health::Unhealthy,
            ),
            (r#"{"health":"false"}"#, Health::Unhealthy),
        ] {
            let answer: Answer = serde_json::from_str(text).unwrap();
            assert_eq!(answer.judge(), health, "{text}");
        }
    }

    #[test]
    fn promise_04_peer_addresses_are_read_and_peer_names_are_not_taken_for_addresses() {
        let list = json!({"members": [{"ID": "1", "peerURLs": [
            "https://10.99.0.2:2380", "https://[fd00::2]:2380", "https://etcd.example:2380", "nothing",
        ]}]});
        let peers = listed(&list).unwrap()[0].peers();
        let peers: Vec<_> = peers.iter().map(ToString::to_string).collect();
        assert_eq!(peers, ["10.99.0.2", "fd00::2"]);
    }

    #[test]
    fn a_member_is_found_by_its_name() {
        let list = json!({
            "header": {"cluster_id": "1"},
            "members": [
                {"ID": "10501334649042878790", "name": "cp1", "peerURLs": ["https://10.99.0.2:2380"]},
                {"ID": "7", "peerURLs": ["https://10.99.0.4:2380"]},
            ],
        });
        let none = BTreeSet::new();
        assert_eq!(find(&list, "cp1", &none), ["10501334649042878790"]);
        assert_eq!(find(&list, "cp3", &none), [""; 0]);
        assert_eq!(find(&json!({}), "cp1", &none), [""; 0]);
        // One that never came up has no name, and the address of its machine.
        let address = BTreeSet::from(["10.99.0.4".parse().unwrap()]);
        assert_eq!(find(&list, "cp3", &address), ["7"]);
    }
}
