//! Writing responses: checked heads, and the framing of chunks.

use crate::characters::{is_token, is_value};
use crate::head::Version;
use crate::response::reasons::reason_phrase;

/// The part of a head that cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The status does not have three digits.
    Status,
    /// The reason contains a line end or another control character.
    Reason,
    /// The field's name is not a token (RFC 9110 section 5.1).
    Name,
    /// The field's value contains CR, LF or NUL (RFC 9110 section 5.5).
    Value,
}

/// A head that cannot be sent: the invalid part, and the name of the field as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritable {
    pub blame: Blame,
    pub field: Vec<u8>,
}

/// Appends a whole head: status line, fields, the empty line. `reason`: `None` for the usual phrase.
///
/// Nothing is appended if it fails.
pub fn write_head<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    version: Version,
    status: u16,
    reason: Option<&[u8]>,
    headers: impl IntoIterator<Item = (N, V)>,
) -> Result<(), Unwritable> {
    let start = out.len();
    let written = write_status_line(out, version, status, reason).and_then(|()| {
        headers
            .into_iter()
            .try_for_each(|(name, value)| write_field(out, name.as_ref(), value.as_ref()))
    });
    match written {
        Ok(()) => out.extend_from_slice(b"\r\n"),
        Err(_) => out.truncate(start),
    }
    written
}

/// Appends the status line. A client only uses the version to decide what it may send next (RFC 9110 section 2.5).
#[inline]
pub fn write_status_line(
    out: &mut Vec<u8>,
    version: Version,
    status: u16,
    reason: Option<&[u8]>,
) -> Result<(), Unwritable> {
    if !(100..=999).contains(&status) {
        return Err(Unwritable { blame: Blame::Status, field: Vec::new() });
    }
    let reason = reason.unwrap_or_else(|| reason_phrase(status).as_bytes());
    if !is_value(reason) {
        return Err(Unwritable { blame: Blame::Reason, field: Vec::new() });
    }
    out.extend_from_slice(match version {
        Version::Http10 => b"HTTP/1.0 ",
        // HTTP/2 has no such line.
        Version::Http11 | Version::Http2 => b"HTTP/1.1 ",
    });
    let digit = |number: u16| b'0' + (number % 10) as u8;
    out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status), b' ']);
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends a field line.
#[inline]
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), Unwritable> {
    if !is_token(name) {
        return Err(unwritable(Blame::Name, name));
    }
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        return Err(unwritable(Blame::Value, name));
    }
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

#[cold]
fn unwritable(blame: Blame, name: &[u8]) -> Unwritable {
    Unwritable { blame, field: name.to_vec() }
}

/// Appends the line before a chunk; its bytes and a CRLF must follow. `len` must not be 0, which would end the body.
pub fn write_chunk_head(out: &mut Vec<u8>, len: usize) {
    debug_assert!(len > 0, "an empty chunk ends the body");
    let mut line = [0; 18];
    line[16..].copy_from_slice(b"\r\n");
    let mut at = 16;
    let mut rest = len;
    while rest > 0 {
        at -= 1;
        line[at] = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
    }
    out.extend_from_slice(&line[at..]);
}

/// Appends the last chunk, trailers and the empty line. Nothing is appended if it fails.
pub fn write_last_chunk<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    trailers: impl IntoIterator<Item = (N, V)>,
) -> Result<(), Unwritable> {
    let start = out.len();
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        if let Err(error) = write_field(out, name.as_ref(), value.as_ref()) {
            out.truncate(start);
            return Err(error);
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Blame, Unwritable, write_chunk_head, write_field, write_head, write_last_chunk};
    use crate::head::Version;

    const NONE: [(&str, &str); 0] = [];

    #[test]
    fn a_head() {
        let mut out = b"before".to_vec();
        write_head(&mut out, Version::Http11, 200, None, [("a", "b"), ("c", "")])
            .expect("a good head");
        assert_eq!(out, b"beforeHTTP/1.1 200 OK\r\na: b\r\nc: \r\n\r\n");
        out.clear();
        write_head(&mut out, Version::Http10, 799, Some(b"Own"), NONE).expect("a good head");
        assert_eq!(out, b"HTTP/1.0 799 Own\r\n\r\n");
        out.clear();
        // The space stays if there is no reason (RFC 9112 section 4).
        write_head(&mut out, Version::Http11, 799, None, NONE).expect("a good head");
        assert_eq!(out, b"HTTP/1.1 799 \r\n\r\n");
    }

    #[test]
    fn nothing_is_injected() {
        for (name, value, blame) in [
            ("", "v", Blame::Name),
            ("a b", "v", Blame::Name),
            ("a:", "v", Blame::Name),
            ("a\r\nb", "v", Blame::Name),
            ("\u{e4}", "v", Blame::Name),
            ("a", "v\r\nb: c", Blame::Value),
            ("a", "v\n", Blame::Value),
            ("a", "\rv", Blame::Value),
            ("a", "v\0", Blame::Value),
        ] {
            let mut out = b"before".to_vec();
            let error = Err(Unwritable { blame, field: name.as_bytes().to_vec() });
            assert_eq!(
                write_head(&mut out, Version::Http11, 200, None, [("x", "y"), (name, value)]),
                error
            );
            assert_eq!(out, b"before");
            assert_eq!(write_last_chunk(&mut out, [(name, value)]), error);
            assert_eq!(out, b"before");
        }
        let mut out = Vec::new();
        for (status, reason, blame) in [
            (99, None, Blame::Status),
            (1000, None, Blame::Status),
            (200, Some(b"a\r\nb: c"), Blame::Reason),
        ] {
            let error =
                write_head(&mut out, Version::Http11, status, reason.map(|text| &text[..]), NONE);
            assert_eq!(error, Err(Unwritable { blame, field: Vec::new() }));
            assert!(out.is_empty());
        }
        write_field(&mut out, b"a", "v\u{e4}\t ".as_bytes()).expect("a good field");
    }

    #[test]
    fn chunks() {
        for (len, line) in [(1, "1\r\n"), (15, "f\r\n"), (16, "10\r\n"), (0xABCD, "abcd\r\n")] {
            let mut out = Vec::new();
            write_chunk_head(&mut out, len);
            assert_eq!(out, line.as_bytes());
        }
        let mut out = Vec::new();
        write_chunk_head(&mut out, usize::MAX);
        assert_eq!(out, b"ffffffffffffffff\r\n");
        out.clear();
        write_last_chunk(&mut out, [("a", "b")]).expect("good trailers");
        assert_eq!(out, b"0\r\na: b\r\n\r\n");
    }
}
