//! `ReadPipeTransport`: the reading end of a pipe, a socket or a character device.
//!
//! Its states are those of `Life`. At the end of file `eof_received` is called, then `connection_lost`. An exception
//! from the protocol is reported and the transport stays open, as in asyncio (S7). Upholds S2, S4.

use super::ending::{self, Body, Ending};
use super::life::{self, Life};
use super::pipe::{self, PipeEnd};
use super::receive::receive;
use super::unclosed;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::LoopCell;
use crate::ffi::object;
use crate::ffi::values::Value;
use crate::imports;
use oneloop_engine::sys::socket;
use oneloop_engine::{Interest, Readiness};
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};
use std::io;

struct State {
    life: Life,
    protocol: Option<Py<PyAny>>,
    /// Paused by the program.
    reading_paused: bool,
    /// Length of the last read. After a long one, the next goes directly into its bytes object.
    last_read: usize,
}

/// The reading end of a pipe. Has the interface of `asyncio.ReadTransport`.
///
/// Use it only in the loop's thread. Made by `connect_read_pipe` and for subprocesses.
#[pyclass(frozen, dict, weakref, module = "oneloop")]
pub struct ReadPipeTransport {
    body: Body,
    extra: Py<PyDict>,
    state: LoopCell<State>,
}

impl Ending for ReadPipeTransport {
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

    /// EIO from a terminal means that its other end is closed.
    fn is_quiet(py: Python<'_>, error: &PyErr) -> bool {
        error.is_instance_of::<PyOSError>(py)
            && error
                .value(py)
                .getattr(intern!(py, "errno"))
                .is_ok_and(|errno| errno.eq(libc::EIO).unwrap_or(false))
    }

    fn watch(&self, slf: &Bound<'_, Self>) -> io::Result<()> {
        let py = slf.py();
        let reads = self.state.with(py, |s| s.life == Life::Open && !s.reading_paused);
        let interest = if reads { Interest::READ } else { Interest::NONE };
        let fd = self.body.descriptor.fd(py)?;
        self.body.registration.set(self.body.owner.get(), slf.as_any(), fd, interest, on_ready)
    }
}

impl ReadPipeTransport {
    fn read_ready(&self, owner: &Bound<'_, LoopCore>, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let last = self.state.with(py, |s| s.last_read);
        let received = match self.body.descriptor.fd(py) {
            Ok(fd) => match receive(owner, fd, last, socket::read_both) {
                Ok(received) => received,
                Err(error) => return ending::fatal(slf, error, FATAL),
            },
            Err(e) => Err(e),
        };
        let data = match received {
            Ok(data) => data,
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                return Ok(());
            }
            Err(e) => {
                return ending::fatal(
                    slf,
                    errors::os_error_on("read", slf.get().body().descriptor.fd(slf.py()), &e),
                    FATAL,
                );
            }
        };
        let len = data.as_bytes().len();
        self.state.with(py, |s| s.last_read = len);
        if len == 0 {
            return self.end_of_file(owner, slf);
        }
        owner.get().meter.with(py, |meter| meter.bytes_in += len as u64);
        let Some(protocol) = self.protocol(py) else { return Ok(()) };
        let name = intern!(py, "data_received");
        let outcome = protocol.call_method1(name, (data,)).map(drop);
        let ended = owner.get().lap_method(owner, &protocol, name);
        let notified = outcome.or_else(|error| {
            let text = "Exception in callback: protocol.data_received() failed.";
            life::report_failure(owner, slf.as_any(), Some(&protocol), text, error)
        });
        notified.and(ended)
    }

    fn end_of_file(&self, owner: &Bound<'_, LoopCore>, slf: &Bound<'_, Self>) -> PyResult<()> {
        if owner.get().is_debug() {
            let text = format!("{} was closed by peer", slf.repr()?);
            imports::logger(owner.py())?.call_method1(intern!(owner.py(), "info"), (text,))?;
        }
        owner.get().run_soon(owner.py(), slf.clone().into_any().unbind(), tell_end_of_file);
        ending::lose(slf, None);
        Ok(())
    }

    fn set_reading_paused(slf: &Bound<'_, Self>, paused: bool) -> PyResult<()> {
        let (changed, started) = slf.get().state.with(slf.py(), |s| {
            let changed = s.life.is_live() && s.reading_paused != paused;
            s.reading_paused ^= changed;
            (changed, s.life != Life::New)
        });
        if changed && !paused {
            slf.get().body.resume_reading(slf.py());
        }
        // A transport that has not started is watched only after `connection_made`.
        let is_moot = paused && slf.get().body.owner.get().is_closed_now();
        if changed && started && !is_moot { ending::watch(slf) } else { Ok(()) }
    }
}

