//! What carries a group's machines: made ones with their size and origin, existing ones with their addresses.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::{Checker, GroupPlace};
use crate::cluster::{Carrier, Host, Media, MediaPlace, Origin, Size};
use crate::finding::{Finding, Place, Severity};
use crate::raw::{RawGroup, RawMedia};
use crate::rules::{carriers as carrier_rule, machines as machine_rule, shape as rule};
use crate::source::Path;
use crate::value::{Address, ByteSize};
use crate::words::{Driver, Os};

impl Checker<'_> {
    pub(super) fn carrier(
        &mut self,
        raw: &RawGroup,
        place: &GroupPlace,
        os: Os,
        hosts: &[Host],
    ) -> Carrier {
        let has_origin = raw.media.is_some() || raw.template.is_some();
        let usual = match os {
            _ if !raw.addresses.is_empty() => Driver::Ssh,
            Os::Linux => Driver::Nspawn,
            Os::Windows if has_origin => Driver::Qemu,
            Os::Windows => Driver::Wine,
        };
        let driver = raw.driver.unwrap_or(usual);
        if raw.addresses.is_empty() {
            if raw.ssh.is_some() && driver != Driver::Ssh {
                self.report(
                    Finding::new(
                        &carrier_rule::ADDRESSES_UNUSED,
                        Place::Key(place.field("ssh")),
                    )
                    .message("`ssh` is for machines that exist already, and these are made")
                    .hint("remove `ssh`, or add `addresses`"),
                );
            }
            let host = self.host(raw, place, hosts);
            return Carrier::Made {
                driver,
                host,
                size: self.size(raw, place, os),
                origin: self.origin(raw, place),
                autostart: raw.autostart.unwrap_or(true),
            };
        }
        // Another driver makes machines: that it takes no addresses is what is wrong there.
        if driver == Driver::Ssh {
            self.unused_by_existing(raw, place, os, hosts);
        } else {
            self.host(raw, place, hosts);
        }
        let addresses = self.existing(raw, place);
        let at = place.field("ssh");
        if let Some(ssh) = &raw.ssh {
            self.idle_host_keys(&at, ssh, &addresses);
        }
        Carrier::Existing {
            driver,
            addresses,
            login: self.login(&at, raw.ssh.as_ref(), os),
        }
    }

    /// The addresses of machines that exist.
    fn existing(&mut self, raw: &RawGroup, place: &GroupPlace) -> Vec<Address> {
        let mut seen: BTreeMap<Address, usize> = BTreeMap::new();
        let nowhere = Address::Ip(Ipv4Addr::UNSPECIFIED.into());
        let at = place.field("addresses");
        let mut addresses = Vec::with_capacity(raw.addresses.len());
        for (index, text) in raw.addresses.iter().enumerate() {
            let address = self.parse(&rule::BAD_VALUE, &at.index(index), text, nowhere.clone());
            if let Some(first) = seen.insert(address.clone(), index) {
                self.report(
                    Finding::new(&machine_rule::DUPLICATE_ADDRESS, at.index(index))
                        .message(format!("`{address}` is given twice"))
                        .also(at.index(first), "first given here"),
                );
            }
            addresses.push(address);
        }
        addresses
    }

    /// Reports what is said about the making of machines that exist already.
    fn unused_by_existing(&mut self, raw: &RawGroup, place: &GroupPlace, os: Os, hosts: &[Host]) {
        let exist = || {
            (
                Place::Key(place.field("addresses")),
                "these machines exist already",
            )
        };
        let unused = |rule, field: &str| {
            let (addresses, label) = exist();
            Finding::new(rule, Place::Key(place.field(field))).also(addresses, label)
        };
        for (field, given) in [
            ("cpus", raw.cpus.is_some()),
            ("memory", raw.memory.is_some()),
            ("disk", raw.disk.is_some()),
        ] {
            if given {
                self.report(
                    unused(&carrier_rule::SIZE_UNUSED, field)
                        .message(format!("`{field}` of an existing machine cannot be set"))
                        .hint(format!("remove `{field}`")),
                );
            }
        }
        if raw.autostart.is_some() {
            self.report(unused(&carrier_rule::AUTOSTART_UNUSED, "autostart"));
        }
        for (field, given) in [
            ("edition", raw.edition.is_some()),
            ("desktop", raw.desktop.is_some()),
        ] {
            // On Linux the two are refused already.
            if given && os == Os::Windows {
                self.report(
                    unused(&carrier_rule::INSTALLATION_UNUSED, field)
                        .message(format!("`{field}` of an existing machine cannot be chosen"))
                        .hint(format!("remove `{field}`")),
                );
            }
        }
        // It may say what the machine has already; it changes nothing there.
        if raw.version.is_some() && os == Os::Linux {
            self.report(
                unused(&carrier_rule::INSTALLATION_UNUSED, "version")
                    .severity(Severity::Warning)
                    .message("an existing Linux machine keeps its release, whatever `version` says")
                    .hint("remove `version`"),
            );
        }
        for (field, given) in [
            ("media", raw.media.is_some()),
            ("template", raw.template.is_some()),
        ] {
            if given {
                self.report(
                    unused(&carrier_rule::MEDIA_UNUSED, field)
                        .message(format!("machines that exist take no {field}"))
                        .hint(format!("remove `{field}`, or `addresses`")),
                );
            }
        }
        if self.host(raw, place, hosts).is_some() {
            self.report(
                unused(&carrier_rule::HOST_UNUSED, "host")
                    .message("machines that exist are where their addresses lead, and take no host")
                    .hint("remove `host`"),
            );
        }
    }

    fn host(
        &mut self,
        raw: &RawGroup,
        place: &GroupPlace,
        hosts: &[Host],
    ) -> Option<crate::value::HostName> {
        let text = raw.host.as_ref()?;
        let found = hosts.iter().find(|host| host.name.as_str() == text);
        if found.is_none() {
            let names: Vec<_> = hosts.iter().map(|host| host.name.as_str()).collect();
            let mut finding = Finding::new(&machine_rule::UNKNOWN_HOST, place.field("host"))
                .message(format!("`hosts` has no `{text}`"));
            if let Some(meant) = crate::shape::nearest(text, names.iter().copied()) {
                finding = finding.label(format!("did you mean `{meant}`?"));
            }
            self.reject(finding, &place.field("host"));
        }
        found.map(|host| host.name.clone())
    }

    fn size(&mut self, raw: &RawGroup, place: &GroupPlace, os: Os) -> Size {
        let (cpus, memory, disk) = match os {
            Os::Linux => (2, ByteSize::gib(2), ByteSize::gib(20)),
            Os::Windows => (4, ByteSize::gib(6), ByteSize::gib(60)),
        };
        if let Some(cpus) = raw.cpus {
            self.within(&place.field("cpus"), cpus.into(), 1, 1024);
        }
        let mut read = |field: &str, text: &Option<String>, usual: ByteSize| match text {
            Some(text) => self.parse(&rule::BAD_VALUE, &place.field(field), text, usual),
            None => usual,
        };
        Size {
            cpus: raw.cpus.unwrap_or(cpus),
            memory: read("memory", &raw.memory, memory),
            disk: read("disk", &raw.disk, disk),
        }
    }

    fn origin(&mut self, raw: &RawGroup, place: &GroupPlace) -> Origin {
        match (&raw.media, &raw.template) {
            (None, None) => Origin::Packages,
            (None, Some(template)) => {
                Origin::Template(self.text(&place.field("template"), template))
            }
            (Some(media), template) => {
                if template.is_some() {
                    self.report(
                        Finding::new(
                            &carrier_rule::TWO_ORIGINS,
                            Place::Key(place.field("template")),
                        )
                        .message("both `media` and `template` are given")
                        .also(Place::Key(place.field("media")), "the media"),
                    );
                }
                self.media(media, &place.field("media"))
                    .map_or(Origin::Packages, Origin::Media)
            }
        }
    }

    fn media(&mut self, raw: &RawMedia, at: &Path) -> Option<Media> {
        let mut places = Vec::new();
        for (field, text, place) in [
            (
                "iso",
                &raw.iso,
                MediaPlace::Iso as fn(std::path::PathBuf) -> MediaPlace,
            ),
            ("vhdx", &raw.vhdx, MediaPlace::Vhdx),
            ("qcow2", &raw.qcow2, MediaPlace::Qcow2),
        ] {
            if let Some(text) = text {
                places.push((field, place(self.text(&at.key(field), text).into())));
            }
        }
        if let Some(url) = &raw.url {
            places.push(("url", MediaPlace::Url(self.address(&at.key("url"), url))));
            if raw.sha256.is_none() {
                self.report(Finding::new(&carrier_rule::DIGEST_MISSING, at.key("url")));
            }
        }
        if let Some(digest) = &raw.sha256 {
            let hex = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !hex {
                let at = at.key("sha256");
                let finding = Finding::new(&rule::BAD_VALUE, at.clone()).message(format!(
                    "`{at}` is not a SHA-256 digest: 64 digits from 0 to f"
                ));
                self.reject(finding, &at);
            }
        }
        if places.len() > 1 {
            self.report(
                Finding::new(&carrier_rule::TWO_ORIGINS, Place::Key(at.key(places[1].0)))
                    .message("media are one file, and several are given")
                    .also(Place::Key(at.key(places[0].0)), "the first"),
            );
        }
        if places.is_empty() {
            let finding = Finding::new(&rule::MISSING_FIELD, Place::Key(at.clone()))
                .message(format!("`{at}` names no file"))
                .hint(
                    "write one of `{iso: …}`, `{url: …, sha256: …}`, `{vhdx: …}` and `{qcow2: …}`",
                );
            self.reject(finding, at);
        }
        places.into_iter().next().map(|(_, place)| Media {
            place,
            sha256: raw.sha256.as_ref().map(|digest| digest.to_lowercase()),
        })
    }
}
