//! An SSH server on loopback that runs nothing: it records what is asked of it, and answers as a test says.
//!
//! Everybody may log in. Of SFTP it knows as much as uploads need: every path is an empty file, and what is written to
//! one is recorded like a command.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mullion_ssh::generate_key;
use russh::keys::decode_secret_key;
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId};
use russh_sftp::protocol::{Attrs, FileAttributes, Handle, OpenFlags, Status, StatusCode};
use tokio::runtime::{Builder, Runtime};

/// A command that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The command line, as the shell would have read it.
    pub line: String,
    /// Everything that came on its standard input.
    pub stdin: Vec<u8>,
}

/// What a command comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// Its exit status.
    pub status: u32,
    /// Its standard output.
    pub out: String,
}

/// Answers a command.
type Answer = Arc<dyn Fn(&Asked) -> Said + Send + Sync>;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct SshServer {
    port: u16,
    host_key: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Taken out when dropped.
    runtime: Option<Runtime>,
}

impl SshServer {
    /// Starts a server whose commands come to what `answer` says.
    pub fn start(answer: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> io::Result<Self> {
        let host = generate_key().map_err(io::Error::other)?;
        let key = decode_secret_key(host.private.reveal(), None).map_err(io::Error::other)?;
        let config = Arc::new(Config {
            keys: vec![key],
            auth_rejection_time: Duration::ZERO,
            nodelay: true,
            ..Config::default()
        });
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sshd")
            .enable_all()
            .build()?;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let client = Client {
            answer: Arc::new(answer),
            asked: Arc::clone(&asked),
            commands: BTreeMap::new(),
            channels: BTreeMap::new(),
        };
        runtime.spawn(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                let (config, client) = (Arc::clone(&config), client.clone());
                tokio::spawn(async move {
                    if let Ok(session) = russh::server::run_stream(config, stream, client).await {
                        // A client that goes away ends its connection with an error, which concerns nobody.
                        let _ = session.await;
                    }
                });
            }
        });
        Ok(Self {
            port,
            host_key: host.public,
            asked,
            runtime: Some(runtime),
        })
    }

    /// The port of 127.0.0.1 that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its key, as one line.
    pub fn host_key(&self) -> &str {
        &self.host_key
    }

    /// Every command so far.
    pub fn asked(&self) -> Vec<Asked> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What one client asks.
struct Client {
    answer: Answer,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Commands whose input has not ended yet.
    commands: BTreeMap<ChannelId, Asked>,
    /// Channels in which nothing was started yet.
    channels: BTreeMap<ChannelId, Channel<Msg>>,
}

impl Clone for Client {
    /// Another client of the same server.
    fn clone(&self) -> Self {
        Self {
            answer: Arc::clone(&self.answer),
            asked: Arc::clone(&self.asked),
            commands: BTreeMap::new(),
            channels: BTreeMap::new(),
        }
    }
}

impl Handler for Client {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        _user: &str,
        _key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channels.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channels.remove(&channel);
        let asked = Asked {
            line: String::from_utf8_lossy(data).into_owned(),
            stdin: Vec::new(),
        };
        self.commands.insert(channel, asked);
        session.channel_success(channel)
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let opened = self.channels.remove(&channel);
        match opened {
            Some(opened) if name == "sftp" => {
                session.channel_success(channel)?;
                let files = EmptyFiles {
                    asked: Arc::clone(&self.asked),
                    open: BTreeMap::new(),
                };
                russh_sftp::server::run(opened.into_stream(), files).await;
                Ok(())
            }
            _ => session.channel_failure(channel),
        }
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if let Some(asked) = self.commands.get_mut(&channel) {
            asked.stdin.extend_from_slice(data);
        }
        Ok(())
    }

    async fn channel_eof(
        &mut self,
        channel: ChannelId,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let Some(asked) = self.commands.remove(&channel) else {
            return Ok(());
        };
        let said = (self.answer)(&asked);
        let all = self.asked.lock();
        all.unwrap_or_else(PoisonError::into_inner).push(asked);
        session.data(channel, said.out.into_bytes())?;
        session.exit_status_request(channel, said.status)?;
        session.eof(channel)?;
        session.close(channel)
    }
}

/// SFTP in which every path is an empty file.
struct EmptyFiles {
    asked: Arc<Mutex<Vec<Asked>>>,
    /// What was written to open files, by their handles.
    open: BTreeMap<String, Asked>,
}

impl russh_sftp::server::Handler for EmptyFiles {
    type Error = StatusCode;

    fn unimplemented(&self) -> Self::Error {
        StatusCode::OpUnsupported
    }

    async fn stat(&mut self, id: u32, _path: String) -> Result<Attrs, Self::Error> {
        let attrs = FileAttributes {
            size: Some(0),
            ..FileAttributes::default()
        };
        Ok(Attrs { id, attrs })
    }

    async fn open(
        &mut self,
        id: u32,
        filename: String,
        pflags: OpenFlags,
        attrs: FileAttributes,
    ) -> Result<Handle, Self::Error> {
        let asked = Asked {
            line: format!("sftp {filename} {pflags:?} {:?}", attrs.permissions),
            stdin: Vec::new(),
        };
        self.open.insert(filename.clone(), asked);
        let handle = filename;
        Ok(Handle { id, handle })
    }

    async fn write(
        &mut self,
        id: u32,
        handle: String,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<Status, Self::Error> {
        let asked = self.open.get_mut(&handle).ok_or(StatusCode::Failure)?;
        // Writes may overtake each other.
        let start = usize::try_from(offset).map_err(|_| StatusCode::Failure)?;
        let end = start + data.len();
        if asked.stdin.len() < end {
            asked.stdin.resize(end, 0);
        }
        asked.stdin[start..end].copy_from_slice(&data);
        Ok(fine(id))
    }

    async fn close(&mut self, id: u32, handle: String) -> Result<Status, Self::Error> {
        let asked = self.open.remove(&handle).ok_or(StatusCode::Failure)?;
        let all = self.asked.lock();
        all.unwrap_or_else(PoisonError::into_inner).push(asked);
        Ok(fine(id))
    }
}

fn fine(id: u32) -> Status {
    Status {
        id,
        status_code: StatusCode::Ok,
        error_message: String::new(),
        language_tag: String::new(),
    }
}
