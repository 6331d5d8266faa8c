//! `Refusal`: why a handshake fails.

use std::fmt;

/// Why a handshake fails, and the status for it. A response with status 426 needs the fields `Upgrade: websocket` and
/// `Sec-WebSocket-Version: 13`, one with status 405 needs `Allow: GET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub reason: &'static str,
}

impl Refusal {
    pub(crate) const fn bad(reason: &'static str) -> Self {
        Self { status: 400, reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.reason)
    }
}

impl std::error::Error for Refusal {}
