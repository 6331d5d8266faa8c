//! Reads, writes and other operations on an open file.
//!
//! A read at an offset is first tried in the page cache; an engine does the rest.

use super::Files;
use super::cancel::Abandoned;
use super::deferred::Work;
use super::descriptors::Closing;
use super::operations::{LONG, Strategy};
use super::pending::Conversion;
use crate::errors;
use crate::ffi::buffer::View;
use crate::ffi::bytes::{BytesRoom, as_uninit};
use crate::ffi::values::ToPython;
use oneloop_engine::files::cached::{self, AtOnce, LONGEST};
use oneloop_engine::files::{Lane, Request, Segment, Transfer, blocking};
use oneloop_engine::sys::{file, memory};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use std::os::fd::RawFd;
use std::sync::Arc;

/// malloc maps blocks of this size and above, unless it was tuned to keep them.
const MAPPED: usize = 128 << 10;

impl Files {
    /// A transfer without an offset may wait forever, for a pipe's other end or a key press.
    fn transfer(&self, py: Python<'_>, transfer: Transfer) -> Transfer {
        let is_file = self.descriptors.with(py, |descriptors| descriptors.is_file(transfer.fd));
        if is_file { transfer.of_file() } else { transfer }
    }

    /// A long read of a file opened with O_DIRECT, by a thread: `bytes` are not aligned, so all of it has to be copied.
    fn read_direct<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        size: usize,
        offset: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let mut room = BytesRoom::new(py, size)?;
        let segment = room.segment(py);
        let lane = match this.descriptors.with(py, |descriptors| descriptors.lane(fd)) {
            Lane::Local => Lane::Bulk,
            lane => lane,
        };
        let abandoned = Abandoned::default();
        let theirs = Arc::clone(&abandoned);
        let work = move || blocking::read_direct(fd, offset, segment, &theirs);
        // The number must not be released meanwhile.
        this.descriptors.with(py, |descriptors| descriptors.begin(fd));
        let (strategy, conversion) =
            (Strategy::Call(Box::new(work), lane), Conversion::BytesOfThread(room, fd));
        let started = Self::begin_abandonable(slf, strategy, conversion, abandoned);
        if started.is_err() {
            Self::has_ended(slf, fd)?;
        }
        started
    }

    fn begin_transfer<'py>(
        slf: &Bound<'py, Self>,
        request: Request,
        conversion: Conversion,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A transfer that may take long can be cancelled, as long as it has not started.
        let is_local = request.fd().is_some_and(|fd| {
            slf.get().descriptors.with(slf.py(), |descriptors| descriptors.lane(fd) == Lane::Local)
        });
        if request.may_wait_for_ever() || !is_local || request.bytes() > LONG {
            return Self::begin_cancellable(slf, Strategy::Engine(request), conversion);
        }
        Self::begin(slf, Strategy::Engine(request), conversion)
    }
}

