//! Bytes objects that are filled in place.

use oneloop_engine::files::Segment;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::IoSlice;
use std::mem::MaybeUninit;

unsafe extern "C" {
    // Part of the public C API, missing from pyo3-ffi.
    fn _PyBytes_Resize(object: *mut *mut ffi::PyObject, size: ffi::Py_ssize_t) -> std::ffi::c_int;
}

/// A bytes object under construction: nobody else has seen it, so that it may still change.
pub struct BytesRoom(*mut ffi::PyObject);

impl BytesRoom {
    /// Room for `len` uninitialised bytes; MemoryError as always.
    pub fn new(py: Python<'_>, len: usize) -> PyResult<Self> {
        let len = ffi::Py_ssize_t::try_from(len).unwrap_or(ffi::Py_ssize_t::MAX);
        // SAFETY: a null source leaves the content uninitialised, which `finish` cuts to what
        // was written.
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

    /// What is new is uninitialised. After a MemoryError there is no room left.
    fn resize(&mut self, py: Python<'_>, len: usize) -> PyResult<()> {
        // SAFETY: the object is alive and owned by `self`.
        if unsafe { ffi::Py_SIZE(self.0) }.cast_unsigned() != len {
            // SAFETY: the only reference is ours; on failure it is freed and set to null.
            if unsafe { _PyBytes_Resize(&raw mut self.0, len.cast_signed()) } != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(())
    }

    /// For an operation of the engine that keeps this room until its completion (S1).
    pub fn segment(&mut self, py: Python<'_>) -> Segment {
        let room = self.as_mut_slice(py);
        // SAFETY: nobody but the operation has this object, whose content never moves, and its
        // owner drops it after the completion.
        unsafe { Segment::new(room.as_mut_ptr().cast(), room.len()) }
    }

    /// The first `len` bytes, which an operation of the engine, or a TLS session, has said to have written.
    pub fn completed(self, py: Python<'_>, len: usize) -> PyResult<Bound<'_, PyBytes>> {
        // SAFETY: the count of what was written from the start on.
        unsafe { self.finish(py, len) }
    }

    /// The first `len` bytes, all of which the caller has written, as a bytes object.
    ///
    /// # Safety
    /// `len` bytes are initialised.
    pub unsafe fn finish(mut self, py: Python<'_>, len: usize) -> PyResult<Bound<'_, PyBytes>> {
        self.resize(py, len)?;
        let object = std::mem::replace(&mut self.0, std::ptr::null_mut());
        // SAFETY: a new reference, whose ownership passes on.
        let object = unsafe { Bound::from_owned_ptr(py, object) };
        // SAFETY: `new` has made a bytes object.
        Ok(unsafe { object.cast_into_unchecked() })
    }
}

// SAFETY: a reference that is used and dropped only with the GIL held; see `drop`.
unsafe impl Send for BytesRoom {}

impl Drop for BytesRoom {
    fn drop(&mut self) {
        // SAFETY: ours or null; every user holds the GIL (`new` and `finish` ask for it).
        unsafe { ffi::Py_XDECREF(self.0) }
    }
}

/// Receives into a new bytes object with room for `capacity` bytes, and into `rest` what has no room there. `receive`
/// returns how many bytes it has written to both. Runs no Python code.
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
    // SAFETY: `receive` is one of the engine's calls, which return what the kernel wrote.
    unsafe { room.finish(py, len) }.map(Ok)
}

/// Initialised bytes, for a copy into room that is not.
pub fn as_uninit(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: the same memory; what is initialised may be looked at as if it were not.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// A bytes object with a copy of the first `len` bytes of `source`, which the engine's receive
/// has just written there.
#[inline]
pub fn received<'py>(
    py: Python<'py>,
    source: &[MaybeUninit<u8>],
    len: usize,
) -> Bound<'py, PyBytes> {
    PyBytes::new(py, written(source, len))
}

/// The first `len` bytes of `source`, which the engine's receive, or a TLS session, has just written there.
#[inline]
pub fn written(source: &[MaybeUninit<u8>], len: usize) -> &[u8] {
    let written = &source[..len];
    // SAFETY: both return how many bytes were written, from the start on.
    unsafe { std::slice::from_raw_parts(written.as_ptr().cast::<u8>(), written.len()) }
}

/// The same, to be changed in place.
pub fn written_mut(source: &mut [MaybeUninit<u8>], len: usize) -> &mut [u8] {
    let written = &mut source[..len];
    // SAFETY: as above; nobody else has them while this borrows them.
    unsafe { std::slice::from_raw_parts_mut(written.as_mut_ptr().cast::<u8>(), written.len()) }
}

/// A bytes object of these parts.
pub fn joined<'py>(py: Python<'py>, parts: &[IoSlice<'_>]) -> PyResult<Bound<'py, PyBytes>> {
    if let [part] = parts {
        return Ok(PyBytes::new(py, part));
    }
    let len = parts.iter().map(|part| part.len()).sum();
    let mut room = BytesRoom::new(py, len)?;
    let mut rest = room.as_mut_slice(py);
    for part in parts {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(as_uninit(part));
        rest = after;
    }
    // SAFETY: the parts have `len` bytes, and each has been written to its place.
    unsafe { room.finish(py, len) }
}
