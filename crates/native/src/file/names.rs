//! Opening files, and operations on names in folders.

use super::Files;
use super::cancel::Canceller;
use super::opening::Opening;
use super::operations::Strategy;
use super::paths::{self, place};
use super::pending::Conversion;
use crate::errors;
use crate::ffi::values::ToPython;
use oneloop_engine::files::cached::{self, AtOnce};
use oneloop_engine::files::{Lane, Request};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Opening {
    /// Called when the thread has checked the path. Returns the descriptor if the file could be opened without
    /// blocking; otherwise an engine resolves the future.
    pub fn go_on(
        self,
        slf: &Bound<'_, Files>,
        looked: &io::Result<usize>,
        future: &Bound<'_, PyAny>,
    ) -> PyResult<Option<RawFd>> {
        let Request::Open { at, flags, .. } = &self.request else {
            return Err(PyRuntimeError::new_err(
                "internal error: the request does not open a file",
            ));
        };
        // The path may not exist yet because O_CREAT makes it, and with O_CREAT a name that ends with a slash is
        // EISDIR. Other errors would also come from open(2).
        if let Err(e) = looked
            && !(matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
                && flags & libc::O_CREAT != 0)
        {
            return Err(errors::file_error(e));
        }
        if self.may_wait_for_ever.load(Ordering::Acquire) {
            return Self::submit(slf, Strategy::Unbounded(self.request), future);
        }
        match cached::open(at.dir_fd, &at.path, *flags).map_err(|e| errors::file_error(&e))? {
            AtOnce::Done(fd) => Ok(Some(fd.into_raw_fd())),
            AtOnce::Unbounded => Self::submit(slf, Strategy::Unbounded(self.request), future),
            AtOnce::WouldBlock | AtOnce::Short | AtOnce::Unknown => {
                Self::submit(slf, Strategy::Engine(self.request), future)
            }
        }
    }

    fn submit(
        slf: &Bound<'_, Files>,
        strategy: Strategy,
        future: &Bound<'_, PyAny>,
    ) -> PyResult<Option<RawFd>> {
        let ticket = Files::submit(slf, strategy, Conversion::Descriptor, future)?;
        Canceller::watch(slf, future, ticket, None)?;
        Ok(None)
    }
}

impl Files {
    fn check_and_open<'py>(
        slf: &Bound<'py, Self>,
        request: Request,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Request::Open { at, flags, .. } = request.clone() else {
            return Err(PyRuntimeError::new_err(
                "internal error: the request does not open a file",
            ));
        };
        let place = cached::place_of(at.dir_fd, &at.path);
        let opening = Opening { request, may_wait_for_ever: Arc::default() };
        let theirs = Arc::clone(&opening.may_wait_for_ever);
        let work = move || {
            let status = cached::look_up(at.dir_fd, &at.path, flags)?;
            theirs.store(status.may_wait_for_ever(), Ordering::Release);
            Ok(0)
        };
        let strategy = Strategy::Call(Box::new(work), Lane::Remote(place));
        Self::begin_cancellable(slf, strategy, Conversion::Opening(opening))
    }
}

#[pymethods]
impl Files {
    /// Open a file; returns the descriptor, which child processes never inherit.
    #[pyo3(signature = (path, flags, mode, dir_fd, /))]
    fn open<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyBytes>,
        flags: i32,
        mode: u32,
        dir_fd: RawFd,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at = place(path, dir_fd)?;
        slf.get().owner.get().check_closed()?;
        let attempt = cached::open(dir_fd, &at.path, flags).map_err(|e| errors::file_error(&e))?;
        let request = Request::Open { at, flags, mode };
        let strategy = match attempt {
            AtOnce::Done(fd) => return fd.into_raw_fd().to_python(slf.py()),
            AtOnce::WouldBlock | AtOnce::Short => Strategy::Engine(request),
            AtOnce::Unbounded => Strategy::Unbounded(request),
            AtOnce::Unknown => return Self::check_and_open(slf, request),
        };
        Self::begin_cancellable(slf, strategy, Conversion::Descriptor)
    }

    #[pyo3(signature = (src, dst, src_dir_fd, dst_dir_fd, flags, /))]
    fn rename<'py>(
        slf: &Bound<'py, Self>,
        src: &Bound<'py, PyBytes>,
        dst: &Bound<'py, PyBytes>,
        src_dir_fd: RawFd,
        dst_dir_fd: RawFd,
        flags: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (from, to) = (place(src, src_dir_fd)?, place(dst, dst_dir_fd)?);
        Self::begin(slf, Strategy::Engine(Request::Rename { from, to, flags }), Conversion::Nothing)
    }

    #[pyo3(signature = (path, is_dir, dir_fd, /))]
    fn unlink<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyBytes>,
        is_dir: bool,
        dir_fd: RawFd,
    ) -> PyResult<Bound<'py, PyAny>> {
        let flags = if is_dir { oneloop_engine::files::REMOVE_FOLDER } else { 0 };
        let request = Request::Unlink { at: place(path, dir_fd)?, flags };
        Self::begin(slf, Strategy::Engine(request), Conversion::Nothing)
    }

    /// Remove a file that nobody will use any more, on a thread, even if the loop is closed meanwhile. May be called from
    /// any thread that holds the GIL.
    #[pyo3(signature = (path, /))]
    fn forsake_name(slf: &Bound<'_, Self>, path: &Bound<'_, PyBytes>) -> PyResult<()> {
        Self::remove_for_nobody(slf, paths::path(path)?)
    }

    #[pyo3(signature = (path, mode, dir_fd, /))]
    fn mkdir<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyBytes>,
        mode: u32,
        dir_fd: RawFd,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = Request::Mkdir { at: place(path, dir_fd)?, mode };
        Self::begin(slf, Strategy::Engine(request), Conversion::Nothing)
    }

    #[pyo3(signature = (src, dst, src_dir_fd, dst_dir_fd, follow_symlinks, /))]
    fn link<'py>(
        slf: &Bound<'py, Self>,
        src: &Bound<'py, PyBytes>,
        dst: &Bound<'py, PyBytes>,
        src_dir_fd: RawFd,
        dst_dir_fd: RawFd,
        follow_symlinks: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (from, to) = (place(src, src_dir_fd)?, place(dst, dst_dir_fd)?);
        let flags = if follow_symlinks { oneloop_engine::files::FOLLOW } else { 0 };
        Self::begin(slf, Strategy::Engine(Request::Link { from, to, flags }), Conversion::Nothing)
    }

    #[pyo3(signature = (target, path, dir_fd, /))]
    fn symlink<'py>(
        slf: &Bound<'py, Self>,
        target: &Bound<'py, PyBytes>,
        path: &Bound<'py, PyBytes>,
        dir_fd: RawFd,
    ) -> PyResult<Bound<'py, PyAny>> {
        let target = paths::path(target)?;
        let request = Request::Symlink { target, at: place(path, dir_fd)? };
        Self::begin(slf, Strategy::Engine(request), Conversion::Nothing)
    }
}