fn views(
    buffers: &Bound<'_, PyAny>,
    view: impl Fn(&Bound<'_, PyAny>) -> PyResult<View>,
) -> PyResult<Vec<View>> {
    let views: Vec<View> =
        buffers.try_iter()?.map(|buffer| view(&buffer?)).collect::<PyResult<_>>()?;
    if views.len() > 1024 {
        return Err(PyValueError::new_err("too many buffers: at most 1024 are allowed (IOV_MAX)"));
    }
    Ok(views)
}

/// Whether nobody can change the bytes: `bytes`, or a view of them.
pub(super) fn is_immutable(buffer: &Bound<'_, PyAny>) -> bool {
    if buffer.is_exact_instance_of::<PyBytes>() {
        return true;
    }
    let is_of_bytes = || -> PyResult<bool> {
        let view = buffer.cast::<PyMemoryView>()?;
        let exporter = view.getattr(intern!(buffer.py(), "obj"))?;
        Ok(exporter.is_exact_instance_of::<PyBytes>())
    };
    // Whatever it is instead, it may be mutable.
    is_of_bytes().unwrap_or(false)
}

fn segments(views: &[View]) -> Vec<Segment> {
    views.iter().map(View::segment).collect()
}

#[pymethods]
impl Files {
    /// Read up to `size` bytes; b"" at the end of the file.
    #[pyo3(signature = (fd, size, offset, direct, /))]
    pub(super) fn read<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        size: usize,
        offset: i64,
        direct: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if direct && size > LONG {
            return Self::read_direct(slf, fd, size, offset);
        }
        if direct {
            let aligned = slf.get().scratch.with(py, |scratch| scratch.take(size));
            let mut aligned = aligned.ok_or_else(|| PyMemoryError::new_err(()))?;
            let segment = aligned.segment(size);
            let request = Request::Read(Transfer::new(fd, offset, true, &[segment]));
            return Self::begin_transfer(slf, request, Conversion::Aligned(aligned));
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
        Self::begin_transfer(slf, Request::Read(transfer), Conversion::Bytes(room, 0))
    }

    /// Like `read`, but the result begins with `head`: the file's content before `offset`, which was read ahead. So one
    /// buffer is enough for both.
    #[pyo3(signature = (fd, head, size, offset, /))]
    fn read_after<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        head: &Bound<'py, PyBytes>,
        size: usize,
        offset: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let before = head.as_bytes().len();
        memory::keep_large_blocks();
        let mut room = BytesRoom::new(py, size.saturating_add(before))?;
        room.as_mut_slice(py)[..before].copy_from_slice(as_uninit(head.as_bytes()));
        let segment = room.segment(py).skip(before);
        let transfer = slf.get().transfer(py, Transfer::new(fd, offset, false, &[segment]));
        Self::begin_transfer(slf, Request::Read(transfer), Conversion::Bytes(room, before))
    }

    /// Read into writable buffers; returns the number of bytes.
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
                Ok(AtOnce::Done(n)) => return n.to_python(py),
                Ok(_) => {}
                Err(e) => return Err(errors::file_error(&e)),
            }
        }
        let transfer = Transfer::new(fd, offset, direct, &segments(&views));
        let request = Request::Read(slf.get().transfer(py, transfer));
        Self::begin_borrowing(slf, Strategy::Engine(request), Conversion::Count(views), None)
    }

    /// Write bytes-like objects; returns the number of bytes, which may be less than all.
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
                AtOnce::Done(n) => return n.to_python(py),
                AtOnce::Unknown => this.descriptors.with(py, |descriptors| descriptors.is_mute(fd)),
                AtOnce::WouldBlock | AtOnce::Short | AtOnce::Unbounded => {}
            }
        }
        let conversion = Conversion::Count(views);
        let is_owned = buffers.try_iter()?.all(|buffer| buffer.is_ok_and(|b| is_immutable(&b)));
        if is_owned {
            return Self::begin_transfer(slf, Request::Write(transfer), conversion);
        }
        Self::begin_borrowing(slf, Strategy::Engine(Request::Write(transfer)), conversion, None)
    }

    #[pyo3(signature = (fd, datasync, /))]
    fn fsync<'py>(
        slf: &Bound<'py, Self>,
        fd: RawFd,
        datasync: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::begin(slf, Strategy::Engine(Request::Sync { fd, datasync }), Conversion::Nothing)
    }

    #[pyo3(signature = (fd, size, /))]
    fn ftruncate<'py>(slf: &Bound<'py, Self>, fd: RawFd, size: i64) -> PyResult<Bound<'py, PyAny>> {
        Self::begin(slf, Strategy::Engine(Request::Truncate { fd, len: size }), Conversion::Nothing)
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
        Self::begin(slf, Strategy::Engine(request), Conversion::Nothing)
    }

    /// Close when all running operations on the descriptor have ended. `clean`: nothing was written, so the close
    /// itself does not have to wait.
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
                    Err(PyValueError::new_err("the descriptor is already being closed"))
                }
            };
        }
        match Self::close_now(slf, fd, clean).map_err(|e| errors::file_error(&e))? {
            None => Ok(py.None().into_bound(py)),
            Some((strategy, conversion)) => {
                Self::begin(slf, strategy, conversion).map_err(|error| {
                    // No thread could be started. Close anyway, and report the error, because this close may have
                    // blocked.
                    let closed = file::close(fd);
                    closed.map_or_else(|e| errors::file_error(&e), |()| error)
                })
            }
        }
    }
}

#[pymethods]
impl Files {
    /// Close a descriptor that nobody will use any more, immediately or when its running operations have ended. May
    /// be called from any thread that holds the GIL, whether or not a loop runs.
    #[pyo3(signature = (fd, /))]
    pub(super) fn forsake(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let is_busy = || this.descriptors.with(py, |descriptors| descriptors.is_busy(fd));
        if !this.is_shut(py) && is_busy() {
            let closing = Closing { future: None, clean: true };
            // If it is already being closed, that is enough.
            let _refused =
                this.descriptors.with(py, |descriptors| descriptors.close_later(fd, closing));
            return Ok(());
        }
        Self::forsake_now(slf, fd)
    }
}

/// The content of an empty file, or of a read at the end of one.
pub(super) fn nothing(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, b"")
}
