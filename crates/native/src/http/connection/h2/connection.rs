//! `Http2Connection`: the protocol of one connection, from its start to its end.
//!
//! | state     | new streams         | ends by                                                        |
//! |-----------|---------------------|----------------------------------------------------------------|
//! | Open      | are taken           | the client, an error, a time without a stream, the server      |
//! | Notified  | are taken           | a moment later, so that streams that are on their way arrive   |
//! | Leaving   | are refused         | the last stream                                                |
//! | Lingering | are dropped         | the client's end, or a time: `linger`                          |
//! | Closed    | –                   | –                                                              |
//!
//! Upholds S2: no borrow of the state is held during a call of the transport, the application or the loop. So what was
//! received is taken as a list of events, and what is to be sent is framed into a buffer.

use crate::event_loop::LoopCore;
use crate::ffi::bytes::{self, SharedBytes};
use crate::ffi::recycled::{Pool, Recycled};
use crate::ffi::{LoopCell, Object};
use crate::http::connection::ends::{self, Ends};
use crate::http::connection::open_connections::OpenConnections;
use crate::http::connection::options::NEVER_NS;
use crate::http::connection::output;
use crate::http::exchange::contract::{Exchange, TunnelDeadline};
use crate::http::exchange::service::Service;
use crate::transport::{Under, with_lent};
use oneloop_engine::sys::socket;
use oneloop_http2::{Config, Role, Session};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::{PyTraverseError, PyVisit};
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;

/// What a client sends first: RFC 9113 section 3.4.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub type ServerSession = Session<SharedBytes>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    Open,
    Notified,
    Leaving,
    Lingering,
    Closed,
}

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct StreamState {
    /// Futures of `send` calls that wait until the client takes more.
    pub drain_waiters: Vec<Py<PyAny>>,
    /// The length of what is queued of the response.
    pub queued_bytes: usize,
    /// What was queued of it when the stream was lost.
    pub lost_bytes: usize,
    /// It is in the connection's list of such streams.
    pub is_listed: bool,
    /// Received, and not yet given back to the client's window.
    pub held_bytes: usize,
    /// The length of the body so far.
    pub body_bytes: u64,
    pub has_input_ended: bool,
    /// The stream is over: what is sent is dropped.
    pub is_lost: bool,
    pub lost_ns: u64,
    /// Trailers that were sent in several messages.
    pub trailers: Vec<u8>,
    /// The next part of the body must have arrived by then.
    pub body_ns: u64,
    /// The client must have taken some of the response by then.
    pub drain_ns: u64,
    /// What the connection had passed to its transport when that began: as much is before the rest of the response.
    pub before_bytes: u64,
    /// How much of it the client had taken when that passed.
    pub taken_bytes: u64,
    /// What was queued when that began.
    pub drained_bytes: usize,
    pub is_tunnel: bool,
    /// A tunnel's input that it has not taken.
    pub kept: Vec<u8>,
    pub is_input_held: bool,
    pub will_go_on: bool,
    pub tunnel_deadline: (u64, TunnelDeadline),
}

/// The connection as one exchange sees it.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Http2Stream {
    pub connection: Object<Http2Connection>,
    pub id: i32,
    pub state: LoopCell<StreamState>,
}

