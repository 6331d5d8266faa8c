//! `DeflateParams`: the negotiated parameters of permessage-deflate (RFC 7692 section 7.1).

/// The end of a message's last block, which is not sent (RFC 7692 section 7.2.1).
pub(crate) const TRAILER: [u8; 4] = [0x00, 0x00, 0xFF, 0xFF];

/// The result of a handshake, or as its argument, the most that the server allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateParams {
    /// The server compresses each message without the context of earlier ones.
    pub server_no_context_takeover: bool,
    /// The client compresses each message without the context of earlier ones.
    pub client_no_context_takeover: bool,
    /// 8 to 15: the server's back-references reach at most 2^this bytes.
    pub server_max_window_bits: u8,
    /// 8 to 15: the client's back-references reach at most 2^this bytes.
    pub client_max_window_bits: u8,
}

impl Default for DeflateParams {
    /// Windows of 4 KiB: enough for similar messages, with a tenth of the memory of the largest.
    fn default() -> Self {
        Self {
            server_no_context_takeover: false,
            client_no_context_takeover: false,
            server_max_window_bits: 12,
            client_max_window_bits: 12,
        }
    }
}
