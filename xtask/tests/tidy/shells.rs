//! Windows is talked to by its own interfaces. PowerShell writes its progress into what it says, and runs only where
//! nothing else does a thing: such a call has a module of its own, which would stand in the list below.

use crate::files::{Breach, Exception, File, line_of, with_exceptions};
use crate::sources;

/// What PowerShell is called, in lower case.
const NAMES: &[&str] = &["powershell", "pwsh", ".ps1"];

/// Files whose texts may name it.
const EXCEPTIONS: &[Exception] = &[Exception {
    subject: "crates/mullion-spec/src/rules/file.rs",
    reason: "it tells people what PowerShell makes of their file",
}];

const LISTED_IN: &str = "xtask/tests/tidy/shells.rs";

/// No text of the product names PowerShell.
pub(crate) fn no_powershell(files: &[File]) -> Vec<Breach> {
    with_exceptions(LISTED_IN, EXCEPTIONS, named(files))
}

fn named(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (file, tokens) in sources::of_product(files) {
        for token in tokens.iter().filter(|token| token.text.contains('"')) {
            let literal = token.text.to_ascii_lowercase();
            for name in NAMES {
                let places = literal.match_indices(name);
                breaches.extend(places.map(|(at, _)| {
                    let line = line_of(&file.text, token.place + at);
                    Breach::new(file, line, format!("names `{name}`"))
                }));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<String> {
        let breaches = named(&[File::new(path, text)]);
        breaches.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_call_of_powershell_is_found_in_the_product_and_nowhere_else() {
        let call = "fn run() {\n    Program::new(\"PowerShell.exe\", [])\n}\n";
        assert_eq!(
            told("crates/mullion-agent/src/system/windows/own.rs", call),
            ["crates/mullion-agent/src/system/windows/own.rs:2: names `powershell`"]
        );
        assert!(told("crates/mullion-agent/tests/windows/main.rs", call).is_empty());
        assert!(told("crates/mullion-agent/src/a.rs", "// not PowerShell\n").is_empty());
    }

    #[test]
    fn an_exception_covers_its_file_and_must_be_needed() {
        let exception = |subject| Exception {
            subject,
            reason: "for the test",
        };
        let files = [File::new("crates/a/src/a.rs", "const A: &str = \"pwsh\";")];
        let left = |subject| with_exceptions(LISTED_IN, &[exception(subject)], named(&files));
        assert!(left("crates/a/src/a.rs").is_empty());
        assert_eq!(left("crates/b/src/b.rs").len(), 2);
    }
}
