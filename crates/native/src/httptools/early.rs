//! Parses heads before they are complete: httptools reports each line when the next one begins, and rejects an
//! impossible message at its first wrong word.

use super::failure::{Failure, Kind};
use super::head::Side;
use oneloop_http1::Refusal;

/// The methods that llhttp knows, and HTTP/2's preface; httptools rejects others.
const METHODS: [&[u8]; 36] = [
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"PATCH",
    b"CONNECT",
    b"TRACE",
    b"ACL",
    b"BIND",
    b"CHECKOUT",
    b"COPY",
    b"LINK",
    b"LOCK",
    b"M-SEARCH",
    b"MERGE",
    b"MKACTIVITY",
    b"MKCALENDAR",
    b"MKCOL",
    b"MOVE",
    b"NOTIFY",
    b"PROPFIND",
    b"PROPPATCH",
    b"PURGE",
    b"QUERY",
    b"REBIND",
    b"REPORT",
    b"SEARCH",
    b"SOURCE",
    b"SUBSCRIBE",
    b"UNBIND",
    b"UNLINK",
    b"UNLOCK",
    b"UNSUBSCRIBE",
    b"PRI",
];

#[inline]
pub fn is_known_method(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"POST") || METHODS.contains(&method)
}

/// The first line, as far as it was received.
pub struct FirstLine<'a> {
    /// The method; `None` for a response.
    pub method: Option<&'a [u8]>,
    /// The target or the reason, if complete.
    pub text: Option<&'a [u8]>,
    /// The start of the next line.
    pub end: Option<usize>,
}

/// Parses the first line of `input`, which has no empty lines before it.
pub fn look(side: Side, input: &[u8]) -> Result<FirstLine<'_>, Failure> {
    let end = memchr::memchr(b'\n', input).map(|at| at + 1);
    let line = end.map_or(input, |end| input[..end].strip_suffix(b"\r\n").unwrap_or(&input[..end]));
    let is_whole = end.is_some();
    match side {
        Side::Request => {
            look_at_request(line, is_whole).map(|(method, text)| FirstLine { method, text, end })
        }
        Side::Response => {
            look_at_response(line, is_whole).map(|text| FirstLine { method: None, text, end })
        }
    }
}

type Words<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

fn look_at_request(line: &[u8], is_whole: bool) -> Result<Words<'_>, Failure> {
    let end = memchr::memchr(b' ', line);
    let method = &line[..end.unwrap_or(line.len())];
    let is_possible = if end.is_some() || is_whole {
        is_known_method(method)
    } else {
        METHODS.iter().any(|known| known.starts_with(method))
    };
    if !is_possible {
        return Err(Failure::refused(Kind::Method, "Invalid method encountered"));
    }
    let Some(end) = end else { return Ok((None, None)) };
    let rest = &line[end + 1..];
    let target_end = memchr::memchr(b' ', rest);
    let target = &rest[..target_end.unwrap_or(rest.len())];
    if !can_be_target(method, target, target_end.is_some() || is_whole) {
        return Err(Failure::refused(Kind::Url, "Unexpected start char in url"));
    }
    Ok((Some(method), target_end.map(|_| target)))
}

/// Whether a target, or the start of one, has a form allowed in requests.
fn can_be_target(method: &[u8], target: &[u8], is_whole: bool) -> bool {
    if !target.iter().all(|byte| *byte > b' ' && *byte != 0x7f) {
        return false;
    }
    let is_absolute = [&b"http://"[..], b"https://"].iter().any(|scheme| {
        let len = if is_whole { scheme.len() } else { scheme.len().min(target.len()) };
        target.get(..len).is_some_and(|start| start.eq_ignore_ascii_case(&scheme[..len]))
    });
    match target.first() {
        None => !is_whole,
        Some(b'/' | b'*') => true,
        Some(_) => method == b"CONNECT" || is_absolute,
    }
}

/// HTTP/1.1 200 OK
fn look_at_response(line: &[u8], is_whole: bool) -> Result<Option<&[u8]>, Failure> {
    let form = b"HTTP/1.1 ";
    let fits = |(byte, form): (&u8, &u8)| byte == form || (*form == b'1' && *byte == b'0');
    if !line.iter().zip(form).all(fits) || (is_whole && line.len() < form.len()) {
        return Err(Failure::refused(
            Kind::Error,
            "Expected HTTP/ and a version that is supported",
        ));
    }
    let rest = line.get(form.len()..).unwrap_or_default();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_good = match rest.get(digits) {
        Some(byte) => digits == 3 && matches!(byte, b' ' | b'\r') && rest[0] != b'0',
        None => digits < 4 && (!is_whole || digits == 3) && rest.first() != Some(&b'0'),
    };
    if !is_good {
        return Err(Failure::refused(Kind::Status, "Invalid status code"));
    }
    Ok(is_whole.then(|| rest.get(4..).unwrap_or_default()))
}

/// The httptools exception for a head that the parser has refused: the error in its first line, or the refusal's
/// reason.
#[cold]
pub fn explain(side: Side, input: &[u8], refusal: Refusal) -> Failure {
    let start = input.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(input.len());
    if let Err(failure) = look(side, &input[start..]) {
        return failure;
    }
    let is_folded =
        |window: &[u8]| window.starts_with(b"\r\n") && matches!(window[2], b' ' | b'\t');
    if input.windows(3).any(is_folded) {
        return Failure::refused(Kind::Error, "Unexpected whitespace after header value");
    }
    refusal.into()
}

/// The length of the head at the start of `input`, and the head with folded lines joined (obs-fold, RFC 9112 section
/// 5.2); `None` while it is incomplete.
pub fn unfold(input: &[u8]) -> Option<(usize, Vec<u8>)> {
    let len = input.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let mut unfolded = Vec::with_capacity(len);
    let mut at = 0;
    while at < len {
        if matches!(input[at..len], [b'\r', b'\n', b' ' | b'\t', ..]) {
            at += 2;
        } else {
            unfolded.push(input[at]);
            at += 1;
        }
    }
    Some((len, unfolded))
}
