//! The programs that xtask runs: finding them, running them, installing them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::XtaskError;

/// The one version of `cargo-deny` that tests run with: its findings change between versions.
const CARGO_DENY: &str = "0.20.2";

/// The repository's root folder.
pub fn repository() -> PathBuf {
    // Set by `cargo run`; the value from the build serves a binary that was started by hand.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package
        .parent()
        .map_or_else(|| package.clone(), Path::to_path_buf)
}

/// The cargo that started xtask, to be run at the repository's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(repository());
    command
}

/// Runs a command with the terminal as its own, and expects success.
pub fn run(command: &mut Command) -> Result<(), XtaskError> {
    let status = command.status().map_err(|cause| XtaskError::Start {
        command: shown(command),
        cause,
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(XtaskError::Ended {
            command: shown(command),
            status,
        })
    }
}

/// Runs a command, expects success and gives what it wrote to standard output.
pub fn read(command: &mut Command) -> Result<String, XtaskError> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|cause| XtaskError::Start {
            command: shown(command),
            cause,
        })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(XtaskError::Ended {
            command: shown(command),
            status: output.status,
        })
    }
}

/// A command as a person would type it: the program without its folder, then the arguments.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The folder that cargo builds into, wherever the user has put it.
pub fn target_folder() -> Result<PathBuf, XtaskError> {
    let mut command = cargo(&["metadata", "--format-version=1", "--no-deps"]);
    let text = read(&mut command)?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| XtaskError::Answer {
            command: shown(&command),
            detail: error.to_string(),
        })?;
    metadata["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| XtaskError::Answer {
            command: shown(&command),
            detail: "it has no `target_directory`".into(),
        })
}

/// The folder where cargo puts the programs that it installs.
pub fn cargo_bin() -> Result<PathBuf, XtaskError> {
    cargo_home(env::var_os("CARGO_HOME"), env::home_dir())
        .map(|home| home.join("bin"))
        .ok_or(XtaskError::NoCargoHome)
}

fn cargo_home(variable: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    variable
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| home.map(|home| home.join(".cargo")))
}

/// `cargo deny` is there, at the pinned version.
pub fn ensure_cargo_deny() -> Result<(), XtaskError> {
    // An absent subcommand makes cargo fail, which says the same as another version does.
    let found = cargo(&["deny", "--version"])
        .output()
        .ok()
        .filter(|output| output.status.success());
    if found
        .is_some_and(|output| is_cargo_deny(&String::from_utf8_lossy(&output.stdout), CARGO_DENY))
    {
        return Ok(());
    }
    println!("   installing cargo-deny {CARGO_DENY}");
    let version = format!("={CARGO_DENY}");
    run(&mut cargo(&[
        "install",
        "--locked",
        "cargo-deny",
        "--version",
        &version,
    ]))
}

/// Whether a program can be started by its name.
pub fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Programs that logins, certificates, file rights and unit files are tested with, and the packages that bring them.
const TESTED_WITH: [(&str, &str); 6] = [
    ("/usr/sbin/sshd", "openssh-server"),
    ("/usr/bin/ssh", "openssh-client"),
    ("/usr/bin/sudo", "sudo"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/strace", "strace"),
    ("/usr/bin/systemd-analyze", "systemd"),
];

/// What logins, certificates, file rights and unit files are tested with is there: installed where we may, and told where not.
pub fn ensure_tested_with() -> Result<(), XtaskError> {
    let missing: Vec<_> = TESTED_WITH
        .iter()
        .filter(|(program, _)| !Path::new(program).exists())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    install(&missing)
}

/// What compiles and links programs for Windows.
pub const WINDOWS_COMPILER: &str = "x86_64-w64-mingw32-gcc";

/// The compiler for Windows is there, installed where we may; where not, whoever calls it finds out.
pub fn ensure_windows_compiler() -> Result<(), XtaskError> {
    if is_on_path(WINDOWS_COMPILER) || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    install(&["gcc-mingw-w64-x86-64"])
}

/// Installs packages of Debian's. Without root that fails, and says so itself.
pub fn install(packages: &[&str]) -> Result<(), XtaskError> {
    println!("   installing {}", packages.join(" and "));
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

fn is_cargo_deny(answer: &str, version: &str) -> bool {
    answer.trim() == format!("cargo-deny {version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_counts() {
        assert!(is_cargo_deny("cargo-deny 0.20.2\n", "0.20.2"));
        assert!(!is_cargo_deny("cargo-deny 0.20.21\n", "0.20.2"));
        assert!(!is_cargo_deny("cargo-deny 0.19.0\n", "0.20.2"));
        assert!(!is_cargo_deny("", "0.20.2"));
    }

    #[test]
    fn a_program_is_found_by_its_name_or_not() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("no-such-program-anywhere"));
    }

    #[test]
    fn cargo_home_is_the_variable_then_the_home_folder() {
        let home = Some(PathBuf::from("home"));
        assert_eq!(
            cargo_home(Some("own".into()), home.clone()),
            Some("own".into())
        );
        assert_eq!(
            cargo_home(Some("".into()), home.clone()),
            Some("home/.cargo".into())
        );
        assert_eq!(cargo_home(None, home), Some("home/.cargo".into()));
        assert_eq!(cargo_home(None, None), None);
    }

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("some/folder/cargo");
        command.args(["fmt", "--check"]);
        assert_eq!(shown(&command), "cargo fmt --check");
    }

    #[test]
    fn a_command_that_fails_or_is_missing_is_an_error_that_names_it() {
        let failed = run(&mut Command::new("false")).unwrap_err();
        assert!(matches!(failed, XtaskError::Ended { ref command, .. } if command == "false"));
        let missing = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(matches!(missing, XtaskError::Start { .. }));
    }

    #[test]
    fn the_repository_holds_this_package() {
        assert!(repository().join("xtask").join("Cargo.toml").is_file());
    }
}
