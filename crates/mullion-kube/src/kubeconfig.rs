//! Kubeconfigs as text: reading, renaming, merging into a user's own. Pure.
//!
//! What is merged carries an extension named `mullion.dev`, by which it is known again: an entry of the same
//! name without it is the user's and is never touched. Everything else in a user's kubeconfig stays, fields that
//! nobody here knows included, in its order; comments and blank lines do not survive.

use k8s_openapi::ByteString;
use mullion_plan::ClusterId;
use mullion_wire::{Secret, Sha256Digest};
use serde_json::{Map, Value, json};

/// The name of the extension that marks our entries.
const MARK: &str = "mullion.dev";

/// The lists of a kubeconfig: its name, the name of an entry's body, and how people call an entry.
const LISTS: [(&str, &str, &str); 3] = [
    ("clusters", "cluster", "cluster"),
    ("contexts", "context", "context"),
    ("users", "user", "user"),
];

/// Why a kubeconfig cannot be used. What stands in one is secret, so nothing of it is shown but names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// It is not YAML.
    #[error("it is not YAML: line {line}, column {column}")]
    Yaml {
        /// Where.
        line: u64,
        /// Where in it.
        column: u64,
    },
    /// It is YAML of another form.
    #[error("`{place}` is not what a kubeconfig has there")]
    Form {
        /// Where.
        place: String,
    },
    /// No context was asked for, and it names none as current.
    #[error("it has no current context")]
    NoContext,
    /// It refers to something that it does not have.
    #[error("it has no {what} `{name}`")]
    Missing {
        /// What.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// It lacks something that is needed to connect.
    #[error("`{field}` of {what} `{name}` is missing")]
    Lacks {
        /// Of what.
        what: &'static str,
        /// Its name.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// It leads outside itself, and only what stands in it is used.
    #[error(
        "`{field}` of {what} `{name}` is not supported: only what stands in the kubeconfig itself is used"
    )]
    Outside {
        /// Of what.
        what: &'static str,
        /// Its name.
        name: String,
        /// The field.
        field: &'static str,
    },
    /// A field holds something else than its name says.
    #[error("`{field}` of {what} `{name}` is not {should}")]
    Value {
        /// Of what.
        what: &'static str,
        /// Its name.
        name: String,
        /// The field.
        field: &'static str,
        /// What it should be.
        should: &'static str,
    },
    /// The name is in use, by something that is not ours.
    #[error("there is a {what} `{name}` already, and it is not ours")]
    Taken {
        /// What.
        what: &'static str,
        /// Its name.
        name: String,
    },
}

/// How to connect, out of one context of a kubeconfig.
#[derive(Debug)]
pub(crate) struct Way {
    /// The API server's URL.
    pub(crate) server: http::Uri,
    /// The authority's certificates, in DER; the first is the cluster's identity.
    pub(crate) authority: Vec<Vec<u8>>,
    /// The same as they stand in the kubeconfig.
    pub(crate) authority_data: String,
    /// The name in the server's certificate, where it is not the URL's.
    pub(crate) tls_server_name: Option<String>,
    /// The client's certificate and key, as they stand in the kubeconfig.
    pub(crate) identity: Option<(String, Secret)>,
    /// A bearer token.
    pub(crate) token: Option<Secret>,
}

impl Way {
    /// Which cluster it leads to.
    pub(crate) fn id(&self) -> ClusterId {
        let first = self.authority.first().map_or(&[][..], Vec::as_slice);
        ClusterId(Sha256Digest::of(first).to_string())
    }

