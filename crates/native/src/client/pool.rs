//! `ClientPool`: the limits on a client's connections, and which origin may open the next one. It knows origins by the
//! trait `Applicant`.

use super::connection::ClientConnection;
use super::timeouts::nanoseconds;
use crate::event_loop::LoopCore;
use crate::ffi::fallible;
use crate::ffi::values::Value;
use crate::ffi::{Link, LoopCell};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};
use std::collections::VecDeque;

/// An origin, as the pool uses it: it waits until it may open another connection.
pub trait Applicant: Sync {
    /// How many connections it has open, or is opening.
    fn open(&self, origin: &Bound<'_, PyAny>) -> usize;

    /// Whether an exchange waits that no connection is being opened for. Runs no Python code.
    fn is_short(&self, origin: &Bound<'_, PyAny>) -> bool;

    /// Since when its first exchange waits.
    fn waits_since_ns(&self, origin: &Bound<'_, PyAny>) -> Option<u64>;

    /// Notes whether it is in the pool's queue, and returns whether it was.
    fn set_queued(&self, origin: &Bound<'_, PyAny>, is_queued: bool) -> bool;

    /// Opens connections for exchanges that have none being opened for them.
    fn open_more(&self, origin: &Bound<'_, PyAny>) -> PyResult<()>;
}

#[derive(Default)]
pub struct State {
    /// `opener(origin, exchange)` starts to open a connection. It belongs to who owns the pool, so that a closed pool lets
    /// it go.
    opener: Option<Py<PyAny>>,
    /// Connections that are open or being opened.
    pub open: usize,
    pub idle: usize,
    /// Counters for `statistics`.
    pub opened: u64,
    pub requests: u64,
    pub repeated: u64,
    /// Origins that may not open more at the moment, the one that waits longest first.
    queue: VecDeque<Link<dyn Applicant>>,
    /// Connections in the order in which they became idle, with the times; those that were used since are skipped.
    idle_order: VecDeque<(Py<ClientConnection>, u64)>,
    /// All connections; those that are gone are removed now and then.
    connections: Vec<Py<ClientConnection>>,
    /// Look for those when there are so many.
    next_sweep: usize,
    is_closed: bool,
}

/// The limits on connections that a client has.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct ClientPool {
    #[pyo3(get)]
    pub owner: Py<LoopCore>,
    most_open: usize,
    most_open_per_origin: usize,
    most_idle: usize,
    pub idle_ns: u64,
    pub state: LoopCell<State>,
}

const SHUT: &str = "Cannot send a request, as the client has been closed.";
pub const CLOSED: &str = "the client was closed while the request was under way";

impl ClientPool {
    pub fn is_closed(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_closed)
    }

    pub fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_closed(py) {
            return Err(PyRuntimeError::new_err(SHUT));
        }
        Ok(())
    }

    /// Starts to open a connection. Returns what can be cancelled, or None.
    pub fn start_opening<'py>(
        slf: &Bound<'py, Self>,
        origin: &Bound<'py, PyAny>,
        exchange: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match slf.get().state.with(py, |s| s.opener.as_ref().map(|opener| opener.clone_ref(py))) {
            Some(opener) => opener.bind(py).call1((origin, exchange)),
            None => Err(PyRuntimeError::new_err(SHUT)),
        }
    }

    pub fn may_idle(&self, py: Python<'_>) -> bool {
        self.drop_satisfied(py);
        self.state.with(py, |s| !s.is_closed && s.idle < self.most_idle && s.queue.is_empty())
    }

    /// Origins whose exchanges all got a connection in the meantime, or were given up, leave the front of the queue.
    fn drop_satisfied(&self, py: Python<'_>) {
        while let Some(first) =
            self.state.with(py, |s| s.queue.front().map(|first| first.clone_ref(py)))
        {
            let origin = first.object.bind(py);
            if first.calls.is_short(origin) {
                return;
            }
            let dropped = self.state.with(py, |s| s.queue.pop_front());
            drop(dropped);
            first.calls.set_queued(origin, false);
        }
    }

    /// Whether another origin that may not open more has waited since an earlier time. It is the next one then.
    pub fn has_waited_longer(&self, origin: &Bound<'_, PyAny>, since_ns: u64) -> bool {
        let py = origin.py();
        self.drop_satisfied(py);
        let first = self.state.with(py, |s| {
            if s.queue.front().is_some_and(|first| first.object.as_ptr() == origin.as_ptr()) {
                s.queue.rotate_left(1);
            }
            s.queue.front().map(|first| first.clone_ref(py))
        });
        let waits = first.and_then(|first| first.calls.waits_since_ns(first.object.bind(py)));
        waits.is_some_and(|other_ns| other_ns < since_ns)
    }

    /// A connection is idle from now on.
    pub fn note_idle(slf: &Bound<'_, Self>, connection: &Bound<'_, ClientConnection>, now_ns: u64) {
        let py = slf.py();
        let this = slf.get();
        let kept = connection.clone().unbind();
        let old: Vec<_> = this.state.with(py, |s| {
            s.idle += 1;
            s.idle_order.push_back((kept, now_ns));
            if s.idle_order.len() <= 2 * s.idle + 64 {
                return Vec::new();
            }
            // Those that were used since are removed now and then.
            let all = std::mem::take(&mut s.idle_order);
            let (kept, old): (Vec<_>, Vec<_>) = all
                .into_iter()
                .partition(|(connection, since_ns)| connection.get().is_idle_since(py, *since_ns));
            s.idle_order = kept.into();
            old
        });
        drop(old);
    }

    /// Whether an origin may open a connection; if the limit of the pool is reached, an idle one of another origin is
    /// closed for it.
    pub fn make_room(slf: &Bound<'_, Self>, applicant: Link<dyn Applicant>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let origin = applicant.object.bind(py);
        if applicant.calls.open(origin) >= this.most_open_per_origin {
            return Ok(false);
        }
        if this.state.with(py, |s| s.open) < this.most_open {
            return Ok(true);
        }
        if !applicant.calls.set_queued(origin, true) {
            this.state.with(py, |s| s.queue.push_back(applicant));
        }
        // Its room is free when it is closed.
        while let Some((connection, since_ns)) = this.state.with(py, |s| s.idle_order.pop_front()) {
            let connection = connection.bind(py);
            if connection.get().is_idle_since(py, since_ns) {
                ClientConnection::abort(connection)?;
                break;
            }
        }
        Ok(false)
    }

    /// There is room: the origin that waits longest opens a connection.
    pub fn serve_queue(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut outcome = Ok(());
        while this.state.with(py, |s| s.open) < this.most_open {
            let Some(first) = this.state.with(py, |s| s.queue.pop_front()) else { break };
            let origin = first.object.bind(py);
            first.calls.set_queued(origin, false);
            outcome = outcome.and(first.calls.open_more(origin));
        }
        outcome
    }

    pub fn note_connection(
        slf: &Bound<'_, Self>,
        connection: &Bound<'_, ClientConnection>,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let kept = connection.clone().unbind();
        let old = this.state.with(py, |s| {
            s.connections.push(kept);
            if s.connections.len() < s.next_sweep {
                return Vec::new();
            }
            let all = std::mem::take(&mut s.connections);
            let (gone, kept) = all.into_iter().partition(|c| c.get().is_gone(py));
            s.connections = kept;
            s.next_sweep = 2 * s.connections.len() + 64;
            gone
        });
        drop(old);
        this.check_open(py)
    }
}

#[pymethods]
impl ClientPool {
    /// Args: the loop, the opener, the limits (None: none), seconds.
    #[new]
    #[pyo3(signature = (owner, opener, max_connections, max_per_origin, max_idle, idle_s))]
    fn new(
        owner: Py<LoopCore>,
        opener: Py<PyAny>,
        max_connections: Option<usize>,
        max_per_origin: Option<usize>,
        max_idle: Option<usize>,
        idle_s: Option<f64>,
    ) -> Self {
        Self {
            owner,
            most_open: max_connections.unwrap_or(usize::MAX),
            most_open_per_origin: max_per_origin.unwrap_or(usize::MAX),
            most_idle: max_idle.unwrap_or(usize::MAX),
            idle_ns: nanoseconds(idle_s),
            state: LoopCell::new(State { opener: Some(opener), ..State::default() }),
        }
    }

