//! The context for `ssl=True`.

use crate::imports;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// A context with the standard library's defaults; ValueError for a server, which needs a certificate.
pub fn default_context(
    py: Python<'_>,
    is_server: bool,
    has_hostname: bool,
) -> PyResult<Bound<'_, PyAny>> {
    if is_server {
        return Err(PyValueError::new_err("Server side SSL needs a valid SSLContext"));
    }
    // Looked up each time, because programs may replace this function.
    let context = imports::ssl(py)?.call_method0(intern!(py, "create_default_context"))?;
    if !has_hostname {
        context.setattr(intern!(py, "check_hostname"), PyBool::new(py, false))?;
    }
    Ok(context)
}
