//! What a file server needs from `Files`: work on its threads, pieces of files, and closing descriptors.

use super::Files;
use super::operations::Strategy;
use super::pending::Conversion;
use crate::imports;
use oneloop_engine::files::Lane;
use oneloop_engine::files::mount::Place;
use oneloop_engine::files::served::Opened;
use pyo3::prelude::*;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

impl Files {
    /// The file operations of a loop, made at the first use.
    pub fn of_loop<'py>(owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        Ok(imports::files_of(owner.py())?.call1((owner,))?.cast_into()?)
    }

    /// Runs work that may wait for a disk or a server on a thread. Returns a future that is done when the work is.
    pub fn run_remote<'py>(
        slf: &Bound<'py, Self>,
        work: impl FnOnce() + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Box::new(move || {
            work();
            Ok(0)
        });
        Self::begin(slf, Strategy::Call(call, Lane::Remote(Place::Unknown)), Conversion::Nothing)
    }

    /// Stores the status of a descriptor for `read_piece`.
    pub fn adopt(&self, py: Python<'_>, opened: &Opened) {
        self.remember_status(py, opened.fd.as_raw_fd(), &opened.status, opened.is_local);
    }

    /// Returns up to `len` bytes, or a future of them.
    pub fn read_piece<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        len: usize,
        offset: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::read(slf, fd, len, offset, false)
    }

    /// Closes a descriptor, on a thread if that may block.
    pub fn end(slf: &Bound<'_, Self>, fd: OwnedFd) -> PyResult<()> {
        Self::forsake(slf, fd.into_raw_fd())
    }
}
