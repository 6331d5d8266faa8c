//! Vectorcalls without argument tuples.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Converts the result of a call to the object or the raised exception.
#[inline]
fn finish(py: Python<'_>, result: *mut ffi::PyObject) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: a vectorcall returns a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}

/// `callable()`
#[inline]
pub fn call0<'py>(callable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `callable` is alive through the call.
    let result = unsafe { ffi::PyObject_CallNoArgs(callable.as_ptr()) };
    finish(callable.py(), result)
}

/// `callable(*args, **kwargs)`
#[inline]
pub fn call_tuple<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let kwargs = kwargs.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: all are alive through the call; null means no keyword arguments.
    let result = unsafe { ffi::PyObject_Call(callable.as_ptr(), args.as_ptr(), kwargs) };
    finish(callable.py(), result)
}

/// `callable(arg)`
#[inline]
pub fn call1<'py>(
    callable: &Bound<'py, PyAny>,
    arg: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    vectorcall(callable, [arg.as_ptr()])
}

/// `callable(first, second)`
#[inline]
pub fn call2<'py>(
    callable: &Bound<'py, PyAny>,
    first: &Bound<'py, PyAny>,
    second: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    vectorcall(callable, [first.as_ptr(), second.as_ptr()])
}

#[inline]
fn vectorcall<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    args: [*mut ffi::PyObject; N],
) -> PyResult<Bound<'py, PyAny>> {
    // One free slot in front lets a bound method put its `self` there without a copy (PEP 590,
    // PY_VECTORCALL_ARGUMENTS_OFFSET). No call here has more than two arguments.
    let mut stack = [std::ptr::null_mut(); 3];
    stack[1..=N].copy_from_slice(&args);
    let arguments = stack[1..].as_ptr();
    // SAFETY: the N arguments are borrowed from live `Bound`s, and the slot before them is ours.
    let result = unsafe {
        ffi::PyObject_Vectorcall(
            callable.as_ptr(),
            arguments,
            N | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET,
            std::ptr::null_mut(),
        )
    };
    finish(callable.py(), result)
}
