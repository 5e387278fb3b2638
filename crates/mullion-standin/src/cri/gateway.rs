//! The server: takes a call, has it mapped, asks the Linux runtime, has the answer mapped.
//!
//! - **Errors** of the runtime pass with their code, their message and their details.
//! - **Deadlines** and calls that are given up pass too: whoever goes takes the call to the runtime along.
//! - **The runtime may be away.** Then calls fail as `Unavailable`; the next one tries again.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message as _;
use prost::bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Extensions, Request, Response, Status, client, server};

use super::calls::{self, Next, Shape};
use super::groups;
use super::map::Map;
use super::raw::Raw;
use super::v1::{PodSandboxStatusRequest, PodSandboxStatusResponse, RemovePodSandboxRequest};
use super::version::OsVersion;

/// The largest message, as kubelet and containerd have it: 16 MiB.
pub(super) const LARGEST: usize = 16 * 1024 * 1024;

/// How much may be on its way before it is read: large answers come in fewer pieces.
const WINDOW: u32 = 1024 * 1024;

/// How long calls have that are being answered when the gateway is told to end.
pub(super) const FAREWELL: Duration = Duration::from_secs(3);

/// What each side settles with its own neighbour.
const OF_ONE_SIDE: [&str; 2] = ["grpc-encoding", "grpc-accept-encoding"];

/// Is told of every call that failed.
type Log = fn(&str);

/// Between kubelet.exe and the Linux runtime.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// It changes when an image tells what it holds.
    map: Arc<RwLock<Arc<Map>>>,
    pub(super) runtime: Channel,
    log: Log,
}

impl Gateway {
    /// A gateway to the runtime behind a socket. It is not connected before it is needed.
    pub fn new(map: Map, socket: &Path, log: Log) -> Result<Self, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        Ok(Self {
            map: Arc::new(RwLock::new(Arc::new(map))),
            runtime: endpoint.connect_lazy(),
            log,
        })
    }

    /// The mapping, as it is now.
    pub(super) fn map(&self) -> Arc<Map> {
        // Whoever panicked with the lock had replaced it or not: either is whole.
        let map = self.map.read();
        Arc::clone(&map.unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps what an image told of itself.
    pub(super) fn judge(&self, reference: &str, versions: &[Option<OsVersion>]) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let images = map.images().with_judged(reference, versions);
        *map = Arc::new(map.with_images(images));
    }

    /// Answers one call.
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let Some((call, shape)) = calls::find(request.uri().path()) else {
            let path = request.uri().path();
            (self.log)(&format!("{path}: no such call"));
            return Status::unimplemented(format!("the stand-in knows no call {path}")).into_http();
        };
        let mut grpc = server::Grpc::new(Raw)
            .max_decoding_message_size(LARGEST)
            .max_encoding_message_size(LARGEST);
        match shape {
            Shape::Single => {
                let service = tower::service_fn(move |request| {
                    let gateway = self.clone();
                    async move {
                        let answer = gateway.single(call, request).await;
                        answer.inspect_err(|error| gateway.tell(call, error))
                    }
                });
                grpc.unary(service, request).await
            }
            Shape::Stream => {
                let service = tower::service_fn(move |request| {
                    let gateway = self.clone();
                    async move {
                        let answer = gateway.stream(call, request).await;
                        answer.inspect_err(|error| gateway.tell(call, error))
                    }
                });
                grpc.server_streaming(service, request).await
            }
        }
    }

    pub(super) fn tell(&self, what: &str, error: &Status) {
        (self.log)(&format!("{what}: {:?}: {}", error.code(), error.message()));
    }

    async fn single(
        &self,
        call: &'static str,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Status> {
        let (metadata, _, bytes) = request.into_parts();
        let named = calls::images_of(call, &bytes);
        match call {
            calls::IMAGE_STATUS => self.look_over(named).await?,
            _ => self.look_at(named).await?,
        }
        if call == calls::PULL
            && let Some(answer) = self.pull(&bytes, &metadata).await?
        {
            return Ok(Response::new(answer));
        }
        let bytes = match calls::request(&self.map(), call, bytes)? {
            Next::Ask(bytes) => bytes,
            Next::Answer(bytes) => return Ok(Response::new(bytes)),
        };
        let group = match call {
            calls::REMOVE_POD => self.group_of(&bytes, &metadata).await,
            _ => None,
        };
        let answer = self.ask(call, metadata, bytes).await?;
        if let Some(group) = group {
            groups::remove(Path::new(groups::ROOT), &group);
        }
        self.look_over(calls::images_in(call, &answer)).await?;
        Ok(Response::new(calls::response(&self.map(), call, answer)?))
    }

    async fn stream(
        &self,
        call: &'static str,
        request: Request<Bytes>,
    ) -> Result<Response<impl Stream<Item = Result<Bytes, Status>> + use<>>, Status> {
        let (metadata, _, bytes) = request.into_parts();
        let (asked, answer) = match calls::request(&self.map(), call, bytes)? {
            Next::Ask(bytes) => {
                let request = for_runtime(metadata, bytes);
                let mut runtime = self.ready().await?;
                let path = PathAndQuery::from_static(call);
                let asked = runtime.server_streaming(request, path, Raw).await;
                (Some(asked.map_err(of_runtime)?.into_inner()), None)
            }
            Next::Answer(bytes) => (None, Some(Ok(bytes))),
        };
        let map = self.map();
        let mapped = asked.map(|stream| {
            stream.map(move |item| calls::response(&map, call, item.map_err(of_runtime)?))
        });
        let mapped = tokio_stream::iter(answer).chain(OrNothing(mapped));
        Ok(Response::new(mapped))
    }

    /// The control group of a pod that is to be removed. None where it is gone already.
    async fn group_of(&self, removal: &Bytes, metadata: &MetadataMap) -> Option<String> {
        let removal = RemovePodSandboxRequest::decode(removal.clone()).ok()?;
        let question = PodSandboxStatusRequest {
            pod_sandbox_id: removal.pod_sandbox_id,
            verbose: false,
        };
        let question = question.encode_to_vec().into();
        let answer = self
            .ask(calls::POD_STATUS, metadata.clone(), question)
            .await;
        let status = PodSandboxStatusResponse::decode(answer.ok()?)
            .ok()?
            .status?;
        groups::of_pod(&status.metadata?.uid)
    }

    pub(super) async fn ask(
        &self,
        call: &'static str,
        metadata: MetadataMap,
        bytes: Bytes,
    ) -> Result<Bytes, Status> {
        let mut runtime = self.ready().await?;
        let path = PathAndQuery::from_static(call);
        let request = for_runtime(metadata, bytes);
        let answer = runtime.unary(request, path, Raw).await;
        Ok(answer.map_err(of_runtime)?.into_inner())
    }

    async fn ready(&self) -> Result<client::Grpc<Channel>, Status> {
        let mut runtime = client::Grpc::new(self.runtime.clone())
            .max_decoding_message_size(LARGEST)
            .max_encoding_message_size(LARGEST);
        runtime.ready().await.map_err(|error| away(&error))?;
        Ok(runtime)
    }
}

