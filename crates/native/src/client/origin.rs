//! `ClientOrigin`: the connections to one origin; `origin_queue` has the exchanges that wait for one.
//!
//! A connection belongs to an exchange, or is idle, or is closing. Which one it is changes here, without I/O between, so
//! that a caller that goes away at any moment leaves nothing behind. `origin_links` is how others call it.

use super::connection::{ClientConnection, Terms};
use super::exchange::{Caller, ClientExchange, Request, Stage};
use super::failure::{self, GIVEN_UP, Kind};
use super::pool::{CLOSED, ClientPool};
use super::protocol::Protocol;
use super::timeouts::{ClientTimeouts, nanoseconds};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use oneloop_http1::Asked;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};
use std::collections::VecDeque;

#[derive(Default)]
pub struct State {
    /// Connections that carry exchanges, and may get more.
    pub shared: Vec<Object<ClientConnection>>,
    /// One connection is opened at a time: it may serve all that wait.
    pub is_serial: bool,
    /// The last one was used last.
    pub idle: Vec<Object<ClientConnection>>,
    /// Exchanges that wait for a connection: those that a connection is being opened for, and the others behind them,
    /// the oldest first, also if they are sent again. Those that were given up are skipped.
    pub opening: VecDeque<Object<ClientExchange>>,
    pub waiting: VecDeque<Object<ClientExchange>>,
    /// Connections that are open or being opened.
    pub open: usize,
    /// Of those, being opened. Never fewer than the exchanges in `opening` that still wait.
    pub openings: usize,
    /// Since when no further exchange begins on a busy connection, for another origin that waits; 0: they do.
    pub yields_since_ns: u64,
    /// It is in the pool's queue of origins that may not open more at the moment.
    pub is_in_pools_queue: bool,
}

/// What has the same scheme, host, port, proxy and TLS settings. Made by Python code, which opens its connections.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct ClientOrigin {
    pub pool: Py<ClientPool>,
    /// How to open a connection; for Python code.
    #[pyo3(get)]
    pub route: Py<PyAny>,
    pub protocol: Protocol,
    pub state: LoopCell<State>,
}

