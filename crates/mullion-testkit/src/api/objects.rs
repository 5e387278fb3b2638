//! The objects of an API server in memory: stored, listed, patched and deleted as a real one does, as far as our clients
//! can tell.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The method: `GET`.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, as people read it: see [`decoded`].
    pub query: String,
    /// The body; null where there is none, or where it is not JSON.
    pub body: Value,
    /// Whether the body is a server-side apply.
    pub is_apply: bool,
}

/// The objects, by their paths.
#[derive(Debug, Default)]
pub struct Objects {
    by_path: BTreeMap<String, Value>,
    /// What each field manager applied last, by object.
    applied: BTreeMap<(String, String), Value>,
    version: u64,
}

impl Objects {
    /// Puts an object there.
    pub fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = path.rsplit('/').next().into();
        metadata["uid"] = format!("uid-{}", self.version).into();
        metadata["resourceVersion"] = self.version.to_string().into();
        if let Some(rest) = path.split_once("/namespaces/").map(|(_, rest)| rest)
            && rest.contains('/')
        {
            metadata["namespace"] = rest.split('/').next().into();
        }
        self.by_path.insert(path.into(), object);
    }

    /// What is at a path.
    pub fn at(&self, path: &str) -> Option<&Value> {
        self.by_path.get(path)
    }

    /// Everything that is there.
    pub fn all(&self) -> &BTreeMap<String, Value> {
        &self.by_path
    }

    /// The status and the body that a request is answered with. A text is sent as it is, anything else as JSON.
    pub fn answer(&mut self, asked: &Asked) -> (u16, Value) {
        let parent = asked.path.trim_end_matches("/approval");
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/readyz") => (200, "ok".into()),
            ("GET", "/version") => (200, version()),
            ("GET", path) => match self.by_path.get(path) {
                Some(object) => (200, object.clone()),
                None if is_list(path) => (200, self.list(path, &asked.query)),
                None => missing(path),
            },
            ("POST", path) if path.ends_with("/eviction") => self.evict(path, &asked.body),
            ("POST", path) => self.create(path, &asked.body),
            ("PATCH", _) if asked.is_apply => self.apply(asked),
            ("PATCH", _) => self.merge(parent, &asked.body),
            ("DELETE", path) => match self.by_path.remove(path) {
                Some(_) => (200, json!({"kind": "Status", "status": "Success"})),
                None => missing(path),
            },
            _ => (405, json!({"kind": "Status", "code": 405})),
        }
    }

    fn list(&self, path: &str, query: &str) -> Value {
        let (root, plural) = path.rsplit_once('/').unwrap_or_default();
        let is_in = |at: &str| {
            let Some((folder, _)) = at.rsplit_once('/') else {
                return false;
            };
            // `/api/v1/pods` is all of `/api/v1/namespaces/*/pods`.
            let is_anywhere = folder.starts_with(&format!("{root}/namespaces/"))
                && folder.ends_with(&format!("/{plural}"));
            folder == path || is_anywhere
        };
        let selected = |object: &Value| {
            query.split('&').all(|part| match part.split_once('=') {
                Some(("labelSelector", wanted)) => wanted.split(',').all(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or_default();
                    object["metadata"]["labels"][key] == *value
                }),
                Some(("fieldSelector", wanted)) => {
                    let (field, value) = wanted.split_once('=').unwrap_or_default();
                    let pointer = format!("/{}", field.replace('.', "/"));
                    object
                        .pointer(&pointer)
                        .is_some_and(|found| *found == *value)
                }
                _ => true,
            })
        };
        let objects = self.by_path.iter();
        let items: Vec<_> = objects
            .filter(|(at, object)| is_in(at) && selected(object))
            .map(|(_, object)| object.clone())
            .collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})
    }

    fn create(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let at = format!("{path}/{name}");
        if self.by_path.contains_key(&at) {
            return (
                409,
                json!({"kind": "Status", "code": 409, "reason": "AlreadyExists"}),
            );
        }
        let object = self.stamped(body.clone());
        self.by_path.insert(at, object.clone());
        (201, object)
    }

    fn evict(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let pod = path.trim_end_matches("/eviction");
        let Some(found) = self.by_path.get(pod) else {
            return missing(pod);
        };
        let wanted = &body["deleteOptions"]["preconditions"]["uid"];
        if *wanted != found["metadata"]["uid"] {
            return (
                409,
                json!({"kind": "Status", "code": 409, "reason": "Conflict"}),
            );
        }
        self.by_path.remove(pod);
        (201, json!({"kind": "Status", "status": "Success"}))
    }

    fn merge(&mut self, path: &str, change: &Value) -> (u16, Value) {
        let Some(found) = self.by_path.get(path) else {
            return missing(path);
        };
        let mut object = found.clone();
        let wanted = &change["metadata"]["resourceVersion"];
        if !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"] {
            return (
                409,
                json!({"kind": "Status", "code": 409, "reason": "Conflict"}),
            );
        }
        merge_into(&mut object, change);
        let object = self.stamped(object);
        self.by_path.insert(path.into(), object.clone());
        (200, object)
    }

    /// Server-side apply, for maps: what a manager no longer names and no other one does goes away.
    fn apply(&mut self, asked: &Asked) -> (u16, Value) {
        let manager = asked
            .query
            .split('&')
            .find_map(|part| part.strip_prefix("fieldManager="));
        if asked.query.split('&').any(|part| part == "dryRun=All") {
            return self.dry_run(asked);
        }
        let Some(manager) = manager else {
            let message = "an apply names its field manager";
            return (
                400,
                json!({"kind": "Status", "code": 400, "message": message}),
            );
        };
        let key = (asked.path.clone(), manager.to_owned());
        let before = self.applied.insert(key, asked.body.clone());
        let mut object = self.by_path.get(&asked.path).cloned().unwrap_or_default();
        if let Some(before) = before {
            let owned: Vec<_> = self
                .applied
                .iter()
                .filter(|((path, _), _)| *path == asked.path)
                .map(|(_, body)| body.clone())
                .collect();
            drop_unnamed(&mut object, &before, &owned);
        }
        merge_into(&mut object, &asked.body);
        let object = self.stamped(object);
        self.by_path.insert(asked.path.clone(), object.clone());
        (200, object)
    }

    /// Answers as [`Objects::apply`] does, and keeps nothing.
    fn dry_run(&mut self, asked: &Asked) -> (u16, Value) {
        let kept = (self.by_path.clone(), self.applied.clone(), self.version);
        let mut real = asked.clone();
        real.query = asked.query.replace("dryRun=All", "");
        let answer = self.apply(&real);
        (self.by_path, self.applied, self.version) = kept;
        answer
    }

    fn stamped(&mut self, mut object: Value) -> Value {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.version.to_string().into();
        if metadata["uid"].is_null() {
            metadata["uid"] = format!("uid-{}", self.version).into();
        }
        object
    }
}

