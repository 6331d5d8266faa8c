//! Refuses interpreters other than the process's first one.
//!
//! The module keeps Python objects in static variables (classes, interned names). In another interpreter they would be
//! objects of the wrong one.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// ImportError in a subinterpreter. CPython itself refuses the module only in those with their own GIL.
pub fn refuse_subinterpreters(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: this thread is attached, as `_py` proves.
    let current = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: it reads one static variable.
    if current == unsafe { ffi::PyInterpreterState_Main() } {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "oneloop does not support subinterpreters: import it in the main interpreter (with mod_wsgi: \
         WSGIApplicationGroup %{GLOBAL})",
    ))
}
