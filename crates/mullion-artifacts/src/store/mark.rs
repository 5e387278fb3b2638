//! Tells a cache folder of Mullion's from any other folder, and marks it.
//!
//! A cache carries a mark since the version that wrote this file. Older caches have none: they are recognised by their
//! layout, which must be complete and free of anything else, and marked the next time that something is written.

use std::io;
use std::path::Path;

use fs_err as fs;
use mullion_rights::draft_of;
use serde::{Deserialize, Serialize};

use super::{GO_CACHES, LAYERS, LOCKS, NEW, PARTS, RECORD, ROOTS, TOOLCHAINS, WORK, read_record};

/// The file that marks a cache.
pub(super) const MARK: &str = "mullion-cache.json";
/// Far more than a mark of any version needs.
const MARK_LIMIT: u64 = 4096;
const FORMAT: &str = "mullion.dev/cache/v1";
const FORMATS: &str = "mullion.dev/cache/";

#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    format: String,
    /// By which the computer that made the cache knows it.
    #[serde(default)]
    id: String,
}

/// Whether there is anything in a cache but empty folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    None,
    Some,
}

/// What a folder is, before anything is written to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is no such folder, or nothing is in it.
    Unused,
    /// It carries the mark, with this id.
    Marked(String),
    /// It has the layout of a cache that was made before there were marks.
    Unmarked(Content),
    /// A newer version of the program marked it.
    Newer(String),
    /// It is somebody's folder; the name of what is in it that no cache has.
    Foreign(String),
}

/// Looks at a folder and changes nothing.
pub(super) fn standing(folder: &Path) -> io::Result<Standing> {
    standing_while(folder, || {})
}

/// The same. `meanwhile` runs between the look at the mark and the look at the other names.
fn standing_while(folder: &Path, meanwhile: impl FnOnce()) -> io::Result<Standing> {
    if let Some(standing) = marked(folder)? {
        return Ok(standing);
    }
    meanwhile();
    let standing = unmarked(folder)?;
    if standing == Standing::Unused {
        return Ok(standing);
    }
    // Another run or thread may mark the folder between the two looks: then what the second look saw is of no use.
    Ok(marked(folder)?.unwrap_or(standing))
}

/// What the mark says; none where there is none.
fn marked(folder: &Path) -> io::Result<Option<Standing>> {
    let path = folder.join(MARK);
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_file() && found.len() <= MARK_LIMIT => {
            let mark: Option<Mark> = serde_json::from_slice(&fs::read(&path)?).ok();
            Ok(Some(match mark {
                Some(mark) if mark.format == FORMAT => Standing::Marked(mark.id),
                Some(mark) if mark.format.starts_with(FORMATS) => Standing::Newer(mark.format),
                _ => Standing::Foreign(MARK.into()),
            }))
        }
        Ok(_) => Ok(Some(Standing::Foreign(MARK.into()))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the names in a folder say that has no mark.
fn unmarked(folder: &Path) -> io::Result<Standing> {
    let mut names = match names(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Unused),
        names => names?,
    };
    // A new disk's own folder, and a mark that another process is writing at this moment.
    names.retain(|name| name != "lost+found" && !is_half_mark(name));
    if names.is_empty() {
        return Ok(Standing::Unused);
    }
    Ok(match stranger(folder, &names)? {
        None => Standing::Unmarked(content(folder)?),
        Some(name) => Standing::Foreign(name),
    })
}

fn content(folder: &Path) -> io::Result<Content> {
    for name in [PARTS, ROOTS, LAYERS, TOOLCHAINS, GO_CACHES, WORK] {
        let found = match names(&folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        if !found.is_empty() {
            return Ok(Content::Some);
        }
    }
    Ok(Content::None)
}

/// Marks a folder with an id, and gives the one that it is known by from now on: another run may have been first.
pub(super) fn mark(folder: &Path, id: &str) -> io::Result<String> {
    let new = draft_of(&folder.join(MARK));
    let mark = Mark {
        format: FORMAT.into(),
        id: id.to_owned(),
    };
    let mut text = serde_json::to_vec(&mark).map_err(io::Error::other)?;
    text.push(b'\n');
    fs::write(&new, text)?;
    // Of two processes that mark it, both use the first mark.
    let linked = fs::hard_link(&new, folder.join(MARK));
    fs::remove_file(&new)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match standing(folder)? {
            Standing::Marked(id) => Ok(id),
            _ => Err(error),
        },
        linked => linked.map(|()| id.to_owned()),
    }
}

pub(super) fn is_half_mark(name: &str) -> bool {
    name.starts_with(MARK) && name.ends_with(NEW)
}

/// The first name in a folder that a cache without a mark does not have; none where it is such a cache.
///
/// Every `Store` of those versions made three folders at once. Folders of these names may be somebody else's, so what is
/// in them must be ours, too.
fn stranger(folder: &Path, names: &[String]) -> io::Result<Option<String>> {
    for needed in [PARTS, LOCKS, WORK] {
        if !names.iter().any(|name| name == needed) {
            return Ok(names.first().cloned());
        }
    }
    for name in names {
        let path = folder.join(name);
        if !is_folder(&path)? {
            return Ok(Some(name.clone()));
        }
        let found = match name.as_str() {
            PARTS => strange_part(&path)?,
            ROOTS | LAYERS => strange_item(&path, name)?,
            LOCKS => strange_child(&path, &|name, is_folder| !is_folder && is_lock(name))?,
            WORK => strange_child(&path, &|name, is_folder| is_folder && is_work(name))?,
            TOOLCHAINS => strange_child(&path, &|name, is_folder| is_folder && is_go(name))?,
            GO_CACHES => strange_child(&path, &|name, is_folder| is_folder && is_go_cache(name))?,
            _ => return Ok(Some(name.clone())),
        };
        if let Some(inner) = found {
            return Ok(Some(format!("{name}/{inner}")));
        }
    }
    Ok(None)
}

/// Whether a folder of that name in `work` is one that this program makes.
pub(super) fn is_work(name: &str) -> bool {
    ["home", "c"].contains(&name)
        || name.starts_with("trust-")
        || is_go(name)
        || (name.starts_with("go-") && name.contains('@'))
}

/// Whether it is the file of a lock.
pub(super) fn is_lock(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|word| word == "lock")
}

