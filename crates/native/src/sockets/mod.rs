//! Sockets and descriptors that the program owns: `add_reader`, `add_writer`, and `sock_*`.
//!
//! Stands on `event_loop`; knows no transport.

mod callbacks;
mod operation;
mod socket_file;
mod waiters;
mod watch;

pub use operation::SockOperation;
pub use socket_file::remove_socket_file;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Read,
    Write,
}
