//! `ClientExchange`: one request and its response.
//!
//! | stage        | it is                                              | next on                             |
//! |--------------|----------------------------------------------------|-------------------------------------|
//! | New          | made, and nobody has waited for it yet             | a wait: Queued or Sent              |
//! | Queued       | in its origin's queue                              | a connection: Sent                  |
//! | Sent         | on a connection, which it has for itself           | the end of the response, or a failure |
//! | Ended        | complete, failed or given up; it has no connection | –                                   |
//!
//! A new exchange that nobody begins to wait for is garbage like any object: an exception between its making and the
//! first wait, such as KeyboardInterrupt, leaves nothing behind.
//!
//! It knows its connection and its origin by the traits `Carrier` and `Dispatcher`. `exchange_methods` is what the program
//! calls. A connection whose exchange was given up, or failed, is closed: no byte of one response can reach another exchange.

use super::pieces::{self, Pieces};
use super::response_head::ResponseHead;
use super::timeouts::ClientTimeouts;
use super::wake::{Place, Until};
use crate::event_loop::LoopCore;
use crate::ffi::fallible;
use crate::ffi::{Link, LoopCell, Object};
use oneloop_http1::Asked;
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A connection, as its exchange uses it.
pub trait Carrier: Sync {
    /// Whether it does not take more of a request at the moment. Runs no Python code.
    fn is_full(&self, connection: &Bound<'_, PyAny>) -> bool;

    /// Sends a part of a body, or of a tunnel.
    fn send_part(
        &self,
        connection: &Bound<'_, PyAny>,
        exchange: &ClientExchange,
        data: &Bound<'_, PyBytes>,
    ) -> PyResult<()>;

    /// The body of the request is complete.
    fn end_body(&self, connection: &Bound<'_, PyAny>, exchange: &ClientExchange) -> PyResult<()>;

    /// The program waits for more of the response: reading goes on.
    fn read_on(
        &self,
        connection: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()>;

    /// The exchange was given up.
    fn give_up(
        &self,
        connection: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()>;

    /// Ends a tunnel: the connection is closed when what was written has been sent.
    fn finish(&self, connection: &Bound<'_, PyAny>) -> PyResult<()>;

    /// Its transport, while that is open.
    fn transport(&self, connection: &Bound<'_, PyAny>) -> Option<Py<PyAny>>;
}

/// An origin, as its exchanges use it.
pub trait Dispatcher: Sync {
    /// Sends a new exchange, or queues it.
    fn begin(
        &self,
        origin: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()>;

    /// A queued exchange was given up.
    fn forget(
        &self,
        origin: &Bound<'_, PyAny>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    New,
    Queued,
    Sent,
    Ended,
}

/// How the caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Coroutine,
    GreenThread,
    /// Code without a loop, which runs the client's own loop while it waits.
    Plain,
}

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct State {
    pub stage: Stage,
    pub connection: Option<Link<dyn Carrier>>,
    /// The last connection, also when it belongs to another exchange by now. Only for what the program asks about it.
    pub carrier: Option<Link<dyn Carrier>>,
    pub response: Option<ResponseHead>,
    pub pieces: Pieces,
    /// The whole response was received.
    pub is_complete: bool,
    /// It is complete, and its connection ends. Plain code waits for that: afterwards it does not run the loop.
    pub is_ending: bool,
    /// An exception. Until it is raised, its traceback may refer to the exchange, so the garbage collector must see it.
    pub error: Option<Object>,
    /// The one who waits for the response, and for what.
    pub reader: Option<Place>,
    /// Those who send: one the request's body, any number on a tunnel.
    pub senders: Vec<Place>,
    /// How many have waited.
    pub places: u64,
    /// The whole request was passed to the transport.
    pub is_sent: bool,
    /// A part of a body that is sent later was.
    pub is_partly_sent: bool,
    /// On HTTP/2: so much of the body is queued that more has to wait.
    pub is_stuck: bool,
    /// On HTTP/2: the number of its stream; 0 on HTTP/1.1.
    pub stream: i32,
    /// Its place in the order in which the pool's requests have begun.
    pub number: u64,
    /// How often servers have refused it without looking at it.
    pub attempts: u32,
    /// The server has said `100 Continue`.
    pub is_welcome: bool,
    /// After 101, or a CONNECT that was accepted: the data in both directions is not HTTP.
    pub is_tunnel: bool,
    /// The server keeps the connection open after this response.
    pub keeps_alive: bool,
    /// Bytes of its response have arrived.
    pub has_begun: bool,
    /// A connection is being opened for it.
    pub has_opening: bool,
    /// What opens it, with a method `cancel`.
    pub opening: Option<Py<PyAny>>,
    /// While it is queued: the timer that ends the wait.
    pub timer: Option<Py<PyAny>>,
    /// While it is queued: until when it waits for its turn; 0: that time does not run.
    pub turn_ends_ns: u64,
    /// On the loop's clock.
    pub began_ns: u64,
    /// When the request was passed to its connection; 0: not yet.
    pub sent_ns: u64,
    /// When the head of the response had arrived; 0: not yet.
    pub response_ns: u64,
    pub ended_ns: u64,
}

impl State {
    /// Whether a wait has ended, with a result or an error.
    pub fn is_over(&self, py: Python<'_>, until: Until) -> bool {
        if self.is_ending && matches!(until, Until::Whole | Until::Piece) {
            return false;
        }
        if self.error.is_some() || self.is_complete || self.stage == Stage::Ended {
            return true;
        }
        let has_response = self.response.is_some();
        match until {
            Until::Head => has_response,
            // What follows the head of a response that makes a tunnel is not its body.
            Until::Whole => self.is_tunnel,
            Until::Piece => !self.pieces.is_empty() || self.is_tunnel,
            Until::Received => !self.pieces.is_empty(),
            // On a tunnel, both sides may send at any time.
            Until::Room => (has_response && !self.is_tunnel) || self.takes_more(py),
            Until::Drained => self.takes_more(py),
            Until::Welcome => has_response || self.is_welcome,
            Until::End => false,
        }
    }

    /// Whether somebody waits for the whole response.
    pub fn is_read_whole(&self) -> bool {
        matches!(self.reader, Some(Place { until: Until::Whole, .. }))
    }

    /// Whether the transport takes more of the request.
    pub fn takes_more(&self, py: Python<'_>) -> bool {
        let is_full = |link: &Link<dyn Carrier>| link.calls.is_full(link.object.bind(py));
        self.stage == Stage::Sent
            && !self.is_stuck
            && self.connection.as_ref().is_some_and(|link| !is_full(link))
    }
}

/// One request and its response. Use it only in the loop's thread.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct ClientExchange {
    pub owner: Object<LoopCore>,
    pub origin: Link<dyn Dispatcher>,
    /// What the caller needs to open a connection for this request.
    pub wishes: Object,
    pub asked: Asked,
    pub head: Object<PyBytes>,
    /// The body, if it is passed whole.
    pub body: Option<Object<PyBytes>>,
    /// On HTTP/1.1 the body is sent in chunks (RFC 9112 section 7.1).
    pub is_chunked: bool,
    /// It may be sent again if the server closes a kept connection (RFC 9110 section 9.2.2).
    pub may_repeat: bool,
    pub timeouts: Object<ClientTimeouts>,
    /// The deadline of the whole exchange, on the loop's clock.
    pub deadline_ns: u64,
    pub caller: Caller,
    pub state: LoopCell<State>,
}

pub struct Request {
    pub wishes: Object,
    pub asked: Asked,
    pub head: Object<PyBytes>,
    pub body: Option<Object<PyBytes>>,
    pub is_sent_later: bool,
    pub is_chunked: bool,
    pub may_repeat: bool,
    pub timeouts: Object<ClientTimeouts>,
    pub deadline_ns: u64,
    pub caller: Caller,
}

impl ClientExchange {
    pub fn new(
        owner: &Bound<'_, LoopCore>,
        origin: Link<dyn Dispatcher>,
        request: Request,
    ) -> Self {
        let state = State {
            stage: Stage::New,
            connection: None,
            carrier: None,
            response: None,
            pieces: Pieces::default(),
            is_complete: false,
            is_ending: false,
            error: None,
            reader: None,
            senders: Vec::new(),
            places: 0,
            is_sent: !request.is_sent_later,
            is_partly_sent: false,
            is_stuck: false,
            stream: 0,
            number: 0,
            attempts: 0,
            is_welcome: false,
            is_tunnel: false,
            keeps_alive: false,
            has_begun: false,
            has_opening: false,
            opening: None,
            timer: None,
            turn_ends_ns: 0,
            began_ns: 0,
            sent_ns: 0,
            response_ns: 0,
            ended_ns: 0,
        };
        Self {
            owner: Object::new(owner.clone()),
            origin,
            wishes: request.wishes,
            asked: request.asked,
            head: request.head,
            body: request.body,
            is_chunked: request.is_chunked,
            may_repeat: request.may_repeat,
            timeouts: request.timeouts,
            deadline_ns: request.deadline_ns,
            caller: request.caller,
            state: LoopCell::new(state),
        }
    }

    pub fn is_queued(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.stage == Stage::Queued)
    }

    pub fn connection(&self, py: Python<'_>) -> Option<Link<dyn Carrier>> {
        self.state.with(py, |s| s.connection.as_ref().map(|link| link.clone_ref(py)))
    }

    /// Wakes the waiters whose wait is over.
    pub fn wake_waiters(&self, py: Python<'_>) -> PyResult<()> {
        let (reader, senders) = self.state.with(py, |s| {
            let is_over = s.reader.as_ref().is_some_and(|place| s.is_over(py, place.until));
            let reader = if is_over { s.reader.take() } else { None };
            let (over, waiting) = std::mem::take(&mut s.senders)
                .into_iter()
                .partition(|place| s.is_over(py, place.until));
            s.senders = waiting;
            (reader, over)
        });
        let owner = self.owner.bind(py);
        let senders: Vec<_> = senders;
        let mut outcome = Ok(());
        for place in reader.into_iter().chain(senders) {
            outcome = outcome.and(place.wake.wake(owner));
        }
        outcome
    }

    /// It has ended without a whole response. The connection, if any, is the caller's business.
    pub fn fail(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        let error = Object::new(error.value(py).clone().into_any());
        let (unused, timer) = self.state.with(py, |s| {
            s.stage = Stage::Ended;
            let connection = s.connection.take();
            let unused = if s.error.is_some() || s.is_complete {
                Some(error)
            } else {
                s.error.replace(error)
            };
            ((unused, connection), s.timer.take())
        });
        drop(unused);
        let cancelled = cancel_timer(py, timer);
        self.wake_waiters(py).and(cancelled)
    }

    /// The error, to be raised. A copy stays for who asks again: the tracebacks of what is raised have the frames of those
    /// who use this exchange, which would all stay until the garbage collector runs.
    pub fn raised(&self, py: Python<'_>) -> PyResult<Option<PyErr>> {
        let Some(error) = self.state.with(py, |s| s.error.as_ref().map(|e| e.clone_ref(py))) else {
            return Ok(None);
        };
        let error = error.bind(py);
        match copied(error) {
            Ok(kept) => drop(self.state.with(py, |s| s.error.replace(Object::new(kept)))),
            // One that cannot be copied is raised again itself.
            Err(refused) if refused.is_instance_of::<PyException>(py) => {}
            Err(interrupt) => return Err(interrupt),
        }
        Ok(Some(PyErr::from_value(error.clone())))
    }

    /// Ends it: nobody waits for the response any more.
    pub fn give_up(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (stage, connection, timer) = this.state.with(py, |s| {
            let stage = std::mem::replace(&mut s.stage, Stage::Ended);
            (stage, s.connection.take(), s.timer.take())
        });
        let cancelled = cancel_timer(py, timer);
        let given_up = match (stage, connection) {
            (Stage::Queued, _) => this.origin.calls.forget(this.origin.object.bind(py), slf),
            (_, Some(link)) => link.calls.give_up(link.object.bind(py), slf),
            _ => Ok(()),
        };
        given_up.and(cancelled)
    }

    /// Keeps a part of the body until it is taken. `left`: how many bytes are missing behind it, if that is known.
    /// Returns how many wait.
    pub fn add_piece(&self, py: Python<'_>, data: &[u8], left: Option<u64>) -> PyResult<usize> {
        let gathered = self.state.with(py, |s| match left {
            Some(left) if s.pieces.gathers() || (left > 0 && s.is_read_whole()) => {
                s.pieces.gather(py, data, left).map(Some)
            }
            _ => Ok(None),
        });
        if let Some(len_bytes) = gathered? {
            return Ok(len_bytes);
        }
        let mut piece = fallible::bytes(py, data)?;
        let shorter = |len| self.state.with(py, |s| s.pieces.pop_short(py, len));
        while let Some(last) = shorter(piece.as_bytes().len()) {
            piece = pieces::joined(py, &[last, Object::new(piece)])?;
        }
        Ok(self.state.with(py, |s| s.pieces.push(py, Object::new(piece))))
    }

    /// The body received so far, as one object.
    pub fn take_pieces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        pieces::joined(py, &self.state.with(py, |s| s.pieces.take(py))?)
    }
}

/// Equal exceptions, it and what it comes from, without tracebacks.
fn copied<'py>(error: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = error.py();
    let copy = py.import(intern!(py, "copy"))?.getattr(intern!(py, "copy"))?;
    let kept = copy.call1((error,))?;
    let cause = error.getattr(intern!(py, "__cause__"))?;
    if !cause.is_none() {
        kept.setattr(intern!(py, "__cause__"), copy.call1((cause,))?)?;
    }
    Ok(kept)
}

pub fn cancel_timer(py: Python<'_>, timer: Option<Py<PyAny>>) -> PyResult<()> {
    match timer {
        Some(timer) => timer.call_method0(py, intern!(py, "cancel")).map(drop),
        None => Ok(()),
    }
}
