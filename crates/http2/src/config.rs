//! `Config`: the limits of a connection.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Client,
    Server,
}

/// What this side allows its peer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub role: Role,
    /// Streams that the peer may have open at a time.
    pub streams: u32,
    /// Bytes of a body that the peer may send before `Session::consume` is called.
    pub stream_window: i32,
    /// The same for all bodies together.
    pub connection_window: i32,
    /// The longest frame that is received: RFC 9113 section 4.2.
    pub frame_bytes: u32,
    /// The fields of a head: their number, and the length of names and values together. Of a longer head the rest is
    /// dropped, and `FieldList::is_cut` is set.
    pub head_fields: usize,
    pub head_bytes: usize,
}

impl Config {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            streams: 100,
            stream_window: 256 * 1024,
            connection_window: 1024 * 1024,
            frame_bytes: 16 * 1024,
            head_fields: 100,
            head_bytes: 64 * 1024,
        }
    }
}
