//! Sockets and descriptors that the program owns: `add_reader`, `add_writer`, and `sock_*`.
//!
//! Uses `event_loop`; does not depend on transports.

mod callbacks;
mod methods;
mod operation;
mod socket_file;
mod waiters;
mod waiting;
mod watch;

pub use operation::{SockOperation, receive};
pub use socket_file::remove_socket_file;
pub use watch::Watch;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Read,
    Write,
}
