//! The crates: which there are, which may use which, and what the architecture page says of them.

use std::collections::BTreeMap;

use crate::files::{Breach, File};

/// The crates in dependency order, those still to come included. A crate may use only those above it.
pub(crate) const TABLE: &[&str] = &[
    "mullion-spec",
    "mullion-catalog",
    "mullion-wire",
    "mullion-render",
    "mullion-plan",
    "mullion-lint",
    "mullion-agent",
    "mullion-standin",
    "mullion-rights",
    "mullion-program",
    "mullion-tar",
    "mullion-ssh",
    "mullion-artifacts",
    "mullion-template",
    "mullion-machines",
    "mullion-kube",
    "mullion-engine",
    "mullion-live",
    "mullion-verify",
    "mullion",
    "mullion-testkit",
    "mullion-fuzz",
    "xtask",
];

const ARCHITECTURE: &str = "docs/architecture.md";

/// The most lines that the architecture page may have: it is read by everyone, in one go.
const ARCHITECTURE_LINES: usize = 110;

/// A crate that exists: its manifest and its folder's name.
fn manifests(files: &[File]) -> BTreeMap<&str, &File> {
    files
        .iter()
        .filter_map(|file| {
            let name = file.crate_name()?;
            let is_manifest = [
                format!("crates/{name}/Cargo.toml"),
                format!("{name}/Cargo.toml"),
            ];
            is_manifest.contains(&file.path).then_some((name, file))
        })
        .collect()
}

fn position(name: &str) -> Option<usize> {
    TABLE.iter().position(|entry| *entry == name)
}

/// The line where a dependency is first named, for the reader's sake; the first line when it is not found.
fn line_naming(file: &File, name: &str) -> usize {
    1 + file
        .text
        .lines()
        .position(|line| line.trim_start().starts_with(name))
        .unwrap_or(0)
}

/// The mullion crates that a manifest's product code uses. Development dependencies are not asked: tests may
/// use whatever helps them.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let sections = |table: &toml::Table| -> Vec<toml::Table> {
        ["dependencies", "build-dependencies"]
            .iter()
            .filter_map(|section| table.get(*section)?.as_table().cloned())
            .collect()
    };
    let mut tables = sections(manifest);
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(
            targets
                .values()
                .filter_map(toml::Value::as_table)
                .flat_map(sections),
        );
    }
    let package = |key: &String, value: &toml::Value| {
        value
            .get("package")
            .and_then(toml::Value::as_str)
            .unwrap_or(key)
            .to_owned()
    };
    let mut names: Vec<_> = tables
        .iter()
        .flat_map(|table| table.iter().map(|(key, value)| package(key, value)))
        .filter(|name| name == "mullion" || name == "xtask" || name.starts_with("mullion-"))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// A crate uses only crates above it in the table.
pub(crate) fn dependency_order(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (name, file) in manifests(files) {
        let manifest: toml::Table = match file.text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                breaches.push(Breach::new(file, 1, format!("is not TOML: {error}")));
                continue;
            }
        };
        for used in dependencies(&manifest) {
            let is_above = position(&used)
                .zip(position(name))
                .is_some_and(|(used, own)| used < own);
            if !is_above {
                let what =
                    format!("`{name}` may not use `{used}`: it is not above it in the table");
                breaches.push(Breach::new(file, line_naming(file, &used), what));
            }
        }
    }
    breaches
}

/// Every crate is in the table, under its folder's name.
pub(crate) fn known_crates(files: &[File]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (folder, file) in manifests(files) {
        if position(folder).is_none() {
            breaches.push(Breach::new(
                file,
                1,
                format!("`{folder}` is not in the table of crates"),
            ));
        }
        let manifest = file.text.parse::<toml::Table>().unwrap_or_default();
        let package = manifest
            .get("package")
            .and_then(|package| package.get("name")?.as_str());
        if package != Some(folder) {
            breaches.push(Breach::new(
                file,
                1,
                format!("the package is not named `{folder}` as its folder is"),
            ));
        }
    }
    breaches
}

/// The architecture page has one row a crate that exists, in the table's order, each cell filled, and stays
/// short.
pub(crate) fn architecture(files: &[File]) -> Vec<Breach> {
    let Some(page) = files.iter().find(|file| file.path == ARCHITECTURE) else {
        return vec![Breach {
            path: ARCHITECTURE.into(),
            line: 1,
            what: "is missing".into(),
        }];
    };
    let mut breaches = Vec::new();
    let length = page.text.lines().count();
    if length > ARCHITECTURE_LINES {
        breaches.push(Breach::new(
            page,
            length,
            format!("has {length} lines, {ARCHITECTURE_LINES} at most"),
        ));
    }
    let existing = manifests(files);
    let mut rows: Vec<&str> = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let Some((name, cells)) = row(line) else {
            continue;
        };
        let mut breach = |what: String| breaches.push(Breach::new(page, index + 1, what));
        if !existing.contains_key(name) {
            breach(format!("has a row for `{name}`, which does not exist"));
        }
        if cells.len() != 4 || cells.iter().any(|cell| cell.is_empty()) {
            breach(format!(
                "the row of `{name}` needs four filled cells: crate, gets, gives, may not touch"
            ));
        }
        if rows.contains(&name) {
            breach(format!("has two rows for `{name}`"));
        } else if rows
            .last()
            .is_some_and(|last| position(last) > position(name))
        {
            breach(format!("the row of `{name}` is not in the table's order"));
        }
        rows.push(name);
    }
    let missing = existing.keys().filter(|name| !rows.contains(*name));
    breaches.extend(missing.map(|name| Breach::new(page, 1, format!("has no row for `{name}`"))));
    breaches
}

