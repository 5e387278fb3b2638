//! Calls that fail, are given up, or find nobody.

use std::time::Duration;

use prost::bytes::Bytes;
use tonic::{Code, Request, Status};

use super::runtime::Reply;
use super::stage::{Stage, next, of_runtime};
use crate::cri::gateway::FAREWELL;
use crate::cri::v1::{
    ContainerEventResponse, CreateContainerRequest, CreateContainerResponse, GetEventsRequest,
    RunPodSandboxRequest, RunPodSandboxResponse, VersionRequest, VersionResponse,
};

#[tokio::test]
async fn errors_keep_their_code_message_and_details() {
    let stage = Stage::new().await;
    let call = of_runtime("Version");
    for code in [
        Code::NotFound,
        Code::AlreadyExists,
        Code::Unknown,
        Code::Unimplemented,
    ] {
        let error = Status::with_details(code, "sandbox \"é\" went", Bytes::from_static(b"why"));
        stage.runtime().reply(&call, Reply::Fail(error));
        let told = stage
            .ask::<VersionResponse>(&call, &VersionRequest::default())
            .await
            .unwrap_err();
        assert_eq!(told.code(), code);
        assert_eq!(told.message(), "sandbox \"é\" went");
        assert_eq!(told.details(), b"why");
    }
    let events = of_runtime("GetContainerEvents");
    stage
        .runtime()
        .reply(&events, Reply::Fail(Status::unimplemented("no events")));
    let refused = stage.listen(&events, &GetEventsRequest {}).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_stream_may_fail_half_way() {
    let stage = Stage::new().await;
    let call = of_runtime("GetContainerEvents");
    let mut stream = stage.listen(&call, &GetEventsRequest {}).await.unwrap();
    stage.runtime().send(&ContainerEventResponse::default());
    assert!(
        next::<ContainerEventResponse>(&mut stream)
            .await
            .unwrap()
            .is_some()
    );
    let error = Status::resource_exhausted("slow reader");
    stage.runtime().end_streams(Some(&error));
    let told = next::<ContainerEventResponse>(&mut stream)
        .await
        .unwrap_err();
    assert_eq!(
        (told.code(), told.message()),
        (Code::ResourceExhausted, "slow reader")
    );
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_the_runtime_is_asked() {
    let stage = Stage::new().await;
    let mut request = RunPodSandboxRequest {
        config: Some(crate::cri::v1::PodSandboxConfig::default()),
        ..RunPodSandboxRequest::default()
    };
    request.config.as_mut().unwrap().log_directory = r"\\.\pipe\x".into();
    let error = stage
        .ask::<RunPodSandboxResponse>(&of_runtime("RunPodSandbox"), &request)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(
        error.message().contains("is a named pipe"),
        "{}",
        error.message()
    );
    let empty = CreateContainerRequest::default();
    let error = stage
        .ask::<CreateContainerResponse>(&of_runtime("CreateContainer"), &empty)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(stage.runtime().asked().is_empty());
}

#[tokio::test]
async fn whoever_goes_takes_the_call_along() {
    let stage = Stage::new().await;
    let call = of_runtime("StopContainer");
    stage.runtime().reply(&call, Reply::Never);
    {
        let waiting = stage.raw(&call, Request::new(Bytes::new()));
        tokio::select! {
            answer = waiting => panic!("{answer:?}"),
            () = stage.runtime().begun() => {}
        }
    }
    stage.runtime().given_up(1).await;

    let events = of_runtime("GetContainerEvents");
    let stream = stage.listen(&events, &GetEventsRequest {}).await.unwrap();
    drop(stream);
    stage.runtime().given_up(2).await;
}

#[tokio::test]
async fn deadlines_are_kept_and_passed_on() {
    let stage = Stage::new().await;
    let call = of_runtime("StopContainer");
    stage.runtime().reply(&call, Reply::Never);
    let mut request = Request::new(Bytes::new());
    request.set_timeout(Duration::from_millis(500));
    let error = stage.raw(&call, request).await.unwrap_err();
    assert!(
        matches!(error.code(), Code::DeadlineExceeded | Code::Cancelled),
        "{error:?}"
    );
    let timeout = stage.runtime().asked()[0].timeout.clone();
    assert!(timeout.is_some(), "the runtime knows how long it has");
    stage.runtime().given_up(1).await;
}

#[tokio::test]
async fn a_runtime_may_be_away_and_come_back() {
    let mut stage = Stage::without_runtime().await;
    let call = of_runtime("Version");
    for round in 0..2 {
        let away = stage
            .ask::<VersionResponse>(&call, &VersionRequest::default())
            .await
            .unwrap_err();
        assert_eq!(away.code(), Code::Unavailable, "round {round}: {away:?}");
        stage.start_runtime();
        let back = stage
            .ask::<VersionResponse>(&call, &VersionRequest::default())
            .await;
        assert!(back.is_ok(), "round {round}: {back:?}");
        stage.runtime.take().unwrap().go().await;
        // What was on its way when it went may have been told otherwise; from now on it is away.
        let _ = stage
            .ask::<VersionResponse>(&call, &VersionRequest::default())
            .await;
    }
}

#[tokio::test]
async fn the_gateway_ends_though_somebody_listens() {
    let mut stage = Stage::new().await;
    let call = of_runtime("GetContainerEvents");
    let stream = stage.listen(&call, &GetEventsRequest {}).await.unwrap();
    let told = std::time::Instant::now();
    stage.end().await;
    assert!(told.elapsed() >= FAREWELL, "it had a moment");
    drop(stream);

    let mut stage = Stage::new().await;
    let version = of_runtime("Version");
    let _: VersionResponse = stage
        .ask(&version, &VersionRequest::default())
        .await
        .unwrap();
    let told = std::time::Instant::now();
    stage.end().await;
    assert!(told.elapsed() < FAREWELL, "nobody kept it");
}
