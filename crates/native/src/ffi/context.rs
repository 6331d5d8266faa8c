//! contextvars contexts (PEP 567): copy, enter, exit.

use pyo3::ffi;
use pyo3::prelude::*;

/// `contextvars.copy_context()`
#[inline]
pub fn copy_current(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: only needs an attached thread, which `py` proves.
    let copy = unsafe { ffi::PyContext_CopyCurrent() };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, copy) }
}

/// `context.copy()`
pub fn copy(context: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    // SAFETY: the object is alive; the function checks that it is a context.
    let copy = unsafe { ffi::PyContext_Copy(context.as_ptr()) };
    // SAFETY: a new reference, or null with a TypeError set if it was not a context.
    unsafe { Bound::from_owned_ptr_or_err(context.py(), copy) }.map(Bound::unbind)
}

/// `context.run(f)`, or plain `f()` if the context is already entered: for work at the end of a callback, in its
/// context.
pub fn run_or_stay<R>(context: &Bound<'_, PyAny>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let py = context.py();
    // SAFETY: the object is alive; the function first checks that it is a context.
    if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
        drop(PyErr::take(py));
        return f();
    }
    let result = f();
    // SAFETY: this thread entered the context just above.
    if unsafe { ffi::PyContext_Exit(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    result
}

/// `context.run(f)` without a Python frame. RuntimeError if the context is already entered, TypeError if it is not a
/// context.
#[inline]
pub fn run<R>(context: &Bound<'_, PyAny>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let py = context.py();
    // SAFETY: the object is alive; the function first checks that it is a context.
    if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    let result = f();
    // SAFETY: this thread entered the context just above. No exception is set here, because `PyErr` has taken it.
    if unsafe { ffi::PyContext_Exit(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    result
}
