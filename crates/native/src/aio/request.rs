//! `Request`: one operation as described by a program, and its state.
//!
//! | flight | leads to |
//! |---|---|
//! | none | offered to a context → offered |
//! | offered | refused → none; accepted → in flight |
//! | in flight, with its key (S4) | its completion was collected → none |
//!
//! A request does not change and may be submitted again after its completion. Buffers are checked when it is made and
//! pinned when it is submitted, so they may be resized in between.

use crate::ffi::LoopCell;
use crate::ffi::buffer::View;
use crate::ffi::pinned::{self, Frame, Pinned};
use crate::ffi::values::Value;
use oneloop_engine::files::operation::{Opcode, Operation};
use oneloop_engine::files::slots::Key;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::os::fd::RawFd;

/// The number of value bits in a priority; the class is above them (linux/ioprio.h).
const CLASS_SHIFT: u16 = 13;

/// Identifies the context of a request; unique in a process.
pub type ContextId = u64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flight {
    None,
    Offered(ContextId),
    In(ContextId, Key),
}

/// An int, or an object with `fileno()`, which is called on every use: the object may have been closed and its number
/// reused for another file (S4).
pub struct Source(Py<PyAny>);

impl Source {
    fn of(file: Bound<'_, PyAny>) -> PyResult<Self> {
        let source = Self(file.unbind());
        Python::attach(|py| source.fd(py)).map(|_| source)
    }

    fn fd(&self, py: Python<'_>) -> PyResult<RawFd> {
        let file = self.0.bind(py);
        if file.is_instance_of::<PyInt>() {
            return file.extract();
        }
        file.call_method0(intern!(py, "fileno"))?.extract()
    }
}

pub enum Buffers {
    None,
    One(Py<PyAny>),
    Many(Py<PyTuple>),
}

/// The optional arguments of every kind of request.
pub struct Options {
    pub rw_flags: i32,
    /// Class and value, as in ioprio_set(2).
    pub priority: u16,
    pub res_fd: Option<Source>,
}

impl Options {
    pub fn new(
        rw_flags: i32,
        priority_class: u16,
        priority_value: u16,
        res_fd: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let highest = (1 << CLASS_SHIFT) - 1;
        if priority_class > u16::MAX >> CLASS_SHIFT || priority_value > highest {
            return Err(PyValueError::new_err(format!(
                "invalid I/O priority: class {priority_class}, value {priority_value}"
            )));
        }
        let priority = priority_class << CLASS_SHIFT | priority_value;
        Ok(Self { rw_flags, priority, res_fd: res_fd.map(Source::of).transpose()? })
    }
}

/// Base class of all requests. Use its subclasses.
#[pyclass(frozen, subclass, module = "oneloop.aio")]
pub struct Request {
    opcode: Opcode,
    file: Source,
    pub buffers: Buffers,
    offset: i64,
    /// For a single buffer: the number of bytes to use. `None`: all.
    limit: Option<usize>,
    options: Options,
    flight: LoopCell<Flight>,
}

impl Request {
    pub fn new(
        opcode: Opcode,
        file: Bound<'_, PyAny>,
        buffers: Buffers,
        place: (i64, Option<usize>),
        options: Options,
    ) -> PyResult<Self> {
        let py = file.py();
        let (offset, limit) = place;
        if offset < 0 {
            return Err(PyValueError::new_err(format!("the offset is negative: {offset}")));
        }
        let flight = LoopCell::new(Flight::None);
        let file = Source::of(file)?;
        let made = Self { opcode, file, buffers, offset, limit, options, flight };
        made.views(py)?;
        Ok(made)
    }

