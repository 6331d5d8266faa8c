//! `Refusal`: why a message is not accepted, and the status for it.

/// Why a message is refused: the status of the response, and a sentence for the response and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 400, 408, 413, 414, 417, 431, 501 or 505.
    pub status: u16,
    pub reason: &'static str,
}

impl Refusal {
    pub const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }

    pub const fn bad(reason: &'static str) -> Self {
        Self::new(400, reason)
    }
}
