//! The items of a message that an ASGI application sends.

use crate::ffi::buffer;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// An item of a message; KeyError if it is missing.
pub fn item<'py>(
    message: &Bound<'py, PyAny>,
    name: &Bound<'py, pyo3::types::PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    match optional(message, name)? {
        Some(value) => Ok(value),
        None => Err(PyKeyError::new_err(name.clone().unbind())),
    }
}

pub fn optional<'py>(
    message: &Bound<'py, PyAny>,
    name: &Bound<'py, pyo3::types::PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(message) = message.cast_exact::<PyDict>() {
        return message.get_item(name);
    }
    let value = message.call_method1(intern!(message.py(), "get"), (name,))?;
    Ok((!value.is_none()).then_some(value))
}

/// An item that is true or false; false if it is missing.
pub fn is_set(
    message: &Bound<'_, PyAny>,
    name: &Bound<'_, pyo3::types::PyString>,
) -> PyResult<bool> {
    match optional(message, name)? {
        Some(given) => given.is_truthy(),
        None => Ok(false),
    }
}

/// The bytes of a bytes-like object.
pub fn bytes_of<'py>(body: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    buffer::to_bytes(body).map_err(|error| {
        let name = body.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        let text = format!("the body of a response must be bytes-like, not '{name}'");
        let wrong = PyTypeError::new_err(text);
        wrong.set_cause(body.py(), Some(error));
        wrong
    })
}
