//! `TlsTransport`: TLS over a byte transport. It is the program's transport above, and the protocol of the transport
//! below.
//!
//! Its phases are those of `asyncio.sslproto`, which it replaces:
//!
//! | phase     | reads                 | writes          | next phase on                                           |
//! |-----------|-----------------------|-----------------|---------------------------------------------------------|
//! | Unwrapped | –                     | dropped         | `connection_made`; also the last phase                  |
//! | Handshake | the handshake         | queued          | its end                                                 |
//! | Wrapped   | data                  | sent            | `close`, the peer's close_notify or end of file, errors |
//! | Flushing  | data                  | dropped         | received data was read                                  |
//! | Shutdown  | close_notify          | dropped         | the peer's close_notify, end of file, the timeout       |
//!
//! `handshake`, `reading`, `writing` and `shutdown` implement these steps, `information` its `get_extra_info`.
//! Upholds S2: no borrow of the state is held during a call of the library, the transport below or the protocol.

use super::backlog::Backlog;
use super::default_context::default_context;
use super::library::Library;
use super::marks::Marks;
use super::session::Session;
use super::timeouts::Timeouts;
use crate::event_loop::{LoopCore, Run};
use crate::ffi::fallible;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use crate::imports;
use crate::transport::{Mark, StreamProtocol, Under, unclosed};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::{PyTraverseError, PyVisit};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Unwrapped,
    Handshake,
    Wrapped,
    Flushing,
    Shutdown,
}

/// The callbacks that the program's protocol has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum App {
    Init,
    Made,
    Eof,
    Lost,
}

/// State that is only needed during the handshake.
pub struct Opening {
    pub waiter: Option<Py<PyAny>>,
    pub timer: Option<Py<PyAny>>,
    /// On the loop's clock; in debug mode.
    pub started_s: Option<f64>,
}

#[derive(Default)]
pub struct Outgoing {
    pub backlog: Backlog,
    /// The length of what was encrypted while the transport below was paused, and waits in the library.
    pub encrypted_bytes: usize,
    /// What it held when the connection was lost.
    pub lost_bytes: usize,
    pub marks: Marks,
    /// The transport below is paused.
    pub is_blocked: bool,
    /// The context of the first gathered write, while this is on the loop's list of transports to flush at the end of
    /// the callback.
    pub gathered_in: Option<Object>,
    /// The callback in which a write was last sent immediately.
    pub callback: u64,
    /// When the last send ended, on the cycle counter.
    pub sent_at: u64,
    /// The fork generation of the process that queued the data: a forked child must not send it again (S6).
    pub forks: u32,
    pub writes_after_loss: u32,
}

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct State {
    pub phase: Phase,
    pub app: App,
    pub protocol: Option<StreamProtocol>,
    /// Kept after the end, for `get_extra_info`.
    pub under: Option<Under>,
    /// That of the connection, unless the transport below has it: see `own_context`.
    pub context: Option<Py<PyAny>>,
    pub opening: Option<Box<Opening>>,
    pub shutdown_timer: Option<Py<PyAny>>,
    pub out: Outgoing,
    /// Ciphertext that waits for a program that has paused reading.
    pub unread_marks: Marks,
    /// Paused by the program.
    pub is_reading_paused: bool,
    /// A `BufferedProtocol` gets more of what was received in a callback that is scheduled.
    pub is_read_due: bool,
    /// How often `pause_reading()` was called.
    pub pauses: u64,
    /// The handshake has succeeded.
    pub is_shaken: bool,
    /// The transport below has reported the end of file.
    pub has_eof: bool,
    /// The program has closed it, or it has ended.
    pub is_closed: bool,
    /// The transport below has reported its end.
    pub is_lost: bool,
    /// Called by the program.
    pub has_called_close: bool,
    /// What comes behind our close_notify is dropped, and no error: `close_and_drop`.
    pub drops_input: bool,
    /// The protocol gets what was received before a write failed: `want_rest`.
    pub wants_rest: bool,
    /// The error of a read, while the data before it is delivered.
    pub failure: Option<PyErr>,
    /// Closed a second time: nobody will use `ssl_object`.
    pub is_forgotten: bool,
    pub sslcontext: Option<Py<PyAny>>,
    /// Cached results of `get_extra_info`.
    pub extra: Option<Py<PyDict>>,
    /// The garbage collector has cleared it before anybody has closed it.
    is_cleared_open: bool,
}

