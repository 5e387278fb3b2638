//! Pulls.
//!
//! | an image of | is |
//! |---|---|
//! | the table, for this build | what stands in for it, which is there and in no registry |
//! | the table, for other builds or for Linux | refused as on Windows |
//! | no table, with a manifest for this build of Windows | its Linux one, from its registry |
//! | no table, without one | fetched, judged, removed, and refused as on Windows |
//! | no table, from a registry that does not answer | refused: nobody knows a Windows image of that name |

use prost::Message as _;
use prost::bytes::Bytes;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::calls::{self, Next};
use super::gateway::Gateway;
use super::images::{is_number, repository, whole};
use super::platforms;
use super::v1::{
    Image, ImageSpec, ImageStatusRequest, ImageStatusResponse, PullImageRequest, PullImageResponse,
    RemoveImageRequest,
};

/// How containerd begins when a registry does not answer.
const NO_ANSWER: &str = "failed to do request";

impl Gateway {
    /// Has images judged by their own manifests, where nothing else says what they hold.
    pub(super) async fn look_at(&self, references: Vec<String>) -> Result<(), Status> {
        for reference in references {
            self.look(&reference).await?;
        }
        Ok(())
    }

    /// The same for a call that asks which images there are: one that cannot be read is none, and no reason to hide the
    /// others. kubelet then pulls it anew, where what is wrong with it is told.
    pub(super) async fn look_over(&self, references: Vec<String>) -> Result<(), Status> {
        for reference in references {
            match self.look(&reference).await {
                Err(error) if is_of_the_image(error.code()) => {
                    self.tell(&reference, &error);
                    self.judge(&reference, &[]);
                }
                looked => looked?,
            }
        }
        Ok(())
    }

    async fn look(&self, reference: &str) -> Result<(), Status> {
        let is_name = !reference.is_empty() && !is_number(reference);
        if is_name && self.map().images().is_judged_by_manifests(reference) {
            let found = platforms::of_image(&self.runtime, &whole(reference)).await?;
            self.judge(reference, &found.unwrap_or_default());
        }
        Ok(())
    }

    /// The answer to a pull, where the runtime's own would not be one.
    pub(super) async fn pull(
        &self,
        bytes: &Bytes,
        metadata: &MetadataMap,
    ) -> Result<Option<Bytes>, Status> {
        let Ok(asked) = PullImageRequest::decode(bytes.clone()) else {
            return Ok(None);
        };
        let reference = asked.image.as_ref().map(|image| image.image.clone());
        let reference = reference.unwrap_or_default();
        let is_unknown = self.map().images().is_judged_by_manifests(&reference);
        if reference.is_empty() || !is_unknown {
            return self.pulled_before(bytes, metadata).await;
        }
        let own = PullImageRequest {
            image: Some(image(whole(&reference))),
            sandbox_config: None,
            ..asked
        };
        let own = own.encode_to_vec().into();
        let answer = match self.ask(calls::PULL, metadata.clone(), own).await {
            Err(error) if error.message().contains(NO_ANSWER) => {
                let offered = format!(
                    "no Windows image of that name is known here, and its registry does not answer ({})",
                    error.message()
                );
                return Err(self.map().no_match(reference, offered).into());
            }
            other => other?,
        };
        self.look_at(vec![reference.clone()]).await?;
        let mut judged = PullImageRequest {
            image: Some(image(reference.clone())),
            ..PullImageRequest::default()
        };
        let Err(refusal) = self.map().pull(&mut judged) else {
            return Ok(Some(answer));
        };
        // The refusal is what has to be told; what is left takes room and no more.
        let _ = self.remove(&whole(&reference), metadata).await;
        Err(refusal.into())
    }

    /// Removes what a pull brought.
    ///
    /// Kubelets' interface removes every name of an image, and what stands in for Windows may be one of them: where the
    /// image has names from elsewhere, only those of the pull go, which are its own and its digest's.
    async fn remove(&self, name: &str, metadata: &MetadataMap) -> Result<(), Status> {
        let image = Some(image(name.to_owned()));
        let found = self.found(image.clone(), metadata).await?;
        let found = found.unwrap_or_default();
        let own = repository(name);
        let (tags, digests) = (found.repo_tags, found.repo_digests);
        let is_tagged_otherwise = tags.iter().any(|tag| tag != name);
        if !is_tagged_otherwise && digests.iter().all(|digest| repository(digest) == own) {
            let all = RemoveImageRequest { image };
            let all = all.encode_to_vec().into();
            self.ask(calls::REMOVE_IMAGE, metadata.clone(), all).await?;
            return Ok(());
        }
        platforms::remove_name(&self.runtime, name).await?;
        // Another tag of the repository came with the same name by digest.
        let mut others = tags.iter().filter(|tag| *tag != name);
        if others.all(|tag| repository(tag) != own) {
            let of_pull = |digest: &&String| *digest != name && repository(digest) == own;
            for digest in digests.iter().filter(of_pull) {
                platforms::remove_name(&self.runtime, digest).await?;
            }
        }
        Ok(())
    }

    /// What the runtime has of an image.
    async fn found(
        &self,
        image: Option<ImageSpec>,
        metadata: &MetadataMap,
    ) -> Result<Option<Image>, Status> {
        let question = ImageStatusRequest {
            image,
            verbose: false,
        };
        let question = question.encode_to_vec().into();
        let answer = self
            .ask(calls::IMAGE_STATUS, metadata.clone(), question)
            .await?;
        Ok(calls::read::<ImageStatusResponse>(&answer)?.image)
    }

    /// The answer to a pull of an image that is there. What stands in for Windows images is in no registry.
    async fn pulled_before(
        &self,
        pull: &Bytes,
        metadata: &MetadataMap,
    ) -> Result<Option<Bytes>, Status> {
        let Next::Ask(pull) = calls::request(&self.map(), calls::PULL, pull.clone())? else {
            return Ok(None);
        };
        let pull: PullImageRequest = calls::read(&pull)?;
        let found = self.found(pull.image, metadata).await?;
        Ok(found.map(|image| {
            let answer = PullImageResponse {
                image_ref: image.id,
            };
            answer.encode_to_vec().into()
        }))
    }
}

/// Whether an error tells something of an image, and not of the runtime or of whoever asked.
const fn is_of_the_image(code: Code) -> bool {
    !matches!(
        code,
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded
    )
}

fn image(name: String) -> ImageSpec {
    ImageSpec {
        image: name,
        ..ImageSpec::default()
    }
}
