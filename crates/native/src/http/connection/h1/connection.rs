//! `HttpConnection`: the protocol of one connection, from its start to its end.
//!
//! | input     | received bytes are             | next state on                                       |
//! |-----------|--------------------------------|-----------------------------------------------------|
//! | Head      | a request's head; buffered     | its end: Body or Waiting                            |
//! |           | while the peer does not read   |                                                     |
//! | Body      | a request's body               | its end: Waiting, or Head if the response is over    |
//! | Waiting   | buffered: pipelined requests   | the end of the response: Head                       |
//! | Tunnel    | of a WebSocket                        | the end of either side: Lingering                   |
//! | Lingering | dropped after the response     | the peer's end, or a deadline                       |
//! | Closed    | dropped                        | –                                                   |
//!
//! `requests` parses input, `responses` frames and `output` sends. Upholds S2: no borrow of the state is held during a call of the
//! transport, the application or the loop.

use crate::ffi::{LoopCell, Object};
use crate::http::connection::ends::{self, Ends};
use crate::http::connection::h2::connection::Http2Connection;
use crate::http::connection::open_connections::OpenConnections;
use crate::http::connection::options::NEVER_NS;
use crate::http::connection::output;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::service::Service;
use crate::http::exchange::waiting::wake;
use crate::transport::Under;
use oneloop_http1::BodyReader;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

/// Up to this much of an unwanted body is read and dropped to keep the connection.
pub const UNWANTED_BODY_BYTES: u64 = 256 * 1024;

pub enum Input {
    /// The header of a proxy: `proxied`.
    Proxy,
    Head,
    Body(BodyReader),
    Waiting,
    /// Bytes of the current exchange's tunnel.
    Tunnel,
    Lingering,
    Closed,
}

/// The event that a deadline limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// The first byte of a request, after a response or at the start.
    Request,
    /// The rest of a head.
    Head,
    /// More of a body.
    Body,
    /// The peer's end of file.
    End,
    /// The peer reads more of the sent data.
    Drain,
    /// The time for a WebSocket's next ping.
    Ping,
    /// The pong for the last ping.
    Pong,
}

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct State {
    pub under: Option<Under>,
    pub input: Input,
    /// Received and not yet processed.
    pub buffer: Vec<u8>,
    /// This many bytes of it are known to contain no end of a head.
    pub searched: usize,
    pub exchange: Option<Object<Exchange>>,
    /// Its response is written, and waits for the peer. There is one at most: meanwhile no other request is taken.
    pub unrecorded: Option<Object<Exchange>>,
    pub awaited: Awaited,
    pub deadline_ns: u64,
    /// The transport's unsent bytes at the last check.
    pub unsent_bytes: usize,
    /// When a check has last found that they had changed.
    pub moved_ns: u64,
    pub place: usize,
    /// Input is being processed: data received meanwhile is only buffered.
    pub is_feeding: bool,
    /// Buffered input will be processed in the next tick.
    pub will_go_on: bool,
    /// The current tunnel has sent its last bytes, and waits for the peer's end.
    pub is_tunnel_over: bool,
    pub is_reading_paused: bool,
    pub is_writing_paused: bool,
    pub is_tls: bool,
    /// The peer has ended its side.
    pub has_eof: bool,
    pub is_lost: bool,
    /// What was still queued then.
    pub lost_bytes: usize,
    /// The current request is the last one.
    pub is_last: bool,
    /// The last response has no other end than the connection's.
    pub ends_by_close: bool,
    /// It ends by a reset, because such a response is not complete.
    pub will_reset: bool,
    /// No request has arrived yet.
    pub is_fresh: bool,
    /// Futures of `send` calls that wait until the transport takes more.
    pub drain_waiters: Vec<Py<PyAny>>,
}

impl State {
    /// The rest of a body is too long to be read and discarded.
    pub fn has_long_body(&self) -> bool {
        match &self.input {
            Input::Body(reader) => reader.left().is_none_or(|left| left > UNWANTED_BODY_BYTES),
            _ => false,
        }
    }

    /// No request is taken until the peer has read what was sent: what it sends meanwhile stays in the buffer.
    pub fn is_held(&self) -> bool {
        self.is_writing_paused && matches!(self.input, Input::Head)
    }

    /// Nothing but the connection's end follows what was sent.
    pub fn is_over(&self) -> bool {
        match self.input {
            Input::Lingering | Input::Closed => true,
            Input::Tunnel => self.is_tunnel_over,
            _ => false,
        }
    }

    /// The peer has to read what was sent, in time.
    pub fn is_draining(&self) -> bool {
        self.is_writing_paused && self.awaited == Awaited::Drain && self.deadline_ns != NEVER_NS
    }

