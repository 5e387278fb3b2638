//! A container runtime of the tests: answers what it was told to, and keeps what it was asked.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use prost::bytes::Bytes;
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_stream::wrappers::{UnboundedReceiverStream, UnixListenerStream};
use tonic::body::Body;
use tonic::transport::Server;
use tonic::{Request, Response, Status, server};

use crate::cri::calls::{self, Shape};
use crate::cri::platforms::{self, ReadContent};
use crate::cri::raw::Raw;

/// How a call is answered.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// With a message.
    With(Bytes),
    /// With an error.
    Fail(Status),
    /// Never.
    Never,
}

/// A call as it came.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) call: String,
    pub(super) bytes: Bytes,
    pub(super) timeout: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    replies: Mutex<BTreeMap<String, Reply>>,
    asked: Mutex<Vec<Asked>>,
    streams: Mutex<Vec<mpsc::UnboundedSender<Result<Bytes, Status>>>>,
    begun: Notify,
    given_up: AtomicUsize,
}

/// The runtime. It goes with its value; another may take its socket.
pub(super) struct Runtime {
    state: Arc<State>,
    socket: PathBuf,
    server: tokio::task::JoinHandle<()>,
    end: oneshot::Sender<()>,
}

impl Runtime {
    pub(super) fn start(socket: &Path) -> Self {
        let state = Arc::new(State::default());
        let listener = UnixListener::bind(socket).unwrap();
        let service = {
            let state = Arc::clone(&state);
            tower::service_fn(move |request| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(answer(state, request).await) }
            })
        };
        let (end, ended) = oneshot::channel();
        let server = tokio::spawn(async move {
            let incoming = UnixListenerStream::new(listener);
            let ended = async {
                let _ = ended.await;
            };
            let served = Server::builder()
                .serve_with_incoming_shutdown(service, incoming, ended)
                .await;
            served.unwrap();
        });
        Self {
            state,
            socket: socket.to_owned(),
            server,
            end,
        }
    }

    pub(super) fn reply(&self, call: &str, reply: Reply) {
        let mut replies = self.state.replies.lock().unwrap();
        replies.insert(call.into(), reply);
    }

    pub(super) fn reply_with(&self, call: &str, message: &impl Message) {
        self.reply(call, Reply::With(message.encode_to_vec().into()));
    }

    /// What was asked, in order.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }

    /// The only question of a call.
    pub(super) fn asked_for<M: Message + Default>(&self, call: &str) -> M {
        let asked = self.asked();
        let mut found = asked.iter().filter(|asked| asked.call == call);
        let message = M::decode(found.next().expect("it was asked").bytes.clone()).unwrap();
        assert!(found.next().is_none(), "asked twice");
        message
    }

    /// Sends a message on every stream.
    pub(super) fn send(&self, message: &impl Message) {
        for stream in self.state.streams.lock().unwrap().iter() {
            let _ = stream.send(Ok(message.encode_to_vec().into()));
        }
    }

    /// Ends every stream, with an error if there is one.
    pub(super) fn end_streams(&self, error: Option<&Status>) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            if let Some(error) = error {
                let _ = stream.send(Err(error.clone()));
            }
        }
    }

    /// Waits until a call came that is never answered.
    pub(super) async fn begun(&self) {
        self.state.begun.notified().await;
    }

    /// Waits until that many calls or streams were given up.
    pub(super) async fn given_up(&self, wanted: usize) {
        for _ in 0..200 {
            if self.count_given_up() >= wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nothing was given up");
    }

    fn count_given_up(&self) -> usize {
        let mut streams = self.state.streams.lock().unwrap();
        let before = streams.len();
        streams.retain(|stream| !stream.is_closed());
        let closed = before - streams.len();
        self.state.given_up.fetch_add(closed, Ordering::SeqCst) + closed
    }

    /// Goes away, with every connection.
    pub(super) async fn go(self) {
        let _ = self.end.send(());
        self.server.await.unwrap();
        fs_err::remove_file(&self.socket).unwrap();
    }
}

/// Counts a call that nobody waits for any more.
struct Waiting(Arc<State>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.given_up.fetch_add(1, Ordering::SeqCst);
    }
}

async fn answer(state: Arc<State>, request: http::Request<Body>) -> http::Response<Body> {
    let path = request.uri().path().to_owned();
    let shape = match path.as_str() {
        platforms::GET_IMAGE | platforms::DELETE_IMAGE => Shape::Single,
        platforms::READ => Shape::Stream,
        _ => {
            calls::find(&path)
                .expect("the gateway passes known calls only")
                .1
        }
    };
    let is_lookup = path == platforms::GET_IMAGE;
    let mut grpc = server::Grpc::new(Raw)
        .max_decoding_message_size(64 << 20)
        .max_encoding_message_size(64 << 20);
    let keep = {
        let state = Arc::clone(&state);
        move |request: Request<Bytes>| {
            let timeout = request.metadata().get("grpc-timeout");
            let timeout = timeout.map(|value| value.to_str().unwrap().to_owned());
            let asked = Asked {
                call: path.clone(),
                bytes: request.into_inner(),
                timeout,
            };
            let reply = {
                let replies = state.replies.lock().unwrap();
                let of_digest = || {
                    let read = ReadContent::decode(asked.bytes.clone()).ok()?;
                    replies.get(&format!("{path} {}", read.digest)).cloned()
                };
                replies.get(&path).cloned().or_else(of_digest)
            };
            let nowhere = || Reply::Fail(Status::not_found("no such image"));
            let reply = reply.or_else(|| is_lookup.then(nowhere));
            state.asked.lock().unwrap().push(asked);
            reply
        }
    };
    match shape {
        Shape::Single => {
            let service = tower::service_fn(move |request| {
                let reply = keep(request);
                let state = Arc::clone(&state);
                async move {
                    match reply {
                        Some(Reply::With(bytes)) => Ok(Response::new(bytes)),
                        Some(Reply::Fail(error)) => Err(error),
                        Some(Reply::Never) => {
                            let _waiting = Waiting(Arc::clone(&state));
                            state.begun.notify_one();
                            std::future::pending().await
                        }
                        None => Ok(Response::new(Bytes::new())),
                    }
                }
            });
            grpc.unary(service, request).await
        }
        Shape::Stream => {
            let service = tower::service_fn(move |request| {
                let reply = keep(request);
                let state = Arc::clone(&state);
                async move {
                    if let Some(Reply::Fail(error)) = reply {
                        return Err(error);
                    }
                    let (sender, receiver) = mpsc::unbounded_channel();
                    match reply {
                        Some(Reply::With(bytes)) => sender.send(Ok(bytes)).unwrap(),
                        _ => state.streams.lock().unwrap().push(sender),
                    }
                    state.begun.notify_one();
                    Ok(Response::new(UnboundedReceiverStream::new(receiver)))
                }
            });
            grpc.server_streaming(service, request).await
        }
    }
}
