//! What every field of `cluster.yaml` acts on, as a page, from the table that a test of `mullion` holds true.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

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
}

const BEGIN: &str = "\
# What every field acts on

Generated from `crates/mullion/tests/fields/fields.toml`. A test changes each field of `cluster.yaml` to another legal
value, in a file for each driver, and requires that exactly what is named here changes, or that the file is refused with the
code that is named here. A field that takes one value alone, such as `kind`, refuses every other.

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
    let mut text = String::from(BEGIN);
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

/// One table: a column for each driver, or one alone where rows are tried once.
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
        for acts in row.acts.values() {
            let _ = write!(text, " {} |", cell(acts));
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
