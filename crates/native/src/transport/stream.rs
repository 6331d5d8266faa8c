//! `StreamTransport`: one connection of bytes, over a TCP or Unix socket.
//!
//! Its states are those of `Life`, its life cycle is in `Ending`. Reading and writing are in `stream_read` and
//! `stream_write`. Upholds S2 (state is accessed in short closures, callbacks run outside), S4 (`Descriptor`), S7.

use super::descriptor::Descriptor;
use super::ending::{self, Body, Ending};
use super::endpoint::Endpoint;
use super::life::{self, Life};
use super::protocol::StreamProtocol;
use super::sending::{self, Outgoing};
use super::unclosed;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use crate::imports;
use oneloop_engine::{Interest, Readiness};
use pyo3::exceptions::{PyConnectionError, PyOSError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::types::PyString;
use pyo3::{PyTraverseError, PyVisit};
use std::io;

pub struct State {
    pub life: Life,
    pub protocol: Option<StreamProtocol>,
    pub out: Outgoing,
    /// Paused by the program.
    pub reading_paused: bool,
    /// How often `pause_reading()` was called.
    pub pauses: u64,
    /// The peer has ended its side; no more data will arrive.
    pub read_eof: bool,
    /// `write_eof` was called; the shutdown follows when the queue is empty.
    pub write_eof: bool,
    /// Length of the last read. After a long one, the next goes directly into its bytes object.
    pub last_read: usize,
    /// A future with which `sendfile` waits for the queue to drain.
    pub empty_waiter: Option<Py<PyAny>>,
    /// Futures that wait for the socket to become writable (`sendfile`).
    pub writable_waiters: Vec<Py<PyAny>>,
}

impl State {
    fn reads(&self) -> bool {
        self.life == Life::Open && !self.reading_paused && !self.read_eof
    }

    fn writes(&self) -> bool {
        self.out.blocked || !self.writable_waiters.is_empty()
    }
}

/// A bidirectional stream over a connected socket. Has the interface of `asyncio.Transport`.
///
/// Use it only in the loop's thread. Made by `create_connection`, `create_server` and similar methods.
#[pyclass(frozen, weakref, module = "oneloop", name = "StreamTransport")]
pub struct StreamTransport {
    pub body: Body,
    pub endpoint: Endpoint,
    /// Set once the server counts this connection.
    server: LoopCell<Option<Py<PyAny>>>,
    pub state: LoopCell<State>,
}

impl Ending for StreamTransport {
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
        self.state.with(py, |s| s.protocol.as_ref().map(|p| p.object.bind(py).clone()))
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

    /// Network errors go only to the protocol; others are also reported, as in asyncio.
    fn is_quiet(py: Python<'_>, error: &PyErr) -> bool {
        error.is_instance_of::<PyOSError>(py)
    }

    fn watch(&self, slf: &Bound<'_, Self>) -> io::Result<()> {
        let py = slf.py();
        let (interest, life) = self.state.with(py, |s| {
            let mut interest = Interest::NONE;
            if s.reads() {
                interest = interest | Interest::READ;
            }
            if s.writes() {
                interest = interest | Interest::WRITE;
            }
            (interest, s.life)
        });
        if life == Life::New {
            return Ok(());
        }
        let fd = self.body.descriptor.fd(py)?;
        self.body.registration.set(self.body.owner.get(), slf.as_any(), fd, interest, on_ready)
    }

    fn before_close(&self, py: Python<'_>) {
        // The address must outlive the descriptor, as in asyncio.
        if let Ok(fd) = self.body.descriptor.fd(py) {
            self.endpoint.remember_local(py, fd);
        }
    }

    fn closed(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (empty, waiters) = this
            .state
            .with(py, |s| (s.empty_waiter.take(), std::mem::take(&mut s.writable_waiters)));
        let fail = |waiter: &Py<PyAny>| {
            life::fail(waiter.bind(py), PyConnectionError::new_err("Connection is closed by peer"))
        };
        let failed = empty.iter().chain(&waiters).map(fail).fold(Ok(()), PyResult::and);
        let server = this.server.with(py, |own| own.as_ref().map(|server| server.bind(py).clone()));
        let told =
            server.map_or(Ok(()), |server| Self::tell_server(slf, &server, intern!(py, "_detach")));
        told.and(failed)
    }
}

impl StreamTransport {
    pub fn make(
        owner: &Bound<'_, LoopCore>,
        descriptor: Descriptor,
        protocol: &Bound<'_, PyAny>,
        context: Option<Py<PyAny>>,
        endpoint: Endpoint,
        server: Option<Py<PyAny>>,
    ) -> PyResult<Py<Self>> {
        let py = owner.py();
        let protocol = StreamProtocol::new(protocol)?;
        let state = State {
            life: Life::New,
            out: Outgoing::gathering_unless(protocol.writes_through),
            protocol: Some(protocol),
            reading_paused: false,
            pauses: 0,
            read_eof: false,
            write_eof: false,
            last_read: 0,
            empty_waiter: None,
            writable_waiters: Vec::new(),
        };
        let body = Body::new(owner, descriptor, context)?;
        let (counted_by, state) = (LoopCell::new(None), LoopCell::new(state));
        let slf = Py::new(py, Self { body, endpoint, server: counted_by, state })?;
        if let Some(server) = server {
            Self::tell_server(slf.bind(py), server.bind(py), intern!(py, "_attach"))?;
            slf.get().server.with(py, |own| *own = Some(server));
        }
        Ok(slf)
    }

    /// Tells the server that it has one connection more or one less.
    fn tell_server(
        slf: &Bound<'_, Self>,
        server: &Bound<'_, PyAny>,
        method: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let told = if cfg!(Py_3_13) {
            server.call_method1(method, (slf,))
        } else {
            server.call_method0(method)
        };
        told.map(drop)
    }

    /// Starts an accepted connection: calls `connection_made` immediately, then starts reading.
    pub fn start(owner: &Bound<'_, LoopCore>, slf: &Bound<'_, Self>) -> PyResult<()> {
        owner.get().meter.with(owner.py(), |meter| meter.open_transports += 1);
        ending::start(owner, slf)
    }
}

/// Called by the poller for a connection.
fn on_ready(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    readiness: Readiness,
) -> PyResult<()> {
    let slf = object.cast::<StreamTransport>()?;
    let this = slf.get();
    let py = owner.py();
    let (reads, writes) = this.state.with(py, |s| (s.reads(), s.writes()));
    if reads && readiness.is_readable() && !this.body.has_just_resumed(py) {
        this.body.context.run(py, || this.read_ready(owner, slf))?;
    }
    // The protocol may have closed it.
    if writes && readiness.is_writable() && this.state.with(py, |s| s.writes()) {
        this.write_ready(owner, slf)?;
    }
    Ok(())
}

#[pymethods]
impl StreamTransport {
    #[new]
    #[pyo3(signature = (owner, sock, protocol, waiter = None, extra = None, server = None, context = None))]
    fn new(
        owner: &Bound<'_, LoopCore>,
        sock: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        waiter: Option<Py<PyAny>>,
        extra: Option<Py<PyDict>>,
        server: Option<Py<PyAny>>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<Py<Self>> {
        let py = owner.py();
        owner.get().check_closed()?;
        let descriptor = Descriptor::of_object(sock)?;
        let endpoint = Endpoint::of_socket(sock, extra)?;
        let fd = descriptor.fd(py).map_err(|e| errors::os_error("socket", &e))?;
        life::refuse_taken(owner, fd)?;
        // In Python 3.15 the caller can pass the context of a connection.
        let slf = Self::make(owner, descriptor, protocol, context, endpoint, server)?;
        ending::begin(slf.bind(py), waiter)?;
        owner.get().add_unbegun(py, fd, Object::new(slf.bind(py).clone().into_any()));
        Ok(slf)
    }

    /// Close after all queued data is sent; `connection_lost(None)` follows.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        ending::close(slf)
    }

    /// Close immediately and drop data that the socket has not taken; `connection_lost(None)` follows.
    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        ending::abort(slf, None)
    }

    fn _force_close(slf: &Bound<'_, Self>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        ending::abort(slf, exc)
    }

    /// True if the transport is closing or closed.
    fn is_closing(slf: &Bound<'_, Self>) -> PyResult<bool> {
        // Sending gathered data may reveal that the peer is gone. Every `StreamWriter.drain()` calls this.
        sending::send_gathered(slf)?;
        Ok(!slf.get().life(slf.py()).is_live())
    }

    /// The current protocol.
    fn get_protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.protocol(py)
    }

    /// Change the protocol. Data received from now on goes to its `data_received()` (or `get_buffer()`).
    fn set_protocol(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let new = StreamProtocol::new(protocol)?;
        let old = self.state.with(protocol.py(), |s| {
            s.out.writes_through = new.writes_through;
            s.protocol.replace(new)
        });
        drop(old);
        Ok(())
    }

    #[getter]
    fn _loop<'py>(&self, py: Python<'py>) -> Bound<'py, LoopCore> {
        self.body.owner.bind(py).clone()
    }

    #[getter]
    fn _sock<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.body.descriptor.socket(py)
    }

    #[getter]
    fn _sock_fd(&self, py: Python<'_>) -> Value<i32> {
        Value(self.body.descriptor.fd(py).unwrap_or(-1))
    }

    /// The class that `isinstance` also accepts, because native classes cannot have Python bases.
    #[getter(__class__)]
    fn presented_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::stream_transport_class(py)
    }

    #[classattr]
    fn _start_tls_compatible() -> bool {
        true
    }

    /// Read by `loop.sendfile()`: use sendfile(2) if the kernel can, else copy.
    #[getter]
    fn _sendfile_compatible<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::sendfile_mode(py)?.getattr(intern!(py, "TRY_NATIVE"))
    }

    /// Return information about the transport: `socket`, `sockname`, `peername`, and what the code that made it
    /// added. Returns `default` for an unknown name.
    #[pyo3(signature = (name, default = None))]
    fn get_extra_info<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // The caller may use the returned socket, so data written before must be sent before.
        sending::send_gathered(slf)?;
        slf.get().endpoint.info(name, default, &slf.get().body.descriptor)
    }

    fn __repr__(&self, py: Python<'_>) -> Value<String> {
        let fd = self.body.descriptor.number(py);
        Value(self.state.with(py, |s| {
            let life = s.life.describe();
            let read = if s.reads() { "polling" } else { "idle" };
            let write = if s.out.blocked { "polling" } else { "idle" };
            let len = s.out.queue.len_bytes();
            format!("<StreamTransport{life} fd={fd} read={read} write=<{write}, bufsize={len}>>")
        }))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.body.visit(&visit)?;
        self.server.peek(|own| visit.call(own)).unwrap_or(Ok(()))?;
        self.endpoint.visit(&visit)?;
        self.state
            .peek(|s| {
                if let Some(protocol) = &s.protocol {
                    protocol.visit(&visit)?;
                }
                visit.call(&s.empty_waiter)?;
                s.writable_waiters.iter().try_for_each(|waiter| visit.call(waiter))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        self.forget_protocol(py);
    }
}

impl Drop for StreamTransport {
    fn drop(&mut self) {
        if self.state.peek(|_| ()).is_some() {
            unclosed::end(&self.body, Some(&self.server), |py| self.__repr__(py).0);
        }
    }
}
