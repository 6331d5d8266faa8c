//! HTTP/1.1 without I/O and without Python: heads, framing, bodies (RFC 9110 and 9112).
//!
//! Strict: a message that two implementations could read differently is refused, with the status that the RFC
//! requires.

#![deny(unsafe_code)]

pub mod authority;
pub mod body;
pub mod characters;
mod chunk_line;
#[cfg(test)]
mod cuts;
pub mod fields;
pub mod head;
pub mod limits;
pub mod proxy_protocol;
pub mod refusal;
pub mod representation;
pub mod request;
mod request_line;
pub mod response;
mod target;
mod trailers;
pub mod url;

pub use body::{BodyReader, Event, Piece};
pub use head::{Framing, Header, Version};
pub use limits::Limits;
pub use refusal::Refusal;
pub use request::{Request, Target, may_say_more, parse_request};
pub use response::{Asked, Response, parse_response};
pub use target::{Parts, split_target};
pub use trailers::TrailerField;
