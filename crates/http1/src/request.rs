//! `Request`: the head of a request, borrowed from the input.
//!
//! httparse finds the lines and rejects invalid characters. This file checks what httparse accepts: bare LF, the
//! combination of fields, forms of targets, limits. An invalid head is refused at the same byte, however the input is
//! split: limits apply to prefixes, and all other checks wait for the whole head.

use crate::authority::is_host;
use crate::fields::Fields;
use crate::head::{Framing, Header, Version};
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::request_line::{are_empty_lines, explain, is_above, line_start};
use crate::target::{Parts, split_target};
use std::mem::MaybeUninit;

pub use crate::target::Target;

/// Longer than any registered method. RFC 9112 section 3 has a 501 for methods longer than those that a server
/// implements; here the application implements them, and what is longer is malformed, as it is for httptools.
const LONGEST_METHOD_BYTES: usize = 32;

/// RFC 9112 section 2.2: at least one empty line before the request line is skipped. A few more are, but not any
/// number.
const EMPTY_LINES_BYTES: usize = 16;
const TOO_MANY_EMPTY_LINES: Refusal = Refusal::bad("too many empty lines before the request");

#[derive(Debug)]
pub struct Request<'a, 'h> {
    pub method: &'a str,
    /// The path as it was sent, percent-encoded; `*` for the asterisk form; never empty.
    pub path: &'a [u8],
    /// The part after the `?`, as it was sent.
    pub query: &'a [u8],
    pub target: Target<'a>,
    /// The whole target as it was sent.
    pub target_text: &'a [u8],
    pub version: Version,
    pub headers: &'h [Header<'a>],
    pub framing: Framing,
    /// Whether the connection may serve another request after this one.
    pub keeps_alive: bool,
    /// `Expect: 100-continue`, for an HTTP/1.1 request with a body.
    pub expects_continue: bool,
    /// The value of the `Upgrade` field, if `Connection: upgrade` is present.
    pub upgrade: Option<&'a [u8]>,
    /// The length of the head in bytes.
    pub len: usize,
}

impl<'a> Request<'a, '_> {
    /// The host that is asked for, and its port if that is named: RFC 9112 section 3.3.
    pub fn host(&self) -> Option<&'a [u8]> {
        match self.target {
            Target::Absolute { authority } | Target::Authority { authority } => Some(authority),
            Target::Origin | Target::Asterisk => self.host_field(),
        }
    }

    /// The host that the target names and no field does, as HTTP/1.0 allows. A field would have its value.
    pub fn unnamed_host(&self) -> Option<&'a [u8]> {
        let Target::Absolute { authority } = self.target else { return None };
        if self.host_field().is_some() { None } else { Some(authority) }
    }

    fn host_field(&self) -> Option<&'a [u8]> {
        let field = self.headers.iter().find(|field| field.name.eq_ignore_ascii_case("host"))?;
        Some(field.value)
    }
}

/// Parses the head of a request at the start of `input`; `None` while it is incomplete.
///
/// `fields` is space for the header fields; more of them are refused.
pub fn parse_request<'a, 'h>(
    input: &'a [u8],
    fields: &'h mut [MaybeUninit<Header<'a>>],
    limits: &Limits,
) -> Result<Option<Request<'a, 'h>>, Refusal> {
    // Bytes beyond the limit are not parsed, so that the answer does not depend on how much has arrived.
    let window = &input[..input.len().min(limits.head_bytes)];
    let mut parsed = httparse::Request::new(&mut []);
    let room = fields.len().min(limits.headers);
    match parsed.parse_with_uninit_headers(window, &mut fields[..room]) {
        Ok(httparse::Status::Complete(len)) => {
            // Both are present in a complete head.
            let method = parsed.method.unwrap_or_default();
            let target = parsed.path.unwrap_or_default();
            let version = if parsed.version == Some(1) { Version::Http11 } else { Version::Http10 };
            let request =
                read_head(&window[..len], (method, target, version), parsed.headers, limits)?;
            Ok(Some(request))
        }
        Ok(httparse::Status::Partial) => refuse_early(input, None, limits).map_or(Ok(None), Err),
        Err(error) => refuse_early(input, Some(error), limits).map_or(Ok(None), Err),
    }
}

/// Whether `parse_request` may return more for `input` than for its first `seen_bytes`: for heads that arrive in
/// small pieces, so that the cost of each does not grow with the previous ones.
///
/// A head ends with a line, and an error in a line is found when the line is complete or above a limit.
#[inline]
pub fn may_say_more(input: &[u8], seen_bytes: usize, limits: &Limits) -> bool {
    // From here on, a line without an end is too long, whatever empty lines come before it.
    let line_bytes = limits.line_bytes.saturating_add(EMPTY_LINES_BYTES + 2);
    seen_bytes == 0
        || input.len() > limits.head_bytes
        || (seen_bytes < line_bytes && input.len() >= line_bytes)
        || input.get(seen_bytes..).is_some_and(|new| memchr::memchr(b'\n', new).is_some())
}

