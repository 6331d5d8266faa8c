//! contextvars contexts (PEP 567): copy, enter, exit.

use pyo3::exceptions::PyException;
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

/// `context.run(f)`, also if the context is entered already: see `run_entered`.
#[inline]
pub fn run_anyway<R>(context: &Bound<'_, PyAny>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let py = context.py();
    // SAFETY: the object is alive; the function first checks that it is a context.
    if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
        drop(PyErr::take(py));
        return run_entered(context, f);
    }
    let result = f();
    // SAFETY: this thread entered the context just above. No exception is set here, because `PyErr` has taken it.
    if unsafe { ffi::PyContext_Exit(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    result
}

/// Runs `f` with the variables of a context that is entered already, and cannot be entered twice: in the current context
/// if that has the same variables (usually it is this one), otherwise in a copy.
pub fn run_entered<R>(entered: &Bound<'_, PyAny>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let py = entered.py();
    let is_same = match copy_current(py)?.eq(entered) {
        Ok(is_same) => is_same,
        // A value that cannot be compared: take it for another one.
        Err(error) if error.is_instance_of::<PyException>(py) => false,
        Err(error) => return Err(error),
    };
    if is_same { f() } else { run(copy(entered)?.bind(py), f) }
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
