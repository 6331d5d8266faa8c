//! `Window`: shows memory to a C function of CPython as a bytes-like object during one call.
//!
//! A `memoryview` would be made and freed for each call; a window is made once and moved. It is for functions that
//! release the buffer before they return, as those of `_ssl` do. The end of the call checks that.

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

#[pyclass(frozen, module = "oneloop._native")]
pub struct Window {
    start: AtomicPtr<u8>,
    len: AtomicUsize,
    is_writable: AtomicBool,
    /// Buffers that were acquired and not released.
    exports: AtomicUsize,
    /// A call is using the window.
    is_taken: AtomicBool,
}

impl Window {
    fn closed() -> Self {
        Self {
            start: AtomicPtr::new(std::ptr::null_mut()),
            len: AtomicUsize::new(0),
            is_writable: AtomicBool::new(false),
            exports: AtomicUsize::new(0),
            is_taken: AtomicBool::new(false),
        }
    }
}

#[pymethods]
impl Window {
    /// # Safety
    /// CPython's `bf_getbuffer`: `view` is a buffer of the caller, to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let start = this.start.load(Ordering::Relaxed);
        if start.is_null() {
            return Err(PyBufferError::new_err("the buffer is only available during the call"));
        }
        let len = this.len.load(Ordering::Relaxed).cast_signed();
        let is_readonly = !this.is_writable.load(Ordering::Relaxed);
        // SAFETY: `view` is the caller's buffer; the memory is live until the call that shows it ends.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast(), len, is_readonly.into(), flags)
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        this.exports.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// # Safety
    /// CPython's `bf_releasebuffer`: `view` was filled by `__getbuffer__`, and is not read here.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.exports.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Closes and releases the window when the call has ended.
struct Taken<'a, 'py>(&'a Bound<'py, Window>);

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        let this = self.0.get();
        this.start.store(std::ptr::null_mut(), Ordering::Relaxed);
        if this.exports.load(Ordering::Relaxed) != 0 {
            // Code that kept the buffer would read freed memory.
            eprintln!("oneloop: a buffer was kept after the call that it was passed to");
            std::process::abort();
        }
        this.is_taken.store(false, Ordering::Release);
    }
}

fn show<'py, R>(
    py: Python<'py>,
    start: *mut u8,
    len: usize,
    is_writable: bool,
    call: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<R>,
) -> PyResult<R> {
    static SHARED: PyOnceLock<Py<Window>> = PyOnceLock::new();
    let shared = SHARED.get_or_try_init(py, || Py::new(py, Window::closed()))?.bind(py);
    // Inside such a call, or while another thread is in one, use a separate window.
    let own;
    let window = if shared.get().is_taken.swap(true, Ordering::Acquire) {
        own = Bound::new(py, Window::closed())?;
        &own
    } else {
        shared
    };
    let taken = Taken(window);
    let this = window.get();
    this.len.store(len, Ordering::Relaxed);
    this.is_writable.store(is_writable, Ordering::Relaxed);
    this.start.store(start, Ordering::Relaxed);
    let result = call(window.as_any());
    drop(taken);
    result
}

/// Shows bytes for reading to a function that keeps no reference to them.
pub fn show_bytes<'py, R>(
    py: Python<'py>,
    bytes: &[u8],
    call: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<R>,
) -> PyResult<R> {
    // The address of an empty slice is not null.
    show(py, bytes.as_ptr().cast_mut(), bytes.len(), false, call)
}

/// Shows memory for writing to a function that keeps no reference to it.
pub fn show_room<'py, R>(
    py: Python<'py>,
    room: &mut [MaybeUninit<u8>],
    call: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<R>,
) -> PyResult<R> {
    show(py, room.as_mut_ptr().cast(), room.len(), true, call)
}
