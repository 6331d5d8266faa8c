//! The response of an exchange, from the messages of an ASGI application.

use super::message::{bytes_of, is_set, item, optional};
use crate::ffi::buffer;
use crate::ffi::fallible;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::response_fields::{Found, check_field, write_fields};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// `http.response.start`
pub fn start(exchange: &Bound<'_, Exchange>, message: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = exchange.py();
    let status: u16 = item(message, intern!(py, "status"))?.extract()?;
    if !(200..=999).contains(&status) {
        return Err(PyRuntimeError::new_err(format!("Invalid HTTP status: {status}")));
    }
    let fields = optional(message, intern!(py, "headers"))?;
    let has_trailers = is_set(message, intern!(py, "trailers"))?;
    Exchange::start(exchange, status, has_trailers, |head, found| {
        fields.as_ref().map_or(Ok(()), |fields| write_fields(head, fields, found))
    })
}

/// `http.response.body`
pub fn body(exchange: &Bound<'_, Exchange>, message: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = exchange.py();
    let body = match optional(message, intern!(py, "body"))? {
        Some(body) => match body.cast_exact::<PyBytes>() {
            Ok(bytes) => bytes.clone(),
            Err(_) => bytes_of(&body)?,
        },
        None => fallible::bytes(py, b"")?,
    };
    let more = is_set(message, intern!(py, "more_body"))?;
    Exchange::write_body(exchange, &body, more)
}

/// `http.response.early_hint`: RFC 8297.
pub fn early_hint(exchange: &Bound<'_, Exchange>, message: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = exchange.py();
    let mut fields = Vec::new();
    for link in item(message, intern!(py, "links"))?.try_iter()? {
        let link = buffer::to_bytes(&link?)?;
        check_field(b"link", link.as_bytes())?;
        fields.extend_from_slice(b"link: ");
        fields.extend_from_slice(link.as_bytes());
        fields.extend_from_slice(b"\r\n");
    }
    exchange.get().carrier.calls.send_early_hints(exchange, &fields)
}

/// `http.response.trailers`: written after a chunked body, and left out after other bodies.
pub fn trailers(exchange: &Bound<'_, Exchange>, message: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = exchange.py();
    let mut out = Vec::new();
    if let Some(fields) = optional(message, intern!(py, "headers"))? {
        let mut found = Found::default();
        write_fields(&mut out, &fields, &mut found)?;
        if found.length.is_some() {
            return Err(PyRuntimeError::new_err("Content-Length cannot be a trailer"));
        }
    }
    let more = is_set(message, intern!(py, "more_trailers"))?;
    Exchange::send_trailers(exchange, out, more)
}
