//! Constructors of small Python objects that return MemoryError. Those of PyO3 without a `Result` panic instead.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// What CPython has just made.
///
/// # Safety
/// `object` is a new reference to an object of exactly the class `T`, or null with an exception set.
unsafe fn made<T>(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Bound<'_, T>> {
    // SAFETY: the caller's promise.
    let object = unsafe { Bound::from_owned_ptr_or_err(py, object) }?;
    // SAFETY: the caller's promise.
    Ok(unsafe { object.cast_into_unchecked() })
}

/// A copy of the data.
pub fn bytes<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // A slice is at most isize::MAX bytes long.
    let len = data.len().cast_signed();
    // SAFETY: `data` is readable for `len` bytes, which are copied.
    let object = unsafe { ffi::PyBytes_FromStringAndSize(data.as_ptr().cast(), len) };
    // SAFETY: bytes, or null.
    unsafe { made(py, object) }
}

pub fn text<'py>(py: Python<'py>, data: &str) -> PyResult<Bound<'py, PyString>> {
    let len = data.len().cast_signed();
    // SAFETY: as in `bytes`.
    let object = unsafe { ffi::PyUnicode_FromStringAndSize(data.as_ptr().cast(), len) };
    // SAFETY: a str, or null.
    unsafe { made(py, object) }
}

/// A name of an attribute. Interned, because CPython's type cache would keep each new string otherwise.
pub fn interned<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyString>> {
    let mut object = text(py, name)?.into_ptr();
    // SAFETY: a reference of ours to a str; the call replaces it by that of an equal str, or leaves it without memory.
    unsafe { ffi::PyUnicode_InternInPlace(&raw mut object) };
    // SAFETY: a str.
    unsafe { made(py, object) }
}

pub fn dict(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    // SAFETY: no arguments.
    let object = unsafe { ffi::PyDict_New() };
    // SAFETY: a dict, or null.
    unsafe { made(py, object) }
}

pub fn list(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    // SAFETY: the length is valid.
    let object = unsafe { ffi::PyList_New(0) };
    // SAFETY: a list, or null.
    unsafe { made(py, object) }
}

pub fn float(py: Python<'_>, value: f64) -> PyResult<Bound<'_, PyFloat>> {
    // SAFETY: a number.
    let object = unsafe { ffi::PyFloat_FromDouble(value) };
    // SAFETY: a float, or null.
    unsafe { made(py, object) }
}

pub fn int(py: Python<'_>, value: u64) -> PyResult<Bound<'_, PyInt>> {
    // SAFETY: a number.
    let object = unsafe { ffi::PyLong_FromUnsignedLongLong(value) };
    // SAFETY: an int, or null.
    unsafe { made(py, object) }
}

pub fn signed(py: Python<'_>, value: i64) -> PyResult<Bound<'_, PyInt>> {
    // SAFETY: a number.
    let object = unsafe { ffi::PyLong_FromLongLong(value) };
    // SAFETY: an int, or null.
    unsafe { made(py, object) }
}

pub fn tuple<'py, const N: usize>(
    py: Python<'py>,
    items: [Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyTuple>> {
    // SAFETY: the length is valid.
    let object = unsafe { ffi::PyTuple_New(N.cast_signed()) };
    // SAFETY: a tuple, or null.
    let tuple: Bound<'_, PyTuple> = unsafe { made(py, object) }?;
    for (index, item) in items.into_iter().enumerate() {
        // SAFETY: a new tuple that nobody else has seen, with room for N items; the call takes the reference.
        unsafe { ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index.cast_signed(), item.into_ptr()) };
    }
    Ok(tuple)
}

/// A tuple of so many items as the iterator says.
pub fn tuple_of<'py>(
    py: Python<'py>,
    items: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let len = items.len();
    // SAFETY: the length is valid.
    let object = unsafe { ffi::PyTuple_New(len.cast_signed()) };
    // SAFETY: a tuple, or null.
    let tuple: Bound<'_, PyTuple> = unsafe { made(py, object) }?;
    let mut filled = 0;
    for item in items.take(len) {
        // SAFETY: a new tuple that nobody else has seen, with room for `len` items; the call takes the reference.
        unsafe { ffi::PyTuple_SET_ITEM(tuple.as_ptr(), filled, item.into_ptr()) };
        filled += 1;
    }
    assert_eq!(filled, len.cast_signed(), "an iterator knows its length");
    Ok(tuple)
}

/// A list of so many items as the iterator says.
pub fn list_of<'py>(
    py: Python<'py>,
    items: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let len = items.len();
    // SAFETY: the length is valid.
    let object = unsafe { ffi::PyList_New(len.cast_signed()) };
    // SAFETY: a list, or null.
    let list: Bound<'_, PyList> = unsafe { made(py, object) }?;
    let mut filled = 0;
    for item in items.take(len) {
        // SAFETY: a new list that nobody else has seen, with room for `len` items; the call takes the reference.
        unsafe { ffi::PyList_SET_ITEM(list.as_ptr(), filled, item.into_ptr()) };
        filled += 1;
    }
    assert_eq!(filled, len.cast_signed(), "an iterator knows its length");
    Ok(list)
}
