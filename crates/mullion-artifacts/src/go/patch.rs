//! Patches made to copies of the source: a module is copied whole and replaced, a file of Go's own library is laid over.
//!
//! The Go tool lays no file over the module cache, and a copy of Go would compile everything anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fs_err as fs;
use mullion_catalog::{Edit, GoBuild, GoModule, Patch, PatchSubject};

use super::modules::{self, Fetched, read};
use crate::build::BuildError;
use crate::job::Job;
use crate::process::{self, Worth};
use crate::record::Module;

/// Where patched source lies, below a build's own folder.
const PATCHED: &str = "patched";

/// What a build takes in place of what upstream wrote.
#[derive(Debug, Default)]
pub(super) struct Patched {
    /// Folders that take the place of modules, as a go.mod names them.
    pub(super) folders: BTreeMap<String, String>,
    /// The file for `-overlay`.
    pub(super) overlay: Option<PathBuf>,
    /// The modules that were copied, as they were before.
    pub(super) modules: Vec<Module>,
}

/// A patch that looks for text which is not there any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("patch `{patch}` does not fit {file} of {of}: {detail}")]
pub struct Misfit {
    /// The patch.
    pub patch: String,
    /// The file that it changes.
    pub file: String,
    /// Whose file, and of which version.
    pub of: String,
    /// What does not fit.
    pub detail: String,
    /// Why the patch is there.
    pub reason: String,
    /// The versions that it was tried with.
    pub tried: Vec<String>,
}

/// Copies what a build's patches change, and changes it.
pub(super) fn prepare(
    job: &Job<'_>,
    build: &GoBuild,
    fetched: &Fetched,
    place: &Path,
) -> Result<Patched, BuildError> {
    let mut patched = Patched::default();
    if build.patches.is_empty() {
        return Ok(patched);
    }
    clear(place)?;
    let folder = place.join(PATCHED);
    let mut subjects: BTreeMap<&PatchSubject, Vec<&Patch>> = BTreeMap::new();
    for patch in &build.patches {
        subjects.entry(&patch.subject).or_default().push(patch);
    }
    for (subject, patches) in subjects {
        let names: Vec<_> = patches.iter().map(|patch| patch.name.as_str()).collect();
        job.say(format!("patching by {}", names.join(", ")));
        match subject {
            PatchSubject::Go => {
                let overlay = lay_over(job, fetched, place, &folder.join("go"), &patches)?;
                patched.overlay = Some(overlay);
            }
            PatchSubject::Module(path) => {
                let (from, module) = source(job, build, fetched, place, path)?;
                copy(&from, &folder.join(path), &files(&patches))?;
                for (file, text) in changed(&from, &patches, &module.version)? {
                    write(&folder.join(path).join(file), &text)?;
                }
                let replacement = format!("./{PATCHED}/{path}");
                patched.folders.insert(path.clone(), replacement);
                patched.modules.push(module);
            }
        }
    }
    Ok(patched)
}

/// Removes the copies: they are made anew for each build.
pub(super) fn clear(place: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(place.join(PATCHED)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(BuildError::io("removing patched source", error))
        }
        _ => Ok(()),
    }
}

/// A module's folder: of the one that is built, or of one that it is published with.
fn source(
    job: &Job<'_>,
    build: &GoBuild,
    fetched: &Fetched,
    place: &Path,
    path: &str,
) -> Result<(PathBuf, Module), BuildError> {
    if path == build.module.path {
        return Ok((fetched.folder.clone(), fetched.module.clone()));
    }
    let Some(version) = &build.module.staging_version else {
        return Err(BuildError::Module {
            module: path.to_owned(),
            words: format!("{} is not published together with it", build.module.path),
        });
    };
    let staging = GoModule {
        path: path.to_owned(),
        version: version.clone(),
        sum: mullion_catalog::Digest::Unknown,
        in_checksum_database: true,
        replace: build.module.replace,
        staging_version: None,
    };
    let found = modules::module(job, &staging, place)?;
    Ok((found.folder, found.module))
}

