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

#[cfg(test)]
mod tests {
    use mullion_catalog::Digest;

    use super::*;

    const AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
    const PAUSE: &str = "registry.k8s.io/pause:3.10.2";
    const COREDNS: &str = "registry.k8s.io/coredns/coredns:v1.14.2";

    fn artifact(name: &str, address: &str) -> ArtifactRef {
        ArtifactRef {
            name: name.into(),
            kind: ArtifactKind::Image,
            os: Os::Linux,
            version: String::new(),
            file: None,
            address: Some(address.into()),
            checksum: None,
            digest: Digest::Unknown,
            build: None,
            control_plane: false,
            source: String::new(),
        }
    }

    fn names(known: &[KnownImage]) -> (Vec<&str>, Vec<&str>) {
        let (mut windows, mut linux) = (Vec::new(), Vec::new());
        for image in known {
            match image {
                KnownImage::Windows { name, .. } => windows.push(name.as_str()),
                KnownImage::Linux { name } => linux.push(name.as_str()),
            }
        }
        (windows, linux)
    }

    #[test]
    fn an_image_of_both_systems_is_none_of_linux_alone() {
        let known = known_images(&[
            artifact(TOOLS, AGNHOST),
            artifact("pause-image", PAUSE),
            artifact("coredns-image", COREDNS),
        ]);
        let (windows, linux) = names(&known);
        assert_eq!(linux, [COREDNS]);
        assert!(windows.contains(&AGNHOST) && windows.contains(&PAUSE));
    }

    #[test]
    fn what_holds_windows_alone_is_stood_in_for_by_the_tools_with_its_own_server() {
        let known = known_images(&[artifact(TOOLS, AGNHOST)]);
        let of = |wanted: &str| {
            let mut found = known.iter().filter_map(|image| match image {
                KnownImage::Windows {
                    name,
                    local,
                    builds,
                    command,
                } if name == wanted => Some((local.as_deref(), builds.clone(), command.join(" "))),
                _ => None,
            });
            found.next().unwrap()
        };
        assert_eq!(
            of("mcr.microsoft.com/windows/nanoserver:ltsc2022"),
            (Some(AGNHOST), vec![20348], "/bin/sh".into())
        );
        assert_eq!(
            of("mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2025"),
            (
                Some(AGNHOST),
                vec![26100],
                "/agnhost netexec --http-port=80".into()
            )
        );
        // It has Linux in it, and stands for itself.
        assert_eq!(of(PAUSE), (None, vec![17763, 20348, 26100], String::new()));
    }

    #[test]
    fn without_tools_only_images_of_both_systems_are_known() {
        let mut program = artifact(TOOLS, AGNHOST);
        program.kind = ArtifactKind::Program;
        let mut of_windows = artifact(TOOLS, AGNHOST);
        of_windows.os = Os::Windows;
        let known = known_images(&[program, of_windows]);
        let (windows, linux) = names(&known);
        assert!(linux.is_empty(), "{linux:?}");
        assert!(windows.contains(&AGNHOST));
        let is_of_linux_too = |name: &&str| name.starts_with("registry.k8s.io/");
        assert!(windows.iter().all(is_of_linux_too), "{windows:?}");
    }
}
