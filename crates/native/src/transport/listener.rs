//! `Listener`: accepts connections for a server.
//!
//! For each event, all waiting connections are accepted, up to `MOST`. When descriptors or memory run out (EMFILE,
//! ENFILE, ENOBUFS, ENOMEM) the listener reports it once, pauses, and tries again, so that it does not spin.
//!
//! If other processes accept from the same socket, each takes one connection in turn. The kernel wakes one process for a
//! connection, the first of those that sleep (`EXCLUSIVE`), and one that has accepted goes to the end of that row, as in
//! nginx. What a process is woken for and cannot accept it must tell the others: `_retry_accept`.

use super::accepting::Accepting;
use super::descriptor::{Descriptor, Kind};
use super::endpoint::Endpoint;
use super::protocol::StreamProtocol;
use super::stream::StreamTransport;
use crate::address;
use crate::errors;
use crate::event_loop::{LoopCore, report};
use crate::ffi::fallible;
use crate::ffi::{LoopCell, call, context, socket_object};
use oneloop_engine::sys::{address::Address, socket};
use oneloop_engine::{Interest, Readiness, Token};
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

/// Connections per readiness, so that a flooded listener does not starve the others: asyncio's backlog plus one.
const MOST: u32 = 101;
/// The same if the socket is shared: otherwise the first process that runs would take all connections that a client opens
/// together, and keep them for as long as the client does.
const MOST_SHARED: u32 = 1;

#[derive(Default)]
struct State {
    token: Option<Token>,
    /// Connections that have not begun.
    made: VecDeque<Py<StreamTransport>>,
    /// A shortage was reported and nothing has been accepted since.
    starved: bool,
}

/// A listening socket of a `Server`; Python code starts and stops it.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct Listener {
    owner: Py<LoopCore>,
    sock: Py<PyAny>,
    protocol_factory: Py<PyAny>,
    server: Option<Py<PyAny>>,
    /// For TLS: a callable that receives the socket and the peer's address instead of a transport being made.
    hand_over: Option<Py<PyAny>>,
    /// The socket kind of the listener and of every connection.
    kind: Kind,
    /// The local name of every connection, unless the listener is bound to a wildcard address.
    local: Option<Arc<[u8]>>,
    context: Py<PyAny>,
    /// Other processes accept from the same socket.
    is_shared: bool,
    state: LoopCell<State>,
}

impl Listener {
    fn fd(&self, py: Python<'_>) -> io::Result<RawFd> {
        match socket_object::fileno(self.sock.bind(py)) {
            Ok(fd) if fd >= 0 => Ok(fd),
            _ => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// Accepts all waiting connections and makes their protocols before the first `connection_made`. That callback
    /// may close the server, but the peers of the others are already connected.
    fn accept_some(&self, owner: &Bound<'_, LoopCore>, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let mut outcome = Ok(());
        let mut has_accepted = false;
        for _ in 0..if self.is_shared { MOST_SHARED } else { MOST } {
            match self.fd(py).and_then(socket::accept) {
                Ok((fd, peer)) => {
                    has_accepted = true;
                    self.state.with(py, |s| s.starved = false);
                    outcome = self.connect(owner, fd, peer);
                }
                // Of one connection, which is gone.
                Err(e) if is_of_one_connection(&e) => continue,
                Err(e) => {
                    outcome = self.accept_failed(owner, slf, &e);
                    break;
                }
            }
            // A callback may have stopped the listener, or raised an exception that leaves the loop.
            if outcome.is_err() || self.state.with(py, |s| s.token.is_none()) {
                break;
            }
        }
        if has_accepted && self.is_shared && outcome.is_ok() {
            outcome = Self::renew(slf);
        }
        let begun = self.begin_made(owner);
        if outcome.is_err() {
            owner.get().run_soon(py, slf.clone().into_any().unbind(), start_made);
            return outcome;
        }
        begun.and(start_made(owner, slf.as_any()))
    }

    /// Starts the connections as asyncio would. Native protocols are started at once: they create no tasks in
    /// `connection_made`, and their server ends them.
    fn begin_made(&self, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        let py = owner.py();
        let is_native = |transport: &Py<StreamTransport>| {
            transport
                .get()
                .state
                .with(py, |s| s.protocol.as_ref().is_some_and(StreamProtocol::is_native))
        };
        let made = self.state.with(py, |s| {
            if s.made.iter().all(is_native) {
                Vec::new()
            } else {
                std::mem::take(&mut s.made).into()
            }
        });
        if made.is_empty() {
            return Ok(());
        }
        Accepting::begin(owner, made, &self.context)
    }

    fn accept_failed(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        error: &io::Error,
    ) -> PyResult<()> {
        let py = owner.py();
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(()),
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                let first = self.state.with(py, |s| !std::mem::replace(&mut s.starved, true));
                Self::stop(slf);
                owner.call_method1(intern!(py, "_retry_accept"), (slf,))?;
                if first {
                    let details = fallible::dict(py)?;
                    let text = "socket.accept() out of system resource";
                    details.set_item(intern!(py, "message"), text)?;
                    let value = errors::os_error_on("accept", self.fd(py), error).into_value(py);
                    value.call_method1(py, intern!(py, "add_note"), (remedy(error),))?;
                    details.set_item(intern!(py, "exception"), value)?;
                    let wrapped =
                        crate::imports::transport_socket(py)?.call1((self.sock.bind(py),))?;
                    details.set_item(intern!(py, "socket"), wrapped)?;
                    owner.call_method1(intern!(py, "call_exception_handler"), (details,))?;
                }
                Ok(())
            }
            _ => {
                // Any other error would recur immediately: pause and report it.
                Self::stop(slf);
                owner.call_method1(intern!(py, "_retry_accept"), (slf,))?;
                report(
                    owner,
                    "socket.accept() failed",
                    errors::os_error_on("accept", self.fd(py), error),
                    &[],
                )
            }
        }
    }

