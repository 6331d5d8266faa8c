//! Reads, writes, and what else works on an open file.
//!
//! A read at an offset is tried at once, in what the page cache has; all the rest is an engine's.

use super::Files;
use super::deferred::Work;
use super::descriptors::Closing;
use super::operations::{LONG, Way};
use super::pending::Want;
use crate::errors;
use crate::ffi::buffer::View;
use crate::ffi::bytes::BytesRoom;
use oneloop_engine::files::cached::{self, AtOnce, LONGEST};
use oneloop_engine::files::{Lane, Request, Segment, Transfer};
use oneloop_engine::sys::{file, memory};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::RawFd;

/// From here on malloc maps blocks, unless it is told to keep them.
const MAPPED: usize = 128 << 10;

impl Files {
    /// What has no offset may wait for ever: for a pipe's other end, a key.
    fn transfer(&self, py: Python<'_>, transfer: Transfer) -> Transfer {
        let is_file = self.descriptors.with(py, |descriptors| descriptors.is_file(transfer.fd));
        if is_file { transfer.of_file() } else { transfer }
    }

    fn begin_transfer<'py>(
        slf: &Bound<'py, Self>,
        request: Request,
        want: Want,
    ) -> PyResult<Bound<'py, PyAny>> {
        // What may take long is called back, as long as it has not begun.
        let is_near = request.fd().is_some_and(|fd| {
            slf.get().descriptors.with(slf.py(), |descriptors| descriptors.lane(fd) == Lane::Near)
        });
        if request.may_wait_for_ever() || !is_near || request.bytes() > LONG {
            return Self::begin_cancellable(slf, Way::Engine(request), want);
        }
        Self::begin(slf, Way::Engine(request), want)
    }
}

