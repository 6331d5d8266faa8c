//! `Target`: the forms of the request target, and its parts (RFC 9112 section 3.2).

use crate::authority::{is_authority, is_host_and_port};
use crate::refusal::Refusal;

/// The form of the request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    Origin,
    /// With the authority before the path.
    Absolute {
        authority: &'a [u8],
    },
    /// Only for CONNECT: a host and a port. The path is the same text.
    Authority {
        authority: &'a [u8],
    },
    /// `*`, only for OPTIONS.
    Asterisk,
}

/// A target split into its parts.
pub struct Parts<'a> {
    pub target: Target<'a>,
    pub path: &'a [u8],
    pub query: &'a [u8],
}

/// Splits a target. It has only visible characters and no space, as the parser of the line has checked.
#[inline]
pub fn split_target<'a>(method: &str, text: &'a [u8]) -> Result<Parts<'a>, Refusal> {
    // Other bytes have to be percent-encoded (RFC 3986 section 2.1).
    if !text.is_ascii() {
        return Err(Refusal::bad("the target has bytes outside of ASCII"));
    }
    if text.first() == Some(&b'/') && method != "CONNECT" {
        let (path, query) = split_query(text)?;
        return Ok(Parts { target: Target::Origin, path, query });
    }
    split_rare_target(method, text)
}

/// A fragment is never sent (RFC 9112 section 3.2: no form includes it).
#[inline]
fn split_query(text: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let Some(at) = memchr::memchr2(b'?', b'#', text) else {
        return Ok((text, &text[text.len()..]));
    };
    if text[at] == b'#' || memchr::memchr(b'#', &text[at..]).is_some() {
        return Err(Refusal::bad("the target has a fragment"));
    }
    Ok((&text[..at], &text[at + 1..]))
}

#[cold]
fn split_rare_target<'a>(method: &str, text: &'a [u8]) -> Result<Parts<'a>, Refusal> {
    if method == "CONNECT" {
        // Section 3.2.3: it uses this form only.
        return if is_host_and_port(text) {
            Ok(Parts { target: Target::Authority { authority: text }, path: text, query: b"" })
        } else {
            Err(Refusal::bad("CONNECT needs a host and a port"))
        };
    }
    if text == b"*" {
        // Section 3.2.4: only for OPTIONS.
        return if method == "OPTIONS" {
            Ok(Parts { target: Target::Asterisk, path: text, query: b"" })
        } else {
            Err(Refusal::bad("the target * is only allowed for OPTIONS"))
        };
    }
    let rest = after_scheme(text).ok_or(Refusal::bad("the target is neither a path nor a URL"))?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if !is_authority(authority) {
        return Err(Refusal::bad("the target's host is malformed"));
    }
    let (path, query) = split_query(rest)?;
    // RFC 9110 section 4.2.3: an empty path is the same as "/".
    let path = if path.is_empty() { b"/" } else { path };
    Ok(Parts { target: Target::Absolute { authority }, path, query })
}

fn after_scheme(text: &[u8]) -> Option<&[u8]> {
    let strip = |scheme: &[u8]| {
        let start = text.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
    };
    strip(b"http://").or_else(|| strip(b"https://"))
}
