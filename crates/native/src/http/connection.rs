//! `HttpConnection`: the protocol of one connection, from its start to its end.
//!
//! | input     | received bytes are             | next state on                                       |
//! |-----------|--------------------------------|-----------------------------------------------------|
//! | Head      | a request's head               | its end: Body or Waiting                            |
//! | Body      | a request's body               | its end: Waiting, or Head if the answer is complete |
//! | Waiting   | buffered: pipelined requests   | the end of the answer: Head                         |
//! | WebSocket | frames                         | the end of either side: Lingering                   |
//! | Lingering | dropped after the last answer  | the peer's end, or a deadline                       |
//! | Closed    | dropped                        | –                                                   |
//!
//! `reading` parses input, `writing` sends. Upholds S2: no borrow of the state is held during a call of the
//! transport, the application or the loop.

use super::exchange::Exchange;
use super::options::NEVER_NS;
use super::reading::UNWANTED_BODY_BYTES;
use super::server::HttpServer;
use crate::ffi::{LoopCell, Object};
use crate::transport::Under;
use oneloop_http1::BodyReader;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::{PyTraverseError, PyVisit};

pub enum Input {
    /// The header of a proxy: `proxied`.
    Proxy,
    Head,
    Body(BodyReader),
    Waiting,
    /// WebSocket frames of the current exchange.
    WebSocket,
    Lingering,
    Closed,
}

/// The event that a deadline limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// The first byte of a request, after an answer or at the start.
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
    pub awaited: Awaited,
    pub deadline_ns: u64,
    /// The transport's unsent bytes at the last check.
    pub unsent_bytes: usize,
    pub place: usize,
    /// Input is being processed: data received meanwhile is only buffered.
    pub is_feeding: bool,
    /// Buffered input will be processed in the next tick.
    pub will_go_on: bool,
    pub is_reading_paused: bool,
    pub is_writing_paused: bool,
    pub is_tls: bool,
    /// The peer has ended its side.
    pub has_eof: bool,
    pub is_lost: bool,
    /// The current request is the last one.
    pub is_last: bool,
    /// No request has arrived yet.
    pub is_fresh: bool,
    /// Futures of `send` calls that wait until the transport takes more.
    pub drain_waiters: Vec<Py<PyAny>>,
    /// The addresses of both ends for applications; made for the first request.
    pub client: Option<Py<PyAny>>,
    pub server: Option<Py<PyAny>>,
    /// The `tls` extension for scopes.
    pub tls: Option<Py<PyDict>>,
}

impl State {
    /// The rest of a body is too long to be read and discarded.
    pub fn has_long_body(&self) -> bool {
        match &self.input {
            Input::Body(reader) => reader.left().is_none_or(|left| left > UNWANTED_BODY_BYTES),
            _ => false,
        }
    }

    /// No request follows the current one.
    pub fn is_ending(&self) -> bool {
        self.is_last || (self.has_eof && self.buffer.is_empty() && !self.is_feeding)
    }
}

/// One connection of an HTTP server: an asyncio protocol. Use it only in the loop's thread.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct HttpConnection {
    pub http: Py<HttpServer>,
    pub state: LoopCell<State>,
}

/// When the server shuts down: how long a connection without any request so far may wait for its first one. It was
/// accepted, so its request should be answered.
const FRESH_NS: u64 = 1_000_000_000;
/// When the server shuts down: how long a kept-alive connection may wait for another request, which the client may
/// already have sent.
pub const IDLE_NS: u64 = 100_000_000;
/// How long to wait for the peer's end of file after the last answer was sent.
const LINGER_NS: u64 = 2_000_000_000;

impl HttpConnection {
    pub fn new(http: &Bound<'_, HttpServer>) -> Self {
        let state = State {
            under: None,
            input: if http.get().options.proxy_protocol { Input::Proxy } else { Input::Head },
            buffer: Vec::new(),
            searched: 0,
            exchange: None,
            awaited: Awaited::Request,
            deadline_ns: NEVER_NS,
            unsent_bytes: usize::MAX,
            place: usize::MAX,
            is_feeding: false,
            will_go_on: false,
            is_reading_paused: false,
            is_writing_paused: false,
            is_tls: false,
            has_eof: false,
            is_lost: false,
            is_last: false,
            is_fresh: true,
            drain_waiters: Vec::new(),
            client: None,
            server: None,
            tls: None,
        };
        Self { http: http.clone().unbind(), state: LoopCell::new(state) }
    }

