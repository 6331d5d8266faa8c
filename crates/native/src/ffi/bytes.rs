//! Bytes objects that are filled in place.

use super::Object;
use super::fallible;
use oneloop_engine::files::Segment;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::IoSlice;
use std::mem::MaybeUninit;

unsafe extern "C" {
    // Part of CPython's public C API, but missing from pyo3-ffi.
    fn _PyBytes_Resize(object: *mut *mut ffi::PyObject, size: ffi::Py_ssize_t) -> std::ffi::c_int;
}

/// A bytes object under construction. Nobody else has seen it, so it may still change.
pub struct BytesRoom(*mut ffi::PyObject);

impl BytesRoom {
    /// Allocates `len` uninitialised bytes, or returns MemoryError.
    pub fn new(py: Python<'_>, len: usize) -> PyResult<Self> {
        let len = ffi::Py_ssize_t::try_from(len).unwrap_or(ffi::Py_ssize_t::MAX);
        // SAFETY: a null source leaves the content uninitialised; `finish` cuts it to the bytes that were written.
        let object = unsafe { ffi::PyBytes_FromStringAndSize(std::ptr::null(), len) };
        if object.is_null() { Err(PyErr::fetch(py)) } else { Ok(Self(object)) }
    }

    pub fn as_mut_slice(&mut self, _py: Python<'_>) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the object is alive and owned by `self`.
        let len = unsafe { ffi::Py_SIZE(self.0) }.cast_unsigned();
        // SAFETY: as above; it is a bytes object.
        let data = unsafe { ffi::PyBytes_AsString(self.0) };
        // SAFETY: a bytes object of `len` bytes that nobody else refers to.
        unsafe { std::slice::from_raw_parts_mut(data.cast(), len) }
    }

    /// New bytes are uninitialised. After a MemoryError the object is gone.
    fn resize(&mut self, py: Python<'_>, len: usize) -> PyResult<()> {
        // SAFETY: the object is alive and owned by `self`.
        if unsafe { ffi::Py_SIZE(self.0) }.cast_unsigned() != len {
            // SAFETY: the only reference is ours; on failure the object is freed and the pointer set to null.
            if unsafe { _PyBytes_Resize(&raw mut self.0, len.cast_signed()) } != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(())
    }

    /// For an operation of the engine that keeps this object until its completion (S1).
    pub fn segment(&mut self, py: Python<'_>) -> Segment {
        let room = self.as_mut_slice(py);
        // SAFETY: only the operation has this object. Its content never moves, and the operation's owner drops it
        // after the completion.
        unsafe { Segment::new(room.as_mut_ptr().cast(), room.len()) }
    }

    /// The first `len` bytes, which an engine operation or a TLS session has reported as written.
    pub fn completed(self, py: Python<'_>, len: usize) -> PyResult<Bound<'_, PyBytes>> {
        // SAFETY: `len` is the number of bytes written from the start.
        unsafe { self.finish(py, len) }
    }

    /// Returns the first `len` bytes, all of which the caller has written, as a bytes object.
    ///
    /// # Safety
    /// The first `len` bytes must be initialised.
    pub unsafe fn finish(mut self, py: Python<'_>, len: usize) -> PyResult<Bound<'_, PyBytes>> {
        self.resize(py, len)?;
        let object = std::mem::replace(&mut self.0, std::ptr::null_mut());
        // SAFETY: a new reference, whose ownership is transferred.
        let object = unsafe { Bound::from_owned_ptr(py, object) };
        // SAFETY: `new` has made a bytes object.
        Ok(unsafe { object.cast_into_unchecked() })
    }
}

// SAFETY: the reference is used and dropped only with the GIL held; see `drop`.
unsafe impl Send for BytesRoom {}

impl Drop for BytesRoom {
    fn drop(&mut self) {
        // SAFETY: our reference or null; every user holds the GIL (`new` and `finish` require it).
        unsafe { ffi::Py_XDECREF(self.0) }
    }
}

/// Receives into a new bytes object of `capacity` bytes, and then into `rest`. `receive` returns the number of bytes
/// written to both. Runs no Python code.
pub fn filled<'py>(
    py: Python<'py>,
    capacity: usize,
    rest: &mut [MaybeUninit<u8>],
    receive: impl FnOnce(&mut [MaybeUninit<u8>], &mut [MaybeUninit<u8>]) -> std::io::Result<usize>,
) -> PyResult<std::io::Result<Bound<'py, PyBytes>>> {
    let mut room = BytesRoom::new(py, capacity)?;
    let len = match receive(room.as_mut_slice(py), rest) {
        Ok(len) => len,
        Err(e) => return Ok(Err(e)),
    };
    if let Some(over) = len.checked_sub(capacity).filter(|over| *over > 0) {
        room.resize(py, len)?;
        room.as_mut_slice(py)[capacity..].copy_from_slice(&rest[..over]);
    }
    // SAFETY: `receive` is one of the engine's calls, which return the number of bytes the kernel wrote.
    unsafe { room.finish(py, len) }.map(Ok)
}

/// Views initialised bytes as possibly uninitialised ones, to copy them.
pub fn as_uninit(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: the same memory; initialised bytes are valid as `MaybeUninit`.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// A bytes object with a copy of the first `len` bytes of `source`, which the engine's receive has just written.
#[inline]
pub fn received<'py>(
    py: Python<'py>,
    source: &[MaybeUninit<u8>],
    len: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    fallible::bytes(py, written(source, len))
}

/// The first `len` bytes of `source`, which the engine's receive or a TLS session has just written.
#[inline]
pub fn written(source: &[MaybeUninit<u8>], len: usize) -> &[u8] {
    let written = &source[..len];
    // SAFETY: both return the number of bytes written from the start.
    unsafe { std::slice::from_raw_parts(written.as_ptr().cast::<u8>(), written.len()) }
}

/// Like `written`, to be changed in place.
pub fn written_mut(source: &mut [MaybeUninit<u8>], len: usize) -> &mut [u8] {
    let written = &mut source[..len];
    // SAFETY: as in `written`; the mutable borrow excludes other users.
    unsafe { std::slice::from_raw_parts_mut(written.as_mut_ptr().cast::<u8>(), written.len()) }
}

/// A bytes object with the concatenated parts.
pub fn joined<'py>(py: Python<'py>, parts: &[IoSlice<'_>]) -> PyResult<Bound<'py, PyBytes>> {
    if let [part] = parts {
        return fallible::bytes(py, part);
    }
    let len = parts.iter().map(|part| part.len()).sum();
    let mut room = BytesRoom::new(py, len)?;
    let mut rest = room.as_mut_slice(py);
    for part in parts {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(as_uninit(part));
        rest = after;
    }
    // SAFETY: the parts have `len` bytes in total, and each was written to its place.
    unsafe { room.finish(py, len) }
}

/// A bytes object whose bytes are read where no token is at hand, as in the callbacks of a library.
pub struct SharedBytes(Object<PyBytes>);

impl SharedBytes {
    pub fn new(bytes: &Bound<'_, PyBytes>) -> Self {
        Self(Object::new(bytes.clone()))
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: like an `Object`, one is used only by methods of Python objects, which run attached.
        let py = unsafe { Python::assume_attached() };
        self.0.bind(py).as_bytes()
    }
}
