//! The request line: its limit, line ends of whole heads, and the reason of a refusal. Not on the fast path.

use crate::characters::{is_token_byte, is_visible};
use crate::refusal::Refusal;
use httparse::Error;

/// The start of the line, after empty lines, which a server may skip (RFC 9112 section 2.2).
pub fn line_start(input: &[u8]) -> usize {
    input.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(input.len())
}

/// Whether the input before the line consists of complete empty lines. A bare LF is not one.
pub fn are_empty_lines(input: &[u8]) -> bool {
    input.len().is_multiple_of(2) && input.chunks_exact(2).all(|line| line == b"\r\n")
}

/// Whether the line is longer than `limit_bytes`, detected as early as possible. Its CR does not count.
pub fn is_above(line: &[u8], limit_bytes: usize) -> bool {
    match memchr::memchr(b'\n', line) {
        Some(end) => end - usize::from(line[..end].ends_with(b"\r")) > limit_bytes,
        None => line.len() - usize::from(line.ends_with(b"\r")) > limit_bytes,
    }
}

/// The refusal for `error`; `None` if more input can change the answer. `input` was parsed so far.
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

/// Finds the error of an invalid line: a method, a space, a target, a space, a version.
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
        // A line without a target or without a version, as in HTTP/0.9, is malformed like any other: RFC 9112 section 3.
        // A version that is not supported (505) would have to be named.
        [b'\r'] if target > 0 => None,
        [b'\r', b'\n', ..] if rest.starts_with(b"HTTP/") => {
            Some(Refusal::bad("the target is missing"))
        }
        [b'\r', b'\n', ..] if target > 0 => Some(Refusal::bad("the version is missing")),
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
    // RFC 9110 section 15.6.6. The preface of HTTP/2, "PRI * HTTP/2.0", is refused here too. Section 2.5 would allow
    // reading HTTP/1.2 as HTTP/1.1, but it does not exist, and no parser in front-end servers accepts it.
    Some(Refusal::new(505, "the HTTP version is not supported"))
}
