//! `ClientConnection`: the protocol of one connection to a server.
//!
//! | input  | received bytes are                  | next on                                              |
//! |--------|-------------------------------------|------------------------------------------------------|
//! | Idle   | a mistake: the connection is closed | an exchange: Head                                    |
//! | Head   | the head of a response               | its end: Body, Tunnel, or Idle                       |
//! | Body   | the body of a response               | its end: Idle, or Closed if it cannot be used again  |
//! | Tunnel | what both sides agreed on           | either end                                           |
//! | Closed | dropped                             | –                                                    |
//!
//! An exchange has its connection for itself until its response is complete. `reading` parses the input, `carrier` is what
//! the exchange calls. The connection knows its origin by the trait `Home`. Upholds S2: no
//! borrow of the state is held during a call of the transport or the loop.

use super::exchange::{ClientExchange, Stage, cancel_timer};
use super::failure::{self, INTERRUPTED, Kind};
use super::h2::state::Http2;
use super::protocol::Protocol;
use super::timeouts::{Awaited, NEVER_NS};
use crate::event_loop::LoopCore;
use crate::ffi::values::Value;
use crate::ffi::{Link, LoopCell, Object, bytes, fallible};
use crate::tls::TlsTransport;
use crate::transport::{StreamTransport, Under};
use oneloop_engine::sys::clock::monotonic_ns;
use oneloop_http1::BodyReader;
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};

