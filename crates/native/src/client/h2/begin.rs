//! Starts HTTP/2 on a connection, and exchanges on it.

use super::head;
use super::state::{Http2, Open};
use crate::client::connection::ClientConnection;
use crate::client::exchange::{ClientExchange, Stage, cancel_timer};
use crate::client::failure::{self, Kind};
use crate::client::response_head::LIMITS;
use crate::client::timeouts::{Awaited, NEVER_NS};
use crate::ffi::Object;
use crate::ffi::bytes::SharedBytes;
use oneloop_http2::{Chunk, Config, Failure, Role, Session};
use pyo3::exceptions::PyMemoryError;
use pyo3::intern;
use pyo3::prelude::*;

/// What the server may send of one response before the program takes some of it, in bytes.
const STREAM_WINDOW: i32 = 512 * 1024;
/// The same for all responses of a connection. It is given back when bytes arrive, so that a response that nobody reads
/// delays no other.
const CONNECTION_WINDOW: i32 = 16 * 1024 * 1024;

/// The exception for a failure of the library that is not the server's fault.
pub fn broken(py: Python<'_>, failure: &Failure) -> PyErr {
    if failure.is_shortage() {
        PyMemoryError::new_err("no memory for a frame of HTTP/2")
    } else {
        failure::error(py, Kind::LocalProtocolError, &format!("HTTP/2: {failure}"))
    }
}

impl ClientConnection {
    /// The connection speaks HTTP/2.
    pub fn start_http2(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let config = Config {
            stream_window: STREAM_WINDOW,
            connection_window: CONNECTION_WINDOW,
            head_fields: LIMITS.headers,
            head_bytes: LIMITS.head_bytes,
            ..Config::new(Role::Client)
        };
        let session = Session::new(&config).map_err(|failure| broken(py, &failure))?;
        let now_ns = slf.get().owner().now_ns(py);
        let scheme = slf.get().terms.route.bind(py).getattr(intern!(py, "scheme"))?;
        let scheme: &[u8] = if scheme.eq("https")? { b"https" } else { b"http" };
        let made = Box::new(Http2::new(session, scheme, now_ns));
        slf.get().state.with(py, |s| s.h2 = Some(made));
        slf.get().set_http2();
        Self::send_soon(slf);
        Ok(())
    }

    /// Whether another exchange can begin on it, besides those that it carries.
    pub fn has_room(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| !s.is_lost && s.h2.as_ref().is_some_and(|h2| h2.has_room()))
    }

    pub fn is_greeted(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.h2.as_ref().is_some_and(|h2| h2.is_greeted))
    }

    /// How many exchanges it carries.
    pub fn streams(&self, py: Python<'_>) -> usize {
        self.state.with(py, |s| s.h2.as_ref().map_or(0, |h2| h2.streams.len()))
    }

    /// Sends a request on a stream of its own.
    pub fn begin_stream(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let request = exchange.get();
        let now_ns = this.owner().now_ns(py);
        let scheme = this.state.with(py, |s| s.h2.as_ref().map(|h2| h2.scheme));
        let lines =
            head::request_lines(request.head.bind(py).as_bytes(), scheme.unwrap_or_default());
        let is_sent = request.state.with(py, |s| s.is_sent);
        let body = request.body.as_ref().map(|body| SharedBytes::new(body.bind(py)));
        let ends = is_sent && body.is_none();
        let kept = Object::new(exchange.clone());
        let begun: Result<_, Failure> = this.state.with(py, |s| {
            s.exchanges += 1;
            s.deadline_ns = NEVER_NS;
            let is_kept = s.exchanges > 1;
            let Some(h2) = &mut s.h2 else { return Ok(None) };
            h2.is_unheard |= is_kept && h2.streams.is_empty();
            let is_on_kept = h2.is_unheard;
            let stream = h2.session.request(&lines, ends)?;
            let mut queued_bytes = 0;
            if let Some(body) = body {
                queued_bytes = body.as_ref().len();
                h2.session.push(stream, Chunk::Shared(body), true)?;
            }
            let open = Open {
                exchange: kept,
                awaited: Awaited::Nothing,
                deadline_ns: NEVER_NS,
                undrained: 0,
                queued_bytes,
                held_bytes: 0,
                interim: 0,
                is_on_kept,
            };
            Ok(Some((stream, h2.streams.insert(stream, open))))
        });
        let stream = match begun {
            Ok(Some((stream, _))) => stream,
            // Its numbers are used up, or there is no memory for it. Another one has all of them.
            Ok(None) => return Self::pass_back(slf, exchange, "the connection is closed"),
            Err(failure) => return Self::pass_back(slf, exchange, &failure.to_string()),
        };
        let (timer, before) = request.state.with(py, |s| {
            s.stage = Stage::Sent;
            s.stream = stream;
            s.sent_ns = now_ns;
            s.connection = Some(Self::link(slf));
            let before = s.carrier.replace(Self::link(slf));
            (s.timer.take(), (before, s.opening.take()))
        });
        drop(before);
        cancel_timer(py, timer)?;
        Self::send_soon(slf);
        // A sender that waits for its connection.
        request.wake_waiters(py)?;
        Self::wait_on_stream(slf, request)
    }

    /// It cannot carry an exchange, nor any other one.
    fn pass_back(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, ClientExchange>,
        why: &str,
    ) -> PyResult<()> {
        let this = slf.get();
        this.leave_off(slf.py());
        let (home, origin) = this.home(slf.py());
        let tried = home.try_elsewhere(origin, exchange, why);
        if this.is_busy(slf.py()) { tried } else { tried.and(Self::close(slf)) }
    }

    /// No further stream is opened on it.
    pub fn leave_off(&self, py: Python<'_>) {
        self.state.with(py, |s| {
            if let Some(h2) = &mut s.h2 {
                h2.is_leaving = true;
            }
        });
    }
}
