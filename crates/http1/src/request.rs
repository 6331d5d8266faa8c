//! `Request`: the head of a request, borrowed from the input.

use crate::head::{Framing, Header, Version};
use crate::limits::Limits;
use crate::refusal::Refusal;
use std::mem::MaybeUninit;

/// The form of the request target (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    Origin,
    /// With what stands before the path: the authority.
    Absolute {
        authority: &'a [u8],
    },
    /// `*`, of OPTIONS alone.
    Asterisk,
}

#[derive(Debug)]
pub struct Request<'a, 'h> {
    pub method: &'a str,
    /// The path as it was sent, percent-encoded; `*` for the asterisk form; never empty.
    pub path: &'a [u8],
    /// What follows the `?`, as it was sent.
    pub query: &'a [u8],
    pub target: Target<'a>,
    pub version: Version,
    pub headers: &'h [Header<'a>],
    pub framing: Framing,
    /// Whether the connection may serve another request after this one.
    pub keeps_alive: bool,
    /// `Expect: 100-continue`, of a request with a body by HTTP/1.1.
    pub expects_continue: bool,
    /// `Connection: upgrade` and an `Upgrade` field; its value.
    pub upgrade: Option<&'a [u8]>,
    /// Bytes of the head.
    pub len: usize,
}

/// Reads the head of a request from the start of `input`; `None` while it is not complete.
///
/// `fields` is room for the header fields; more of them are refused.
pub fn parse_request<'a, 'h>(
    input: &'a [u8],
    fields: &'h mut [MaybeUninit<Header<'a>>],
    limits: &Limits,
) -> Result<Option<Request<'a, 'h>>, Refusal> {
    let mut parsed = httparse::Request::new(&mut []);
    let room = fields.len().min(limits.headers);
    let len = match parsed.parse_with_uninit_headers(input, &mut fields[..room]) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Refusal::bad("bad head")),
    };
    let target = parsed.path.ok_or(Refusal::bad("no target"))?.as_bytes();
    let (path, query) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &target[target.len()..]),
    };
    let version = if parsed.version == Some(1) { Version::Http11 } else { Version::Http10 };
    let mut framing = Framing::None;
    let mut keeps_alive = version == Version::Http11;
    for field in parsed.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(field.value).ok().and_then(|text| text.parse().ok());
            framing = Framing::Length(text.ok_or(Refusal::bad("bad Content-Length"))?);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked;
        } else if field.name.eq_ignore_ascii_case("connection") {
            keeps_alive = !field.value.eq_ignore_ascii_case(b"close");
        }
    }
    Ok(Some(Request {
        method: parsed.method.ok_or(Refusal::bad("no method"))?,
        path,
        query,
        target: Target::Origin,
        version,
        headers: parsed.headers,
        framing,
        keeps_alive,
        expects_continue: false,
        upgrade: None,
        len,
    }))
}
