//! Sockets and descriptors that the program owns: `add_reader`, `add_writer`, and `sock_*`.
//!
//! Stands on `event_loop`; knows no transport.

mod operation;
mod watch;

pub use operation::SockOperation;
