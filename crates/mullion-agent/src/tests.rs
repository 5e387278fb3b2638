//! The logic over a system in memory, which is killed at every single operation.

mod applying;
mod asking;
mod attending;
mod comparing;
mod failure_modes;
mod fixtures;
mod images;
mod killed;
mod kubernetes;
mod logs;
mod renewing;
mod reverting;
mod starving;
mod windows;
