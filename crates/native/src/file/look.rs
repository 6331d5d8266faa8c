//! Status of open files and paths, without blocking where no server has to be contacted.

use super::Files;
use super::operations::Way;
use super::pending::Want;
use crate::errors;
use crate::ffi::call;
use crate::ffi::detach::detached;
use crate::imports;
use oneloop_engine::files::Lane;
use oneloop_engine::files::cached::{self, AtOnce};
use oneloop_engine::sys::statx::Status;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::{Arc, OnceLock};

/// Where a thread stores a status, and whether the filesystem answers without blocking.
pub type Seen = Arc<OnceLock<(Status, bool)>>;

/// The status for Python: mode, size and preferred I/O size in bytes, and whether the filesystem answers without
/// blocking.
pub fn told<'py>(py: Python<'py>, status: &Status, is_near: bool) -> PyResult<Bound<'py, PyAny>> {
    (status.mode, status.len, status.block_bytes, is_near).into_bound_py_any(py)
}

impl Files {
    /// Stores the status of an open descriptor.
    pub(super) fn keep_look(&self, py: Python<'_>, fd: RawFd, status: &Status, is_near: bool) {
        self.descriptors.with(py, |descriptors| descriptors.learn(fd, status, is_near));
    }
}

#[pymethods]
impl Files {
    /// The status of an open descriptor, for code that opens it and for `close`: `(mode, size, block, is_near)`.
    #[pyo3(signature = (fd, /))]
    fn look<'py>(slf: &Bound<'py, Self>, fd: RawFd) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        match cached::status(fd).map_err(|e| errors::file_error(&e))? {
            AtOnce::Done(status) => {
                this.keep_look(py, fd, &status, true);
                return told(py, &status, true);
            }
            AtOnce::WouldBlock | AtOnce::Alone | AtOnce::Unknown => {}
        }
        // The number must not be released meanwhile: the status would be another file's.
        this.descriptors.with(py, |descriptors| descriptors.begin(fd));
        let seen = Seen::default();
        let theirs = Arc::clone(&seen);
        let work = move || {
            let asked = cached::ask(fd)?;
            theirs.get_or_init(|| asked);
            Ok(0)
        };
        Self::begin(slf, Way::Call(Box::new(work), Lane::Far), Want::Look(seen, fd))
    }

    /// Open a path that is in the kernel's cache, and return `(number, status)`; None if that might block.
    #[pyo3(signature = (path, flags, dir_fd, /))]
    fn open_at_once<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyBytes>,
        flags: i32,
        dir_fd: RawFd,
    ) -> PyResult<Option<(RawFd, Bound<'py, PyAny>)>> {
        let (py, this) = (slf.py(), slf.get());
        this.owner.get().check_closed()?;
        let path = super::names::path(path)?;
        let attempt = cached::open(dir_fd, &path, flags).map_err(|e| errors::file_error(&e))?;
        let AtOnce::Done(fd) = attempt else { return Ok(None) };
        let looked = cached::status(fd.as_raw_fd()).map_err(|e| errors::file_error(&e))?;
        let AtOnce::Done(status) = looked else { return Ok(None) };
        let number = fd.into_raw_fd();
        this.keep_look(py, number, &status, true);
        Ok(Some((number, told(py, &status, true)?)))
    }

    /// `os.stat` of a path, or `os.lstat` if links are not followed; None if that might block.
    #[pyo3(signature = (path, follow_symlinks, dir_fd, /))]
    fn stat<'py>(
        &self,
        path: &Bound<'py, PyBytes>,
        follow_symlinks: bool,
        dir_fd: RawFd,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = path.py();
        self.owner.get().check_closed()?;
        let path = super::names::path(path)?;
        let opened = cached::open_to_look(dir_fd, &path, follow_symlinks);
        let Some(fd) = opened.map_err(|e| errors::file_error(&e))? else { return Ok(None) };
        let number = fd.as_raw_fd().into_bound_py_any(py)?;
        call::call1(&imports::fstat(py)?, &number).map(Some)
    }
}

/// Find out whether the filesystem of an open file answers without blocking, and remember it. May block. May be
/// called from any thread.
#[pyfunction]
#[pyo3(signature = (fd, /))]
pub fn learn_filesystem(py: Python<'_>, fd: RawFd) -> PyResult<bool> {
    let asked = detached(py, || cached::ask(fd));
    asked.map(|(_, is_near)| is_near).map_err(|e| errors::file_error(&e))
}