    /// The connection's settings, without a look at the environment.
    pub(crate) fn config(&self) -> kube::Config {
        // `Config::from_custom_kubeconfig` would take a proxy out of the environment.
        let mut config = kube::Config::new(self.server.clone());
        config.root_cert = Some(self.authority.clone());
        config.tls_server_name.clone_from(&self.tls_server_name);
        // Retries are the engine's, and a budget that holds an eviction answers 429.
        config.default_retry = false;
        config.connect_timeout = Some(std::time::Duration::from_secs(5));
        if let Some((certificate, key)) = &self.identity {
            config.auth_info.client_certificate_data = Some(certificate.clone());
            config.auth_info.client_key_data = Some(key.reveal().into());
        }
        if let Some(token) = &self.token {
            config.auth_info.token = Some(token.reveal().into());
        }
        config
    }
}

/// Reads how to connect. Without a context, the current one is taken.
pub(crate) fn read(text: &str, context: Option<&str>) -> Result<Way, KubeconfigError> {
    let whole = parse(text)?;
    let (cluster_name, cluster, user_name, user) = parts(&whole, context)?;
    let of_cluster = Fields {
        what: "cluster",
        name: &cluster_name,
        body: cluster,
    };
    let of_user = Fields {
        what: "user",
        name: &user_name,
        body: user,
    };
    of_cluster.forbid(&[
        "certificate-authority",
        "insecure-skip-tls-verify",
        "proxy-url",
    ])?;
    of_user.forbid(&[
        "client-certificate",
        "client-key",
        "tokenFile",
        "exec",
        "auth-provider",
        "username",
    ])?;
    let server = of_cluster.require("server")?;
    let server: http::Uri = server
        .parse()
        .ok()
        .filter(|server: &http::Uri| server.scheme_str() == Some("https"))
        .ok_or_else(|| of_cluster.should("server", "an https URL"))?;
    let authority_data = of_cluster.require("certificate-authority-data")?;
    let authority = certificates(&authority_data).ok_or_else(|| {
        of_cluster.should(
            "certificate-authority-data",
            "a certificate in PEM, in base64",
        )
    })?;
    let identity = match (
        of_user.get("client-certificate-data"),
        of_user.get("client-key-data"),
    ) {
        (Some(certificate), Some(key)) => Some((certificate, Secret::new(key))),
        (None, None) => None,
        (Some(_), None) => return Err(of_user.lacks("client-key-data")),
        (None, Some(_)) => return Err(of_user.lacks("client-certificate-data")),
    };
    Ok(Way {
        server,
        authority,
        authority_data,
        tls_server_name: of_cluster.get("tls-server-name"),
        identity,
        token: of_user.get("token").map(Secret::new),
    })
}

/// Which cluster a kubeconfig leads to: the digest of its authority's certificate.
pub fn cluster_id(text: &str, context: Option<&str>) -> Result<ClusterId, KubeconfigError> {
    read(text, context).map(|way| way.id())
}

/// The digest of the client's certificate in a kubeconfig's current context; `None` where it has none that can be read.
pub fn client_certificate_id(text: &str) -> Option<String> {
    let way = read(text, None).ok()?;
    let (data, _) = way.identity?;
    let certificates = certificates(&data)?;
    Some(Sha256Digest::of(certificates.first()?).to_string())
}

/// The current context of a kubeconfig alone, with its context, cluster and user named `name`, marked as ours.
/// Where a server is given, it takes the place of the one that the kubeconfig has.
pub fn rename(text: &str, name: &str, server: Option<&str>) -> Result<String, KubeconfigError> {
    let whole = parse(text)?;
    let (_, cluster, _, user) = parts(&whole, None)?;
    let mut cluster = cluster.clone();
    let mut user = user.clone();
    if let Some(server) = server {
        cluster.insert("server".into(), server.into());
    }
    let mut context = Map::new();
    context.insert("cluster".into(), name.into());
    context.insert("user".into(), name.into());
    for body in [&mut cluster, &mut context, &mut user] {
        mark(body);
    }
    Ok(write(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": cluster }],
        "contexts": [{ "name": name, "context": context }],
        "current-context": name,
        "users": [{ "name": name, "user": user }],
    })))
}

