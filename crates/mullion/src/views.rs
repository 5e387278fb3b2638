//! What commands show: pure functions from results to text, and the JSON forms of results.

pub mod artifacts;
pub mod diff;
pub mod findings;
pub mod graph;
pub mod kubeinit;
pub mod plan;
pub mod progress;
pub mod reads;
pub mod run;
pub mod runs;
pub mod schemas;
