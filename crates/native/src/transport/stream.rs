//! `StreamTransport`: one connection of bytes, a TCP or Unix socket.
//!
//! Its states are `Life`'s. Reading and writing are in `stream_read` and `stream_write`. Upholds S2
//! (state is touched in short closures, callbacks run outside), S4 (`Descriptor`), S7.

use super::descriptor::Descriptor;
use super::endpoint::Endpoint;
use super::life::{self, Life};
use super::protocol::StreamProtocol;
use super::registration::Registration;
use super::sending::{self, Outgoing};
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::{LoopCell, context};
use crate::imports;
use oneloop_engine::{Interest, Readiness};
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

pub struct State {
    pub life: Life,
    pub protocol: Option<StreamProtocol>,
    pub out: Outgoing,
    /// Paused by the program.
    pub reading_paused: bool,
    /// The peer has ended its side; nothing more will come.
    pub read_eof: bool,
    /// `write_eof` was called; the shutdown follows the queue.
    pub write_eof: bool,
    /// What `connection_lost` will be called with.
    pub lost_with: Option<Py<PyAny>>,
    /// Length of the last read; long ones go straight into their bytes object.
    pub last_read: usize,
    /// A future that `sendfile` waits on for the queue to drain.
    pub empty_waiter: Option<Py<PyAny>>,
    /// Futures that wait for the socket to become writable (`sendfile`).
    pub writable_waiters: Vec<Py<PyAny>>,
}

/// A bidirectional stream over a connected socket; has the interface of `asyncio.Transport`.
///
/// Loop's thread only. Made by `create_connection`, `create_server` and their kin.
#[pyclass(frozen, weakref, module = "oneloop", name = "StreamTransport")]
pub struct StreamTransport {
    pub owner: Py<LoopCore>,
    pub descriptor: Descriptor,
    pub context: Py<PyAny>,
    pub endpoint: Endpoint,
    server: Option<Py<PyAny>>,
    registration: Registration,
    pub state: LoopCell<State>,
}

impl StreamTransport {
    pub fn make(
        owner: &Bound<'_, LoopCore>,
        descriptor: Descriptor,
        protocol: &Bound<'_, PyAny>,
        context: Py<PyAny>,
        endpoint: Endpoint,
        server: Option<Py<PyAny>>,
    ) -> PyResult<Py<Self>> {
        let py = owner.py();
        let state = State {
            life: Life::New,
            protocol: Some(StreamProtocol::new(protocol)?),
            out: Outgoing::default(),
            reading_paused: false,
            read_eof: false,
            write_eof: false,
            lost_with: None,
            last_read: 0,
            empty_waiter: None,
            writable_waiters: Vec::new(),
        };
        let transport = Py::new(
            py,
            Self {
                owner: owner.clone().unbind(),
                descriptor,
                context,
                endpoint,
                server,
                registration: Registration::default(),
                state: LoopCell::new(state),
            },
        )?;
        transport.get().attach(transport.bind(py))?;
        owner.get().meter.with(py, |meter| meter.open_transports += 1);
        Ok(transport)
    }

    fn attach(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let Some(server) = &self.server else { return Ok(()) };
        if cfg!(Py_3_13) {
            server.call_method1(py, intern!(py, "_attach"), (slf,))?;
        } else {
            server.call_method0(py, intern!(py, "_attach"))?;
        }
        Ok(())
    }

    fn detach(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let Some(server) = &self.server else { return Ok(()) };
        if cfg!(Py_3_13) {
            server.call_method1(py, intern!(py, "_detach"), (slf,))?;
        } else {
            server.call_method0(py, intern!(py, "_detach"))?;
        }
        Ok(())
    }