    /// More of a body is to come, and nothing else is waited for.
    fn wants_body(&self, py: Python<'_>) -> bool {
        let is_asked = |e: &Object<Exchange>| !e.get().state.with(py, |s| s.expects_continue);
        matches!(self.input, Input::Body(_))
            && !self.is_reading_paused
            && self.deadline_ns == NEVER_NS
            && self.exchange.as_ref().is_none_or(is_asked)
    }

    /// No request follows the current one.
    pub fn is_ending(&self) -> bool {
        self.is_last || (self.has_eof && self.buffer.is_empty() && !self.is_feeding)
    }
}

/// One connection of an HTTP server: an asyncio protocol. Use it only in the loop's thread.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct HttpConnection {
    pub service: Py<Service>,
    pub open: Py<OpenConnections>,
    pub ends: Ends,
    pub state: LoopCell<State>,
}

impl HttpConnection {
    pub fn new(open: &Bound<'_, OpenConnections>) -> Self {
        let options = &open.get().options;
        let state = State {
            under: None,
            input: if options.proxy_protocol { Input::Proxy } else { Input::Head },
            buffer: Vec::new(),
            searched: 0,
            exchange: None,
            unrecorded: None,
            awaited: Awaited::Request,
            deadline_ns: NEVER_NS,
            unsent_bytes: usize::MAX,
            moved_ns: 0,
            place: usize::MAX,
            is_feeding: false,
            will_go_on: false,
            is_tunnel_over: false,
            is_reading_paused: false,
            is_writing_paused: false,
            is_tls: false,
            has_eof: false,
            is_lost: false,
            lost_bytes: 0,
            is_last: false,
            ends_by_close: false,
            will_reset: false,
            is_fresh: true,
            drain_waiters: Vec::new(),
        };
        let service = open.get().service.clone_ref(open.py());
        let ends = Ends::default();
        Self { service, open: open.clone().unbind(), ends, state: LoopCell::new(state) }
    }

    pub fn under(&self, py: Python<'_>) -> Option<Under> {
        self.state.with(py, |s| s.under.as_ref().map(|under| under.clone_ref(py)))
    }

    pub fn exchange<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Exchange>> {
        self.state.with(py, |s| s.exchange.as_ref().map(|e| e.bind(py).clone()))
    }

    /// Calls a method of the transport, if there is one.
    pub fn call_under(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match self.under(py) {
            Some(under) => under.object(py).call_method0(name).map(drop),
            None => Ok(()),
        }
    }

    /// Closes the connection after the written data is sent.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |s| {
            s.input = Input::Closed;
            s.is_last = true;
            s.unsent_bytes = usize::MAX;
        });
        self.wait_for(py, Awaited::End);
        self.under(py).map_or(Ok(()), |under| output::close(&under, py))
    }

    /// Closes the connection after the written data is sent, without a reset, which could lose the last response of a
    /// peer that is still sending: RFC 9112 section 9.6.
    pub fn linger(&self, py: Python<'_>) -> PyResult<()> {
        let Some(under) = self.under(py) else { return Ok(()) };
        let under = under.object(py);
        let is_done = self.state.with(py, |s| s.has_eof || s.is_lost);
        if is_done || !under.call_method0(intern!(py, "can_write_eof"))?.is_truthy()? {
            return self.close(py);
        }
        self.state.with(py, |s| {
            s.input = Input::Lingering;
            s.is_last = true;
            s.unsent_bytes = usize::MAX;
            s.buffer = Vec::new();
        });
        self.wait_for(py, Awaited::End);
        let ended = under.call_method0(intern!(py, "write_eof"));
        match ended {
            Ok(_) => self.resume_reading(py),
            // The peer is already gone.
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyOSError>(py) => self.close(py),
            Err(error) => Err(error),
        }
    }

    pub fn pause_reading(&self, py: Python<'_>) -> PyResult<()> {
        let is_new = !self.state.with(py, |s| std::mem::replace(&mut s.is_reading_paused, true));
        if is_new { self.call_under(py, "pause_reading") } else { Ok(()) }
    }

    pub fn resume_reading(&self, py: Python<'_>) -> PyResult<()> {
        let was_paused =
            self.state.with(py, |s| std::mem::replace(&mut s.is_reading_paused, false));
        if was_paused { self.call_under(py, "resume_reading") } else { Ok(()) }
    }

    /// The connection speaks HTTP/2: another protocol serves it from here on.
    pub fn hand_over(
        slf: &Bound<'_, Self>,
        transport: &Bound<'_, PyAny>,
        input: &[u8],
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (place, under) = this.state.with(py, |s| {
            s.input = Input::Closed;
            s.deadline_ns = NEVER_NS;
            let place = std::mem::replace(&mut s.place, usize::MAX);
            (place, s.under.take())
        });
        drop(under);
        if place != usize::MAX {
            this.open.get().remove(py, place);
        }
        Http2Connection::start(this.open.bind(py), this.ends.take(py), transport, input)
    }

    /// Notifies the application, once, that the peer is gone or that the server no longer listens to it.
    pub fn disconnect(&self, py: Python<'_>) -> PyResult<()> {
        let waiters = self.state.with(py, |s| std::mem::take(&mut s.drain_waiters));
        let woken = wake(py, waiters);
        match self.exchange(py) {
            Some(exchange) => exchange.get().disconnect(py).and(woken),
            None => woken,
        }
    }
}