impl ClientOrigin {
    /// A connection that takes another exchange, or an idle one that still works.
    fn take_free<'py>(
        slf: &Bound<'py, Self>,
        now_ns: u64,
        may_share: bool,
    ) -> Option<Bound<'py, ClientConnection>> {
        let py = slf.py();
        let this = slf.get();
        loop {
            if let Some(shared) = this.shared_with_room(py).filter(|_| may_share) {
                return Some(shared);
            }
            let connection = this.state.with(py, |s| s.idle.pop())?;
            this.pool.get().state.with(py, |s| s.idle -= 1);
            let connection = connection.bind(py).clone();
            if ClientConnection::is_usable(&connection, now_ns) {
                return Some(connection);
            }
            // The server has closed it, or has sent something. What remains is reported by `connection_lost`.
            if let Err(error) = ClientConnection::abort(&connection) {
                error.write_unraisable(py, Some(connection.as_any()));
            }
        }
    }

    /// A connection is free after an exchange.
    pub fn give_back(
        slf: &Bound<'_, Self>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()> {
        let py = slf.py();
        let has_waiting =
            slf.get().state.with(py, |s| !s.opening.is_empty() || !s.waiting.is_empty());
        // What arrives on one of HTTP/2 is looked at in any case.
        let is_asked = has_waiting && !connection.get().is_http2();
        // The time does not matter for one that was used just now.
        if is_asked && !ClientConnection::is_usable(connection, 0) {
            return ClientConnection::abort(connection);
        }
        Self::pass_on(slf, connection)
    }

    /// A connection goes to the exchange that waits longest, or is idle.
    fn pass_on(slf: &Bound<'_, Self>, connection: &Bound<'_, ClientConnection>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        // The place goes to another origin, if one has waited for longer.
        if let Some(since_ns) = this.waits_since_ns(py)
            && this.pool.get().has_waited_longer(slf.as_any(), since_ns)
        {
            return ClientConnection::abort(connection);
        }
        if let Some(next) = this.next_waiting(py) {
            ClientConnection::begin(connection, &next)?;
            return Self::share(slf, connection);
        }
        let pool = this.pool.bind(py);
        if !pool.get().may_idle(py) {
            return ClientConnection::close(connection);
        }
        let kept = Object::new(connection.clone());
        this.state.with(py, |s| s.idle.push(kept));
        let now_ns = pool.get().owner.get().now_ns(py);
        let timed = ClientConnection::idle(connection, now_ns, pool.get().idle_ns);
        ClientPool::note_idle(pool, connection, now_ns);
        timed
    }

    pub fn opened(slf: &Bound<'_, Self>, connection: &Bound<'_, ClientConnection>) -> PyResult<()> {
        let pool = slf.get().pool.get();
        pool.state.with(slf.py(), |s| s.opened += 1);
        slf.get().state.with(slf.py(), |s| s.openings = s.openings.saturating_sub(1));
        if pool.is_closed(slf.py()) {
            return ClientConnection::close(connection);
        }
        // What a server says before it is asked is for the first exchange to complain about.
        let passed_on = match slf.get().take_opened_for(connection) {
            Some(exchange) => {
                let begun = ClientConnection::begin(connection, &exchange);
                begun.and(Self::share(slf, connection))
            }
            None => Self::pass_on(slf, connection),
        };
        let reopened = Self::reopen(slf);
        passed_on.and(reopened).and(Self::decided(slf, connection.get().is_http2()))
    }

    /// A connection has got its transport, and cannot be used.
    pub fn stillborn(
        slf: &Bound<'_, Self>,
        connection: &Bound<'_, ClientConnection>,
        error: PyErr,
    ) -> PyResult<()> {
        let py = slf.py();
        let mut outcome = Ok(());
        let own = slf.get().take_opened_for(connection);
        if let Some(exchange) = own.or_else(|| slf.get().next_waiting(py)) {
            outcome = Self::fail_queued(slf, &exchange, error);
        }
        slf.get().state.with(py, |s| s.is_serial = false);
        outcome.and(Self::opening_less(slf))
    }

    /// An exchange that waits for a connection fails.
    fn fail_queued(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        error: PyErr,
    ) -> PyResult<()> {
        let forgotten = Self::forget(slf, exchange);
        exchange.get().fail(slf.py(), error).and(forgotten)
    }

    /// A connection is not being opened any more.
    fn opening_less(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().state.with(slf.py(), |s| s.openings = s.openings.saturating_sub(1));
        let counted = Self::one_less(slf);
        let reopened = Self::reopen(slf);
        counted.and(reopened).and(Self::open_rest(slf))
    }

    /// The connection is gone.
    pub fn closed(slf: &Bound<'_, Self>, connection: &Bound<'_, ClientConnection>) -> PyResult<()> {
        let py = slf.py();
        let removed = slf.get().state.with(py, |s| {
            let at = s.idle.iter().position(|idle| idle.as_ptr() == connection.as_ptr());
            at.map(|at| s.idle.remove(at))
        });
        if removed.is_some() {
            slf.get().pool.get().state.with(py, |s| s.idle -= 1);
        }
        drop(removed);
        Self::one_less(slf)
    }

    /// A place is free. One that is given back twice must not make the pool look full for ever.
    fn place_left(&self, py: Python<'_>) {
        let pool = self.pool.get();
        debug_assert!(pool.state.with(py, |s| s.open > 0), "a place is given back twice");
        self.state.with(py, |s| s.open = s.open.saturating_sub(1));
        pool.state.with(py, |s| s.open = s.open.saturating_sub(1));
    }

    /// There is room for another connection.
    fn one_less(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.place_left(py);
        let served = ClientPool::serve_queue(this.pool.bind(py));
        served.and(Self::open_more(slf))
    }

    /// Opens connections for exchanges that have none being opened for them.
    pub fn open_more(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let pool = this.pool.bind(py);
        if pool.get().is_closed(py) {
            return Ok(());
        }
        let mut outcome = Ok(());
        loop {
            let (next, dropped) = this.state.with(py, |s| {
                let mut dropped = Vec::new();
                while s.waiting.front().is_some_and(|next| !next.as_ref().get().is_queued(py)) {
                    dropped.extend(s.waiting.pop_front());
                }
                (s.waiting.front().map(|next| next.bind(py).clone()), dropped)
            });
            drop(dropped);
            let Some(exchange) = next else { return outcome };
            if this.is_undecided(py) {
                return outcome;
            }
            match ClientPool::make_room(pool, Self::applicant(slf)) {
                Ok(true) => {}
                no_room => return outcome.and(no_room.map(drop)),
            }
            exchange.get().state.with(py, |s| (s.has_opening, s.turn_ends_ns) = (true, 0));
            // From now on it waits for the connection, not for its turn.
            if let Err(error) = Self::limit_wait(slf, &exchange) {
                exchange.get().state.with(py, |s| s.has_opening = false);
                return outcome.and(Err(error));
            }
            this.state.with(py, |s| {
                s.open += 1;
                s.openings += 1;
                if let Some(next) = s.waiting.pop_front() {
                    s.opening.push_back(next);
                }
            });
            pool.get().state.with(py, |s| s.open += 1);
            let opening = match ClientPool::start_opening(pool, slf, &exchange) {
                Ok(opening) => (!opening.is_none()).then(|| opening.unbind()),
                Err(error) => {
                    // The others get theirs.
                    outcome = outcome.and(Self::opener_failed(slf, &exchange, error));
                    continue;
                }
            };
            if let Some(raised) = &opening
                && let Ok(raised) = raised.bind(py).cast::<PyBaseException>()
            {
                // The opening is over: a run of the loop within a signal handler has made use of it.
                outcome = outcome.and(Err(PyErr::from_value(raised.clone().into_any())));
                continue;
            }
            let unused = exchange.get().state.with(py, |s| match s.stage {
                Stage::Queued => std::mem::replace(&mut s.opening, opening),
                _ => opening,
            });
            drop(unused);
        }
    }

    /// The opener has begun nothing: it failed, or an exception such as KeyboardInterrupt came in between, which the
    /// caller gets then. Without this its place would be taken for ever.
    fn opener_failed(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        error: PyErr,
    ) -> PyResult<()> {
        let py = slf.py();
        slf.get().state.with(py, |s| s.openings = s.openings.saturating_sub(1));
        slf.get().place_left(py);
        let (told, raised) = failure::told(py, error, Kind::ConnectError, GIVEN_UP);
        if !exchange.get().is_queued(py) {
            return raised.and(Err(told));
        }
        let failed = Self::fail_queued(slf, exchange, told);
        raised.and(failed)
    }

    /// A kept connection was closed by the server before it answered: the request goes to another one.
    pub fn repeat(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let py = slf.py();
        let old = exchange.get().state.with(py, |s| {
            s.stage = Stage::Queued;
            s.stream = 0;
            s.is_stuck = false;
            s.has_opening = false;
            s.turn_ends_ns = 0;
            s.connection.take()
        });
        drop(old);
        slf.get().pool.get().state.with(py, |s| s.repeated += 1);
        let Err(error) = Self::dispatch(slf, exchange) else { return Ok(()) };
        let (told, raised) = failure::told(py, error, Kind::ConnectError, GIVEN_UP);
        if !exchange.get().is_queued(py) {
            // It had begun, such as by a run of the loop within a signal handler.
            let given_up = ClientExchange::give_up(exchange);
            let failed = exchange.get().fail(py, told.clone_ref(py));
            return raised.and(given_up).and(failed).and(Err(told));
        }
        let failed = Self::fail_queued(slf, exchange, told);
        raised.and(failed)
    }

    /// Sends a new exchange, or queues it.
    pub fn begin(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let py = slf.py();
        let pool = slf.get().pool.get();
        // A forked child must not write on its parent's connections.
        pool.owner.get()._check_process()?;
        pool.check_open(py)?;
        let number = pool.state.with(py, |s| {
            s.requests += 1;
            s.requests
        });
        exchange.get().state.with(py, |s| (s.stage, s.number) = (Stage::Queued, number));
        let begun = Self::dispatch(slf, exchange);
        if begun.is_err() && exchange.get().is_queued(py) {
            // The caller is told, and nobody waits for the response: it must not be sent later.
            return begun.and(Self::forget(slf, exchange));
        }
        begun
    }

    fn dispatch(slf: &Bound<'_, Self>, exchange: &Bound<'_, ClientExchange>) -> PyResult<()> {
        let now_ns = slf.get().pool.get().owner.get().now_ns(slf.py());
        exchange.get().state.with(slf.py(), |s| s.began_ns = now_ns);
        let may_share = !Self::yields(slf, now_ns, now_ns)?;
        match Self::take_free(slf, now_ns, may_share) {
            Some(connection) => {
                ClientConnection::begin(&connection, exchange)?;
                Self::share(slf, &connection)
            }
            None => Self::enqueue(slf, exchange),
        }
    }
}