/// Whether it is the folder of a Go toolchain.
pub(super) fn is_go(name: &str) -> bool {
    name.strip_prefix("go")
        .is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

/// Whether it is one of Go's own caches.
pub(super) fn is_go_cache(name: &str) -> bool {
    ["path", "build", "config"].contains(&name)
}

/// Whether a name in `parts` is a system's, and one in that is a kind's.
pub(super) fn is_system(name: &str) -> bool {
    ["linux", "windows"].contains(&name)
}

pub(super) fn is_kind(name: &str) -> bool {
    ["program", "image", "archive"].contains(&name)
}

/// Whether a file of an item's folder is one that is under way, or was when a process ended.
pub(super) fn is_under_way(name: &str) -> bool {
    name.ends_with(NEW) || name.ends_with(".partial") || name.ends_with(".partial.json")
}

fn strange_part(parts: &Path) -> io::Result<Option<String>> {
    for system in names(parts)? {
        let path = parts.join(&system);
        if !is_system(&system) || !is_folder(&path)? {
            return Ok(Some(system));
        }
        for kind in names(&path)? {
            let path = path.join(&kind);
            if !is_kind(&kind) || !is_folder(&path)? {
                return Ok(Some(format!("{system}/{kind}")));
            }
            let above = format!("{PARTS}/{system}/{kind}");
            if let Some(item) = strange_item(&path, &above)? {
                return Ok(Some(format!("{system}/{kind}/{item}")));
            }
        }
    }
    Ok(None)
}

/// The first of a folder's folders that is no item's: its record is ours and belongs there, or it has none yet.
fn strange_item(folder: &Path, above: &str) -> io::Result<Option<String>> {
    for name in names(folder)? {
        let path = folder.join(&name);
        if !is_folder(&path)? {
            return Ok(Some(name));
        }
        let record = read_record(&path.join(RECORD));
        if let Some(record) = &record
            && record.item.folder() != Path::new(above).join(&name)
        {
            return Ok(Some(name));
        }
        let strange = strange_child(&path, &|file, is_folder| {
            let is_its = record.as_ref().is_some_and(|record| record.file == file);
            !is_folder && (is_under_way(file) || is_its || (file == RECORD && record.is_some()))
        })?;
        if let Some(file) = strange {
            return Ok(Some(format!("{name}/{file}")));
        }
    }
    Ok(None)
}

/// The first name in a folder that is not as it should be.
fn strange_child(
    folder: &Path,
    is_ours: &dyn Fn(&str, bool) -> bool,
) -> io::Result<Option<String>> {
    for name in names(folder)? {
        let found = fs::symlink_metadata(folder.join(&name))?;
        if !(found.is_dir() || found.is_file()) || !is_ours(&name, found.is_dir()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn is_folder(path: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(path)?.is_dir())
}

/// The names in a folder, sorted, so that what is told does not differ from run to run.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_another_run_marks_during_the_look_is_a_cache() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let found = standing_while(folder, || {
            mark(folder, "one").unwrap();
        });
        assert!(matches!(found, Ok(Standing::Marked(_))), "{found:?}");
        // What the other run makes next does not hide its mark either.
        fs::remove_file(folder.join(MARK)).unwrap();
        let found = standing_while(folder, || {
            mark(folder, "one").unwrap();
            fs::create_dir(folder.join(PARTS)).unwrap();
        });
        assert!(matches!(found, Ok(Standing::Marked(_))), "{found:?}");
    }
}
