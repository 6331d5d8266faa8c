//! `ResponseHead`: the head of a response, what is kept of it, and how it is parsed for the program.

use super::failure;
use super::h2::head::fields_of_response;
use crate::ffi::Object;
use crate::ffi::fallible;
use crate::ffi::values::Value;
use oneloop_http1::limits::MOST_HEADERS;
use oneloop_http1::{Asked, Limits, Version, parse_response};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::mem::MaybeUninit;

/// The head of a response that was accepted.
pub struct ResponseHead {
    pub status: u16,
    pub has: u8,
    pub head: Object<PyBytes>,
}

/// Fields that need work by the caller, so that it looks for them only where they are.
pub const HAS_COOKIES: u8 = 1;
pub const HAS_CODING: u8 = 2;

/// The largest head that is accepted.
pub const LIMITS: Limits = Limits {
    line_bytes: 64 * 1024,
    head_bytes: 256 * 1024,
    headers: MOST_HEADERS,
    body_bytes: u64::MAX,
};

/// The reason phrase, the version, and the fields.
type Parsed<'py> = (Bound<'py, PyBytes>, u8, Bound<'py, PyList>);

/// Parse the head of a response that was accepted. Returns the reason phrase, the version (0: HTTP/1.0, 1: HTTP/1.1, 2:
/// HTTP/2), and the fields in their order, as they were sent. `has_lower`: each with its name in lower case between name
/// and value, as httpx has them.
#[pyfunction]
#[pyo3(signature = (head, has_lower = false, /))]
pub fn parse_response_head<'py>(
    head: &Bound<'py, PyBytes>,
    has_lower: bool,
) -> PyResult<Value<Parsed<'py>>> {
    let py = head.py();
    if let Some(fields) = fields_of_response(head.as_bytes()) {
        let list = fallible::list(py)?;
        for (name, value) in fields {
            list.append(shown_field(py, name, value, has_lower)?)?;
        }
        return Ok(Value((fallible::bytes(py, b"")?, 2, list)));
    }
    let mut fields = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let parsed = parse_response(head.as_bytes(), &mut fields, Asked::Other, &LIMITS)
        .map_err(|refusal| failure::refused(py, refusal))?;
    let Some(response) = parsed else {
        return Err(pyo3::exceptions::PyValueError::new_err("the head is incomplete"));
    };
    let list = fallible::list(py)?;
    for header in response.headers {
        list.append(shown_field(py, header.name.as_bytes(), header.value, has_lower)?)?;
    }
    let reason = fallible::bytes(py, response.reason.as_bytes())?;
    Ok(Value((reason, u8::from(response.version == Version::Http11), list)))
}

fn shown_field<'py>(
    py: Python<'py>,
    name: &[u8],
    value: &[u8],
    has_lower: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let value = fallible::bytes(py, value)?;
    if !has_lower {
        return fallible::tuple(py, [fallible::bytes(py, name)?.into_any(), value.into_any()]);
    }
    let lower = PyBytes::new_with(py, name.len(), |bytes| {
        bytes.copy_from_slice(name);
        bytes.make_ascii_lowercase();
        Ok(())
    })?;
    fallible::tuple(py, [fallible::bytes(py, name)?.into_any(), lower.into_any(), value.into_any()])
}
