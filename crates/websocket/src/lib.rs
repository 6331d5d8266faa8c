//! WebSocket without I/O and without Python: frames (RFC 6455), permessage-deflate (RFC 7692), the server's handshake.

#![deny(unsafe_code)]

mod config;
mod deflate;
mod deflater;
mod event;
mod failure;
mod frame;
pub mod handshake;
mod inflater;
mod mask;
pub mod negotiation;
mod receiver;
mod sender;
mod utf8;

pub use config::{Config, Role};
pub use deflate::DeflateParams;
pub use event::Event;
pub use failure::{Failure, is_close_code};
pub use receiver::{Receiver, Step};
pub use sender::{SendError, Sender};

/// One side of a connection after the handshake. The two directions know nothing of each other: an event that
/// borrows from the receiver can be answered by the sender.
pub struct Connection {
    pub receiver: Receiver,
    pub sender: Sender,
}

impl Connection {
    pub fn new(config: &Config) -> Self {
        Self { receiver: Receiver::new(config), sender: Sender::new(config) }
    }
}