#[pymethods]
impl HttpConnection {
    /// Called by a timer.
    fn _moment_over(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        Self::end_moment(slf, exchange)
    }

    /// Called by a timer.
    fn _reset_when_taken(slf: &Bound<'_, Self>, wait_s: f64) -> PyResult<()> {
        Self::reset_when_taken(slf, wait_s)
    }

    fn connection_made(slf: &Bound<'_, Self>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let under = Under::from(transport);
        let is_tls = ends::is_tls(&under, py)?;
        if is_tls
            && this.open.get().options.http.has_h2()
            && under.agreed_protocol(py)?.as_deref() == Some("h2")
        {
            return Self::hand_over(slf, transport, b"");
        }
        // TLS after a proxy's header calls this a second time.
        let place = match this.state.with(py, |s| s.place) {
            usize::MAX => OpenConnections::add(this.open.bind(py), Self::entry(slf))?,
            place => place,
        };
        let old = this.state.with(py, |s| {
            s.place = place;
            s.is_tls = is_tls;
            s.is_last |= this.service.get().serving.with(py, |serving| serving.is_shutting_down);
            s.under.replace(under)
        });
        drop(old);
        this.wait_for(py, Awaited::Request);
        Ok(())
    }

    fn data_received(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        Self::feed(slf, data.as_bytes())
    }

    /// The peer has ended its side. The transport closes unless a response is in progress, because the peer may be
    /// waiting for it. The application is notified as if the peer were gone.
    fn eof_received(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let is_tls = this.state.with(py, |s| {
            s.has_eof = true;
            s.is_tls
        });
        // A TLS connection ends with either side.
        Ok(Self::end_input(slf)? && !is_tls)
    }

    #[pyo3(signature = (_exc = None))]
    pub fn connection_lost(slf: &Bound<'_, Self>, _exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (place, under, buffer) = this.state.with(py, |s| {
            s.is_lost = true;
            s.is_last = true;
            s.input = Input::Closed;
            s.deadline_ns = NEVER_NS;
            let place = std::mem::replace(&mut s.place, usize::MAX);
            (place, s.under.take(), std::mem::take(&mut s.buffer))
        });
        let lost_bytes = under.as_ref().map_or(0, |under| output::lost_bytes(under, py));
        this.state.with(py, |s| s.lost_bytes = lost_bytes);
        drop((under, buffer));
        if place != usize::MAX {
            this.open.get().remove(py, place);
        }
        // However it has ended: a peer that has read all and closes, with TLS's close_notify unread, resets it.
        let is_sent = lost_bytes == 0;
        let notified = this.disconnect(py).and(this.record_kept(py, is_sent));
        let exchange = this.state.with(py, |s| s.exchange.take());
        drop(exchange);
        notified
    }

    fn pause_writing(&self, py: Python<'_>) {
        let is_free = self.state.with(py, |s| {
            s.is_writing_paused = true;
            s.unsent_bytes = usize::MAX;
            s.deadline_ns == NEVER_NS || s.awaited == Awaited::Body
        });
        if is_free {
            self.wait_for(py, Awaited::Drain);
        }
    }

    fn resume_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (was_held, wants_body, waiters) = this.state.with(py, |s| {
            let was_held = s.is_held();
            s.is_writing_paused = false;
            // What the system still has must be read in time, too, if nothing follows it.
            if s.awaited == Awaited::Drain && !s.is_over() {
                s.deadline_ns = NEVER_NS;
            }
            (was_held, s.wants_body(py), std::mem::take(&mut s.drain_waiters))
        });
        if wants_body {
            this.wait_for(py, Awaited::Body);
        }
        let mut woken = wake(py, waiters);
        // A transport of TLS that closes has passed everything on, and does not know yet what becomes of it.
        if this.state.with(py, |s| s.unrecorded.is_some()) && !this.is_ending(py)? {
            woken = woken.and(this.record_kept(py, true));
        }
        if was_held {
            return Self::go_to_next_request(slf).and(woken);
        }
        match this.exchange(py) {
            Some(exchange) => match &exchange.get().tunnel {
                Some(tunnel) => tunnel.read_on(&exchange).and(woken),
                None => Self::begin_moment(slf, &exchange).and(woken),
            },
            None => woken,
        }
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
                for exchange in s.exchange.iter().chain(&s.unrecorded) {
                    exchange.visit(&visit)?;
                }
                s.drain_waiters.iter().try_for_each(|waiter| visit.call(waiter))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| (s.under.take(), s.exchange.take(), s.unrecorded.take()));
        drop(old);
    }
}
