//! A gateway between a client and a runtime of the tests.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use prost::bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming, client};

use super::runtime::Runtime;
use crate::cri::map::tests::map;
use crate::cri::raw::Raw;
use crate::cri::{Gateway, Map, serve};

/// How long anything may take before a test has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Stage {
    pub(super) runtime: Option<Runtime>,
    folder: tempfile::TempDir,
    client: Channel,
    end: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

/// `/runtime.v1.RuntimeService/NAME`
pub(super) fn of_runtime(name: &str) -> String {
    format!("/runtime.v1.RuntimeService/{name}")
}

/// `/runtime.v1.ImageService/NAME`
pub(super) fn of_images(name: &str) -> String {
    format!("/runtime.v1.ImageService/{name}")
}

fn quiet(_: &str) {}

impl Stage {
    pub(super) async fn new() -> Self {
        let mut stage = Self::without_runtime().await;
        stage.start_runtime();
        stage
    }

    pub(super) async fn without_runtime() -> Self {
        Self::around(tempfile::tempdir().unwrap(), map()).await
    }

    /// A gateway to whatever listens at `socket` in a folder.
    pub(super) async fn around(folder: tempfile::TempDir, map: Map) -> Self {
        let gateway = Gateway::new(map, &folder.path().join("socket"), quiet).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let served = tokio::spawn(async move {
            let ended = async {
                let _ = ended.await;
            };
            serve(listener, gateway, ended).await.unwrap();
        });
        let client = Endpoint::from_shared(format!("http://{address}"));
        Self {
            runtime: None,
            folder,
            client: client.unwrap().connect_lazy(),
            end: Some(end),
            served,
        }
    }

    pub(super) fn start_runtime(&mut self) {
        self.runtime = Some(Runtime::start(&self.folder.path().join("socket")));
    }

    pub(super) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it was started")
    }

    /// Tells the gateway to end, and waits for it.
    pub(super) async fn end(&mut self) {
        drop(self.end.take());
        let ended = tokio::time::timeout(PATIENCE, &mut self.served).await;
        ended.expect("it ends in time").unwrap();
    }

    async fn ready(&self) -> client::Grpc<Channel> {
        let mut client = client::Grpc::new(self.client.clone())
            .max_decoding_message_size(64 << 20)
            .max_encoding_message_size(64 << 20);
        client.ready().await.unwrap();
        client
    }

    /// One call, with bytes.
    pub(super) async fn raw(&self, call: &str, request: Request<Bytes>) -> Result<Bytes, Status> {
        let path: PathAndQuery = call.parse().unwrap();
        let mut client = self.ready().await;
        let answer = client.unary(request, path, Raw);
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        Ok(answer.expect("an answer in time")?.into_inner())
    }

    /// One call, with messages.
    pub(super) async fn ask<A: Message + Default>(
        &self,
        call: &str,
        request: &impl Message,
    ) -> Result<A, Status> {
        let request = Request::new(request.encode_to_vec().into());
        Ok(A::decode(self.raw(call, request).await?).unwrap())
    }

    /// A stream of answers.
    pub(super) async fn listen(
        &self,
        call: &str,
        request: &impl Message,
    ) -> Result<Streaming<Bytes>, Status> {
        let path: PathAndQuery = call.parse().unwrap();
        let request = Request::new(request.encode_to_vec().into());
        let mut client = self.ready().await;
        let answer = client.server_streaming(request, path, Raw);
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        Ok(answer.expect("an answer in time")?.into_inner())
    }
}

/// The next message of a stream, or its end.
pub(super) async fn next<A: Message + Default>(
    stream: &mut Streaming<Bytes>,
) -> Result<Option<A>, Status> {
    let message = tokio::time::timeout(PATIENCE, stream.message()).await;
    let message = message.expect("a message in time")?;
    Ok(message.map(|bytes| A::decode(bytes).unwrap()))
}
