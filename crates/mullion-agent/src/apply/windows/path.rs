//! The machine's `Path`: folders of ours among those of others.

use mullion_wire::Windows;

use super::failed;
use super::values::ENVIRONMENT;
use crate::change::Change;
use crate::failure::AgentError;
use crate::system::registry::{EXPANDABLE, Value};
use crate::system::{System, SystemError};
use crate::work::Work;

const NAME: &str = "Path";

/// The machine's `Path`.
pub(super) fn read(system: &dyn System) -> Result<String, SystemError> {
    let value = system.value(ENVIRONMENT, NAME)?;
    Ok(value.and_then(|value| value.text()).unwrap_or_default())
}

/// Whether a folder is in it, however it is written.
pub(super) fn has(path: &str, folder: &str) -> bool {
    path.split(';').any(|entry| is_same(entry, folder))
}

fn is_same(entry: &str, folder: &str) -> bool {
    let plain = |text: &str| text.trim().trim_end_matches(['\\', '/']).replace('/', "\\");
    plain(entry).eq_ignore_ascii_case(&plain(folder))
}

/// Adds a folder at its end.
pub(super) fn add(system: &dyn System, folder: &str) -> Result<(), SystemError> {
    let path = read(system)?;
    write(system, &with(&path, folder))
}

fn with(path: &str, folder: &str) -> String {
    match path.trim_end_matches(';') {
        "" => folder.to_owned(),
        path => format!("{path};{folder}"),
    }
}

fn without(path: &str, folder: &str) -> String {
    let kept: Vec<_> = path
        .split(';')
        .filter(|entry| !is_same(entry, folder))
        .collect();
    kept.join(";")
}

/// Writes it with the type that it has: variables in it must stay variables.
fn write(system: &dyn System, path: &str) -> Result<(), SystemError> {
    let kind = system
        .value(ENVIRONMENT, NAME)?
        .map_or(EXPANDABLE, |value| value.kind);
    let value = Value {
        kind,
        ..Value::string(path)
    };
    system.set_value(ENVIRONMENT, NAME, &value)
}

/// Takes folders of ours out that are not wanted any more. What others added meanwhile stays.
pub(super) fn give_back(
    work: &mut Work<'_, '_>,
    wanted: Option<&Windows>,
) -> Result<(), AgentError> {
    let is_wanted = |folder: &String| {
        let mut kept = wanted.into_iter().flat_map(|wanted| &wanted.path);
        kept.any(|other| is_same(other, folder))
    };
    let ours = work.state.windows.path.iter();
    let dropped: Vec<_> = ours.filter(|folder| !is_wanted(folder)).cloned().collect();
    for folder in dropped {
        work.touch()?;
        let path = read(work.system)?;
        if has(&path, &folder) {
            let change = Change::PathFolder(folder.clone());
            write(work.system, &without(&path, &folder)).map_err(failed(&change))?;
            work.report.applied(change);
        }
        work.state.windows.path.remove(&folder);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_found_however_it_is_written() {
        let path = r"%SystemRoot%\system32;C:\K\;D:/tools";
        assert!(has(path, r"c:\k"));
        assert!(has(path, r"D:\tools"));
        assert!(!has(path, r"C:\k\bin"));
    }

    #[test]
    fn a_folder_comes_and_goes_without_a_trace() {
        for path in ["", r"C:\a", r"C:\a;C:\b"] {
            let longer = with(path, r"C:\k");
            assert!(has(&longer, r"C:\k"), "{longer}");
            assert_eq!(without(&longer, r"C:\k"), path);
        }
        assert_eq!(with(r"C:\a;", r"C:\k"), r"C:\a;C:\k");
    }
}
