//! A connection: made, proven on both sides, perhaps through another one.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use russh::client::{self, AuthResult, Config, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg};
use russh::{ChannelOpenFailure, Error, Preferred, cipher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Engine;
use super::guard::{Guard, Seen, in_words};
use super::stream::prompt;
use crate::error::{Cause, TransportError};
use crate::keys::{Pin, fingerprint_of, line_of, private_key};
use crate::limits;
use crate::login::{Key, Login};

/// A connection that stands, with its user logged in.
pub(crate) struct Link {
    pub(super) handle: Handle<Guard>,
    seen: Arc<Seen>,
    /// The connection that this one goes through stays as long as this one.
    _through: Option<Arc<Link>>,
}

impl Link {
    /// Whether it still stands, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.handle.is_closed()
    }

    /// Why it ended.
    pub(super) fn ended(&self) -> Cause {
        self.seen.ended()
    }
}

/// Makes a connection and logs in.
pub(super) async fn connect(engine: &Engine, login: &Login) -> Result<Arc<Link>, TransportError> {
    let bad = || TransportError::BadHostKey {
        place: login.place(),
        text: login.host_key.clone().unwrap_or_default(),
    };
    let pin = Pin::read(login.host_key.as_deref()).ok_or_else(bad)?;
    // Read before anybody is called: a key that cannot be used is the same with every machine.
    let key = match pin {
        Pin::Nothing => None,
        _ => private_key(&login.key)?.map(Arc::new),
    };
    let mut refusal = None;
    for kinds in pin.kinds() {
        match shake_hands(engine, login, &pin, kinds).await {
            Ok(mut link) => {
                let time = limits::AUTHENTICATE;
                within(
                    login,
                    time,
                    "logging in",
                    authenticate(&mut link, login, key),
                )
                .await??;
                return Ok(Arc::new(link));
            }
            // For a fingerprint: a key of another kind may be the one that is meant, and not every server has a key
            // of every kind.
            Err(error @ TransportError::HostKey { .. }) => refusal = Some(error),
            Err(error @ TransportError::Protocol { .. }) if refusal.is_some() => drop(error),
            Err(error @ TransportError::Protocol { .. }) if matches!(pin, Pin::Fingerprint(_)) => {
                refusal = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    // There is always a kind to try, so there is always a refusal here.
    Err(refusal.unwrap_or_else(|| unreachable(login, "no way to connect")))
}

/// Connects, and compares the host key.
async fn shake_hands(
    engine: &Engine,
    login: &Login,
    pin: &Pin,
    kinds: Vec<Algorithm>,
) -> Result<Link, TransportError> {
    let config = Arc::new(config(kinds));
    let seen = Arc::<Seen>::default();
    let guard = Guard {
        pin: pin.clone(),
        seen: seen.clone(),
    };
    let (shaken, through) = match &login.jump {
        None => {
            let stream = dial(login).await?;
            (greet(login, config, stream, guard).await?, None)
        }
        Some(jump) => {
            let through = engine
                .jump(jump)
                .await
                .map_err(|error| TransportError::Jump {
                    place: login.place(),
                    via: jump.place(),
                    source: Box::new(error),
                })?;
            let stream = tunnel(login, jump, &through).await?;
            (greet(login, config, stream, guard).await?, Some(through))
        }
    };
    match shaken {
        Ok(handle) => Ok(Link {
            handle,
            seen,
            _through: through,
        }),
        Err(error) => Err(refused(login, pin, &seen, &error)),
    }
}

async fn greet<S>(
    login: &Login,
    config: Arc<Config>,
    stream: S,
    guard: Guard,
) -> Result<Result<Handle<Guard>, Error>, TransportError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let greeting = client::connect_stream(config, stream, guard);
    within(login, limits::HANDSHAKE, "exchanging keys", greeting).await
}

async fn dial(
    login: &Login,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, TransportError> {
    let address = (login.address.as_str(), login.port);
    let stream = within(
        login,
        limits::CONNECT,
        "connecting",
        TcpStream::connect(address),
    )
    .await?
    .map_err(|error| unreachable(login, error.to_string()))?;
    Ok(prompt(stream))
}

async fn tunnel(
    login: &Login,
    jump: &Login,
    through: &Link,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, TransportError> {
    let opening = through.handle.channel_open_direct_tcpip(
        login.address.as_str(),
        login.port.into(),
        "127.0.0.1",
        0,
    );
    match within(login, limits::CONNECT, "connecting", opening).await? {
        Ok(channel) => Ok(channel.into_stream()),
        Err(Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed)) => Err(unreachable(
            login,
            format!("{} cannot connect to it", jump.place()),
        )),
        Err(Error::ChannelOpenFailure(reason)) => Err(TransportError::NoForwarding {
            place: login.place(),
            via: jump.place(),
            source: Cause::new(format!("{reason:?}")),
        }),
        Err(_) => Err(TransportError::Jump {
            place: login.place(),
            via: jump.place(),
            source: Box::new(TransportError::Unreachable {
                place: jump.place(),
                source: through.ended(),
            }),
        }),
    }
}

fn config(kinds: Vec<Algorithm>) -> Config {
    Config {
        window_size: limits::WINDOW,
        maximum_packet_size: limits::PACKET,
        channel_buffer_size: limits::QUEUE,
        inactivity_timeout: Some(limits::STANDSTILL),
        keepalive_interval: Some(limits::KEEPALIVE_EVERY),
        keepalive_max: limits::KEEPALIVE_MISSES,
        nodelay: true,
        preferred: Preferred {
            key: Cow::Owned(kinds),
            // AES is done by the processor itself nearly everywhere, and is several times faster then.
            cipher: Cow::Borrowed(&[
                cipher::AES_256_GCM,
                cipher::CHACHA20_POLY1305,
                cipher::AES_256_CTR,
                cipher::AES_192_CTR,
                cipher::AES_128_CTR,
            ]),
            ..Preferred::DEFAULT
        },
        ..Config::default()
    }
}

/// Why no connection came to be.
fn refused(login: &Login, pin: &Pin, seen: &Seen, error: &Error) -> TransportError {
    let place = login.place();
    if let (Error::UnknownKey, Some(offered)) = (error, seen.offered()) {
        return match pin.fingerprint() {
            Some(expected) => TransportError::HostKey {
                place,
                expected,
                found: fingerprint_of(&offered),
                offered: line_of(&offered),
            },
            None => TransportError::UnknownHost {
                place,
                fingerprint: fingerprint_of(&offered),
                offered: line_of(&offered),
            },
        };
    }
    match error {
        Error::Disconnect
        | Error::HUP
        | Error::IO(_)
        | Error::SendError
        | Error::RecvError
        | Error::ConnectionTimeout
        | Error::KeepaliveTimeout
        | Error::InactivityTimeout => unreachable(login, in_words(error)),
        error => TransportError::Protocol {
            place,
            source: Cause::new(in_words(error)),
        },
    }
}

async fn authenticate(
    link: &mut Link,
    login: &Login,
    key: Option<Arc<PrivateKey>>,
) -> Result<(), TransportError> {
    let result = match (key, &login.key) {
        (Some(key), _) => {
            let hash = hash_for(link, key.algorithm()).await;
            let key = PrivateKeyWithHashAlg::new(key, hash);
            let answer = link
                .handle
                .authenticate_publickey(login.user.as_str(), key)
                .await;
            answer.map_err(|error| denied(link, login, in_words(&error)))?
        }
        (None, Key::Agent { socket }) => {
            return authenticate_by_agent(link, login, socket).await;
        }
        // Not reached: a key is read before anybody is called, unless nobody may be let in anyway.
        (None, Key::File(_) | Key::Pem(_)) => return Err(unreachable(login, "no key was read")),
    };
    judge(link, login, &result)
}

/// Whether the server let us in.
fn judge(link: &Link, login: &Login, result: &AuthResult) -> Result<(), TransportError> {
    match result {
        AuthResult::Success => Ok(()),
        AuthResult::Failure {
            remaining_methods,
            partial_success,
        } => {
            if remaining_methods.is_empty() && !link.is_open() {
                return Err(denied(link, login, link.ended().to_string()));
            }
            let methods: Vec<&str> = remaining_methods.iter().map(Into::into).collect();
            let methods = methods.join(", ");
            Err(denied(
                link,
                login,
                if *partial_success {
                    format!("the key is not enough; it also wants: {methods}")
                } else {
                    format!("it accepts: {methods}")
                },
            ))
        }
    }
}

async fn authenticate_by_agent(
    link: &mut Link,
    login: &Login,
    socket: &std::path::Path,
) -> Result<(), TransportError> {
    let failed = |error: String| TransportError::Agent {
        socket: socket.to_owned(),
        source: Cause::new(error),
    };
    #[cfg(unix)]
    let agent = AgentClient::connect_uds(socket).await;
    #[cfg(windows)]
    let agent = AgentClient::connect_named_pipe(socket).await;
    let mut agent = agent.map_err(|error| failed(error.to_string()))?;
    if let Some(binding) = link.handle.agent_session_binding() {
        // Only agents that tie keys to machines want it; others say that they do not know it.
        let _ = agent.bind_session(binding, false).await;
    }
    let identities = agent
        .request_identities()
        .await
        .map_err(|error| failed(error.to_string()))?;
    let mut refusal = TransportError::AgentEmpty {
        socket: socket.to_owned(),
    };
    for identity in identities {
        let algorithm = identity.public_key().algorithm();
        let hash = hash_for(link, algorithm).await;
        let user = login.user.as_str();
        let answer = match identity {
            AgentIdentity::PublicKey { key, .. } => {
                link.handle
                    .authenticate_publickey_with(user, key, hash, &mut agent)
                    .await
            }
            AgentIdentity::Certificate { certificate, .. } => {
                link.handle
                    .authenticate_certificate_with(user, certificate, hash, &mut agent)
                    .await
            }
        };
        refusal = match answer {
            Ok(result) => match judge(link, login, &result) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            // The agent would not sign with this one: the next may do.
            Err(error) => denied(link, login, error.to_string()),
        };
        if !link.is_open() {
            break;
        }
    }
    Err(refusal)
}

/// The hash to sign with: only RSA keys leave a choice.
async fn hash_for(link: &Link, algorithm: Algorithm) -> Option<HashAlg> {
    if !matches!(algorithm, Algorithm::Rsa { .. }) {
        return None;
    }
    match link.handle.best_supported_rsa_hash().await {
        Ok(Some(Some(hash))) => Some(hash),
        // Servers that do not say it are at least ten years old, or do know it.
        _ => Some(HashAlg::Sha512),
    }
}

/// A refusal. A connection that ended meanwhile is none, unless the server said so ("Too many authentication
/// failures").
fn denied(link: &Link, login: &Login, said: impl Into<String>) -> TransportError {
    let said = said.into();
    if link.is_open() || said.contains("authentication") {
        TransportError::Denied {
            place: login.place(),
            key: login.key.to_string(),
            source: Cause::new(said),
        }
    } else {
        TransportError::Unreachable {
            place: login.place(),
            source: link.ended(),
        }
    }
}

fn unreachable(login: &Login, why: impl Into<String>) -> TransportError {
    TransportError::Unreachable {
        place: login.place(),
        source: Cause::new(why),
    }
}

async fn within<F: Future>(
    login: &Login,
    time: Duration,
    doing: &'static str,
    future: F,
) -> Result<F::Output, TransportError> {
    timeout(time, future)
        .await
        .map_err(|_| TransportError::TimedOut {
            place: login.place(),
            doing,
            after: time,
        })
}
