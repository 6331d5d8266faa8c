//! Status of open files and paths, without blocking where no server has to be contacted.

use super::Files;
use super::cancel::Canceller;
use super::operations::{StartOutcome, Strategy};
use super::pending::{Conversion, NOT_HERE, Seen};
use super::stat_result::stat_result;
use crate::errors;
use crate::ffi::detach::detached;
use crate::ffi::fallible;
use oneloop_engine::files::Lane;
use oneloop_engine::files::cached::{self, AtOnce};
use oneloop_engine::sys::statx::Status;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};
use std::ffi::CString;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::Arc;

/// The status for Python: mode, size and preferred I/O size in bytes, and whether the filesystem answers without
/// blocking.
pub fn status_tuple<'py>(
    py: Python<'py>,
    status: &Status,
    is_local: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let numbers = [u64::from(status.mode), status.len, u64::from(status.block_bytes)];
    let [mode, len, block] = numbers.map(|number| fallible::int(py, number));
    let is_local = PyBool::new(py, is_local).to_owned().into_any();
    let fields = [mode?.into_any(), len?.into_any(), block?.into_any(), is_local];
    Ok(fallible::tuple(py, fields)?.into_any())
}

impl Files {
    /// Stores the status of an open descriptor.
    pub(super) fn remember_status(
        &self,
        py: Python<'_>,
        fd: RawFd,
        status: &Status,
        is_local: bool,
    ) {
        self.descriptors.with(py, |descriptors| descriptors.learn(fd, status, is_local));
    }
}

#[pymethods]
impl Files {
    /// The status of an open descriptor, for code that opens it and for `close`: `(mode, size, block, is_local)`.
    #[pyo3(signature = (fd, /))]
    fn status<'py>(slf: &Bound<'py, Self>, fd: RawFd) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        match cached::status(fd).map_err(|e| errors::file_error(&e))? {
            AtOnce::Done(status) => {
                this.remember_status(py, fd, &status, true);
                return status_tuple(py, &status, true);
            }
            AtOnce::WouldBlock | AtOnce::Short | AtOnce::Unbounded | AtOnce::Unknown => {}
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
        let begun = Self::begin(
            slf,
            Strategy::Call(Box::new(work), Lane::Remote(cached::place_of_file(fd))),
            Conversion::Status(seen, fd),
        );
        if begun.is_err() {
            Self::has_ended(slf, fd)?;
        }
        begun
    }

    /// Whether fstat(2) of an open descriptor answers without blocking.
    #[pyo3(signature = (fd, /))]
    fn is_local(&self, fd: RawFd) -> bool {
        let _ = self;
        // An invalid descriptor is refused without blocking.
        matches!(cached::status(fd), Err(_) | Ok(AtOnce::Done(_)))
    }

    /// Open a path that is in the kernel's cache, and return `(number, status)`; a future of that, or of None, if a
    /// thread opens it in some microseconds; None if opening it might block.
    #[pyo3(signature = (path, flags, mode, dir_fd, /))]
    fn open_at_once<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyBytes>,
        flags: i32,
        mode: u32,
        dir_fd: RawFd,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, this) = (slf.py(), slf.get());
        this.owner.get().check_closed()?;
        let path = super::paths::path(path)?;
        let fd = match cached::open(dir_fd, &path, flags).map_err(|e| errors::file_error(&e))? {
            AtOnce::Done(fd) => fd,
            AtOnce::Short => return Self::open_shortly(slf, path, flags, mode, dir_fd),
            AtOnce::WouldBlock | AtOnce::Unbounded | AtOnce::Unknown => return Ok(None),
        };
        let looked = cached::status(fd.as_raw_fd()).map_err(|e| errors::file_error(&e))?;
        let AtOnce::Done(status) = looked else { return Ok(None) };
        let fields = status_tuple(py, &status, true)?;
        // Until all of it is made, the descriptor is ours to close.
        let number = fallible::int(py, fd.as_raw_fd().unsigned_abs().into())?.into_any();
        let opened = fallible::tuple(py, [number, fields])?;
        this.remember_status(py, fd.into_raw_fd(), &status, true);
        Ok(Some(opened.into_any()))
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
        let path = super::paths::path(path)?;
        let status = cached::status_of(dir_fd, &path, follow_symlinks);
        let status = status.map_err(|e| errors::file_error(&e))?;
        status.map_or(Ok(None), |status| stat_result(py, &status))
    }
}

impl Files {
    /// Truncates and opens a small file on a thread.
    fn open_shortly<'py>(
        slf: &Bound<'py, Self>,
        path: CString,
        flags: i32,
        mode: u32,
        dir_fd: RawFd,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let seen = Seen::default();
        let theirs = Arc::clone(&seen);
        let work = move || {
            let Some((fd, status)) = cached::open_short(dir_fd, &path, flags, mode)? else {
                return Ok(NOT_HERE);
            };
            theirs.get_or_init(|| (status, true));
            Ok(fd.into_raw_fd().cast_unsigned() as usize)
        };
        let (strategy, conversion) =
            (Strategy::Call(Box::new(work), Lane::Local), Conversion::Opened(seen));
        match Self::begin_briefly(slf, strategy, conversion)? {
            StartOutcome::Finished(done) => done.map(|done| (!done.is_none()).then_some(done)),
            StartOutcome::Running(future, ticket) => {
                Canceller::watch(slf, &future, ticket, None)?;
                Ok(Some(future))
            }
        }
    }
}

/// Find out whether the filesystem of an open file answers without blocking, and remember it. May block. May be
/// called from any thread.
#[pyfunction]
#[pyo3(signature = (fd, /))]
pub fn learn_filesystem(py: Python<'_>, fd: RawFd) -> PyResult<bool> {
    let asked = detached(py, || cached::ask(fd));
    asked.map(|(_, is_local)| is_local).map_err(|e| errors::file_error(&e))
}
