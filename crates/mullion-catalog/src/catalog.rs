//! The catalog itself: the data files, read once.

use std::sync::OnceLock;

use serde::de::DeserializeOwned;

use crate::artifacts::{ArtifactsFile, RecipesFile};
use crate::cni::CniFile;
use crate::container_os::ContainerOsFile;
use crate::containerd::ContainerdFile;
use crate::drivers::DriversFile;
use crate::firewall::FirewallFile;
use crate::gates::GatesFile;
use crate::kube_proxy::KubeProxyFile;
use crate::kubernetes::KubernetesFile;
use crate::linux::LinuxFile;
use crate::modules::ModulesFile;
use crate::patches::Patch;
use crate::requirements::RequirementsFile;
use crate::time_zones::TimeZonesFile;
use crate::updates::UpdatesFile;
use crate::windows::WindowsFile;

/// What works with what.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) artifacts: ArtifactsFile,
    pub(crate) cni: CniFile,
    pub(crate) container_os: ContainerOsFile,
    pub(crate) containerd: ContainerdFile,
    pub(crate) drivers: DriversFile,
    pub(crate) firewall: FirewallFile,
    pub(crate) gates: GatesFile,
    pub(crate) kube_proxy: KubeProxyFile,
    pub(crate) kubernetes: KubernetesFile,
    pub(crate) linux: LinuxFile,
    pub(crate) modules: ModulesFile,
    pub(crate) patches: Vec<Patch>,
    pub(crate) recipes: RecipesFile,
    pub(crate) requirements: RequirementsFile,
    pub(crate) time_zones: TimeZonesFile,
    pub(crate) updates: UpdatesFile,
    pub(crate) windows: WindowsFile,
}

/// A data file does not read as its type says.
#[derive(Debug, thiserror::Error)]
#[error("data file `{file}` cannot be read")]
pub(crate) struct DataError {
    file: &'static str,
    #[source]
    cause: Box<toml::de::Error>,
}

fn read<File: DeserializeOwned>(file: &'static str, text: &str) -> Result<File, DataError> {
    toml::from_str(text).map_err(|cause| DataError {
        file,
        cause: Box::new(cause),
    })
}

macro_rules! embedded {
    ($file:expr) => {
        read($file, include_str!(concat!("../data/", $file)))
    };
}

macro_rules! patch {
    ($name:literal) => {
        embedded!(concat!("patches/", $name, ".toml")).map(|file| Patch::of($name, file))
    };
}

impl Catalog {
    /// The catalog that this program carries.
    ///
    /// # Panics
    ///
    /// When the embedded data cannot be read. The data is part of the program and a test reads it, so that would
    /// be a bug of ours and no state that a user can bring about.
    pub fn builtin() -> &'static Self {
        static BUILTIN: OnceLock<Catalog> = OnceLock::new();
        BUILTIN.get_or_init(|| match Self::read() {
            Ok(catalog) => catalog,
            Err(error) => panic!("{error}: {}", error.cause),
        })
    }

    /// The same catalog as if this release had every driver, for tests of what is planned and rendered for those that
    /// come later. No command uses it.
    ///
    /// # Panics
    ///
    /// As [`Self::builtin`].
    #[doc(hidden)]
    pub fn with_later_drivers() -> &'static Self {
        static LATER: OnceLock<Catalog> = OnceLock::new();
        LATER.get_or_init(|| match Self::read() {
            Ok(mut catalog) => {
                catalog.drivers.make_available();
                catalog
            }
            Err(error) => panic!("{error}: {}", error.cause),
        })
    }

    pub(crate) fn read() -> Result<Self, DataError> {
        Ok(Self {
            artifacts: embedded!("artifacts.toml")?,
            cni: embedded!("cni.toml")?,
            container_os: embedded!("container_os.toml")?,
            containerd: embedded!("containerd.toml")?,
            drivers: embedded!("drivers.toml")?,
            firewall: embedded!("firewall.toml")?,
            gates: embedded!("gates.toml")?,
            kube_proxy: embedded!("kube_proxy.toml")?,
            kubernetes: embedded!("kubernetes.toml")?,
            linux: embedded!("linux.toml")?,
            modules: embedded!("modules.toml")?,
            patches: vec![
                patch!("adapters-without-prefixes")?,
                patch!("unix-sockets-over-loopback")?,
                patch!("certificates-copied")?,
                patch!("volumes-written-in-place")?,
            ],
            recipes: embedded!("recipes.toml")?,
            requirements: embedded!("requirements.toml")?,
            time_zones: embedded!("time_zones.toml")?,
            updates: embedded!("updates.toml")?,
            windows: embedded!("windows.toml")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_data_reads() {
        if let Err(error) = Catalog::read() {
            panic!("{error}: {}", error.cause);
        }
    }

    #[test]
    fn a_field_that_nobody_reads_is_refused() {
        let error = read::<LinuxFile>("linux.toml", "release = []\ncolour = 1").unwrap_err();
        assert!(
            error.cause.to_string().contains("colour"),
            "{}",
            error.cause
        );
    }
}
