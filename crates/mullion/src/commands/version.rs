//! `mullion version`.

use mullion_catalog::Catalog;
use schemars::JsonSchema;
use serde::Serialize;

use crate::console::{Console, Format};
use crate::failure::Failure;

/// Which version this is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The program's version.
    pub version: &'static str,
    /// The version of the cluster file that it reads.
    pub file_version: &'static str,
    /// The Kubernetes that it installs where the file names none.
    pub kubernetes: String,
}

/// Says which version this is.
pub fn version(console: &mut Console<'_>) -> Result<u8, Failure> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        file_version: mullion_spec::API_VERSION,
        kubernetes: Catalog::builtin().default_kubernetes().to_string(),
    };
    match console.format {
        Format::Json => console.json("Version", &version)?,
        Format::Text => writeln!(
            console.out,
            "mullion {}\ncluster file {}\nKubernetes   {} by default",
            version.version, version.file_version, version.kubernetes
        )?,
    }
    Ok(0)
}
