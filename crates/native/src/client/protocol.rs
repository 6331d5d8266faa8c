//! `Protocol`: which version of HTTP the connections of an origin speak.

use crate::transport::Under;
use pyo3::prelude::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    Http1,
    /// HTTP/2 if the server agrees in the TLS handshake.
    Agreed,
    Http2,
}

impl Protocol {
    /// As Python code says it.
    pub fn of(number: u8) -> Self {
        match number {
            0 => Self::Http1,
            1 => Self::Agreed,
            _ => Self::Http2,
        }
    }

    /// Whether a connection over this transport speaks HTTP/2.
    pub fn is_http2_over(self, py: Python<'_>, under: &Under) -> PyResult<bool> {
        match self {
            Self::Http1 => Ok(false),
            Self::Agreed => Ok(under.agreed_protocol(py)?.as_deref() == Some("h2")),
            Self::Http2 => Ok(true),
        }
    }
}
