//! `DatagramTransport`: one datagram socket, connected or not, of any family.
//!
//! Its states are those of `Life`. IPv4, IPv6 and Unix sockets are served natively. For other families (netlink,
//! vsock, packet…) only the `socket` module knows the addresses, so its methods are called. Receiving and sending are
//! in `datagram_read` and `datagram_write`. Upholds S2 (state is accessed in short closures, callbacks run outside),
//! S4 (`Descriptor`, `Registration`), S7.

use super::appetite::Appetite;
use super::datagram_queue::DatagramQueue;
use super::descriptor::Descriptor;
use super::ending::{self, Body, Ending};
use super::endpoint::Endpoint;
use super::flow::Flow;
use super::life::{self, Life};
use super::peers::Peers;
use super::unclosed;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use oneloop_engine::sys::socket;
use oneloop_engine::{Interest, Readiness};
use pyo3::exceptions::{PyNotImplementedError, PyOSError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};
use std::io;

pub struct State {
    pub life: Life,
    pub protocol: Option<Py<PyAny>>,
    pub queue: DatagramQueue,
    pub flow: Flow,
    /// Paused by the program.
    pub reading_paused: bool,
    /// Sends after the transport was lost, for asyncio's warning.
    pub sends_after_loss: u32,
    pub appetite: Appetite,
    pub peers: Peers,
}

/// The peer that the socket is connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connection {
    None,
    /// To a socket without a name (a pair of Unix sockets).
    Unnamed,
    Named,
}

/// A datagram socket. Has the interface of `asyncio.DatagramTransport`.
///
/// Use it only in the loop's thread. Made by `create_datagram_endpoint`. Sending on a closed transport does nothing,
/// while asyncio raises AttributeError.
#[pyclass(frozen, weakref, module = "oneloop")]
pub struct DatagramTransport {
    pub body: Body,
    pub family: i32,
    pub connection: Connection,
    /// The only destination, if the transport was made with one.
    pub address: Option<Py<PyAny>>,
    endpoint: Endpoint,
    pub state: LoopCell<State>,
}

impl Ending for DatagramTransport {
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

    fn is_drained(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.queue.is_empty())
    }

    fn clear_queue(&self, py: Python<'_>) {
        let queue = self.state.with(py, |s| std::mem::take(&mut s.queue));
        drop(queue);
    }

    fn is_quiet(py: Python<'_>, error: &PyErr) -> bool {
        error.is_instance_of::<PyOSError>(py)
    }

    fn watch(&self, slf: &Bound<'_, Self>) -> io::Result<()> {
        let py = slf.py();
        let interest = self.state.with(py, |s| {
            let mut interest = Interest::NONE;
            if s.life == Life::Open && !s.reading_paused {
                interest = interest | Interest::READ;
            }
            if !s.queue.is_empty() {
                interest = interest | Interest::WRITE;
            }
            interest
        });
        let fd = self.body.descriptor.fd(py)?;
        self.body.registration.set(self.body.owner.get(), slf.as_any(), fd, interest, on_ready)
    }
}

impl DatagramTransport {
    fn set_reading_paused(slf: &Bound<'_, Self>, paused: bool) -> PyResult<()> {
        let changed = slf.get().state.with(slf.py(), |s| {
            let changed = s.life.is_live() && s.reading_paused != paused;
            s.reading_paused ^= changed;
            changed
        });
        if changed && !paused {
            slf.get().body.resume_reading(slf.py());
        }
        // A transport that has not started is watched only after `connection_made`.
        let started = slf.get().life(slf.py()) != Life::New;
        let is_moot = paused && slf.get().body.owner.get().is_closed_now();
        if changed && started && !is_moot { ending::watch(slf) } else { Ok(()) }
    }
}

/// Called by the poller for a socket.
fn on_ready(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    readiness: Readiness,
) -> PyResult<()> {
    let slf = object.cast::<DatagramTransport>()?;
    let this = slf.get();
    let py = owner.py();
    // An earlier callback of this tick may have closed or paused it.
    let reads = this.state.with(py, |s| s.life == Life::Open && !s.reading_paused);
    if reads && readiness.is_readable() && !this.body.has_just_resumed(py) {
        this.body.context.run(py, || this.read_ready(owner, slf))?;
    }
    if readiness.is_writable() && this.state.with(py, |s| !s.queue.is_empty()) {
        this.write_ready(owner, slf)?;
    }
    Ok(())
}

