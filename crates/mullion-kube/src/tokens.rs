//! Bootstrap tokens: what a machine joins with. They live minutes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret as Stored;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, PostParams};
use mullion_wire::Secret;
use serde_json::json;

use crate::error::KubeError;
use crate::keys::{SYSTEM, TOKEN_DESCRIPTION};
use crate::kubeconfig;
use crate::session::{Session, side_by_side};

const PREFIX: &str = "bootstrap-token-";
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The group that kubeadm lets nodes join by.
const GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
/// What kubeadm uploads for further control planes.
const UPLOADED: &str = "kubeadm-certs";

const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// What a machine joins with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinToken {
    /// The public half, by which it is deleted.
    pub id: String,
    /// The whole token.
    pub token: Secret,
    /// The discovery file: authority, endpoint, and the token as its user.
    pub discovery: Secret,
    /// When it ends by itself, by the API server's clock.
    pub expires: Timestamp,
}

/// Both halves of a token.
struct Halves {
    id: String,
    secret: String,
}

impl Halves {
    fn random() -> Result<Self, KubeError> {
        Ok(Self {
            id: letters(6)?,
            secret: letters(16)?,
        })
    }

    fn whole(&self) -> Secret {
        Secret::new(format!("{}.{}", self.id, self.secret))
    }
}

/// A token that nobody knows yet, for whoever has to name one before there is an API server.
pub fn random_token() -> Result<Secret, KubeError> {
    Halves::random().map(|halves| halves.whole())
}

/// Letters and digits, each as likely as any other.
fn letters(count: usize) -> Result<String, KubeError> {
    let mut text = String::with_capacity(count);
    let mut bytes = [0_u8; 32];
    while text.len() < count {
        getrandom::fill(&mut bytes).map_err(KubeError::Random)?;
        // The highest bytes would make the first letters likelier.
        let fair = 256 - 256 % LETTERS.len();
        let fair = bytes
            .iter()
            .map(|byte| usize::from(*byte))
            .filter(|byte| *byte < fair);
        let missing = count - text.len();
        text.extend(
            fair.take(missing)
                .map(|byte| char::from(LETTERS[byte % LETTERS.len()])),
        );
    }
    Ok(text)
}

impl Session {
    pub(crate) async fn create_join_token(
        &self,
        endpoint: &str,
        authority_data: &str,
        lifetime: Duration,
    ) -> Result<JoinToken, KubeError> {
        let halves = Halves::random()?;
        let expires = expiry(self.clock().await?, lifetime);
        let stored = stored(&halves, expires);
        let secrets = self.within::<Stored>(SYSTEM);
        let parameters = PostParams::default();
        self.ask("create a join token", secrets.create(&parameters, &stored))
            .await?;
        let token = halves.whole();
        let server = format!("https://{endpoint}");
        Ok(JoinToken {
            discovery: kubeconfig::discovery(&server, authority_data, &token),
            id: halves.id,
            token,
            expires,
        })
    }

    pub(crate) async fn delete_token(&self, id: &str) -> Result<(), KubeError> {
        self.delete_secret(format!("{PREFIX}{id}")).await
    }

    /// Gives how many were deleted.
    pub(crate) async fn sweep_tokens(&self) -> Result<usize, KubeError> {
        let secrets = self.within::<Stored>(SYSTEM);
        let tokens = ListParams::default().fields(&format!("type={TYPE}"));
        let found = self.ask("list join tokens", secrets.list(&tokens)).await?;
        let ours = found.items.iter().filter(|secret| is_ours(secret));
        let requests = ours.map(|secret| {
            let session = self.clone();
            let name = secret.name_any();
            async move { session.delete_secret(name).await }
        });
        let deleted = side_by_side(requests).await;
        let count = deleted.len();
        deleted.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(count)
    }

    pub(crate) async fn has_uploaded_certs(&self) -> Result<bool, KubeError> {
        let secrets = self.within::<Stored>(SYSTEM);
        // Only whether it is there: nobody here needs what is in it.
        let request = secrets.get_metadata_opt(UPLOADED);
        let found = self.ask("look for uploaded certificates", request).await?;
        Ok(found.is_some())
    }

    async fn delete_secret(&self, name: String) -> Result<(), KubeError> {
        let secrets = self.within::<Stored>(SYSTEM);
        let parameters = DeleteParams::default();
        let request = secrets.delete(&name, &parameters);
        match self.ask("delete a join token", request).await {
            Err(error) if error.code() == Some(404) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

/// When a token ends, in whole seconds: Kubernetes reads no others.
fn expiry(now: Timestamp, lifetime: Duration) -> Timestamp {
    let seconds = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
    let end = now.as_second().saturating_add(seconds);
    Timestamp::from_second(end).unwrap_or(Timestamp::MAX)
}

fn stored(halves: &Halves, expires: Timestamp) -> Stored {
    let data = json!({
        "description": TOKEN_DESCRIPTION,
        "token-id": halves.id,
        "token-secret": halves.secret,
        "expiration": expires.to_string(),
        // Not signing: the discovery file holds the cluster's authority, so no one checks a signature of `cluster-info`.
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": GROUP,
    });
    Stored {
        metadata: kube::core::ObjectMeta {
            name: Some(format!("{PREFIX}{}", halves.id)),
            namespace: Some(SYSTEM.into()),
            ..kube::core::ObjectMeta::default()
        },
        type_: Some(TYPE.into()),
        string_data: serde_json::from_value(data).ok(),
        ..Stored::default()
    }
}

fn is_ours(secret: &Stored) -> bool {
    let description = secret
        .data
        .as_ref()
        .and_then(|data| data.get("description"));
    secret.type_.as_deref() == Some(TYPE)
        && description.is_some_and(|text| text.0 == TOKEN_DESCRIPTION.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tokens_have_the_form_that_kubernetes_wants_and_are_not_guessed() {
        let tokens: BTreeSet<_> = (0..200)
            .map(|_| {
                let halves = Halves::random().unwrap();
                assert_eq!((halves.id.len(), halves.secret.len()), (6, 16));
                let whole = halves.whole();
                let letters = whole.reveal().replace('.', "");
                assert!(letters.bytes().all(|byte| LETTERS.contains(&byte)));
                whole.reveal().to_owned()
            })
            .collect();
        assert_eq!(tokens.len(), 200);
        let used: BTreeSet<_> = tokens.iter().flat_map(|token| token.chars()).collect();
        assert_eq!(used.len(), LETTERS.len() + 1, "every letter, and the dot");
    }

    #[test]
    fn expiry_is_in_whole_seconds_and_never_overflows() {
        let now: Timestamp = "2026-11-15T09:00:00.75Z".parse().unwrap();
        let end = expiry(now, Duration::from_mins(10));
        assert_eq!(end.to_string(), "2026-11-15T09:10:00Z");
        assert_eq!(expiry(now, Duration::MAX), Timestamp::MAX);
    }
}
