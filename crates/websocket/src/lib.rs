//! WebSocket without I/O and without Python: frames (RFC 6455), permessage-deflate (RFC 7692), the server's handshake.
//!
//! ```
//! use oneloop_websocket::{Config, Connection, Event, Failure, Role, Step};
//!
//! /// What a server does with the bytes of a read: it echoes. True: the answer is the last one.
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
//! # What is refused, and with which code
//!
//! | the peer sends | code |
//! |---|---|
//! | RSV2 or RSV3; RSV1 without an agreement, on a control frame or on a continuation; a reserved opcode | 1002 |
//! | a client's frame without a mask; a server's frame with one | 1002 |
//! | a control frame that is fragmented or longer than 125 bytes | 1002 |
//! | a length not in its shortest form, or above 2^63 - 1 | 1002 |
//! | a continuation of nothing; a new message within a message | 1002 |
//! | a close frame of one byte, or with a code that may not be sent (`is_close_code`) | 1002 |
//! | text or a close reason that is not UTF-8, at its first impossible byte | 1007 |
//! | compressed data that is invalid, refers back beyond its window, or has more than 64 final blocks | 1007 |
//! | more frames in a message, or more control frames between them, than the limits | 1008 |
//! | a message above the limit, before its payload or while it is inflated | 1009 |
//!
//! A head is refused at its first wrong byte, a payload as its bytes come: in whatever pieces the input arrives, the
//! events and the refusal are the same. (A compressed text that is wrong twice is refused for what is seen first.)
//! What follows a close frame or a failure is ignored. Rates, timeouts and unanswered pings are the caller's concern.
//!
//! # Memory
//!
//! A connection holds no buffer between messages. With compression it keeps up to 4 KiB of what came (2^window bits)
//! and up to 1 KiB of what was sent; zlib's states belong to the thread. A message under way holds what has come of it,
//! never more than `max_message_bytes + 1`.

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
mod window;

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
