//! Images that are in no table, judged by their own manifests.

use prost::Message as _;
use tonic::{Code, Status};

use super::runtime::{Asked, Reply};
use super::stage::{Stage, of_images, of_runtime};
use crate::cri::calls;
use crate::cri::platforms::{
    Content, DELETE_IMAGE, DeleteImage, GET_IMAGE, GotImage, READ, StoredImage, Target,
};
use crate::cri::v1::*;

const APP: &str = "registry.example.com/shop/app:2";

fn spec(name: &str) -> ImageSpec {
    ImageSpec {
        image: name.into(),
        ..ImageSpec::default()
    }
}

async fn pull(stage: &Stage, name: &str) -> Result<PullImageResponse, Status> {
    let request = PullImageRequest {
        image: Some(spec(name)),
        ..PullImageRequest::default()
    };
    stage.ask(calls::PULL, &request).await
}

async fn status(stage: &Stage, name: &str) -> Option<Image> {
    let request = ImageStatusRequest {
        image: Some(spec(name)),
        verbose: false,
    };
    let answer: ImageStatusResponse = stage.ask(calls::IMAGE_STATUS, &request).await.unwrap();
    answer.image
}

/// The runtime's store has the image, and these documents.
fn stores(stage: &Stage, documents: &[(&str, &str)]) {
    let runtime = stage.runtime();
    let target = Some(Target {
        digest: documents[0].0.into(),
    });
    let image = Some(StoredImage { target });
    runtime.reply_with(&format!("{GET_IMAGE} {APP}"), &GotImage { image });
    for (digest, text) in documents {
        let data = text.as_bytes().to_vec().into();
        runtime.reply_with(&format!("{READ} {digest}"), &Content { data });
    }
    let image = Image {
        id: "sha256:1".into(),
        repo_tags: vec![APP.into()],
        ..Image::default()
    };
    let answer = ImageStatusResponse {
        image: Some(image.clone()),
        ..ImageStatusResponse::default()
    };
    runtime.reply_with(calls::IMAGE_STATUS, &answer);
    let images = vec![image];
    runtime.reply_with(&of_images("ListImages"), &ListImagesResponse { images });
    let pulled = PullImageResponse {
        image_ref: "sha256:1".into(),
    };
    runtime.reply_with(calls::PULL, &pulled);
}

fn list(platforms: &str) -> String {
    format!(r#"{{"schemaVersion":2,"manifests":[{platforms}]}}"#)
}

fn entry(os: &str, version: &str) -> String {
    format!(
        r#"{{"digest":"sha256:9","platform":{{"os":"{os}","architecture":"amd64","os.version":"{version}"}}}}"#
    )
}

#[tokio::test]
async fn an_image_with_a_manifest_for_this_build_is_one_of_windows() {
    let stage = Stage::new().await;
    let manifests = [
        entry("linux", ""),
        entry("windows", "10.0.17763.9"),
        entry("windows", "10.0.20348.9"),
    ];
    stores(&stage, &[("sha256:a", &list(&manifests.join(",")))]);
    let answer: ListImagesResponse = stage
        .ask(&of_images("ListImages"), &ListImagesRequest::default())
        .await
        .unwrap();
    assert_eq!(answer.images.len(), 1, "it was there before anybody asked");
    assert_eq!(pull(&stage, APP).await.unwrap().image_ref, "sha256:1");
    assert_eq!(status(&stage, APP).await.unwrap().repo_tags, [APP]);
}

#[tokio::test]
async fn an_image_for_other_builds_or_systems_is_refused_and_removed() {
    let single = r#"{"schemaVersion":2,"config":{"digest":"sha256:b"},"layers":[]}"#;
    let linux = r#"{"os":"linux","architecture":"amd64","rootfs":{}}"#;
    let other = list(&entry("windows", "10.0.26100.1"));
    let arm = entry("windows", "10.0.20348.1").replace("amd64", "arm64");
    for (documents, offered) in [
        (
            &[("sha256:a", other.as_str())][..],
            "10.0.26100.1 is offered",
        ),
        (
            &[("sha256:a", &list(&entry("linux", "")))],
            "nothing for Windows is offered",
        ),
        (
            &[("sha256:a", &list(&arm))],
            "nothing for Windows is offered",
        ),
        (
            &[("sha256:a", single), ("sha256:b", linux)],
            "nothing for Windows is offered",
        ),
    ] {
        let stage = Stage::new().await;
        stores(&stage, documents);
        let error = pull(&stage, APP).await.unwrap_err();
        assert_eq!(error.code(), Code::NotFound);
        let words = format!(
            "failed to pull and unpack image \"{APP}\": no match for platform in manifest: windows/amd64 \
             10.0.20348.3807 is wanted, {offered}: not found"
        );
        assert_eq!(error.message(), words);
        assert_eq!(removed(&stage), [format!("all names of {APP}")]);
        assert_eq!(status(&stage, APP).await, None, "{offered}");
    }
}

/// What was removed from the runtime's store.
fn removed(stage: &Stage) -> Vec<String> {
    let name_of = |asked: Asked| match asked.call.as_str() {
        DELETE_IMAGE => Some(DeleteImage::decode(asked.bytes).unwrap().name),
        calls::REMOVE_IMAGE => {
            let image = RemoveImageRequest::decode(asked.bytes).unwrap().image;
            Some(format!("all names of {}", image.unwrap().image))
        }
        _ => None,
    };
    let asked = stage.runtime().asked().into_iter();
    asked.filter_map(name_of).collect()
}

/// The store may have the same image under other names, which stand in for Windows.
#[tokio::test]
async fn a_refused_image_loses_what_its_pull_brought_and_nothing_else() {
    let digest = "registry.example.com/shop/app@sha256:a";
    let whole = [format!("all names of {APP}")];
    let both = [APP.to_owned(), digest.to_owned()];
    for (name, tags, digests, expected) in [
        (APP, &[APP][..], &[digest][..], &whole[..]),
        (APP, &[APP, "mullion.dev/nano:2022"], &[digest], &both),
        (
            APP,
            &[APP, "mullion.dev/nano:2022"],
            &[digest, "mullion.dev/nano@sha256:a"],
            &both,
        ),
        (APP, &[APP], &[digest, "mullion.dev/nano@sha256:a"], &both),
        (
            APP,
            &[APP, "registry.example.com/shop/app:1"],
            &[digest],
            &both[..1],
        ),
        (
            digest,
            &["mullion.dev/nano:2022"],
            &[digest, "mullion.dev/nano@sha256:a"],
            &both[1..],
        ),
    ] {
        let stage = Stage::new().await;
        stores(&stage, &[("sha256:a", &list(&entry("linux", "")))]);
        let image = Some(Image {
            id: "sha256:1".into(),
            repo_tags: tags.iter().map(ToString::to_string).collect(),
            repo_digests: digests.iter().map(ToString::to_string).collect(),
            ..Image::default()
        });
        let answer = ImageStatusResponse {
            image,
            ..ImageStatusResponse::default()
        };
        stage.runtime().reply_with(calls::IMAGE_STATUS, &answer);
        let error = pull(&stage, name).await.unwrap_err();
        assert_eq!(error.code(), Code::NotFound);
        assert_eq!(removed(&stage), expected, "{name} of {tags:?}");
    }
}

#[tokio::test]
async fn a_registry_is_believed_and_one_that_does_not_answer_leaves_nothing_known() {
    let stage = Stage::new().await;
    for (said, code, expected) in [
        (
            Status::not_found("failed to resolve image: x: not found"),
            Code::NotFound,
            "failed to resolve image: x: not found",
        ),
        (
            Status::unknown("failed to do request: Head \"https://x\": no such host"),
            Code::NotFound,
            "no match for platform in manifest: windows/amd64 10.0.20348.3807 is wanted, no Windows image of that name \
             is known here, and its registry does not answer (failed to do request: Head \"https://x\": no such host)",
        ),
    ] {
        stage.runtime().reply(calls::PULL, Reply::Fail(said));
        let error = pull(&stage, "shop/app").await.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.message().contains(expected), "{}", error.message());
    }
    let asked = stage.runtime().asked();
    let pulls = asked.iter().filter(|asked| asked.call == calls::PULL);
    for pull in pulls {
        let pull = PullImageRequest::decode(pull.bytes.clone()).unwrap();
        assert_eq!(pull.image.unwrap().image, "docker.io/shop/app:latest");
    }
}