fn views(
    buffers: &Bound<'_, PyAny>,
    view: impl Fn(&Bound<'_, PyAny>) -> PyResult<View>,
) -> PyResult<Vec<View>> {
    let views: Vec<View> =
        buffers.try_iter()?.map(|buffer| view(&buffer?)).collect::<PyResult<_>>()?;
    if views.len() > 1024 {
        return Err(PyValueError::new_err("at most 1024 buffers (IOV_MAX)"));
    }
    Ok(views)
}

fn segments(views: &[View]) -> Vec<Segment> {
    views.iter().map(View::segment).collect()
}

#[pymethods]
impl Files {
    /// Up to `size` bytes; at the end of the file none.
    #[pyo3(signature = (fd, size, offset, direct, /))]
    pub(super) fn read<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        size: usize,
        offset: i64,
        direct: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if direct {
            let aligned = slf.get().scratch.with(py, |scratch| scratch.take(size));
            let mut aligned = aligned.ok_or_else(|| PyMemoryError::new_err(()))?;
            let segment = aligned.segment(size);
            let request = Request::Read(Transfer::new(fd, offset, true, &[segment]));
            return Self::begin_transfer(slf, request, Want::Aligned(aligned));
        }
        let is_tried = offset >= 0 && size <= LONGEST;
        if is_tried && !slf.get().may_work(py) {
            return Self::defer(slf, Work::Read { fd, size, offset });
        }
        if size >= MAPPED {
            memory::keep_large_blocks();
        }
        let mut room = BytesRoom::new(py, size)?;
        if is_tried {
            match cached::read(fd, room.as_mut_slice(py), offset) {
                Ok(AtOnce::Done(n)) => return Ok(room.completed(py, n)?.into_any()),
                Ok(_) => {}
                Err(e) => return Err(errors::file_error(&e)),
            }
        }
        let segment = room.segment(py);
        let transfer = slf.get().transfer(py, Transfer::new(fd, offset, false, &[segment]));
        Self::begin_transfer(slf, Request::Read(transfer), Want::Bytes(room))
    }

    /// Into writable buffers; the number of bytes.
    #[pyo3(signature = (fd, buffers, offset, direct, /))]
    fn readv<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        buffers: &Bound<'py, PyAny>,
        offset: i64,
        direct: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let mut views = views(buffers, View::writable)?;
        let len: usize = views.iter().map(View::len).sum();
        if let [view] = &mut views[..]
            && offset >= 0
            && !direct
            && len <= LONGEST
            && slf.get().may_work(py)
        {
            match cached::read(fd, view.as_mut_slice(py), offset) {
                Ok(AtOnce::Done(n)) => return n.into_bound_py_any(py),
                Ok(_) => {}
                Err(e) => return Err(errors::file_error(&e)),
            }
        }
        let transfer = Transfer::new(fd, offset, direct, &segments(&views));
        let request = Request::Read(slf.get().transfer(py, transfer));
        Self::begin_transfer(slf, request, Want::Count(views))
    }

    /// From bytes-like objects; the number of bytes, which may be less than all.
    #[pyo3(signature = (fd, buffers, offset, direct, /))]
    fn writev<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        buffers: &Bound<'py, PyAny>,
        offset: i64,
        direct: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let views = views(buffers, View::of)?;
        let transfer = this.transfer(py, Transfer::new(fd, offset, direct, &segments(&views)));
        let may_try = !direct
            && transfer.memory.len() <= LONGEST
            && this.descriptors.with(py, |descriptors| descriptors.may_write_at_once(fd))
            && this.may_work(py);
        if may_try {
            match cached::write(&transfer).map_err(|e| errors::file_error(&e))? {
                AtOnce::Done(n) => return n.into_bound_py_any(py),
                AtOnce::Unknown => this.descriptors.with(py, |descriptors| descriptors.is_mute(fd)),
                AtOnce::WouldBlock | AtOnce::Alone => {}
            }
        }
        Self::begin_transfer(slf, Request::Write(transfer), Want::Count(views))
    }

    #[pyo3(signature = (fd, datasync, /))]
    fn fsync<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        datasync: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::begin(slf, Way::Engine(Request::Sync { fd, datasync }), Want::Nothing)
    }

    #[pyo3(signature = (fd, size, /))]
    fn ftruncate<'py>(slf: &Bound<'py, Self>, fd: RawFd, size: i64) -> PyResult<Bound<'py, PyAny>> {
        Self::begin(slf, Way::Engine(Request::Truncate { fd, len: size }), Want::Nothing)
    }

    #[pyo3(signature = (fd, mode, offset, size, /))]
    fn fallocate<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        mode: i32,
        offset: i64,
        size: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = Request::Allocate { fd, mode, offset, len: size };
        Self::begin(slf, Way::Engine(request), Want::Nothing)
    }

    /// Closes when what is under way on the descriptor has ended. `clean`: nothing was written, so
    /// that closing itself has nothing to wait for.
    #[pyo3(signature = (fd, clean, /))]
    fn close<'py>(slf: &Bound<'py, Self>, fd: RawFd, clean: bool) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if this.descriptors.with(py, |descriptors| descriptors.is_busy(fd)) {
            let future = this.make_future(py)?;
            let closing = Closing { future: Some(future.clone().unbind()), clean };
            let refused =
                this.descriptors.with(py, |descriptors| descriptors.close_later(fd, closing));
            return match refused {
                None => Ok(future),
                Some(closing) => {
                    drop(closing);
                    Err(PyValueError::new_err("the descriptor is being closed already"))
                }
            };
        }
        match Self::close_now(slf, fd, clean).map_err(|e| errors::file_error(&e))? {
            None => Ok(py.None().into_bound(py)),
            Some((way, want)) => Self::begin(slf, way, want).map_err(|error| {
                // There is no thread to be had: the number is given back all the same, and the error tells why it took time.
                let closed = file::close(fd);
                closed.map_or_else(|e| errors::file_error(&e), |()| error)
            }),
        }
    }
}

#[pymethods]
impl Files {
    /// Closes a descriptor that nobody will use any more, at once or when what is under way on it has
    /// ended. Any thread that holds the GIL; no loop need run.
    #[pyo3(signature = (fd, /))]
    pub(super) fn forsake(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let is_busy = || this.descriptors.with(py, |descriptors| descriptors.is_busy(fd));
        if !this.is_shut(py) && is_busy() {
            let closing = Closing { future: None, clean: true };
            // If it is being closed already, that will do.
            let _refused =
                this.descriptors.with(py, |descriptors| descriptors.close_later(fd, closing));
            return Ok(());
        }
        Self::forsake_now(slf, fd)
    }
}

/// An empty file, or the end of one.
pub(super) fn nothing(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, b"")
}
