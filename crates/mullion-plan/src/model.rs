//! From the catalog's model to what planning works on.

use std::collections::BTreeMap;

use mullion_catalog::{ArtifactKind, Build, Model};

use crate::wanted::{Part, PartKind, Wanted};

impl<'a> Wanted<'a> {
    /// What a model wants.
    pub fn of(model: &'a Model) -> Self {
        let parts = model.artifacts().iter().filter_map(|artifact| {
            // An archive of programs is one way to get them, not a part of its own.
            if matches!(artifact.build, Some(Build::Parts { .. })) {
                return None;
            }
            let name = artifact.name.as_str();
            Some(Part {
                name: name.strip_suffix("-image").unwrap_or(name).to_owned(),
                os: artifact.os,
                kind: match artifact.kind {
                    ArtifactKind::Program => PartKind::Program,
                    ArtifactKind::Image => PartKind::Image,
                    ArtifactKind::Archive => PartKind::Archive,
                    // A template takes packages from its distribution; they are not fetched one by one.
                    ArtifactKind::Package => return None,
                },
                version: artifact.version.clone(),
            })
        });
        Self {
            cluster: model.cluster(),
            kubernetes: model.kubernetes().version,
            parts: parts.collect(),
            contents: BTreeMap::new(),
            archives: Vec::new(),
        }
    }
}
