//! To be written.
//!
//! # Current limitations
//!
//! Everything.