/// Puts the current context of `ours` into a user's kubeconfig under the name `context`, in the place of an older
/// one of ours. The user's current context stays, unless there is none.
pub fn merge(existing: Option<&str>, ours: &str, context: &str) -> Result<String, KubeconfigError> {
    let ours = parse(&rename(ours, context, None)?)?;
    let mut whole = match existing {
        Some(text) if !text.trim().is_empty() => parse(text)?,
        _ => return Ok(write(&Value::Object(ours))),
    };
    for (list, body, what) in LISTS {
        let mut entries = entries(&whole, list)?.to_vec();
        let new = self::entries(&ours, list)?.first().cloned();
        let new = new.unwrap_or_default();
        match entries.iter_mut().find(|entry| has_name(entry, context)) {
            Some(old) if is_marked(old.get(body)) => *old = new,
            Some(_) => {
                return Err(KubeconfigError::Taken {
                    what,
                    name: context.into(),
                });
            }
            None => entries.push(new),
        }
        whole.insert(list.into(), entries.into());
    }
    let current = whole.get("current-context").and_then(text_of);
    if current.is_none_or(|name| name.is_empty()) {
        whole.insert("current-context".into(), context.into());
    }
    for (field, value) in [("apiVersion", "v1"), ("kind", "Config")] {
        whole.entry(field).or_insert_with(|| value.into());
    }
    Ok(write(&Value::Object(whole)))
}

/// The discovery file of a join: the cluster's authority and endpoint, and the token as the user for the kubelet's
/// first certificate. With the authority in it, nobody waits for a signed `cluster-info`.
pub(crate) fn discovery(server: &str, authority_data: &str, token: &Secret) -> Secret {
    Secret::new(write(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "cluster",
            "cluster": { "certificate-authority-data": authority_data, "server": server },
        }],
        "contexts": [{ "name": "join", "context": { "cluster": "cluster", "user": "join" } }],
        "current-context": "join",
        "users": [{ "name": "join", "user": { "token": token.reveal() } }],
    })))
}

/// How much aliases may repeat: a few lines could stand for millions of values, and nobody writes such files by hand.
pub(crate) fn few_aliases() -> serde_saphyr::options::AliasLimits {
    serde_saphyr::alias_limits! {
        max_total_replayed_events: 2_000,
        max_replay_stack_depth: 8,
        max_alias_expansions_per_anchor: 200,
    }
}

fn parse(text: &str) -> Result<Map<String, Value>, KubeconfigError> {
    let options = serde_saphyr::options! {
        // A piece of the text in an error would be a piece of a key.
        with_snippet: false,
        // `name: yes` is a name.
        strict_booleans: true,
        alias_limits: few_aliases(),
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location();
        KubeconfigError::Yaml {
            line: place.map_or(0, |place| place.line()),
            column: place.map_or(0, |place| place.column()),
        }
    })?;
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(form("the document")),
    }
}

fn write(value: &Value) -> String {
    let options = serde_saphyr::ser_options! {
        // Certificates are one long line, as every other tool writes them.
        prefer_block_scalars: false,
    };
    // Writing fails for options and types that are not used here; JSON is YAML too.
    serde_saphyr::to_string_with_options(value, options).unwrap_or_else(|_| value.to_string())
}

fn form(place: impl Into<String>) -> KubeconfigError {
    KubeconfigError::Form {
        place: place.into(),
    }
}

/// The entries of one of the lists; `null` and nothing are an empty list, which kubectl writes.
fn entries<'a>(whole: &'a Map<String, Value>, list: &str) -> Result<&'a [Value], KubeconfigError> {
    match whole.get(list) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(entries)) if entries.iter().all(Value::is_object) => Ok(entries),
        Some(_) => Err(form(list)),
    }
}

fn has_name(entry: &Value, name: &str) -> bool {
    entry.get("name").and_then(text_of).as_deref() == Some(name)
}

