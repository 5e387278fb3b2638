//! The Rust files that are part of the product: test code, inside files and as files, left out.

use std::collections::BTreeSet;

use crate::files::File;
use crate::rust::{Token, test_modules};

/// Every Rust file that is not test code, with its tokens, those of test items left out.
pub(crate) fn of_product(files: &[File]) -> Vec<(&File, Vec<Token<'_>>)> {
    let rust: Vec<_> = files.iter().filter(|file| file.is_rust()).collect();
    let declared: BTreeSet<String> = rust
        .iter()
        .flat_map(|file| declared_for_tests(file))
        .collect();
    let is_test = |path: &str| {
        let by_place = path
            .split('/')
            .any(|part| matches!(part, "tests" | "tests.rs" | "benches"));
        by_place
            || declared.iter().any(|module| {
                path.strip_prefix(module.as_str())
                    .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            })
    };
    rust.into_iter()
        .filter(|file| !is_test(&file.path))
        .map(|file| {
            let mut tokens = file.tokens();
            tokens.retain(|token| !file.source().is_test(token.place));
            (file, tokens)
        })
        .collect()
}

/// The modules that a file declares for tests only, as paths without an ending.
fn declared_for_tests(file: &File) -> Vec<String> {
    if !file.text.contains("test") {
        return Vec::new();
    }
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let stem = name.trim_end_matches(".rs");
    let base = match stem {
        "lib" | "main" | "mod" => folder.to_owned(),
        _ => format!("{folder}/{stem}"),
    };
    test_modules(&file.text, file.source())
        .into_iter()
        .map(|module| format!("{base}/{module}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_left_out_by_place_and_by_declaration() {
        let files = [
            File::new(
                "crates/a/src/lib.rs",
                "#[cfg(test)]\nmod fixtures;\nmod plan;",
            ),
            File::new("crates/a/src/fixtures.rs", ""),
            File::new("crates/a/src/fixtures/deep.rs", ""),
            File::new("crates/a/src/fixtures_of_plan.rs", ""),
            File::new("crates/a/src/plan.rs", "#[cfg(test)]\nmod generated;\n"),
            File::new("crates/a/src/plan/generated.rs", ""),
            File::new("crates/a/src/plan/tests.rs", ""),
            File::new("crates/a/tests/cli.rs", ""),
            File::new("crates/a/README.md", ""),
        ];
        let paths: Vec<_> = of_product(&files)
            .iter()
            .map(|(file, _)| file.path.as_str())
            .collect();
        assert_eq!(
            paths,
            [
                "crates/a/src/lib.rs",
                "crates/a/src/fixtures_of_plan.rs",
                "crates/a/src/plan.rs"
            ]
        );
    }
}
