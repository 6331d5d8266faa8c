//! `WritePipeTransport`: the writing end of a pipe, a socket or a character device.
//!
//! Its states are those of `Life`; queued data is sent before a close. If the reader is gone, a pipe reports an error
//! and a socket becomes readable. The transport then ends, with BrokenPipeError if data was still queued. Upholds S2,
//! S4, S7.

use super::ending::{self, Body, Ending};
use super::life::Life;
use super::pipe::{self, PipeEnd, PipeKind};
use super::sending::{self, Outgoing, Sending};
use super::unclosed;
use super::write_queue::Channel;
use crate::event_loop::LoopCore;
use crate::ffi::LoopCell;
use crate::ffi::fallible;
use crate::ffi::object;
use crate::ffi::values::Value;
use crate::imports;
use oneloop_engine::{Interest, Readiness};
use pyo3::exceptions::{PyAssertionError, PyBrokenPipeError, PyNotImplementedError, PyOSError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};
use std::io;

struct State {
    life: Life,
    protocol: Option<Py<PyAny>>,
    out: Outgoing,
}

/// The writing end of a pipe. Has the interface of `asyncio.WriteTransport`.
///
/// Use it only in the loop's thread. Made by `connect_write_pipe` and for subprocesses.
#[pyclass(frozen, dict, weakref, module = "oneloop")]
pub struct WritePipeTransport {
    body: Body,
    kind: PipeKind,
    extra: Py<PyDict>,
    state: LoopCell<State>,
}

impl Ending for WritePipeTransport {
    fn body(&self) -> &Body {
        &self.body
    }

    fn life(&self, py: Python<'_>) -> Life {
        self.state.with(py, |s| s.life)
    }

    fn set_life(&self, py: Python<'_>, life: Life) {
        self.state.with(py, |s| s.life = life);
    }

    fn protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.state.with(py, |s| s.protocol.as_ref().map(|p| p.bind(py).clone()))
    }

    fn forget_protocol(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| s.protocol.take());
        drop(old);
    }

    fn send_gathered(slf: &Bound<'_, Self>) -> PyResult<()> {
        sending::send_gathered(slf)
    }

    fn is_drained(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.out.queue.is_empty())
    }

    fn clear_queue(&self, py: Python<'_>) {
        sending::clear(self, py);
    }

    fn is_quiet(py: Python<'_>, error: &PyErr) -> bool {
        error.is_instance_of::<PyOSError>(py)
    }

    fn watch(&self, slf: &Bound<'_, Self>) -> io::Result<()> {
        let py = slf.py();
        let mut interest = Interest::NONE;
        if self.watches_reader(py) {
            interest = interest | Interest::READ;
        }
        if self.state.with(py, |s| s.out.blocked) {
            interest = interest | Interest::WRITE;
        }
        // Some character devices (/dev/null) cannot be watched, and need not be while they take what is written.
        if interest == Interest::NONE && !self.body.registration.exists(py) {
            return Ok(());
        }
        let fd = self.body.descriptor.fd(py)?;
        self.body.registration.set(self.body.owner.get(), slf.as_any(), fd, interest, on_ready)
    }
}

impl Sending for WritePipeTransport {
    const CHANNEL: Channel = Channel::Pipe;

    fn outgoing<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Outgoing) -> R) -> R {
        self.state.with(py, |s| f(&mut s.out))
    }

    fn drained(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        if self.life(slf.py()) == Life::Closing { ending::end_now(slf) } else { Ok(()) }
    }

    fn send_failed(&self, slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        ending::fatal(slf, error, "Fatal write error on pipe transport")
    }
}

impl WritePipeTransport {
    /// Readability means that the reader is gone, except for a terminal, which has input.
    fn watches_reader(&self, py: Python<'_>) -> bool {
        let started = matches!(self.life(py), Life::Open | Life::Closing);
        started && self.kind != PipeKind::Character
    }

    fn reader_gone(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if self.body.owner.get().is_debug() {
            let text = format!("{} was closed by peer", slf.repr()?);
            imports::logger(py)?.call_method1(intern!(py, "info"), (text,))?;
        }
        let lost = self.state.with(py, |s| !s.out.queue.is_empty());
        let exc = lost.then(|| PyBrokenPipeError::new_err(()).into_value(py).into_bound(py));
        ending::force_close(slf, exc.map(Bound::into_any));
        Ok(())
    }
}

/// Called by the poller for a pipe.
fn on_ready(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    readiness: Readiness,
) -> PyResult<()> {
    let slf = object.cast::<WritePipeTransport>()?;
    let this = slf.get();
    let py = owner.py();
    if readiness.is_readable() && this.watches_reader(py) {
        return this.body.context.run(py, || this.reader_gone(slf));
    }
    if readiness.is_writable() && this.state.with(py, |s| s.out.blocked) {
        return sending::send(slf);
    }
    Ok(())
}

#[pymethods]
impl WritePipeTransport {
    #[new]
    #[pyo3(signature = (owner, pipe, protocol, waiter = None, extra = None))]
    fn new(
        owner: &Bound<'_, LoopCore>,
        pipe: &Bound<'_, PyAny>,
        protocol: Py<PyAny>,
        waiter: Option<Py<PyAny>>,
        extra: Option<Py<PyDict>>,
    ) -> PyResult<Py<Self>> {
        let py = owner.py();
        let text = "Pipe transport is only for pipes, sockets and character devices";
        let PipeEnd { descriptor, kind, extra } = PipeEnd::of(owner, pipe, extra, text)?;
        let state = State { life: Life::New, protocol: Some(protocol), out: Outgoing::default() };
        let body = Body::new(owner, descriptor, None)?;
        let slf = Py::new(py, Self { body, kind, extra, state: LoopCell::new(state) })?;
        ending::begin(slf.bind(py), waiter)?;
        Ok(slf)
    }

