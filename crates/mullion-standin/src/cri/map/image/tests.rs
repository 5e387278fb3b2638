//! Images, both ways.

use super::super::tests::map;
use super::*;
use crate::cri::v1::{FilesystemIdentifier, Int64Value, PodSandboxConfig};
use tonic::{Code, Status};

const NANO: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
const OLD: &str = "mcr.microsoft.com/windows/nanoserver:1809";

fn spec(name: &str) -> ImageSpec {
    ImageSpec {
        image: name.into(),
        ..ImageSpec::default()
    }
}

/// An image as containerd tells it.
fn local(tag: &str) -> v1::Image {
    let repository = tag.split(':').next().unwrap();
    v1::Image {
        id: format!("sha256:{}", "3".repeat(64)),
        repo_tags: vec![tag.into()],
        repo_digests: vec![format!("{repository}@sha256:{}", "4".repeat(64))],
        uid: Some(Int64Value { value: 0 }),
        ..v1::Image::default()
    }
}

#[test]
fn a_pull_is_of_what_stands_in_or_refused_as_on_windows() {
    let pull = |name: &str| {
        let mut request = PullImageRequest {
            image: Some(spec(name)),
            sandbox_config: Some(PodSandboxConfig::default()),
            ..PullImageRequest::default()
        };
        map().pull(&mut request).map(|()| request)
    };
    let pulled = pull(NANO).unwrap();
    assert_eq!(pulled.image.unwrap().image, "mullion.dev/nano:2022");
    assert_eq!(pulled.sandbox_config, None);
    for (name, offered) in [
        (OLD, "10.0.17763.1 is offered"),
        (
            "docker.io/library/nginx:1",
            "nothing for Windows is offered",
        ),
    ] {
        let status: Status = pull(name).unwrap_err().into();
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(
            status.message(),
            format!(
                "failed to pull and unpack image \"{name}\": no match for platform in manifest: windows/amd64 \
                 10.0.20348.3807 is wanted, {offered}: not found"
            )
        );
    }
    let none = map().pull(&mut PullImageRequest::default());
    assert_eq!(none, Err(Refusal::Missing("image")));
}

#[test]
fn the_runtime_is_asked_only_for_what_can_be_there() {
    let number = format!("sha256:{}", "5".repeat(64));
    for (name, expected, asked) in [
        (NANO, Ask::Runtime, "mullion.dev/nano:2022"),
        (OLD, Ask::Nobody, OLD),
        ("nginx", Ask::Nobody, "nginx"),
        (&number, Ask::Runtime, &number),
        ("", Ask::Runtime, ""),
    ] {
        let mut status = ImageStatusRequest {
            image: Some(spec(name)),
            verbose: false,
        };
        assert_eq!(map().image_asked(&mut status), expected, "{name}");
        assert_eq!(status.image.unwrap().image, asked);
        let filter = Some(ImageFilter {
            image: Some(spec(name)),
        });
        let mut list = ListImagesRequest {
            filter: filter.clone(),
        };
        assert_eq!(map().images_asked(&mut list), expected, "{name}");
        let mut stream = StreamImagesRequest { filter };
        assert_eq!(map().image_stream_asked(&mut stream), expected, "{name}");
        let mut remove = RemoveImageRequest {
            image: Some(spec(name)),
        };
        assert_eq!(map().image_removed(&mut remove), expected, "{name}");
    }
    let mut all = ListImagesRequest::default();
    assert_eq!(map().images_asked(&mut all), Ask::Runtime);
}

#[test]
fn the_usual_runtime_has_no_name_on_linux() {
    let image = |runtime: &str| {
        Some(ImageSpec {
            runtime_handler: runtime.into(),
            ..spec(NANO)
        })
    };
    for (asked, expected) in [("runhcs-wcow-process", ""), ("other", "other"), ("", "")] {
        let mut status = ImageStatusRequest {
            image: image(asked),
            verbose: false,
        };
        map().image_asked(&mut status);
        assert_eq!(status.image.unwrap().runtime_handler, expected);
        let mut pull = PullImageRequest {
            image: image(asked),
            ..PullImageRequest::default()
        };
        map().pull(&mut pull).unwrap();
        assert_eq!(pull.image.unwrap().runtime_handler, expected);
    }
}

