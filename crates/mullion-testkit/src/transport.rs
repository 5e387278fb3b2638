//! A machine in memory behind SSH's transport, and the suite that every transport passes.

pub mod conform;
pub mod memory;
