//! `DeflateParams`: what the two sides agree on for permessage-deflate (RFC 7692 section 7.1).

/// The end of a message's last block, which does not go over the wire (RFC 7692 section 7.2.1).
pub(crate) const TRAILER: [u8; 4] = [0x00, 0x00, 0xFF, 0xFF];

/// As the result of a handshake: what holds. As the argument of one: what the server allows at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateParams {
    /// The server compresses each message on its own.
    pub server_no_context_takeover: bool,
    /// The client compresses each message on its own.
    pub client_no_context_takeover: bool,
    /// 8 to 15: the server refers back at most 2^this bytes.
    pub server_max_window_bits: u8,
    /// 8 to 15: the client refers back at most 2^this bytes.
    pub client_max_window_bits: u8,
}

impl Default for DeflateParams {
    /// Windows of 4 KiB: enough for the likeness of messages, and a tenth of the memory of the largest.
    fn default() -> Self {
        Self {
            server_no_context_takeover: false,
            client_no_context_takeover: false,
            server_max_window_bits: 12,
            client_max_window_bits: 12,
        }
    }
}
