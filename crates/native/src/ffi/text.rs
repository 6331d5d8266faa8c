//! Looking into str objects.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Characters in a str.
pub fn len(text: &Bound<'_, PyString>) -> usize {
    // SAFETY: a live str object.
    unsafe { ffi::PyUnicode_GetLength(text.as_ptr()) }.cast_unsigned()
}

/// Where `character` stands first, from `start` on.
pub fn find(text: &Bound<'_, PyString>, character: char, start: usize) -> PyResult<Option<usize>> {
    // SAFETY: a live str object; the range is cut to its length.
    let found = unsafe {
        ffi::PyUnicode_FindChar(
            text.as_ptr(),
            character.into(),
            start.cast_signed(),
            ffi::Py_ssize_t::MAX,
            1,
        )
    };
    match found {
        -2 => Err(PyErr::fetch(text.py())),
        index => Ok(usize::try_from(index).ok()),
    }
}

/// `text[start:end]`
pub fn slice<'py>(
    text: &Bound<'py, PyString>,
    start: usize,
    end: usize,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a live str object; the range is cut to its length.
    let part =
        unsafe { ffi::PyUnicode_Substring(text.as_ptr(), start.cast_signed(), end.cast_signed()) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(text.py(), part) }
}