const FATAL: &str = "Fatal read error on pipe transport";

fn tell_end_of_file(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let this = object.cast::<ReadPipeTransport>()?.get();
    let Some(protocol) = this.protocol(py) else { return Ok(()) };
    let name = intern!(py, "eof_received");
    let notified = this.body.context.run(py, || protocol.call_method0(name).map(drop));
    let ended = owner.get().lap_method(owner, &protocol, name);
    let notified = notified.or_else(|error| {
        let text = "Exception in callback: protocol.eof_received() failed.";
        let report = || life::report_failure(owner, object, Some(&protocol), text, error);
        this.body.context.run(py, report)
    });
    notified.and(ended)
}

/// Called by the poller for a pipe.
fn on_ready(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    readiness: Readiness,
) -> PyResult<()> {
    let slf = object.cast::<ReadPipeTransport>()?;
    let this = slf.get();
    let reads = this.state.with(owner.py(), |s| s.life == Life::Open && !s.reading_paused);
    if !reads || !readiness.is_readable() || this.body.has_just_resumed(owner.py()) {
        return Ok(());
    }
    this.body.context.run(owner.py(), || this.read_ready(owner, slf))
}

#[pymethods]
impl ReadPipeTransport {
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
        let end = PipeEnd::of(owner, pipe, extra, "Pipe transport is for pipes/sockets only.")?;
        let state = State {
            life: Life::New,
            protocol: Some(protocol),
            reading_paused: false,
            last_read: 0,
        };
        let body = Body::new(owner, end.descriptor, None)?;
        let slf = Py::new(py, Self { body, extra: end.extra, state: LoopCell::new(state) })?;
        ending::begin(slf.bind(py), waiter)?;
        Ok(slf)
    }

    /// Close; `connection_lost(None)` follows, then the pipe object is closed.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        ending::close(slf)
    }

    /// True if the transport is closing or closed.
    fn is_closing(&self, py: Python<'_>) -> bool {
        !self.life(py).is_live()
    }

    /// True while data is being received.
    fn is_reading(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.life.is_live() && !s.reading_paused)
    }

    /// Stop calling `data_received()`. Does nothing if paused, closing or closed.
    fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::set_reading_paused(slf, true)
    }

    /// Resume calling `data_received()`. Does nothing if not paused, closing or closed.
    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::set_reading_paused(slf, false)
    }

    /// asyncio's name, which programs read: True between `pause_reading()` and `resume_reading()`.
    #[getter]
    fn _paused(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.reading_paused)
    }

    /// The current protocol; None once the transport is closed.
    fn get_protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.protocol(py)
    }

    /// Change the protocol. Data received from now on goes to its `data_received()`.
    fn set_protocol(&self, py: Python<'_>, protocol: Py<PyAny>) {
        let old = self.state.with(py, |s| s.protocol.replace(protocol));
        drop(old);
    }

    /// The class that `isinstance` also accepts, because native classes cannot have Python bases.
    #[getter(__class__)]
    fn presented_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::read_pipe_transport_class(py)
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
        &self,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        pipe::info(&self.extra, name, default)
    }

    fn __repr__(&self, py: Python<'_>) -> Value<String> {
        let fd = self.body.descriptor.number(py);
        let (life, paused) = self.state.with(py, |s| (s.life, s.reading_paused));
        let open = if life.is_live() { " open" } else { life.describe() };
        let reads = if life == Life::Open && !paused { "polling" } else { "idle" };
        Value(format!("<ReadPipeTransport{open} fd={fd} {reads}>"))
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

impl Drop for ReadPipeTransport {
    fn drop(&mut self) {
        if self.state.peek(|_| ()).is_some() {
            unclosed::end(&self.body, None, |py| self.__repr__(py).0);
        }
    }
}