/// What is told where the Linux runtime does not answer.
pub(super) fn away(error: &tonic::transport::Error) -> Status {
    Status::unavailable(format!("the runtime is away: {error}"))
}

/// A stream that may not be there, and then has ended.
struct OrNothing<S>(Option<S>);

impl<S: Stream + Unpin> Stream for OrNothing<S> {
    type Item = S::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<S::Item>> {
        match &mut self.0 {
            Some(stream) => std::pin::Pin::new(stream).poll_next(context),
            None => std::task::Poll::Ready(None),
        }
    }
}

/// A request with what came along, the deadline included.
fn for_runtime(mut metadata: MetadataMap, bytes: Bytes) -> Request<Bytes> {
    for name in OF_ONE_SIDE {
        metadata.remove(name);
    }
    Request::from_parts(metadata, Extensions::new(), bytes)
}

/// The runtime's error, without what its connection said beside.
#[allow(
    clippy::needless_pass_by_value,
    reason = "it takes the place of another error"
)]
fn of_runtime(error: Status) -> Status {
    let details = Bytes::copy_from_slice(error.details());
    Status::with_details(error.code(), error.message(), details)
}

/// Serves until told to end. Calls that are being answered then have a moment for it; a stream of events never ends by
/// itself.
pub async fn serve(
    listener: TcpListener,
    gateway: Gateway,
    end: impl Future<Output = ()>,
) -> Result<SocketAddr, Box<dyn std::error::Error + Send + Sync>> {
    let address = listener.local_addr()?;
    let service = tower::service_fn(move |request| {
        let gateway = gateway.clone();
        async move { Ok::<_, Infallible>(gateway.answer(request).await) }
    });
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let (sender, ended) = oneshot::channel::<()>();
    let served = Server::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .serve_with_incoming_shutdown(service, incoming, async {
            let _ = ended.await;
        });
    let overdue = async {
        end.await;
        let _ = sender.send(());
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        served = served => served?,
        () = overdue => {}
    }
    Ok(address)
}
