//! Real Kubernetes on real machines: `up`, `status`, `down` and what may go wrong between them.
//!
//! Every test here makes machines on this computer, so all of them need root and are ignored unless asked for:
//! `cargo xtask test` does. They take turns, whatever number of threads runs them, because each compares what there is
//! on this computer before and after.
//!
//! ```text
//! MULLION_PROGRAM   the program that is tried, instead of the one of this build
//! MULLION_SLOW      set: the long ones too, and more of what is random
//! MULLION_SEED      the seed of what is random, as a failed test printed it
//! MULLION_OTHERS    words, with commas between: what has one of them in its name is somebody else's, who works meanwhile
//! MULLION_KEEP      set: what a failed test made is left for a look at it
//! ```
//!
//! The cache of artifacts and the templates are the user's own, shared by all tests; everything else is each test's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod builds;
mod certificates;
mod computer;
mod existing;
mod faults;
mod file_changes;
mod invoker;
mod killed;
mod kube;
mod lab;
mod labels;
mod mirror;
mod namespace;
mod network;
mod offline;
mod outage;
mod ports;
mod purge;
mod ran;
mod readme;
mod registration;
mod restart;
mod rights;
mod routes;
mod secrets;
mod several;
mod shown;
mod snapshot;
mod systemd;
mod three;
mod trace;
mod trial;
mod watcher;
mod whole;
mod windows;
mod windows_deployment;
mod windows_pods;
