//! The alignment that O_DIRECT requires for a file, for `oneloop.files.direct`.

use crate::errors;
use crate::ffi::detach::detached;
use crate::ffi::values::Value;
use oneloop_engine::sys::statx;
use pyo3::prelude::*;
use std::os::fd::RawFd;

/// Return `(memory, offset)` in bytes, zeros where the file has no direct I/O; None if the kernel does not report it.
/// May be called from any thread.
#[pyfunction]
#[pyo3(signature = (fd, /))]
pub fn direct_alignment(py: Python<'_>, fd: RawFd) -> PyResult<Value<Option<(u32, u32)>>> {
    match detached(py, || statx::direct_alignment(fd)) {
        Ok(found) => Ok(found.map(|found| (found.memory_bytes, found.offset_bytes))),
        Err(e) => Err(errors::os_error("statx", &e)),
    }
    .map(Value)
}
