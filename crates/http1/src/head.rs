//! Common parts of request and response heads.

/// A header field as it was sent; the value without surrounding white space.
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
    /// Only for responses.
    UntilClose,
}
