//! What is queued goes to the transport; those that wait for room are woken.
//!
//! What a callback queues is sent at its end: the responses to many requests then go in one write.

use super::connection::{Http2Connection, Http2Stream, Life};
use super::stream::HIGH_BYTES;
use crate::event_loop::LoopCore;
use crate::ffi::Object;
use crate::http::connection::options::NEVER_NS;
use crate::http::connection::output;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::waiting::wake;
use oneloop_http2::{Code, Failure, Session};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;

/// So much is framed at a time, and a frame more: while the client does not read, the rest stays with its stream.
const WRITE_BYTES: usize = 48 * 1024;

impl Http2Connection {
    /// A failure of the protocol's own state: not one of the client.
    pub fn checked(done: Result<(), Failure>) -> PyResult<()> {
        done.map_err(|failure| {
            if failure.is_shortage() {
                PyMemoryError::new_err("no memory for a frame")
            } else {
                PyRuntimeError::new_err(format!("HTTP/2: {failure}"))
            }
        })
    }

    /// Sends what is queued, at the end of the callback.
    pub fn send_soon(slf: &Bound<'_, Self>) {
        let py = slf.py();
        let this = slf.get();
        let is_due = this.state.with(py, |s| {
            let is_due = !s.is_feeding && !s.is_sending_due && s.session.is_some();
            s.is_sending_due |= is_due;
            is_due
        });
        if is_due {
            let owner = this.service.get().owner.get();
            let object = Object::new(slf.clone().into_any());
            if owner.current_callback().is_some() {
                owner.flush_after_callback(py, object, flush);
            } else {
                owner.flush_later(py, object, flush);
            }
        }
    }

    /// Frames and writes until the transport has enough, or nothing is left.
    pub fn send_queued(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let service = this.service.get();
        let before_bytes = this.state.with(py, |s| s.passed_bytes);
        loop {
            let Some(under) = this.under(py) else { return Ok(()) };
            let mut out = service.spare(py);
            let (framed, sent, used) = this.state.with(py, |s| {
                s.is_sending_due = false;
                let Some(session) = &mut s.session else { return (Ok(()), Vec::new(), Vec::new()) };
                let framed =
                    if s.is_writing_paused { Ok(()) } else { session.send(&mut out, WRITE_BYTES) };
                (framed, session.take_sent(), session.take_used())
            });
            drop(used);
            let is_empty = out.is_empty();
            this.state.with(py, |s| s.passed_bytes += out.len() as u64);
            let written = if is_empty { Ok(()) } else { output::write(&under, py, &out) };
            service.keep_spare(py, out);
            written?;
            Self::checked(framed)?;
            Self::end_sent(slf, &sent)?;
            Self::take_own_events(slf)?;
            if is_empty && sent.is_empty() {
                break;
            }
        }
        Self::wake_writers(slf, before_bytes)?;
        Self::leave_stuck(slf)?;
        Self::close_if_over(slf)
    }

    /// A client that has ended its side opens no window any more: what waits for one is never sent.
    fn leave_stuck(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let stuck: Vec<_> = slf.get().state.with(py, |s| {
            if !s.has_eof || s.is_writing_paused {
                return Vec::new();
            }
            // Once: a session that ends by an error sends no reset any more.
            let queued = std::mem::take(&mut s.queued);
            let open = queued.iter().filter_map(|id| s.streams.get(id));
            open.map(|open| (open.exchange.clone_ref(py), open.stream.clone_ref(py))).collect()
        });
        let leave = |(exchange, stream): &(Object<Exchange>, Object<Http2Stream>)| {
            Http2Stream::give_up(stream.bind(py), exchange.bind(py))
        };
        stuck.iter().map(leave).fold(Ok(()), PyResult::and)
    }