    pub fn protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.state.with(py, |s| s.protocol.as_ref().map(|p| p.object.bind(py).clone()))
    }

    pub fn life(&self, py: Python<'_>) -> Life {
        self.state.with(py, |s| s.life)
    }

    /// `connection_made`, then reading starts.
    pub fn start(owner: &Bound<'_, LoopCore>, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let this = slf.get();
        if let Some(protocol) = this.protocol(py) {
            life::connection_made(owner, this.context.bind(py), slf.as_any(), &protocol)?;
        }
        let open = this.state.with(py, |s| {
            if s.life == Life::New {
                s.life = Life::Open;
            }
            s.life == Life::Open || s.life == Life::Closing
        });
        if open && let Err(e) = this.update_interest(slf) {
            this.cannot_watch(slf, &e)?;
        }
        Ok(())
    }

    /// Tells the poller what is wanted now. Called whenever one of its reasons changes.
    pub fn update_interest(&self, slf: &Bound<'_, Self>) -> std::io::Result<()> {
        let py = slf.py();
        let (interest, life) = self.state.with(py, |s| {
            let mut interest = Interest::NONE;
            if s.life == Life::Open && !s.reading_paused && !s.read_eof {
                interest = interest | Interest::READ;
            }
            if s.out.blocked || !s.writable_waiters.is_empty() {
                interest = interest | Interest::WRITE;
            }
            (interest, s.life)
        });
        if life == Life::New || life.is_ended() {
            return Ok(());
        }
        let fd = self.descriptor.fd(py)?;
        self.registration.set(self.owner.get(), slf.as_any(), fd, interest, on_ready)
    }

    /// Ends the registration; the descriptor stays open.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        self.registration.end(py, self.owner.get(), self.descriptor.fd(py).is_ok())
    }

    /// An error that ends the connection. Errors of the network are the protocol's business alone;
    /// others are also reported, as in asyncio.
    pub fn fatal(&self, slf: &Bound<'_, Self>, error: PyErr, message: &str) -> PyResult<()> {
        let py = slf.py();
        let value = error.value(py).clone().into_any().unbind();
        let quiet = error.is_instance_of::<PyOSError>(py);
        let protocol = self.protocol(py);
        let owner = self.owner.bind(py);
        life::report_fatal(owner, slf.as_any(), protocol.as_ref(), message, error, quiet)?;
        self.force_close(slf, Some(value))
    }

    pub fn report(&self, slf: &Bound<'_, Self>, message: &str, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        let protocol = self.protocol(py);
        let owner = self.owner.bind(py);
        life::report_failure(owner, slf.as_any(), protocol.as_ref(), message, error)
    }

    /// Drops what is queued and schedules `connection_lost(exc)`.
    pub fn force_close(&self, slf: &Bound<'_, Self>, exc: Option<Py<PyAny>>) -> PyResult<()> {
        let py = slf.py();
        if self.life(py).is_ended() {
            return Ok(());
        }
        sending::clear(self, py);
        self.lose(slf, exc)
    }

    /// Schedules `connection_lost`, once.
    pub fn lose(&self, slf: &Bound<'_, Self>, exc: Option<Py<PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let first = self.state.with(py, |s| {
            let first = !s.life.is_ended();
            if first {
                s.life = Life::Lost;
                s.lost_with = exc;
            }
            first
        });
        if !first {
            return Ok(());
        }
        self.forget(py)?;
        self.owner.get().run_soon(py, slf.clone().into_any().unbind(), finish);
        Ok(())
    }

    pub fn begin_close(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let (close, empty, blocked) = self.state.with(py, |s| {
            let close = s.life.is_live();
            if close {
                s.life = Life::Closing;
            }
            (close, s.out.queue.is_empty(), s.out.blocked)
        });
        if !close {
            return Ok(());
        }
        if empty {
            return self.lose(slf, None);
        }
        if !blocked {
            // The queue goes out at the end of this tick, most likely all of it.
            return Ok(());
        }
        match self.update_interest(slf) {
            Ok(()) => Ok(()),
            Err(e) => self.cannot_watch(slf, &e),
        }
    }

    /// The poller refused: without readiness the connection cannot go on.
    pub fn cannot_watch(&self, slf: &Bound<'_, Self>, error: &std::io::Error) -> PyResult<()> {
        let error = errors::os_error("epoll_ctl", error);
        self.fatal(slf, error, "Fatal error: cannot watch socket")
    }
}

/// The last callback of a connection: `connection_lost`, then the descriptor closes.
fn finish(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let slf = object.cast::<StreamTransport>()?;
    let this = slf.get();
    let (exc, protocol, empty, waiters) = this.state.with(py, |s| {
        s.life = Life::Closed;
        let waiters = std::mem::take(&mut s.writable_waiters);
        (s.lost_with.take(), s.protocol.take(), s.empty_waiter.take(), waiters)
    });
    let result = match &protocol {
        Some(protocol) => {
            let exc = exc.as_ref().map(|e| e.bind(py));
            life::connection_lost(this.context.bind(py), protocol.object.bind(py), exc)
        }
        None => Ok(()),
    };
    // The address must outlive the descriptor, as in asyncio.
    if let Ok(fd) = this.descriptor.fd(py) {
        this.endpoint.remember_local(py, fd);
    }
    let closed = this.descriptor.close(py);
    owner.get().meter.with(py, |meter| meter.open_transports -= 1);
    for waiter in empty.iter().chain(&waiters) {
        let waiter = waiter.bind(py);
        if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
            let lost = pyo3::exceptions::PyConnectionError::new_err("Connection is closed by peer");
            waiter.call_method1(intern!(py, "set_exception"), (lost.into_value(py),))?;
        }
    }
    this.detach(slf)?;
    if let Some(protocol) = &protocol {
        owner.get().lap(owner, protocol.object.bind(py))?;
    }
    for outcome in [result, closed] {
        if let Err(error) = outcome {
            this.report(slf, "Exception in callback: protocol.connection_lost() failed.", error)?;
        }
    }
    Ok(())
}

