//! `Limits`: the maximum sizes of a message's parts.

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the request line; 414 above.
    pub line_bytes: usize,
    /// Bytes of the whole head; 431 above. Also for a chunked body's trailers.
    pub head_bytes: usize,
    /// Header fields; 431 above.
    pub headers: usize,
    /// Bytes of the body; 413 above.
    pub body_bytes: u64,
}

/// The largest value allowed for `headers`.
pub const MOST_HEADERS: usize = 256;

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: 8 * 1024, head_bytes: 64 * 1024, headers: 100, body_bytes: u64::MAX }
    }
}
