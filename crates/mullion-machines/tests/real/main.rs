//! Real machines on this computer, held to the drivers' contract and to more.
//!
//! They need root, and a template: `MULLION_TEST_PARTS` names a folder with `root.tar`, programs in `bin/` (`containerd`,
//! `containerd-shim-runc-v2` and `ctr` among them) and image archives in `images/` (pause among them); the
//! template is kept there for the next time. Everything else is made below a temporary folder, for clusters whose names
//! nobody has, and is gone at the end. They run one after the other: what is left behind is told by comparing
//! the whole computer before and after.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod boots;
mod faults;
mod ground;
mod networks;
