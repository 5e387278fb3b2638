//! The program as a user runs it: a process, a folder, an exit code.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod adoption;
mod artifacts;
mod down;
mod elevation;
mod files;
mod init;
mod json;
mod kubeconfig;
mod machines;
mod mistakes;
mod pages;
mod plan;
mod runs;
mod surface;
mod up;

use std::path::Path;
use std::process::Output;
use std::sync::LazyLock;

use tempfile::TempDir;

/// Whether the program can be given a network of its own, so that a cluster that the developer has up on this computer
/// is in nobody's way. That needs root; another user's tests see the computer's networks.
static HAS_NETWORK_OF_ITS_OWN: LazyLock<bool> = LazyLock::new(|| {
    let tried = std::process::Command::new("unshare")
        .args(["--net", "true"])
        .output();
    tried.is_ok_and(|output| output.status.success())
});

/// A folder to work in, with nothing of the developer's environment.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
}

/// What a command gave.
#[must_use]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::Builder::new()
                .prefix("mullion")
                .tempdir()
                .unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs_err::write(self.path().join(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs_err::read_to_string(self.path().join(name)).unwrap()
    }

    pub(crate) fn command(&self) -> assert_cmd::Command {
        let program = assert_cmd::cargo::cargo_bin("mullion");
        let mut command = if *HAS_NETWORK_OF_ITS_OWN {
            let mut command = assert_cmd::Command::new("unshare");
            command.args(["--net", "--"]).arg(program);
            command
        } else {
            assert_cmd::Command::new(program)
        };
        command
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            // Machines of this computer are nobody's business here.
            .env("MULLION_PLACE", self.path().join("place"))
            .current_dir(self.path());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command().args(arguments).output().unwrap())
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