/// Patches files of Go's own library, and writes down what takes the place of what.
fn lay_over(
    job: &Job<'_>,
    fetched: &Fetched,
    place: &Path,
    folder: &Path,
    patches: &[&Patch],
) -> Result<PathBuf, BuildError> {
    let go = &fetched.go;
    let mut command = go.command(job, place, None)?;
    command.args(["env", "GOROOT"]);
    let ran = process::run("go env", &mut command, job.attendant, &mut |_| {
        Worth::Telling
    })
    .map_err(|source| BuildError::tool("finding Go's own library", source))?;
    let library = Path::new(String::from_utf8_lossy(&ran.stdout).trim()).join("src");
    let mut replace = serde_json::Map::new();
    for (file, text) in changed(&library, patches, &go.version.to_string())? {
        let new = folder.join(&file);
        write(&new, &text)?;
        let original = library.join(&file).display().to_string();
        replace.insert(original, new.display().to_string().into());
    }
    let overlay = folder.join("overlay.json");
    let text = serde_json::json!({ "Replace": replace }).to_string();
    write(&overlay, &text)?;
    Ok(overlay)
}

fn files(patches: &[&Patch]) -> BTreeSet<PathBuf> {
    let files = patches.iter().map(|patch| PathBuf::from(&patch.file));
    files.collect()
}

/// The files that patches change, as they are afterwards.
fn changed(
    folder: &Path,
    patches: &[&Patch],
    version: &str,
) -> Result<BTreeMap<String, String>, BuildError> {
    let mut texts = BTreeMap::new();
    for patch in patches {
        let text = match texts.get(&patch.file) {
            Some(text) => String::clone(text),
            // A file that is gone has moved as well.
            None => read(&folder.join(&patch.file))
                .map_err(|_| misfit(patch, version, "the file is not there".into()))?,
        };
        texts.insert(patch.file.clone(), apply(patch, &text, version)?);
    }
    Ok(texts)
}

/// A patch made to a file's text.
pub(super) fn apply(patch: &Patch, text: &str, version: &str) -> Result<String, BuildError> {
    let mut text = text.to_owned();
    for (index, Edit { find, put, times }) in patch.edits.iter().enumerate() {
        let found = text.matches(find.as_str()).count();
        if found != *times {
            let number = index + 1;
            let detail = format!("the text of edit {number} is there {found} times, not {times}");
            return Err(misfit(patch, version, detail));
        }
        text = text.replace(find.as_str(), put);
    }
    Ok(text)
}

fn misfit(patch: &Patch, version: &str, detail: String) -> BuildError {
    let subject = match &patch.subject {
        PatchSubject::Go => "Go",
        PatchSubject::Module(module) => module,
    };
    BuildError::Patch(Box::new(Misfit {
        patch: patch.name.clone(),
        file: patch.file.clone(),
        of: format!("{subject} {version}"),
        detail,
        reason: patch.reason.clone(),
        tried: patch.tried.clone(),
    }))
}

