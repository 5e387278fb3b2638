//! Every call of the interface, and what is changed in its messages.
//!
//! The table has the calls of Kubernetes 1.32 to 1.36. What is changed stands in [`request`] and [`response`]; a call that
//! is in neither passes as it is.

use prost::Message;
use prost::bytes::Bytes;
use tonic::Status;

use super::images::Images;
use super::map::image::{self, Ask};
use super::map::{Map, Refusal, runtime, sandbox, stats};
use super::v1::{
    CreateContainerRequest, ImageSpec, ImageStatusRequest, ImageStatusResponse, ListImagesResponse,
    RemoveImageResponse, StreamImagesResponse,
};
use super::version::OsVersion;

/// How many messages answer a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One.
    Single,
    /// Any number, as they come.
    Stream,
}

/// `PullImage`, which is more than one question.
pub(super) const PULL: &str = "/runtime.v1.ImageService/PullImage";

/// `RemovePodSandbox`, after which the pod's control group is nobody's.
pub(super) const REMOVE_POD: &str = "/runtime.v1.RuntimeService/RemovePodSandbox";

/// `PodSandboxStatus`
pub(super) const POD_STATUS: &str = "/runtime.v1.RuntimeService/PodSandboxStatus";

/// `RemoveImage`
pub(super) const REMOVE_IMAGE: &str = "/runtime.v1.ImageService/RemoveImage";

/// `ImageStatus`
pub(super) const IMAGE_STATUS: &str = "/runtime.v1.ImageService/ImageStatus";

macro_rules! runtime {
    ($name:literal) => {
        concat!("/runtime.v1.RuntimeService/", $name)
    };
}

macro_rules! image {
    ($name:literal) => {
        concat!("/runtime.v1.ImageService/", $name)
    };
}

/// The calls.
pub(super) const CALLS: [(&str, Shape); 43] = [
    (runtime!("Version"), Shape::Single),
    (runtime!("RunPodSandbox"), Shape::Single),
    (runtime!("StopPodSandbox"), Shape::Single),
    (REMOVE_POD, Shape::Single),
    (POD_STATUS, Shape::Single),
    (runtime!("ListPodSandbox"), Shape::Single),
    (runtime!("StreamPodSandboxes"), Shape::Stream),
    (runtime!("CreateContainer"), Shape::Single),
    (runtime!("StartContainer"), Shape::Single),
    (runtime!("StopContainer"), Shape::Single),
    (runtime!("RemoveContainer"), Shape::Single),
    (runtime!("ListContainers"), Shape::Single),
    (runtime!("StreamContainers"), Shape::Stream),
    (runtime!("ContainerStatus"), Shape::Single),
    (runtime!("UpdateContainerResources"), Shape::Single),
    (runtime!("ReopenContainerLog"), Shape::Single),
    (runtime!("ExecSync"), Shape::Single),
    (runtime!("Exec"), Shape::Single),
    (runtime!("Attach"), Shape::Single),
    (runtime!("PortForward"), Shape::Single),
    (runtime!("ContainerStats"), Shape::Single),
    (runtime!("ListContainerStats"), Shape::Single),
    (runtime!("StreamContainerStats"), Shape::Stream),
    (runtime!("PodSandboxStats"), Shape::Single),
    (runtime!("ListPodSandboxStats"), Shape::Single),
    (runtime!("StreamPodSandboxStats"), Shape::Stream),
    (runtime!("UpdateRuntimeConfig"), Shape::Single),
    (runtime!("Status"), Shape::Single),
    (runtime!("CheckpointContainer"), Shape::Single),
    (runtime!("GetContainerEvents"), Shape::Stream),
    (runtime!("ListMetricDescriptors"), Shape::Single),
    (runtime!("ListPodSandboxMetrics"), Shape::Single),
    (runtime!("StreamPodSandboxMetrics"), Shape::Stream),
    (runtime!("RuntimeConfig"), Shape::Single),
    (runtime!("UpdatePodSandboxResources"), Shape::Single),
    (image!("ListImages"), Shape::Single),
    (image!("StreamImages"), Shape::Stream),
    (IMAGE_STATUS, Shape::Single),
    (PULL, Shape::Single),
    (REMOVE_IMAGE, Shape::Single),
    (image!("ImageFsInfo"), Shape::Single),
    // Whether the runtime is well: no part of its interface, and asked all the same.
    ("/grpc.health.v1.Health/Check", Shape::Single),
    ("/grpc.health.v1.Health/Watch", Shape::Stream),
];

/// A call of the table.
pub(super) fn find(path: &str) -> Option<(&'static str, Shape)> {
    CALLS.iter().copied().find(|(known, _)| *known == path)
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// The runtime is asked this.
    Ask(Bytes),
    /// It is not asked: this is the answer.
    Answer(Bytes),
}