/// Checks a head that httparse has found complete.
#[inline]
fn read_head<'a, 'h>(
    head: &'a [u8],
    (method, target, version): (&'a str, &'a str, Version),
    headers: &'h mut [Header<'a>],
    limits: &Limits,
) -> Result<Request<'a, 'h>, Refusal> {
    let offset = |text: &str| text.as_ptr().addr() - head.as_ptr().addr();
    let start = offset(method);
    if start > EMPTY_LINES_BYTES {
        return Err(TOO_MANY_EMPTY_LINES);
    }
    // The line without its CRLF: the target's end, a space and the version.
    if offset(target) + target.len() + " HTTP/1.1".len() - start > limits.line_bytes {
        return Err(Refusal::new(414, "the request line is too long"));
    }
    if start > 0 && !are_empty_lines(&head[..start]) {
        return Err(Refusal::bad(BARE_LF));
    }
    if method.len() > LONGEST_METHOD_BYTES {
        return Err(Refusal::bad("the method is too long"));
    }
    let fields = read_fields(head, headers)?;
    let target_text = target.as_bytes();
    let Parts { target, path, query } = split_target(method, target_text)?;
    check_host(fields.host, version, target)?;
    if let Target::Absolute { authority } = target {
        replace_host(headers, authority);
    }
    let framing = fields.request_framing(version)?;
    let is_current = version == Version::Http11;
    Ok(Request {
        method,
        path,
        query,
        target,
        target_text,
        version,
        headers,
        framing,
        keeps_alive: fields.is_persistent(version),
        // RFC 9110 section 10.1.1: an expectation in HTTP/1.0 is ignored, and none is answered if there is no body.
        expects_continue: fields.expects_continue
            && is_current
            && !matches!(framing, Framing::None | Framing::Length(0)),
        // RFC 9110 section 7.8: an Upgrade in HTTP/1.0 is ignored.
        upgrade: if fields.upgrades && is_current { fields.upgrade } else { None },
        len: head.len(),
    })
}

const BARE_LF: &str = "a line ends in a bare LF";

/// Collects the significant fields of a complete head, and checks the end of every line.
///
/// RFC 9112 section 2.2 allows a recipient to accept a bare LF as a line end. Two parsers that differ in this see
/// different messages, so it is refused here.
#[inline]
pub fn read_fields<'a>(head: &'a [u8], headers: &[Header<'a>]) -> Result<Fields<'a>, Refusal> {
    let mut fields = Fields::default();
    if !head.ends_with(b"\r\n\r\n") {
        return Err(Refusal::bad(BARE_LF));
    }
    for header in headers {
        // A field's name comes directly after the previous line's end.
        let at = header.name.as_ptr().addr() - head.as_ptr().addr();
        if !head[..at].ends_with(b"\r\n") {
            return Err(Refusal::bad(BARE_LF));
        }
        fields.add(header.name, header.value)?;
    }
    Ok(fields)
}

/// RFC 9112 section 3.2: 400 for HTTP/1.1 without a Host, and for an invalid one.
#[inline]
fn check_host(host: Option<&[u8]>, version: Version, target: Target) -> Result<(), Refusal> {
    let Some(host) = host else {
        return if version == Version::Http11 {
            Err(Refusal::bad("Host is missing"))
        } else {
            Ok(())
        };
    };
    if !is_host(host) {
        return Err(Refusal::bad("Host is malformed"));
    }
    // Section 3.2.3: CONNECT has the Host of its target.
    if let Target::Authority { authority } = target
        && !authority.eq_ignore_ascii_case(host)
    {
        return Err(Refusal::bad("Host differs from the target's host"));
    }
    Ok(())
}

/// RFC 9112 section 3.2.2: an origin server ignores the Host of a request in absolute form and uses the target's. Code
/// that reads the field gets that, too.
#[cold]
fn replace_host<'a>(headers: &mut [Header<'a>], authority: &'a [u8]) {
    for header in headers.iter_mut().filter(|header| header.name.eq_ignore_ascii_case("host")) {
        header.value = authority;
    }
}

/// The error of an incomplete or malformed head; `None` if more of it has to arrive first.
#[cold]
fn refuse_early(input: &[u8], error: Option<httparse::Error>, limits: &Limits) -> Option<Refusal> {
    let window = &input[..input.len().min(limits.head_bytes)];
    let start = line_start(window);
    if start > EMPTY_LINES_BYTES {
        return Some(TOO_MANY_EMPTY_LINES);
    }
    if is_above(&window[start..], limits.line_bytes) {
        // If the bytes had arrived one by one, they would have been parsed up to here.
        let prefix = &window[..window.len().min(start + limits.line_bytes + 1)];
        let first = error.and_then(|_| error_of(prefix)).and_then(|error| explain(error, prefix));
        return Some(first.unwrap_or(Refusal::new(414, "the request line is too long")));
    }
    if let Some(refusal) = error.and_then(|error| explain(error, window)) {
        return Some(refusal);
    }
    (input.len() > limits.head_bytes).then_some(Refusal::new(431, "the head is too long"))
}

/// httparse's error for a prefix of the request line.
fn error_of(prefix: &[u8]) -> Option<httparse::Error> {
    httparse::Request::new(&mut []).parse(prefix).err()
}

#[cfg(test)]
mod tests;
