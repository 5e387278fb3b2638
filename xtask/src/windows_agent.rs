//! Building `mullion-agent.exe`: with rustup's own target, or with what Debian has where rustup cannot reach one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{XtaskError, tools};

/// Windows, as cargo names it.
const TARGET: &str = "x86_64-pc-windows-gnu";

/// What cargo is asked to build.
const BUILD: [&str; 3] = ["build", "--profile=agent", "--package=mullion-agent"];

/// What cargo is asked to test.
const TEST: [&str; 3] = ["test", "--quiet", "--package=mullion-agent"];

/// Names the program that cargo starts tests for Windows with.
const RUNNER: &str = "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER";

/// The toolchain of Debian's that brings the standard library's sources along, from which it is built for any target.
const PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// Where Debian puts programs, and sources.
const PROGRAMS: &str = "/usr/bin";
const SOURCES: &str = "/usr/src";

/// With what it is built.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Toolchain {
    /// rustup's, which has the target.
    Rustup,
    /// Debian's, with the folder of the standard library's sources.
    Debian(PathBuf),
}

/// Builds the agent for Windows and gives back where it is. cargo builds nothing that is there already.
pub fn build() -> Result<PathBuf, XtaskError> {
    let toolchain = toolchain()?;
    let target = tools::target_folder()?;
    tools::run(&mut command(&toolchain, &target, &BUILD))?;
    Ok(built(&toolchain, &target))
}

/// Runs the agent's own tests, all of them, as programs for Windows: by `runner`, which runs such programs here.
/// `service` is a service for them, as Windows names it.
pub(crate) fn test(runner: &Path, service: &str) -> Result<(), XtaskError> {
    let mut tests = command(&toolchain()?, &tools::target_folder()?, &TEST);
    tests
        .env(RUNNER, runner)
        .env("MULLION_TEST_SERVICE", service)
        // They change one and the same Windows, so they take turns.
        .args(["--", "--include-ignored", "--test-threads=1"]);
    tools::run(&mut tests)
}

/// Where the agent is that its tests ran.
pub(crate) fn tested() -> Result<PathBuf, XtaskError> {
    let folder = folder(&toolchain()?, &tools::target_folder()?);
    Ok(folder.join(TARGET).join("debug").join("mullion-agent.exe"))
}

fn toolchain() -> Result<Toolchain, XtaskError> {
    tools::ensure_windows_compiler()?;
    Ok(if has_target() {
        Toolchain::Rustup
    } else {
        Toolchain::Debian(ensure_sources()?)
    })
}

/// The folder that is built into. Another compiler's files are kept apart, so that neither builds anew for the other.
fn folder(toolchain: &Toolchain, target: &Path) -> PathBuf {
    match toolchain {
        Toolchain::Rustup => target.to_owned(),
        Toolchain::Debian(_) => target.join("debian"),
    }
}

fn built(toolchain: &Toolchain, target: &Path) -> PathBuf {
    folder(toolchain, target)
        .join(TARGET)
        .join("agent")
        .join("mullion-agent.exe")
}

/// The parts of the standard library that are built with Debian's compiler: tests need one more.
fn standard_library(what: &[&str]) -> &'static str {
    if what.first() == Some(&"test") {
        "std,panic_abort,test"
    } else {
        "std,panic_abort"
    }
}

fn command(toolchain: &Toolchain, target: &Path, what: &[&str]) -> Command {
    let mut command = match toolchain {
        Toolchain::Rustup => tools::cargo(what),
        Toolchain::Debian(sources) => {
            let mut command = Command::new(Path::new(PROGRAMS).join("cargo"));
            command
                .args(what)
                .arg(format!("-Zbuild-std={}", standard_library(what)))
                .current_dir(tools::repository())
                .env("RUSTC", Path::new(PROGRAMS).join("rustc"))
                // The standard library is built with what only a nightly compiler admits to having.
                .env("RUSTC_BOOTSTRAP", "1")
                // Debian's sources are not where cargo looks for them.
                .env("__CARGO_TESTS_ONLY_SRC_ROOT", sources)
                // rustup's own settings are not for this compiler.
                .env_remove("RUSTUP_TOOLCHAIN")
                .env_remove("RUSTC_WRAPPER")
                .env_remove("CARGO");
            command
        }
    };
    command
        .arg(format!("--target={TARGET}"))
        .arg("--target-dir")
        .arg(folder(toolchain, target));
    command
}

