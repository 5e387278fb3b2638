//! `cargo xtask windows-tests`: tests of what runs on Windows, run here.

use std::path::PathBuf;

use mullion_artifacts::Store;
use mullion_plan::PartKind;
use mullion_spec::words::Os;

use crate::{XtaskError, shims, tools, windows_agent, windows_runner};

/// Programs that tests run, with the names that the catalog has for them.
const PROGRAMS: [&str; 2] = ["flanneld", "kube-proxy"];

/// Runs the agent's own tests as programs for Windows, those of the libraries that answer where there are none, and
/// compares what programs ask of these libraries. Needs root: whatever they change is in name spaces of their own, and
/// goes with them.
pub fn run() -> Result<(), XtaskError> {
    let runner = windows_runner::prepare()?;
    let service = shims::build()?.join("service.exe");
    let programs = gather()?;
    windows_agent::test(&runner, &windows_runner::on_drive(&service))?;
    let mut tests = tools::cargo(&["test", "--quiet", "--package=xtask", "--test=shims"]);
    if let Some(folder) = &programs {
        // Its tests made it.
        fs_err::copy(windows_agent::tested()?, folder.join("mullion-agent.exe"))?;
        tests.arg("--test=calls");
    } else {
        println!("   the cache has no Windows programs: what they call is not compared");
    }
    tests
        .args(["--", "--ignored"])
        .env("MULLION_WINDOWS_RUNNER", &runner)
        .envs(programs.map(|folder| ("MULLION_TEST_WINDOWS", folder)));
    tools::run(&mut tests)
}

/// Puts programs into one folder of the build, and gives it; nothing where the cache lacks one.
fn gather() -> Result<Option<PathBuf>, XtaskError> {
    let store = Store::open(&windows_runner::cache())
        .map_err(|error| XtaskError::part("the cache", error))?;
    let target = tools::target_folder()?;
    let folder = target.join("windows-programs");
    fs_err::create_dir_all(&folder)?;
    let parts = store.parts();
    for name in PROGRAMS {
        let found = parts.iter().filter(|part| {
            part.name == name && part.os == Os::Windows && part.kind == PartKind::Program
        });
        // Of several versions the newest, as far as names tell.
        let Some(path) = found
            .max_by(|one, other| one.version.cmp(&other.version))
            .and_then(|part| store.path(part))
        else {
            return Ok(None);
        };
        fs_err::copy(path, folder.join(format!("{name}.exe")))?;
    }
    Ok(Some(folder))
}
