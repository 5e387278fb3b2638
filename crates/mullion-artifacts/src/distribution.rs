//! Root file systems out of a distribution's packages, by `mmdebstrap`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use mullion_program::SYSTEM_PATH;
use mullion_wire::Sha256Digest;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::job::Job;
use crate::process;
use crate::trust;

/// No file in what is made is newer: the first second of 2026.
pub(crate) const EPOCH: u64 = 1_767_225_600;

/// Whose packages they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Distribution {
    /// Debian's.
    Debian,
    /// Ubuntu's.
    Ubuntu,
}

impl Distribution {
    /// The distribution of a release that is called `Debian 12` or `Ubuntu 24.04`.
    pub fn of_release(name: &str) -> Option<Self> {
        match name.split_whitespace().next()? {
            "Debian" => Some(Self::Debian),
            "Ubuntu" => Some(Self::Ubuntu),
            _ => None,
        }
    }

    /// The keys that vouch for its packages, and the package that brings them.
    const fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Debian => (
                "/usr/share/keyrings/debian-archive-keyring.gpg",
                "debian-archive-keyring",
            ),
            Self::Ubuntu => (
                "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
                "ubuntu-keyring",
            ),
        }
    }

    /// The lines of a sources.list.
    fn archives(self, suite: &str, archive: Option<&str>) -> Vec<String> {
        let archive = archive.map(|address| address.trim_end_matches('/'));
        match self {
            Self::Debian => {
                let main = archive.unwrap_or("http://deb.debian.org/debian");
                // A mirror has the security archive beside its own, by custom.
                let security = archive.map_or_else(
                    || "http://deb.debian.org/debian-security".to_owned(),
                    |main| format!("{main}-security"),
                );
                vec![
                    format!("deb {main} {suite} main"),
                    format!("deb {main} {suite}-updates main"),
                    format!("deb {security} {suite}-security main"),
                ]
            }
            Self::Ubuntu => {
                let main = archive.unwrap_or("http://archive.ubuntu.com/ubuntu");
                ["", "-updates", "-security"]
                    .map(|pocket| format!("deb {main} {suite}{pocket} main universe"))
                    .to_vec()
            }
        }
    }
}

/// How much of a distribution is laid down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Variant {
    /// The packages, what they need, and what every system has.
    #[default]
    Minimal,
    /// The files of the packages and of what they need; nothing of them is set up.
    Files,
}

/// What is wanted of a distribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bootstrap {
    pub(crate) distribution: Distribution,
    pub(crate) suite: String,
    pub(crate) variant: Variant,
    pub(crate) packages: BTreeSet<String>,
}

/// Raised when what is made of the same wish changes.
const RECIPE: u32 = 1;

/// Things that every set-up makes anew, and that clones must not share: keys of the login service, the machine's
/// identity, logs, and caches that depend on the moment.
const CLEAN_UP: &str = r#"
rm -f "$1"/etc/ssh/ssh_host_* "$1"/var/lib/dbus/machine-id "$1"/var/cache/ldconfig/aux-cache
rm -f "$1"/var/log/alternatives.log "$1"/var/log/bootstrap.log "$1"/var/log/dpkg.log
rm -rf "$1"/var/log/apt "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old "$1"/var/lib/systemd/random-seed
rm -rf "$1"/var/lib/systemd/catalog/database
: > "$1"/etc/machine-id
"#;

impl Bootstrap {
    /// Known by what is asked for.
    pub(crate) fn fingerprint(&self) -> String {
        let text = serde_json::to_vec(&(RECIPE, EPOCH, self)).unwrap_or_default();
        Sha256Digest::of(&text).as_str()[..16].to_owned()
    }

    /// Writes the root file system as a tar file.
    pub(crate) fn write(&self, job: &Job<'_>, to: &Path) -> Result<(), BuildError> {
        let mut command = self.command(job)?;
        if mullion_rights::invoker().is_some() {
            // It runs as root: whoever asked for root does not say which program that is.
            command.env("PATH", SYSTEM_PATH);
        }
        let doing = format!("putting together {} by its packages", self.suite);
        job.say(doing.clone());
        let file = fs_err::File::create_new(to)
            .map_err(|source| BuildError::io("making a file", source))?;
        let mut on_line = |line: &str| job.pass_on(line.strip_prefix("I: ").unwrap_or(line));
        process::run_as_root_to(
            file,
            "mmdebstrap",
            &mut command,
            job.attendant,
            &mut on_line,
        )
        .map_err(|source| BuildError::tool(doing, source))?;
        Ok(())
    }