    pub fn under(&self, py: Python<'_>) -> Option<Under> {
        self.state.with(py, |s| s.under.as_ref().map(|under| under.clone_ref(py)))
    }

    pub fn exchange<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Exchange>> {
        self.state.with(py, |s| s.exchange.as_ref().map(|e| e.bind(py).clone()))
    }

    /// Calls a method of the transport, if there is one.
    fn call_under(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match self.under(py) {
            Some(under) => under.object(py).call_method0(name).map(drop),
            None => Ok(()),
        }
    }

    /// Sets the awaited event and its deadline.
    pub fn wait_for(&self, py: Python<'_>, awaited: Awaited) {
        let options = &self.http.get().options;
        let time_ns = match awaited {
            Awaited::Request => options.keep_alive_ns,
            Awaited::Head => options.header_ns,
            Awaited::Body | Awaited::Drain => options.body_ns,
            Awaited::End => LINGER_NS,
            Awaited::Ping => options.ws_ping_interval_ns,
            Awaited::Pong => options.ws_ping_timeout_ns,
        };
        let now_ns = self.http.get().owner.get().now_ns(py);
        self.state.with(py, |s| {
            s.awaited = awaited;
            s.deadline_ns = now_ns.saturating_add(time_ns);
        });
    }

    /// Removes the deadline, unless the transport is paused: then the peer must read what was sent.
    pub fn wait_for_nothing(&self, py: Python<'_>) {
        if self.state.with(py, |s| s.is_writing_paused) {
            self.wait_for(py, Awaited::Drain);
        } else {
            self.state.with(py, |s| s.deadline_ns = NEVER_NS);
        }
    }

    /// Runs no Python code.
    pub fn is_late(&self, py: Python<'_>, now_ns: u64) -> bool {
        self.state.with(py, |s| s.deadline_ns <= now_ns)
    }

    /// Called when the deadline has passed.
    pub fn time_out(slf: &Bound<'_, Self>, now_ns: u64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.is_late(py, now_ns) {
            return Ok(());
        }
        let awaited = this.state.with(py, |s| {
            s.deadline_ns = NEVER_NS;
            s.awaited
        });
        match awaited {
            Awaited::Request => this.close(py),
            Awaited::Head => Self::refuse(slf, 408, "The request took too long to arrive."),
            Awaited::Body => {
                Self::refuse(slf, 408, "The body of the request took too long to arrive.")
            }
            Awaited::End | Awaited::Drain => this.end_or_wait(py),
            awaited @ (Awaited::Ping | Awaited::Pong) => match this.exchange(py) {
                Some(exchange) => Exchange::time_out(&exchange, awaited),
                None => Ok(()),
            },
        }
    }

    /// A peer that reads the sent data gets more time. Otherwise, or if it does not end its side, the connection is
    /// aborted.
    fn end_or_wait(&self, py: Python<'_>) -> PyResult<()> {
        let unsent = self.untaken_bytes(py)?;
        let (before, is_over, awaited) = self.state.with(py, |s| {
            let is_over = matches!(s.input, Input::Lingering | Input::Closed);
            (std::mem::replace(&mut s.unsent_bytes, unsent), is_over, s.awaited)
        });
        let is_moving = unsent > 0 && unsent != before;
        if is_moving {
            self.wait_for(py, Awaited::Drain);
        } else if unsent == 0 && awaited == Awaited::Drain {
            if is_over {
                self.wait_for(py, Awaited::End);
            }
        } else {
            return self.call_under(py, "abort");
        }
        Ok(())
    }

    /// Whether the peer has read some of the sent data since the last check, or since it paused the transport.
    pub fn has_taken(&self, py: Python<'_>) -> PyResult<bool> {
        let unsent = self.untaken_bytes(py)?;
        Ok(unsent < self.state.with(py, |s| std::mem::replace(&mut s.unsent_bytes, unsent)))
    }

    /// Closes the connection after the written data is sent.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |s| {
            s.input = Input::Closed;
            s.is_last = true;
            s.unsent_bytes = usize::MAX;
        });
        self.wait_for(py, Awaited::End);
        self.call_under(py, "close")
    }

    /// Closes the connection after the written data is sent, without a reset, which could lose the last answer of a
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

    pub fn shut_down(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.state.with(py, |s| s.is_last = true);
        if let Some(exchange) = this.exchange(py)
            && let Some(websocket) = &exchange.get().websocket
        {
            return websocket.go_away(&exchange);
        }
        let now_ns = this.http.get().owner.get().now_ns(py);
        this.state.with(py, |s| {
            let awaits_request = matches!(s.input, Input::Head | Input::Proxy);
            if awaits_request && s.buffer.is_empty() && s.exchange.is_none() {
                let time_ns = if s.is_fresh { FRESH_NS } else { IDLE_NS };
                s.deadline_ns = s.deadline_ns.min(now_ns + time_ns);
            }
        });
        Ok(())
    }

    pub fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().call_under(slf.py(), "abort")
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

    /// Notifies the application, once, that the peer is gone or that the server no longer listens to it.
    pub fn disconnect(&self, py: Python<'_>) -> PyResult<()> {
        let waiters = self.state.with(py, |s| std::mem::take(&mut s.drain_waiters));
        let woken = super::exchange::wake(py, waiters);
        match self.exchange(py) {
            Some(exchange) => exchange.get().disconnect(py).and(woken),
            None => woken,
        }
    }
}

