//! How Windows machines are set up: once for all, and where a group says otherwise.

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
        let settings = WindowsSettings {
            timezone: self.text(&at.key("timezone"), &raw.timezone),
            locale: self.text(&at.key("locale"), &raw.locale),
            licence: self.licence(&at.key("licence"), &raw.licence),
            administrator_password: self.secret(
                &at.key("administratorPassword"),
                &raw.administrator_password,
            ),
            updates: self.updates(&at.key("updates"), &raw.updates),
            page_file: self.parse(
                &rule::BAD_VALUE,
                &at.key("pageFile"),
                &raw.page_file,
                ByteSize::gib(4),
            ),
            defender_exclusions: raw.defender_exclusions,
            hyperv: raw.hyperv,
            rdp: raw.rdp,
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
            own.page_file = self.parse(
                &rule::BAD_VALUE,
                &place.field("pageFile"),
                size,
                shared.page_file,
            );
        }
        own.defender_exclusions = raw.defender_exclusions.unwrap_or(own.defender_exclusions);
        own.hyperv = raw.hyperv.unwrap_or(own.hyperv);
        own.rdp = raw.rdp.unwrap_or(own.rdp);
        own
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
