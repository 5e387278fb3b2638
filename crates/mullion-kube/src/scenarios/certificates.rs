use k8s_openapi::ByteString;

use super::*;
use crate::certificates::SIGNER;
use crate::{KubeError, Serving};

const FOLDER: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/requests/", $name, ".pem")).as_slice()
    };
}

fn request(sender: &str, groups: &[&str], pem: &[u8]) -> Value {
    json!({
        "metadata": {},
        "spec": {
            "request": ByteString(pem.into()), "signerName": SIGNER, "username": sender,
            "groups": groups, "usages": ["digital signature", "server auth"],
        },
        "status": {},
    })
}

fn own(pem: &[u8]) -> Value {
    request("system:node:lin1", &["system:nodes"], pem)
}

fn known() -> Serving {
    Serving {
        addresses: vec!["10.99.0.12".parse().unwrap()],
        owner: owner(),
        machines: ["lin1".to_owned(), "lin2".to_owned()].into(),
        ..Serving::default()
    }
}

/// A cluster with node `lin1` and these requests.
fn with(requests: &[(&str, Value)]) -> Fake {
    let fake = Fake::default();
    fake.put("/api/v1/nodes/lin1", node("False"));
    for (name, request) in requests {
        fake.put(&format!("{FOLDER}/{name}"), request.clone());
    }
    fake
}

fn is_noted(fake: &Fake) -> bool {
    let node = fake.at("/api/v1/nodes/lin1").unwrap();
    node["metadata"]["annotations"]["mullion.dev/certificates"] == "approved"
}

#[test]
fn a_slow_kubelet_is_waited_for_and_then_approved() {
    let fake = with(&[]);
    let api = fake.api();
    let look = api.approve_certificates("lin1", &known()).unwrap();
    assert_eq!(
        words(look),
        "the kubelet of lin1 has not asked for a certificate yet"
    );
    assert!(!is_noted(&fake));

    fake.put(&format!("{FOLDER}/csr-1"), own(fixture!("lin1")));
    assert_eq!(
        api.approve_certificates("lin1", &known()).unwrap(),
        Look::So(1)
    );
    assert!(is_noted(&fake));
    let approved = fake.at(&format!("{FOLDER}/csr-1")).unwrap();
    assert_eq!(approved["status"]["conditions"][0]["type"], "Approved");
    assert!(api.facts(&owner()).unwrap().facts.nodes["lin1"].certificates);

    fake.forget_requests();
    assert_eq!(
        api.approve_certificates("lin1", &known()).unwrap(),
        Look::So(0)
    );
    let approvals = fake
        .changes()
        .iter()
        .filter(|change| change.contains("approval"))
        .count();
    assert_eq!(approvals, 0, "once is enough");
}

#[test]
fn a_renewal_long_after_the_node_was_made_is_seen_and_approved() {
    let fake = with(&[("csr-1", own(fixture!("lin1")))]);
    let api = fake.api();
    let is_settled = || api.facts(&owner()).unwrap().facts.nodes["lin1"].certificates;
    let approve = || api.approve_certificates("lin1", &known()).unwrap();
    assert_eq!(approve(), Look::So(1));
    fake.forget_requests();
    assert!(is_settled(), "nobody asks");
    fake.put(&format!("{FOLDER}/csr-2"), own(fixture!("lin1")));
    assert!(!is_settled(), "planning is to see that somebody waits");
    assert_eq!(approve(), Look::So(1));
    assert!(is_settled());
}

#[test]
fn other_nodes_requests_are_not_looked_at() {
    let of_other = request("system:node:lin2", &["system:nodes"], fixture!("lin1"));
    let of_nobody = request("admin", &["system:masters"], fixture!("lin1"));
    let fake = with(&[("csr-1", of_other), ("csr-2", of_nobody)]);
    let look = fake.api().approve_certificates("lin1", &known()).unwrap();
    assert!(!look.is_so());
    assert!(fake.changes().is_empty());
}

#[test]
fn a_request_for_what_is_not_the_nodes_is_refused_and_not_approved() {
    let cases = [
        ("other node's name", own(fixture!("other-name"))),
        ("foreign name", own(fixture!("foreign-name"))),
        ("foreign address", own(fixture!("foreign-address"))),
        (
            "wrong group",
            request(
                "system:node:lin1",
                &["system:authenticated"],
                fixture!("lin1"),
            ),
        ),
        ("no request at all", own(b"hello")),
    ];
    for (what, request) in cases {
        let fake = with(&[("csr-bad", request)]);
        let error = fake
            .api()
            .approve_certificates("lin1", &known())
            .unwrap_err();
        assert!(
            matches!(error, KubeError::WrongRequest { .. }),
            "{what}: {error:?}"
        );
        assert_eq!(error.class(), ErrorClass::Refused, "{what}");
        assert_eq!(
            error.to_string(),
            "certificate request `csr-bad` of node lin1 is not approved"
        );
        assert!(
            error
                .hint()
                .unwrap()
                .contains("mullion kubectl certificate deny csr-bad")
        );
        assert!(fake.changes().is_empty(), "{what}: {:?}", fake.changes());
    }
}

