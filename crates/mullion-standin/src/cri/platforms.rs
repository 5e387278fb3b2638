//! What an image says itself: the platforms of its manifests, as the Linux runtime keeps them.
//!
//! containerd on Windows decides by the list of manifests whether an image has something for its host. This one is for
//! Linux and decides for Linux, so its store is asked: by containerd's own interface, beside the one for kubelets.

use http::uri::PathAndQuery;
use prost::Message;
use prost::bytes::Bytes;
use serde::Deserialize;
use tokio_stream::StreamExt as _;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, client};

use super::calls::read;
use super::gateway::away;
use super::raw::Raw;
use super::version::OsVersion;

/// The name space of pods' images.
const SPACE: &str = "k8s.io";

pub(super) const GET_IMAGE: &str = "/containerd.services.images.v1.Images/Get";
pub(super) const DELETE_IMAGE: &str = "/containerd.services.images.v1.Images/Delete";
pub(super) const READ: &str = "/containerd.services.content.v1.Content/Read";

/// The largest manifest, by the rules for registries.
const LARGEST: usize = 4 * 1024 * 1024;

/// `containerd.services.images.v1.GetImageRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct GetImage {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

/// `containerd.services.images.v1.GetImageResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct GotImage {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<StoredImage>,
}

/// `containerd.services.images.v1.Image`, as far as it is read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredImage {
    #[prost(message, optional, tag = "3")]
    pub(super) target: Option<Target>,
}

/// `containerd.types.Descriptor`, as far as it is read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Target {
    #[prost(string, tag = "2")]
    pub(super) digest: String,
}

/// `containerd.services.images.v1.DeleteImageRequest`, as far as it is used.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteImage {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

/// `containerd.services.content.v1.ReadContentRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadContent {
    #[prost(string, tag = "1")]
    pub(super) digest: String,
}

/// `containerd.services.content.v1.ReadContentResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct Content {
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) data: Bytes,
}

/// A list of manifests, or one of them; the rest of it is nobody's business here.
#[derive(Debug, Deserialize)]
struct Manifests {
    #[serde(default)]
    manifests: Vec<Entry>,
    config: Option<Blob>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    platform: Option<Platform>,
}

#[derive(Debug, Deserialize)]
struct Blob {
    digest: String,
}

/// What a manifest is for, in a list of them and in an image's own settings.
#[derive(Debug, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
    #[serde(rename = "os.version")]
    version: Option<String>,
}

impl Platform {
    fn is_windows(&self) -> bool {
        self.os == "windows" && self.architecture == "amd64"
    }

    /// Any version where it names none that can be read.
    fn version(&self) -> Option<OsVersion> {
        self.version.as_ref()?.parse().ok()
    }
}

/// The versions of Windows that an image in the runtime's store is for. Nothing where there is no such image.
pub(super) async fn of_image(
    runtime: &Channel,
    name: &str,
) -> Result<Option<Vec<Option<OsVersion>>>, Status> {
    let question = GetImage { name: name.into() };
    let found = match ask(runtime, GET_IMAGE, &question).await {
        Ok(answer) => answer,
        Err(error) if error.code() == Code::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found: GotImage = read(&found)?;
    let target = found.image.and_then(|image| image.target);
    let target = target.ok_or_else(|| Status::internal("an image without a manifest"))?;
    let top: Manifests = json(runtime, target.digest).await?;
    let platforms = match top.config {
        Some(config) => vec![json(runtime, config.digest).await?],
        None => top
            .manifests
            .into_iter()
            .filter_map(|it| it.platform)
            .collect(),
    };
    let windows = platforms.iter().filter(|platform| platform.is_windows());
    Ok(Some(windows.map(Platform::version).collect()))
}

/// Removes one name of an image from the runtime's store; what else leads to that image stays.
pub(super) async fn remove_name(runtime: &Channel, name: &str) -> Result<(), Status> {
    let question = DeleteImage { name: name.into() };
    ask(runtime, DELETE_IMAGE, &question).await?;
    Ok(())
}

/// A document of the store.
async fn json<T: for<'a> Deserialize<'a>>(runtime: &Channel, digest: String) -> Result<T, Status> {
    let mut client = client::Grpc::new(runtime.clone());
    client.ready().await.map_err(|error| away(&error))?;
    let question = request(&ReadContent { digest });
    let path = PathAndQuery::from_static(READ);
    let answer = client.server_streaming(question, path, Raw).await?;
    let mut pieces = answer.into_inner();
    let mut text = Vec::new();
    while let Some(piece) = pieces.next().await {
        text.extend(read::<Content>(&piece?)?.data);
        if text.len() > LARGEST {
            return Err(Status::resource_exhausted("a manifest of more than 4 MiB"));
        }
    }
    serde_json::from_slice(&text)
        .map_err(|error| Status::internal(format!("a manifest cannot be read: {error}")))
}

async fn ask(
    runtime: &Channel,
    call: &'static str,
    message: &impl Message,
) -> Result<Bytes, Status> {
    let mut client = client::Grpc::new(runtime.clone());
    client.ready().await.map_err(|error| away(&error))?;
    let path = PathAndQuery::from_static(call);
    let answer = client.unary(request(message), path, Raw).await;
    Ok(answer?.into_inner())
}

fn request(message: &impl Message) -> Request<Bytes> {
    let mut request = Request::new(message.encode_to_vec().into());
    let space = MetadataValue::from_static(SPACE);
    request.metadata_mut().insert("containerd-namespace", space);
    request
}
