//! `cargo xtask up`: from a fresh clone to a program that can be typed.

use std::env::{self, consts::EXE_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{XtaskError, stand_in, steps, tools};

/// The system that machines run, as cargo names it: the agent for it links nothing that a machine may lack.
const AGENT_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds `mullion`, installs it beside cargo's own programs, and brings up the built-in cluster.
pub fn run() -> Result<(), XtaskError> {
    let folder = tools::cargo_bin()?;
    let mut steps = steps::Steps::default();
    let program = install_into(&folder, &mut steps)?;
    if !is_on_path(&folder) {
        println!(
            "`{}` is not on `PATH`: add it, or type the whole path.",
            folder.display()
        );
    }
    // In an empty folder no file is found, so that the built-in cluster is meant.
    let empty = tempfile::tempdir()?;
    for (name, arguments) in [
        ("what this computer lacks", ["doctor", "--fix"]),
        ("the built-in cluster", ["up", "--yes"]),
    ] {
        steps.run(name, || {
            tools::run(
                Command::new(&program)
                    .args(arguments)
                    .current_dir(empty.path()),
            )
            .map(|()| steps::Outcome::Done)
        })?;
    }
    Ok(())
}

/// Builds `mullion` with the agent inside, and puts it into a folder: a test's must not replace the developer's.
pub fn install_into(folder: &Path, steps: &mut steps::Steps) -> Result<PathBuf, XtaskError> {
    let target = tools::target_folder()?;
    steps.run("build the agent", || {
        build_for_machines("mullion-agent").map(|_| steps::Outcome::Done)
    })?;
    let mut windows = PathBuf::new();
    steps.run("build what Windows machines are brought", || {
        match stand_in::build() {
            Ok(folder) => windows = folder,
            // What it takes is installed by root alone; Linux machines are made without it.
            Err(error) if !rustix::process::geteuid().is_root() => {
                return Ok(steps::Outcome::Skipped(format!(
                    "{error}; install gcc-mingw-w64-x86-64 to make stand-ins for Windows"
                )));
            }
            Err(error) => return Err(error),
        }
        Ok(steps::Outcome::Done)
    })?;
    steps.run("build mullion", || {
        tools::run(
            tools::cargo(&["build", "--release", "--package=mullion"])
                .env("MULLION_AGENT", agent_program()?)
                .env("MULLION_WINDOWS", &windows),
        )
        .map(|()| steps::Outcome::Done)
    })?;
    let program = format!("mullion{EXE_SUFFIX}");
    let built = target.join("release").join(program);
    let mut installed = PathBuf::new();
    steps.run("install mullion", || {
        installed = install(&built, folder)?;
        println!("   {}", installed.display());
        Ok(steps::Outcome::Done)
    })?;
    Ok(installed)
}

/// Builds a program that Linux machines run, and gives back where it is.
pub(crate) fn build_for_machines(package: &str) -> Result<PathBuf, XtaskError> {
    tools::run(
        tools::cargo(&["build", "--profile=agent"])
            .arg(format!("--package={package}"))
            .arg(format!("--target={AGENT_TARGET}"))
            .env(
                "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
                "-Ctarget-feature=+crt-static",
            ),
    )?;
    machine_program(package)
}

/// Where the agent is once it is built. Whoever builds `mullion` names it, or the next build is another one.
pub fn agent_program() -> Result<PathBuf, XtaskError> {
    machine_program("mullion-agent")
}

fn machine_program(name: &str) -> Result<PathBuf, XtaskError> {
    let target = tools::target_folder()?;
    Ok(target.join(AGENT_TARGET).join("agent").join(name))
}

/// Puts a copy of a program into a folder, in one move: whoever starts it gets the old one or the new one.
fn install(program: &Path, folder: &Path) -> Result<PathBuf, XtaskError> {
    fs_err::create_dir_all(folder)?;
    let name = program.file_name().unwrap_or(program.as_os_str());
    let installed = folder.join(name);
    let copy = tempfile::Builder::new()
        .prefix(".mullion-")
        .tempfile_in(folder)?;
    // Takes the permissions along, so that the copy can be run.
    fs_err::copy(program, copy.path())?;
    copy.persist(&installed).map_err(|error| error.error)?;
    Ok(installed)
}

fn is_on_path(folder: &Path) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|entry| entry == folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_replaces_the_old_program_and_leaves_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let built = scratch.path().join("mullion");
        let folder = scratch.path().join("cargo").join("bin");
        for content in ["old", "new"] {
            fs_err::write(&built, content).unwrap();
            let installed = install(&built, &folder).unwrap();
            assert_eq!(fs_err::read_to_string(&installed).unwrap(), content);
            assert_eq!(installed, folder.join("mullion"));
        }
        assert_eq!(fs_err::read_dir(&folder).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn what_was_installed_can_be_run() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        let built = scratch.path().join("mullion");
        fs_err::write(&built, "").unwrap();
        fs_err::set_permissions(&built, PermissionsExt::from_mode(0o755)).unwrap();
        let installed = install(&built, &scratch.path().join("bin")).unwrap();
        assert_eq!(
            fs_err::metadata(installed).unwrap().permissions().mode() & 0o777,
            0o755
        );
    }

    #[test]
    fn a_program_that_was_not_built_is_an_error_that_names_it() {
        let scratch = tempfile::tempdir().unwrap();
        let error =
            install(&scratch.path().join("mullion"), &scratch.path().join("bin")).unwrap_err();
        assert!(error.render().contains("mullion"), "{}", error.render());
    }
}