#[test]
fn promise_11_an_address_of_another_node_object_is_refused() {
    let with_address = |labels: Value| {
        let mut other = node("True");
        other["metadata"]["labels"] = labels;
        other["status"]["addresses"] = json!([{"type": "ExternalIP", "address": "10.99.0.12"}]);
        let fake = with(&[("csr-1", own(fixture!("lin1")))]);
        fake.put("/api/v1/nodes/other", other);
        fake
    };
    // Whoever made that node: it need not be in the file.
    let fake = with_address(json!({}));
    let error = fake.api().approve_certificates("lin1", &known());
    let KubeError::WrongRequest { unfit, .. } = error.unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(
        unfit.to_string(),
        "it asks for `10.99.0.12`, which belongs to node other"
    );
    assert!(fake.changes().is_empty());
    // One of ours whose machine left the file: its address is this machine's by now.
    let fake = with_address(json!({"mullion.dev/cluster": "demo"}));
    let look = fake.api().approve_certificates("lin1", &known()).unwrap();
    assert_eq!(look, Look::So(1));
}

#[test]
fn a_request_of_a_node_that_is_gone_stops_nobody() {
    let mut stale = own(fixture!("foreign-address"));
    stale["metadata"]["creationTimestamp"] = "2026-11-15T07:00:00Z".into();
    let mut fresh = own(fixture!("lin1"));
    fresh["metadata"]["creationTimestamp"] = "2026-11-15T08:00:01Z".into();
    let fake = with(&[("csr-1", stale), ("csr-2", fresh)]);
    let mut born = node("True");
    born["metadata"]["creationTimestamp"] = "2026-11-15T08:00:00Z".into();
    fake.put("/api/v1/nodes/lin1", born);
    let api = fake.api();
    assert_eq!(
        api.approve_certificates("lin1", &known()).unwrap(),
        Look::So(1)
    );
    assert!(api.facts(&owner()).unwrap().facts.nodes["lin1"].certificates);
}

#[test]
fn what_is_right_is_approved_beside_what_is_wrong() {
    let fake = with(&[
        ("csr-1", own(fixture!("foreign-name"))),
        ("csr-2", own(fixture!("lin1"))),
    ]);
    assert!(fake.api().approve_certificates("lin1", &known()).is_err());
    assert_eq!(fake.changes(), [format!("PATCH {FOLDER}/csr-2/approval")]);
    assert!(!is_noted(&fake));
}

#[test]
fn a_request_that_somebody_denied_stays_denied() {
    let mut denied = own(fixture!("lin1"));
    denied["status"] = json!({"conditions": [{"type": "Denied", "status": "True"}]});
    let fake = with(&[("csr-1", denied)]);
    let look = fake.api().approve_certificates("lin1", &known()).unwrap();
    assert!(words(look).contains("csr-1 of lin1 was denied or failed"));
    assert!(fake.changes().is_empty());
}

#[test]
fn a_decision_that_fell_meanwhile_is_a_conflict() {
    let fake = with(&[("csr-1", own(fixture!("lin1")))]);
    fake.answer_once(
        Method::PATCH,
        &format!("{FOLDER}/csr-1/approval"),
        409,
        "changed",
    );
    let api = fake.api();
    let error = api.approve_certificates("lin1", &known()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    let approval = fake
        .made()
        .into_iter()
        .find(|made| made.path.ends_with("approval"));
    let seen = &fake.at(&format!("{FOLDER}/csr-1")).unwrap()["metadata"]["resourceVersion"];
    assert_eq!(
        approval.unwrap().body["metadata"]["resourceVersion"],
        *seen,
        "the API server is told what the decision is about"
    );
    assert_eq!(
        api.approve_certificates("lin1", &known()).unwrap(),
        Look::So(1)
    );
}

#[test]
fn a_cut_between_approval_and_its_note_is_made_good() {
    let fake = with(&[("csr-1", own(fixture!("lin1")))]);
    fake.answer_once(
        Method::PATCH,
        "/api/v1/nodes/lin1",
        503,
        "gone for a moment",
    );
    let api = fake.api();
    assert!(api.approve_certificates("lin1", &known()).is_err());
    assert!(!is_noted(&fake));
    assert_eq!(
        api.approve_certificates("lin1", &known()).unwrap(),
        Look::So(0)
    );
    assert!(is_noted(&fake));
}

#[test]
fn a_node_that_is_not_registered_yet_is_waited_for() {
    let fake = Fake::default();
    fake.put(&format!("{FOLDER}/csr-1"), own(fixture!("lin1")));
    let look = fake.api().approve_certificates("lin1", &known()).unwrap();
    assert_eq!(words(look), "the cluster knows no node lin1 yet");
}

#[test]
fn a_kubelet_without_its_certificate_is_waited_for_and_one_that_is_not_heard_of_is_not() {
    let fake = with(&[]);
    let api = fake.api();
    let look = |code: u16, message: &str| {
        fake.answer_once(
            Method::GET,
            "/api/v1/nodes/lin1/proxy/healthz",
            code,
            message,
        );
        api.kubelet_serves("lin1")
    };
    assert_eq!(
        words(look(
            503,
            "error trying to reach service: remote error: tls: internal error"
        )),
        "the kubelet of lin1 does not serve yet: remote error: tls: internal error"
    );
    let refused =
        "error trying to reach service: dial tcp 10.99.0.12:10250: connect: connection refused";
    assert!(!look(503, refused).is_so());
    let dropped = "error trying to reach service: dial tcp 10.99.0.12:10250: i/o timeout";
    assert!(look(503, dropped).is_so());
    assert!(look(401, "Unauthorized").is_so(), "it answers");
}
