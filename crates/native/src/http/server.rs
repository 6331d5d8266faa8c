//! `HttpServer`: an application, the settings of its connections, and the open connections.

use super::connection::{HttpConnection, IDLE_NS};
use super::options::{NEVER_NS, Options};
use super::scope::Template;
use super::wsgi::Wsgi;
use crate::event_loop::LoopCore;
use crate::ffi::LoopCell;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet};
use pyo3::{PyTraverseError, PyVisit};
use std::time::{SystemTime, UNIX_EPOCH};

/// Buffers up to this size are kept for heads.
const SPARE_BYTES: usize = 64 * 1024;

#[derive(Default)]
pub struct Serving {
    /// Open connections, each with its own index; free places are `None`.
    pub connections: Vec<Option<Py<HttpConnection>>>,
    free: Vec<usize>,
    /// Requests in progress.
    pub requests: usize,
    pub total_requests: u64,
    pub is_shutting_down: bool,
    /// The timer that looks for expired deadlines, while connections are open.
    sweep: Option<Py<PyAny>>,
    /// The server's address of the last connection, shared by many.
    end: Option<Py<PyAny>>,
    /// The `date` field and its second.
    date: Date,
    /// A buffer for heads.
    pub spare: Vec<u8>,
    /// The keyword arguments for the tasks of applications.
    task_arguments: Option<Py<PyDict>>,
}

#[derive(Default, Clone, Copy)]
struct Date {
    second: u64,
    text: [u8; 29],
}

/// A factory of HTTP connections, for `loop.create_server()`.
///
/// Use it only in the loop's thread. `app` is called for every request.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct HttpServer {
    pub owner: Py<LoopCore>,
    pub app: Py<PyAny>,
    pub options: Options,
    pub template: Template,
    pub wsgi: Option<Wsgi>,
    /// Tasks of waiting requests: the loop only has weak references to them.
    pub tasks: Py<PySet>,
    pub serving: LoopCell<Serving>,
}

impl HttpServer {
    pub fn add(slf: &Bound<'_, Self>, connection: &Bound<'_, HttpConnection>) -> PyResult<usize> {
        let py = slf.py();
        let this = slf.get();
        let kept = connection.clone().unbind();
        let (place, is_swept) = this.serving.with(py, |s| {
            let place = s.free.pop().unwrap_or_else(|| {
                s.connections.push(None);
                s.connections.len() - 1
            });
            s.connections[place] = Some(kept);
            (place, s.sweep.is_some())
        });
        if !is_swept {
            Self::sweep_later(slf)?;
        }
        Ok(place)
    }

    pub fn remove(&self, py: Python<'_>, place: usize) {
        let removed = self.serving.with(py, |s| {
            s.free.push(place);
            s.connections[place].take()
        });
        drop(removed);
    }

    /// The `date` field of the current second: RFC 9110 section 5.6.7.
    pub fn date(&self, py: Python<'_>) -> [u8; 29] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.serving.with(py, |s| {
            if s.date.second != now {
                s.date = Date { second: now, text: oneloop_http1::response::http_date(now) };
            }
            s.date.text
        })
    }

    /// Writes the fields that every response has.
    pub fn write_defaults(&self, py: Python<'_>, head: &mut Vec<u8>) {
        if self.options.date_header {
            head.extend_from_slice(b"date: ");
            head.extend_from_slice(&self.date(py));
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(&self.options.fields);
    }

    /// Counts an answered request.
    pub fn count_response(&self, py: Python<'_>) -> PyResult<()> {
        let total = self.serving.with(py, |serving| {
            serving.total_requests += 1;
            serving.total_requests
        });
        match &self.options.on_request_end {
            Some(on_request_end) => on_request_end.call1(py, (total,)).map(drop),
            None => Ok(()),
        }
    }

    /// There are more connections or requests than `limit_concurrency` allows.
    pub fn is_full(&self, py: Python<'_>) -> bool {
        let Some(limit) = self.options.limit_concurrency else { return false };
        self.serving.with(py, |s| {
            // The new connection is one of them.
            s.connections.len() - s.free.len() > limit || s.requests >= limit
        })
    }

    /// Returns the address of the last connection if it is equal, so that many share one object.
    pub fn shared_end<'py>(&self, end: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = end.py();
        let known = self.serving.with(py, |s| s.end.as_ref().map(|end| end.bind(py).clone()));
        if let Some(known) = known
            && known.eq(end)?
        {
            return Ok(known);
        }
        let kept = end.clone().unbind();
        let old = self.serving.with(py, |s| s.end.replace(kept));
        drop(old);
        Ok(end.clone())
    }

    /// Keeps a buffer for the next head, unless it has grown large.
    pub fn keep_spare(&self, py: Python<'_>, spare: Vec<u8>) {
        if spare.capacity() <= SPARE_BYTES {
            let old = self.serving.with(py, |s| std::mem::replace(&mut s.spare, spare));
            drop(old);
        }
    }

    /// The keyword arguments of `asyncio.Task` for requests.
    pub fn task_arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let made = |s: &mut Serving| s.task_arguments.as_ref().map(|d| d.bind(py).clone());
        if let Some(made) = self.serving.with(py, made) {
            return Ok(made);
        }
        let arguments = PyDict::new(py);
        arguments.set_item(intern!(py, "loop"), &self.owner)?;
        if cfg!(Py_3_12) {
            arguments.set_item(intern!(py, "eager_start"), true)?;
        }
        let kept = arguments.clone().unbind();
        let old = self.serving.with(py, |s| s.task_arguments.replace(kept));
        drop(old);
        Ok(arguments)
    }

    /// How often connections are checked: a quarter of the shortest timeout.
    fn sweep_interval_s(&self) -> f64 {
        let options = &self.options;
        let shortest = options.keep_alive_ns.min(options.header_ns).min(options.body_ns);
        let shortest = shortest.min(options.ws_ping_interval_ns).min(options.ws_ping_timeout_ns);
        if shortest == NEVER_NS { 1.0 } else { (shortest as f64 / 4e9).clamp(0.02, 1.0) }
    }

    fn sweep_later(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::sweep_in(slf, slf.get().sweep_interval_s())
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
        let timer = this.owner.bind(py).call_method1(intern!(py, "call_later"), (time_s, sweep))?;
        match this.serving.with(py, |s| s.sweep.replace(timer.unbind())) {
            Some(old) => old.bind(py).call_method0(intern!(py, "cancel")).map(drop),
            None => Ok(()),
        }
    }

    fn open(&self, py: Python<'_>) -> Vec<Py<HttpConnection>> {
        self.serving.with(py, |s| {
            s.connections.iter().flatten().map(|connection| connection.clone_ref(py)).collect()
        })
    }
}

