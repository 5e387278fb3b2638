//! Calls that go through: changed where they must be, and as they are where not.

use prost::Message as _;
use prost::bytes::Bytes;
use tonic::{Code, Request};

use super::stage::{Stage, next, of_images, of_runtime};
use crate::cri::calls::{CALLS, Shape};
use crate::cri::v1::{
    ContainerEventResponse, ContainerStatus, ContainerStatusRequest, ContainerStatusResponse,
    GetEventsRequest, Image, ImageFilter, ImageSpec, ImageStatusRequest, ImageStatusResponse,
    ListImagesRequest, ListImagesResponse, PodSandboxConfig, PullImageRequest, PullImageResponse,
    RunPodSandboxRequest, RunPodSandboxResponse, StreamImagesRequest, StreamImagesResponse,
    VersionRequest, VersionResponse,
};

const NANO: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

#[allow(
    clippy::unnecessary_wraps,
    reason = "every part of a message may be missing"
)]
fn spec(name: &str) -> Option<ImageSpec> {
    Some(ImageSpec {
        image: name.into(),
        ..ImageSpec::default()
    })
}

fn local() -> Image {
    Image {
        id: "sha256:1".into(),
        repo_tags: vec!["mullion.dev/nano:2022".into()],
        ..Image::default()
    }
}

#[tokio::test]
async fn a_request_is_changed_on_its_way_and_an_answer_on_its_way_back() {
    let stage = Stage::new().await;
    let run = of_runtime("RunPodSandbox");
    stage.runtime().reply_with(
        &run,
        &RunPodSandboxResponse {
            pod_sandbox_id: "p1".into(),
        },
    );
    let request = RunPodSandboxRequest {
        config: Some(PodSandboxConfig {
            log_directory: r"C:\var\log\pods\p".into(),
            ..PodSandboxConfig::default()
        }),
        ..RunPodSandboxRequest::default()
    };
    let answer: RunPodSandboxResponse = stage.ask(&run, &request).await.unwrap();
    assert_eq!(answer.pod_sandbox_id, "p1");
    let asked: RunPodSandboxRequest = stage.runtime().asked_for(&run);
    assert_eq!(asked.config.unwrap().log_directory, "/srv/c/var/log/pods/p");

    let status = of_runtime("ContainerStatus");
    stage.runtime().reply_with(
        &status,
        &ContainerStatusResponse {
            status: Some(ContainerStatus {
                log_path: "/srv/c/var/log/pods/p/c/0.log".into(),
                ..ContainerStatus::default()
            }),
            ..ContainerStatusResponse::default()
        },
    );
    let answer: ContainerStatusResponse = stage
        .ask(&status, &ContainerStatusRequest::default())
        .await
        .unwrap();
    assert_eq!(
        answer.status.unwrap().log_path,
        r"C:\var\log\pods\p\c\0.log"
    );
}

#[tokio::test]
async fn every_call_of_the_table_passes() {
    let stage = Stage::new().await;
    for (call, shape) in CALLS {
        // These need something in their request, and are shown elsewhere.
        let is_empty_refused = ["RunPodSandbox", "CreateContainer", "PullImage"]
            .iter()
            .any(|name| call.ends_with(name));
        if is_empty_refused {
            continue;
        }
        match shape {
            Shape::Single => {
                let passed = stage.raw(call, Request::new(Bytes::new())).await;
                assert!(passed.is_ok(), "{call}: {passed:?}");
            }
            Shape::Stream => {
                let mut stream = stage.listen(call, &GetEventsRequest {}).await.unwrap();
                stage.runtime().end_streams(None);
                assert!(stream.message().await.unwrap().is_none(), "{call}");
            }
        }
        let asked = stage.runtime().asked();
        assert_eq!(asked.last().map(|asked| asked.call.as_str()), Some(call));
    }
}

#[tokio::test]
async fn a_call_that_nobody_knows_is_answered_so() {
    let stage = Stage::new().await;
    for call in [
        "/runtime.v1.RuntimeService/Hibernate",
        "/runtime.v2.RuntimeService/Version",
    ] {
        let error = stage
            .raw(call, Request::new(Bytes::new()))
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented);
        assert!(error.message().contains(call), "{}", error.message());
    }
    assert!(stage.runtime().asked().is_empty());
}

#[tokio::test]
async fn fields_that_nobody_knows_pass_where_nothing_is_changed() {
    let stage = Stage::new().await;
    let call = of_runtime("StopPodSandbox");
    // Field 2000, a text.
    let unknown = Bytes::from_static(b"\x0a\x02p1\x82\x7d\x05later");
    stage
        .runtime()
        .reply(&call, super::runtime::Reply::With(unknown.clone()));
    let answer = stage.raw(&call, Request::new(unknown.clone())).await;
    assert_eq!(answer.unwrap(), unknown);
    assert_eq!(stage.runtime().asked()[0].bytes, unknown);
}