/// The poller's word for a connection.
fn on_ready(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    readiness: Readiness,
) -> PyResult<()> {
    let slf = object.cast::<StreamTransport>()?;
    let this = slf.get();
    let py = owner.py();
    if readiness.is_readable() {
        let reads =
            this.state.with(py, |s| s.life == Life::Open && !s.reading_paused && !s.read_eof);
        if reads {
            this.read_ready(owner, slf)?;
        }
    }
    if readiness.is_writable() {
        let writes = this.state.with(py, |s| s.out.blocked || !s.writable_waiters.is_empty());
        if writes {
            this.write_ready(owner, slf)?;
        }
    }
    Ok(())
}

/// Called as a native completion: a transport that was made from a socket object starts.
fn start_soon(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let (slf, waiter): (Bound<'_, StreamTransport>, Bound<'_, PyAny>) = object.extract()?;
    StreamTransport::start(owner, &slf)?;
    let py = owner.py();
    if !waiter.is_none() && !waiter.call_method0(intern!(py, "cancelled"))?.is_truthy()? {
        waiter.call_method1(intern!(py, "set_result"), (py.None(),))?;
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
        // Python 3.15 says in which context a connection lives.
        let context = match context {
            Some(context) => context,
            None => context::copy_current(py)?.unbind(),
        };
        let slf = Self::make(owner, descriptor, protocol, context, endpoint, server)?;
        let start = (slf.clone_ref(py), waiter).into_pyobject(py)?;
        owner.get().run_soon(py, start.into_any().unbind(), start_soon);
        Ok(slf)
    }

    /// Close after everything queued is sent; `connection_lost(None)` follows.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().begin_close(slf)
    }

    /// Close at once, dropping what is queued; `connection_lost(None)` follows.
    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().force_close(slf, None)
    }

    fn _force_close(slf: &Bound<'_, Self>, exc: Option<Py<PyAny>>) -> PyResult<()> {
        slf.get().force_close(slf, exc)
    }

    /// True if the transport is closing or closed.
    fn is_closing(&self, py: Python<'_>) -> bool {
        !self.life(py).is_live()
    }

    /// The current protocol.
    fn get_protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.protocol(py)
    }

    /// Change the protocol; its `data_received` (or `get_buffer`) gets what comes from now on.
    fn set_protocol(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let new = StreamProtocol::new(protocol)?;
        let old = self.state.with(protocol.py(), |s| s.protocol.replace(new));
        drop(old);
        Ok(())
    }

    #[getter]
    fn _loop<'py>(&self, py: Python<'py>) -> Bound<'py, LoopCore> {
        self.owner.bind(py).clone()
    }

    #[getter]
    fn _sock<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.descriptor.socket(py)
    }

    #[getter]
    fn _sock_fd(&self, py: Python<'_>) -> i32 {
        self.descriptor.fd(py).unwrap_or(-1)
    }

    /// What `isinstance` sees besides the type itself: native layouts cannot have Python bases.
    #[getter(__class__)]
    fn presented_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::stream_transport_class(py)
    }

    #[classattr]
    fn _start_tls_compatible() -> bool {
        true
    }

    /// `loop.sendfile()` asks: sendfile(2) where the kernel can, else a copy.
    #[getter]
    fn _sendfile_compatible<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::sendfile_mode(py)?.getattr(intern!(py, "TRY_NATIVE"))
    }

    /// Optional information on the transport: `socket`, `sockname`, `peername`, and what its maker
    /// added; `default` for anything unknown.
    #[pyo3(signature = (name, default = None))]
    fn get_extra_info<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.endpoint.info(name, default, &self.descriptor)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let fd = self.descriptor.fd(py).unwrap_or(-1);
        self.state.with(py, |s| {
            let life = s.life.describe();
            let read = if s.life == Life::Open && !s.reading_paused && !s.read_eof {
                "polling"
            } else {
                "idle"
            };
            let write = if s.out.blocked { "polling" } else { "idle" };
            let len = s.out.queue.len_bytes();
            format!("<StreamTransport{life} fd={fd} read={read} write=<{write}, bufsize={len}>>")
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.context)?;
        visit.call(&self.server)?;
        self.endpoint.visit(&visit)?;
        self.descriptor.visit(&visit)?;
        self.state
            .peek(|s| {
                if let Some(protocol) = &s.protocol {
                    protocol.visit(&visit)?;
                }
                visit.call(&s.lost_with)?;
                visit.call(&s.empty_waiter)?;
                s.writable_waiters.iter().try_for_each(|waiter| visit.call(waiter))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let protocol = self.state.with(py, |s| s.protocol.take());
        drop(protocol);
    }
}

impl Drop for StreamTransport {
    fn drop(&mut self) {
        super::unclosed::end("StreamTransport", &self.descriptor);
    }
}
