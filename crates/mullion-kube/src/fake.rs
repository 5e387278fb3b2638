//! An API server in memory, for scenarios: it keeps objects as [`Objects`] does, and can be told to answer otherwise.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::client::Body;
use mullion_testkit::api::{Asked, Objects, decoded};
use serde_json::{Value, json};

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
    objects: Objects,
    scripted: VecDeque<Scripted>,
    made: Vec<Made>,
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
    pub(crate) fn put(&self, path: &str, object: Value) -> &Self {
        self.with(|state| state.objects.put(path, object));
        self
    }

    /// What is at a path.
    pub(crate) fn at(&self, path: &str) -> Option<Value> {
        self.with(|state| state.objects.at(path).cloned())
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
        self.with(|state| state.objects.all().clone())
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
        self.objects.answer(&Asked {
            method: made.method.to_string(),
            path: made.path.clone(),
            query: made.query.clone(),
            body: made.body.clone(),
            is_apply,
        })
    }
}
