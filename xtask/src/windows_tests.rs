//! `cargo xtask windows-tests`: tests of what runs on Windows, run here.

use crate::{XtaskError, shims, tools, windows_agent, windows_runner};

/// Runs the agent's own tests as programs for Windows, and those of the libraries that answer where there are none.
/// Needs root: whatever they change is in name spaces of their own, and goes with them.
pub fn run() -> Result<(), XtaskError> {
    let runner = windows_runner::prepare()?;
    let service = shims::build()?.join("service.exe");
    windows_agent::test(&runner, &windows_runner::on_drive(&service))?;
    let mut tests = tools::cargo(&["test", "--quiet", "--package=xtask", "--test=shims"]);
    tests
        .args(["--", "--ignored"])
        .env("MULLION_WINDOWS_RUNNER", &runner);
    tools::run(&mut tests)
}
