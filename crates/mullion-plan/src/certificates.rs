//! Until when certificates are good, and from when on somebody hears of it.
//!
//! | what | share of its life that is left | what happens |
//! |---|---|---|
//! | certificate that kubeadm renews | less than a fifth (of a year: 73 days) | `status` warns |
//! | the same | less than a tenth (of a year: 36 days) | `up` renews it |
//! | authority's certificate | less than a tenth (of ten years: one year) | `status` warns |

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const DAY: u64 = 86_400;

/// The certificates of a control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CertificateFacts {
    /// The one that ends first of those that kubeadm renews.
    pub first: Certificate,
    /// The one that ends first of the authorities' own, which kubeadm does not renew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<Certificate>,
    /// Why they are to be renewed now, for people; `None` where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The digest of the certificate in the admin's kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
}

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Certificate {
    /// Its file, below kubeadm's folder.
    pub file: String,
    /// When it was issued, in seconds since 1970.
    pub issued: u64,
    /// Until when it is good, in seconds since 1970.
    pub expires: u64,
}

impl Certificate {
    /// Whether `up` renews it at that time, in seconds since 1970.
    pub fn is_due(&self, now: u64) -> bool {
        self.has_less_than_one_in(10, now)
    }

    /// Whether `status` warns of it at that time, in seconds since 1970.
    pub fn ends_soon(&self, now: u64) -> bool {
        self.has_less_than_one_in(5, now)
    }

    /// The whole days that are left at that time, in seconds since 1970; negative where it has expired.
    pub fn days_left(&self, now: u64) -> i64 {
        let left = i128::from(self.expires) - i128::from(now);
        let days = left.div_euclid(i128::from(DAY));
        i64::try_from(days).unwrap_or(i64::MAX)
    }

    /// How long it is good at that time, in seconds since 1970: "ends in 12 days".
    pub fn end(&self, now: u64) -> String {
        if self.expires < now {
            return format!("expired {} ago", long(now - self.expires));
        }
        format!("ends in {}", long(self.expires - now))
    }

    fn has_less_than_one_in(&self, parts: u128, now: u64) -> bool {
        let left = u128::from(self.expires.saturating_sub(now));
        let life = u128::from(self.expires.saturating_sub(self.issued));
        // One that has expired has less than any part of its life left.
        self.expires <= now || left * parts < life
    }
}

/// A time in its largest unit.
fn long(seconds: u64) -> String {
    let count = |number: u64, unit: &str| match number {
        1 => format!("1 {unit}"),
        number => format!("{number} {unit}s"),
    };
    match seconds {
        0..60 => count(seconds, "second"),
        60..7_200 => count(seconds / 60, "minute"),
        7_200..172_800 => count(seconds / 3_600, "hour"),
        _ => count(seconds / DAY, "day"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 2_000_000_000;

    /// One with so many days left of so many.
    fn certificate(left: u64, life: u64) -> Certificate {
        Certificate {
            file: "pki/apiserver.crt".into(),
            issued: NOW + left * DAY - life * DAY,
            expires: NOW + left * DAY,
        }
    }

    #[test]
    fn a_certificate_is_warned_of_before_it_is_renewed() {
        for (left, soon, due) in [
            (365, false, false),
            (73, false, false),
            (72, true, false),
            (37, true, false),
            (36, true, true),
            (0, true, true),
        ] {
            let found = certificate(left, 365);
            assert_eq!(
                (found.ends_soon(NOW), found.is_due(NOW)),
                (soon, due),
                "{left}"
            );
        }
        // An authority's of ten years.
        assert!(!certificate(366, 3650).is_due(NOW));
        assert!(certificate(364, 3650).is_due(NOW));
        // Also one whose life has no length, and one that no clock ever reaches.
        assert!(certificate(0, 0).is_due(NOW));
        let endless = Certificate {
            file: String::new(),
            issued: 0,
            expires: u64::MAX,
        };
        assert!(!endless.is_due(NOW));
        assert!(endless.days_left(0) > 0);
    }

    #[test]
    fn what_is_left_is_told_in_days() {
        let found = certificate(12, 365);
        assert_eq!(found.days_left(NOW), 12);
        assert_eq!(found.days_left(NOW + 1), 11);
        assert_eq!(found.days_left(NOW + 12 * DAY + 1), -1);
        assert_eq!(found.end(NOW), "ends in 12 days");
        assert_eq!(found.end(NOW + 12 * DAY - 45), "ends in 45 seconds");
        assert_eq!(found.end(NOW + 15 * DAY), "expired 3 days ago");
        assert_eq!(found.end(NOW + 12 * DAY + 3_600), "expired 60 minutes ago");
    }
}
