//! Hosts, logins, trust, artifacts and images.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::Checker;
use crate::cluster::{Artifacts, Host, Image, Login};
use crate::finding::Finding;
use crate::image::ImageReference;
use crate::raw::{RawArtifacts, RawFile, RawHost, RawImage, RawSsh};
use crate::rules::{machines as machine_rule, shape as rule};
use crate::source::Path;
use crate::value::{Address, HostName, Jump};
use crate::words::Os;

impl Checker<'_> {
    pub(super) fn hosts(&mut self, raw: &[RawHost]) -> Vec<Host> {
        let at = Path::top().key("hosts");
        let mut seen: BTreeMap<HostName, Path> = BTreeMap::new();
        raw.iter()
            .enumerate()
            .map(|(index, host)| {
                let at = at.index(index);
                let fallback = crate::fallback(&format!("unnamed{index}"));
                let name = match &host.name {
                    Some(name) => {
                        self.parse(&machine_rule::BAD_NAME, &at.key("name"), name, fallback)
                    }
                    None => fallback,
                };
                if let Some(first) = seen.get(&name) {
                    self.report(
                        Finding::new(&machine_rule::DUPLICATE_GROUP, at.key("name"))
                            .message(format!("two hosts are named `{name}`"))
                            .also(first.clone(), "the first"),
                    );
                }
                seen.insert(name.clone(), at.key("name"));
                let nowhere = Address::Ip(Ipv4Addr::UNSPECIFIED.into());
                let address = match &host.address {
                    Some(address) => {
                        self.parse(&rule::BAD_VALUE, &at.key("address"), address, nowhere)
                    }
                    None => nowhere,
                };
                let login = self.login(&at.key("ssh"), host.ssh.as_ref(), Os::Linux);
                Host {
                    name,
                    address,
                    login,
                }
            })
            .collect()
    }

    pub(super) fn login(&mut self, at: &Path, raw: Option<&RawSsh>, os: Os) -> Login {
        let none = RawSsh::default();
        let raw = raw.unwrap_or(&none);
        let usual = match os {
            Os::Linux => "root",
            Os::Windows => "Administrator",
        };
        if let Some(port) = raw.port {
            self.within(&at.key("port"), port.into(), 1, u16::MAX.into());
        }
        if let Some(key) = &raw.host_key {
            self.host_key(&at.key("hostKey"), key);
        }
        for (address, key) in &raw.host_keys {
            self.host_key(&at.key("hostKeys").key(address), key);
        }
        let jump = raw.jump.as_ref();
        let jump = jump.and_then(|jump| self.jump(&at.key("jump"), jump));
        Login {
            user: match &raw.user {
                Some(user) => self.text(&at.key("user"), user),
                None => usual.into(),
            },
            key: raw
                .key
                .as_ref()
                .and_then(|key| self.reference(&at.key("key"), key)),
            port: raw.port.unwrap_or(22),
            jump,
            host_key: raw.host_key.clone(),
            host_keys: raw.host_keys.clone(),
        }
    }

    fn host_key(&mut self, at: &Path, key: &str) {
        if !(key.starts_with("ssh-") || key.starts_with("ecdsa-") || key.starts_with("SHA256:")) {
            let finding = Finding::new(&rule::BAD_VALUE, at.clone())
                .message(format!("`{at}` is not an SSH host key"))
                .hint("take a line such as `ssh-ed25519 AAAA…` from `ssh-keyscan`, after comparing it with the machine's own");
            self.reject(finding, at);
        }
    }

    fn jump(&mut self, path: &Path, text: &str) -> Option<Jump> {
        let jump = text.parse().ok();
        if jump.is_none() {
            let finding = Finding::new(&rule::BAD_VALUE, path.clone())
                .message(format!("`{path}` is not of the form user@host:port"));
            self.reject(finding, path);
        }
        jump
    }

    pub(super) fn trust(&mut self, raw: &[RawFile]) -> Vec<std::path::PathBuf> {
        let at = Path::top().key("trust");
        raw.iter()
            .enumerate()
            .filter_map(|(index, certificate)| {
                let file = certificate.file.as_ref()?;
                Some(self.text(&at.index(index).key("file"), file).into())
            })
            .collect()
    }

    pub(super) fn artifacts(&mut self, raw: &RawArtifacts) -> Artifacts {
        let at = Path::top().key("artifacts");
        let path = |checker: &mut Self, field: &str, text: &Option<String>| {
            text.as_ref()
                .map(|text| checker.text(&at.key(field), text).into())
        };
        let is_plain = |mirror: &String| {
            mirror
                .trim_start()
                .to_ascii_lowercase()
                .starts_with("http://")
        };
        if raw.mirror.as_ref().is_some_and(is_plain) && raw.digests.is_none() {
            let finding = Finding::new(&rule::MIRROR_PLAIN, at.key("mirror"))
                .message("`artifacts.mirror` is not HTTPS, and there are no `artifacts.digests`")
                .hint(
                    "write `https://`, or add `digests: FILE` with a list that `sha256sum` wrote",
                );
            self.report(finding);
        }
        Artifacts {
            cache: path(self, "cache", &raw.cache),
            bundle: path(self, "bundle", &raw.bundle),
            mirror: raw
                .mirror
                .as_ref()
                .map(|mirror| self.address(&at.key("mirror"), mirror)),
            digests: path(self, "digests", &raw.digests),
            offline: raw.offline,
            build: raw.build,
        }
    }

    pub(super) fn images(&mut self, raw: &[RawImage]) -> Vec<Image> {
        let at = Path::top().key("images");
        raw.iter()
            .enumerate()
            .filter_map(|(index, image)| {
                let at = at.index(index);
                let reference = image.reference.as_ref()?;
                let read = reference.parse::<ImageReference>();
                let plain = read.as_ref().is_ok_and(ImageReference::is_pinned);
                if !plain {
                    let at = at.key("ref");
                    let finding = Finding::new(&rule::BAD_VALUE, at.clone())
                        .message(format!(
                            "`{at}`: `{reference}` is not an image with a tag or a digest"
                        ))
                        .hint("write it like `registry.example/app:1.0`");
                    self.reject(finding, &at);
                }
                Some(Image {
                    reference: reference.clone(),
                    archive: image.archive.as_ref().map(Into::into),
                    os: image.os.unwrap_or(Os::Linux),
                })
            })
            .collect()
    }
}
