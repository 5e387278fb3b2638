use super::*;

const AUTHORITY: &str = include_str!("../../tests/authority.pem");

/// What `openssl x509 -outform der | sha256sum` says of the fixture.
const AUTHORITY_DIGEST: &str = "9c8966e552f7af40406c6c714ef5bcb650ba97e4369e780f5c456091b871b4f5";

fn base64(text: &str) -> String {
    let bytes = ByteString(text.as_bytes().to_vec());
    serde_json::to_value(bytes)
        .unwrap()
        .as_str()
        .unwrap()
        .into()
}

/// As kubeadm writes it.
fn admin() -> String {
    format!(
        "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {}
    server: https://10.99.0.11:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: kubernetes-admin
  name: kubernetes-admin@kubernetes
current-context: kubernetes-admin@kubernetes
kind: Config
preferences: {{}}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
",
        base64(AUTHORITY)
    )
}

/// A small one, so that snapshots can be read.
const SMALL: &str = "apiVersion: v1
kind: Config
clusters: [{name: kubernetes, cluster: {server: 'https://10.99.0.11:6443', certificate-authority-data: QQ==}}]
contexts: [{name: admin, context: {cluster: kubernetes, user: admin}}]
current-context: admin
users: [{name: admin, user: {client-certificate-data: Qg==, client-key-data: Qw==}}]
";