    fn command(&self, job: &Job<'_>) -> Result<Command, BuildError> {
        let sources = job.sources;
        let archive = match self.distribution {
            Distribution::Debian => sources.packages.debian.as_deref(),
            Distribution::Ubuntu => sources.packages.ubuntu.as_deref(),
        };
        let (keys, package) = self.distribution.keys();
        if !Path::new(keys).exists() {
            return Err(BuildError::Keys {
                suite: self.suite.clone(),
                file: keys.into(),
                package,
            });
        }
        let mut command = sources.tool("mmdebstrap");
        command
            .env("SOURCE_DATE_EPOCH", EPOCH.to_string())
            .arg(match self.variant {
                Variant::Minimal => "--variant=minbase",
                Variant::Files => "--variant=extract",
            })
            .args(["--format=tar", "--architectures=amd64"])
            .arg(format!("--keyring={keys}"))
            .arg(format!("--include={}", join(&self.packages)))
            .arg("--aptopt=APT::Install-Recommends \"false\"")
            .arg("--aptopt=Acquire::Retries \"3\"")
            .arg("--aptopt=Acquire::http::Timeout \"30\"")
            // Neither is read on a machine, and both are half of the files.
            .arg("--dpkgopt=path-exclude=/usr/share/man/*")
            .arg("--dpkgopt=path-exclude=/usr/share/locale/*")
            .arg("--dpkgopt=path-exclude=/usr/share/info/*")
            .arg("--dpkgopt=path-exclude=/usr/share/doc/*")
            .arg("--dpkgopt=path-include=/usr/share/doc/*/copyright");
        if let Some(folder) = trust::folder(job)? {
            command.arg(ca_info(&folder.join(trust::FILE))?);
        }
        if self.variant == Variant::Minimal {
            command.arg(format!("--customize-hook={}", CLEAN_UP.trim()));
        }
        // To standard output: the file is one that we created.
        command.args([self.suite.as_str(), "-"]);
        command.args(self.distribution.archives(&self.suite, archive));
        Ok(command)
    }
}

/// The option that names a file of certificates. apt runs as root and its settings can name commands, so the path must not
/// end its quotation marks.
fn ca_info(file: &Path) -> Result<String, BuildError> {
    let path = file.to_str().filter(|path| {
        let is_strange = |letter: char| letter.is_control() || "\"\\".contains(letter);
        !path.contains(is_strange)
    });
    let path = path.ok_or_else(|| BuildError::CertificatePath { file: file.into() })?;
    Ok(format!("--aptopt=Acquire::https::CaInfo \"{path}\""))
}

fn join(packages: &BTreeSet<String>) -> String {
    packages
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(packages: &[&str]) -> Bootstrap {
        Bootstrap {
            distribution: Distribution::Debian,
            suite: "bookworm".into(),
            variant: Variant::Minimal,
            packages: packages.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn a_wish_is_known_by_what_it_asks_for() {
        let one = wish(&["runc", "iptables"]).fingerprint();
        assert_eq!(one, wish(&["iptables", "runc"]).fingerprint());
        assert_ne!(one, wish(&["iptables"]).fingerprint());
        assert_eq!(one.len(), 16);
    }

    #[test]
    fn promise_10_no_path_ends_its_quotation_marks_in_the_settings_of_apt() {
        let option = ca_info(Path::new("/c/work/trust.pem")).unwrap();
        assert_eq!(
            option,
            "--aptopt=Acquire::https::CaInfo \"/c/work/trust.pem\""
        );
        for path in [
            "/c\"; APT::Update::Pre-Invoke {\"id\";}; A \"/trust.pem",
            "/c\nAPT::Update::Pre-Invoke/trust.pem",
            "/c\\/trust.pem",
        ] {
            let error = ca_info(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("quotation mark"), "{error}");
        }
    }

    #[test]
    fn every_distribution_has_its_archives() {
        assert_eq!(
            Distribution::Debian.archives("bookworm", Some("http://m/debian/")),
            [
                "deb http://m/debian bookworm main",
                "deb http://m/debian bookworm-updates main",
                "deb http://m/debian-security bookworm-security main",
            ]
        );
        let ubuntu = Distribution::Ubuntu.archives("noble", None);
        assert_eq!(
            ubuntu[0],
            "deb http://archive.ubuntu.com/ubuntu noble main universe"
        );
        assert_eq!(
            Distribution::of_release("Ubuntu 24.04"),
            Some(Distribution::Ubuntu)
        );
        assert_eq!(Distribution::of_release("Plan 9"), None);
    }
}