    /// Responses that are sent: records those that have waited for it, and ends streams on which the client still sends:
    /// RFC 9113 section 8.1.
    fn end_sent(slf: &Bound<'_, Self>, sent: &[i32]) -> PyResult<()> {
        let py = slf.py();
        let mut unrecorded = Vec::new();
        let reset = slf.get().state.with(py, |s| {
            for id in sent {
                let Some(open) = s.streams.get(id) else { continue };
                if open.exchange.get().state.with(py, |s| s.is_unrecorded()) {
                    unrecorded.push(open.exchange.clone_ref(py));
                }
                let is_open = open.stream.get().state.with(py, |stream| !stream.has_input_ended);
                if is_open && let Some(session) = &mut s.session {
                    session.reset(*id, Code::NO_ERROR)?;
                }
            }
            Ok(())
        });
        Self::checked(reset)?;
        if unrecorded.is_empty() {
            return Ok(());
        }
        let is_lost =
            slf.get().under(py).map_or(Ok(true), |under| output::is_ending(&under, py))?;
        let record = |exchange: &Object<Exchange>| exchange.get().record(py, !is_lost);
        unrecorded.iter().map(record).fold(Ok(()), PyResult::and)
    }

    /// Notes what is still queued of each response, and wakes those that wait for less. `before_bytes`: what had been
    /// passed to the transport before.
    fn wake_writers(slf: &Bound<'_, Self>, before_bytes: u64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let now_ns = this.service.get().owner.get().now_ns(py);
        let time_ns = this.open.get().options.send_ns;
        let mut woken = Vec::new();
        let mut tunnels = Vec::new();
        this.state.with(py, |s| {
            let Some(session) = &mut s.session else { return };
            let streams = &s.streams;
            let (moved_ns, moved_bytes) = (&mut s.moved_ns, &mut s.moved_bytes);
            let passed_bytes = s.passed_bytes;
            s.queued.retain(|id| {
                let Some(open) = streams.get(id) else { return false };
                open.stream.get().state.with(py, |stream| {
                    let before = stream.queued_bytes;
                    stream.queued_bytes = session.unsent_bytes(*id).unwrap_or(0);
                    if stream.queued_bytes < before {
                        (*moved_ns, *moved_bytes) = (now_ns, passed_bytes);
                    }
                    if stream.queued_bytes == 0 {
                        stream.drain_ns = NEVER_NS;
                    } else if stream.queued_bytes < before || stream.drain_ns == NEVER_NS {
                        let has_moved = stream.queued_bytes < before;
                        stream.before_bytes = if has_moved { passed_bytes } else { before_bytes };
                        stream.drain_ns = now_ns.saturating_add(time_ns);
                    }
                    if stream.queued_bytes <= HIGH_BYTES {
                        woken.append(&mut stream.drain_waiters);
                        if stream.is_tunnel && before > HIGH_BYTES {
                            tunnels.push(open.exchange.clone_ref(py));
                        }
                    }
                    stream.is_listed = stream.queued_bytes > 0;
                    stream.is_listed
                })
            });
        });
        let mut result = wake(py, woken);
        for exchange in tunnels {
            if let Some(tunnel) = &exchange.get().tunnel {
                result = result.and(tunnel.read_on(exchange.bind(py)));
            }
        }
        result
    }

    /// Closes the connection if both sides have nothing to say any more.
    fn close_if_over(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (is_over, is_cut_off, is_told) = this.state.with(py, |s| {
            let is_open = !matches!(s.life, Life::Lingering | Life::Closed);
            let is_silent = is_open
                && s.session
                    .as_ref()
                    .is_some_and(|session| !session.wants_read() && !session.wants_write());
            let is_done = is_open && s.has_eof && s.streams.is_empty();
            let has_reason = s.session.as_ref().is_some_and(Session::has_reason);
            let is_cut_off = is_silent && (s.life == Life::Open || has_reason || s.is_broken);
            (is_silent || is_done, is_cut_off, s.is_broken)
        });
        if is_cut_off && !is_told {
            // Neither side has said that it leaves: nghttp2 has had enough of the client.
            Self::report(
                slf,
                "the client has reset too many streams, or sent too much without a meaning",
            )?;
        }
        if is_cut_off {
            return Self::linger(slf);
        }
        if is_over { this.close(py) } else { Ok(()) }
    }
}

fn flush(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    Http2Connection::send_queued(object.cast_exact::<Http2Connection>()?)
}