#[tokio::test]
async fn an_image_that_is_there_is_not_pulled() {
    let stage = Stage::new().await;
    let request = PullImageRequest {
        image: spec(NANO),
        ..PullImageRequest::default()
    };
    let pull = of_images("PullImage");
    let pulled = PullImageResponse {
        image_ref: "sha256:pulled".into(),
    };
    stage.runtime().reply_with(&pull, &pulled);
    let answer: PullImageResponse = stage.ask(&pull, &request).await.unwrap();
    assert_eq!(answer.image_ref, "sha256:pulled", "it was not there");
    let asked: PullImageRequest = stage.runtime().asked_for(&pull);
    assert_eq!(asked.image, spec("mullion.dev/nano:2022"));

    stage.runtime().reply_with(
        &of_images("ImageStatus"),
        &ImageStatusResponse {
            image: Some(local()),
            ..ImageStatusResponse::default()
        },
    );
    let answer: PullImageResponse = stage.ask(&pull, &request).await.unwrap();
    assert_eq!(answer.image_ref, "sha256:1");
    let pulls = stage.runtime().asked();
    let pulls = pulls.iter().filter(|asked| asked.call == pull).count();
    assert_eq!(pulls, 1, "not again");
}

#[tokio::test]
async fn an_image_with_nothing_for_this_node_is_refused_without_asking() {
    let stage = Stage::new().await;
    for name in ["nginx", "mcr.microsoft.com/windows/nanoserver:1809"] {
        let pull = PullImageRequest {
            image: spec(name),
            ..PullImageRequest::default()
        };
        let error = stage
            .ask::<PullImageResponse>(&of_images("PullImage"), &pull)
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::NotFound);
        assert!(
            error
                .message()
                .contains("no match for platform in manifest")
        );
        let status = ImageStatusRequest {
            image: spec(name),
            verbose: true,
        };
        let answer: ImageStatusResponse =
            stage.ask(&of_images("ImageStatus"), &status).await.unwrap();
        assert_eq!(answer, ImageStatusResponse::default());
        let filter = Some(ImageFilter { image: spec(name) });
        let list = ListImagesRequest {
            filter: filter.clone(),
        };
        let answer: ListImagesResponse = stage.ask(&of_images("ListImages"), &list).await.unwrap();
        assert!(answer.images.is_empty());
        let streamed = StreamImagesRequest { filter };
        let mut stream = stage
            .listen(&of_images("StreamImages"), &streamed)
            .await
            .unwrap();
        let first: Option<StreamImagesResponse> = next(&mut stream).await.unwrap();
        assert!(first.unwrap().images.is_empty());
        assert!(stream.message().await.unwrap().is_none());
    }
    assert!(stage.runtime().asked().is_empty());
}

#[tokio::test]
async fn events_come_as_they_happen() {
    let stage = Stage::new().await;
    let call = of_runtime("GetContainerEvents");
    let mut stream = stage.listen(&call, &GetEventsRequest {}).await.unwrap();
    for number in 0..3 {
        stage.runtime().send(&ContainerEventResponse {
            container_id: format!("c{number}"),
            containers_statuses: vec![ContainerStatus {
                log_path: format!("/srv/c/{number}.log"),
                ..ContainerStatus::default()
            }],
            ..ContainerEventResponse::default()
        });
        let event: ContainerEventResponse = next(&mut stream).await.unwrap().unwrap();
        assert_eq!(event.container_id, format!("c{number}"));
        let log = &event.containers_statuses[0].log_path;
        assert_eq!(log, &format!(r"C:\{number}.log"));
    }
    stage.runtime().end_streams(None);
    let end: Option<ContainerEventResponse> = next(&mut stream).await.unwrap();
    assert_eq!(end, None);
}

#[tokio::test]
async fn many_calls_go_at_once() {
    let stage = std::sync::Arc::new(Stage::new().await);
    let version = VersionResponse {
        runtime_name: "another".into(),
        runtime_version: "v2.2.2".into(),
        ..VersionResponse::default()
    };
    let call = of_runtime("Version");
    stage.runtime().reply_with(&call, &version);
    let calls = (0..200).map(|_| {
        let (stage, call) = (stage.clone(), call.clone());
        tokio::spawn(async move {
            let request = VersionRequest::default();
            let answer: VersionResponse = stage.ask(&call, &request).await.unwrap();
            (answer.runtime_name, answer.runtime_version)
        })
    });
    for answer in calls.collect::<Vec<_>>() {
        assert_eq!(
            answer.await.unwrap(),
            ("containerd".into(), "v2.2.2".into())
        );
    }
}

#[tokio::test]
async fn large_messages_pass_up_to_the_limit() {
    let stage = Stage::new().await;
    let call = of_runtime("ReopenContainerLog");
    let of_size = |size: usize| {
        let message = VersionRequest {
            version: "x".repeat(size),
        };
        Bytes::from(message.encode_to_vec())
    };
    let limit = 16 * 1024 * 1024;
    let large = of_size(limit - 16);
    stage
        .runtime()
        .reply(&call, super::runtime::Reply::With(large.clone()));
    let answer = stage.raw(&call, Request::new(large.clone())).await.unwrap();
    assert!(answer == large);
    let error = stage
        .raw(&call, Request::new(of_size(limit + 1)))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error:?}");
    stage
        .runtime()
        .reply(&call, super::runtime::Reply::With(of_size(limit + 1)));
    let error = stage
        .raw(&call, Request::new(Bytes::new()))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error:?}");
}