impl State {
    fn is_open(&self) -> bool {
        self.under.is_some() && !self.is_closed && !self.is_lost
    }
}

/// TLS over a stream transport. Has the interface of `asyncio.Transport`.
///
/// Use it only in the loop's thread. Made by `create_connection`, `create_server`, `start_tls` and similar methods
/// with `ssl`. It has the name of asyncio's class, because programs look for "SSL" in it.
#[pyclass(frozen, weakref, module = "oneloop", name = "_SSLProtocolTransport")]
pub struct TlsTransport {
    pub owner: Py<LoopCore>,
    pub library: Library,
    pub timeouts: Timeouts,
    pub state: LoopCell<State>,
}

impl TlsTransport {
    /// Closes. A peer that still sends does not lose what it has not read: asyncio's transports take data behind their
    /// close_notify for an error, and abort; this one drops it until the peer ends, or until `abort`. RFC 8446, 6.1.
    pub fn close_and_drop(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().state.with(slf.py(), |s| s.drops_input = true);
        Self::close(slf)
    }

    /// From now on, when a send has failed below, the protocol gets what the socket still has before its
    /// `connection_lost`: the peer may have said why it ends the connection. asyncio's transports drop it.
    pub fn want_rest(&self, py: Python<'_>) {
        self.state.with(py, |s| s.wants_rest = true);
    }

    pub fn phase(&self, py: Python<'_>) -> Phase {
        self.state.with(py, |s| s.phase)
    }

    /// One side has ended the connection: what is written is lost.
    pub fn is_over(&self, py: Python<'_>) -> bool {
        self.has_failed_below(py) || !matches!(self.phase(py), Phase::Handshake | Phase::Wrapped)
    }

    /// A send has failed below, which is told in the next tick.
    pub fn has_failed_below(&self, py: Python<'_>) -> bool {
        let under = self.state.with(py, |s| s.under.as_ref().map(|under| under.clone_ref(py)));
        matches!(under, Some(Under::Stream(stream)) if stream.get().is_over(py))
    }

    /// What was still queued when the connection was lost, here and below.
    pub fn lost_bytes(&self, py: Python<'_>) -> usize {
        self.state.with(py, |s| s.out.lost_bytes)
    }

    pub fn set_phase(&self, py: Python<'_>, phase: Phase) {
        self.state.with(py, |s| s.phase = phase);
    }

    pub fn protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.state.with(py, |s| s.protocol.as_ref().map(|p| p.object.bind(py).clone()))
    }

    /// The transport below, unless it is lost.
    pub fn under(&self, py: Python<'_>) -> Option<Under> {
        self.state.with(py, |s| match &s.under {
            Some(under) if !s.is_lost => Some(under.clone_ref(py)),
            _ => None,
        })
    }

    /// Calls a method of the transport below, if there is one.
    pub fn call_under(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match self.under(py) {
            Some(under) => under.object(py).call_method0(name).map(drop),
            None => Ok(()),
        }
    }

    /// Drops the connection; `connection_lost(exc)` follows.
    pub fn force_close_under(
        &self,
        py: Python<'_>,
        exc: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Some(under) = self.under(py) else { return Ok(()) };
        let name = intern!(py, "_force_close");
        under.object(py).call_method1(name, (exc,)).map(drop)
    }

    /// True while another thread, against the rules, is using the library: `step` follows in the next tick.
    pub fn is_deferred(slf: &Bound<'_, Self>, step: Run) -> bool {
        let py = slf.py();
        let is_busy = slf.get().library.is_busy(py);
        if is_busy {
            slf.get().owner.get().run_soon(py, slf.clone().into_any().unbind(), step);
        }
        is_busy
    }

    /// Logs `text` in debug mode, with this transport in place of its `%r`.
    pub fn log_debug(slf: &Bound<'_, Self>, text: &str, error: Option<&PyErr>) -> PyResult<()> {
        let py = slf.py();
        if !slf.get().owner.get().is_debug() {
            return Ok(());
        }
        let details = fallible::dict(py)?;
        if let Some(error) = error {
            details.set_item(intern!(py, "exc_info"), error.value(py))?;
        }
        imports::logger(py)?
            .call_method(intern!(py, "debug"), (text, slf), Some(&details))
            .map(drop)
    }
}

