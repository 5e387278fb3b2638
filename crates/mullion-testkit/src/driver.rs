//! A driver whose machines are in memory, and the suite that every driver passes.

pub mod conform;
pub mod memory;