#[pymethods]
impl ClientOrigin {
    /// `http2`: 0 never; 1 if the server agrees in the TLS handshake; 2 always.
    #[new]
    #[pyo3(signature = (pool, route, http2 = 0))]
    fn new(pool: &Bound<'_, ClientPool>, route: Py<PyAny>, http2: u8) -> Self {
        let protocol = Protocol::of(http2);
        let state = State { is_serial: protocol != Protocol::Http1, ..State::default() };
        Self { pool: pool.clone().unbind(), route, protocol, state: LoopCell::new(state) }
    }

    /// Start a request: on an idle connection at once, otherwise when there is one.
    ///
    /// `method` decides on the framing of the response. `body`: the whole body, or None. With `sent_later` the caller
    /// sends it. `chunked`: on HTTP/1.1 it is sent in chunks. `deadline_s`: on the loop's clock; None: no limit.
    /// `caller`: 0 a coroutine, 1 a green thread, 2 plain code.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call for each request, positional for its cost"
    )]
    #[pyo3(signature = (method, head, body, sent_later, chunked, may_repeat, timeouts, deadline_s, caller, wishes, /))]
    fn start<'py>(
        slf: &Bound<'py, Self>,
        method: &str,
        head: Bound<'py, PyBytes>,
        body: Option<Bound<'py, PyBytes>>,
        sent_later: bool,
        chunked: bool,
        may_repeat: bool,
        timeouts: Bound<'py, ClientTimeouts>,
        deadline_s: Option<f64>,
        caller: u8,
        wishes: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, ClientExchange>> {
        let py = slf.py();
        let asked = match method {
            "HEAD" => Asked::Head,
            "CONNECT" => Asked::Connect,
            _ => Asked::Other,
        };
        let caller = match caller {
            0 => Caller::Coroutine,
            1 => Caller::GreenThread,
            _ => Caller::Plain,
        };
        let deadline_ns = nanoseconds(deadline_s);
        let request = Request {
            wishes: Object::new(wishes),
            asked,
            head: Object::new(head),
            body: body.map(Object::new),
            is_sent_later: sent_later,
            is_chunked: chunked,
            may_repeat,
            timeouts: Object::new(timeouts),
            deadline_ns,
            caller,
        };
        slf.get().pool.get().check_open(py)?;
        let owner = slf.get().pool.get().owner.bind(py);
        Bound::new(py, ClientExchange::new(owner, Self::dispatcher(slf), request))
    }

    /// The protocol of a new connection, which is opened for an exchange.
    #[pyo3(signature = (exchange = None, /))]
    fn new_connection(
        slf: &Bound<'_, Self>,
        exchange: Option<Bound<'_, ClientExchange>>,
    ) -> PyResult<Py<ClientConnection>> {
        let py = slf.py();
        let pool = slf.get().pool.bind(py);
        let terms = Terms {
            origin: Self::home(slf),
            owner: pool.get().owner.clone_ref(py),
            route: slf.get().route.clone_ref(py),
            protocol: slf.get().protocol,
            idle_ns: pool.get().idle_ns,
        };
        let connection = Py::new(py, ClientConnection::new(terms, exchange.map(Object::new)))?;
        ClientPool::note_connection(pool, connection.bind(py))?;
        Ok(connection)
    }

    /// A connection could not be opened for `exchange`, which fails with the error unless it has another one by now.
    fn opening_failed(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        error: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = slf.py();
        let mut outcome = Ok(());
        if exchange.get().is_queued(py) {
            // It has ended by itself.
            drop(exchange.get().state.with(py, |s| s.opening.take()));
            // The others need not fail one after the other.
            slf.get().state.with(py, |s| s.is_serial = false);
            outcome = Self::fail_queued(slf, exchange, PyErr::from_value(error));
        }
        outcome.and(Self::opening_less(slf))
    }

    /// Called by a timer: it has given way for long enough.
    fn _share_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::share_on(slf)
    }

    /// The client is closed: exchanges that wait for a connection fail with CloseError.
    fn shut(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut outcome = Ok(());
        while let Some(exchange) = slf.get().next_waiting(py) {
            let error = failure::error(py, Kind::CloseError, CLOSED);
            outcome = outcome.and(exchange.get().fail(py, error));
        }
        outcome
    }

    #[getter]
    fn idle(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |s| s.idle.len()))
    }

    /// Open, or being opened.
    #[getter]
    fn open(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |s| s.open))
    }

    #[getter]
    fn waiting(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |s| s.opening.len() + s.waiting.len()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.pool)?;
        visit.call(&self.route)?;
        self.state
            .peek(|s| {
                s.shared.iter().chain(&s.idle).try_for_each(|kept| kept.visit(&visit))?;
                s.opening.iter().chain(&s.waiting).try_for_each(|waiting| waiting.visit(&visit))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| {
            (
                std::mem::take(&mut s.idle),
                std::mem::take(&mut s.shared),
                std::mem::take(&mut s.opening),
                std::mem::take(&mut s.waiting),
            )
        });
        drop(old);
    }
}