/// The images that a request names, where it matters what they hold.
pub(super) fn images_of(call: &str, bytes: &Bytes) -> Vec<String> {
    let named = |image: Option<ImageSpec>| image.map(|image| vec![image.image]);
    let found = match call {
        IMAGE_STATUS => read(bytes).map(|asked: ImageStatusRequest| named(asked.image)),
        runtime!("CreateContainer") => read(bytes).map(|asked: CreateContainerRequest| {
            let image = asked.config?.image?;
            Some(vec![image.image, image.user_specified_image])
        }),
        _ => return Vec::new(),
    };
    // What cannot be read is told by whoever maps it.
    found.ok().flatten().unwrap_or_default()
}

/// The images that an answer of the runtime names, where it matters what they hold.
pub(super) fn images_in(call: &str, bytes: &Bytes) -> Vec<String> {
    if call != image!("ListImages") {
        return Vec::new();
    }
    let found = read(bytes).map(|told: ListImagesResponse| {
        let images = told.images.into_iter();
        images
            .flat_map(|image| image.repo_tags.into_iter().chain(image.repo_digests))
            .collect()
    });
    found.unwrap_or_default()
}

/// A request, for the Linux runtime.
pub(super) fn request(map: &Map, call: &str, bytes: Bytes) -> Result<Next, Status> {
    let asked = |bytes| Ok(Next::Ask(bytes));
    match call {
        runtime!("RunPodSandbox") => asked(changed(&bytes, |message| map.run(message))?),
        runtime!("CreateContainer") => asked(changed(&bytes, |message| map.create(message))?),
        runtime!("UpdateContainerResources") => asked(told(&bytes, |message| map.update(message))?),
        runtime!("CheckpointContainer") => {
            asked(changed(&bytes, |message| map.checkpoint(message))?)
        }
        runtime!("ExecSync") => asked(told(&bytes, runtime::exec_sync)?),
        runtime!("Exec") => asked(told(&bytes, runtime::exec)?),
        PULL => asked(changed(&bytes, |message| map.pull(message))?),
        IMAGE_STATUS => asked_or(&bytes, &ImageStatusResponse::default(), |message| {
            map.image_asked(message)
        }),
        image!("ListImages") => asked_or(&bytes, &ListImagesResponse::default(), |message| {
            map.images_asked(message)
        }),
        image!("StreamImages") => asked_or(&bytes, &StreamImagesResponse::default(), |message| {
            map.image_stream_asked(message)
        }),
        REMOVE_IMAGE => asked_or(&bytes, &RemoveImageResponse::default(), |message| {
            map.image_removed(message)
        }),
        _ => asked(bytes),
    }
}

/// An answer, for kubelet.exe.
pub(super) fn response(map: &Map, call: &str, bytes: Bytes) -> Result<Bytes, Status> {
    match call {
        runtime!("Version") => told(&bytes, runtime::version),
        runtime!("Status") => told(&bytes, |message| map.status(message)),
        runtime!("RuntimeConfig") => told(&bytes, runtime::runtime_config),
        POD_STATUS => told(&bytes, |message| map.sandbox_status(message)),
        runtime!("ListPodSandbox") => told(&bytes, sandbox::list),
        runtime!("StreamPodSandboxes") => told(&bytes, sandbox::stream),
        runtime!("ContainerStatus") => told(&bytes, |message| map.container_status(message)),
        runtime!("ListContainers") => told(&bytes, |message| map.containers(message)),
        runtime!("StreamContainers") => told(&bytes, |message| map.container_stream(message)),
        runtime!("GetContainerEvents") => told(&bytes, |message| map.event(message)),
        runtime!("Exec") => told(&bytes, runtime::exec_at),
        runtime!("Attach") => told(&bytes, runtime::attach_at),
        runtime!("PortForward") => told(&bytes, runtime::forward_at),
        runtime!("ContainerStats") => told(&bytes, stats::container_stats),
        runtime!("ListContainerStats") => told(&bytes, stats::container_stats_list),
        runtime!("StreamContainerStats") => told(&bytes, stats::container_stats_stream),
        runtime!("PodSandboxStats") => told(&bytes, stats::pod_stats),
        runtime!("ListPodSandboxStats") => told(&bytes, stats::pod_stats_list),
        runtime!("StreamPodSandboxStats") => told(&bytes, stats::pod_stats_stream),
        IMAGE_STATUS => told(&bytes, |message| map.image_status(message)),
        image!("ListImages") => told(&bytes, |message| map.image_list(message)),
        image!("StreamImages") => told(&bytes, |message| map.image_stream(message)),
        image!("ImageFsInfo") => told(&bytes, image::image_store),
        _ => Ok(bytes),
    }
}

/// Reads a message.
pub(super) fn read<M: Message + Default>(bytes: &Bytes) -> Result<M, Status> {
    M::decode(bytes.clone())
        .map_err(|error| Status::internal(format!("the message cannot be read: {error}")))
}

