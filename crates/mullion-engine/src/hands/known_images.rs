//! What a stand-in knows of images without asking a registry: the catalog's Windows images, and the cluster's own of Linux.

use mullion_catalog::{ArtifactKind, ArtifactRef, Catalog};
use mullion_spec::words::Os;
use mullion_template::KnownImage;

/// The artifact whose image stands in for those that hold Windows alone: it has a shell and servers.
const TOOLS: &str = "agnhost-image";

/// The table, of a cluster's artifacts.
pub(super) fn known_images(artifacts: &[ArtifactRef]) -> Vec<KnownImage> {
    let of_linux: Vec<_> = artifacts
        .iter()
        .filter(|artifact| artifact.kind == ArtifactKind::Image && artifact.os == Os::Linux)
        .filter_map(|artifact| Some((artifact.name.as_str(), artifact.address.as_deref()?)))
        .collect();
    let tools = of_linux.iter().find(|(name, _)| *name == TOOLS);
    let tools = tools.map(|(_, address)| (*address).to_owned());
    let windows: Vec<_> = Catalog::builtin().windows_images().collect();
    let linux_alone = of_linux
        .iter()
        .filter(|(_, address)| windows.iter().all(|image| image.name != *address))
        .map(|(_, address)| KnownImage::Linux {
            name: (*address).to_owned(),
        });
    let linux_alone: Vec<_> = linux_alone.collect();
    let known = windows.into_iter().filter_map(|image| {
        let (local, command) = if image.linux {
            (None, Vec::new())
        } else {
            (Some(tools.clone()?), command(image.serves))
        };
        Some(KnownImage::Windows {
            name: image.name,
            local,
            builds: image.builds,
            command,
        })
    });
    known.chain(linux_alone).collect()
}

/// What runs in place of an image's own program: its server, or a shell as `cmd` is on Windows.
fn command(serves: Option<u16>) -> Vec<String> {
    match serves {
        Some(port) => vec![
            "/agnhost".into(),
            "netexec".into(),
            format!("--http-port={port}"),
        ],
        None => vec!["/bin/sh".into()],
    }
}
