//! A stream's part of a request: its body, its deadline, its end.

use super::connection::{Http2Connection, Http2Stream, StreamState};
use crate::ffi::recycled;
use crate::ffi::{LoopCell, Object};
use crate::http::connection::options::NEVER_NS;
use crate::http::exchange::contract::{Exchange, TunnelDeadline};
use crate::http::exchange::response_state::Response;
use crate::http::exchange::waiting::wake;
use oneloop_http2::Code;
use pyo3::prelude::*;

/// When this much of a response is queued, its application waits.
pub const HIGH_BYTES: usize = 64 * 1024;

impl Http2Stream {
    pub fn make<'py>(
        connection: &Bound<'py, Http2Connection>,
        id: i32,
        has_input_ended: bool,
    ) -> PyResult<Bound<'py, Self>> {
        let state = StreamState {
            drain_waiters: Vec::new(),
            queued_bytes: 0,
            lost_bytes: 0,
            is_listed: false,
            held_bytes: 0,
            body_bytes: 0,
            has_input_ended,
            is_lost: false,
            lost_ns: 0,
            trailers: Vec::new(),
            body_ns: NEVER_NS,
            drain_ns: NEVER_NS,
            before_bytes: 0,
            taken_bytes: u64::MAX,
            drained_bytes: 0,
            is_tunnel: false,
            kept: Vec::new(),
            is_input_held: false,
            will_go_on: false,
            tunnel_deadline: (NEVER_NS, TunnelDeadline::End),
        };
        let made =
            Self { connection: Object::new(connection.clone()), id, state: LoopCell::new(state) };
        recycled::make(connection.py(), made)
    }

    pub fn now_ns(&self, py: Python<'_>) -> u64 {
        self.connection.get().service.get().owner.get().now_ns(py)
    }

    fn body_time_ns(&self) -> u64 {
        self.connection.get().open.get().options.body_ns
    }

    /// The next part of the body has a deadline.
    pub fn wait_for_body(slf: &Bound<'_, Self>) {
        let this = slf.get();
        let deadline_ns = this.now_ns(slf.py()).saturating_add(this.body_time_ns());
        this.state.with(slf.py(), |s| s.body_ns = deadline_ns);
    }

    /// A part of the body was received.
    pub fn take_data(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, Exchange>,
        data: &[u8],
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let options = &this.connection.get().open.get().options;
        let (is_tunnel, is_too_long, is_window_used) = this.state.with(py, |s| {
            s.held_bytes += data.len();
            s.body_bytes += data.len() as u64;
            let is_too_long = s.body_bytes > options.limits.body_bytes;
            let window = usize::try_from(options.http2.stream_window).unwrap_or(usize::MAX);
            (s.is_tunnel, is_too_long, s.held_bytes >= window / 2)
        });
        if is_tunnel {
            return Self::feed_tunnel(slf, exchange, data);
        }
        let is_over = exchange
            .get()
            .state
            .with(py, |s| s.response == Response::Complete || s.is_disconnected);
        if is_over {
            // Nobody takes it.
            return Self::give_back(slf);
        }
        if exchange.get().tunnel.is_some() {
            // It has not begun: the window limits how much is kept.
            this.state.with(py, |s| s.kept.extend_from_slice(data));
            return Ok(());
        }
        if is_too_long {
            return Self::refuse(slf, exchange, 413, "the body is too long");
        }
        exchange.get().state.with(py, |s| s.body.is_window_used = is_window_used);
        Exchange::add_body(exchange, data, false)?;
        // While the application has enough, the client need not be in time. Nor can it when its window is used up.
        if exchange.get().state.with(py, |s| s.body.is_enough()) {
            this.state.with(py, |s| s.body_ns = NEVER_NS);
        } else {
            Self::wait_for_body(slf);
        }
        Ok(())
    }

    /// Gives what the application has taken back to the client's window.
    pub fn give_back(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let len = this.state.with(py, |s| std::mem::take(&mut s.held_bytes));
        if len == 0 {
            return Ok(());
        }
        let given = this.connection.get().state.with(py, |s| {
            s.session.as_mut().map_or(Ok(()), |session| session.consume(this.id, len))
        });
        Http2Connection::checked(given)?;
        Http2Connection::send_soon(this.connection.bind(py));
        Ok(())
    }

    /// The client sends nothing more on this stream.
    pub fn end_input(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = slf.py();
        let (is_tunnel, was_ended) = slf.get().state.with(py, |s| {
            s.body_ns = NEVER_NS;
            (s.is_tunnel, std::mem::replace(&mut s.has_input_ended, true))
        });
        if is_tunnel {
            // As the end of a TCP connection.
            exchange.get().disconnect(py)?;
            return Self::push_end(slf);
        }
        if exchange.get().tunnel.is_some() {
            // The application has not accepted it, nor can it any more.
            return Self::give_up(slf, exchange);
        }
        if was_ended && exchange.get().state.with(py, |s| s.body.is_complete) {
            return Ok(());
        }
        Exchange::add_body(exchange, b"", true)
    }

    /// Ends the stream at once: the client has left, or cannot take the response.
    pub fn give_up(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let connection = slf.get().connection.bind(slf.py());
        // What is queued is dropped.
        let notified = Self::lose(slf).and(exchange.get().disconnect(slf.py()));
        notified.and(Http2Connection::reset(connection, slf.get().id, Code::CANCEL))
    }

    /// A response by the server instead of the application's.
    pub fn refuse(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, Exchange>,
        status: u16,
        reason: &str,
    ) -> PyResult<()> {
        let py = slf.py();
        let connection = slf.get().connection.bind(py);
        let client = Http2Connection::ends(connection)?.0;
        crate::http::exchange::error_log::refused(&client, status, reason)?;
        let may_respond =
            exchange.get().state.with(py, |s| !s.is_disconnected && s.response.is_unsent());
        if !may_respond {
            return Self::give_up(slf, exchange);
        }
        let len = if exchange.get().is_head { 0 } else { reason.len() as u64 };
        exchange.get().state.with(py, |s| (s.status, s.sent_bytes) = (status, len));
        let recorded = exchange.get().record(py, true);
        exchange.get().disconnect(py)?;
        Self::send_text(slf, exchange, status, reason).and(recorded)
    }

    /// The stream is over. Wakes those that wait.
    pub fn lose(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let now_ns = this.now_ns(py);
        let waiters = this.state.with(py, |s| {
            s.is_lost = true;
            s.lost_ns = now_ns;
            s.lost_bytes += std::mem::take(&mut s.queued_bytes);
            (s.body_ns, s.drain_ns, s.tunnel_deadline.0) = (NEVER_NS, NEVER_NS, NEVER_NS);
            std::mem::take(&mut s.drain_waiters)
        });
        wake(py, waiters)
    }
}
