//! The buffer protocol: contiguous views of bytes-like objects, for reading and writing.

use super::fallible;
use oneloop_engine::files::Segment;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};
use std::mem::{ManuallyDrop, MaybeUninit};

/// A contiguous view. The exporter must not resize or free its memory while the view lives.
pub struct View(Box<ffi::Py_buffer>);

// SAFETY: a Py_buffer is a pointer and lengths; releasing it needs the GIL, which `drop` takes.
unsafe impl Send for View {}

impl View {
    /// A view for reading. TypeError or BufferError as in CPython.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::get(object, ffi::PyBUF_SIMPLE)
    }

    /// A view for writing. Also BufferError or TypeError for read-only objects.
    pub fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::get(object, ffi::PyBUF_WRITABLE)
    }

    fn get(object: &Bound<'_, PyAny>, flags: std::ffi::c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: `view` is boxed, so its address is stable until it is released (exporters may keep it).
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Self(view))
    }

    pub fn len(&self) -> usize {
        self.0.len.cast_unsigned()
    }

    /// For the garbage collector: visits the exporter.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if self.0.obj.is_null() {
            return Ok(());
        }
        // SAFETY: the garbage collector runs in an attached thread.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: the view holds this reference until it is released; `ManuallyDrop` does not drop it.
        let exporter = ManuallyDrop::new(unsafe { Bound::from_owned_ptr(py, self.0.obj) });
        visit.call(exporter.as_unbound())
    }

    pub fn is_readonly(&self) -> bool {
        self.0.readonly != 0
    }

    /// The bytes. Python code may change them, so no call into Python is allowed while the slice lives.
    pub fn as_slice(&self, _py: Python<'_>) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: PyBUF_SIMPLE views are contiguous, `len` bytes long, and valid until released. The GIL, held while
        // the slice lives, keeps other threads from writing.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), self.len()) }
    }

    /// Only for views made by `writable`.
    pub fn as_mut_slice(&mut self, _py: Python<'_>) -> &mut [MaybeUninit<u8>] {
        assert_eq!(self.0.readonly, 0, "this view was asked for writing");
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as in `as_slice`, and the exporter has allowed writing.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf.cast(), self.len()) }
    }
}

impl View {
    /// For an operation of the engine that keeps this view until its completion (S1).
    pub fn segment(&self) -> Segment {
        // SAFETY: the exporter keeps the memory at its address until the view is released. The view is dropped with
        // the operation's owner, after the completion.
        unsafe { Segment::new(self.0.buf.cast(), self.len()) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        Python::attach(|_py| {
            // SAFETY: filled by a successful PyObject_GetBuffer and released once.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.0) }
        });
    }
}

/// Like `with_bytes`, with a value that is looked up after the bytes were obtained.
pub fn with_bytes_late<L, R>(
    object: &Bound<'_, PyAny>,
    look_up: impl FnOnce() -> L,
    f: impl FnOnce(&[u8], L) -> R,
) -> PyResult<R> {
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(f(bytes.as_bytes(), look_up()));
    }
    let view = View::of(object)?;
    let found = look_up();
    Ok(f(view.as_slice(object.py()), found))
}

/// `bytes(object)` for anything with a buffer; TypeError or BufferError as in CPython.
pub fn to_bytes<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let view = View::of(object)?;
    fallible::bytes(object.py(), view.as_slice(object.py()))
}

/// Runs `f` on the bytes of a bytes-like object, without a view if the type is exactly `bytes`. `f` must not run
/// Python code.
#[inline]
pub fn with_bytes<R>(object: &Bound<'_, PyAny>, f: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(f(bytes.as_bytes()));
    }
    let view = View::of(object)?;
    Ok(f(view.as_slice(object.py())))
}
