//! `Config`: the role and the limits of one side of a connection.

use crate::deflate::DeflateParams;

#[derive(Clone, Copy, Debug)]
pub enum Role {
    Server,
    /// `mask` gives the key of the next frame. It must not be predictable (RFC 6455 section 10.3).
    Client {
        mask: fn() -> [u8; 4],
    },
}

#[derive(Clone, Debug)]
pub struct Config {
    pub role: Role,
    /// The longest message, after inflation.
    pub max_message_bytes: usize,
    /// Frames of one message. Empty ones count: they cost time and add nothing to the size.
    pub max_message_frames: u32,
    /// Control frames between the frames of one message.
    pub max_interleaved_frames: u32,
    /// What the handshake agreed on; `None` without compression.
    pub deflate: Option<DeflateParams>,
    /// Shorter messages are sent uncompressed.
    pub compress_from_bytes: usize,
    /// The level of compression, 1 to 9.
    pub compression_level: u8,
    /// How much memory a compressor takes, 1 to 9 (zlib's memLevel).
    pub compression_memory: u8,
}

impl Config {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            max_message_bytes: 16 << 20,
            max_message_frames: 1 << 18,
            max_interleaved_frames: 4096,
            deflate: None,
            compress_from_bytes: 64,
            compression_level: 1,
            compression_memory: 5,
        }
    }
}
