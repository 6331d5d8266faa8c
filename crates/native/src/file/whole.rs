//! `read_file`: reads a whole small file from the kernel's caches in one call.

use super::Files;
use super::content::nothing;
use super::deferred::Work;
use crate::errors;
use crate::ffi::bytes::BytesRoom;
use oneloop_engine::files::cached::{self, AtOnce, LONGEST};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

impl Files {
    /// The content of a file, or None if reading it might block.
    pub(super) fn read_cached<'py>(
        &self,
        py: Python<'py>,
        path: &CStr,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.try_cached(py, path)?.map_err(|e| errors::file_error(&e))
    }

    fn try_cached<'py>(
        &self,
        py: Python<'py>,
        path: &CStr,
    ) -> PyResult<io::Result<Option<Bound<'py, PyBytes>>>> {
        let (fd, status) = match cached::open_for_reading(path) {
            Ok(AtOnce::Done(opened)) => opened,
            Ok(_) => return Ok(Ok(None)),
            Err(e) => return Ok(Err(e)),
        };
        let len = usize::try_from(status.len).unwrap_or(usize::MAX);
        if len > LONGEST {
            return Ok(Ok(None));
        }
        if len == 0 {
            // The file is empty, or one of /proc, whose status has no length.
            let mut probe = [MaybeUninit::uninit()];
            return Ok(cached::read(fd.as_raw_fd(), &mut probe, 0).map(|read| match read {
                AtOnce::Done(0) => Some(nothing(py)),
                _ => None,
            }));
        }
        // With room for one more byte, to detect that the file has grown or was replaced since the check.
        let mut room = BytesRoom::new(py, len + 1)?;
        match cached::read(fd.as_raw_fd(), room.as_mut_slice(py), 0) {
            // Complete. A shorter result means that not all is cached, or that the file was truncated.
            Ok(AtOnce::Done(n)) if n == len => Ok(Ok(Some(room.completed(py, n)?))),
            Ok(_) => Ok(Ok(None)),
            Err(e) => Ok(Err(e)),
        }
    }
}

#[pymethods]
impl Files {
    /// The content of a regular file, or None if reading it might block. If this tick has no time left: a future of
    /// either.
    #[pyo3(name = "read_file", signature = (path, /))]
    fn read_whole<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, this) = (slf.py(), slf.get());
        this.owner.get().check_closed()?;
        let path = super::paths::path(path)?;
        if !this.may_work(py) {
            return Self::defer(slf, Work::Whole(path)).map(Some);
        }
        Ok(this.read_cached(py, &path)?.map(Bound::into_any))
    }

    /// A future that is done in a later tick, after the operations already waiting for one.
    fn later<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::defer(slf, Work::Tick)
    }

    /// Whether this tick has no time left for operations in memory, so that the caller should use `later`.
    fn is_spent(&self, py: Python<'_>) -> bool {
        !self.may_work_in_memory(py)
    }
}