#[test]
fn an_image_that_was_pulled_by_its_digest_is_there() {
    let pinned = format!("r.io/app@sha256:{}", "4".repeat(64));
    let mut map = map();
    map.images = map
        .images
        .with_judged(&format!("r.io/app:1@sha256:{}", "4".repeat(64)), &[None]);
    let mut response = ImageStatusResponse {
        image: Some(v1::Image {
            repo_tags: Vec::new(),
            ..local("r.io/app:1")
        }),
        ..ImageStatusResponse::default()
    };
    map.image_status(&mut response);
    let image = response.image.unwrap();
    assert!(image.repo_tags.is_empty(), "{:?}", image.repo_tags);
    assert_eq!(image.repo_digests, [pinned]);
}

#[test]
fn a_status_says_windows() {
    let mut response = ImageStatusResponse {
        image: Some(local("mullion.dev/nano:2022")),
        info: [(
            "info".to_owned(),
            r#"{"chainID":"sha256:1","imageSpec":{"architecture":"amd64","os":"linux"}}"#
                .to_owned(),
        )]
        .into(),
    };
    map().image_status(&mut response);
    let image = response.image.unwrap();
    assert_eq!(image.repo_tags, [NANO]);
    assert!(image.repo_digests[0].starts_with("mcr.microsoft.com/windows/nanoserver@sha256:4"));
    assert_eq!(
        (image.uid, image.username.as_str()),
        (None, "ContainerUser")
    );
    assert!(
        image.pinned,
        "no collector removes what nobody can get back"
    );
    let info: Value = serde_json::from_str(&response.info["info"]).unwrap();
    assert_eq!(info["imageSpec"]["os"], "windows");
    assert_eq!(info["imageSpec"]["os.version"], "10.0.20348.3807");
    assert_eq!(info["imageSpec"]["architecture"], "amd64");
    assert_eq!(info["chainID"], "sha256:1");

    let mut broken = ImageStatusResponse {
        image: Some(local("mullion.dev/nano:2022")),
        info: [("info".to_owned(), "not JSON".to_owned())].into(),
    };
    map().image_status(&mut broken);
    assert_eq!(broken.info["info"], "not JSON");
}

#[test]
fn images_of_linux_are_not_on_a_windows_node() {
    let mut response = ImageStatusResponse {
        image: Some(local("docker.io/library/nginx:latest")),
        info: [("info".to_owned(), "{}".to_owned())].into(),
    };
    map().image_status(&mut response);
    assert_eq!(response, ImageStatusResponse::default());
    let found = [
        "docker.io/library/nginx:latest",
        "mullion.dev/nano:2022",
        "mullion.dev/nano:1809",
    ];
    let mut list = ListImagesResponse {
        images: found.map(local).to_vec(),
    };
    map().image_list(&mut list);
    let mut stream = StreamImagesResponse {
        images: found.map(local).to_vec(),
    };
    map().image_stream(&mut stream);
    assert_eq!(list.images, stream.images);
    let tags: Vec<_> = list
        .images
        .iter()
        .flat_map(|image| &image.repo_tags)
        .collect();
    assert_eq!(tags, [NANO]);
}

#[test]
fn the_store_is_where_windows_can_look() {
    let store = |path: &str| FilesystemUsage {
        fs_id: Some(FilesystemIdentifier {
            mountpoint: path.into(),
        }),
        ..FilesystemUsage::default()
    };
    let mut response = ImageFsInfoResponse {
        image_filesystems: vec![store("/var/lib/containerd/images")],
        container_filesystems: vec![store("/var/lib/containerd/snapshots")],
    };
    image_store(&mut response);
    assert_eq!(response.image_filesystems, [store(r"C:\")]);
    assert_eq!(response.container_filesystems, [store(r"C:\")]);
}