/// Copies a folder but for some files. Where it can, a file gets a second name and no copy: nobody writes to it.
fn copy(from: &Path, to: &Path, except: &BTreeSet<PathBuf>) -> Result<(), BuildError> {
    let failed = |source| BuildError::io("copying a module", source);
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        fs::create_dir_all(to.join(&folder)).map_err(failed)?;
        for entry in fs::read_dir(from.join(&folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let inner = folder.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(inner);
            } else if !except.contains(&inner) {
                let (old, new) = (entry.path(), to.join(&inner));
                if fs::hard_link(&old, &new).is_err() {
                    fs::copy(&old, &new).map_err(failed)?;
                }
            }
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), BuildError> {
    let failed = |source| BuildError::io("writing patched source", source);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(file, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use mullion_catalog::Catalog;

    use super::*;

    /// The lines of upstream around each edit, as they were in the versions that the patches name as tried.
    const EXCERPTS: &[(&str, &str)] = &[
        (
            "adapters-without-prefixes",
            include_str!("patch/adapters-without-prefixes.excerpt"),
        ),
        (
            "unix-sockets-over-loopback",
            include_str!("patch/unix-sockets-over-loopback.excerpt"),
        ),
        (
            "certificates-copied",
            include_str!("patch/certificates-copied.excerpt"),
        ),
        (
            "volumes-written-in-place",
            include_str!("patch/volumes-written-in-place.excerpt"),
        ),
    ];

    fn excerpt(name: &str) -> &'static str {
        let mut excerpts = EXCERPTS.iter();
        let found = excerpts.find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("{name} has no excerpt")).1
    }

    #[test]
    fn every_patch_fits_what_was_upstream_when_it_was_tried() {
        for patch in Catalog::builtin().patches() {
            let before = excerpt(&patch.name);
            let after = apply(patch, before, "tried").unwrap();
            assert_ne!(after, before, "{}", patch.name);
            // What was patched once is not what a patch looks for.
            for edit in patch
                .edits
                .iter()
                .filter(|edit| !edit.put.contains(&edit.find))
            {
                assert!(!after.contains(&edit.find), "{}", patch.name);
            }
        }
    }

    #[test]
    fn upstream_that_moved_is_an_error_that_names_patch_file_and_reason() {
        for patch in Catalog::builtin().patches() {
            for edit in &patch.edits {
                let moved = excerpt(&patch.name).replacen(&edit.find, "func moved() {\n", 1);
                let error = apply(patch, &moved, "v9.9.9").unwrap_err();
                let told = error.to_string();
                for words in [&patch.name, &patch.file, "v9.9.9"] {
                    assert!(told.contains(words), "{told}");
                }
                let hints = error.hints().join("\n");
                assert!(hints.contains(&patch.reason), "{hints}");
                assert!(hints.contains(&patch.tried[0]), "{hints}");
            }
        }
    }

    #[test]
    fn a_text_that_is_there_once_more_is_no_fit_either() {
        let patch = Catalog::builtin().patch("certificates-copied").unwrap();
        let text = excerpt(&patch.name);
        let twice = format!("{text}\n{text}");
        let error = apply(patch, &twice, "v9.9.9").unwrap_err();
        assert!(error.to_string().contains("6 times, not 3"), "{error}");
    }

    #[test]
    fn a_copy_is_whole_but_for_what_is_patched_and_leaves_the_original_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        for (file, text) in [("go.mod", "module x"), ("a/b/c.go", "old"), ("a/d.go", "d")] {
            fs::write(from.join(file), text).unwrap();
        }
        copy(&from, &to, &BTreeSet::from(["a/b/c.go".into()])).unwrap();
        assert!(!to.join("a/b/c.go").exists());
        write(&to.join("a/b/c.go"), "new").unwrap();
        let text = |path: PathBuf| fs::read_to_string(path).unwrap();
        assert_eq!(text(from.join("a/b/c.go")), "old");
        assert_eq!(text(to.join("a/b/c.go")), "new");
        assert_eq!(text(to.join("a/d.go")), "d");
        assert_eq!(text(to.join("go.mod")), "module x");
    }

    #[test]
    fn two_patches_of_one_file_are_made_one_after_another() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("x.go"), "one two").unwrap();
        let patch = |find: &str, put: &str| Patch {
            name: put.into(),
            subject: PatchSubject::Go,
            file: "x.go".into(),
            reason: String::new(),
            until: String::new(),
            tried: Vec::new(),
            edits: vec![Edit {
                find: find.into(),
                put: put.into(),
                times: 1,
            }],
            source: String::new(),
        };
        let (first, second) = (patch("one", "three"), patch("three two", "four"));
        let texts = changed(scratch.path(), &[&first, &second], "1").unwrap();
        assert_eq!(texts["x.go"], "four");
        let mut gone = patch("a", "b");
        gone.file = "y.go".into();
        let error = changed(scratch.path(), &[&gone], "1").unwrap_err();
        assert!(error.to_string().contains("not there"), "{error}");
    }
}
