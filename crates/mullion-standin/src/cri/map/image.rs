//! Images: asked for by Windows names, answered by what stands in for them.

use serde_json::Value;

use super::sandbox::usual_runtime;
use super::{Map, Refusal};
use crate::cri::images::{Found, Image, Origin, is_number};
use crate::cri::v1;
use crate::cri::v1::{
    FilesystemUsage, ImageFilter, ImageFsInfoResponse, ImageSpec, ImageStatusRequest,
    ImageStatusResponse, ListImagesRequest, ListImagesResponse, PullImageRequest,
    RemoveImageRequest, StreamImagesRequest, StreamImagesResponse,
};

/// Where files of containers and images are, as far as Windows can ask: kubelet wants to know how full that is.
const STORE: &str = r"C:\";

/// Where a question about an image goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cri) enum Ask {
    /// To the Linux runtime.
    Runtime,
    /// Nowhere: there is no such image on this node.
    Nobody,
}

impl Map {
    /// Names an image as the Linux runtime does.
    fn ask_for(&self, image: Option<&mut ImageSpec>) -> Ask {
        let Some(image) = image else {
            return Ask::Runtime;
        };
        usual_runtime(&mut image.runtime_handler);
        if image.image.is_empty() || is_number(&image.image) {
            return Ask::Runtime;
        }
        match self.images.find(&image.image, self.host) {
            Found::Fits(found) => {
                image.image.clone_from(&found.local);
                Ask::Runtime
            }
            Found::OtherBuild(_) | Found::LinuxOnly | Found::Unknown => Ask::Nobody,
        }
    }

    fn ask_by(&self, filter: Option<&mut ImageFilter>) -> Ask {
        self.ask_for(filter.and_then(|filter| filter.image.as_mut()))
    }

    /// `ImageStatus`
    pub(in crate::cri) fn image_asked(&self, request: &mut ImageStatusRequest) -> Ask {
        self.ask_for(request.image.as_mut())
    }

    /// `ListImages`
    pub(in crate::cri) fn images_asked(&self, request: &mut ListImagesRequest) -> Ask {
        self.ask_by(request.filter.as_mut())
    }

    /// `StreamImages`
    pub(in crate::cri) fn image_stream_asked(&self, request: &mut StreamImagesRequest) -> Ask {
        self.ask_by(request.filter.as_mut())
    }

    /// `RemoveImage`
    pub(in crate::cri) fn image_removed(&self, request: &mut RemoveImageRequest) -> Ask {
        self.ask_for(request.image.as_mut())
    }

    /// `PullImage`. An image that has nothing for this host is refused as containerd does on Windows.
    pub(in crate::cri) fn pull(&self, request: &mut PullImageRequest) -> Result<(), Refusal> {
        let image = request.image.as_mut().ok_or(Refusal::Missing("image"))?;
        usual_runtime(&mut image.runtime_handler);
        let asked = image.image.clone();
        let offered = match self.images.find(&asked, self.host) {
            Found::Fits(found) => {
                image.image.clone_from(&found.local);
                // It says how a Windows pod is, and pulling does not need it.
                request.sandbox_config = None;
                return Ok(());
            }
            Found::OtherBuild(found) => match found.version {
                Some(version) => format!("{version} is offered"),
                None => "another is offered".into(),
            },
            Found::LinuxOnly | Found::Unknown => "nothing for Windows is offered".into(),
        };
        Err(self.no_match(asked, offered))
    }

    /// An image that has nothing for this host.
    pub(in crate::cri) fn no_match(&self, image: String, offered: String) -> Refusal {
        Refusal::NoMatch {
            image,
            host: self.host,
            offered,
        }
    }

    /// A container's image, by its Windows name.
    pub(super) fn image_back(&self, image: Option<&mut ImageSpec>) {
        let Some(image) = image else {
            return;
        };
        if image.user_specified_image.is_empty() || is_number(&image.user_specified_image) {
            self.reference_back(&mut image.image);
        } else if !is_number(&image.image) {
            image.image.clone_from(&image.user_specified_image);
        }
    }

    /// A name of the Linux runtime, as Windows' name; what stands in for nothing is left.
    pub(super) fn reference_back(&self, reference: &mut String) {
        if let Some(name) = self.images.windows_name(reference, self.host) {
            *reference = name;
        }
    }

    /// An image by all its Windows names. Nothing where it stands in for none: such an image is not on a Windows node.
    fn windows_image(&self, mut image: v1::Image) -> Option<(v1::Image, &Image)> {
        let behind = |name: &String| self.images.standing_behind(name, self.host);
        // One that was pulled by its digest has no tag.
        let names = image.repo_tags.iter().chain(&image.repo_digests);
        let found: Vec<_> = names.flat_map(behind).collect();
        let first = *found.first()?;
        let tags = found.iter().filter(|image| !image.name.contains('@'));
        image.repo_tags = tags.map(|image| image.name.clone()).collect();
        image.repo_tags.sort();
        image.repo_tags.dedup();
        for digest in &mut image.repo_digests {
            self.reference_back(digest);
        }
        if let Some(spec) = &mut image.spec {
            self.reference_back(&mut spec.image);
        }
        image.uid = None;
        image.username = first.user.clone().unwrap_or_default();
        // A node without a registry could not get it back.
        image.pinned |= first.origin == Origin::Table;
        Some((image, first))
    }

    /// `ImageStatus`
    pub(in crate::cri) fn image_status(&self, response: &mut ImageStatusResponse) {
        let Some(image) = response.image.take() else {
            return;
        };
        let Some((image, row)) = self.windows_image(image) else {
            response.info.clear();
            return;
        };
        response.image = Some(image);
        if let Some(info) = response.info.get_mut("info") {
            let version = row.version.map(|version| version.to_string());
            if let Some(changed) = windows_info(info, version) {
                *info = changed;
            }
        }
    }

    fn windows_images(&self, images: &mut Vec<v1::Image>) {
        let found = std::mem::take(images);
        let windows = found
            .into_iter()
            .filter_map(|image| self.windows_image(image));
        images.extend(windows.map(|(image, _)| image));
    }

    /// `ListImages`
    pub(in crate::cri) fn image_list(&self, response: &mut ListImagesResponse) {
        self.windows_images(&mut response.images);
    }

    /// `StreamImages`
    pub(in crate::cri) fn image_stream(&self, response: &mut StreamImagesResponse) {
        self.windows_images(&mut response.images);
    }
}

/// `ImageFsInfo`
pub(in crate::cri) fn image_store(response: &mut ImageFsInfoResponse) {
    let stores = response.image_filesystems.iter_mut();
    for store in stores.chain(&mut response.container_filesystems) {
        store_back(store);
    }
}

/// How full a store is, by a path that Windows can look at.
pub(super) fn store_back(store: &mut FilesystemUsage) {
    if let Some(place) = &mut store.fs_id {
        STORE.clone_into(&mut place.mountpoint);
    }
}

/// What is told of an image in detail, with Windows as its platform.
fn windows_info(info: &str, version: Option<String>) -> Option<String> {
    let mut info: Value = serde_json::from_str(info).ok()?;
    let spec = info.get_mut("imageSpec")?.as_object_mut()?;
    spec.insert("os".into(), "windows".into());
    if let Some(version) = version {
        spec.insert("os.version".into(), version.into());
    }
    Some(info.to_string())
}

#[cfg(test)]
mod tests;