/// Text, also where YAML takes it for a number.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn find<'a>(
    whole: &'a Map<String, Value>,
    index: usize,
    name: &str,
) -> Result<&'a Map<String, Value>, KubeconfigError> {
    let (list, body, what) = LISTS[index];
    let entry = entries(whole, list)?
        .iter()
        .find(|entry| has_name(entry, name));
    let missing = || KubeconfigError::Missing {
        what,
        name: name.into(),
    };
    let body_of = entry.ok_or_else(missing)?.get(body);
    body_of.and_then(Value::as_object).ok_or_else(missing)
}

type Parts<'a> = (
    String,
    &'a Map<String, Value>,
    String,
    &'a Map<String, Value>,
);

/// Cluster and user of a context, each with its name.
fn parts<'a>(
    whole: &'a Map<String, Value>,
    context: Option<&str>,
) -> Result<Parts<'a>, KubeconfigError> {
    let current = || whole.get("current-context").and_then(text_of);
    let name = context
        .map(str::to_owned)
        .or_else(current)
        .filter(|name| !name.is_empty())
        .ok_or(KubeconfigError::NoContext)?;
    let context = find(whole, 1, &name)?;
    let refer = |field: &'static str| {
        let lacks = || KubeconfigError::Lacks {
            what: "context",
            name: name.clone(),
            field,
        };
        context.get(field).and_then(text_of).ok_or_else(lacks)
    };
    let (cluster, user) = (refer("cluster")?, refer("user")?);
    let cluster_body = find(whole, 0, &cluster)?;
    let user_body = find(whole, 2, &user)?;
    Ok((cluster, cluster_body, user, user_body))
}

struct Fields<'a> {
    what: &'static str,
    name: &'a str,
    body: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn get(&self, field: &str) -> Option<String> {
        let text = self.body.get(field).and_then(text_of);
        text.filter(|text| !text.is_empty())
    }

    fn require(&self, field: &'static str) -> Result<String, KubeconfigError> {
        self.get(field).ok_or_else(|| self.lacks(field))
    }

    fn forbid(&self, fields: &[&'static str]) -> Result<(), KubeconfigError> {
        let is_there = |field: &&&'static str| {
            let value = self.body.get(**field);
            !matches!(value, None | Some(Value::Null | Value::Bool(false)))
        };
        match fields.iter().find(is_there) {
            None => Ok(()),
            Some(field) => Err(KubeconfigError::Outside {
                what: self.what,
                name: self.name.into(),
                field,
            }),
        }
    }

    fn lacks(&self, field: &'static str) -> KubeconfigError {
        KubeconfigError::Lacks {
            what: self.what,
            name: self.name.into(),
            field,
        }
    }

    fn should(&self, field: &'static str, should: &'static str) -> KubeconfigError {
        KubeconfigError::Value {
            what: self.what,
            name: self.name.into(),
            field,
            should,
        }
    }
}

/// The certificates, in DER, of base64 of PEM.
pub(crate) fn certificates(data: &str) -> Option<Vec<Vec<u8>>> {
    let ByteString(text) = serde_json::from_value(Value::from(data)).ok()?;
    let found: Vec<_> = pem::parse_many(text)
        .ok()?
        .into_iter()
        .filter(|block| block.tag() == "CERTIFICATE")
        .map(pem::Pem::into_contents)
        .collect();
    (!found.is_empty()).then_some(found)
}

fn mark(body: &mut Map<String, Value>) {
    let ours = json!({ "name": MARK, "extension": { "made-by": "mullion" } });
    match body.get_mut("extensions").and_then(Value::as_array_mut) {
        Some(extensions) => {
            extensions.retain(|extension| !has_name(extension, MARK));
            extensions.push(ours);
        }
        None => {
            body.insert("extensions".into(), json!([ours]));
        }
    }
}

fn is_marked(body: Option<&Value>) -> bool {
    let extensions = body.and_then(|body| body.get("extensions")?.as_array());
    extensions.is_some_and(|list| list.iter().any(|extension| has_name(extension, MARK)))
}

#[cfg(test)]
mod tests;
