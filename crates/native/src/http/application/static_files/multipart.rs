//! The body of a response to several ranges: `multipart/byteranges`, RFC 9110 section 14.6.

use crate::http::exchange::reply::{FilePart, Piece};
use oneloop_engine::files::served::Opened;
use oneloop_http1::representation::Part;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The value of a `content-range` field.
pub fn content_range(part: Part, whole_bytes: u64) -> String {
    let last = part.first + part.len_bytes - 1;
    format!("bytes {}-{last}/{whole_bytes}", part.first)
}

/// A line that is in no file: the keys of a `RandomState` come from the system's random numbers.
pub fn boundary() -> String {
    let number = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", number(), number())
}

/// The parts, each with its type and its range before it.
pub fn body(opened: Opened, kind: &[u8], parts: &[Part], boundary: &str) -> FilePart {
    let whole_bytes = opened.status.len;
    let mut pieces = Vec::with_capacity(parts.len() + 1);
    let mut begin = "--";
    for part in parts {
        let mut text = format!("{begin}{boundary}\r\ncontent-type: ").into_bytes();
        text.extend_from_slice(kind);
        text.extend_from_slice(b"\r\ncontent-range: ");
        text.extend_from_slice(content_range(*part, whole_bytes).as_bytes());
        text.extend_from_slice(b"\r\n\r\n");
        pieces.push(Piece { text, first: part.first, len_bytes: part.len_bytes });
        begin = "\r\n--";
    }
    let end = format!("{begin}{boundary}--\r\n").into_bytes();
    pieces.push(Piece { text: end, first: 0, len_bytes: 0 });
    let len_bytes = pieces.iter().map(|piece| piece.text.len() as u64 + piece.len_bytes).sum();
    FilePart { opened, first: 0, len_bytes, pieces }
}
