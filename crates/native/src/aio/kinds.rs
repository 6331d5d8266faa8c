//! The seven kinds of request: their arguments and attributes.

use super::request::{Buffers, Options, Request, poll_mask};
use crate::ffi::fallible;
use crate::ffi::values::Value;
use oneloop_engine::files::operation::Opcode;
use pyo3::prelude::*;

/// A Python object passed as an argument.
type Argument<'py> = Bound<'py, PyAny>;

/// Reads from a file into a writable buffer.
///
/// Args:
///     file: a descriptor number, or an object with `fileno()`.
///     buffer: a writable, contiguous, bytes-like object; pinned while the request is in flight.
///     offset: the position in the file, in bytes.
///     length: how many bytes of the buffer to fill; None for all.
///     rw_flags: RWF_NOWAIT and similar flags, as in preadv2(2).
///     priority_class, priority_value: the I/O priority, as in ioprio_set(2).
///     res_fd: an eventfd that the kernel signals when the request completes.
///
/// Raises:
///     TypeError, BufferError: the buffer is not bytes-like, not contiguous or not writable.
///     ValueError: a negative offset, or a length larger than the buffer.
#[pyclass(frozen, extends = Request, module = "oneloop.aio")]
pub struct Read;

/// Writes a bytes-like object to a file. Arguments as for `Read`, but the buffer is only read.
#[pyclass(frozen, extends = Request, module = "oneloop.aio")]
pub struct Write;

/// Reads into several writable buffers, one after the other. Arguments as for `Read`, without a length.
#[pyclass(frozen, extends = Request, module = "oneloop.aio")]
pub struct ReadV;

/// Writes several bytes-like objects, one after the other. Arguments as for `Read`, without a length.
#[pyclass(frozen, extends = Request, module = "oneloop.aio")]
pub struct WriteV;

/// Waits until data written to a file, and its metadata, are on the disk: fsync(2). Covers writes whose events were
/// returned, not those in flight.
#[pyclass(frozen, extends = Request, module = "oneloop.aio")]
pub struct Fsync;

/// Like `Fsync`, without metadata that reading does not need: fdatasync(2).
#[pyclass(frozen, extends = Request, module = "oneloop.aio")]
pub struct Fdsync;

/// Waits once until a descriptor is ready for one of the events (select.POLLIN and similar). The response is the mask
/// of the events that are ready.
#[pyclass(frozen, extends = Request, module = "oneloop.aio")]
pub struct Poll;

#[pymethods]
impl Read {
    #[new]
    #[pyo3(signature = (file, buffer, offset=0, length=None, *, rw_flags=0, priority_class=0,
                        priority_value=0, res_fd=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
    fn new(
        file: Argument<'_>,
        buffer: Argument<'_>,
        offset: i64,
        length: Option<usize>,
        rw_flags: i32,
        priority_class: u16,
        priority_value: u16,
        res_fd: Option<Argument<'_>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = Options::new(rw_flags, priority_class, priority_value, res_fd)?;
        let buffers = Buffers::One(buffer.unbind());
        let request = Request::new(Opcode::Read, file, buffers, (offset, length), options)?;
        Ok(PyClassInitializer::from(request).add_subclass(Self))
    }

    /// The object that is read into.
    #[getter]
    fn buffer<'py>(slf: &Bound<'py, Self>) -> Option<Argument<'py>> {
        buffer_of(slf.as_super())
    }

    /// The number of bytes requested.
    #[getter]
    fn length(slf: &Bound<'_, Self>) -> PyResult<Value<usize>> {
        slf.as_super().get().length(slf.py()).map(Value)
    }
}

#[pymethods]
impl Write {
    #[new]
    #[pyo3(signature = (file, buffer, offset=0, length=None, *, rw_flags=0, priority_class=0,
                        priority_value=0, res_fd=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
    fn new(
        file: Argument<'_>,
        buffer: Argument<'_>,
        offset: i64,
        length: Option<usize>,
        rw_flags: i32,
        priority_class: u16,
        priority_value: u16,
        res_fd: Option<Argument<'_>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = Options::new(rw_flags, priority_class, priority_value, res_fd)?;
        let buffers = Buffers::One(buffer.unbind());
        let request = Request::new(Opcode::Write, file, buffers, (offset, length), options)?;
        Ok(PyClassInitializer::from(request).add_subclass(Self))
    }

    /// The object that is written.
    #[getter]
    fn buffer<'py>(slf: &Bound<'py, Self>) -> Option<Argument<'py>> {
        buffer_of(slf.as_super())
    }

    /// The number of bytes to write.
    #[getter]
    fn length(slf: &Bound<'_, Self>) -> PyResult<Value<usize>> {
        slf.as_super().get().length(slf.py()).map(Value)
    }
}

