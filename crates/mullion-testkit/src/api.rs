//! An API server: objects in memory, and a server on loopback that keeps them and records every request.

mod objects;
mod server;

pub use objects::{Asked, Objects, decoded};
pub use server::ApiServer;
