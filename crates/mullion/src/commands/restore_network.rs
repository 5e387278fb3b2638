//! `mullion restore-network`: makes a cluster's network again when the computer has started.
//!
//! No person types it. The systemd unit of the network runs it, from the copy of this program that the driver keeps.

use mullion_machines::NetworkWish;
use mullion_plan::Identity;
use mullion_spec::words::{MachineAccess, Word as _};

use crate::arguments::RestoreNetworkArguments;
use crate::console::Console;
use crate::failure::{Class, Failure};

/// Restores a network, and says so.
pub fn restore_network(
    console: &mut Console<'_>,
    wishes: RestoreNetworkArguments,
) -> Result<u8, Failure> {
    let RestoreNetworkArguments {
        cluster,
        network,
        access,
        id,
        owner,
    } = wishes;
    let access = MachineAccess::from_word(&access).ok_or_else(|| {
        let what = format!("`{access}` says nothing about who can reach machines");
        Failure::new(Class::Usage, what)
    })?;
    let identity = id.zip(owner).map(|(id, owner)| Identity { id, owner });
    let wish = NetworkWish {
        cluster,
        network,
        access,
        identity,
    };
    mullion_machines::restore_network(&wish).map_err(|error| {
        let what = format!("the network of cluster `{}` is not restored", wish.cluster);
        let failure = Failure::new(Class::ThisComputer, what).because(&error);
        error.hint().into_iter().fold(failure, Failure::hint)
    })?;
    writeln!(
        console.out,
        "the network {network} of cluster `{}` is restored",
        wish.cluster
    )?;
    Ok(0)
}
