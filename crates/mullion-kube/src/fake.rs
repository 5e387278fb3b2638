//! An API server in memory, for scenarios: it stores, lists, patches and deletes objects as a real one does, as far
//! as this crate can tell, and can be told to answer otherwise.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Map, Value, json};

use crate::Api;

/// One request that was made.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

#[derive(Debug)]
struct Scripted {
    method: Method,
    path: String,
    code: u16,
    body: Value,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// What each field manager applied last, by object.
    applied: BTreeMap<(String, String), Value>,
    scripted: VecDeque<Scripted>,
    made: Vec<Made>,
    version: u64,
    date: Option<String>,
    slow: BTreeSet<String>,
}

/// The API server in memory.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<State>>);

impl Fake {
    /// A blocking face over it.
    pub(crate) fn api(&self) -> Api {
        let fake = self.clone();
        Api::played(move || {
            let service = tower::service_fn(move |request| {
                let fake = fake.clone();
                async move { Ok::<_, Infallible>(fake.serve(request).await) }
            });
            kube::Client::new(service, "default")
        })
    }

    /// Puts an object there.
    pub(crate) fn put(&self, path: &str, mut object: Value) -> &Self {
        self.with(|state| {
            state.version += 1;
            let metadata = &mut object["metadata"];
            metadata["name"] = path.rsplit('/').next().into();
            metadata["uid"] = format!("uid-{}", state.version).into();
            metadata["resourceVersion"] = state.version.to_string().into();
            if let Some(rest) = path.split_once("/namespaces/").map(|(_, rest)| rest)
                && rest.contains('/')
            {
                metadata["namespace"] = rest.split('/').next().into();
            }
            state.objects.insert(path.into(), object);
        });
        self
    }

    /// What is at a path.
    pub(crate) fn at(&self, path: &str) -> Option<Value> {
        self.with(|state| state.objects.get(path).cloned())
    }

    /// Answers the next request of that kind otherwise.
    pub(crate) fn answer_once(
        &self,
        method: Method,
        path: &str,
        code: u16,
        message: &str,
    ) -> &Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": code, "message": message, "reason": "",
        });
        self.with(|state| {
            state.scripted.push_back(Scripted {
                method,
                path: path.into(),
                code,
                body,
            });
        });
        self
    }

    /// What time it says it is.
    pub(crate) fn set_date(&self, date: &str) {
        self.with(|state| state.date = Some(date.into()));
    }

    /// Lets whoever asks for a path wait.
    pub(crate) fn slow_down(&self, path: &str) {
        self.with(|state| {
            state.slow.insert(path.into());
        });
    }

    /// Every request that was made so far.
    pub(crate) fn made(&self) -> Vec<Made> {
        self.with(|state| state.made.clone())
    }

    /// The requests that change something, as lines.
    pub(crate) fn changes(&self) -> Vec<String> {
        let is_change = |made: &&Made| made.method != Method::GET;
        let made = self.made();
        let changes = made.iter().filter(is_change);
        changes
            .map(|made| format!("{} {}", made.method, made.path))
            .collect()
    }

    /// Everything that is there.
    pub(crate) fn objects(&self) -> BTreeMap<String, Value> {
        self.with(|state| state.objects.clone())
    }

    pub(crate) fn forget_requests(&self) {
        self.with(|state| state.made.clear());
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let bytes = body.collect_bytes().await.unwrap();
        let made = Made {
            method: head.method,
            path: head.uri.path().into(),
            query: decoded(head.uri.query().unwrap_or_default()),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        };
        let form = head.headers.get(http::header::CONTENT_TYPE);
        let is_apply =
            form.is_some_and(|form| form.as_bytes().starts_with(b"application/apply-patch"));
        let is_slow = self.with(|state| state.slow.contains(&made.path));
        if is_slow {
            tokio::time::sleep(std::time::Duration::from_mins(10)).await;
        }
        let (code, answer, date) = self.with(|state| {
            state.made.push(made.clone());
            let (code, answer) = state.answer(&made, is_apply);
            (code, answer, state.date.clone())
        });
        let mut response = Response::builder().status(code);
        if let Some(date) = date {
            response = response.header(http::header::DATE, date);
        }
        let text = match answer {
            Value::String(text) => text,
            other => other.to_string(),
        };
        response.body(Body::from(text.into_bytes())).unwrap()
    }
}