#[pymethods]
impl DatagramTransport {
    #[new]
    #[pyo3(signature = (owner, sock, protocol, address = None, waiter = None, extra = None))]
    fn new(
        owner: &Bound<'_, LoopCore>,
        sock: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        address: Option<Bound<'_, PyAny>>,
        waiter: Option<Py<PyAny>>,
        extra: Option<Py<PyDict>>,
    ) -> PyResult<Py<Self>> {
        let py = owner.py();
        owner.get().check_closed()?;
        let descriptor = Descriptor::of_object(sock)?;
        let endpoint = Endpoint::of_socket(sock, extra)?;
        let fd = descriptor.fd(py).map_err(|e| errors::os_error("socket", &e))?;
        life::refuse_taken(owner, fd)?;
        let (family, _, _) = socket::kind(fd).map_err(|e| errors::os_error("getsockopt", &e))?;
        let peer = endpoint.info(intern!(py, "peername").as_any(), None, &descriptor)?;
        let connection = match peer {
            Some(name) if name.is_truthy()? => Connection::Named,
            Some(name) if !name.is_none() => Connection::Unnamed,
            _ => Connection::None,
        };
        let address = match address {
            Some(address) if address.is_truthy()? => Some(address.unbind()),
            _ => None,
        };
        let state = State {
            life: Life::New,
            protocol: Some(protocol.clone().unbind()),
            queue: DatagramQueue::default(),
            flow: Flow::default(),
            reading_paused: false,
            sends_after_loss: 0,
            appetite: Appetite::default(),
            peers: Peers::default(),
        };
        let body = Body::new(owner, descriptor, None)?;
        let state = LoopCell::new(state);
        let slf = Py::new(py, Self { body, family, connection, address, endpoint, state })?;
        ending::begin(slf.bind(py), waiter)?;
        owner.get().add_unbegun(py, fd, Object::new(slf.bind(py).clone().into_any()));
        Ok(slf)
    }

    /// The class that `isinstance` also accepts, because native classes cannot have Python bases.
    #[getter(__class__)]
    fn presented_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::imports::datagram_transport_class(py)
    }

    /// Close after all queued data is sent; `connection_lost(None)` follows.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        ending::close(slf)
    }

    /// Close immediately and drop queued data; `connection_lost(None)` follows.
    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        ending::abort(slf, None)
    }

    fn _force_close(slf: &Bound<'_, Self>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        ending::abort(slf, exc)
    }

    #[pyo3(signature = (exc, message = "Fatal error on transport"))]
    fn _fatal_error(slf: &Bound<'_, Self>, exc: Bound<'_, PyAny>, message: &str) -> PyResult<()> {
        ending::fatal(slf, PyErr::from_value(exc), message)
    }

    /// True if the transport is closing or closed.
    fn is_closing(&self, py: Python<'_>) -> bool {
        !self.life(py).is_live()
    }

    /// True while datagrams are being received.
    fn is_reading(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.life.is_live() && !s.reading_paused)
    }

    /// Stop calling `datagram_received()`. Datagrams that the kernel cannot buffer are lost.
    fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::set_reading_paused(slf, true)
    }

    /// Resume calling `datagram_received()`.
    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::set_reading_paused(slf, false)
    }

    /// asyncio's datagram transports have the writing methods of streams, which raise NotImplementedError.
    fn write(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = data;
        Err(PyNotImplementedError::new_err(()))
    }

    fn writelines(&self, list_of_data: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = list_of_data;
        Err(PyNotImplementedError::new_err(()))
    }

    fn write_eof(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err(()))
    }

    fn can_write_eof(&self) -> PyResult<bool> {
        Err(PyNotImplementedError::new_err(()))
    }

    /// The current protocol; None once the transport is closed.
    fn get_protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.protocol(py)
    }

    /// Change the protocol. Data received from now on goes to its `datagram_received()`.
    fn set_protocol(&self, py: Python<'_>, protocol: Py<PyAny>) {
        let old = self.state.with(py, |s| s.protocol.replace(protocol));
        drop(old);
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

    /// Return information about the transport: `socket`, `sockname`, `peername`, and what the code that made it
    /// added. Returns `default` for an unknown name.
    #[pyo3(signature = (name, default = None))]
    fn get_extra_info<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.endpoint.info(name, default, &self.body.descriptor)
    }

    fn __repr__(&self, py: Python<'_>) -> Value<String> {
        let fd = self.body.descriptor.number(py);
        Value(self.state.with(py, |s| {
            let life = s.life.describe();
            let reads = s.life == Life::Open && !s.reading_paused;
            let read = if reads { "polling" } else { "idle" };
            let write = if s.queue.is_empty() { "idle" } else { "polling" };
            let len = s.queue.len_bytes();
            format!("<DatagramTransport{life} fd={fd} read={read} write=<{write}, bufsize={len}>>")
        }))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.body.visit(&visit)?;
        visit.call(&self.address)?;
        self.endpoint.visit(&visit)?;
        self.state
            .peek(|s| {
                visit.call(&s.protocol)?;
                s.peers.visit(&visit)
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        self.forget_protocol(py);
    }
}

impl Drop for DatagramTransport {
    fn drop(&mut self) {
        if self.state.peek(|_| ()).is_some() {
            unclosed::end(&self.body, None, |py| self.__repr__(py).0);
        }
    }
}
