//! `cargo xtask windows-tests`: tests of what runs on Windows, run here.

use std::path::Path;

use mullion::file;
use mullion_artifacts::Store;
use mullion_plan::{Part, PartKind, Wanted};
use mullion_spec::draft::Surroundings;
use mullion_spec::words::Os;

use crate::{XtaskError, shims, tools, windows_agent, windows_runner};

/// Programs that tests run: the names that the catalog has for them, and the files that tests look for.
const PROGRAMS: [(&str, &str); 3] = [
    ("flanneld", "flanneld.exe"),
    ("kube-proxy", "kube-proxy.exe"),
    ("kubelet-stand-in", "kubelet.exe"),
];

/// Runs the agent's own tests as programs for Windows, those of the libraries that answer where there are none, and
/// compares what programs ask of these libraries. Needs root: whatever they change is in name spaces of their own, and
/// goes with them.
pub fn run() -> Result<(), XtaskError> {
    let store = Store::open(&windows_runner::cache())
        .map_err(|error| XtaskError::part("the cache", error))?;
    let folder = tools::target_folder()?.join("windows-programs");
    gather(&store, &built_in()?, &folder)?;
    let runner = windows_runner::prepare()?;
    let service = shims::build()?.join("service.exe");
    windows_agent::test(&runner, &windows_runner::on_drive(&service))?;
    // Its tests made it.
    fs_err::copy(windows_agent::tested()?, folder.join("mullion-agent.exe"))?;
    let mut tests = tools::cargo(&["test", "--quiet", "--package=xtask"]);
    tests
        .args(["--test=shims", "--test=calls", "--", "--ignored"])
        .env("MULLION_WINDOWS_RUNNER", &runner)
        .env("MULLION_TEST_WINDOWS", folder);
    tools::run(&mut tests)
}

/// What the built-in cluster is made of, which is what a fetch for the tests brings.
fn built_in() -> Result<Vec<Part>, XtaskError> {
    let empty = tempfile::tempdir()?;
    let source = file::read(None, empty.path(), &mut std::io::empty()).ok();
    let judgement = source.map(|source| file::judge(source, &Surroundings::default()));
    let model = judgement.and_then(|judgement| judgement.model);
    let model = model.ok_or(XtaskError::NoModel(file::BUILT_IN))?;
    Ok(Wanted::of(&model).parts)
}

/// Puts programs into one folder, each of the version that the parts name.
fn gather(store: &Store, parts: &[Part], folder: &Path) -> Result<(), XtaskError> {
    fs_err::create_dir_all(folder)?;
    for (name, file) in PROGRAMS {
        let part = program(parts, name).ok_or(XtaskError::NotWanted(name))?;
        let path = store.path(part);
        let path = path.ok_or_else(|| XtaskError::NotCached(part.to_string()))?;
        fs_err::copy(path, folder.join(file))?;
    }
    Ok(())
}

fn program<'a>(parts: &'a [Part], name: &str) -> Option<&'a Part> {
    let is_meant = |part: &&Part| {
        part.name == name && part.os == Os::Windows && part.kind == PartKind::Program
    };
    parts.iter().find(is_meant)
}

#[cfg(test)]
mod tests {
    use mullion_catalog::Catalog;

    use super::*;

    #[test]
    fn programs_are_of_the_version_that_the_built_in_cluster_has() {
        let parts = built_in().unwrap();
        let version = Catalog::builtin().default_kubernetes().to_string();
        assert_eq!(program(&parts, "kube-proxy").unwrap().version, version);
        let mut names = PROGRAMS.iter().map(|(name, _)| name);
        assert!(names.all(|name| program(&parts, name).is_some()));
    }

    #[test]
    fn a_cache_without_a_program_is_no_success() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("cache")).unwrap();
        let gathered = gather(&store, &built_in().unwrap(), folder.path());
        let told = gathered.unwrap_err().render();
        assert!(told.contains("flanneld"), "{told}");
        assert!(
            told.contains("hint: run `mullion artifacts fetch`"),
            "{told}"
        );
    }
}
