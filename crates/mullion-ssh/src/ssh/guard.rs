//! What a server may do to us: show its key, and answer. Everything else is refused.

use std::sync::{Arc, Mutex, PoisonError};

use russh::client::{ChannelOpenHandle, DisconnectReason, Handler, Msg, Session};
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use russh::{Channel, Error};

use crate::error::Cause;
use crate::keys::Pin;

/// What was learned of a server.
#[derive(Debug, Default)]
pub(super) struct Seen {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    offered: Option<PublicKey>,
    ended: Option<Cause>,
}

impl Seen {
    /// The host key that it showed.
    pub(super) fn offered(&self) -> Option<PublicKey> {
        self.lock().offered.clone()
    }

    /// Why the connection ended, once it has.
    pub(super) fn ended(&self) -> Cause {
        let ended = self.lock().ended.clone();
        ended.unwrap_or_else(|| Cause::new("the connection was closed"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares the host key, and lets the server open nothing.
pub(super) struct Guard {
    pub(super) pin: Pin,
    pub(super) seen: Arc<Seen>,
}

impl Handler for Guard {
    type Error = Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Error> {
        let key = shown.public_key();
        let is_admitted = self.pin.admits(&key);
        self.seen.lock().offered = Some(key);
        Ok(is_admitted)
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Error>) -> Result<(), Error> {
        let cause = match &reason {
            DisconnectReason::ReceivedDisconnect(said) => {
                Cause::new(format!("the server said: {}", said.message.trim()))
            }
            DisconnectReason::Error(error) => Cause::new(in_words(error)),
        };
        self.seen.lock().ended = Some(cause);
        match reason {
            DisconnectReason::ReceivedDisconnect(_) => Ok(()),
            DisconnectReason::Error(error) => Err(error),
        }
    }

    // A channel that the server wants to open is refused by dropping the handle that could accept it. What russh does
    // unasked is to accept.

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// What an error of russh means, where its own words do not say it.
pub(super) fn in_words(error: &Error) -> String {
    match error {
        Error::Disconnect | Error::HUP | Error::SendError | Error::RecvError => {
            "the other side closed the connection".into()
        }
        Error::KeepaliveTimeout => "the other side fell silent".into(),
        Error::InactivityTimeout => "nothing could be sent any more".into(),
        Error::IO(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the other side closed the connection".into()
        }
        error => error.to_string(),
    }
}
