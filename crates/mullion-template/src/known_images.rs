//! The table of images in a stand-in: which names are taken for Windows', and what runs in their place.

use std::fmt::Write as _;

/// What a stand-in knows of an image without asking a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownImage {
    /// It holds Windows.
    Windows {
        /// Its whole name; a `*` in its tag stands for any text.
        name: String,
        /// The Linux image that runs in its place; one of its own name where there is none.
        local: Option<String>,
        /// The builds that it is for.
        builds: Vec<u32>,
        /// What runs where a pod names nothing; empty where the Linux image knows.
        command: Vec<String>,
    },
    /// It holds no Windows.
    Linux {
        /// Its whole name.
        name: String,
    },
}

/// The table, as `mullion-standin cri` reads it.
pub(crate) fn table(images: &[KnownImage]) -> String {
    let mut text = String::from("# Written by Mullion.\n");
    // A write to a text cannot fail.
    for image in images {
        match image {
            KnownImage::Linux { name } => {
                let _ = write!(text, "\n[[image]]\nname = {name:?}\nlinux = true\n");
            }
            KnownImage::Windows {
                name,
                local,
                builds,
                command,
            } => {
                for build in builds {
                    let _ = write!(
                        text,
                        "\n[[image]]\nname = {name:?}\nos-version = \"10.0.{build}.0\"\n"
                    );
                    if let Some(local) = local {
                        let _ = writeln!(text, "local = {local:?}");
                    }
                    if !command.is_empty() {
                        let _ = writeln!(text, "command = {command:?}");
                    }
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_row_for_each_build() {
        let images = [
            KnownImage::Windows {
                name: "r.io/web:*-ltsc2022".into(),
                local: Some("r.io/tools:1".into()),
                builds: vec![17763, 20348],
                command: vec!["/bin/sh".into()],
            },
            KnownImage::Linux {
                name: "r.io/dns:1".into(),
            },
        ];
        let row = |build: u32| {
            format!(
                "\n[[image]]\nname = \"r.io/web:*-ltsc2022\"\nos-version = \"10.0.{build}.0\"\n\
                 local = \"r.io/tools:1\"\ncommand = [\"/bin/sh\"]\n"
            )
        };
        let linux = "\n[[image]]\nname = \"r.io/dns:1\"\nlinux = true\n";
        let expected = format!("# Written by Mullion.\n{}{}{linux}", row(17763), row(20348));
        assert_eq!(table(&images), expected);
    }
}
