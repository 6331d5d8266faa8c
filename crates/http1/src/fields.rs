//! `Fields`: the header fields that matter for framing and for the connection, collected in one pass.

use crate::characters::{is_name, is_token, is_token_byte, is_value, trim};
use crate::head::{Framing, Version};
use crate::refusal::Refusal;

/// The significant fields of a head, filled by `add`.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools)] // independent values of independent fields, not states
pub struct Fields<'a> {
    pub host: Option<&'a [u8]>,
    pub upgrade: Option<&'a [u8]>,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
    pub closes: bool,
    pub keeps_alive: bool,
    pub upgrades: bool,
    content_length: Option<u64>,
    codings: Codings,
}

/// The codings in all `Transfer-Encoding` fields together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Codings {
    #[default]
    None,
    /// Only `chunked`.
    Chunked,
    /// Others, then `chunked`.
    OthersThenChunked,
    /// The last coding is not `chunked`, so the end cannot be found.
    Endless,
}

impl<'a> Fields<'a> {
    /// Adds a field of a request or a response.
    #[inline]
    pub fn add(&mut self, name: &str, value: &'a [u8]) -> Result<(), Refusal> {
        // Most fields cost one comparison of a length.
        match name.len() {
            4 if is_name(name.as_bytes(), *b"host") => return self.add_host(value),
            6 if is_name(name.as_bytes(), *b"expect") => return self.add_expectation(value),
            7 if is_name(name.as_bytes(), *b"upgrade") => {
                self.upgrade.get_or_insert(value);
            }
            10 if is_name(name.as_bytes(), *b"connection") => self.add_connection(value),
            14 if is_name(name.as_bytes(), *b"content-length") => {
                // RFC 9112 section 6.3: a list of equal values may be read as one of them. It is refused, because
                // other recipients on the way might read it differently.
                if self.content_length.is_some() {
                    return Err(Refusal::bad("more than one Content-Length"));
                }
                self.content_length = Some(content_length(value)?);
            }
            17 if is_name(name.as_bytes(), *b"transfer-encoding") => {
                return self.add_codings(value);
            }
            _ => {}
        }
        Ok(())
    }

    /// RFC 9112 section 3.2: more than one is answered with 400.
    #[inline]
    fn add_host(&mut self, value: &'a [u8]) -> Result<(), Refusal> {
        match self.host.replace(value) {
            Some(_) => Err(Refusal::bad("more than one Host")),
            None => Ok(()),
        }
    }

    /// RFC 9110 section 7.6.1: connection options are case-insensitive tokens, possibly in several fields.
    #[inline]
    fn add_connection(&mut self, value: &[u8]) {
        if is_name(value, *b"keep-alive") {
            self.keeps_alive = true;
            return;
        }
        for option in value.split(|byte| *byte == b',') {
            let option = trim(option);
            self.closes |= is_name(option, *b"close");
            self.keeps_alive |= is_name(option, *b"keep-alive");
            self.upgrades |= is_name(option, *b"upgrade");
        }
    }

    /// RFC 9110 section 10.1.1: the only defined expectation; others may be answered with 417.
    fn add_expectation(&mut self, value: &[u8]) -> Result<(), Refusal> {
        for expectation in value.split(|byte| *byte == b',') {
            if !trim(expectation).eq_ignore_ascii_case(b"100-continue") {
                return Err(Refusal::new(417, "the only supported expectation is 100-continue"));
            }
        }
        self.expects_continue = true;
        Ok(())
    }

    fn add_codings(&mut self, value: &[u8]) -> Result<(), Refusal> {
        for coding in value.split(|byte| *byte == b',') {
            self.codings = add_coding(self.codings, trim(coding))?;
        }
        Ok(())
    }

