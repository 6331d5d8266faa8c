//! `Response`: the head of a response, borrowed from the input.

use crate::head::{Framing, Header, Version};
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::request::read_fields;
use crate::request_line::{are_empty_lines, is_above, line_start};
use std::mem::MaybeUninit;

/// The method of the request: it decides whether a body follows (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    Head,
    Connect,
    #[default]
    Other,
}

#[derive(Debug)]
pub struct Response<'a, 'h> {
    pub version: Version,
    pub status: u16,
    /// As it was sent; empty if it has bytes outside of ASCII.
    pub reason: &'a str,
    pub headers: &'h [Header<'a>],
    pub framing: Framing,
    /// Whether the connection may carry another response after this one. False if the body ends with the connection.
    pub keeps_alive: bool,
    /// The data after the head is not HTTP: after 101, and after a 2xx to CONNECT.
    pub is_tunnel: bool,
    /// The value of the `Upgrade` field, if `Connection: upgrade` is present.
    pub upgrade: Option<&'a [u8]>,
    /// The length of the head in bytes.
    pub len: usize,
}

const LONG_LINE: Refusal = Refusal::new(431, "the status line is too long");

/// Parses the head of a response at the start of `input`; `None` while it is incomplete.
///
/// `fields` is space for the header fields. A refusal has the status for a request; there is none to send here.
pub fn parse_response<'a, 'h>(
    input: &'a [u8],
    fields: &'h mut [MaybeUninit<Header<'a>>],
    asked: Asked,
    limits: &Limits,
) -> Result<Option<Response<'a, 'h>>, Refusal> {
    let window = &input[..input.len().min(limits.head_bytes)];
    let room = fields.len().min(limits.headers);
    let mut parsed = httparse::Response::new(&mut []);
    let outcome = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut parsed,
        window,
        &mut fields[..room],
    );
    match outcome {
        Ok(httparse::Status::Complete(len)) => {
            let version = if parsed.version == Some(1) { Version::Http11 } else { Version::Http10 };
            let status = parsed.code.unwrap_or_default();
            let reason = parsed.reason.unwrap_or_default();
            read_head(&window[..len], (version, status, reason), parsed.headers, asked, limits)
                .map(Some)
        }
        Ok(httparse::Status::Partial) => {
            if is_above(&window[line_start(window)..], limits.line_bytes) {
                return Err(LONG_LINE);
            }
            if input.len() > limits.head_bytes {
                return Err(Refusal::new(431, "the head is too long"));
            }
            Ok(None)
        }
        Err(httparse::Error::TooManyHeaders) => Err(Refusal::new(431, "too many header fields")),
        Err(httparse::Error::Version) => {
            Err(Refusal::bad("the version is malformed or not supported"))
        }
        Err(httparse::Error::Status | httparse::Error::Token) => {
            Err(Refusal::bad("the status line is malformed"))
        }
        Err(_) => Err(Refusal::bad("a header field is malformed")),
    }
}

fn read_head<'a, 'h>(
    head: &'a [u8],
    (version, status, reason): (Version, u16, &'a str),
    headers: &'h [Header<'a>],
    asked: Asked,
    limits: &Limits,
) -> Result<Response<'a, 'h>, Refusal> {
    let start = line_start(head);
    if !are_empty_lines(&head[..start]) {
        return Err(Refusal::bad("a line ends in a bare LF"));
    }
    if is_above(&head[start..], limits.line_bytes) {
        return Err(LONG_LINE);
    }
    // RFC 9110 section 15: valid codes are 100 to 599; those above are read as 5xx.
    if status < 100 {
        return Err(Refusal::bad("the status is below 100"));
    }
    let fields = read_fields(head, headers)?;
    let is_tunnel = status == 101 || (asked == Asked::Connect && (200..300).contains(&status));
    // RFC 9112 section 6.3, rules 1 and 2.
    let has_no_body = is_tunnel || asked == Asked::Head || matches!(status, 100..=199 | 204 | 304);
    // The framing fields are checked in any case, to refuse contradictory ones.
    let announced = fields.response_framing(version)?;
    let framing = if has_no_body { Framing::None } else { announced };
    Ok(Response {
        version,
        status,
        reason,
        headers,
        framing,
        keeps_alive: fields.is_persistent(version) && framing != Framing::UntilClose,
        is_tunnel,
        upgrade: if fields.upgrades { fields.upgrade } else { None },
        len: head.len(),
    })
}

#[cfg(test)]
mod tests;
