//! Heads. Requests are written before it is known which protocol their connection speaks, and responses are parsed when
//! the program looks at them. So both are in the form of HTTP/1.1 outside of this room.

use oneloop_http2::FieldList;
use std::io::Write;

/// How the head of a response begins.
const START: &[u8] = b"HTTP/2 ";

/// Fields of HTTP/1.1's connections: RFC 9113 section 8.2.2. The host is in a pseudo field.
const LEFT_OUT: [&[u8]; 7] = [
    b"host",
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"transfer-encoding",
    b"upgrade",
    b"http2-settings",
];

/// The fields of a request, in lines, from its head.
pub fn request_lines(head: &[u8], scheme: &[u8]) -> Vec<u8> {
    let mut rest = head.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut words = rest.next().unwrap_or_default().split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut lines = Vec::with_capacity(head.len() + 64);
    let mut add = |name: &[u8], value: &[u8]| {
        lines.extend_from_slice(name);
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value);
        lines.extend_from_slice(b"\r\n");
    };
    add(b":method", method);
    if let Some(host) = super::super::request::field(head, b"host") {
        add(b":authority", host);
    }
    add(b":scheme", scheme);
    add(b":path", target);
    for line in rest {
        let Some(at) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (line[..at].to_ascii_lowercase(), line[at + 1..].trim_ascii());
        let is_left_out = LEFT_OUT.contains(&name.as_slice())
            || (name == b"te" && !value.eq_ignore_ascii_case(b"trailers"));
        if !is_left_out {
            add(&name, value);
        }
    }
    lines
}

/// The head of a response.
pub fn response_head(status: u16, fields: &FieldList) -> Vec<u8> {
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(START);
    write!(head, "{status}\r\n").expect("a vector takes all");
    for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(b":")) {
        head.extend_from_slice(name);
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The fields of such a head; `None` for one of HTTP/1.1.
pub fn fields_of_response(head: &[u8]) -> Option<impl Iterator<Item = (&[u8], &[u8])>> {
    if !head.starts_with(START) {
        return None;
    }
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    Some(lines.filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let at = memchr::memchr(b':', line)?;
        Some((&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or_default()))
    }))
}
