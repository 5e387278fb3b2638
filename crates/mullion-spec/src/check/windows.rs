//! How Windows machines are set up: once for all, and where a group says otherwise.

use std::collections::BTreeSet;

use super::{Checker, GroupPlace};
use crate::cluster::WindowsSettings;
use crate::finding::Finding;
use crate::raw::{RawGroup, RawWindows};
use crate::rules::shape as rule;
use crate::source::Path;
use crate::value::{ByteSize, Taint};

/// What every Windows machine has unless its group says otherwise.
pub(super) struct Shared {
    pub(super) settings: WindowsSettings,
    pub(super) taint: Option<Taint>,
}

impl Checker<'_> {
    /// What every Windows machine has, checked whether or not there is one.
    pub(super) fn windows(&mut self, raw: &RawWindows) -> Shared {
        let at = Path::top().key("windows");
        let taint = raw.taint.as_ref();
        let taint = taint.and_then(|text| self.taint_or_none(&at.key("taint"), text));
        let usual = WindowsSettings::default();
        let mut written = BTreeSet::new();
        let mut timezone = usual.timezone;
        if let Some(text) = &raw.timezone {
            timezone = self.text(&at.key("timezone"), text);
            written.insert("timezone");
        }
        let mut page_file = usual.page_file;
        if let Some(text) = &raw.page_file {
            page_file = self.page_file(&at.key("pageFile"), text, page_file);
            written.insert("pageFile");
        }
        if raw.rdp.is_some() {
            written.insert("rdp");
        }
        let mut locale = usual.locale;
        if let Some(text) = &raw.locale {
            locale = self.text(&at.key("locale"), text);
        }
        let mut licence = usual.licence;
        if let Some(raw) = &raw.licence {
            licence = self.licence(&at.key("licence"), raw);
        }
        let mut administrator_password = usual.administrator_password;
        if let Some(raw) = &raw.administrator_password {
            administrator_password = self.secret(&at.key("administratorPassword"), raw);
        }
        let settings = WindowsSettings {
            timezone,
            locale,
            licence,
            administrator_password,
            updates: self.updates(&at.key("updates"), &raw.updates),
            page_file,
            defender_exclusions: raw.defender_exclusions,
            hyperv: raw.hyperv,
            rdp: raw.rdp.unwrap_or(usual.rdp),
            written,
        };
        Shared { settings, taint }
    }

    /// The settings of one group: the shared ones, with what the group says itself.
    pub(super) fn overridden(
        &mut self,
        shared: &WindowsSettings,
        raw: &RawGroup,
        place: &GroupPlace,
    ) -> WindowsSettings {
        let mut own = shared.clone();
        if let Some(timezone) = &raw.timezone {
            own.timezone = self.text(&place.field("timezone"), timezone);
            own.written.insert("timezone");
        }
        if let Some(locale) = &raw.locale {
            own.locale = self.text(&place.field("locale"), locale);
        }
        if let Some(licence) = &raw.licence {
            own.licence = self.licence(&place.field("licence"), licence);
        }
        if let Some(password) = &raw.administrator_password {
            own.administrator_password =
                self.secret(&place.field("administratorPassword"), password);
        }
        if let Some(updates) = &raw.updates {
            own.updates = self.updates(&place.field("updates"), updates);
        }
        if let Some(size) = &raw.page_file {
            own.page_file = self.page_file(&place.field("pageFile"), size, shared.page_file);
            own.written.insert("pageFile");
        }
        own.defender_exclusions = raw.defender_exclusions.unwrap_or(own.defender_exclusions);
        own.hyperv = raw.hyperv.unwrap_or(own.hyperv);
        if let Some(rdp) = raw.rdp {
            own.rdp = rdp;
            own.written.insert("rdp");
        }
        own
    }

    /// A size that Windows takes: it has limits, and reads a size of none as one that it chooses itself.
    fn page_file(&mut self, at: &Path, raw: &str, usual: ByteSize) -> ByteSize {
        let size = self.parse(&rule::BAD_VALUE, at, raw, usual);
        let (least, most) = (ByteSize::mib(16), ByteSize::gib(16 * 1024));
        if !(least..=most).contains(&size) {
            let finding = Finding::new(&rule::OUT_OF_RANGE, at.clone()).message(format!(
                "`{at}` is {size}, and must be from {least} to {most}"
            ));
            self.reject(finding, at);
        }
        size
    }

    fn updates(&mut self, at: &Path, raw: &[String]) -> Vec<String> {
        for (index, update) in raw.iter().enumerate() {
            let number = update
                .strip_prefix("KB")
                .or_else(|| update.strip_prefix("kb"))
                .unwrap_or_default();
            let plain = number.bytes().all(|byte| byte.is_ascii_digit());
            if !plain || !(6..=8).contains(&number.len()) {
                let at = at.index(index);
                let finding = Finding::new(&rule::BAD_VALUE, at.clone())
                    .message(format!("`{at}`: `{update}` is not a KB number"))
                    .hint("write it like `KB5044281`");
                self.reject(finding, &at);
            }
        }
        raw.to_vec()
    }
}