/// The crate and the cells of a table row that begins with a crate's name in back-ticks.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<_> = inner.split('|').map(str::trim).collect();
    let name = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
    let is_crate = name == "xtask" || name == "mullion" || name.starts_with("mullion-");
    is_crate.then_some((name, cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(folder: &str, rest: &str) -> File {
        let name = folder.rsplit('/').next().unwrap();
        File::new(
            &format!("{folder}/Cargo.toml"),
            &format!("[package]\nname = \"{name}\"\n{rest}"),
        )
    }

    fn told(breaches: &[Breach]) -> Vec<String> {
        breaches.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn using_a_crate_below_is_found_wherever_it_is_declared() {
        for rest in [
            "[dependencies]\nmullion-plan.workspace = true\n",
            "[build-dependencies]\nmullion-plan = { path = \"../mullion-plan\" }\n",
            "[target.'cfg(unix)'.dependencies]\nmullion-plan.workspace = true\n",
        ] {
            assert_eq!(
                told(&dependency_order(&[manifest("crates/mullion-spec", rest)])),
                [
                    "crates/mullion-spec/Cargo.toml:4: `mullion-spec` may not use `mullion-plan`: it is not above it in the table"
                ],
                "{rest}"
            );
        }
        let renamed = "[dependencies]\nplanning = { package = \"mullion-plan\", path = \"../mullion-plan\" }\n";
        assert_eq!(
            dependency_order(&[manifest("crates/mullion-spec", renamed)]).len(),
            1
        );
    }

    #[test]
    fn using_crates_above_others_and_test_tools_is_fine() {
        let rest = "[dependencies]\nmullion-spec.workspace = true\nserde.workspace = true\n\
                    [dev-dependencies]\nmullion-engine.workspace = true\n";
        assert!(dependency_order(&[manifest("crates/mullion-plan", rest)]).is_empty());
        let rest = "[dependencies]\nmullion = { path = \"../crates/mullion\" }\n";
        assert!(dependency_order(&[manifest("xtask", rest)]).is_empty());
    }

    #[test]
    fn a_crate_outside_the_table_or_under_another_name_is_found() {
        let strange = manifest("crates/mullion-extra", "");
        assert_eq!(
            told(&known_crates(&[strange])),
            ["crates/mullion-extra/Cargo.toml:1: `mullion-extra` is not in the table of crates"]
        );
        let renamed = File::new(
            "crates/mullion-spec/Cargo.toml",
            "[package]\nname = \"spec\"\n",
        );
        assert_eq!(known_crates(&[renamed]).len(), 1);
        assert!(known_crates(&[manifest("crates/mullion-spec", "")]).is_empty());
        let deeper = File::new("crates/mullion-spec/fixtures/Cargo.toml", "");
        assert!(
            known_crates(&[deeper]).is_empty(),
            "only a crate's own manifest counts"
        );
    }

    fn page(text: &str) -> Vec<String> {
        told(&architecture(&[
            manifest("crates/mullion-spec", ""),
            manifest("crates/mullion-plan", ""),
            File::new(ARCHITECTURE, text),
        ]))
    }

    const SPEC: &str = "| `mullion-spec` | text | values | files |\n";
    const PLAN: &str = "| `mullion-plan` | values | steps | files |\n";

    #[test]
    fn one_filled_row_a_crate_in_order_is_fine() {
        assert!(
            page(&format!(
                "| crate | gets | gives | may not |\n|---|---|---|---|\n{SPEC}{PLAN}"
            ))
            .is_empty()
        );
    }

    #[test]
    fn missing_unknown_double_disordered_and_empty_rows_are_found() {
        assert_eq!(
            page(SPEC),
            ["docs/architecture.md:1: has no row for `mullion-plan`"]
        );
        let kube = format!("{SPEC}{PLAN}| `mullion-kube` | a | b | c |\n");
        assert_eq!(
            page(&kube),
            ["docs/architecture.md:3: has a row for `mullion-kube`, which does not exist"]
        );
        assert_eq!(
            page(&format!("{SPEC}{PLAN}{PLAN}")),
            ["docs/architecture.md:3: has two rows for `mullion-plan`"]
        );
        assert_eq!(
            page(&format!("{PLAN}{SPEC}")),
            ["docs/architecture.md:2: the row of `mullion-spec` is not in the table's order"]
        );
        assert_eq!(
            page(&format!("{SPEC}| `mullion-plan` | values | | files |\n")).len(),
            1
        );
        assert_eq!(
            told(&architecture(&[])),
            ["docs/architecture.md:1: is missing"]
        );
    }

    #[test]
    fn a_long_page_is_found() {
        assert!(page(&format!("{SPEC}{PLAN}{}", "x\n".repeat(108))).is_empty());
        assert_eq!(
            page(&format!("{SPEC}{PLAN}{}", "x\n".repeat(109))),
            ["docs/architecture.md:111: has 111 lines, 110 at most"]
        );
    }
}
