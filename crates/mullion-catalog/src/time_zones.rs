//! Time zones, by Windows' names and by IANA's.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::catalog::Catalog;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeZonesFile {
    pub(crate) source: String,
    pub(crate) zone: BTreeMap<String, BTreeSet<String>>,
}

impl Catalog {
    /// Windows' name of a time zone that is named as Windows or as IANA does; `None` where nobody knows it.
    pub fn windows_time_zone(&self, name: &str) -> Option<&str> {
        let mut zones = self.time_zones.zone.iter();
        zones
            .find(|(windows, places)| *windows == name || places.contains(name))
            .map(|(windows, _)| windows.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_has_one_windows_name_however_it_is_named() {
        let zone = |name: &str| Catalog::builtin().windows_time_zone(name);
        assert_eq!(zone("UTC"), Some("UTC"));
        assert_eq!(zone("Europe/Berlin"), Some("W. Europe Standard Time"));
        assert_eq!(zone("Europe/Vienna"), Some("W. Europe Standard Time"));
        assert_eq!(
            zone("W. Europe Standard Time"),
            Some("W. Europe Standard Time")
        );
        assert_eq!(zone("Asia/Kolkata"), zone("Asia/Calcutta"));
        assert_eq!(zone("GMT"), Some("UTC"));
        assert_eq!(zone("Pacific/Pago_Pago"), Some("UTC-11"));
        assert_eq!(zone("Asia/Almaty"), zone("Asia/Tashkent"));
        assert_eq!(zone("Europe/Atlantis"), None);
    }

    #[test]
    fn places_are_under_zones_that_released_media_have() {
        let zone = |name: &str| Catalog::builtin().windows_time_zone(name);
        for (place, windows, newer) in [
            ("America/Edmonton", "Mountain Standard Time", "Alberta"),
            (
                "America/Vancouver",
                "Pacific Standard Time",
                "British Columbia",
            ),
            ("America/Winnipeg", "Central Standard Time", "Manitoba"),
        ] {
            assert_eq!(zone(place), Some(windows));
            assert_eq!(zone(&format!("{newer} Standard Time")), None);
        }
    }

    #[test]
    fn no_place_keeps_two_zones() {
        let mut seen = BTreeSet::new();
        for place in Catalog::builtin().time_zones.zone.values().flatten() {
            assert!(seen.insert(place), "{place} twice");
        }
    }
}