    /// Send bytes-like data, or queue what the pipe does not take.
    ///
    /// Raises AssertionError for anything but bytes, bytearray and memoryview, as in asyncio. Data written after
    /// `close()` or after the reader is gone is dropped.
    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        if !sending::is_bytes_like(data) {
            return Err(PyAssertionError::new_err(data.repr()?.unbind()));
        }
        if slf.get().life(slf.py()).is_live() {
            return sending::push(slf, data);
        }
        if !data.is_truthy()? {
            return Ok(());
        }
        let text = "pipe closed by peer or os.write(pipe, data) raised exception.";
        sending::write_after_loss(slf, text)
    }

    /// Send several bytes-like objects, in order. Raises TypeError if one of them is not bytes-like; then none is
    /// sent.
    fn writelines(slf: &Bound<'_, Self>, list_of_data: &Bound<'_, PyAny>) -> PyResult<()> {
        let joined = fallible::bytes(slf.py(), b"")?
            .call_method1(intern!(slf.py(), "join"), (list_of_data,))?;
        Self::write(slf, &joined)
    }

    /// Return True: closing is a pipe's end of file.
    fn can_write_eof(&self) -> bool {
        true
    }

    /// The same as `close()`.
    fn write_eof(slf: &Bound<'_, Self>) -> PyResult<()> {
        ending::close(slf)
    }

    /// Close after all queued data is sent; `connection_lost(None)` follows.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        ending::close(slf)
    }

    /// Close immediately and drop data that the pipe has not taken; `connection_lost(None)` follows.
    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        ending::abort(slf, None)
    }

    /// True if the transport is closing or closed.
    fn is_closing(slf: &Bound<'_, Self>) -> PyResult<bool> {
        // As in `StreamTransport.is_closing`.
        sending::send_gathered(slf)?;
        Ok(!slf.get().life(slf.py()).is_live())
    }

    /// The current protocol; None once the transport is closed.
    fn get_protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.protocol(py)
    }

    /// Change the protocol.
    fn set_protocol(&self, py: Python<'_>, protocol: Py<PyAny>) {
        let old = self.state.with(py, |s| s.protocol.replace(protocol));
        drop(old);
    }

    /// asyncio's write pipes have the reading methods, which raise NotImplementedError.
    fn pause_reading(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err(()))
    }

    fn resume_reading(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err(()))
    }

    fn is_reading(&self) -> PyResult<bool> {
        Err(PyNotImplementedError::new_err(()))
    }

    /// The class that `isinstance` also accepts, because native classes cannot have Python bases.
    #[getter(__class__)]
    fn presented_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::write_pipe_transport_class(py)
    }

    #[getter]
    fn _pipe<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.body.descriptor.socket(py)
    }

    /// Code that has closed the pipe object itself assigns None, to avoid the ResourceWarning.
    #[setter(_pipe)]
    fn release_pipe(&self, py: Python<'_>, _none: Option<Py<PyAny>>) {
        self.body.descriptor.release(py);
    }

    #[getter]
    fn _loop<'py>(&self, py: Python<'py>) -> Bound<'py, LoopCore> {
        self.body.owner.bind(py).clone()
    }

    /// Return information about the transport: `pipe`, and what the code that made it added. Returns `default` for an
    /// unknown name.
    #[pyo3(signature = (name, default = None))]
    fn get_extra_info<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        sending::send_gathered(slf)?;
        pipe::info(&slf.get().extra, name, default)
    }

    /// Return the number of bytes that are queued and not sent.
    fn get_write_buffer_size(slf: &Bound<'_, Self>) -> PyResult<Value<usize>> {
        sending::queued_len(slf).map(Value)
    }

    /// Return the water marks as `(low, high)`, in bytes.
    fn get_write_buffer_limits(&self, py: Python<'_>) -> Value<(usize, usize)> {
        Value(self.state.with(py, |s| s.out.flow.limits()))
    }

    /// Set the water marks, in bytes: `pause_writing()` is called above `high`, `resume_writing()` at `low` or below.
    /// Raises ValueError unless high >= low >= 0.
    #[pyo3(signature = (high = None, low = None))]
    fn set_write_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<super::flow::Mark>,
        low: Option<super::flow::Mark>,
    ) -> PyResult<()> {
        sending::set_limits(slf, high, low)
    }

    fn __repr__(&self, py: Python<'_>) -> Value<String> {
        let fd = self.body.descriptor.number(py);
        Value(self.state.with(py, |s| {
            let open = if s.life.is_live() { " open" } else { s.life.describe() };
            let write = if s.out.blocked { "polling" } else { "idle" };
            let len = s.out.queue.len_bytes();
            format!("<WritePipeTransport{open} fd={fd} {write} bufsize={len}>")
        }))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !object::is_made(&self.extra) {
            return Ok(());
        }
        self.body.visit(&visit)?;
        visit.call(&self.extra)?;
        self.state.peek(|s| visit.call(&s.protocol)).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        self.forget_protocol(py);
    }
}

impl Drop for WritePipeTransport {
    fn drop(&mut self) {
        if self.state.peek(|_| ()).is_some() {
            unclosed::end(&self.body, None, |py| self.__repr__(py).0);
        }
    }
}
