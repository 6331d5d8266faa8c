//! The request line: its limit, line ends of whole heads, and why a line was refused. Off the usual way.

use crate::characters::{is_token_byte, is_visible};
use crate::refusal::Refusal;
use httparse::Error;

/// Where the line starts: after empty lines, which a server may skip (RFC 9112 section 2.2).
pub fn line_start(input: &[u8]) -> usize {
    input.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(input.len())
}

/// Whether what stands before the line are whole empty lines. A bare LF is none.
pub fn are_empty_lines(input: &[u8]) -> bool {
    input.len().is_multiple_of(2) && input.chunks_exact(2).all(|line| line == b"\r\n")
}

/// Whether the line is longer than `limit_bytes`, seen as early as its bytes allow: its CR is not of it.
pub fn is_above(line: &[u8], limit_bytes: usize) -> bool {
    match memchr::memchr(b'\n', line) {
        Some(end) => end - usize::from(line[..end].ends_with(b"\r")) > limit_bytes,
        None => line.len() - usize::from(line.ends_with(b"\r")) > limit_bytes,
    }
}

/// Why `error` came up; none where more input can change the answer. `input` is what has been parsed.
pub fn explain(error: Error, input: &[u8]) -> Option<Refusal> {
    Some(match error {
        Error::TooManyHeaders => Refusal::new(431, "too many header fields"),
        Error::HeaderName => Refusal::bad("a field name is malformed"),
        Error::HeaderValue => Refusal::bad("a field value is malformed"),
        Error::NewLine => Refusal::bad("a line end is malformed"),
        Error::Token | Error::Version | Error::Status => {
            return explain_line(&input[line_start(input)..]);
        }
    })
}

/// Reads a line that is known to be wrong: a method, a space, a target, a space, a version.
fn explain_line(line: &[u8]) -> Option<Refusal> {
    let method = line.iter().take_while(|byte| is_token_byte(**byte)).count();
    match line.get(method) {
        Some(b' ') if method > 0 => {}
        _ => return Some(Refusal::bad("the method is malformed")),
    }
    let rest = &line[method + 1..];
    let target = rest.iter().take_while(|byte| is_visible(**byte)).count();
    match &rest[target..] {
        [b' ', version @ ..] if target > 0 => explain_version(version),
        // A line without a version is HTTP/0.9's.
        [b'\r'] if target > 0 => None,
        [b'\r', b'\n', ..] if target > 0 => Some(Refusal::new(505, "HTTP/0.9 is not spoken here")),
        _ => Some(Refusal::bad("the target is malformed")),
    }
}

/// RFC 9112 section 2.3: HTTP-version = "HTTP/" DIGIT "." DIGIT, case-sensitive.
fn explain_version(version: &[u8]) -> Option<Refusal> {
    let form = b"HTTP/0.0";
    let fits =
        |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
    if !version.iter().zip(form).all(fits) {
        return Some(Refusal::bad("the version is malformed"));
    }
    if version.len() < form.len() {
        return None;
    }
    // RFC 9110 section 15.6.6. The preface of HTTP/2, "PRI * HTTP/2.0", ends here, too. Section 2.5 would have a server
    // read HTTP/1.2 as HTTP/1.1; there is none, and no parser that front ends use takes it.
    Some(Refusal::new(505, "the HTTP version is not supported"))
}
