//! inotify's system calls, for `oneloop.files.watching`; events are read with `os.read`.

use crate::errors;
use crate::ffi::detach::detached;
use crate::ffi::values::Value;
use oneloop_engine::sys::inotify;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ffi::CString;
use std::os::fd::{IntoRawFd, RawFd};

/// Return a new, non-blocking event queue. The caller owns the descriptor. May be called from any thread.
#[pyfunction]
pub fn inotify_init() -> PyResult<Value<RawFd>> {
    match inotify::create() {
        Ok(queue) => Ok(queue.into_raw_fd()),
        Err(e) => Err(errors::os_error("inotify_init", &e)),
    }
    .map(Value)
}

/// Watch `path` and return its watch descriptor. Looking up the path may block. May be called from any thread.
#[pyfunction]
#[pyo3(signature = (queue, path, mask, /))]
pub fn inotify_add_watch(
    py: Python<'_>,
    queue: RawFd,
    path: &[u8],
    mask: u32,
) -> PyResult<Value<i32>> {
    let path = CString::new(path).map_err(|_| PyValueError::new_err("embedded null byte"))?;
    match detached(py, || inotify::add(queue, &path, mask)) {
        Ok(watch) => Ok(watch),
        Err(e) => Err(errors::os_error("inotify_add_watch", &e)),
    }
    .map(Value)
}

/// End a watch. May be called from any thread.
#[pyfunction]
#[pyo3(signature = (queue, watch, /))]
pub fn inotify_rm_watch(queue: RawFd, watch: i32) -> PyResult<()> {
    inotify::remove(queue, watch).map_err(|e| errors::os_error("inotify_rm_watch", &e))
}