    /// Pins the buffers. TypeError or BufferError for objects without a buffer, or with a read-only one for a read.
    fn views(&self, py: Python<'_>) -> PyResult<Vec<View>> {
        let view = |buffer: &Bound<'_, PyAny>| match self.opcode {
            Opcode::Read => View::writable(buffer),
            _ => View::of(buffer),
        };
        let views = match &self.buffers {
            Buffers::None => Vec::new(),
            Buffers::One(buffer) => vec![view(buffer.bind(py))?],
            Buffers::Many(all) => {
                all.bind(py).iter().map(|one| view(&one)).collect::<PyResult<_>>()?
            }
        };
        if let (Some(limit), [only]) = (self.limit, &views[..])
            && limit > only.len()
        {
            return Err(PyValueError::new_err(format!(
                "the length is {limit}, but the buffer has {} bytes",
                only.len()
            )));
        }
        Ok(views)
    }

    /// The engine's operation, which keeps the request and its buffers alive.
    pub fn operation(slf: &Bound<'_, Self>) -> PyResult<Operation<Pinned<Py<Self>>>> {
        let (py, this) = (slf.py(), slf.get());
        let frame = Frame {
            opcode: this.opcode,
            fd: this.file.fd(py)?,
            offset: this.offset,
            rw_flags: this.options.rw_flags,
            priority: this.options.priority,
            resfd: this.options.res_fd.as_ref().map(|fd| fd.fd(py)).transpose()?,
        };
        let limit = this.limit.unwrap_or(usize::MAX);
        Ok(pinned::operation(frame, this.views(py)?, limit, slf.clone().unbind()))
    }

    /// Marks it as being submitted. ValueError: it already is, or is in flight.
    pub fn offer(&self, py: Python<'_>, context: ContextId) -> PyResult<()> {
        let is_free = self.flight.with(py, |flight| {
            let is_free = *flight == Flight::None;
            if is_free {
                *flight = Flight::Offered(context);
            }
            is_free
        });
        if is_free {
            return Ok(());
        }
        Err(PyValueError::new_err(
            "the request is already in flight: it can be submitted again \
             after get_events() has returned its event",
        ))
    }

    /// The kernel has accepted it. Another thread may already have collected its completion.
    pub fn take_off(&self, py: Python<'_>, context: ContextId, key: Key) {
        self.flight.with(py, |flight| {
            if *flight == Flight::Offered(context) {
                *flight = Flight::In(context, key);
            }
        });
    }

    /// Refused or completed.
    pub fn land(&self, py: Python<'_>) {
        self.flight.set(py, Flight::None);
    }

    /// Its key, if it is in flight in this context.
    pub fn key(&self, py: Python<'_>, context: ContextId) -> Option<Key> {
        match self.flight.get(py) {
            Flight::In(its, key) if its == context => Some(key),
            _ => None,
        }
    }

    pub fn operation_name(&self) -> &'static str {
        match self.opcode {
            Opcode::Read => "read",
            Opcode::Write => "write",
            Opcode::Fsync => "fsync",
            Opcode::Fdsync => "fdatasync",
            Opcode::Poll { .. } => "poll",
        }
    }

    pub fn poll_mask(&self) -> u16 {
        if let Opcode::Poll { mask } = self.opcode { mask } else { 0 }
    }

    /// The number of bytes of its single buffer to use.
    pub fn length(&self, py: Python<'_>) -> PyResult<usize> {
        let whole = || self.views(py).map(|views| views.iter().map(View::len).sum());
        self.limit.map_or_else(whole, Ok)
    }
}

#[pymethods]
impl Request {
    /// The `file` argument: a descriptor number or an object with `fileno()`.
    #[getter]
    fn file<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.file.0.bind(py).clone()
    }

    /// The position in the file, in bytes.
    #[getter]
    fn offset(&self) -> Value<i64> {
        Value(self.offset)
    }

    /// RWF_NOWAIT and similar flags, as in preadv2(2).
    #[getter]
    fn rw_flags(&self) -> Value<i32> {
        Value(self.options.rw_flags)
    }

    /// The class of its I/O priority.
    #[getter]
    fn priority_class(&self) -> Value<u16> {
        Value(self.options.priority >> CLASS_SHIFT)
    }

    /// Its I/O priority within the class.
    #[getter]
    fn priority_value(&self) -> Value<u16> {
        Value(self.options.priority & ((1 << CLASS_SHIFT) - 1))
    }

    /// The eventfd that the kernel signals when it completes, or None.
    #[getter]
    fn res_fd<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.options.res_fd.as_ref().map(|fd| fd.0.bind(py).clone())
    }

    /// True from its submission until `get_events()` has returned its event.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> bool {
        self.flight.get(py) != Flight::None
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<Value<String>> {
        let this = slf.get();
        let kind = slf.get_type().name()?.to_string();
        let file = this.file.0.bind(slf.py()).repr()?;
        let state = if this.in_flight(slf.py()) { " in flight" } else { "" };
        Ok(Value(format!("<{kind} {file} offset={}{state}>", this.offset)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.file.0)?;
        if let Some(fd) = &self.options.res_fd {
            visit.call(&fd.0)?;
        }
        match &self.buffers {
            Buffers::None => Ok(()),
            Buffers::One(buffer) => visit.call(buffer),
            Buffers::Many(buffers) => visit.call(buffers),
        }
    }
}

/// A mask for poll(2); OverflowError if it has more than 16 bits.
pub fn poll_mask(events: i64) -> PyResult<u16> {
    u16::try_from(events)
        .map_err(|_| PyOverflowError::new_err(format!("invalid mask of poll events: {events:#x}")))
}