#[pymethods]
impl ReadV {
    #[new]
    #[pyo3(signature = (file, buffers, offset=0, *, rw_flags=0, priority_class=0,
                        priority_value=0, res_fd=None))]
    fn new(
        file: Argument<'_>,
        buffers: Argument<'_>,
        offset: i64,
        rw_flags: i32,
        priority_class: u16,
        priority_value: u16,
        res_fd: Option<Argument<'_>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = Options::new(rw_flags, priority_class, priority_value, res_fd)?;
        let buffers = all_of(&buffers)?;
        let request = Request::new(Opcode::Read, file, buffers, (offset, None), options)?;
        Ok(PyClassInitializer::from(request).add_subclass(Self))
    }

    /// The objects that are read into, as a tuple.
    #[getter]
    fn buffers<'py>(slf: &Bound<'py, Self>) -> Option<Argument<'py>> {
        buffer_of(slf.as_super())
    }
}

#[pymethods]
impl WriteV {
    #[new]
    #[pyo3(signature = (file, buffers, offset=0, *, rw_flags=0, priority_class=0,
                        priority_value=0, res_fd=None))]
    fn new(
        file: Argument<'_>,
        buffers: Argument<'_>,
        offset: i64,
        rw_flags: i32,
        priority_class: u16,
        priority_value: u16,
        res_fd: Option<Argument<'_>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = Options::new(rw_flags, priority_class, priority_value, res_fd)?;
        let buffers = all_of(&buffers)?;
        let request = Request::new(Opcode::Write, file, buffers, (offset, None), options)?;
        Ok(PyClassInitializer::from(request).add_subclass(Self))
    }

    /// The objects that are written, as a tuple.
    #[getter]
    fn buffers<'py>(slf: &Bound<'py, Self>) -> Option<Argument<'py>> {
        buffer_of(slf.as_super())
    }
}

#[pymethods]
impl Fsync {
    #[new]
    #[pyo3(signature = (file, *, priority_class=0, priority_value=0, res_fd=None))]
    fn new(
        file: Argument<'_>,
        priority_class: u16,
        priority_value: u16,
        res_fd: Option<Argument<'_>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = Options::new(0, priority_class, priority_value, res_fd)?;
        let request = Request::new(Opcode::Fsync, file, Buffers::None, (0, None), options)?;
        Ok(PyClassInitializer::from(request).add_subclass(Self))
    }
}

#[pymethods]
impl Fdsync {
    #[new]
    #[pyo3(signature = (file, *, priority_class=0, priority_value=0, res_fd=None))]
    fn new(
        file: Argument<'_>,
        priority_class: u16,
        priority_value: u16,
        res_fd: Option<Argument<'_>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = Options::new(0, priority_class, priority_value, res_fd)?;
        let request = Request::new(Opcode::Fdsync, file, Buffers::None, (0, None), options)?;
        Ok(PyClassInitializer::from(request).add_subclass(Self))
    }
}

#[pymethods]
impl Poll {
    #[new]
    #[pyo3(signature = (file, events, *, priority_class=0, priority_value=0, res_fd=None))]
    fn new(
        file: Argument<'_>,
        events: i64,
        priority_class: u16,
        priority_value: u16,
        res_fd: Option<Argument<'_>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let options = Options::new(0, priority_class, priority_value, res_fd)?;
        let opcode = Opcode::Poll { mask: poll_mask(events)? };
        let request = Request::new(opcode, file, Buffers::None, (0, None), options)?;
        Ok(PyClassInitializer::from(request).add_subclass(Self))
    }

    /// The requested poll mask.
    #[getter]
    fn events(slf: &Bound<'_, Self>) -> Value<u16> {
        Value(slf.as_super().get().poll_mask())
    }
}

fn all_of(buffers: &Argument<'_>) -> PyResult<Buffers> {
    let all: Vec<Bound<'_, PyAny>> = buffers.try_iter()?.collect::<PyResult<_>>()?;
    Ok(Buffers::Many(fallible::tuple_of(buffers.py(), all.into_iter())?.unbind()))
}

/// The buffer, or the tuple of buffers, as passed by the program.
pub fn buffer_of<'py>(request: &Bound<'py, Request>) -> Option<Argument<'py>> {
    let py = request.py();
    match &request.get().buffers {
        Buffers::None => None,
        Buffers::One(buffer) => Some(buffer.bind(py).clone()),
        Buffers::Many(all) => Some(all.bind(py).clone().into_any()),
    }
}
