//! Real machines on this computer, held to the drivers' contract and to more.
//!
//! They need root, and a template: `MULLION_TEST_PARTS`, which `cargo xtask test` sets, names a folder with `root.tar`,
//! programs in `bin/` (`containerd`, `containerd-shim-runc-v2` and `ctr` among them) and image archives in `images/`
//! (pause among them); the template is kept there for the next time. Everything else is made below a temporary folder
//! and in name spaces of each test's own: interfaces, rules and mounts of this computer are not touched, and what is
//! left behind is told by comparing before and after.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and these tell what took how long"
)]

mod boots;
mod faults;
mod firewall;
mod ground;
mod isolation;
mod networks;
mod proof;
mod stand_in;
mod virtual_machine;
