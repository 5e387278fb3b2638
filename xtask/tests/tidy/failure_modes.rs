//! The page of failure modes and their tests are in step.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{Breach, File};

const PAGE: &str = "docs/windows-failure-modes.md";
/// So many are known.
const MODES: u32 = 62;

/// Every mode has one row; a test is there for those that are prevented or eased, and for no others.
pub(crate) fn in_step(files: &[File]) -> Vec<Breach> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let tested = tested(files);
    let mut breaches = Vec::new();
    let mut rows: BTreeMap<u32, usize> = BTreeMap::new();
    for (index, line) in page.text.lines().enumerate() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let ["", number, _, here, ""] = cells.as_slice() else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        let mut tell = |what: String| breaches.push(Breach::new(page, index + 1, what));
        if rows.insert(number, index).is_some() {
            tell(format!("mode {number} has two rows"));
        }
        let word = here.split(':').next().unwrap_or_default();
        let wants_test = match word {
            "prevented" | "eased" => true,
            "later" | "not ours" => false,
            _ => {
                tell(format!(
                    "mode {number} is neither prevented nor anything else"
                ));
                continue;
            }
        };
        match (wants_test, tested.contains(&number)) {
            (true, false) => tell(format!("mode {number} is {word}, and no test says so")),
            (false, true) => tell(format!("mode {number} is {word}, and has a test")),
            _ => {}
        }
    }
    for number in (1..=MODES).filter(|number| !rows.contains_key(number)) {
        breaches.push(Breach::new(page, 1, format!("mode {number} has no row")));
    }
    breaches
}

/// The modes that tests are named after.
fn tested(files: &[File]) -> BTreeSet<u32> {
    let rust = files
        .iter()
        .filter(|file| file.is_rust() && file.path.starts_with("crates/"));
    rust.flat_map(|file| file.text.lines())
        .filter_map(|line| line.strip_prefix("fn mode_"))
        .filter_map(|name| name.split('_').next()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(here: &str) -> String {
        let rows = (1..=MODES).map(|number| {
            let here = if number == 7 { here } else { "later" };
            format!("| {number} | it fails | {here} |\n")
        });
        rows.collect()
    }

    fn told(here: &str, test: &str) -> Vec<String> {
        let files = [
            File::new(PAGE, &page(here)),
            File::new("crates/mullion-render/tests/a.rs", test),
        ];
        in_step(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_promise_without_a_test_and_a_test_without_a_promise_are_found() {
        let test = "#[test]\nfn mode_07_x() {\n";
        assert!(told("prevented: so", test).is_empty());
        assert_eq!(
            told("eased", ""),
            ["docs/windows-failure-modes.md:7: mode 7 is eased, and no test says so"]
        );
        assert_eq!(
            told("later", test),
            ["docs/windows-failure-modes.md:7: mode 7 is later, and has a test"]
        );
        assert_eq!(told("well", test).len(), 1);
    }

    #[test]
    fn every_mode_has_one_row() {
        let text = page("later").replace("| 9 |", "| 8 |");
        let breaches = in_step(&[File::new(PAGE, &text)]);
        let told: Vec<_> = breaches.iter().map(|breach| breach.what.as_str()).collect();
        assert_eq!(told, ["mode 8 has two rows", "mode 9 has no row"]);
    }
}
