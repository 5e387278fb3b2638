//! What every field of `cluster.yaml` acts on, as a page, from the table that a test of `mullion` holds true.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mullion_catalog::Catalog;
use mullion_spec::rules;
use serde::Deserialize;

const TABLE: &str = include_str!("../../../crates/mullion/tests/fields/fields.toml");

#[derive(Deserialize)]
struct Table {
    field: Vec<Row>,
}

/// What a page needs of a row.
#[derive(Deserialize)]
struct Row {
    path: String,
    acts: BTreeMap<String, String>,
    #[serde(default)]
    alone: BTreeMap<String, String>,
}

const BEGIN: &str = "\
# What every field acts on

Generated from `crates/mullion/tests/fields/fields.toml`. For each field of `cluster.yaml`, a test takes a working file,
changes only this field to another legal value, and compares both files. A cell names everything that changes, or the error
that refuses the second file. Nothing else may change. Where a field needs another one, both files have the other one as
well; *by itself* says what happens without it. A field that takes one value alone, such as `kind`, refuses every other.

The first table has one column, since its fields are about the whole cluster. In the other tables, each column is one such
file, which the test calls a base. The changed field is that of a group of machines of this kind, or is shared by them:

@COLUMNS@
The words in the cells mean:

| word | what changes |
|---|---|
| blueprint | the document that the agent applies on machines |
| findings | what `validate` reports |
| images | the archives of images that nodes get |
| kubeadm | kubeadm's configuration |
| logins | how machines are logged in to |
| objects | the objects that the cluster gets |
| plan | steps, and what they carry |
| sources | where programs and images come from, and where they are kept |
| templates | what machines are made from |

Drivers that this release does not have refuse every group that names them (E0901).
";

pub(super) fn render() -> String {
    let table: Table = match toml::from_str(TABLE) {
        Ok(table) => table,
        Err(error) => panic!("fields.toml: {error}"),
    };
    let mut text = BEGIN.replace("@COLUMNS@", &columns(&table));
    let of_groups = |row: &&Row| row.path.starts_with("machines[]");
    let of_windows = |row: &&Row| row.path.starts_with("windows.");
    let rows = || table.field.iter();
    let cluster = rows().filter(|row| !of_groups(row) && !of_windows(row));
    section(&mut text, "The cluster", &cluster.collect::<Vec<_>>());
    let groups = rows().filter(of_groups);
    section(
        &mut text,
        "Groups of machines, by driver",
        &groups.collect::<Vec<_>>(),
    );
    let windows = rows().filter(of_windows);
    section(
        &mut text,
        "What Windows machines share, by driver",
        &windows.collect::<Vec<_>>(),
    );
    text
}

/// What each column of the tables by driver is about. A base has the name of its driver, and of its system where the driver
/// has several.
fn columns(table: &Table) -> String {
    let by_driver = table.field.iter().filter(|row| row.acts.len() > 1);
    let bases: BTreeSet<_> = by_driver.flat_map(|row| row.acts.keys()).collect();
    let mut text = String::from("| column | machines |\n|---|---|\n");
    for base in bases {
        let (driver, system) = match base.split_once('-') {
            Some((driver, "linux")) => (driver, ", with Linux"),
            Some((driver, "windows")) => (driver, ", with Windows"),
            _ => (base.as_str(), ""),
        };
        let mut drivers = Catalog::builtin().drivers();
        let Some((_, facts)) = drivers.find(|(known, _)| known.to_string() == driver) else {
            panic!("fields.toml: the base `{base}` has no driver's name");
        };
        let summary = &facts.summary;
        let _ = writeln!(text, "| {base} | driver `{driver}`{system}: {summary} |");
    }
    text
}

/// One table: a column for each base, or one alone where every row has one base of its own.
fn section(text: &mut String, title: &str, rows: &[&Row]) {
    let drivers: BTreeSet<_> = rows.iter().flat_map(|row| row.acts.keys()).collect();
    let is_by_driver = rows.iter().all(|row| row.acts.len() == drivers.len());
    let _ = write!(text, "\n## {title}\n\n| field |");
    if is_by_driver {
        for driver in &drivers {
            let _ = write!(text, " {driver} |");
        }
        let _ = write!(text, "\n|---|{}", "---|".repeat(drivers.len()));
    } else {
        text.push_str(" acts on |\n|---|---|");
    }
    for row in rows {
        let _ = write!(text, "\n| `{}` |", row.path);
        for (base, acts) in &row.acts {
            let _ = write!(text, " {}", cell(acts));
            if let Some(alone) = row.alone.get(base) {
                let _ = write!(text, "; by itself: {}", cell(alone));
            }
            text.push_str(" |");
        }
    }
    text.push('\n');
}

/// What a field acts on, or the rules that refuse it, each with its place in the catalogue.
fn cell(acts: &str) -> String {
    let Some(codes) = acts.strip_prefix("refused ") else {
        return acts.replace(' ', ", ");
    };
    let links = codes.split(' ').map(|code| {
        let rule = rules::all().find(|rule| rule.code == code);
        let name = rule.map_or("", |rule| rule.name);
        let anchor = format!("{}-{name}", code.to_lowercase());
        format!("[{code}](errors.md#{anchor})")
    });
    format!("refused: {}", links.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_the_page_is_explained_and_every_row_has_a_cell_for_each() {
        let page = render();
        let explained = |column: &str| {
            let line = format!("| {column} | ");
            page.lines().filter(|text| text.starts_with(&line)).count() == 1
        };
        let mut columns = 0;
        for line in page.lines() {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            if line.starts_with("| field |") {
                columns = cells.len();
                for column in cells[1..].iter().filter(|column| **column != "acts on") {
                    assert!(explained(column), "`{column}` is not explained");
                }
            } else if line.starts_with("| `") {
                assert_eq!(cells.len(), columns, "{line}");
            }
        }
        assert!(columns > 1);
    }
}
