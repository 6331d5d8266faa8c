//! Heads as lines `name: value`, and as the fields that nghttp2 takes.

use libnghttp2_sys as c;

/// Splits lines `name: value` for nghttp2, which copies them.
pub(crate) fn fields_of(lines: &[u8]) -> Vec<c::nghttp2_nv> {
    let mut fields = Vec::with_capacity(12);
    add_lines(&mut fields, lines);
    fields
}

pub(crate) fn field(name: &[u8], value: &[u8]) -> c::nghttp2_nv {
    c::nghttp2_nv {
        // nghttp2 reads them only.
        name: name.as_ptr().cast_mut(),
        value: value.as_ptr().cast_mut(),
        namelen: name.len(),
        valuelen: value.len(),
        flags: c::NGHTTP2_NV_FLAG_NONE as u8,
    }
}

pub(crate) fn add_lines(fields: &mut Vec<c::nghttp2_nv>, lines: &[u8]) {
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r\n").unwrap_or(line);
        if let Some(at) = line.iter().skip(1).position(|byte| *byte == b':') {
            let (name, value) = line.split_at(at + 1);
            // RFC 9113 section 8.2.1: spaces around a value are no part of it.
            fields.push(field(name, value[1..].trim_ascii()));
        }
    }
}
