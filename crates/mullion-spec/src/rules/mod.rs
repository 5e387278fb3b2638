//! The error catalogue: every rule that a file is held to.
//!
//! A rule is data: its code, its name, why it is there, what to do, and a file that breaks it. The
//! code that applies it lives with the values it is about, here or in the catalog crate; a test
//! proves of every rule that its example breaks it.

pub mod carriers;
pub mod file;
pub mod machines;
pub mod network;
pub mod release;
pub mod shape;
pub mod versions;

use serde::Serialize;

use crate::finding::Severity;

/// One rule of the error catalogue.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its stable code, such as `E0303`.
    pub code: &'static str,
    /// Its stable name, such as `windows-name-long`.
    pub name: &'static str,
    /// How bad a breach usually is.
    pub severity: Severity,
    /// The breach in one line.
    pub title: &'static str,
    /// Why the rule is there.
    pub why: &'static str,
    /// What to do, in general.
    pub remedy: &'static str,
    /// A file that breaks it; none for rules about files that cannot be read at all.
    pub example: Option<&'static str>,
}

macro_rules! rules {
    ($($name:ident $code:literal $word:literal $severity:ident
        $title:literal
        why $why:literal
        do $remedy:literal
        $(e.g. $example:literal)?;)+) => {
        $(
            #[doc = concat!("`", $code, "` ", $word, ": ", $title, ".")]
            pub static $name: $crate::rules::Rule = $crate::rules::Rule {
                code: $code,
                name: $word,
                severity: $crate::finding::Severity::$severity,
                title: $title,
                why: $why,
                remedy: $remedy,
                example: rules!(@example $($example)?),
            };
        )+
        pub(super) static ALL: &[&$crate::rules::Rule] = &[$(&$name),+];
    };
    (@example) => { None };
    (@example $example:literal) => { Some($example) };
}
pub(crate) use rules;

/// Every rule, by code.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [
        file::ALL,
        shape::ALL,
        machines::ALL,
        network::ALL,
        versions::ALL,
        carriers::ALL,
        release::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// The rule with a code or a name, however its letters are written.
pub fn find(code_or_name: &str) -> Option<&'static Rule> {
    all().find(|rule| {
        rule.code.eq_ignore_ascii_case(code_or_name) || rule.name.eq_ignore_ascii_case(code_or_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_names_are_unique() {
        let codes: Vec<_> = all().map(|rule| rule.code).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        let names: std::collections::BTreeSet<_> = all().map(|rule| rule.name).collect();
        assert_eq!(names.len(), codes.len());
    }

    #[test]
    fn a_rule_is_found_by_code_and_by_name() {
        assert_eq!(find("e0110").map(|rule| rule.name), Some("duplicate-key"));
        assert_eq!(find("duplicate-key").map(|rule| rule.code), Some("E0110"));
        assert_eq!(find("E9999"), None);
    }
}
