//! Paths in the kernel's format.

use oneloop_engine::files::Place;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::CString;
use std::os::fd::RawFd;

/// ValueError for a null byte.
pub fn path(bytes: &Bound<'_, PyBytes>) -> PyResult<CString> {
    CString::new(bytes.as_bytes()).map_err(|_| PyValueError::new_err("embedded null byte"))
}

pub fn place(bytes: &Bound<'_, PyBytes>, dir_fd: RawFd) -> PyResult<Place> {
    Ok(Place { dir_fd, path: path(bytes)? })
}