/// An origin, as its connections use it.
pub trait Home: Sync {
    /// The connection is open.
    fn opened(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()>;

    /// The connection is free after an exchange.
    fn give_back(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()>;

    /// The connection has got its transport, and cannot be used.
    fn stillborn(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
        error: PyErr,
    ) -> PyResult<()>;

    /// The connection is closing, or gone.
    fn closed(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()>;

    /// The connection has had to leave an exchange that may be sent again.
    fn repeat(
        &self,
        origin: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()>;

    /// The connection could not begin an exchange: another one may.
    fn try_elsewhere(
        &self,
        origin: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
        why: &str,
    ) -> PyResult<()>;

    /// On HTTP/2: the server's settings have arrived.
    fn greeted(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()>;

    /// On HTTP/2: the connection takes more exchanges beside those that it carries.
    fn share(
        &self,
        origin: &Bound<'_, PyAny>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()>;

    /// On HTTP/2: the connection carries no exchange any more, or gets no other one.
    fn unshare(&self, origin: &Bound<'_, PyAny>, connection: &Bound<'_, ClientConnection>);
}

/// What an origin says to each of its connections.
pub struct Terms {
    pub origin: Link<dyn Home>,
    pub owner: Py<LoopCore>,
    /// How it is opened; for Python code.
    pub route: Py<PyAny>,
    pub protocol: Protocol,
    /// How long it may be idle.
    pub idle_ns: u64,
}

pub enum Input {
    Idle,
    Head,
    Body(BodyReader),
    Tunnel,
    Closed,
}

/// Whether it counts as one of its origin's open connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It has had no transport yet: its opening counts.
    Unopened,
    Counted,
    /// It is closing, or gone.
    Left,
}

pub struct State {
    pub under: Option<Under>,
    pub input: Input,
    /// Received and not processed.
    pub buffer: Vec<u8>,
    /// This many bytes of it are known to contain no end of a head.
    pub searched: usize,
    /// Informational responses before the final one.
    pub informational: u32,
    /// If it speaks HTTP/2. Its exchanges are there then, and `exchange` is not used.
    pub h2: Option<Box<Http2<ClientExchange>>>,
    pub exchange: Option<Object<ClientExchange>>,
    /// Until it is open: the one that it is opened for.
    pub opened_for: Option<Object<ClientExchange>>,
    pub awaited: Awaited,
    pub deadline_ns: u64,
    /// What the server had not read when the deadline was set, in bytes.
    pub undrained: usize,
    pub timer: Option<Py<PyAny>>,
    pub timer_ns: u64,
    pub is_reading_paused: bool,
    pub is_lost: bool,
    pub idle_since_ns: u64,
    /// Exchanges that it has carried, the present ones included.
    pub exchanges: u64,
    pub standing: Standing,
    /// When it got its transport; 0: not yet. Not the loop's clock, which was read before the TLS handshake ended.
    pub opened_ns: u64,
}

impl State {
    /// Whether it carries an exchange.
    pub fn is_busy(&self) -> bool {
        self.exchange.is_some() || self.h2.as_ref().is_some_and(|h2| !h2.streams.is_empty())
    }
}

/// One connection of a client: an asyncio protocol. Use it only in the loop's thread.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct ClientConnection {
    pub terms: Terms,
    /// The transport does not take more at the moment.
    is_full: AtomicBool,
    is_http2: AtomicBool,
    pub state: LoopCell<State>,
}

/// When this much of a response is waiting to be taken, reading is paused.
pub const BODY_HIGH_BYTES: usize = 256 * 1024;

impl ClientConnection {
    pub fn new(terms: Terms, opened_for: Option<Object<ClientExchange>>) -> Self {
        let state = State {
            under: None,
            input: Input::Idle,
            buffer: Vec::new(),
            searched: 0,
            informational: 0,
            h2: None,
            exchange: None,
            opened_for,
            awaited: Awaited::Nothing,
            deadline_ns: NEVER_NS,
            undrained: 0,
            timer: None,
            timer_ns: NEVER_NS,
            is_reading_paused: false,
            is_lost: false,
            idle_since_ns: 0,
            exchanges: 0,
            standing: Standing::Unopened,
            opened_ns: 0,
        };
        Self {
            terms,
            is_full: AtomicBool::new(false),
            is_http2: AtomicBool::new(false),
            state: LoopCell::new(state),
        }
    }

    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    pub fn is_http2(&self) -> bool {
        self.is_http2.load(Ordering::Relaxed)
    }

    pub fn set_http2(&self) {
        self.is_http2.store(true, Ordering::Relaxed);
    }

    /// Whether it carries an exchange.
    pub fn is_busy(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_busy())
    }

    /// Whether it has been idle from this time on.
    pub fn is_idle_since(&self, py: Python<'_>, since_ns: u64) -> bool {
        self.state.with(py, |s| {
            !s.is_lost
                && matches!(s.input, Input::Idle)
                && !s.is_busy()
                && s.idle_since_ns == since_ns
        })
    }

    pub fn is_gone(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_lost)
    }

    pub fn under(&self, py: Python<'_>) -> Option<Under> {
        self.state.with(py, |s| s.under.as_ref().map(|under| under.clone_ref(py)))
    }

    pub fn transport(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.under(py).map(|under| under.object(py).clone().unbind())
    }

    pub fn exchange<'py>(&self, py: Python<'py>) -> Option<Bound<'py, ClientExchange>> {
        self.state.with(py, |s| s.exchange.as_ref().map(|e| e.bind(py).clone()))
    }

    pub fn owner(&self) -> &LoopCore {
        self.terms.owner.get()
    }

    /// Its origin, and the functions to call with it.
    pub fn home<'a, 'py>(&'a self, py: Python<'py>) -> (&'static dyn Home, &'a Bound<'py, PyAny>) {
        (self.terms.origin.calls, self.terms.origin.object.bind(py))
    }

    pub fn call_under(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match self.under(py) {
            Some(under) => under.object(py).call_method0(fallible::interned(py, name)?).map(drop),
            None => Ok(()),
        }
    }

    /// Sends a request. If that fails, such as without memory, the exchange ends with the error: who calls this may be
    /// another exchange, or the loop.
    pub fn begin(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let py = slf.py();
        let begun = if slf.get().is_http2() {
            Self::begin_stream(slf, exchange)
        } else {
            Self::begin_alone(slf, exchange)
        };
        let Err(error) = begun else { return Ok(()) };
        let given_up = Self::give_up(slf, exchange);
        let (told, raised) = failure::told(py, error, Kind::ReadError, INTERRUPTED);
        raised.and(exchange.get().fail(py, told)).and(given_up)
    }