impl Recycled for Http2Stream {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

/// A stream, and the request on it.
pub struct OpenStream {
    pub exchange: Object<Exchange>,
    pub stream: Object<Http2Stream>,
}

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct State {
    pub under: Option<Under>,
    pub session: Option<ServerSession>,
    pub streams: HashMap<i32, OpenStream>,
    /// Streams of whose responses something was queued when they were last looked at.
    pub queued: Vec<i32>,
    pub life: Life,
    pub place: usize,
    pub is_tls: bool,
    /// Input is being processed: what is queued meanwhile is sent at its end.
    pub is_feeding: bool,
    /// What is queued will be sent at the end of the callback.
    pub is_sending_due: bool,
    pub is_writing_paused: bool,
    pub has_eof: bool,
    /// It is idle, and has given back what it does not need for that.
    pub is_resting: bool,
    /// The client has broken the rules, and the log says so.
    pub is_broken: bool,
    /// Bytes that came while it lingers.
    pub dropped_bytes: usize,
    /// The client's first frame has arrived.
    pub is_greeted: bool,
    /// The connection ends if no stream is opened by then.
    pub deadline_ns: u64,
    /// The head of which a part was received must be complete by then.
    pub head_ns: u64,
    /// The client has not read the sent data since then.
    pub drain_ns: u64,
    /// The transport's unsent bytes at the last check.
    pub unsent_bytes: usize,
    /// When a check has last found that they had changed, after the connection's last frame.
    pub taken_ns: u64,
    /// When a part of any response was last sent.
    pub moved_ns: u64,
    /// What had been passed to the transport then: as much is before the rest of all responses.
    pub moved_bytes: u64,
    /// The length of all that was passed to the transport.
    pub passed_bytes: u64,
}

/// One HTTP/2 connection of a server: an asyncio protocol. Use it only in the loop's thread.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct Http2Connection {
    pub service: Py<Service>,
    pub open: Py<OpenConnections>,
    pub ends: Ends,
    pub state: LoopCell<State>,
}

/// One receive, called by the transport when its socket is readable.
pub fn receive(
    owner: &Bound<'_, LoopCore>,
    protocol: &Bound<'_, PyAny>,
    fd: RawFd,
) -> PyResult<io::Result<usize>> {
    let slf = protocol.cast_exact::<Http2Connection>()?;
    with_lent(owner, |shared| match socket::recv(fd, shared) {
        Ok(len @ 1..) => {
            Http2Connection::feed(slf, bytes::written_mut(shared, len))?;
            Ok(Ok(len))
        }
        nothing => Ok(nothing),
    })
}

impl Http2Connection {
    /// Begins to serve a connection whose client speaks HTTP/2. `input`: what was received.
    pub fn start(
        open: &Bound<'_, OpenConnections>,
        ends: Ends,
        transport: &Bound<'_, PyAny>,
        input: &[u8],
    ) -> PyResult<()> {
        let py = open.py();
        let options = &open.get().options;
        let config = Config {
            role: Role::Server,
            streams: options.http2.streams,
            stream_window: options.http2.stream_window,
            connection_window: options.http2.connection_window,
            frame_bytes: options.http2.frame_bytes,
            // With the pseudo fields.
            head_fields: options.limits.headers + 5,
            head_bytes: options.limits.head_bytes,
        };
        let session = Session::new(&config).map_err(|failure| {
            if failure.is_shortage() {
                PyMemoryError::new_err("no memory for a connection")
            } else {
                PyRuntimeError::new_err(format!("HTTP/2: {failure}"))
            }
        })?;
        let state = State {
            under: None,
            session: Some(session),
            streams: HashMap::new(),
            queued: Vec::new(),
            life: Life::Open,
            place: usize::MAX,
            is_tls: false,
            is_feeding: false,
            is_sending_due: false,
            is_writing_paused: false,
            has_eof: false,
            is_resting: false,
            is_broken: false,
            dropped_bytes: 0,
            is_greeted: false,
            deadline_ns: NEVER_NS,
            head_ns: NEVER_NS,
            drain_ns: NEVER_NS,
            unsent_bytes: usize::MAX,
            taken_ns: 0,
            moved_ns: 0,
            moved_bytes: 0,
            passed_bytes: 0,
        };
        let service = open.get().service.clone_ref(py);
        let made = Self { service, open: open.clone().unbind(), ends, state: LoopCell::new(state) };
        let made = Bound::new(py, made)?;
        transport.call_method1(intern!(py, "set_protocol"), (&made,))?;
        Self::connection_made(&made, transport)?;
        if input.is_empty() { Ok(()) } else { Self::feed(&made, input) }
    }

    pub fn under(&self, py: Python<'_>) -> Option<Under> {
        self.state.with(py, |s| s.under.as_ref().map(|under| under.clone_ref(py)))
    }

    /// Calls a method of the transport, if there is one.
    pub fn call_under(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match self.under(py) {
            Some(under) => under.object(py).call_method0(name).map(drop),
            None => Ok(()),
        }
    }