/// What fuzzing calls: the first byte chooses the call, the second the direction, and the rest is the message. What the
/// runtime is asked to mount lies below the drive.
pub(crate) fn fuzz(bytes: &[u8]) -> Result<(), String> {
    const DRIVE: &str = "/srv/c";
    let [call, direction, message @ ..] = bytes else {
        return Err("too short".into());
    };
    let (call, _) = CALLS[usize::from(*call) % CALLS.len()];
    let message = Bytes::copy_from_slice(message);
    let images = Images::parse("[[image]]\nname = \"nginx\"\nlinux = true\n");
    let map = Map::new(
        DRIVE.into(),
        |path| Ok(path.below(DRIVE)),
        OsVersion::of_build(20_348, 3807),
        4,
        images.map_err(|error| error.to_string())?,
    );
    let _ = (images_of(call, &message), images_in(call, &message));
    if direction % 2 == 1 {
        let answer = response(&map, call, message);
        return answer.map(|_| ()).map_err(|status| status.message().into());
    }
    let next = request(&map, call, message).map_err(|status| status.message().to_owned())?;
    if call == runtime!("CreateContainer")
        && let Next::Ask(bytes) = next
    {
        let asked: CreateContainerRequest =
            read(&bytes).map_err(|status| status.message().to_owned())?;
        for mount in asked.config.iter().flat_map(|config| &config.mounts) {
            let below = std::path::Path::new(&mount.host_path);
            let is_inside = below.starts_with(DRIVE)
                && !below.components().any(|part| part.as_os_str() == "..");
            assert!(
                is_inside || mount.host_path.is_empty(),
                "{:?} is mounted",
                mount.host_path
            );
        }
    }
    Ok(())
}

fn changed<M: Message + Default>(
    bytes: &Bytes,
    change: impl FnOnce(&mut M) -> Result<(), Refusal>,
) -> Result<Bytes, Status> {
    let mut message = read(bytes)?;
    change(&mut message)?;
    Ok(message.encode_to_vec().into())
}

fn told<M: Message + Default>(bytes: &Bytes, change: impl FnOnce(&mut M)) -> Result<Bytes, Status> {
    let mut message = read(bytes)?;
    change(&mut message);
    Ok(message.encode_to_vec().into())
}

fn asked_or<M: Message + Default, A: Message>(
    bytes: &Bytes,
    nobody: &A,
    change: impl FnOnce(&mut M) -> Ask,
) -> Result<Next, Status> {
    let mut message = read(bytes)?;
    Ok(match change(&mut message) {
        Ask::Runtime => Next::Ask(message.encode_to_vec().into()),
        Ask::Nobody => Next::Answer(nobody.encode_to_vec().into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls that Kubernetes' own file declares.
    fn declared() -> Vec<(String, Shape)> {
        let mut service = "";
        let mut found = Vec::new();
        for line in include_str!("../../proto/cri-v1.proto").lines() {
            if let Some(name) = line.strip_prefix("service ") {
                service = name.trim_end_matches(" {");
            } else if let Some(rest) = line.trim_start().strip_prefix("rpc ") {
                let name = rest.split('(').next().unwrap();
                let is_stream = rest.contains("returns (stream ");
                assert!(
                    !rest.contains("(stream ") || is_stream,
                    "asked by a stream: {rest}"
                );
                let shape = if is_stream {
                    Shape::Stream
                } else {
                    Shape::Single
                };
                found.push((format!("/runtime.v1.{service}/{name}"), shape));
            }
        }
        found
    }

    #[test]
    fn every_call_of_the_interface_is_in_the_table() {
        let declared = declared();
        assert!(declared.len() > 40, "{}", declared.len());
        let of_runtime = |(path, shape): &(&str, Shape)| {
            path.starts_with("/runtime.v1.")
                .then(|| ((*path).to_owned(), *shape))
        };
        let known: Vec<_> = CALLS.iter().filter_map(of_runtime).collect();
        assert_eq!(known, declared);
    }

    #[test]
    fn a_call_of_nobody_is_not_found() {
        assert_eq!(find(PULL), Some((PULL, Shape::Single)));
        for path in [
            "",
            "/",
            "/runtime.v1.RuntimeService/",
            "/runtime.v2.RuntimeService/Version",
        ] {
            assert_eq!(find(path), None, "{path}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_an_error() {
        let map = super::super::map::tests::map();
        let broken = Bytes::from_static(b"\xff\xff\xff");
        let error = request(&map, runtime!("RunPodSandbox"), broken.clone()).unwrap_err();
        assert_eq!(error.code(), tonic::Code::Internal);
        assert!(response(&map, runtime!("Status"), broken.clone()).is_err());
        let passes = request(&map, runtime!("StopPodSandbox"), broken.clone()).unwrap();
        assert_eq!(passes, Next::Ask(broken), "what is not read is not judged");
    }
}
