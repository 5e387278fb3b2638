//! One connection to an API server, and how everything is asked over it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::Api as Objects;
use kube::{Client, Config};
use mullion_wire::text::without_controls;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::error::{Cause, KubeError};
use crate::look::Look;

/// How long any one request may take. The engine decides about trying again, so this is not long.
const PATIENCE: Duration = Duration::from_secs(15);

/// How many requests are under way at once: each has a connection of its own.
const WIDTH: usize = 16;

/// A cheap handle, copied into every task.
#[derive(Clone)]
pub(crate) struct Session {
    client: Client,
    /// How the client was made, for making one to another server of the same cluster.
    config: Option<Arc<Config>>,
}

impl Session {
    /// Connects when first used. Must be called inside the runtime.
    pub(crate) fn new(config: Config) -> Result<Self, KubeError> {
        Ok(Self {
            client: client(config.clone())?,
            config: Some(Arc::new(config)),
        })
    }

    /// A session over something that answers like an API server.
    #[cfg(test)]
    pub(crate) fn over(client: Client) -> Self {
        Self {
            client,
            config: None,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Objects that are in no namespace.
    pub(crate) fn all<K>(&self) -> Objects<K>
    where
        K: kube::Resource<Scope = ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Objects::all(self.client())
    }

    /// Objects of one namespace.
    pub(crate) fn within<K>(&self, namespace: &str) -> Objects<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Objects::namespaced(self.client(), namespace)
    }

    /// Waits for an answer, and no longer than for [`PATIENCE`]. The words complete "cannot …".
    pub(crate) async fn ask<T>(
        &self,
        doing: impl Into<String> + Send,
        request: impl Future<Output = kube::Result<T>> + Send,
    ) -> Result<T, KubeError> {
        match timeout(PATIENCE, request).await {
            Ok(answer) => answer.map_err(|error| KubeError::new(doing, error)),
            Err(_) => Err(KubeError::late(doing, PATIENCE)),
        }
    }

    /// A session to another server whose certificate the same authority signed.
    pub(crate) fn at(&self, server: &str, credentials: Credentials) -> Result<Self, KubeError> {
        let prepare = |cause| KubeError::Prepare {
            server: server.into(),
            cause,
        };
        let known = self
            .config
            .as_deref()
            .ok_or_else(|| prepare(Cause::words("the authority is not known")))?;
        let mut config = known.clone();
        config.cluster_url = server
            .parse()
            .map_err(|error: http::uri::InvalidUri| prepare(Cause::of(&error)))?;
        config.tls_server_name = None;
        if credentials == Credentials::Kept {
            config.auth_info = kube::config::AuthInfo::default();
        }
        Self::new(config)
    }

    /// Whether the API server says that it is ready.
    pub(crate) async fn readiness(&self, patience: Duration) -> Look {
        let request = async {
            let request = http::Request::get("/readyz")
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?;
            self.client.request_text(request).await
        };
        match timeout(patience, request).await {
            Ok(Ok(_)) => Look::So(()),
            Ok(Err(kube::Error::Api(status))) => Look::not_yet(failed_checks(&status.message)),
            Ok(Err(error)) => Look::not_yet(KubeError::new("reach it", error).in_one_line()),
            Err(_) => Look::not_yet(KubeError::late("reach it", patience).in_one_line()),
        }
    }

    /// What time it is by the API server's clock, which is what decides about expiry; by ours where it does not say.
    pub(crate) async fn clock(&self) -> Result<Timestamp, KubeError> {
        let response = self
            .ask("ask for the time", async {
                let request = http::Request::get("/version")
                    .body(kube::client::Body::empty())
                    .map_err(kube::Error::HttpError)?;
                self.client.send(request).await
            })
            .await?;
        let said = response.headers().get(http::header::DATE);
        let read = said.and_then(|date| {
            let parser = jiff::fmt::rfc2822::DateTimeParser::new();
            parser.parse_timestamp(date.to_str().ok()?).ok()
        });
        Ok(read.unwrap_or_else(Timestamp::now))
    }
}

/// Whether our credentials are shown to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// They are.
    Shown,
    /// They are kept: the server need not know who asks.
    Kept,
}

fn client(config: Config) -> Result<Client, KubeError> {
    let server = config.cluster_url.to_string();
    Client::try_from(config).map_err(|error| KubeError::Prepare {
        server,
        cause: Cause::of(&error),
    })
}

/// The lines of a readiness report that say what is not ready: `[-]etcd failed: reason withheld`.
fn failed_checks(report: &str) -> String {
    let failed: Vec<_> = report
        .lines()
        .filter_map(|line| line.strip_prefix("[-]"))
        .map(|line| line.split(' ').next().unwrap_or(line))
        .collect();
    if failed.is_empty() {
        format!("it says: {}", first_line(report))
    } else {
        format!("it is not ready: {}", failed.join(", "))
    }
}

/// The first line of a text, and not too much of it.
pub(crate) fn first_line(text: &str) -> String {
    const MOST: usize = 240;
    let text = without_controls(text);
    let line = text.lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into(),
    }
}

/// Runs them side by side, not too many at once, and gives their results in the order they were given.
pub(crate) async fn side_by_side<T, F>(futures: impl IntoIterator<Item = F>) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let turns = Arc::new(Semaphore::new(WIDTH));
    let mut tasks = JoinSet::new();
    for (index, future) in futures.into_iter().enumerate() {
        let turns = Arc::clone(&turns);
        tasks.spawn(async move {
            // Never closed, so a turn always comes.
            let _turn = turns.acquire().await;
            (index, future.await)
        });
    }
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(result) => results.push(result),
            Err(failure) => {
                if let Ok(panic) = failure.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readiness_report_is_told_by_what_failed() {
        let report = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\n\
                      [-]poststarthook/rbac/bootstrap-roles failed: reason withheld\nreadyz check failed";
        assert_eq!(
            failed_checks(report),
            "it is not ready: etcd, poststarthook/rbac/bootstrap-roles"
        );
        assert_eq!(failed_checks("no\nmore"), "it says: no");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(first_line("  a \nb"), "a");
        assert_eq!(first_line(&"ä".repeat(300)).chars().count(), 241);
    }

    #[test]
    fn results_come_in_the_order_of_what_was_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let slow_first = (0..40_u64).map(|number| async move {
            tokio::time::sleep(Duration::from_millis(40 - number)).await;
            number
        });
        let results = runtime.block_on(side_by_side(slow_first));
        assert_eq!(results, (0..40).collect::<Vec<_>>());
    }
}
