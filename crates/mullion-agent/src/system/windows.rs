//! Windows, through its own interfaces.
//!
//! What can be tested without Windows (documents, texts and bytes that are written and read) stands in modules of its
//! own, which are built for tests on every system. Libraries that a Windows may lack are loaded when they are needed,
//! so that something else can stand in their place and a missing one is told by its name.

// Calls of Windows' are unsafe. Those that must get a pointer get one to a value that outlives the call, and what they
// give back is copied at once and freed the way that their documentation asks for.
#![allow(unsafe_code)]

mod choice;
mod documents;
#[cfg(test)]
mod hostile;
mod netsh;
mod products;
mod recovery;
mod sddl;
mod search_path;
mod stopping;
mod task;

#[cfg(windows)]
mod adapters;
#[cfg(windows)]
mod authorities;
#[cfg(windows)]
mod call;
#[cfg(windows)]
mod describe;
#[cfg(windows)]
mod event_log;
#[cfg(windows)]
mod failures;
#[cfg(windows)]
mod features;
#[cfg(windows)]
mod files;
#[cfg(windows)]
mod firewall;
#[cfg(windows)]
mod hive;
#[cfg(windows)]
mod licence;
#[cfg(windows)]
mod names;
#[cfg(windows)]
mod networks;
#[cfg(windows)]
mod own;
#[cfg(windows)]
mod permissions;
#[cfg(windows)]
mod privileges;
#[cfg(windows)]
mod processes;
#[cfg(windows)]
mod programs;
#[cfg(windows)]
mod service_control;
#[cfg(windows)]
mod service_main;
#[cfg(windows)]
mod services;
#[cfg(windows)]
mod tasks;

#[cfg(windows)]
pub use own::Windows;
