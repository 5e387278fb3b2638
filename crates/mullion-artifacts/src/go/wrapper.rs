//! The go.mod of a wrapper module: it requires one module, and builds its programs as that module itself would.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mullion_catalog::{GoModule, Replace};

use super::version::GoVersion;

/// The lines of a go.mod that only count in the main module, and so must be said again by the wrapper.
#[derive(Debug, Default, PartialEq, Eq)]
struct MainLines {
    go: String,
    replaces: Vec<String>,
    others: Vec<String>,
}

/// The text of the wrapper's go.mod. `folders` take the place of modules, whatever upstream says about these.
pub(super) fn go_mod(
    module: &GoModule,
    upstream: &str,
    folders: &BTreeMap<String, String>,
) -> String {
    let lines = main_lines(upstream);
    let mut text = String::from("module mullion.invalid/wrapper\n\n");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "go {}\n", lines.go);
    let _ = writeln!(text, "require {} {}", module.path, module.version);
    for other in &lines.others {
        let _ = writeln!(text, "\n{other}");
    }
    let kept = lines.replaces.iter().filter(|line| {
        let name = line.split_whitespace().next().unwrap_or_default();
        !folders.contains_key(name)
    });
    let replaces: Vec<_> = kept
        .filter_map(|line| replace(module, line))
        .chain((folders.iter()).map(|(path, folder)| format!("{path} => {folder}")))
        .collect();
    if !replaces.is_empty() {
        text.push_str("\nreplace (\n");
        for line in replaces {
            let _ = writeln!(text, "\t{line}");
        }
        text.push_str(")\n");
    }
    text
}

/// The version of Go that a go.mod asks for; 1.16 where it names none, as the Go tool holds it.
pub(super) fn go_line(upstream: &str) -> Option<GoVersion> {
    main_lines(upstream).go.parse().ok()
}

/// One `replace` line, as the wrapper says it; none where it led to a folder of the module.
fn replace(module: &GoModule, line: &str) -> Option<String> {
    let (left, right) = line.split_once("=>")?;
    let (left, right) = (left.trim(), right.trim());
    if !(right.starts_with("./") || right.starts_with("../")) {
        return Some(format!("{left} => {right}"));
    }
    match (module.replace, &module.staging_version) {
        (Replace::Staging, Some(version)) if right.starts_with("./staging/") => {
            let name = left.split_whitespace().next()?;
            Some(format!("{left} => {name} {version}"))
        }
        _ => None,
    }
}

fn main_lines(text: &str) -> MainLines {
    let mut found = MainLines {
        go: "1.16".into(),
        ..MainLines::default()
    };
    let mut block: Option<String> = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (verb, rest) = match &block {
            Some(_) if line == ")" => {
                block = None;
                continue;
            }
            Some(verb) => (verb.clone(), line.to_owned()),
            None => {
                let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                if rest.trim() == "(" {
                    block = Some(verb.to_owned());
                    continue;
                }
                (verb.to_owned(), rest.trim().to_owned())
            }
        };
        match verb.as_str() {
            "go" => found.go = rest,
            "replace" => found.replaces.push(rest),
            "exclude" | "godebug" => found.others.push(format!("{verb} {rest}")),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use mullion_catalog::Digest;

    use super::*;

    fn module(replace: Replace, staging: Option<&str>) -> GoModule {
        GoModule {
            path: "k8s.io/kubernetes".into(),
            version: "v1.36.4".into(),
            sum: Digest::Unknown,
            in_checksum_database: true,
            replace,
            staging_version: staging.map(Into::into),
        }
    }

    const UPSTREAM: &str = "\
// A comment.
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
\tk8s.io/api v0.0.0 // indirect
)

exclude example.org/bad v1.0.0

replace example.org/kept => example.org/fork v1.2.3

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/other => ../other
)
";

    #[test]
    fn staging_modules_get_their_published_version() {
        let text = go_mod(
            &module(Replace::Staging, Some("v0.36.4")),
            UPSTREAM,
            &BTreeMap::new(),
        );
        assert_eq!(
            text,
            "\
module mullion.invalid/wrapper

go 1.26.0

require k8s.io/kubernetes v1.36.4

godebug default=go1.26

exclude example.org/bad v1.0.0

replace (
\texample.org/kept => example.org/fork v1.2.3
\tk8s.io/api => k8s.io/api v0.36.4
)
"
        );
    }

    #[test]
    fn a_patched_folder_takes_the_place_of_its_module() {
        let folders = BTreeMap::from([
            ("k8s.io/api".into(), "./patched/k8s.io/api".into()),
            (
                "k8s.io/kubernetes".into(),
                "./patched/k8s.io/kubernetes".into(),
            ),
        ]);
        let text = go_mod(
            &module(Replace::Staging, Some("v0.36.4")),
            UPSTREAM,
            &folders,
        );
        assert!(text.contains("require k8s.io/kubernetes v1.36.4\n"));
        assert!(
            text.contains("\tk8s.io/api => ./patched/k8s.io/api\n"),
            "{text}"
        );
        assert!(text.contains("\tk8s.io/kubernetes => ./patched/k8s.io/kubernetes\n"));
        assert_eq!(text.matches("k8s.io/api =>").count(), 1, "{text}");
    }

    #[test]
    fn replacements_by_folders_are_dropped_and_others_stay() {
        let text = go_mod(
            &module(Replace::DropLocal, None),
            UPSTREAM,
            &BTreeMap::new(),
        );
        assert!(text.contains("example.org/kept => example.org/fork v1.2.3"));
        assert!(!text.contains("staging") && !text.contains("../other"));
    }

    #[test]
    fn a_module_without_replacements_has_no_empty_block() {
        let text = go_mod(
            &module(Replace::DropLocal, None),
            "module a\n\ngo 1.24\n",
            &BTreeMap::new(),
        );
        assert!(!text.contains("replace"), "{text}");
        assert_eq!(
            go_line("module a\n\ngo 1.24.2\n"),
            Some("1.24.2".parse().unwrap())
        );
        assert_eq!(go_line("module a\n"), Some("1.16".parse().unwrap()));
    }
}
