//! What is queued goes to the transport; those that wait for room are woken.
//!
//! What a callback queues is sent at its end: many requests go in one write then.

use super::begin::broken;
use crate::client::connection::ClientConnection;
use crate::client::exchange::ClientExchange;
use crate::event_loop::LoopCore;
use crate::ffi::Object;
use crate::ffi::bytes::SharedBytes;
use crate::ffi::fallible;
use crate::transport::{StreamTransport, Under};
use oneloop_http2::Chunk;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// So much is framed at a time, and a frame more: while the server does not read, the rest stays with its stream.
const WRITE_BYTES: usize = 48 * 1024;

/// With more of its body queued, a request waits.
const HIGH_BYTES: usize = 64 * 1024;

impl ClientConnection {
    /// Sends what is queued, at the end of the callback.
    pub fn send_soon(slf: &Bound<'_, Self>) {
        let py = slf.py();
        let this = slf.get();
        let is_due = this.state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return false };
            !h2.is_feeding && !std::mem::replace(&mut h2.is_sending_due, true)
        });
        if is_due {
            let owner = this.owner();
            let object = Object::new(slf.clone().into_any());
            if owner.current_callback().is_some() {
                owner.flush_after_callback(py, object, flush);
            } else {
                owner.flush_later(py, object, flush);
            }
        }
    }

    /// Queues a part of a request's body.
    pub fn push(
        slf: &Bound<'_, Self>,
        exchange: &ClientExchange,
        data: Option<&Bound<'_, PyBytes>>,
        ends: bool,
    ) -> PyResult<()> {
        let py = slf.py();
        let stream = exchange.state.with(py, |s| s.stream);
        let chunk = match data {
            Some(data) => Chunk::Shared(SharedBytes::new(data)),
            None => Chunk::Copied(Vec::new()),
        };
        let (pushed, used, queued_bytes) = slf.get().state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return (Ok(false), Vec::new(), 0) };
            let pushed = h2.session.push(stream, chunk, ends);
            let queued_bytes = h2.session.unsent_bytes(stream).unwrap_or(0);
            if let Some(open) = h2.streams.get_mut(&stream) {
                open.queued_bytes = queued_bytes;
            }
            (pushed, h2.session.take_used(), queued_bytes)
        });
        drop(used);
        pushed.map_err(|failure| broken(py, &failure))?;
        exchange.state.with(py, |s| s.is_stuck = queued_bytes > HIGH_BYTES);
        Self::send_soon(slf);
        Self::wait_on_stream(slf, exchange)
    }

    /// Frames and writes until the transport has enough, or nothing is left.
    pub fn send_frames(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut out = Vec::new();
        loop {
            out.clear();
            let (framed, used, events) = this.state.with(py, |s| {
                let Some(h2) = &mut s.h2 else { return (Ok(()), Vec::new(), Vec::new()) };
                h2.is_sending_due = false;
                let framed = if h2.is_writing_paused {
                    Ok(())
                } else {
                    h2.session.send(&mut out, WRITE_BYTES)
                };
                h2.session.take_sent();
                let mut events = Vec::new();
                h2.session.take_events(&mut events);
                (framed, h2.session.take_used(), events)
            });
            drop(used);
            let written = if out.is_empty() { Ok(()) } else { this.write_frames(py, &out) };
            Self::take_events(slf, events, b"")?;
            written?;
            framed.map_err(|failure| broken(py, &failure))?;
            if out.is_empty() {
                break;
            }
        }
        Self::look_at_queued(slf)?;
        Self::close_if_over(slf)
    }

    fn write_frames(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        match self.under(py) {
            // Its loss is noticed by `connection_lost`.
            Some(Under::Stream(stream)) if stream.get().is_over(py) => Ok(()),
            Some(Under::Stream(stream)) => StreamTransport::write_slice(stream.bind(py), data),
            Some(Under::Other(other)) => {
                let data = fallible::bytes(py, data)?;
                other.bind(py).call_method1(intern!(py, "write"), (data,)).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Notes what is still queued of each request, and wakes those that wait for less.
    fn look_at_queued(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let moved: Vec<_> = slf.get().state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return Vec::new() };
            let session = &mut h2.session;
            let queued = h2.streams.iter_mut().filter(|(_, open)| open.queued_bytes > 0);
            let moved = queued.filter_map(|(stream, open)| {
                let before = open.queued_bytes;
                open.queued_bytes = session.unsent_bytes(*stream).unwrap_or(0);
                (open.queued_bytes < before)
                    .then(|| (open.exchange.clone_ref(py), open.queued_bytes))
            });
            moved.collect()
        });
        let mut outcome = Ok(());
        for (exchange, queued_bytes) in moved {
            let exchange = exchange.bind(py).get();
            exchange.state.with(py, |s| s.is_stuck = queued_bytes > HIGH_BYTES);
            let waits = Self::wait_on_stream(slf, exchange);
            outcome = outcome.and(waits).and(exchange.wake_waiters(py));
        }
        outcome
    }

    /// The transport takes no more, or takes more again.
    pub fn pause_frames(slf: &Bound<'_, Self>, is_paused: bool) -> PyResult<()> {
        slf.get().state.with(slf.py(), |s| {
            if let Some(h2) = &mut s.h2 {
                h2.is_writing_paused = is_paused;
            }
        });
        if is_paused { Ok(()) } else { Self::send_frames(slf) }
    }
}

fn flush(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    ClientConnection::send_frames(object.cast_exact::<ClientConnection>()?)
}