fn drop_unnamed(object: &mut Value, before: &Value, owned: &[Value]) {
    let (Value::Object(object), Value::Object(before)) = (object, before) else {
        return;
    };
    for (key, old) in before {
        let owners: Vec<_> = owned
            .iter()
            .filter_map(|body| body.get(key))
            .cloned()
            .collect();
        if owners.is_empty() {
            object.remove(key);
        } else if let Some(inner) = object.get_mut(key) {
            drop_unnamed(inner, old, &owners);
        }
    }
}

fn merge_into(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    let mut merged = match object.take() {
        Value::Object(there) => there,
        _ => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            merged.remove(key);
        } else {
            merge_into(merged.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
    *object = Value::Object(merged);
}

/// Whether a path is a list's: its last part is a plural.
fn is_list(path: &str) -> bool {
    const PLURALS: [&str; 5] = [
        "nodes",
        "pods",
        "secrets",
        "configmaps",
        "certificatesigningrequests",
    ];
    PLURALS.iter().any(|plural| path.ends_with(plural))
}

fn missing(path: &str) -> (u16, Value) {
    let message = format!("{path} not found");
    let body = json!({
        "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": message,
    });
    (404, body)
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.4", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

/// A query as people read it.
pub fn decoded(query: &str) -> String {
    let mut bytes = query.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next(), bytes.next()].map(Option::unwrap_or_default);
                let number = std::str::from_utf8(&digits).ok();
                plain.extend(number.and_then(|number| u8::from_str_radix(number, 16).ok()));
            }
            b'+' => plain.push(b' '),
            byte => plain.push(byte),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}