    /// Close all connections. Requests that are under way fail with CloseError.
    fn shut(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let (connections, queue, order, opener) = slf.get().state.with(py, |s| {
            s.is_closed = true;
            (
                std::mem::take(&mut s.connections),
                std::mem::take(&mut s.queue),
                std::mem::take(&mut s.idle_order),
                s.opener.take(),
            )
        });
        drop((queue, order, opener));
        let mut outcome = Ok(());
        for connection in &connections {
            let connection = connection.bind(py);
            outcome = outcome.and(ClientConnection::shut_off(connection, CLOSED));
        }
        outcome
    }

    #[getter]
    fn is_shut(&self, py: Python<'_>) -> bool {
        self.is_closed(py)
    }

    /// The connections that are not closed.
    #[getter]
    fn connections(&self, py: Python<'_>) -> Value<Vec<Py<ClientConnection>>> {
        let all: Vec<_> =
            self.state.with(py, |s| s.connections.iter().map(|c| c.clone_ref(py)).collect());
        Value(all.into_iter().filter(|connection| !connection.get().is_gone(py)).collect())
    }

    /// Counters: connections that are open and idle now; connections opened, requests, requests sent again in all.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (open, idle, opened, requests, repeated) =
            self.state.with(py, |s| (s.open, s.idle, s.opened, s.requests, s.repeated));
        let counters = fallible::dict(py)?;
        counters.set_item(intern!(py, "open"), open)?;
        counters.set_item(intern!(py, "idle"), idle)?;
        counters.set_item(intern!(py, "opened"), opened)?;
        counters.set_item(intern!(py, "requests"), requests)?;
        counters.set_item(intern!(py, "repeated"), repeated)?;
        Ok(counters)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        self.state
            .peek(|s| {
                visit.call(&s.opener)?;
                s.queue.iter().try_for_each(|first| first.object.visit(&visit))?;
                s.idle_order.iter().try_for_each(|(connection, _)| visit.call(connection))?;
                s.connections.iter().try_for_each(|connection| visit.call(connection))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| {
            (
                s.opener.take(),
                std::mem::take(&mut s.queue),
                std::mem::take(&mut s.idle_order),
                std::mem::take(&mut s.connections),
            )
        });
        drop(old);
    }
}
