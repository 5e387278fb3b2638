//! `cluster.yaml`, from its text to values that the rest of the program may trust.
pub mod cluster;
pub mod value;
pub mod version;
pub mod words;
