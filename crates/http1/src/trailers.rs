//! `Trailers`: the fields after the last chunk (RFC 9112 section 7.1.2), checked as strictly as those of a head.

use crate::fields::parse_field_line;
use crate::limits::Limits;
use crate::refusal::Refusal;

/// Name and value of a trailer field.
pub type TrailerField = (Vec<u8>, Vec<u8>);

/// Framing fields: a trailer must not change the framing of a message that was already read.
const FRAMING: [&[u8]; 3] = [b"content-length", b"host", b"transfer-encoding"];

/// Fields without meaning after the body (RFC 9110 section 6.5.1): routing, modifiers, authentication, content
/// processing. They are dropped.
const HEAD_ONLY: [&[u8]; 22] = [
    b"authorization",
    b"cache-control",
    b"connection",
    b"content-encoding",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"keep-alive",
    b"max-forwards",
    b"proxy-authorization",
    b"proxy-connection",
    b"range",
    b"set-cookie",
    b"te",
    b"trailer",
    b"upgrade",
];

#[derive(Debug, Default)]
pub struct Trailers {
    pub fields: Vec<TrailerField>,
    /// The current, incomplete line.
    line: Vec<u8>,
    /// Bytes and lines so far.
    len_bytes: usize,
    lines: usize,
}

impl Trailers {
    /// Takes the start of `input`, at most one line. Returns how many bytes, and whether the section ends with them.
    pub fn take(&mut self, input: &[u8], limits: &Limits) -> Result<(usize, bool), Refusal> {
        let end = memchr::memchr(b'\n', input);
        let taken = end.map_or(input.len(), |end| end + 1);
        self.len_bytes += taken;
        if self.len_bytes > limits.head_bytes {
            return Err(Refusal::new(431, "the trailers are too long"));
        }
        self.line.extend_from_slice(&input[..taken]);
        if end.is_none() {
            return Ok((taken, false));
        }
        let line =
            self.line.strip_suffix(b"\r\n").ok_or(Refusal::bad("a line ends in a bare LF"))?;
        if line.is_empty() {
            return Ok((taken, true));
        }
        self.lines += 1;
        if self.lines > limits.headers {
            return Err(Refusal::new(431, "too many trailers"));
        }
        let (name, value) = parse_field_line(line)?;
        if is_one_of(name, &FRAMING) {
            return Err(Refusal::bad("a trailer changes the framing"));
        }
        if !is_one_of(name, &HEAD_ONLY) {
            self.fields.push((name.to_vec(), value.to_vec()));
        }
        self.line.clear();
        Ok((taken, false))
    }
}

fn is_one_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}
