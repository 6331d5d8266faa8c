//! The head of a request.

use super::failure::{self, Kind};
use crate::ffi::fallible;
use oneloop_http1::characters::is_token;
use oneloop_http1::response::{Blame, write_field};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// Make the head of a request from the method, the target, and the fields in their order.
///
/// Raises:
///     LocalProtocolError: a part of it cannot be sent.
#[pyfunction]
pub fn request_head<'py>(
    method: &[u8],
    target: &[u8],
    fields: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyBytes>> {
    write_head(method, target, fields, |_, _| Ok(()))
}

/// Makes the head; `look` sees each field, and may refuse it.
pub fn write_head<'py>(
    method: &[u8],
    target: &[u8],
    fields: &Bound<'py, PyList>,
    mut look: impl FnMut(&[u8], &[u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = fields.py();
    let refuse = |text: String| failure::error(py, Kind::LocalProtocolError, &text);
    if !is_token(method) {
        return Err(refuse(format!("Illegal method: {:?}", String::from_utf8_lossy(method))));
    }
    if target.is_empty() || !target.iter().all(|byte| *byte > b' ' && *byte != 0x7f) {
        return Err(refuse(format!("Illegal target: {:?}", String::from_utf8_lossy(target))));
    }
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(method);
    head.push(b' ');
    head.extend_from_slice(target);
    head.extend_from_slice(b" HTTP/1.1\r\n");
    for field in fields {
        let field = field.cast::<PyTuple>()?;
        let (name, value) = (field.get_item(0)?, field.get_item(1)?);
        let (name, value) = (name.cast::<PyBytes>()?, value.cast::<PyBytes>()?);
        look(name.as_bytes(), value.as_bytes())?;
        write_field(&mut head, name.as_bytes(), value.as_bytes()).map_err(|unwritable| {
            let part = if unwritable.blame == Blame::Name { "name" } else { "value" };
            let field = String::from_utf8_lossy(&unwritable.field).into_owned();
            refuse(format!("Illegal header {part}: the field {field:?}"))
        })?;
    }
    head.extend_from_slice(b"\r\n");
    fallible::bytes(py, &head)
}

/// The value of a field in a head that was made here: its first one. `name` is in lower case.
pub fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = head;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        rest = &rest[end + 1..];
        let is_it = rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
            && rest.get(name.len()) == Some(&b':');
        if is_it {
            let line = &rest[name.len() + 1..];
            let len = memchr::memchr(b'\r', line).unwrap_or(line.len());
            return Some(line[..len].trim_ascii());
        }
    }
    None
}

/// Whether the head says that no other request follows on the connection.
pub fn says_close(head: &[u8]) -> bool {
    field(head, b"connection").is_some_and(|value| {
        value
            .split(|byte| *byte == b',')
            .any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"))
    })
}
