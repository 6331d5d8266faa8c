//! What a program reads when it asks for an attribute of `ssl` that is not supported.

use crate::imports;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

/// An AttributeError that says where to find the missing attribute.
pub fn missing(object: &Bound<'_, PyAny>, name: &str, elsewhere: &str) -> PyErr {
    let text = || -> PyResult<String> {
        let class = object.get_type();
        let class = class.name()?;
        let plain = format!("'{class}' object has no attribute '{name}'");
        if name.starts_with('_') || !imports::ssl(object.py())?.getattr(elsewhere)?.hasattr(name)? {
            return Ok(plain);
        }
        Ok(format!(
            "{plain}: oneloop.tls does not support it; use an ssl.SSLContext if you need it"
        ))
    };
    match text() {
        Ok(text) => PyAttributeError::new_err(text),
        Err(e) => e,
    }
}