#[test]
fn a_few_lines_of_aliases_do_not_become_millions_of_values() {
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (above, name) in ('a'..='h').zip('b'..='i') {
        let nine = vec![format!("*{above}"); 9].join(", ");
        for piece in [&format!("{name}: &{name} ["), &nine, "]\n"] {
            text.push_str(piece);
        }
    }
    let begun = std::time::Instant::now();
    assert!(parse(&text).is_err());
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[test]
fn kubeadms_kubeconfig_says_how_to_connect() {
    let way = read(&admin(), None).unwrap();
    assert_eq!(way.server, "https://10.99.0.11:6443");
    assert_eq!(way.id(), ClusterId(AUTHORITY_DIGEST.into()));
    assert_eq!(cluster_id(&admin(), None).unwrap(), way.id());
    assert_eq!(way.authority.len(), 1);
    let (certificate, key) = way.identity.as_ref().unwrap();
    assert_eq!((certificate.as_str(), key.reveal()), ("Q0VSVA==", "S0VZ"));
    let config = way.config();
    assert_eq!(config.proxy_url, None);
    assert!(!config.default_retry && !config.accept_invalid_certs);
    assert!(!format!("{way:?}").contains("S0VZ"));
}

#[test]
fn what_is_missing_or_leads_outside_is_named() {
    let change = |from: &str, to: &str| {
        let text = admin().replace(from, to);
        read(&text, None).unwrap_err().to_string()
    };
    let cases = [
        (
            "current-context: kubernetes-admin@kubernetes",
            "current-context: ''",
            "it has no current context",
        ),
        (
            "current-context: kubernetes-admin@kubernetes",
            "current-context: a",
            "it has no context `a`",
        ),
        (
            "cluster: kubernetes\n",
            "cluster: other\n",
            "it has no cluster `other`",
        ),
        (
            "user: kubernetes-admin\n",
            "user: other\n",
            "it has no user `other`",
        ),
        (
            "https://",
            "http://",
            "`server` of cluster `kubernetes` is not an https URL",
        ),
        (
            "certificate-authority-data: ",
            "certificate-authority-data: QQ== # ",
            "`certificate-authority-data` of cluster `kubernetes` is not a certificate in PEM, in base64",
        ),
        (
            "certificate-authority-data",
            "certificate-authority",
            "`certificate-authority` of cluster `kubernetes` is not supported: only what stands in the kubeconfig itself is used",
        ),
        (
            "server: ",
            "insecure-skip-tls-verify: true\n    server: ",
            "`insecure-skip-tls-verify` of cluster `kubernetes` is not supported: only what stands in the kubeconfig itself is used",
        ),
        (
            "client-key-data: S0VZ",
            "exec: {command: aws}",
            "`exec` of user `kubernetes-admin` is not supported: only what stands in the kubeconfig itself is used",
        ),
        (
            "client-key-data: S0VZ",
            "",
            "`client-key-data` of user `kubernetes-admin` is missing",
        ),
        (
            "clusters:",
            "clusters: 7\nother:",
            "`clusters` is not what a kubeconfig has there",
        ),
    ];
    for (from, to, words) in cases {
        assert_eq!(change(from, to), words);
    }
    assert_eq!(
        read("[]", None).unwrap_err().to_string(),
        "`the document` is not what a kubeconfig has there"
    );
}

#[test]
fn an_error_shows_a_place_and_nothing_of_the_text() {
    let text = "users:\n- name: a\n  user: {token: hunter2\nclusters: x";
    let error = read(text, None).unwrap_err();
    assert!(
        matches!(error, KubeconfigError::Yaml { line, .. } if line > 0),
        "{error:?}"
    );
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[test]
fn renamed_it_is_small_marked_and_readable() {
    insta::assert_snapshot!(rename(SMALL, "demo", Some("https://lb1:6443")).unwrap());
    let long = rename(&admin(), "demo", None).unwrap();
    let longest = long
        .lines()
        .find(|line| line.contains("certificate-authority-data"));
    assert!(longest.unwrap().len() > 500, "a certificate is one line");
    assert_eq!(
        read(&long, Some("demo")).unwrap().id(),
        read(&admin(), None).unwrap().id()
    );
    assert_eq!(
        rename(&long, "demo", None).unwrap(),
        long,
        "renaming twice changes nothing"
    );
}

/// A user's own, with what nobody here knows, in an order of its own.
const USERS: &str = "# mine
kind: Config
apiVersion: v1
preferences:
  colors: true
users:
- name: work
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: aws
      args: [eks, get-token]
      env: null
      interactiveMode: IfAvailable
- name: yes
  user: {token: '0123', future-field: [1, two]}
clusters:
- name: work
  cluster: {server: 'https://work.example:443', proxy-url: 'http://proxy:3128'}
contexts:
- name: work
  context: {cluster: work, user: work, namespace: team-a}
current-context: work
extensions:
- name: tool
  extension: {last-used: 2026-01-01}
";

#[test]
fn merging_keeps_everything_that_was_there() {
    insta::assert_snapshot!(merge(Some(USERS), SMALL, "demo").unwrap());
}

#[test]
fn merging_again_replaces_ours_and_changes_nothing_else() {
    let once = merge(Some(USERS), SMALL, "demo").unwrap();
    assert_eq!(merge(Some(&once), SMALL, "demo").unwrap(), once);
    let moved = SMALL.replace("10.99.0.11", "10.99.0.99");
    let again = merge(Some(&once), &moved, "demo").unwrap();
    assert_eq!(again, once.replace("10.99.0.11", "10.99.0.99"));
}

#[test]
fn merging_into_nothing_gives_ours_alone() {
    let alone = rename(SMALL, "demo", None).unwrap();
    for nothing in [None, Some(""), Some("\n  \n")] {
        assert_eq!(merge(nothing, SMALL, "demo").unwrap(), alone);
    }
    // What kubectl leaves when the last entry was deleted.
    let bare = "apiVersion: v1\nclusters: null\ncontexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n";
    let merged = merge(Some(bare), SMALL, "demo").unwrap();
    assert!(merged.contains("current-context: demo\n"), "{merged}");
}

#[test]
fn a_name_that_is_the_users_own_is_not_taken() {
    let cases = [
        (
            "work",
            "there is a cluster `work` already, and it is not ours",
        ),
        ("yes", "there is a user `yes` already, and it is not ours"),
    ];
    for (name, words) in cases {
        assert_eq!(
            merge(Some(USERS), SMALL, name).unwrap_err().to_string(),
            words
        );
    }
}

#[test]
fn a_users_file_that_is_no_kubeconfig_is_left_alone() {
    for bad in ["[1, 2]", "a: b: c", "clusters: {}"] {
        assert!(merge(Some(bad), SMALL, "demo").is_err(), "{bad}");
    }
}

#[test]
fn the_discovery_file_holds_authority_endpoint_and_token() {
    let token = Secret::new("abcdef.0123456789abcdef");
    let file = discovery("https://10.99.0.11:6443", &base64(AUTHORITY), &token);
    let way = read(file.reveal(), None).unwrap();
    assert_eq!(way.id(), ClusterId(AUTHORITY_DIGEST.into()));
    assert_eq!(way.token, Some(token));
    assert_eq!(way.server, "https://10.99.0.11:6443");
}