async fn create(stage: &Stage, name: &str) -> Result<CreateContainerResponse, Status> {
    let request = CreateContainerRequest {
        config: Some(ContainerConfig {
            image: Some(spec(name)),
            ..ContainerConfig::default()
        }),
        ..CreateContainerRequest::default()
    };
    stage.ask(&of_runtime("CreateContainer"), &request).await
}

async fn listed(stage: &Stage) -> Result<Vec<String>, Status> {
    let call = of_images("ListImages");
    let answer: ListImagesResponse = stage.ask(&call, &ListImagesRequest::default()).await?;
    let images = answer.images.into_iter();
    Ok(images.flat_map(|image| image.repo_tags).collect())
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_is_an_error_where_the_image_is_needed() {
    let stage = Stage::new().await;
    stores(&stage, &[("sha256:a", "no JSON")]);
    assert_eq!(pull(&stage, APP).await.unwrap_err().code(), Code::Internal);
    let error = create(&stage, APP).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal);
}

#[tokio::test]
async fn an_image_that_cannot_be_read_hides_no_other() {
    let stage = Stage::new().await;
    stores(
        &stage,
        &[("sha256:a", &list(&entry("windows", "10.0.20348.9")))],
    );
    let named = |name: &str| Image {
        id: format!("sha256:{name}"),
        repo_tags: vec![name.into()],
        ..Image::default()
    };
    let known = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
    let local = "mullion.dev/nano:2022";
    let images = vec![named(APP), named(local)];
    let call = of_images("ListImages");
    stage
        .runtime()
        .reply_with(&call, &ListImagesResponse { images });
    assert_eq!(listed(&stage).await.unwrap(), [APP, known]);
    let content = format!("{READ} sha256:a");
    for trouble in [
        Status::not_found("content digest sha256:a: not found"),
        Status::unknown("input/output error"),
    ] {
        stage.runtime().reply(&content, Reply::Fail(trouble));
        assert_eq!(listed(&stage).await.unwrap(), [known]);
        assert_eq!(status(&stage, APP).await, None, "it is to be pulled anew");
    }
    // What tells of the runtime is no word about an image.
    let away = Status::unavailable("the store is closed");
    stage.runtime().reply(&content, Reply::Fail(away));
    assert_eq!(listed(&stage).await.unwrap_err().code(), Code::Unavailable);
}