    fn begin_alone(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let kept = Object::new(exchange.clone());
        this.state.with(py, |s| {
            s.exchange = Some(kept);
            s.exchanges += 1;
            s.input = Input::Head;
            s.informational = 0;
            s.searched = 0;
        });
        let request = exchange.get();
        let now_ns = this.owner().now_ns(py);
        let (timer, before) = request.state.with(py, |s| {
            s.stage = Stage::Sent;
            s.sent_ns = now_ns;
            s.connection = Some(Self::link(slf));
            let before = s.carrier.replace(Self::link(slf));
            (s.timer.take(), (before, s.opening.take()))
        });
        drop(before);
        cancel_timer(py, timer)?;
        Self::write_whole(slf, request)?;
        // A sender that waits for its connection.
        request.wake_waiters(py)?;
        Self::wait_for_response(slf, request)
    }

    pub fn write(slf: &Bound<'_, Self>, pieces: &[Bound<'_, PyBytes>]) -> PyResult<()> {
        let py = slf.py();
        match slf.get().under(py) {
            Some(Under::Stream(stream)) => {
                let stream = stream.bind(py);
                match pieces {
                    // Its loss is noticed by `connection_lost`.
                    _ if stream.get().is_over(py) => Ok(()),
                    [piece] => StreamTransport::write_slice(stream, piece.as_bytes()),
                    _ => StreamTransport::write_pieces(stream, pieces),
                }
            }
            Some(Under::Other(other)) => {
                let parts: Vec<_> =
                    pieces.iter().map(|piece| IoSlice::new(piece.as_bytes())).collect();
                let data = match pieces {
                    [piece] => piece.clone(),
                    _ => bytes::joined(py, &parts)?,
                };
                other.bind(py).call_method1(intern!(py, "write"), (data,)).map(drop)
            }
            None => Ok(()),
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
}

#[pymethods]
impl ClientConnection {
    fn connection_made(slf: &Bound<'_, Self>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        // Its opening was given up as it succeeded, and does not count any more.
        if slf.get().is_gone(py) {
            return transport.call_method0(intern!(py, "abort")).map(drop);
        }
        if let Ok(tls) = transport.cast_exact::<TlsTransport>() {
            tls.get().want_rest(py);
        }
        let under = Under::from(transport);
        let is_http2 = slf.get().terms.protocol.is_http2_over(py, &under);
        let old = slf.get().state.with(py, |s| {
            s.standing = Standing::Counted;
            s.opened_ns = monotonic_ns();
            s.under.replace(under)
        });
        drop(old);
        let begun = match is_http2 {
            Ok(true) => Self::start_http2(slf),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        match begun {
            Ok(()) => {
                let (home, origin) = slf.get().home(py);
                home.opened(origin, slf)
            }
            Err(error) => Self::be_stillborn(slf, error),
        }
    }

    /// Whether it has had a transport, so that its end counts.
    #[getter]
    fn was_open(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.standing != Standing::Unopened)
    }

    /// When it got its transport (with TLS: after the handshake), as `time.monotonic()`; None: not yet.
    #[getter]
    fn opened_s(&self, py: Python<'_>) -> Value<Option<f64>> {
        let opened_ns = self.state.with(py, |s| s.opened_ns);
        Value((opened_ns != 0).then(|| opened_ns as f64 / 1e9))
    }

    /// Whether it speaks HTTP/2.
    #[getter]
    fn is_h2(&self) -> bool {
        self.is_http2()
    }

    /// Whether another exchange can begin on it besides those that it carries.
    #[getter]
    fn takes_more(&self, py: Python<'_>) -> bool {
        self.has_room(py)
    }

    /// How many exchanges it carries now.
    #[getter]
    fn carried(&self, py: Python<'_>) -> Value<usize> {
        Value(self.streams(py) + usize::from(self.exchange(py).is_some()))
    }

    /// How many exchanges it has carried.
    #[getter]
    fn exchanges(&self, py: Python<'_>) -> Value<u64> {
        Value(self.state.with(py, |s| s.exchanges))
    }

    #[getter]
    fn is_idle(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| matches!(s.input, Input::Idle) && !s.is_busy() && !s.is_lost)
    }

    #[getter]
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_lost || matches!(s.input, Input::Closed))
    }

    /// Whether it is idle, and the server has neither closed it nor sent anything.
    #[getter]
    fn is_ready(slf: &Bound<'_, Self>) -> bool {
        let (py, this) = (slf.py(), slf.get());
        let now_ns = this.owner().now_ns(py);
        this.is_idle(py) && Self::is_usable(slf, now_ns)
    }

    /// How it was opened; for Python code.
    #[getter]
    fn route(&self, py: Python<'_>) -> Py<PyAny> {
        self.terms.route.clone_ref(py)
    }

    /// End it at once, if it is not closed.
    fn drop_now(slf: &Bound<'_, Self>) -> PyResult<()> {
        if slf.get().is_gone(slf.py()) { Ok(()) } else { Self::abort(slf) }
    }

    /// Close it, if it carries no exchange.
    fn shut(slf: &Bound<'_, Self>) -> PyResult<()> {
        if slf.get().is_busy(slf.py()) { Ok(()) } else { Self::close(slf) }
    }

    fn data_received(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        Self::feed(slf, data.as_bytes())
    }

    fn eof_received(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Self::end_input(slf)?;
        Self::lose(slf, None)?;
        Ok(false)
    }

    #[pyo3(signature = (exc = None))]
    fn connection_lost(slf: &Bound<'_, Self>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let ended = match &exc {
            None => Self::end_input(slf),
            // A response that came before a write failed. Over TLS it has been delivered already.
            Some(error) if error.is_instance_of::<PyOSError>() => Self::drain(slf),
            // The parser has not taken all that was received: what follows has no place.
            Some(_) => Ok(()),
        };
        let lost = ended.and(Self::lose(slf, exc));
        let (under, buffer, timer, h2, opened_for) = this.state.with(py, |s| {
            s.is_lost = true;
            s.input = Input::Closed;
            s.deadline_ns = NEVER_NS;
            s.timer_ns = NEVER_NS;
            let (under, buffer) = (s.under.take(), std::mem::take(&mut s.buffer));
            (under, buffer, s.timer.take(), s.h2.take(), s.opened_for.take())
        });
        drop((under, buffer, h2, opened_for));
        this.is_full.store(false, Ordering::Relaxed);
        let cancelled = cancel_timer(py, timer);
        lost.and(Self::leave(slf)).and(cancelled)
    }

    fn pause_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        if slf.get().is_http2() {
            return Self::pause_frames(slf, true);
        }
        slf.get().is_full.store(true, Ordering::Relaxed);
        match slf.get().exchange(slf.py()) {
            Some(exchange) => Self::wait_for_response(slf, exchange.get()),
            None => Ok(()),
        }
    }

    fn resume_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if slf.get().is_http2() {
            return Self::pause_frames(slf, false);
        }
        slf.get().is_full.store(false, Ordering::Relaxed);
        match slf.get().exchange(py) {
            Some(exchange) => {
                Self::wait_for_response(slf, exchange.get())?;
                exchange.get().wake_waiters(py)
            }
            None => Ok(()),
        }
    }

    /// Called by the timer.
    fn _expire(slf: &Bound<'_, Self>) -> PyResult<()> {
        let Err(error) = Self::expire(slf) else { return Ok(()) };
        // Such as without memory for another timer, and without it nothing would end the wait.
        let (told, raised) = failure::told(slf.py(), error, Kind::ReadError, INTERRUPTED);
        raised.and(Self::fail(slf, told))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.terms.origin.object.visit(&visit)?;
        visit.call(&self.terms.owner)?;
        visit.call(&self.terms.route)?;
        self.state
            .peek(|s| {
                match &s.under {
                    Some(Under::Stream(stream)) => visit.call(stream)?,
                    Some(Under::Other(other)) => visit.call(other)?,
                    None => {}
                }
                for exchange in s.exchange.iter().chain(&s.opened_for) {
                    exchange.visit(&visit)?;
                }
                for open in s.h2.iter().flat_map(|h2| h2.streams.values()) {
                    open.exchange.visit(&visit)?;
                }
                visit.call(&s.timer)
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| {
            let exchanges = (s.exchange.take(), s.opened_for.take());
            (s.under.take(), exchanges, s.timer.take(), s.h2.take())
        });
        drop(old);
    }
}
