//! Looks: what an open file is, and what a path leads to; at once where no server has to be asked.

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

/// Where a thread leaves what it has seen, and whether that is on a filesystem that answers at once.
pub type Seen = Arc<OnceLock<(Status, bool)>>;

/// What Python gets of it: the mode, the size and the best block in bytes, and whether its filesystem answers at once.
pub fn told<'py>(py: Python<'py>, status: &Status, is_near: bool) -> PyResult<Bound<'py, PyAny>> {
    (status.mode, status.len, status.block_bytes, is_near).into_bound_py_any(py)
}

impl Files {
    /// Remembers what was seen of an open descriptor.
    pub(super) fn keep_look(&self, py: Python<'_>, fd: RawFd, status: &Status, is_near: bool) {
        self.descriptors.with(py, |descriptors| descriptors.learn(fd, status, is_near));
    }
}

#[pymethods]
impl Files {
    /// What an open descriptor is, for those who open it and for `close`: `(mode, size, block, is_near)`.
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
        // The number is not to be given back meanwhile: what is seen would be another file.
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

    /// Opens what is in the kernel's cache, and looks at it: `(number, look)`; None if that might take a while.
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

    /// `os.stat` of a path, or (not followed) `os.lstat`; None if that might take a while.
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

/// Finds out whether the filesystem of an open file answers at once; afterwards looks know it. May wait. Any thread.
#[pyfunction]
#[pyo3(signature = (fd, /))]
pub fn learn_filesystem(py: Python<'_>, fd: RawFd) -> PyResult<bool> {
    let asked = detached(py, || cached::ask(fd));
    asked.map(|(_, is_near)| is_near).map_err(|e| errors::file_error(&e))
}
