//! `Config`: the role and the limits of one side of a connection.

use crate::deflate::DeflateParams;

#[derive(Clone, Copy, Debug)]
pub enum Role {
    Server,
    /// `mask` returns the key of the next frame. It must be unpredictable (RFC 6455 section 10.3).
    Client {
        mask: fn() -> [u8; 4],
    },
}

#[derive(Clone, Debug)]
pub struct Config {
    pub role: Role,
    /// The maximum length of a message, after inflation.
    pub max_message_bytes: usize,
    /// The maximum number of frames per message. Empty ones count: they cost time and do not increase the size.
    pub max_message_frames: u32,
    /// The maximum number of control frames between the frames of one message.
    pub max_interleaved_frames: u32,
    /// The parameters from the handshake; `None` without compression.
    pub deflate: Option<DeflateParams>,
    /// Shorter messages are sent uncompressed.
    pub compress_from_bytes: usize,
    /// The compression level, 1 to 9.
    pub compression_level: u8,
    /// The memory level of a compressor, 1 to 9 (zlib's memLevel).
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
