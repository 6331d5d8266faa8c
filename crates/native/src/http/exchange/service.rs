//! `Service`: what all exchanges of a server share: the loop, options of responses, counts, the date.

use super::compression::Compression;
use super::error_log;
use crate::event_loop::LoopCore;
use crate::ffi::{LoopCell, context};
use oneloop_http1::response::http_date;
use pyo3::prelude::*;
use pyo3::types::PySet;
use pyo3::{PyTraverseError, PyVisit};
use std::time::{SystemTime, UNIX_EPOCH};

/// Buffers up to this size are kept for heads.
const SPARE_BYTES: usize = 64 * 1024;
/// Where no buffer is left of an earlier head.
const USUAL_HEAD_BYTES: usize = 256;

/// The options that concern responses and their record.
pub struct ResponseOptions {
    /// The fields of every response except `date`, in their written form.
    pub fields: Vec<u8>,
    pub date_header: bool,
    pub has_server_field: bool,
    /// The head of a response waits for the first part of its body: WSGI.
    pub holds_heads: bool,
    /// The proxies whose forwarding fields are believed.
    pub trust: Option<Py<PyAny>>,
    pub compression: Option<Compression>,
    pub on_response: Option<Py<PyAny>>,
    pub on_request_end: Option<Py<PyAny>>,
}

#[derive(Default)]
pub struct Serving {
    /// Requests in progress.
    pub requests: usize,
    pub total_requests: u64,
    /// The length of all messages sent to WebSockets.
    pub websocket_bytes: u64,
    pub is_shutting_down: bool,
    /// The applications were cancelled by the server.
    pub is_cancelling: bool,
    /// The `date` field and its second.
    date: Date,
    /// A buffer for heads.
    spare: Vec<u8>,
    /// Messages that are logged once, and were.
    reported: Vec<&'static str>,
}

#[derive(Default, Clone, Copy)]
struct Date {
    second: u64,
    text: [u8; 29],
}

#[pyclass(frozen, module = "oneloop._native")]
pub struct Service {
    pub owner: Py<LoopCore>,
    pub options: ResponseOptions,
    /// The context in which the server was made.
    context: Py<PyAny>,
    /// Tasks of waiting requests: the loop only has weak references to them.
    pub tasks: Py<PySet>,
    pub serving: LoopCell<Serving>,
}

impl Service {
    pub fn new(owner: &Bound<'_, LoopCore>, options: ResponseOptions) -> PyResult<Self> {
        let context = context::copy_current(owner.py())?.unbind();
        let tasks = PySet::empty(owner.py())?.unbind();
        let (owner, serving) = (owner.clone().unbind(), LoopCell::default());
        Ok(Self { owner, options, context, tasks, serving })
    }

    /// A context for one request: a copy of the server's. Another request may have caused this one to begin (it has
    /// ended, or has let the connection read again), and must not be known to it.
    pub fn fresh_context<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        context::copy(self.context.bind(py)).map(|copy| copy.into_bound(py))
    }

    /// The `date` field of the current second: RFC 9110 section 5.6.7.
    pub fn date(&self, py: Python<'_>) -> [u8; 29] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.serving.with(py, |s| {
            if s.date.second != now {
                s.date = Date { second: now, text: http_date(now) };
            }
            s.date.text
        })
    }

    pub fn write_date(&self, py: Python<'_>, head: &mut Vec<u8>) {
        head.extend_from_slice(b"date: ");
        head.extend_from_slice(&self.date(py));
        head.extend_from_slice(b"\r\n");
    }

    /// Writes the fields that every response has.
    pub fn write_defaults(&self, py: Python<'_>, head: &mut Vec<u8>) {
        if self.options.date_header {
            self.write_date(py, head);
        }
        head.extend_from_slice(&self.options.fields);
    }

    /// Counts a response.
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

    /// Logs a warning, once for each `key`.
    pub fn tell_once(
        &self,
        py: Python<'_>,
        key: &'static str,
        text: impl FnOnce() -> String,
    ) -> PyResult<()> {
        let is_new = self.serving.with(py, |s| {
            let is_new = !s.reported.contains(&key);
            if is_new {
                s.reported.push(key);
            }
            is_new
        });
        if is_new { error_log::tell(py, "warning", &text()) } else { Ok(()) }
    }

    /// Counts one request more in progress. Whoever ends it, and nobody else, calls `end_request`.
    pub fn begin_request(&self, py: Python<'_>) {
        self.serving.with(py, |serving| serving.requests += 1);
    }

    /// Counts one request less in progress.
    pub fn end_request(&self, py: Python<'_>) {
        self.serving.with(py, |serving| serving.requests -= 1);
    }

    /// An empty buffer with room for a usual head.
    pub fn spare(&self, py: Python<'_>) -> Vec<u8> {
        let mut spare = self.serving.with(py, |serving| std::mem::take(&mut serving.spare));
        spare.clear();
        spare.reserve(USUAL_HEAD_BYTES);
        spare
    }

    /// Keeps a buffer for the next head, unless it has grown large.
    pub fn keep_spare(&self, py: Python<'_>, spare: Vec<u8>) {
        if spare.capacity() <= SPARE_BYTES {
            let old = self.serving.with(py, |s| std::mem::replace(&mut s.spare, spare));
            drop(old);
        }
    }
}

#[pymethods]
impl Service {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.context)?;
        visit.call(&self.tasks)?;
        visit.call(&self.options.trust)?;
        if let Some(compression) = &self.options.compression {
            compression.visit(&visit)?;
        }
        visit.call(&self.options.on_response)?;
        visit.call(&self.options.on_request_end)
    }
}