#[pymethods]
impl TlsTransport {
    #[expect(clippy::too_many_arguments, reason = "those of asyncio's SSLProtocol")]
    #[new]
    #[pyo3(signature = (
        owner, protocol, sslcontext, waiter = None, server_side = false, server_hostname = None, *,
        call_connection_made = true, ssl_handshake_timeout = None, ssl_shutdown_timeout = None
    ))]
    fn new(
        owner: &Bound<'_, LoopCore>,
        protocol: &Bound<'_, PyAny>,
        sslcontext: Option<Bound<'_, PyAny>>,
        waiter: Option<Py<PyAny>>,
        server_side: bool,
        server_hostname: Option<Bound<'_, PyAny>>,
        call_connection_made: bool,
        ssl_handshake_timeout: Option<f64>,
        ssl_shutdown_timeout: Option<f64>,
    ) -> PyResult<Self> {
        let py = owner.py();
        let timeouts = Timeouts::new(py, ssl_handshake_timeout, ssl_shutdown_timeout)?;
        let hostname = match server_hostname {
            Some(name) if !server_side && name.is_truthy()? => Some(name),
            _ => None,
        };
        let sslcontext = match sslcontext {
            Some(given) if given.is_truthy()? => given,
            _ => default_context(py, server_side, hostname.is_some())?,
        };
        let library = Library::new(&sslcontext, server_side, hostname.as_ref())?;
        let opening = Opening { waiter, timer: None, started_s: None };
        let state = State {
            phase: Phase::Unwrapped,
            app: if call_connection_made { App::Init } else { App::Made },
            protocol: Some(StreamProtocol::new(protocol)?),
            under: None,
            context: None,
            opening: Some(Box::new(opening)),
            shutdown_timer: None,
            out: Outgoing { marks: Marks::of_writes(), ..Outgoing::default() },
            unread_marks: Marks::of_reads(),
            is_reading_paused: false,
            is_read_due: false,
            pauses: 0,
            is_shaken: false,
            has_eof: false,
            is_closed: false,
            is_lost: false,
            has_called_close: false,
            drops_input: false,
            wants_rest: false,
            failure: None,
            is_forgotten: false,
            sslcontext: Some(sslcontext.unbind()),
            extra: None,
            is_cleared_open: false,
        };
        Ok(Self { owner: owner.clone().unbind(), library, timeouts, state: LoopCell::new(state) })
    }

    /// Close after all written data is sent, with TLS's close_notify; `connection_lost()` follows.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let (was_closed, is_lost) = this.state.with(slf.py(), |s| {
            // The loss has closed it too, and the program may not have noticed yet.
            s.is_forgotten |= s.has_called_close || (s.is_closed && !s.is_lost);
            s.has_called_close = true;
            (std::mem::replace(&mut s.is_closed, true), s.is_lost)
        });
        if is_lost && this.state.with(slf.py(), |s| s.is_forgotten) {
            this.forget(slf.py());
        }
        if was_closed { Ok(()) } else { Self::start_shutdown(slf) }
    }

    /// Close immediately and drop data that the socket has not taken; `connection_lost(None)` follows.
    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::_force_close(slf, None)
    }

    fn _force_close(slf: &Bound<'_, Self>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        Self::flush_gathered(slf)?;
        slf.get().state.with(py, |s| {
            s.is_closed = true;
            s.phase = Phase::Unwrapped;
        });
        slf.get().force_close_under(py, exc.as_ref())
    }

    /// True if the transport is closing or closed.
    fn is_closing(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        // Sending gathered data may reveal that the peer is gone.
        Self::flush_gathered(slf)?;
        if slf.get().state.with(py, |s| s.is_closed) {
            return Ok(true);
        }
        match slf.get().under(py) {
            Some(under) if imports::tls_asks_below(py)? => {
                under.object(py).call_method0(intern!(py, "is_closing"))?.is_truthy()
            }
            _ => Ok(false),
        }
    }

    /// The current protocol.
    fn get_protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.protocol(py)
    }

    /// Change the protocol. Data received from now on goes to its `data_received()` (or `get_buffer()`).
    fn set_protocol(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let new = StreamProtocol::new(protocol)?;
        let old = self.state.with(protocol.py(), |s| s.protocol.replace(new));
        drop(old);
        Ok(())
    }

    /// Send several bytes-like objects, in order, as one write. Raises TypeError if one of them is not bytes-like;
    /// then none is sent.
    fn writelines(slf: &Bound<'_, Self>, list_of_data: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::write_pieces(slf, list_of_data)
    }

    /// Raise NotImplementedError: TLS transports cannot half-close, as in asyncio.
    fn write_eof(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("a TLS transport has no write_eof(); use close()"))
    }

    /// Return False: see `write_eof`.
    fn can_write_eof(&self) -> bool {
        false
    }

    /// Stop calling `data_received()`.
    fn pause_reading(&self, py: Python<'_>) {
        self.state.with(py, |s| {
            s.is_reading_paused = true;
            s.pauses += 1;
        });
    }

    /// Resume calling `data_received()`, from the next tick on.
    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        let was_paused =
            slf.get().state.with(slf.py(), |s| std::mem::replace(&mut s.is_reading_paused, false));
        if was_paused { Self::call_soon(slf, "_resume") } else { Ok(()) }
    }

    /// True while data is being received.
    fn is_reading(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| !s.is_reading_paused)
    }

    /// Return the number of plaintext bytes that are queued because the transport below is paused.
    fn get_write_buffer_size(slf: &Bound<'_, Self>) -> PyResult<Value<usize>> {
        Self::flush_gathered(slf)?;
        Ok(Value(slf.get().state.with(slf.py(), |s| s.out.backlog.len_bytes())))
    }

    /// Return the water marks as `(low, high)`, in bytes.
    fn get_write_buffer_limits(&self, py: Python<'_>) -> Value<(usize, usize)> {
        Value(self.state.with(py, |s| s.out.marks.limits()))
    }

    /// Set the water marks, in bytes: `pause_writing()` is called at `high` or above, `resume_writing()` at `low` or
    /// below. With 0, `resume_writing()` means that the kernel has everything. Raises ValueError unless
    /// high >= low >= 0.
    #[pyo3(signature = (high = None, low = None))]
    fn set_write_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<Mark>,
        low: Option<Mark>,
    ) -> PyResult<()> {
        let marks = Marks::checked_for_writes(high, low)?;
        Self::flush_gathered(slf)?;
        let were_zero = slf.get().state.with(slf.py(), |s| {
            let were_zero = s.out.marks.are_zero();
            s.out.marks.set_limits(marks);
            were_zero
        });
        let are_zero = marks.1 == 0;
        if are_zero != were_zero {
            slf.get().limit_under(slf.py(), are_zero.then_some(0))?;
        }
        Self::control_app_writing(slf)
    }

    /// Return the number of ciphertext bytes received while reading was paused.
    fn get_read_buffer_size(&self, py: Python<'_>) -> PyResult<Value<usize>> {
        if self.state.with(py, |s| s.is_lost) || self.library.is_busy(py) {
            Ok(0)
        } else {
            self.library.unread(py)
        }
        .map(Value)
    }

    /// Return the water marks of `get_read_buffer_size()` as `(low, high)`, in bytes.
    fn get_read_buffer_limits(&self, py: Python<'_>) -> Value<(usize, usize)> {
        Value(self.state.with(py, |s| s.unread_marks.limits()))
    }

    /// Set the water marks for received data, in bytes: reading from the transport below stops at `high` and resumes
    /// at `low` or below. Raises ValueError unless high >= low >= 0.
    #[pyo3(signature = (high = None, low = None))]
    fn set_read_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<Mark>,
        low: Option<Mark>,
    ) -> PyResult<()> {
        let marks = Marks::checked_for_reads(high, low)?;
        slf.get().state.with(slf.py(), |s| s.unread_marks.set_limits(marks));
        slf.get().control_reading(slf.py())
    }

    /// asyncio's name for the protocol of the transport below, which is the same object here.
    #[getter]
    fn _ssl_protocol<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    /// asyncio uses this attribute.
    #[getter]
    fn _app_reading_paused(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_reading_paused)
    }

    /// For asyncio's own tests: queues bytes as if the transport below were paused.
    #[pyo3(name = "_test__append_write_backlog")]
    fn append_write_backlog(&self, data: &Bound<'_, PyBytes>) {
        self.state.with(data.py(), |s| s.out.backlog.push(data, 0));
    }

    /// How often `pause_reading()` was called. Who has paused it for a while can see whether somebody else did, too.
    #[getter]
    fn _pauses(&self, py: Python<'_>) -> u64 {
        self.state.with(py, |s| s.pauses)
    }

    /// asyncio's `sendfile()` fallback reads this attribute.
    #[getter]
    fn _protocol_paused(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.out.marks.is_paused())
    }

    /// asyncio's name for the transport of the protocol: None once the connection is lost. `start_tls()` returns it.
    #[getter]
    fn _app_transport<'py>(slf: &Bound<'py, Self>) -> Option<Bound<'py, Self>> {
        let is_lost = slf.get().state.with(slf.py(), |s| s.is_lost);
        (!is_lost).then(|| slf.clone())
    }

    #[getter]
    fn _loop<'py>(&self, py: Python<'py>) -> Bound<'py, LoopCore> {
        self.owner.bind(py).clone()
    }

    #[classattr]
    fn _start_tls_compatible() -> bool {
        true
    }

    /// Read by `loop.sendfile()`: read and write, because the kernel does not encrypt.
    #[getter]
    fn _sendfile_compatible<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::sendfile_mode(py)?.getattr(intern!(py, "FALLBACK"))
    }

    /// The class that `isinstance` also accepts, because native classes cannot have Python bases.
    #[getter(__class__)]
    fn presented_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::tls_transport_class(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        let (phase, is_closed) = self.state.with(py, |s| (s.phase, s.is_closed));
        let closing = if is_closed { " closing" } else { "" };
        let below = match self.under(py) {
            Some(under) => under.object(py).repr()?.to_string(),
            None => "nothing".to_owned(),
        };
        Ok(Value(format!("<_SSLProtocolTransport{closing} {phase:?} over {below}>")))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        self.library.visit(&visit)?;
        self.state
            .peek(|s| {
                if let Some(protocol) = &s.protocol {
                    protocol.visit(&visit)?;
                }
                match &s.under {
                    Some(Under::Stream(stream)) => visit.call(stream)?,
                    Some(Under::Other(other)) => visit.call(other)?,
                    None => {}
                }
                if let Some(opening) = &s.opening {
                    visit.call(&opening.waiter)?;
                    visit.call(&opening.timer)?;
                }
                if let Some(context) = &s.out.gathered_in {
                    context.visit(&visit)?;
                }
                visit.call(&s.context)?;
                visit.call(&s.shutdown_timer)?;
                visit.call(&s.sslcontext)?;
                visit.call(&s.extra)
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let dropped = self.state.with(py, |s| {
            s.is_cleared_open |= s.is_open();
            (s.protocol.take(), s.under.take(), s.opening.take())
        });
        drop(dropped);
    }
}

impl Drop for TlsTransport {
    fn drop(&mut self) {
        if self.state.peek(|s| s.is_cleared_open || s.is_open()) == Some(true) {
            unclosed::warn("<_SSLProtocolTransport object>");
        }
    }
}

/// TypeError for data that is not bytes-like.
pub fn not_bytes(data: &Bound<'_, PyAny>) -> PyErr {
    match data.get_type().name() {
        Ok(name) => {
            PyTypeError::new_err(format!("data: expecting a bytes-like instance, got {name}"))
        }
        Err(error) => error,
    }
}