    /// RFC 9112 section 6.3, for requests.
    #[inline]
    pub fn request_framing(&self, version: Version) -> Result<Framing, Refusal> {
        if self.codings == Codings::None {
            return Ok(self.content_length.map_or(Framing::None, Framing::Length));
        }
        self.check_codings(version)?;
        match self.codings {
            Codings::Chunked => Ok(Framing::Chunked),
            // Section 6.1: an unknown coding is answered with 501.
            Codings::OthersThenChunked => {
                Err(Refusal::new(501, "a transfer coding is not supported"))
            }
            // Section 6.3: 400 if chunked is not the last coding of a request.
            Codings::Endless | Codings::None => {
                Err(Refusal::bad("chunked is not the last transfer coding"))
            }
        }
    }

    /// RFC 9112 section 6.3, for responses that may have a body.
    pub fn response_framing(&self, version: Version) -> Result<Framing, Refusal> {
        if self.codings == Codings::None {
            return Ok(self.content_length.map_or(Framing::UntilClose, Framing::Length));
        }
        self.check_codings(version)?;
        match self.codings {
            Codings::Chunked | Codings::OthersThenChunked => Ok(Framing::Chunked),
            Codings::Endless | Codings::None => Ok(Framing::UntilClose),
        }
    }

    fn check_codings(&self, version: Version) -> Result<(), Refusal> {
        // Section 6.1: the framing of such a message is faulty.
        if version == Version::Http10 {
            return Err(Refusal::bad("Transfer-Encoding is not allowed in HTTP/1.0"));
        }
        // Section 6.1: a server may refuse a message with both, which ought to be handled as an error.
        if self.content_length.is_some() {
            return Err(Refusal::bad("Content-Length and Transfer-Encoding exclude each other"));
        }
        Ok(())
    }

    /// RFC 9112 section 9.3.
    #[inline]
    pub fn is_persistent(&self, version: Version) -> bool {
        !self.closes && (version == Version::Http11 || self.keeps_alive)
    }
}

/// Content-Length = 1*DIGIT (RFC 9110 section 8.6): no sign, list or space; an overflow is invalid.
#[inline]
pub fn content_length(value: &[u8]) -> Result<u64, Refusal> {
    if value.is_empty() {
        return Err(Refusal::bad("Content-Length is empty"));
    }
    let mut len: u64 = 0;
    for &byte in value {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Refusal::bad("Content-Length is not a number"));
        }
        len = len
            .checked_mul(10)
            .and_then(|len| len.checked_add(u64::from(digit)))
            .ok_or(Refusal::bad("Content-Length is too large"))?;
    }
    Ok(len)
}

fn add_coding(before: Codings, coding: &[u8]) -> Result<Codings, Refusal> {
    if coding.eq_ignore_ascii_case(b"chunked") {
        return match before {
            Codings::None => Ok(Codings::Chunked),
            Codings::Endless => Ok(Codings::OthersThenChunked),
            // RFC 9112 section 6.1: chunked is never applied more than once.
            Codings::Chunked | Codings::OthersThenChunked => {
                Err(Refusal::bad("chunked is applied more than once"))
            }
        };
    }
    let name = coding.iter().take_while(|byte| is_token_byte(**byte)).count();
    let parameters = &coding[name..];
    if name == 0 || !(parameters.is_empty() || matches!(trim(parameters).first(), Some(b';'))) {
        return Err(Refusal::bad("Transfer-Encoding is malformed"));
    }
    // RFC 9112 section 7.1: chunked must not have parameters.
    if coding[..name].eq_ignore_ascii_case(b"chunked") {
        return Err(Refusal::bad("chunked must not have parameters"));
    }
    match before {
        Codings::None | Codings::Endless => Ok(Codings::Endless),
        Codings::Chunked | Codings::OthersThenChunked => {
            Err(Refusal::bad("chunked is not the last transfer coding"))
        }
    }
}

/// A field line without its CRLF, parsed outside of a head: a trailer (RFC 9112 section 5).
pub fn parse_field_line(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    // A line that starts with white space continues the previous one (obs-fold, section 5.2); names never start with
    // it.
    let colon = memchr::memchr(b':', line).ok_or(Refusal::bad("a field line has no colon"))?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    if !is_token(name) {
        return Err(Refusal::bad("a field name is malformed"));
    }
    if !is_value(value) {
        return Err(Refusal::bad("a field value is malformed"));
    }
    Ok((name, value))
}