#[pymethods]
impl HttpConnection {
    fn connection_made(slf: &Bound<'_, Self>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let under = Under::from(transport);
        let is_tls = match under {
            Under::Stream(_) => false,
            Under::Other(_) => !transport
                .call_method1(intern!(py, "get_extra_info"), (intern!(py, "sslcontext"),))?
                .is_none(),
        };
        let http = this.http.bind(py);
        // TLS after a proxy's header calls this a second time.
        let place = match this.state.with(py, |s| s.place) {
            usize::MAX => HttpServer::add(http, slf)?,
            place => place,
        };
        let old = this.state.with(py, |s| {
            s.place = place;
            s.is_tls = is_tls;
            s.is_last |= http.get().serving.with(py, |serving| serving.is_shutting_down);
            s.under.replace(under)
        });
        drop(old);
        this.wait_for(py, Awaited::Request);
        Ok(())
    }

    fn data_received(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        Self::feed(slf, data.as_bytes())
    }

    /// The peer has ended its side. The transport closes unless an answer is in progress, because the peer may be
    /// waiting for it. The application is notified as if the peer were gone.
    fn eof_received(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        this.state.with(py, |s| s.has_eof = true);
        this.end_input(py)
    }

    #[pyo3(signature = (_exc = None))]
    fn connection_lost(slf: &Bound<'_, Self>, _exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
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
        drop((under, buffer));
        if place != usize::MAX {
            this.http.get().remove(py, place);
        }
        let told = this.disconnect(py);
        let exchange = this.state.with(py, |s| s.exchange.take());
        drop(exchange);
        told
    }

    fn pause_writing(&self, py: Python<'_>) {
        let is_free = self.state.with(py, |s| {
            s.is_writing_paused = true;
            s.unsent_bytes = usize::MAX;
            s.deadline_ns == NEVER_NS
        });
        if is_free {
            self.wait_for(py, Awaited::Drain);
        }
    }

    fn resume_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let waiters = this.state.with(py, |s| {
            s.is_writing_paused = false;
            if s.awaited == Awaited::Drain {
                s.deadline_ns = NEVER_NS;
            }
            std::mem::take(&mut s.drain_waiters)
        });
        let woken = super::exchange::wake(py, waiters);
        match this.exchange(py) {
            Some(exchange) => match &exchange.get().websocket {
                Some(websocket) => websocket.read_on(slf).and(woken),
                None => woken,
            },
            None => woken,
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.http)?;
        self.state
            .peek(|s| {
                match &s.under {
                    Some(Under::Stream(stream)) => visit.call(stream)?,
                    Some(Under::Other(other)) => visit.call(other)?,
                    None => {}
                }
                if let Some(exchange) = &s.exchange {
                    exchange.visit(&visit)?;
                }
                visit.call(&s.client)?;
                visit.call(&s.server)?;
                visit.call(&s.tls)?;
                s.drain_waiters.iter().try_for_each(|waiter| visit.call(waiter))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| (s.under.take(), s.exchange.take()));
        drop(old);
    }
}
