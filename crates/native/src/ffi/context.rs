//! contextvars contexts (PEP 567): copy, enter, exit.

use pyo3::ffi;
use pyo3::prelude::*;

/// `contextvars.copy_context()`
#[inline]
pub fn copy_current(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: needs no more than an attached thread, of which `py` is the proof.
    let copy = unsafe { ffi::PyContext_CopyCurrent() };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, copy) }
}

/// `context.copy()`
pub fn copy(context: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    // SAFETY: the object is alive; it is checked to be a context.
    let copy = unsafe { ffi::PyContext_Copy(context.as_ptr()) };
    // SAFETY: null with a TypeError set when it was no context; otherwise a new reference.
    unsafe { Bound::from_owned_ptr_or_err(context.py(), copy) }.map(Bound::unbind)
}

/// `context.run(f)`, or just `f()` if the context is entered already: for what a callback's end does in its context.
pub fn run_or_stay<R>(context: &Bound<'_, PyAny>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let py = context.py();
    // SAFETY: the object is alive; it is checked to be a context before anything happens.
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

/// `context.run(f)`, without a frame of its own. A RuntimeError if the context is entered already,
/// a TypeError if it is none.
#[inline]
pub fn run<R>(context: &Bound<'_, PyAny>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let py = context.py();
    // SAFETY: the object is alive; it is checked to be a context before anything happens.
    if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    let result = f();
    // SAFETY: this thread entered the context just above. An exception is not set at this point,
    // since `PyErr` has taken it.
    if unsafe { ffi::PyContext_Exit(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    result
}
