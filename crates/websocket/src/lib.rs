//! WebSocket without I/O and without Python: frames (RFC 6455), permessage-deflate (RFC 7692), the server's handshake.
//!
//! ```
//! use oneloop_websocket::{Config, Connection, Event, Failure, Role, Step};
//!
//! /// Echoes everything in the bytes of a read. Returns true if the answer is the last one.
//! fn serve(connection: &mut Connection, input: &mut [u8], out: &mut Vec<u8>) -> bool {
//!     let Connection { receiver, sender } = connection;
//!     let mut rest = input;
//!     loop {
//!         let Step { consumed, event } = match receiver.read(rest) {
//!             Ok(step) => step,
//!             Err(Failure { code, reason }) => {
//!                 return sender.close(out, Some(code), reason).is_ok();
//!             }
//!         };
//!         let sent = match event {
//!             Some(Event::Text(text)) => sender.text(out, text),
//!             Some(Event::Binary(bytes)) => sender.binary(out, bytes),
//!             Some(Event::Ping(payload)) => sender.pong(out, payload),
//!             Some(Event::Pong(_)) => Ok(()),
//!             Some(Event::Close { code, .. }) => return sender.close(out, code, "").is_ok(),
//!             None => return false,
//!         };
//!         sent.expect("nothing was closed, and a pong is as short as its ping");
//!         rest = &mut rest[consumed..];
//!     }
//! }
//!
//! let mut connection = Connection::new(&Config::new(Role::Server));
//! let mut out = Vec::new();
//! let mut input = *b"\x81\x82\0\0\0\0Hi\x88\x80\0\0\0\0";
//! assert!(serve(&mut connection, &mut input, &mut out));
//! assert_eq!(out, b"\x81\x02Hi\x88\x00");
//! ```
//!
//! # Refusals and their codes
//!
//! | the peer sends | code |
//! |---|---|
//! | RSV2 or RSV3; RSV1 without an agreement, on a control frame or on a continuation; a reserved opcode | 1002 |
//! | a client's frame without a mask; a server's frame with one | 1002 |
//! | a control frame that is fragmented or longer than 125 bytes | 1002 |
//! | a length not in its shortest form, or above 2^63 - 1 | 1002 |
//! | a continuation without a message; a new message inside a message | 1002 |
//! | a close frame of one byte, or with a code that must not be sent (`is_close_code`) | 1002 |
//! | text or a close reason that is not UTF-8, at its first invalid byte | 1007 |
//! | compressed data that is invalid, refers beyond its window, or has more than 64 final blocks | 1007 |
//! | more frames in a message, or more control frames between them, than the limits | 1008 |
//! | a message above the limit, before its payload or while it is inflated | 1009 |
//!
//! A head is refused at its first invalid byte, a payload while its bytes arrive. The events and the refusal do not
//! depend on how the input is split. (A compressed text with two errors is refused for the one found first.) Bytes
//! after a close frame or a failure are ignored. The caller handles rates, timeouts and unanswered pings.
//!
//! # Memory
//!
//! A connection holds no buffer between messages. With compression it keeps up to 4 KiB of the received data (2^window
//! bits) and up to 1 KiB of the sent data; zlib's states belong to the thread. During a message it holds the data
//! received so far, never more than `max_message_bytes + 1`.

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
mod refusal;
mod sender;
mod token;
mod utf8;
mod window;

pub use config::{Config, Role};
pub use deflate::DeflateParams;
pub use event::Event;
pub use failure::{Failure, is_close_code};
pub use receiver::{Receiver, Step};
pub use sender::{SendError, Sender};

/// One side of a connection after the handshake. The two directions are independent: the sender can answer an event
/// that borrows from the receiver.
pub struct Connection {
    pub receiver: Receiver,
    pub sender: Sender,
}

impl Connection {
    pub fn new(config: &Config) -> Self {
        Self { receiver: Receiver::new(config), sender: Sender::new(config) }
    }
}