    /// The streams that are open.
    pub fn streams(&self, py: Python<'_>) -> Vec<OpenStream> {
        let cloned = |open: &OpenStream| OpenStream {
            exchange: open.exchange.clone_ref(py),
            stream: open.stream.clone_ref(py),
        };
        self.state.with(py, |s| s.streams.values().map(cloned).collect())
    }

    /// Closes the connection after the written data is sent.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |s| {
            s.life = Life::Closed;
            (s.head_ns, s.drain_ns) = (NEVER_NS, NEVER_NS);
            s.unsent_bytes = usize::MAX;
        });
        self.wait_for_end(py);
        self.under(py).map_or(Ok(()), |under| output::close(&under, py))
    }

    /// (host, port) of client and server; None for a client on a Unix socket, (path, None) for its server.
    pub fn ends<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let this = slf.get();
        this.ends.addresses(this.open.get(), || this.under(py), py)
    }

    /// The parameters negotiated in the connection's TLS handshake.
    pub fn tls<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let this = slf.get();
        this.ends.tls(|| this.under(py), py)
    }
}

#[pymethods]
impl Http2Connection {
    fn connection_made(slf: &Bound<'_, Self>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let under = Under::from(transport);
        let is_tls = ends::is_tls(&under, py)?;
        let place = OpenConnections::add(this.open.bind(py), Self::entry(slf))?;
        let old = this.state.with(py, |s| {
            s.place = place;
            s.is_tls = is_tls;
            s.under.replace(under)
        });
        drop(old);
        this.wait_for_greeting(py);
        // The server's settings.
        Self::send_queued(slf)?;
        if this.service.get().serving.with(py, |serving| serving.is_shutting_down) {
            Self::shut_down(slf)?;
        }
        Ok(())
    }

    fn data_received(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        Self::feed(slf, data.as_bytes())
    }

    /// The client sends nothing more. Responses to what it has sent may still reach it, but not with TLS.
    fn eof_received(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let (is_tls, is_idle) = this.state.with(py, |s| {
            s.has_eof = true;
            (s.is_tls, s.streams.is_empty())
        });
        Self::end_input(slf)?;
        if is_idle {
            this.close(py)?;
        } else {
            Self::send_queued(slf)?;
        }
        Ok(!is_tls && !is_idle)
    }

    #[pyo3(signature = (_exc = None))]
    fn connection_lost(slf: &Bound<'_, Self>, _exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (place, under, session) = this.state.with(py, |s| {
            s.life = Life::Closed;
            (s.deadline_ns, s.head_ns, s.drain_ns) = (NEVER_NS, NEVER_NS, NEVER_NS);
            let place = std::mem::replace(&mut s.place, usize::MAX);
            (place, s.under.take(), s.session.take())
        });
        drop((under, session));
        if place != usize::MAX {
            this.open.get().remove(py, place);
        }
        Self::lose_streams(slf)
    }

    fn pause_writing(&self, py: Python<'_>) {
        self.state.with(py, |s| s.is_writing_paused = true);
        self.wait_for_drain(py);
    }

    fn resume_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().state.with(slf.py(), |s| {
            s.is_writing_paused = false;
            s.drain_ns = NEVER_NS;
        });
        Self::send_queued(slf)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.service)?;
        visit.call(&self.open)?;
        self.ends.visit(&visit)?;
        self.state
            .peek(|s| {
                match &s.under {
                    Some(Under::Stream(stream)) => visit.call(stream)?,
                    Some(Under::Other(other)) => visit.call(other)?,
                    None => {}
                }
                for open in s.streams.values() {
                    open.exchange.visit(&visit)?;
                    open.stream.visit(&visit)?;
                }
                Ok(())
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| (s.under.take(), std::mem::take(&mut s.streams)));
        drop(old);
    }
}

#[pymethods]
impl Http2Stream {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.connection.visit(&visit)?;
        self.state
            .peek(|s| s.drain_waiters.iter().try_for_each(|waiter| visit.call(waiter)))
            .unwrap_or(Ok(()))
    }
}
