//! Facts of a machine, for tests that look at a few of them.

use mullion_plan::{Inside, MachineFacts, Place, Power};
use mullion_spec::words::Driver;

/// A machine of ours that runs here, with that inside.
pub fn running_machine(driver: Driver, inside: Option<Inside>) -> MachineFacts {
    MachineFacts {
        ours: true,
        made: true,
        whole: true,
        driver,
        place: Place::Here,
        power: Power::On,
        size: None,
        template: None,
        address: None,
        inside,
        ground: None,
        addresses: Vec::new(),
        autostart: None,
        claimed_by: None,
        trouble: None,
    }
}