    /// Makes protocol and transport for one accepted connection.
    fn connect(&self, owner: &Bound<'_, LoopCore>, fd: OwnedFd, peer: Address) -> PyResult<()> {
        let py = owner.py();
        if let Some(hand_over) = &self.hand_over {
            // Like the callback of a reader that was added when the server started.
            let context = context::copy(self.context.bind(py))?;
            let handed = context::run(context.bind(py), || {
                let socket = Descriptor::bare(fd, self.kind).socket(py)?;
                hand_over.call1(py, (socket, address::to_python(py, &peer)?))
            });
            return handed.map(drop).or_else(|error| self.creation_failed(owner, error));
        }
        let context = context::copy(self.context.bind(py))?;
        let made = context::run(context.bind(py), || call::call0(self.protocol_factory.bind(py)))
            .and_then(|protocol| {
                StreamTransport::make(
                    owner,
                    Descriptor::bare(fd, self.kind),
                    &protocol,
                    Some(context),
                    Endpoint::accepted(&peer, self.local.clone()),
                    self.server.as_ref().map(|server| server.clone_ref(py)),
                )
            });
        match made {
            Ok(transport) => {
                self.state.with(py, |s| s.made.push_back(transport));
                Ok(())
            }
            Err(error) => self.creation_failed(owner, error),
        }
    }

    /// The connection is already closed: the owner of its descriptor was dropped.
    fn creation_failed(&self, owner: &Bound<'_, LoopCore>, error: PyErr) -> PyResult<()> {
        let text = "Error on transport creation for incoming connection";
        let context = context::copy(self.context.bind(owner.py()))?;
        context::run(context.bind(owner.py()), || report(owner, text, error, &[]))
    }
}

/// Calls `connection_made` for the accepted connections. If an exception leaves the loop, the rest follows when it
/// runs again.
fn start_made(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let this = object.cast::<Listener>()?.get();
    while let Some(transport) = this.state.with(py, |s| s.made.pop_front()) {
        let started = StreamTransport::start(owner, transport.bind(py));
        if started.is_err() {
            owner.get().run_soon(py, object.clone().unbind(), start_made);
            return started;
        }
    }
    Ok(())
}

fn on_ready(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    _readiness: Readiness,
) -> PyResult<()> {
    let slf = object.cast::<Listener>()?;
    slf.get().accept_some(owner, slf)
}