#[pymethods]
impl HttpServer {
    /// Args: the loop, the application, `interface` "asgi" or "wsgi", and the options by name.
    #[new]
    #[pyo3(signature = (owner, app, *, interface = "asgi", **options))]
    fn new(
        owner: &Bound<'_, LoopCore>,
        app: Py<PyAny>,
        interface: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = Options::new(interface, options)?;
        Ok(Self {
            owner: owner.clone().unbind(),
            app,
            template: Template::new(owner.py(), &options.root_path)?,
            wsgi: Wsgi::of(owner, &options)?,
            options,
            tasks: PySet::empty(owner.py())?.unbind(),
            serving: LoopCell::default(),
        })
    }

    fn __call__(slf: &Bound<'_, Self>) -> PyResult<Py<HttpConnection>> {
        Py::new(slf.py(), HttpConnection::new(slf))
    }

    /// The number of open connections.
    #[getter]
    fn connections(&self, py: Python<'_>) -> usize {
        self.serving.with(py, |s| s.connections.len() - s.free.len())
    }

    /// The number of requests in progress.
    #[getter]
    fn requests(&self, py: Python<'_>) -> usize {
        self.serving.with(py, |s| s.requests)
    }

    /// The number of answered requests.
    #[getter]
    fn total_requests(&self, py: Python<'_>) -> u64 {
        self.serving.with(py, |s| s.total_requests)
    }

    /// Start a graceful shutdown: connections close after their answer; idle ones after a short time, in which a
    /// request already on its way is still answered.
    fn shut_down(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.serving.with(py, |s| s.is_shutting_down = true);
        let shut = |connection: &Py<HttpConnection>| HttpConnection::shut_down(connection.bind(py));
        let outcome = this.open(py).iter().map(shut).fold(Ok(()), PyResult::and);
        outcome.and(Self::sweep_after_idling(slf))
    }

    /// Close all connections immediately, and cancel their applications.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.cancel(py)?;
        let abort = |connection: &Py<HttpConnection>| HttpConnection::abort(connection.bind(py));
        self.open(py).iter().map(abort).fold(Ok(()), PyResult::and)
    }

    /// Cancel the applications. A request without an answer gets a 500 in the loop's next tick.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.serving.with(py, |s| s.is_shutting_down = true);
        for task in self.tasks.bind(py).call_method0(intern!(py, "copy"))?.try_iter()? {
            task?.call_method0(intern!(py, "cancel"))?;
        }
        Ok(())
    }

    /// WSGI: make the threads end after their current request. Returns the threads that are still running, to be
    /// joined.
    fn end_threads<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match self.wsgi.as_ref().and_then(Wsgi::workers) {
            Some(workers) => workers.bind(py).get().end(py),
            None => Ok(Vec::new()),
        }
    }

    /// Called by a timer: ends connections whose deadline has passed.
    fn _sweep(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let now_ns = this.owner.get().now_ns(py);
        let late: Vec<_> = this.serving.with(py, |s| {
            let is_late = |connection: &&Py<HttpConnection>| connection.get().is_late(py, now_ns);
            s.sweep = None;
            s.connections.iter().flatten().filter(is_late).map(|c| c.clone_ref(py)).collect()
        });
        let mut outcome = Ok(());
        for connection in &late {
            outcome = outcome.and(HttpConnection::time_out(connection.bind(py), now_ns));
        }
        if this.serving.with(py, |s| s.connections.len() > s.free.len()) {
            Self::sweep_later(slf)?;
        }
        outcome
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.app)?;
        visit.call(&self.tasks)?;
        self.options.visit(&visit)?;
        self.template.visit(&visit)?;
        if let Some(wsgi) = &self.wsgi {
            wsgi.visit(&visit)?;
        }
        self.serving
            .peek(|s| {
                visit.call(&s.sweep)?;
                visit.call(&s.task_arguments)?;
                s.connections.iter().flatten().try_for_each(|connection| visit.call(connection))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let connections = self.serving.with(py, |s| std::mem::take(&mut s.connections));
        drop(connections);
    }
}
