//! HTTP/2 on a connection of a client: many exchanges at a time, each on a stream.
//!
//! | file | contents |
//! |---|---|
//! | `state` | `Http2`: nghttp2's session, and the streams |
//! | `begin` | starts HTTP/2 on a connection, and an exchange on it |
//! | `head` | the heads of requests and responses, which the rest of the client knows in the form of HTTP/1.1 |
//! | `input` | what was received |
//! | `sending` | what is sent |
//! | `endings` | the ends of streams and of the connection |
//! | `kept` | whether a kept connection still works |
//! | `deadlines` | how long a stream may wait |
//!
//! All of it is part of `ClientConnection`.

mod begin;
mod deadlines;
mod endings;
pub mod head;
mod input;
mod kept;
mod sending;
pub mod state;

/// A request that servers refuse is sent so often.
pub const MOST_ATTEMPTS: u32 = 4;
