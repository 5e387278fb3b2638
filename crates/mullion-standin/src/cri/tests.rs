//! The gateway from end to end: a client over TCP, the gateway, and a container runtime of the tests behind a socket.

mod containerd;
mod passing;
mod pulls;
mod real;
mod runtime;
mod stage;
mod trouble;
