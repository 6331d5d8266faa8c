//! What heads of requests and of responses share.

/// A header field, as it was sent; the value without the white space around it.
pub use httparse::Header;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// How long the body is (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Length(0)` is a body that was announced and is empty.
    None,
    Length(u64),
    Chunked,
    /// Responses alone.
    UntilClose,
}
