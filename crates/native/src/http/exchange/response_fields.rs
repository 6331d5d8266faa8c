//! The header fields of a response: checks them, writes them in lower case, and notes the significant ones.

use crate::ffi::buffer;
use oneloop_http1::characters::{is_token, is_value};
use oneloop_http1::fields::content_length;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// The significant fields of a response.
#[expect(clippy::struct_excessive_bools, reason = "each is a field that may be there")]
#[derive(Default)]
pub struct Found {
    pub length: Option<u64>,
    pub has_date: bool,
    pub has_server: bool,
    pub has_connection: bool,
    pub closes: bool,
    /// A field that the application must not set was left out.
    pub left_out: Option<&'static str>,
}

/// RuntimeError for a name or value that is not valid (RFC 9110 section 5.5), such as one that contains another field.
pub fn check_field(name: &[u8], value: &[u8]) -> PyResult<()> {
    if !is_token(name) {
        let text = format!("Invalid HTTP header name: {:?}", String::from_utf8_lossy(name));
        return Err(PyRuntimeError::new_err(text));
    }
    if !is_value(value) {
        let text = format!("Invalid HTTP header value: {:?}", String::from_utf8_lossy(value));
        return Err(PyRuntimeError::new_err(text));
    }
    Ok(())
}

/// Removes the lines of a field, given by its lower-case name and a colon.
pub fn leave_out(head: &mut Vec<u8>, name: &[u8]) {
    let kept: Vec<_> = head
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(name))
        .collect();
    *head = kept.concat();
}

/// Writes the server's own fields, without `server` if the application has set it.
pub fn write_without(head: &mut Vec<u8>, fields: &[u8], is_server_left_out: bool) {
    for line in fields.split_inclusive(|byte| *byte == b'\n') {
        if !(is_server_left_out && line.starts_with(b"server:")) {
            head.extend_from_slice(line);
        }
    }
}

/// The name and value of a field: any sequence of two.
fn name_and_value<'py>(
    field: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(pair) = field.cast_exact::<PyTuple>()
        && pair.len() == 2
    {
        return Ok((pair.get_item(0)?, pair.get_item(1)?));
    }
    if let Ok(pair) = field.cast_exact::<PyList>()
        && pair.len() == 2
    {
        return Ok((pair.get_item(0)?, pair.get_item(1)?));
    }
    field.extract()
}

fn field_bytes<'py>(part: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    match part.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone()),
        Err(_) => buffer::to_bytes(part).map_err(|_| {
            let name = part.get_type().name().map_or_else(|_| "?".to_owned(), |n| n.to_string());
            PyTypeError::new_err(format!("names and values of headers must be bytes, not '{name}'"))
        }),
    }
}

pub fn write_fields(
    head: &mut Vec<u8>,
    fields: &Bound<'_, PyAny>,
    found: &mut Found,
) -> PyResult<()> {
    if let Ok(list) = fields.cast_exact::<PyList>() {
        for field in list.iter() {
            write_field(head, &field, found)?;
        }
        return Ok(());
    }
    for field in fields.try_iter()? {
        write_field(head, &field?, found)?;
    }
    Ok(())
}

/// The fields of a response that accepts a WebSocket. RuntimeError for those of the handshake, which the server sets.
pub fn write_handshake_fields(head: &mut Vec<u8>, fields: &Bound<'_, PyAny>) -> PyResult<()> {
    const OURS: [&str; 4] =
        ["upgrade", "connection", "sec-websocket-accept", "sec-websocket-extensions"];
    for field in fields.try_iter()? {
        let (name, value) = name_and_value(&field?)?;
        let (name, value) = (field_bytes(&name)?, field_bytes(&value)?);
        check_field(name.as_bytes(), value.as_bytes())?;
        let text = String::from_utf8_lossy(name.as_bytes()).to_ascii_lowercase();
        if OURS.contains(&text.as_str()) {
            let text =
                format!("'websocket.accept' cannot set the header {text}: the server sets it");
            return Err(PyRuntimeError::new_err(text));
        }
        head.extend_from_slice(text.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    Ok(())
}

fn write_field(head: &mut Vec<u8>, field: &Bound<'_, PyAny>, found: &mut Found) -> PyResult<()> {
    let (name, value) = name_and_value(field)?;
    let (name, value) = (field_bytes(&name)?, field_bytes(&value)?);
    add_field(head, name.as_bytes(), value.as_bytes(), found)
}

/// Checks a field, and writes it unless the server sets it.
pub fn add_field(head: &mut Vec<u8>, name: &[u8], value: &[u8], found: &mut Found) -> PyResult<()> {
    check_field(name, value)?;
    let start = head.len();
    head.extend_from_slice(name);
    head[start..].make_ascii_lowercase();
    match &head[start..] {
        b"content-length" => {
            let length = content_length(value).ok();
            if length.is_none() || found.length.is_some_and(|other| Some(other) != length) {
                let text = format!("Invalid Content-Length: {:?}", String::from_utf8_lossy(value));
                return Err(PyRuntimeError::new_err(text));
            }
            if found.length.is_some() {
                head.truncate(start);
                return Ok(());
            }
            found.length = length;
        }
        b"transfer-encoding" => {
            // The server sets the framing and its fields.
            head.truncate(start);
            return Ok(());
        }
        b"connection" => {
            found.has_connection = true;
            found.closes |= says_close(value);
        }
        b"date" => found.has_date = true,
        b"server" => found.has_server = true,
        _ => {}
    }
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
    Ok(())
}

/// Whether a value of `connection` ends it.
pub fn says_close(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"))
}