/// Whether rustup has the target or can fetch it.
fn has_target() -> bool {
    let mut add = Command::new("rustup");
    add.args(["target", "add", TARGET])
        .current_dir(tools::repository())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    add.status().is_ok_and(|status| status.success())
}

/// The standard library's sources, installed where they are missing.
fn ensure_sources() -> Result<PathBuf, XtaskError> {
    let has_programs = ["rustc", "cargo"]
        .iter()
        .all(|program| Path::new(PROGRAMS).join(program).exists());
    if !has_programs || find_sources().is_none() {
        tools::install(&PACKAGES)?;
    }
    find_sources().ok_or_else(|| XtaskError::Answer {
        command: format!("apt-get install {}", PACKAGES.join(" ")),
        detail: format!("there is no `library` in `{SOURCES}/rustc-…`"),
    })
}

/// The sources of the version that Debian's compiler has.
fn find_sources() -> Option<PathBuf> {
    let mut ask = Command::new(Path::new(PROGRAMS).join("rustc"));
    let output = ask.arg("--version").output().ok()?;
    let version = version_in(&String::from_utf8_lossy(&output.stdout))?;
    let library = Path::new(SOURCES)
        .join(format!("rustc-{version}"))
        .join("library");
    library.is_dir().then_some(library)
}

/// The version in `rustc 1.96.0 (ac68faa20 2026-05-25)`.
fn version_in(answer: &str) -> Option<String> {
    let mut words = answer.split_whitespace();
    let is_compiler = words.next() == Some("rustc");
    words
        .next()
        .filter(|_| is_compiler)
        .map(|version| version.split('-').next().unwrap_or(version).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(toolchain: &Toolchain) -> String {
        tools::shown(&command(toolchain, Path::new("target"), &BUILD))
    }

    #[test]
    fn rustup_builds_into_the_usual_folder() {
        assert_eq!(
            shown(&Toolchain::Rustup),
            "cargo build --profile=agent --package=mullion-agent \
             --target=x86_64-pc-windows-gnu --target-dir target"
        );
        assert_eq!(
            built(&Toolchain::Rustup, Path::new("target")),
            Path::new("target/x86_64-pc-windows-gnu/agent/mullion-agent.exe")
        );
    }

    #[test]
    fn debian_builds_the_standard_library_too_and_keeps_apart() {
        let toolchain = Toolchain::Debian("library".into());
        assert_eq!(
            shown(&toolchain),
            "cargo build --profile=agent --package=mullion-agent -Zbuild-std=std,panic_abort \
             --target=x86_64-pc-windows-gnu --target-dir target/debian"
        );
        assert!(built(&toolchain, Path::new("target")).starts_with("target/debian"));
        let command = command(&toolchain, Path::new("target"), &BUILD);
        let variables: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
            .collect();
        assert!(variables.contains(&("__CARGO_TESTS_ONLY_SRC_ROOT", "library")));
        assert!(variables.contains(&("RUSTC_BOOTSTRAP", "1")));
    }

    #[test]
    fn the_version_of_a_compiler_is_read() {
        let version = |answer| version_in(answer);
        assert_eq!(
            version("rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)").as_deref(),
            Some("1.96.0")
        );
        assert_eq!(
            version("rustc 1.97.0-nightly (a)").as_deref(),
            Some("1.97.0")
        );
        assert_eq!(version("clang 19"), None);
        assert_eq!(version(""), None);
    }
}
