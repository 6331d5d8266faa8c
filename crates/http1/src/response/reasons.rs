//! Reason phrases: the text after a status code (RFC 9110 section 15, and the IANA registry of status codes).

/// The usual phrase for a status; empty if it has none.
#[inline]
pub fn reason_phrase(status: u16) -> &'static str {
    let class: &[&str] = match status / 100 {
        1 => &INFORMATIONAL,
        2 => &SUCCESSFUL,
        3 => &REDIRECTION,
        4 => &CLIENT_ERROR,
        5 => &SERVER_ERROR,
        _ => &[],
    };
    class.get(usize::from(status % 100)).copied().unwrap_or_default()
}

static INFORMATIONAL: [&str; 4] = ["Continue", "Switching Protocols", "Processing", "Early Hints"];

static SUCCESSFUL: [&str; 9] = [
    "OK",
    "Created",
    "Accepted",
    "Non-Authoritative Information",
    "No Content",
    "Reset Content",
    "Partial Content",
    "Multi-Status",
    "Already Reported",
];

static REDIRECTION: [&str; 9] = [
    "Multiple Choices",
    "Moved Permanently",
    "Found",
    "See Other",
    "Not Modified",
    "Use Proxy",
    "",
    "Temporary Redirect",
    "Permanent Redirect",
];

static CLIENT_ERROR: [&str; 52] = [
    "Bad Request",
    "Unauthorized",
    "Payment Required",
    "Forbidden",
    "Not Found",
    "Method Not Allowed",
    "Not Acceptable",
    "Proxy Authentication Required",
    "Request Timeout",
    "Conflict",
    "Gone",
    "Length Required",
    "Precondition Failed",
    "Content Too Large",
    "URI Too Long",
    "Unsupported Media Type",
    "Range Not Satisfiable",
    "Expectation Failed",
    "I'm a Teapot",
    "",
    "",
    "Misdirected Request",
    "Unprocessable Content",
    "Locked",
    "Failed Dependency",
    "Too Early",
    "Upgrade Required",
    "",
    "Precondition Required",
    "Too Many Requests",
    "",
    "Request Header Fields Too Large",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "Unavailable For Legal Reasons",
];

static SERVER_ERROR: [&str; 12] = [
    "Internal Server Error",
    "Not Implemented",
    "Bad Gateway",
    "Service Unavailable",
    "Gateway Timeout",
    "HTTP Version Not Supported",
    "Variant Also Negotiates",
    "Insufficient Storage",
    "Loop Detected",
    "",
    "Not Extended",
    "Network Authentication Required",
];

#[cfg(test)]
mod tests {
    use super::reason_phrase;

    #[test]
    fn words_stand_at_their_numbers() {
        for (status, words) in [
            (100, "Continue"),
            (103, "Early Hints"),
            (200, "OK"),
            (208, "Already Reported"),
            (308, "Permanent Redirect"),
            (404, "Not Found"),
            (418, "I'm a Teapot"),
            (431, "Request Header Fields Too Large"),
            (451, "Unavailable For Legal Reasons"),
            (500, "Internal Server Error"),
            (511, "Network Authentication Required"),
            (0, ""),
            (299, ""),
            (306, ""),
            (600, ""),
        ] {
            assert_eq!(reason_phrase(status), words);
        }
    }
}
