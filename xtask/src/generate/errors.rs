//! The error catalogue as a page.

use std::fmt::Write as _;

use mullion_spec::finding::Severity;
use mullion_spec::rules;

pub(super) fn render() -> String {
    let mut text = String::from(
        "# Error catalogue\n\n\
         Every rule that a cluster file is held to. `mullion explain CODE` shows the same, with its example judged.\n\
         Codes are stable: one that is given up is not used again.\n",
    );
    for rule in rules::all() {
        let severity = match rule.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let _ = write!(
            text,
            "\n## {} {}\n\n{} ({severity}).\n\n{}\n\n**What to do:** {}.\n",
            rule.code,
            rule.name,
            capital(rule.title),
            rule.why,
            rule.remedy
        );
        if let Some(example) = rule.example {
            let _ = write!(text, "\n```yaml\n{}\n```\n", example.trim_end());
        }
    }
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
