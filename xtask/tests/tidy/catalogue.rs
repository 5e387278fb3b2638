//! Every rule of the error catalogue is applied somewhere.

use crate::files::{Breach, File};

const RULES: &str = "crates/mullion-spec/src/rules/";

/// A rule that no code names is documentation of something that does not happen.
pub(crate) fn applied_rules(files: &[File]) -> Vec<Breach> {
    let (tables, others): (Vec<_>, Vec<_>) = files
        .iter()
        .filter(|file| file.is_rust() && file.path.contains("/src/"))
        .partition(|file| file.path.starts_with(RULES));
    let is_applied = |name: &str| {
        let by_path = format!("::{name}");
        others.iter().any(|file| {
            file.text.match_indices(&by_path).any(|(at, found)| {
                let rest = &file.text[at + found.len()..];
                !rest.starts_with(|next: char| next == '_' || next.is_ascii_alphanumeric())
            })
        })
    };
    let mut breaches = Vec::new();
    for table in tables {
        for (index, line) in table.text.lines().enumerate() {
            if let Some(name) = declared(line).filter(|name| !is_applied(name)) {
                let what = format!("nothing applies the rule `{name}`");
                breaches.push(Breach::new(table, index + 1, what));
            }
        }
    }
    breaches
}

/// The name that a line of a table declares: `    NAME "E0101" "word" Error`.
fn declared(line: &str) -> Option<&str> {
    let (name, rest) = line.trim_start().split_once(' ')?;
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    (is_name && rest.starts_with("\"E")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_nobody_applies_is_found() {
        let files = [
            File::new(
                "crates/mullion-spec/src/rules/file.rs",
                "rules! {\n    USED \"E0101\" \"used\" Error\n    LONG \"E0102\" \"long\" Error\n",
            ),
            File::new(
                "crates/mullion/src/a.rs",
                "report(&rule::USED); rule::LONGER",
            ),
            File::new("crates/mullion/tests/b.rs", "rule::LONG"),
        ];
        let found: Vec<_> = applied_rules(&files)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            ["crates/mullion-spec/src/rules/file.rs:3: nothing applies the rule `LONG`"]
        );
    }
}
