//! `Failure`: why a connection fails, with the close code for it (RFC 6455 section 7.4.1).

use std::fmt;

/// The peer broke a rule or a limit: send a close frame with `code`, then end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: u16,
    pub reason: &'static str,
}

impl Failure {
    pub const PROTOCOL_ERROR: u16 = 1002;
    pub const INVALID_DATA: u16 = 1007;
    pub const POLICY: u16 = 1008;
    pub const TOO_BIG: u16 = 1009;

    pub(crate) const fn protocol(reason: &'static str) -> Self {
        Self { code: Self::PROTOCOL_ERROR, reason }
    }

    pub(crate) const fn data(reason: &'static str) -> Self {
        Self { code: Self::INVALID_DATA, reason }
    }

    pub(crate) const fn policy(reason: &'static str) -> Self {
        Self { code: Self::POLICY, reason }
    }

    pub(crate) const fn too_big(reason: &'static str) -> Self {
        Self { code: Self::TOO_BIG, reason }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.reason, self.code)
    }
}

impl std::error::Error for Failure {}

/// Whether a close frame may carry this code.
///
/// The IANA registry assigns 1000 to 1014, except 1004 (reserved) and 1005 and 1006 (never sent, like 1015); 3000 to
/// 3999 belong to libraries and 4000 to 4999 to applications.
pub fn is_close_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
