//! Ways in which Windows nodes are known to fail, each with the test that holds what prevents it.
//!
//! A test is named after its number in `docs/windows-failure-modes.md`, where every mode has its row.

#[cfg(test)]
mod joining;
#[cfg(test)]
mod networks;
#[cfg(test)]
mod runtime;
#[cfg(test)]
#[path = "../render/scene.rs"]
#[allow(dead_code)]
mod scene;
#[cfg(test)]
mod system;
#[cfg(test)]
mod windows;
