//! Common parts of request and response heads.

/// A header field as it was sent; the value without surrounding white space.
pub use httparse::Header;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
    /// Of requests that an HTTP/2 connection has made; this crate never returns it.
    Http2,
}

impl Version {
    /// As ASGI and access logs name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2",
        }
    }
}

/// How long the body is (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Length(0)` is a body that was announced and is empty.
    None,
    Length(u64),
    Chunked,
    /// Only for responses.
    UntilClose,
}
