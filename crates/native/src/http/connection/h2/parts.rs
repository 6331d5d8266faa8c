//! The parts of a response, written by any thread, sent by the loop's: `Framed::out` has a list of them, so that parts
//! can be put together.
//!
//! ```text
//! part    1 byte of what it is, 4 bytes of its length, its bytes
//! ```
//! The bytes of the last part may be beside it.

/// The fields of the response, in lines.
pub const HEAD: u8 = 1;
/// A part of the body.
pub const DATA: u8 = 2;
/// The response ends with this part.
pub const END: u8 = 4;

const LEAD_BYTES: usize = 5;

/// Writes the start of a part.
pub fn begin(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.push(kind);
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_ne_bytes());
}

pub struct Part<'a> {
    pub is_head: bool,
    pub ends: bool,
    /// `None`: they are beside it.
    pub bytes: Option<&'a [u8]>,
}

/// Takes the next part.
pub fn next<'a>(list: &mut &'a [u8]) -> Option<Part<'a>> {
    let (lead, rest) = list.split_at_checked(LEAD_BYTES)?;
    let len = u32::from_ne_bytes([lead[1], lead[2], lead[3], lead[4]]) as usize;
    let (bytes, rest) = match rest.split_at_checked(len) {
        Some((bytes, rest)) => (Some(bytes), rest),
        None => (None, &rest[rest.len()..]),
    };
    *list = rest;
    Some(Part { is_head: lead[0] & HEAD != 0, ends: lead[0] & END != 0, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let mut out = Vec::new();
        begin(&mut out, HEAD, 3);
        out.extend_from_slice(b"a:b");
        begin(&mut out, DATA, 0);
        begin(&mut out, DATA | END, 2);
        let mut list = &out[..];
        let mut seen = Vec::new();
        while let Some(part) = next(&mut list) {
            seen.push((part.is_head, part.ends, part.bytes.map(<[u8]>::to_vec)));
        }
        let whole = [(true, false, Some(b"a:b".to_vec())), (false, false, Some(Vec::new()))];
        assert_eq!(seen[..2], whole);
        assert_eq!(seen[2], (false, true, None));
    }
}