impl State {
    fn answer(&mut self, made: &Made, is_apply: bool) -> (u16, Value) {
        let position = self
            .scripted
            .iter()
            .position(|script| script.method == made.method && script.path == made.path);
        if let Some(script) = position.and_then(|position| self.scripted.remove(position)) {
            return (script.code, script.body);
        }
        let parent = made.path.trim_end_matches("/approval");
        match (made.method.as_str(), made.path.as_str()) {
            ("GET", "/readyz") => (200, "ok".into()),
            ("GET", "/version") => (200, version()),
            ("GET", path) => match self.objects.get(path) {
                Some(object) => (200, object.clone()),
                None if is_list(path) => (200, self.list(path, &made.query)),
                None => missing(path),
            },
            ("POST", path) if path.ends_with("/eviction") => self.evict(path, &made.body),
            ("POST", path) => self.create(path, &made.body),
            ("PATCH", _) if is_apply => self.apply(made),
            ("PATCH", _) => self.merge(parent, &made.body),
            ("DELETE", path) => match self.objects.remove(path) {
                Some(_) => (200, json!({"kind": "Status", "status": "Success"})),
                None => missing(path),
            },
            _ => (405, json!({"kind": "Status", "code": 405})),
        }
    }

    fn list(&self, path: &str, query: &str) -> Value {
        let (root, plural) = path.rsplit_once('/').unwrap();
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
                    let (key, value) = pair.split_once('=').unwrap();
                    object["metadata"]["labels"][key] == *value
                }),
                Some(("fieldSelector", wanted)) => {
                    let (field, value) = wanted.split_once('=').unwrap();
                    let pointer = format!("/{}", field.replace('.', "/"));
                    object
                        .pointer(&pointer)
                        .is_some_and(|found| *found == *value)
                }
                _ => true,
            })
        };
        let objects = self.objects.iter();
        let items: Vec<_> = objects
            .filter(|(at, object)| is_in(at) && selected(object))
            .map(|(_, object)| object.clone())
            .collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items})
    }

    fn create(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let at = format!("{path}/{name}");
        if self.objects.contains_key(&at) {
            return (
                409,
                json!({"kind": "Status", "code": 409, "reason": "AlreadyExists"}),
            );
        }
        let object = self.stamped(body.clone());
        self.objects.insert(at, object.clone());
        (201, object)
    }

    fn evict(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let pod = path.trim_end_matches("/eviction");
        let Some(found) = self.objects.get(pod) else {
            return missing(pod);
        };
        let wanted = &body["deleteOptions"]["preconditions"]["uid"];
        if *wanted != found["metadata"]["uid"] {
            return (
                409,
                json!({"kind": "Status", "code": 409, "reason": "Conflict"}),
            );
        }
        self.objects.remove(pod);
        (201, json!({"kind": "Status", "status": "Success"}))
    }

    fn merge(&mut self, path: &str, change: &Value) -> (u16, Value) {
        let Some(found) = self.objects.get(path) else {
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
        self.objects.insert(path.into(), object.clone());
        (200, object)
    }

    /// Server-side apply, for maps: what a manager no longer names and no other one does goes away.
    fn apply(&mut self, made: &Made) -> (u16, Value) {
        let manager = made
            .query
            .split('&')
            .find_map(|part| part.strip_prefix("fieldManager="));
        if made.query.split('&').any(|part| part == "dryRun=All") {
            return self.dry_run(made);
        }
        let key = (made.path.clone(), manager.unwrap().to_owned());
        let before = self.applied.insert(key, made.body.clone());
        let mut object = self.objects.get(&made.path).cloned().unwrap_or_default();
        if let Some(before) = before {
            let owned: Vec<_> = self
                .applied
                .iter()
                .filter(|((path, _), _)| *path == made.path)
                .map(|(_, body)| body.clone())
                .collect();
            drop_unnamed(&mut object, &before, &owned);
        }
        merge_into(&mut object, &made.body);
        let object = self.stamped(object);
        self.objects.insert(made.path.clone(), object.clone());
        (200, object)
    }

    /// Answers as [`State::apply`] does, and keeps nothing.
    fn dry_run(&mut self, made: &Made) -> (u16, Value) {
        let kept = (self.objects.clone(), self.applied.clone(), self.version);
        let mut real = made.clone();
        real.query = made.query.replace("dryRun=All", "");
        let answer = self.apply(&real);
        (self.objects, self.applied, self.version) = kept;
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
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let object = object.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            merge_into(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
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
fn decoded(query: &str) -> String {
    let mut bytes = query.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap();
                plain.push(u8::from_str_radix(digits, 16).unwrap());
            }
            b'+' => plain.push(b' '),
            byte => plain.push(byte),
        }
    }
    String::from_utf8(plain).unwrap()
}
