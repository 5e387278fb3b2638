//! The way of one setting through the program: short enough to be walked.

use std::collections::BTreeSet;

use crate::files::{Breach, File};

const PAGE: &str = "docs/architecture.md";

/// The heading of the section, and the setting that it follows.
const HEADING: &str = "## One setting's way: `network.vni`";
const SETTING: &str = "vni";

/// So many files at most lie between the cluster file and the node.
const MOST: usize = 10;

/// Crates that are in no product.
const OUTSIDE: [&str; 2] = ["mullion-testkit", "mullion-fuzz"];

/// The section names every file of the product whose code knows the setting, and ten files at most.
pub(crate) fn of_one_setting(files: &[File]) -> Vec<Breach> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let told = told(&page.text);
    let mut breaches = Vec::new();
    if told.len() > MOST {
        let what = format!("the way has {} files, {MOST} at most", told.len());
        breaches.push(Breach::new(page, 1, what));
    }
    let knowing = files.iter().filter(|file| is_product(file) && knows(file));
    for file in knowing.filter(|file| !told.contains(file.path.as_str())) {
        let what = format!("knows `{SETTING}`, and its way in {PAGE} does not lead through it");
        breaches.push(Breach::new(file, 1, what));
    }
    breaches
}

/// The paths that the section has in back-ticks.
fn told(page: &str) -> BTreeSet<&str> {
    let section = page.split_once(HEADING).map_or("", |(_, rest)| rest);
    let section = section.split_once("\n## ").map_or(section, |(own, _)| own);
    let ticked = section.split('`').skip(1).step_by(2);
    ticked
        .filter(|token| token.starts_with("crates/"))
        .collect()
}

fn is_product(file: &File) -> bool {
    let is_source = file.is_rust() && file.path.contains("/src/");
    let name = file.crate_name();
    is_source && name.is_some_and(|name| name != "xtask" && !OUTSIDE.contains(&name))
}

/// Whether a name in the file's code is the setting's.
fn knows(file: &File) -> bool {
    let mut tokens = file.tokens().into_iter();
    tokens.any(|token| token.text == SETTING)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(paths: &[&str]) -> File {
        let rows: Vec<_> = paths
            .iter()
            .map(|path| format!("| a step | `{path}` |"))
            .collect();
        let text = format!(
            "# A page\n{HEADING}\n\n{}\n\n## More `crates/z/src/z.rs`\n",
            rows.join("\n")
        );
        File::new(PAGE, &text)
    }

    #[test]
    fn a_file_that_knows_the_setting_is_on_its_way() {
        let knows = File::new("crates/mullion-a/src/a.rs", "fn a(x: X) { x.vni; }");
        let other = File::new("crates/mullion-a/src/b.rs", "// vni\nfn b() { \"vni\"; }");
        let files = [page(&["crates/mullion-a/src/a.rs"]), knows.clone(), other];
        assert!(of_one_setting(&files).is_empty());
        let breaches = of_one_setting(&[page(&[]), knows]);
        assert_eq!(breaches.len(), 1);
        assert_eq!(breaches[0].path, "crates/mullion-a/src/a.rs");
    }

    #[test]
    fn the_way_is_short_and_leads_through_the_product_alone() {
        let paths: Vec<_> = (0..=MOST)
            .map(|n| format!("crates/mullion-a/src/{n}.rs"))
            .collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        assert_eq!(of_one_setting(&[page(&paths)]).len(), 1);
        let double = File::new("crates/mullion-testkit/src/a.rs", "fn a() { vni(); }");
        assert!(of_one_setting(&[page(&[]), double]).is_empty());
    }
}
