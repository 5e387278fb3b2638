//! Members of etcd, asked at etcd's own door: nobody else can let a member go whose machine is no more.
//!
//! kubeadm removes a member only on the machine that is the member. One that is lost stays counted, and no further
//! control plane can join while it does.

use mullion_wire::Secret;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Cause, KubeError};
use crate::kubeconfig::{Way, certificates};
use crate::session::Session;

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

/// One member, as etcd lists it. Numbers come as texts.
#[derive(Debug, Deserialize)]
struct Member {
    #[serde(rename = "ID")]
    id: String,
    /// Empty for one that never came up.
    #[serde(default)]
    name: String,
}

/// Lets the member of that name go, where there is one.
pub(crate) async fn remove_member(door: &EtcdDoor, name: &str) -> Result<(), KubeError> {
    let session = open(door)?;
    let doing = "list the members of etcd";
    let list = post(&session, doing, "/v3/cluster/member/list", &json!({})).await?;
    let Some(id) = find(&list, name) else {
        return Ok(());
    };
    let doing = format!("take {name} out of etcd");
    post(
        &session,
        &doing,
        "/v3/cluster/member/remove",
        &json!({ "ID": id }),
    )
    .await?;
    Ok(())
}

/// The number of the member of that name.
pub(crate) fn find(list: &Value, name: &str) -> Option<String> {
    let members: Vec<Member> = serde_json::from_value(list["members"].clone()).ok()?;
    let mut members = members.into_iter();
    members
        .find(|member| member.name == name)
        .map(|member| member.id)
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
    fn a_member_is_found_by_its_name() {
        let list = json!({
            "header": {"cluster_id": "1"},
            "members": [
                {"ID": "10501334649042878790", "name": "cp1", "peerURLs": ["https://10.99.0.2:2380"]},
                {"ID": "7", "peerURLs": ["https://10.99.0.4:2380"]},
            ],
        });
        assert_eq!(find(&list, "cp1").unwrap(), "10501334649042878790");
        assert_eq!(find(&list, "cp3"), None);
        assert_eq!(find(&json!({}), "cp1"), None);
    }
}
