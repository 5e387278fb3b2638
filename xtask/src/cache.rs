//! What the user's cache holds, as `mullion artifacts list` tells it.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::{XtaskError, tools};

/// The cache, and what of it the default cluster uses.
#[derive(Deserialize)]
pub(crate) struct Cache {
    #[serde(rename = "cache")]
    folder: PathBuf,
    artifacts: Vec<Artifact>,
}

#[derive(Deserialize)]
struct Artifact {
    kind: String,
    name: String,
    version: String,
    os: String,
}

impl Cache {
    /// Asks the program.
    pub(crate) fn ask(program: &Path) -> Result<Self, XtaskError> {
        let mut list = Command::new(program);
        let empty = tempfile::tempdir()?;
        list.args(["artifacts", "list", "--json"])
            .current_dir(empty.path());
        let text = tools::read(&mut list)?;
        serde_json::from_str(&text).map_err(|error| XtaskError::Answer {
            command: tools::shown(&list),
            detail: error.to_string(),
        })
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts every Linux program of the cache into one folder.
    pub(crate) fn link_programs(&self, folder: &Path) -> Result<(), XtaskError> {
        for program in self.linux("program") {
            symlink(self.file(program), folder.join(&program.name))?;
        }
        Ok(())
    }

    /// Puts what a Linux template is made of into one folder: `root.tar`, programs in `bin/`, images in `images/`.
    pub(crate) fn link_parts(&self, folder: &Path) -> Result<(), XtaskError> {
        let (programs, images) = (folder.join("bin"), folder.join("images"));
        for folder in [&programs, &images] {
            std::fs::create_dir(folder)?;
        }
        for root in self.linux("root").take(1) {
            symlink(self.file(root), folder.join("root.tar"))?;
        }
        for image in self.linux("image") {
            symlink(self.file(image), images.join(format!("{}.tar", image.name)))?;
        }
        // A program that is in an image has no place of its own on a machine.
        let in_images: BTreeSet<_> = self.linux("image").map(|image| &image.name).collect();
        for program in self.linux("program") {
            if !in_images.contains(&program.name) {
                symlink(self.file(program), programs.join(&program.name))?;
            }
        }
        Ok(())
    }

    fn linux<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Artifact> {
        let is_wanted = move |artifact: &&Artifact| artifact.kind == kind && artifact.os == "linux";
        self.artifacts.iter().filter(is_wanted)
    }

    /// Where the cache has an artifact's file.
    fn file(&self, artifact: &Artifact) -> PathBuf {
        let Artifact {
            kind,
            name,
            version,
            os,
        } = artifact;
        if kind == "root" {
            let place = format!("{name}-{version}");
            return self.folder.join("roots").join(place).join("root.tar");
        }
        let file = match kind.as_str() {
            "image" => format!("{name}.tar"),
            _ => name.clone(),
        };
        let parts = self.folder.join("parts").join(os).join(kind);
        parts.join(format!("{name}@{version}")).join(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_template_are_put_together_by_links() {
        let artifact = |kind: &str, name: &str, os: &str| serde_json::json!({"kind": kind, "name": name, "version": "1", "os": os, "cached": true});
        let listed = serde_json::json!({"cluster": "mullion", "cache": "/cache", "artifacts": [
            artifact("program", "kubelet", "linux"),
            artifact("program", "kubelet", "windows"),
            artifact("program", "pause", "linux"),
            artifact("image", "pause", "linux"),
            artifact("root", "bookworm", "linux"),
        ]});
        let cache: Cache = serde_json::from_value(listed).unwrap();
        let folder = tempfile::tempdir().unwrap();
        cache.link_parts(folder.path()).unwrap();
        let leads = |link: &str| std::fs::read_link(folder.path().join(link)).unwrap();
        for (link, file) in [
            ("root.tar", "roots/bookworm-1/root.tar"),
            ("bin/kubelet", "parts/linux/program/kubelet@1/kubelet"),
            ("images/pause.tar", "parts/linux/image/pause@1/pause.tar"),
        ] {
            assert_eq!(leads(link), Path::new("/cache").join(file));
        }
        let programs = std::fs::read_dir(folder.path().join("bin")).unwrap();
        assert_eq!(programs.count(), 1);
    }
}
