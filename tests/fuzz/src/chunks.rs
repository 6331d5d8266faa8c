//! A chunked body, against a second reader that is written from RFC 9112 section 7.1 as simply as possible.

#![no_main]

mod bodies;

use libfuzzer_sys::fuzz_target;
use oneloop_http1::{Framing, Limits};

const LIMITS: Limits =
    Limits { line_bytes: 300, head_bytes: 1000, headers: 20, body_bytes: 10_000 };

fn line(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = input.windows(2).position(|two| two == b"\r\n")?;
    Some((&input[..end], &input[end + 2..]))
}

/// The data of a body that is complete and without trailers and extensions; `None` for all others.
fn plain(mut input: &[u8]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let (size, rest) = line(input)?;
        if size.is_empty() || size.len() > 4 || !size.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let size = usize::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
        if size == 0 {
            return rest.starts_with(b"\r\n").then_some(data);
        }
        if data.len() + size > 10_000 {
            return None;
        }
        data.extend_from_slice(rest.get(..size)?);
        input = rest[size..].strip_prefix(b"\r\n")?;
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, input)) = data.split_first() else { return };
    let cut = usize::from(*cut) * input.len() / 255;
    let ours = bodies::check(Framing::Chunked, input, cut, &LIMITS);
    if let Some(theirs) = plain(input) {
        assert!(ours.is_complete && ours.data == theirs, "{ours:?}");
    }
});
