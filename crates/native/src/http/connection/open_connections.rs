//! `OpenConnections`: the open connections of a server, of any protocol.
//!
//! One timer looks for expired deadlines, while connections are open.

use super::options::ConnectionOptions;
use crate::ffi::fallible;
use crate::ffi::{Link, LoopCell};
use crate::http::exchange::contract::{Application, Carrier, Exchange, Opening, Tunnel};
use crate::http::exchange::service::Service;
use oneloop_http1::{Refusal, Request, Target, Version};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// When the server shuts down: how long a kept-alive connection may wait for another request, which the client may
/// already have sent.
pub const IDLE_NS: u64 = 100_000_000;
/// When the server shuts down: how long a connection may wait for its first request, or for the rest of a head. It was
/// accepted, so its request should get a response.
pub const UNBEGUN_NS: u64 = 1_000_000_000;

/// What a server does with a connection.
pub trait OpenConnection: Sync {
    /// Its deadline has passed. Runs no Python code.
    fn is_late(&self, connection: &Bound<'_, PyAny>, now_ns: u64) -> bool;

    /// Called when its deadline has passed.
    fn time_out(&self, connection: &Bound<'_, PyAny>, now_ns: u64) -> PyResult<()>;

    /// The current request is the last one.
    fn shut_down(&self, connection: &Bound<'_, PyAny>) -> PyResult<()>;

    /// Ends it immediately.
    fn abort(&self, connection: &Bound<'_, PyAny>) -> PyResult<()>;
}

/// What a connection knows of a request besides its head.
pub struct Came {
    /// A body follows.
    pub has_body: bool,
    /// The connection serves another request after this one.
    pub keeps_alive: bool,
    pub tunnel: Option<Box<dyn Tunnel>>,
}

pub type Entry = Link<dyn OpenConnection>;

#[derive(Default)]
struct Open {
    /// Each connection has its own index; free places are `None`.
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// The timer that looks for expired deadlines.
    sweep: Option<Py<PyAny>>,
    /// The server's address of the last connection, shared by many.
    end: Option<Py<PyAny>>,
}

impl Open {
    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct OpenConnections {
    pub service: Py<Service>,
    pub application: Link<dyn Application>,
    pub options: ConnectionOptions,
    open: LoopCell<Open>,
}

impl OpenConnections {
    pub fn new(
        service: Py<Service>,
        application: Link<dyn Application>,
        options: ConnectionOptions,
    ) -> Self {
        Self { service, application, options, open: LoopCell::default() }
    }

    pub fn count(&self, py: Python<'_>) -> usize {
        self.open.with(py, |open| open.len())
    }

    /// Returns the connection's place.
    pub fn add(slf: &Bound<'_, Self>, entry: Entry) -> PyResult<usize> {
        let py = slf.py();
        let (place, is_swept) = slf.get().open.with(py, |open| {
            let place = open.free.pop().unwrap_or_else(|| {
                open.entries.push(None);
                open.entries.len() - 1
            });
            open.entries[place] = Some(entry);
            (place, open.sweep.is_some())
        });
        if !is_swept {
            Self::sweep_later(slf)?;
        }
        Ok(place)
    }

    pub fn remove(&self, py: Python<'_>, place: usize) {
        let removed = self.open.with(py, |open| {
            let removed = open.entries.get_mut(place).and_then(Option::take);
            if removed.is_some() {
                open.free.push(place);
            }
            removed
        });
        drop(removed);
    }

    /// There are more connections or requests than `limit_concurrency` allows.
    fn is_full(&self, py: Python<'_>) -> bool {
        let Some(limit) = self.options.limit_concurrency else { return false };
        // The new connection is one of them.
        self.count(py) > limit || self.service.get().serving.with(py, |s| s.requests >= limit)
    }

    /// Why a valid request is not served.
    pub fn turned_away(&self, py: Python<'_>, request: &Request<'_, '_>) -> Option<Refusal> {
        if matches!(request.target, Target::Authority { .. }) {
            // RFC 9110 section 9.3.6: for proxies.
            return Some(Refusal::new(
                501,
                "This server is not a proxy and does not support CONNECT.",
            ));
        }
        let application = &self.application;
        // A server that has enough to do is not ill.
        let is_refused = self.is_full(py)
            && !application.calls.is_health_check(application.object.bind(py), request);
        is_refused.then_some(Refusal::new(
            503,
            "The server has reached its limit of concurrent requests.",
        ))
    }

    /// Makes the exchange of a request, with `carrier` as its connection.
    pub fn begin_exchange<'py>(
        &self,
        py: Python<'py>,
        carrier: Link<dyn Carrier>,
        request: &Request<'_, '_>,
        came: Came,
    ) -> PyResult<Bound<'py, Exchange>> {
        let service = self.service.bind(py);
        let is_told = service.get().options.on_response.is_some();
        let target = if is_told {
            let separator: &[u8] = if request.query.is_empty() { b"" } else { b"?" };
            let text = [request.path, separator, request.query].concat();
            Some(fallible::bytes(py, &text)?.unbind())
        } else {
            None
        };
        let opening = Opening {
            is_head: request.method == "HEAD",
            is_http10: request.version == Version::Http10,
            has_body: came.has_body,
            expects_continue: request.expects_continue,
            keeps_alive: came.keeps_alive,
            began_ns: if is_told { service.get().owner.get().now_ns(py) } else { 0 },
            target,
            tunnel: came.tunnel,
        };
        Exchange::begin(carrier, self.application.clone_ref(py), service, opening)
    }

    /// Returns the address of the last connection if it is equal, so that many share one object.
    pub fn shared_end<'py>(&self, end: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = end.py();
        let known = self.open.with(py, |open| open.end.as_ref().map(|end| end.bind(py).clone()));
        if let Some(known) = known
            && known.eq(end)?
        {
            return Ok(known);
        }
        let kept = end.clone().unbind();
        let old = self.open.with(py, |open| open.end.replace(kept));
        drop(old);
        Ok(end.clone())
    }

    fn sweep_later(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::sweep_in(slf, slf.get().options.sweep_interval_s())
    }

    /// Checks when connections without a request have reached their last deadline.
    pub fn sweep_after_idling(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::sweep_in(slf, IDLE_NS as f64 / 1e9)
    }

    /// Schedules the next check of the connections, in place of the planned one.
    fn sweep_in(slf: &Bound<'_, Self>, time_s: f64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let sweep = slf.getattr(intern!(py, "_sweep"))?;
        let owner = this.service.get().owner.bind(py);
        let timer = owner.call_method1(intern!(py, "call_later"), (time_s, sweep))?;
        match this.open.with(py, |open| open.sweep.replace(timer.unbind())) {
            Some(old) => old.bind(py).call_method0(intern!(py, "cancel")).map(drop),
            None => Ok(()),
        }
    }

    /// Calls a function for each connection; returns the first error.
    fn each(
        entries: &[Entry],
        py: Python<'_>,
        call: impl Fn(&Entry, &Bound<'_, PyAny>) -> PyResult<()>,
    ) -> PyResult<()> {
        entries.iter().map(|entry| call(entry, entry.object.bind(py))).fold(Ok(()), PyResult::and)
    }

    fn all(&self, py: Python<'_>) -> Vec<Entry> {
        let all =
            |open: &mut Open| open.entries.iter().flatten().map(|e| e.clone_ref(py)).collect();
        self.open.with(py, all)
    }

    pub fn shut_down(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let shut = Self::each(&slf.get().all(py), py, |entry, c| entry.calls.shut_down(c));
        shut.and(Self::sweep_after_idling(slf))
    }

    pub fn abort(&self, py: Python<'_>) -> PyResult<()> {
        Self::each(&self.all(py), py, |entry, connection| entry.calls.abort(connection))
    }
}

#[pymethods]
impl OpenConnections {
    /// Called by a timer: ends connections whose deadline has passed.
    fn _sweep(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let now_ns = this.service.get().owner.get().now_ns(py);
        let late: Vec<_> = this.open.with(py, |open| {
            let is_late = |entry: &&Entry| entry.calls.is_late(entry.object.bind(py), now_ns);
            open.sweep = None;
            open.entries.iter().flatten().filter(is_late).map(|e| e.clone_ref(py)).collect()
        });
        let outcome = Self::each(&late, py, |entry, c| entry.calls.time_out(c, now_ns));
        if this.count(py) > 0 {
            Self::sweep_later(slf)?;
        }
        outcome
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.service)?;
        self.application.object.visit(&visit)?;
        visit.call(&self.options.proxies)?;
        visit.call(&self.options.tls_behind_proxy)?;
        self.open
            .peek(|open| {
                visit.call(&open.sweep)?;
                open.entries.iter().flatten().try_for_each(|entry| entry.object.visit(&visit))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.open.with(py, |open| {
            open.free.clear();
            std::mem::take(&mut open.entries)
        });
        drop(old);
    }
}
