//! Machines: made, started, found again and taken away, whatever carries them.
//!
//! ```text
//! Look    find · door · console_tail            reads; discovery holds nothing else
//! Driver  make_network · make · start · set_autostart · stop · remove · remove_network · authorize · set_hosts ·
//!         set_dns
//! ```
//!
//! The contract stands in [`driver`], and a suite in `mullion-testkit` holds every driver to it: the one in memory, the
//! one for machines that exist already, and those that make machines. Nobody asks which driver it is: what one can do
//! is a value, [`Capabilities`], and [`maker`] is the one table from a driver's name in the file to its code.
//!
//! What holds always:
//! - everything that is made carries its cluster's label, on the thing itself: nothing is found through a state
//!   file, and what lacks the label is never touched;
//! - whether a machine runs is asked of the computer's processes, not of a file: a process is a machine's by proof of the
//!   kernel, never by its arguments;
//! - a label that cannot be read, is newer, or has another cluster's id keeps a machine from being made, changed and
//!   removed;
//! - a machine that is killed at any moment leaves no mount, no interface and no control group that its removal
//!   would not take away.
//!
//! # Current limitations
//!
//! - System containers on this computer, stand-ins for Windows among them, and machines that exist already. Other
//!   drivers come later.
//! - A machine's processors, memory and tasks are limits; its disk size is one where the file system has project
//!   quotas, and else it is written down and not enforced.
//! - Machines start with the computer where systemd is its first process. Elsewhere `mullion up` starts them.
//! - Packets of machines to the outside go through nftables; a computer without `nft` gives them no way out.
//! - A computer whose memory and processor groups may not be passed on (a container with the unified hierarchy
//!   whose root group holds processes) carries machines in which kubelet does not start.
//! - Names of machines reach other machines by their hosts files, so that a machine that is added must be told
//!   to the others: `set_hosts`.

mod as_root;
pub mod driver;
mod error;
pub mod existing;
mod found;
pub mod nspawn;
mod quirks;
mod wish;

use std::path::Path;

use as_root::AsRoot;
use mullion_spec::words;

pub use driver::{Capabilities, Driver, Look, Privilege, Stop};
pub use error::DriverError;
pub use found::{Door, Found, Sighting};
#[doc(hidden)]
pub use nspawn::fuzz;
pub use nspawn::{DiskLimit, Networks, disk_limit, has_machines, networks, restore_network};
pub use quirks::{Cgroup, Init, Limits, Quirks, quirks};
pub use wish::{Hosts, MachineWish, NetworkWish, gateway};

/// The driver that makes machines, with their files below `place`; nothing where the file's word stands for one
/// that does not make machines on this computer.
///
/// The one place that knows which word is which code.
///
/// `program` is this program: the driver keeps a copy where systemd restores networks with it, by [`restore_network`].
pub fn maker(driver: words::Driver, place: &Path, program: &Path) -> Option<Box<dyn Driver>> {
    let machines = match driver {
        words::Driver::Nspawn => nspawn::Nspawn::new(place),
        words::Driver::Wine => nspawn::Nspawn::stand_ins(place),
        _ => return None,
    };
    Some(Box::new(AsRoot(machines.with_program(program))))
}
