use super::*;

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const ENDPOINT: &str = "10.99.0.11:6443";

#[test]
fn a_join_token_is_stored_as_kubernetes_wants_it_and_ends_by_the_servers_clock() {
    let fake = Fake::default();
    fake.set_date("Sun, 15 Nov 2026 09:00:00 GMT");
    let token = fake
        .api()
        .create_join_token(ENDPOINT, Duration::from_mins(15))
        .unwrap();
    assert_eq!(token.expires.to_string(), "2026-11-15T09:15:00Z");
    let stored = fake
        .at(&format!("{SECRETS}/bootstrap-token-{}", token.id))
        .unwrap();
    assert_eq!(stored["type"], "bootstrap.kubernetes.io/token");
    let data = &stored["stringData"];
    assert_eq!(data["expiration"], "2026-11-15T09:15:00Z");
    assert_eq!(
        data["auth-extra-groups"],
        "system:bootstrappers:kubeadm:default-node-token"
    );
    assert_eq!(data["description"], "mullion");
    let whole = format!("{}.{}", token.id, data["token-secret"].as_str().unwrap());
    assert_eq!(token.token.reveal(), whole);
    let discovery = token.discovery.reveal();
    for part in [&whole, "https://10.99.0.11:6443", "QVVUSE9SSVRZ"] {
        assert!(discovery.contains(part), "{part} in {discovery}");
    }
    assert!(!format!("{token:?}").contains(data["token-secret"].as_str().unwrap()));
}

#[test]
fn promise_12_a_join_token_can_authenticate_and_nothing_else() {
    let fake = Fake::default();
    let lifetime = Duration::from_mins(15);
    let token = fake.api().create_join_token(ENDPOINT, lifetime).unwrap();
    let stored = fake.at(&format!("{SECRETS}/bootstrap-token-{}", token.id));
    let data = stored.unwrap()["stringData"].clone();
    let data = data.as_object().unwrap();
    let usages: Vec<_> = data
        .keys()
        .filter(|key| key.starts_with("usage-"))
        .collect();
    assert_eq!(usages, ["usage-bootstrap-authentication"]);
    assert_eq!(
        data["auth-extra-groups"],
        "system:bootstrappers:kubeadm:default-node-token"
    );
}

#[test]
fn without_a_date_our_own_clock_counts() {
    let before = jiff::Timestamp::now();
    let token = Fake::default()
        .api()
        .create_join_token(ENDPOINT, Duration::from_mins(15))
        .unwrap();
    let lives = token.expires.as_second() - before.as_second();
    assert!((900..960).contains(&lives), "{lives}");
}

fn stored(description: &str) -> Value {
    let description = k8s_openapi::ByteString(description.as_bytes().to_vec());
    json!({"metadata": {}, "type": "bootstrap.kubernetes.io/token", "data": {"description": description}})
}

#[test]
fn only_our_own_tokens_are_swept() {
    let fake = Fake::default();
    fake.put(
        &format!("{SECRETS}/bootstrap-token-aaaaaa"),
        stored("mullion"),
    );
    fake.put(
        &format!("{SECRETS}/bootstrap-token-bbbbbb"),
        stored("The default bootstrap token"),
    );
    fake.put(
        &format!("{SECRETS}/mine"),
        json!({"metadata": {}, "type": "Opaque"}),
    );
    let api = fake.api();
    assert_eq!(api.sweep_tokens().unwrap(), 1);
    assert_eq!(api.sweep_tokens().unwrap(), 0);
    assert_eq!(
        fake.changes(),
        [format!("DELETE {SECRETS}/bootstrap-token-aaaaaa")]
    );
}

#[test]
fn a_token_that_is_gone_is_deleted() {
    let fake = Fake::default();
    let api = fake.api();
    let token = api
        .create_join_token(ENDPOINT, Duration::from_mins(1))
        .unwrap();
    api.delete_token(&token.id).unwrap();
    api.delete_token(&token.id).unwrap();
    assert!(
        fake.at(&format!("{SECRETS}/bootstrap-token-{}", token.id))
            .is_none()
    );
}

#[test]
fn uploaded_certificates_are_found_without_reading_them() {
    let fake = Fake::default();
    let api = fake.api();
    assert!(!api.has_uploaded_certs().unwrap());
    fake.put(&format!("{SECRETS}/kubeadm-certs"), json!({"metadata": {}}));
    assert!(api.has_uploaded_certs().unwrap());
}
