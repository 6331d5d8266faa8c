//! `Response`: the states of a response, and how the end of its body is told.
//!
//! | response  | the application may send               | next state on            |
//! |-----------|----------------------------------------|--------------------------|
//! | Awaited   | the start                              | the start                |
//! | Started   | the body; its head was not sent yet    | the body, or a flush     |
//! | Streaming | the rest of the body                   | its last part            |
//! | Trailing  | the trailers it has announced          | the last of them         |
//! | Complete  | nothing                                | –                        |

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Response {
    Awaited,
    Started,
    Streaming,
    Trailing,
    Complete,
}

impl Response {
    /// Nothing of it was sent.
    pub fn is_unsent(self) -> bool {
        matches!(self, Self::Awaited | Self::Started)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// The head does not say.
    Unknown,
    /// This many bytes are still to come.
    Length(u64),
    /// The protocol marks the end: the last chunk in HTTP/1.1, the flag END_STREAM in HTTP/2.
    Marked,
    /// HTTP/1.0: closing the connection ends it.
    UntilClose,
    /// The response has no body, whatever its head says: RFC 9110 section 6.4.1.
    NoBody,
}

impl Framing {
    /// The client has the whole body, whether or not the application has ended it.
    pub fn has_nothing_left(self) -> bool {
        matches!(self, Self::NoBody | Self::Length(0))
    }
}

/// A part of a response with its framing.
pub struct Framed {
    pub out: Vec<u8>,
    /// If set, the data is sent after `out`, and this after the data; otherwise all of it is in `out`.
    pub tail: Option<&'static [u8]>,
    /// The response is complete after it.
    pub ends: bool,
    /// The length of the data.
    pub body_bytes: u64,
}

pub const TOO_LONG: &str = "Response content longer than Content-Length";

/// RuntimeError for a body that is longer than its Content-Length, or ends before it.
pub fn check_length(left: u64, len: usize, ends: bool) -> PyResult<()> {
    let text = if (len as u64) > left {
        TOO_LONG
    } else if ends && (len as u64) < left {
        "Response content shorter than Content-Length"
    } else {
        return Ok(());
    };
    Err(PyRuntimeError::new_err(text))
}
