//! Hosts, logins, trust, artifacts and images.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::Ipv4Addr;

use super::Checker;
use crate::cluster::{Artifacts, Host, Image, Login};
use crate::finding::{Finding, Severity};
use crate::image::ImageReference;
use crate::raw::{RawArtifacts, RawFile, RawHost, RawImage, RawSsh};
use crate::rules::{machines as machine_rule, release, shape as rule};
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
        let mut seen = BTreeMap::new();
        raw.iter()
            .enumerate()
            .filter_map(|(index, image)| {
                let at = at.index(index);
                let reference = image.reference.as_ref()?;
                let os = image.os.unwrap_or(Os::Linux);
                let named = at.key("ref");
                match reference.parse::<ImageReference>() {
                    // With an `os` that cannot be read, the image may be for another system.
                    Ok(read) if read.is_pinned() && self.is_left_out(&at.key("os")) => {}
                    Ok(read) if read.is_pinned() => {
                        let name = (os, read.canonical());
                        if !self.is_first_image(&mut seen, &name, image.archive.as_deref(), named) {
                            return None;
                        }
                    }
                    _ => {
                        let finding = Finding::new(&rule::BAD_VALUE, named.clone())
                            .message(format!(
                                "`{named}`: `{reference}` is not an image with a tag or a digest"
                            ))
                            .hint("write it like `registry.example/app:1.0`");
                        self.reject(finding, &named);
                    }
                }
                if os == Os::Windows {
                    self.report(
                        Finding::new(&release::FEATURE_LATER, at.key("os"))
                            .message("this release brings no images to Windows nodes")
                            .hint("remove the image: Windows nodes pull it when a pod asks for it"),
                    );
                }
                Some(Image {
                    reference: reference.clone(),
                    archive: image.archive.as_ref().map(Into::into),
                    os,
                })
            })
            .collect()
    }

    /// Whether no earlier image of the same system has this name: a node keeps one image under a name. Where both are of
    /// one archive, or of none, nothing is lost, and the second is a warning.
    fn is_first_image<'raw>(
        &mut self,
        seen: &mut BTreeMap<(Os, String), (Option<&'raw str>, Path)>,
        name: &(Os, String),
        archive: Option<&'raw str>,
        named: Path,
    ) -> bool {
        let (of, first) = match seen.entry(name.clone()) {
            Entry::Vacant(place) => {
                place.insert((archive, named));
                return true;
            }
            Entry::Occupied(first) => first.get().clone(),
        };
        let severity = if of == archive {
            Severity::Warning
        } else {
            Severity::Error
        };
        let finding = Finding::new(&rule::DUPLICATE_IMAGE, named)
            .severity(severity)
            .message(format!("two images are named `{}`", name.1))
            .also(first, "the first");
        self.report(finding);
        false
    }
}

#[cfg(test)]
mod tests {
    use crate::draft::{Draft, Surroundings, Verdict};
    use crate::finding::{Place, Severity};
    use crate::source::Source;

    fn judge(images: &str) -> Verdict {
        let text = format!("machines: {{linux: 1}}\nimages: [{images}]\n");
        Draft::read(Source::new("the file", text), &Surroundings::default()).conclude()
    }

    #[track_caller]
    fn found(images: &str, expected: &[&str]) {
        let verdict = judge(images);
        let codes = verdict.findings.iter();
        let codes: Vec<_> = codes.map(|located| located.finding.rule.code).collect();
        assert_eq!(codes, expected, "{images}");
    }

    #[test]
    fn one_name_has_one_image_on_each_system() {
        found(
            "{ref: app:1, archive: a.tar}, {ref: app:1, archive: b.tar}",
            &["E0214"],
        );
        found(
            "{ref: app:1, archive: a.tar}, {ref: app:1, os: linux}",
            &["E0214"],
        );
        // Windows nodes are brought no images; that one is not the second of its name.
        found(
            "{ref: app:1}, {ref: app:2}, {ref: app:1, os: windows}",
            &["E0904"],
        );
        // An image that is written twice is a mistake that loses nothing.
        for (images, severity) in [
            ("{ref: app:1}, {ref: app:1}", Severity::Warning),
            (
                "{ref: app:1, archive: a.tar}, {ref: app:1, archive: a.tar}",
                Severity::Warning,
            ),
            (
                "{ref: app:1, archive: a.tar}, {ref: app:1, archive: b.tar}",
                Severity::Error,
            ),
        ] {
            let verdict = judge(images);
            assert_eq!(verdict.findings[0].finding.severity, severity, "{images}");
        }
        // One archive may hold several images.
        found(
            "{ref: app:1, archive: a.tar}, {ref: app:2, archive: a.tar}",
            &[],
        );
    }

    #[test]
    fn an_image_has_one_name_however_it_is_written() {
        let verdict = judge("{ref: app:1}, {ref: team/app:1}, {ref: docker.io/library/app:1}");
        let [located] = verdict.findings.as_slice() else {
            panic!("{:?}", verdict.findings);
        };
        let finding = &located.finding;
        assert_eq!(finding.rule.code, "E0214");
        assert!(
            finding.message.contains("`docker.io/library/app:1`"),
            "{}",
            finding.message
        );
        assert_eq!(finding.severity, Severity::Warning);
        let first = &located.also[0];
        assert_eq!((first.from.line, first.label.as_str()), (2, "the first"));
        // The runtime leaves out a tag beside a digest.
        let digest = "sha256:6a2f1e8d6f4ad1a5c6cf8a3d6a9e1c0b7d5f3e2a1b0c9d8e7f6a5b4c3d2e1f00";
        found(
            &format!("{{ref: 'app:1@{digest}'}}, {{ref: 'app:2@{digest}'}}"),
            &["E0214"],
        );
    }

    #[test]
    fn an_image_for_windows_is_named_by_its_place_in_the_file() {
        let win = "ref: win:1, os: windows";
        for (images, expected) in [
            (format!("{{{win}}}"), ["images[0].os"].as_slice()),
            // An image that is left out, since it is the second of its name, counts as well.
            (
                format!("{{ref: app:1}}, {{ref: app:1}}, {{{win}}}"),
                &["images[2].os"],
            ),
            // As does one without a name.
            (format!("{{archive: a.tar}}, {{{win}}}"), &["images[1].os"]),
            (
                format!("{{{win}}}, {{{win}}}, {{ref: win:2, os: windows}}"),
                &["images[0].os", "images[2].os"],
            ),
        ] {
            let verdict = judge(&images);
            let findings = verdict.findings.iter().map(|located| &located.finding);
            let later = findings.filter(|finding| finding.rule.code == "E0904");
            let places = later.map(|finding| match &finding.place {
                Place::Key(path) | Place::Value(path) => path.to_string(),
                place => panic!("{place:?}"),
            });
            assert_eq!(places.collect::<Vec<_>>(), expected, "{images}");
        }
    }

    #[test]
    fn images_are_not_compared_by_what_is_wrong_in_itself() {
        found("{ref: app}, {ref: app}", &["E0208", "E0208"]);
        found("{ref: app:1, os: linx}, {ref: app:1}", &["E0203"]);
    }
}