#[pymethods]
impl Listener {
    #[new]
    #[pyo3(signature = (
        owner, sock, protocol_factory, server, hand_over, context = None, *, is_shared = false
    ))]
    fn new(
        owner: &Bound<'_, LoopCore>,
        sock: &Bound<'_, PyAny>,
        protocol_factory: Py<PyAny>,
        server: Option<Py<PyAny>>,
        hand_over: Option<Py<PyAny>>,
        context: Option<Py<PyAny>>,
        is_shared: bool,
    ) -> PyResult<Self> {
        let py = owner.py();
        let fd = socket_object::fileno(sock)?;
        let kind = Kind::of(fd).map_err(|e| errors::os_error("getsockopt", &e))?;
        if kind.is_tcp() {
            // Accepted sockets inherit it. asyncio sets it on each.
            socket::set_nodelay(fd).map_err(|e| errors::os_error_on("setsockopt", Ok(fd), &e))?;
        }
        let local = socket::local_address(fd)
            .map_err(|e| errors::os_error_on("getsockname", Ok(fd), &e))?;
        Ok(Self {
            owner: owner.clone().unbind(),
            sock: sock.clone().unbind(),
            protocol_factory,
            server,
            hand_over,
            kind,
            local: (!local.is_wildcard()).then(|| local.as_bytes().into()),
            is_shared,
            context: match context {
                Some(context) => context,
                None => context::copy_current(py)?.unbind(),
            },
            state: LoopCell::new(State::default()),
        })
    }

    /// Start accepting. Does nothing if the socket is already closed.
    fn start(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Ok(fd) = this.fd(py) else { return Ok(()) };
        if this.state.with(py, |s| s.token.is_some()) {
            return Ok(());
        }
        let register = |interest| {
            let object = slf.clone().into_any().unbind();
            this.owner.get().register(py, fd, interest, object, on_ready)
        };
        let registered = if this.is_shared {
            match register(Interest::READ | Interest::EXCLUSIVE) {
                // A kernel without exclusive wake-ups wakes all.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => register(Interest::READ),
                other => other,
            }
        } else {
            register(Interest::READ)
        };
        let token = registered.map_err(|e| errors::os_error("epoll_ctl", &e))?;
        this.state.with(py, |s| s.token = Some(token));
        Ok(())
    }

    /// Register it again, if it is accepting: it comes after the other processes that share the socket, and is told of
    /// connections that wait.
    fn renew(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if slf.get().state.with(py, |s| s.token.is_none()) {
            return Ok(());
        }
        Self::stop(slf);
        match Self::start(slf) {
            // No memory: it must not stay without a registration.
            Err(error) if error.is_instance_of::<PyOSError>(py) => slf
                .get()
                .owner
                .bind(py)
                .call_method1(intern!(py, "_retry_accept"), (slf,))
                .map(drop),
            started => started,
        }
    }

    /// Stop accepting; the socket stays open. Never fails.
    fn stop(slf: &Bound<'_, Self>) {
        let py = slf.py();
        let this = slf.get();
        let Some(token) = this.state.with(py, |s| s.token.take()) else { return };
        let owner = this.owner.get();
        match this.fd(py) {
            Ok(_) => owner.deregister(slf.as_any(), token),
            Err(_) => owner.vacate(slf.as_any(), token),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.sock)?;
        visit.call(&self.protocol_factory)?;
        visit.call(&self.server)?;
        visit.call(&self.hand_over)?;
        visit.call(&self.context)?;
        let visit_made = |s: &State| s.made.iter().try_for_each(|transport| visit.call(transport));
        self.state.peek(visit_made).unwrap_or(Ok(()))
    }
}

/// A signal, a peer that has closed while it waited, or an error that waits on the new connection. accept(2): "For
/// reliable operation the application should detect the network errors defined for the protocol after accept() and treat
/// them like EAGAIN by retrying."
fn is_of_one_connection(error: &io::Error) -> bool {
    let passed_on = [
        libc::EINTR,
        libc::ECONNABORTED,
        libc::EPROTO,
        libc::EPERM,
        libc::ENETDOWN,
        libc::ENOPROTOOPT,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::EHOSTUNREACH,
        libc::EOPNOTSUPP,
        libc::ENETUNREACH,
    ];
    error.raw_os_error().is_some_and(|errno| passed_on.contains(&errno))
}

/// What to do about a failure to accept for lack of resources; added to the exception as a note.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            "This process has reached its limit of open file descriptors. New connections wait in the socket's \
             backlog; the server tries again every second. Raise the limit (ulimit -n, or LimitNOFILE= of systemd), \
             or close descriptors that are no longer needed."
        }
        _ => {
            "The system has no resources left for this socket. New connections wait in the socket's backlog; the \
             server tries again every second."
        }
    }
}
