//! HTTP/2 (RFC 9113) without I/O and without Python: bytes in, events out; requests and responses in, bytes out.
//!
//! The protocol is nghttp2's. This crate gives it a safe interface, and keeps what is queued of each body.
//!
//! | file | contents |
//! |---|---|
//! | `session` | `Session`: one side of a connection |
//! | `callbacks` | the calls that nghttp2 makes while it receives and sends |
//! | `event` | what was received |
//! | `fields` | `FieldList`: the fields of a head, in one piece of memory |
//! | `body` | `Body`: what is queued of a body that is being sent |
//! | `memory` | where it frames, and how an idle session gives that memory back |
//! | `watch` | frames that nghttp2 lets pass, and the RFC does not |
//! | `config` | the limits of a connection |

mod body;
mod callbacks;
mod config;
mod event;
mod fields;
mod lines;
mod memory;
#[cfg(test)]
mod random_frames;
mod session;
#[cfg(test)]
mod tests;
mod watch;

pub use body::Chunk;
pub use config::{Config, Role};
pub use event::{Code, Event, HeadKind};
pub use fields::FieldList;
pub use session::{Failure, Session};
