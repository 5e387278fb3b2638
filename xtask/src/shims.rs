//! `cargo xtask shims`: the DLLs that answer where a stand-in for Windows has nothing of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{XtaskError, tools};

/// One file to be made, and what it is made of.
struct Shim {
    name: &'static str,
    /// Files of the `shims` folder.
    sources: &'static [&'static str],
    /// Libraries of Windows that it uses.
    libraries: &'static [&'static str],
    is_program: bool,
}

impl Shim {
    fn file(&self) -> String {
        let ending = if self.is_program { "exe" } else { "dll" };
        format!("{}.{ending}", self.name)
    }
}

const SHIMS: &[Shim] = &[
    Shim {
        name: "pdh",
        sources: &["pdh.c", "calls.c", "json.c"],
        libraries: &["ole32"],
        is_program: false,
    },
    Shim {
        name: "vmcompute",
        sources: &["vmcompute.c", "objects.c", "calls.c", "json.c"],
        libraries: &["ole32", "iphlpapi", "advapi32"],
        is_program: false,
    },
    Shim {
        name: "computenetwork",
        sources: &["computenetwork.c", "objects.c", "calls.c", "json.c"],
        libraries: &["ole32", "iphlpapi"],
        is_program: false,
    },
    Shim {
        name: "dismapi",
        sources: &["dismapi.c", "objects.c", "calls.c", "json.c"],
        libraries: &["ole32", "iphlpapi", "advapi32"],
        is_program: false,
    },
    Shim {
        name: "hnetcfg",
        sources: &["hnetcfg.c", "objects.c", "calls.c", "json.c"],
        libraries: &["ole32", "oleaut32", "iphlpapi"],
        is_program: false,
    },
    Shim {
        name: "iphlpapi",
        sources: &["iphlpapi.c", "iphlpapi.def"],
        libraries: &[],
        is_program: false,
    },
    // Not a shim: a service for the agent's own tests.
    Shim {
        name: "service",
        sources: &["service.c"],
        libraries: &["advapi32"],
        is_program: true,
    },
    // Not a shim: it calls them, and says whether they answer as they should.
    Shim {
        name: "exercise",
        sources: &["exercise.c"],
        libraries: &["ole32", "oleaut32"],
        is_program: true,
    },
];

/// Builds every shim, installing the compiler where there is none and we may.
pub fn run() -> Result<(), XtaskError> {
    let folder = build()?;
    println!("   {}", folder.display());
    Ok(())
}

/// Builds every shim, and gives the folder they are in.
pub fn build() -> Result<PathBuf, XtaskError> {
    tools::ensure_windows_compiler()?;
    let folder = tools::target_folder()?.join("shims");
    fs_err::create_dir_all(&folder)?;
    let sources = tools::repository().join("shims");
    for shim in SHIMS {
        tools::run(&mut compile(shim, &sources, &folder))?;
    }
    Ok(folder)
}

fn compile(shim: &Shim, sources: &Path, folder: &Path) -> Command {
    let mut command = Command::new(tools::WINDOWS_COMPILER);
    command
        .current_dir(sources)
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-static-libgcc"])
        // The same source gives the same bytes.
        .args(["-s", "-Wl,--no-insert-timestamp"])
        .arg("-o")
        .arg(folder.join(shim.file()));
    if !shim.is_program {
        command.arg("-shared");
    }
    command.args(shim.sources);
    let libraries = shim.libraries.iter();
    command.args(libraries.map(|library| format!("-l{library}")));
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_source_is_there_and_every_source_is_used() {
        let folder = tools::repository().join("shims");
        let used: BTreeSet<_> = SHIMS
            .iter()
            .flat_map(|shim| shim.sources.iter().map(ToString::to_string))
            .collect();
        let is_source = |path: &PathBuf| {
            path.extension()
                .is_some_and(|end| end == "c" || end == "def")
        };
        let there: BTreeSet<_> = fs_err::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(is_source)
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(used, there);
    }

    #[test]
    fn the_page_names_every_function_that_a_shim_answers() {
        let repository = tools::repository();
        let page = fs_err::read_to_string(repository.join("docs/stand-in.md")).unwrap();
        let mut count = 0;
        for shim in SHIMS.iter().filter(|shim| !shim.is_program) {
            assert!(
                page.contains(&format!("`{}`", shim.file())),
                "{}",
                shim.name
            );
            let source = repository.join("shims").join(format!("{}.c", shim.name));
            let source = fs_err::read_to_string(source).unwrap();
            for line in source.lines().filter(|line| line.contains("EXPORT ")) {
                let (before, _) = line.split_once('(').unwrap();
                let name = before.rsplit([' ', '*']).next().unwrap();
                // Of a family of functions the page names the family.
                let name = name.replace("##Names", "…").replace("##Name", "…");
                let name = name.replace("##Properties", "Properties");
                assert!(page.contains(&name), "{}: {name}", shim.name);
                count += 1;
            }
        }
        assert!(count > 20, "{count} functions were found");
    }

    #[test]
    fn a_library_is_shared_and_a_program_is_not() {
        for shim in SHIMS {
            let command = compile(shim, Path::new("shims"), Path::new("out"));
            let shown = tools::shown(&command);
            assert_eq!(shown.contains(" -shared "), !shim.is_program, "{shown}");
            assert!(shown.contains("-Werror"), "{shown}");
        }
    }
}
