//! What planning promises, tried on generated clusters and on an in-memory world with faults.

mod examples;
mod properties;
mod scramble;
mod sketch;
