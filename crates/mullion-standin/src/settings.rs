//! The stand-in's own file: where Wine is, where its drive is, and what its programs find in their environment.
//!
//! ```toml
//! program = "/usr/lib/wine/wine64"
//! prefix = "/root/.wine"
//! drive = "/root/.wine/drive_c"
//! home = 'C:\Users\Administrator'
//!
//! [environment]
//! WINEDLLOVERRIDES = "pdh=n"
//! ```
//!
//! Every line may be missing, and so may the file: the values above are what then holds, the environment excepted. A
//! line that is not known is an error: a misspelt one would do nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::path::{DrivePath, PathError};

/// Where the file is unless somebody names another.
pub const FILE: &str = "/etc/mullion/standin.toml";

/// The file's content.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The program that runs Windows programs. Debian's `wine` is a script around it, which costs time.
    pub program: PathBuf,
    /// Wine's folder.
    pub prefix: PathBuf,
    /// Drive `C:`; below the prefix unless it is named.
    pub drive: Option<PathBuf>,
    /// Where a login begins.
    pub home: String,
    /// What is set beside, or in place of, what is always set.
    pub environment: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            program: "/usr/lib/wine/wine64".into(),
            prefix: "/root/.wine".into(),
            drive: None,
            home: r"C:\Users\Administrator".into(),
            environment: BTreeMap::new(),
        }
    }
}

/// Why there are no settings.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is not what it should be.
    #[error("{} is not as it should be", file.display())]
    Form {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: toml::de::Error,
    },
    /// The home is not a folder of the drive.
    #[error("the home in the settings is wrong")]
    Home(#[source] PathError),
}

impl Settings {
    /// Reads the file; the usual values where there is none.
    pub fn read(file: &Path) -> Result<Self, SettingsError> {
        let text = match fs_err::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error.into()),
        };
        Self::parse(&text).map_err(|source| SettingsError::Form {
            file: file.to_owned(),
            source,
        })
    }

    /// Reads the file's text.
    pub(crate) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The folder of drive `C:`.
    pub fn drive(&self) -> PathBuf {
        let below = || self.prefix.join("drive_c");
        self.drive.clone().unwrap_or_else(below)
    }

    /// Where a login begins.
    pub fn home(&self) -> Result<DrivePath, SettingsError> {
        DrivePath::parse(&self.home).map_err(SettingsError::Home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, SettingsError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("standin.toml");
        fs_err::write(&file, text).unwrap();
        Settings::read(&file)
    }

    #[test]
    fn what_is_missing_is_as_usual() {
        let usual = Settings::read(Path::new("/no/such/file")).unwrap();
        assert_eq!(usual, Settings::default());
        assert_eq!(usual.drive(), Path::new("/root/.wine/drive_c"));
        assert_eq!(usual.home().unwrap().sftp(), "/C:/Users/Administrator");
        let moved = read("prefix = \"/srv/w\"\n[environment]\nA = \"b\"\n").unwrap();
        assert_eq!(moved.drive(), Path::new("/srv/w/drive_c"));
        assert_eq!(moved.environment["A"], "b");
        assert_eq!(
            read("drive = \"/c\"").unwrap().drive(),
            Path::new("/c"),
            "not below the prefix"
        );
    }

    #[test]
    fn a_wrong_file_is_an_error() {
        assert!(matches!(
            read("progam = \"/x\""),
            Err(SettingsError::Form { .. })
        ));
        let home = read(r"home = 'D:\x'").unwrap().home();
        assert!(matches!(
            home,
            Err(SettingsError::Home(PathError::OtherDrive(_)))
        ));
    }
}
