//! `framed_head`: the head of a request whose fields are the program's own, and the length that they give its body.

use super::failure::{self, Kind};
use super::request::write_head;
use crate::ffi::values::Value;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// The length of a body in chunks.
const CHUNKS: i64 = -1;

/// Make the head of a request. Returns it, and the length of the body that the fields announce: None without a body, -1
/// for chunks.
///
/// Raises:
///     LocalProtocolError: a part of it cannot be sent, there is not exactly one Host, or the length is not clear.
#[pyfunction]
pub fn framed_head<'py>(
    method: &[u8],
    target: &[u8],
    fields: &Bound<'py, PyList>,
) -> PyResult<Value<(Bound<'py, PyBytes>, Option<i64>)>> {
    let mut framing = Framing::default();
    let refuse = |text| failure::error(fields.py(), Kind::LocalProtocolError, text);
    let head =
        write_head(method, target, fields, |name, value| framing.add(name, value).map_err(refuse))?;
    Ok(Value((head, framing.length().map_err(refuse)?)))
}

/// What the fields say about the body.
#[derive(Default)]
struct Framing {
    hosts: usize,
    is_chunked: bool,
    length: Option<i64>,
}

impl Framing {
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.hosts += 1,
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = number(value.trim_ascii()).ok_or("bad Content-Length")?;
                if self.length.replace(length).is_some_and(|before| before != length) {
                    return Err("conflicting Content-Length headers");
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if self.is_chunked {
                    return Err("multiple Transfer-Encoding headers");
                }
                if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err("Only Transfer-Encoding: chunked is supported");
                }
                self.is_chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn length(&self) -> Result<Option<i64>, &'static str> {
        match self.hosts {
            0 => Err("Missing mandatory Host: header"),
            1 if self.is_chunked => Ok(Some(CHUNKS)),
            1 => Ok(self.length),
            _ => Err("Found multiple Host: headers"),
        }
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    // parse() allows a sign.
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}
