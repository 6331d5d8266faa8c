//! The native half of the bench: a load generator (`loadgen`) and servers without Python (`floor`).
//!
//! This crate does not depend on Python, rivals or reports. The Python half starts these programs and reads their
//! lines.

pub mod clock;
pub mod engine;
pub mod fault;
pub mod floor;
pub mod gate;
pub mod outcome;
pub mod pace;
pub mod pattern;
pub mod poller;
pub mod session;
pub mod tls;
pub mod trust;
pub mod wire;
