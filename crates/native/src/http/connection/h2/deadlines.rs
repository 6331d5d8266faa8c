//! The deadlines of connection and streams, and the end by the server.

use super::connection::{Http2Connection, Http2Stream, Life, OpenStream};
use crate::ffi::{Link, Object};
use crate::http::connection::open_connections::{Entry, IDLE_NS, OpenConnection, UNBEGUN_NS};
use crate::http::connection::options::NEVER_NS;
use crate::http::connection::output;
use crate::http::exchange::contract::{Exchange, TunnelDeadline};
use oneloop_http2::{Code, Session};
use pyo3::prelude::*;

/// How long to wait for the client's end of file after the last frame was sent.
const LINGER_NS: u64 = 2_000_000_000;

impl Http2Connection {
    fn set_deadline(&self, py: Python<'_>, time_ns: u64) {
        let now_ns = self.service.get().owner.get().now_ns(py);
        self.state.with(py, |s| s.deadline_ns = now_ns.saturating_add(time_ns));
    }

    /// The client's first frames.
    pub fn wait_for_greeting(&self, py: Python<'_>) {
        self.set_deadline(py, self.open.get().options.header_ns);
    }

    /// The next stream, if there is none.
    pub fn wait_for_stream(&self, py: Python<'_>) {
        let is_idle = self.state.with(py, |s| s.streams.is_empty() && s.life == Life::Open);
        if is_idle {
            self.set_deadline(py, self.open.get().options.keep_alive_ns);
        }
    }

    pub fn wait_for_end(&self, py: Python<'_>) {
        self.set_deadline(py, LINGER_NS);
    }

    pub fn wait_for_drain(&self, py: Python<'_>) {
        let now_ns = self.service.get().owner.get().now_ns(py);
        let time_ns = self.open.get().options.send_ns;
        self.state.with(py, |s| {
            s.drain_ns = now_ns.saturating_add(time_ns);
            s.unsent_bytes = usize::MAX;
        });
    }

    /// A stream was opened.
    pub fn forget_deadline(&self, py: Python<'_>) {
        self.state.with(py, |s| {
            if s.life == Life::Open {
                s.deadline_ns = NEVER_NS;
            }
        });
    }

    /// A head of which a part was received must be complete in time, whatever else the connection waits for.
    pub fn look_at_head(&self, py: Python<'_>) {
        let now_ns = self.service.get().owner.get().now_ns(py);
        let mut time_ns = self.open.get().options.header_ns;
        self.state.with(py, |s| {
            if s.life != Life::Open {
                time_ns = time_ns.min(UNBEGUN_NS);
            }
            let is_begun = s.session.as_mut().is_some_and(oneloop_http2::Session::is_in_head);
            if !is_begun || matches!(s.life, Life::Lingering | Life::Closed) {
                s.head_ns = NEVER_NS;
            } else if s.head_ns == NEVER_NS {
                s.head_ns = now_ns.saturating_add(time_ns);
            }
        });
    }

    /// Runs no Python code. All connections are asked now and then, so an idle one is known by it.
    fn is_late(&self, py: Python<'_>, now_ns: u64) -> bool {
        self.state.with(py, |s| {
            if s.streams.is_empty() && !std::mem::replace(&mut s.is_resting, true) {
                s.session.iter_mut().for_each(Session::rest);
            }
            s.deadline_ns <= now_ns
                || s.head_ns <= now_ns
                || s.drain_ns <= now_ns
                || s.streams.values().any(|open| open.stream.get().is_late(py, now_ns))
        })
    }

    /// Called when a deadline has passed.
    fn time_out(slf: &Bound<'_, Self>, now_ns: u64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (is_late, is_head_late, is_in_head, is_stuck, life) = this.state.with(py, |s| {
            let is_late = s.deadline_ns <= now_ns;
            let is_head_late = s.head_ns <= now_ns;
            let is_in_head = s.session.as_mut().is_some_and(oneloop_http2::Session::is_in_head);
            let is_stuck = s.drain_ns <= now_ns;
            if is_late {
                s.deadline_ns = NEVER_NS;
            }
            if is_head_late {
                s.head_ns = NEVER_NS;
            }
            (is_late, is_head_late, is_in_head, is_stuck, s.life)
        });
        let mut result = Ok(());
        for open in this.streams(py) {
            if open.stream.get().is_late(py, now_ns) {
                result = result.and(Http2Stream::time_out(&open, now_ns, py));
            }
        }
        if is_stuck {
            result = result.and(this.look_at_drain(py));
        }
        if is_head_late {
            // Nothing can come before its end, of any stream.
            return result.and(Self::leave(slf, Code::NO_ERROR));
        }
        if is_late {
            result = result.and(match life {
                // The request has begun.
                Life::Open if is_in_head => Ok(()),
                Life::Open => Self::leave(slf, Code::NO_ERROR),
                Life::Notified => Self::go_away(slf),
                Life::Leaving => Ok(()),
                Life::Lingering | Life::Closed => this.end_or_wait(py),
            });
        }
        result
    }

    /// A client that reads gets more time.
    fn look_at_drain(&self, py: Python<'_>) -> PyResult<()> {
        let Some(under) = self.under(py) else { return Ok(()) };
        let unsent = output::untaken_bytes(&under, py)?;
        let before = self.state.with(py, |s| std::mem::replace(&mut s.unsent_bytes, unsent));
        if unsent > 0 && unsent == before {
            return self.call_under(py, "abort");
        }
        let now_ns = self.service.get().owner.get().now_ns(py);
        let time_ns = self.open.get().options.send_ns;
        self.state.with(py, |s| s.drain_ns = now_ns.saturating_add(time_ns));
        Ok(())
    }

    /// The connection is closed: a client that reads what was sent gets more time.
    fn end_or_wait(&self, py: Python<'_>) -> PyResult<()> {
        let Some(under) = self.under(py) else { return Ok(()) };
        let unsent = output::untaken_bytes(&under, py)?;
        let now_ns = self.service.get().owner.get().now_ns(py);
        let send_ns = self.open.get().options.send_ns;
        let (left_ns, was_reading) = self.state.with(py, |s| {
            let before = std::mem::replace(&mut s.unsent_bytes, unsent);
            if before != unsent {
                s.taken_ns = now_ns;
            }
            let left_ns = s.taken_ns.saturating_add(send_ns).saturating_sub(now_ns);
            (left_ns, before != 0 && before != usize::MAX)
        });
        if unsent > 0 && left_ns > 0 {
            // A client that has read all of it may not say so, and be the one that has to end the connection (TLS).
            self.set_deadline(py, LINGER_NS.min(left_ns));
        } else if unsent == 0 && was_reading {
            self.wait_for_end(py);
        } else {
            return self.call_under(py, "abort");
        }
        Ok(())
    }

    /// Ends the connection after a last frame.
    fn leave(slf: &Bound<'_, Self>, code: Code) -> PyResult<()> {
        let py = slf.py();
        let left = slf.get().state.with(py, |s| {
            s.life = Life::Leaving;
            s.session.as_mut().map_or(Ok(()), |session| session.terminate(code))
        });
        Self::checked(left)?;
        Self::send_queued(slf)
    }

    /// The second step of a shutdown: streams that come now are not served.
    fn go_away(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let gone = slf.get().state.with(py, |s| {
            s.life = Life::Leaving;
            s.session.as_mut().map_or(Ok(()), |session| session.go_away(Code::NO_ERROR))
        });
        Self::checked(gone)?;
        Self::send_queued(slf)
    }

    /// The first step: tells the client, and waits for streams that are on their way.
    pub fn shut_down(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let noticed = this.state.with(py, |s| {
            if s.life != Life::Open {
                return Ok(());
            }
            s.life = Life::Notified;
            s.session.as_mut().map_or(Ok(()), oneloop_http2::Session::give_notice)
        });
        this.set_deadline(py, IDLE_NS);
        let now_ns = this.service.get().owner.get().now_ns(py);
        this.state.with(py, |s| {
            if s.head_ns != NEVER_NS {
                s.head_ns = s.head_ns.min(now_ns + UNBEGUN_NS);
            }
        });
        let mut result = Self::checked(noticed);
        for open in this.streams(py) {
            if let Some(tunnel) = &open.exchange.get().tunnel {
                result = result.and(tunnel.go_away(open.exchange.bind(py)));
            }
        }
        result.and(Self::send_queued(slf))
    }

    /// Ends the connection immediately. Requests without any part of a response get a 500 if that can be sent at once.
    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut result = Ok(());
        for open in this.streams(py) {
            let exchange = open.exchange.bind(py);
            let has_no_response = exchange.get().tunnel.is_none()
                && exchange.get().state.with(py, |s| !s.is_disconnected && s.response.is_unsent());
            if has_no_response {
                let text = "The server has stopped before the response began.";
                let refused = Http2Stream::refuse(open.stream.bind(py), exchange, 500, text);
                result = result.and(refused);
            }
        }
        result.and(Self::send_queued(slf)).and(this.call_under(py, "abort"))
    }
}

impl Http2Stream {
    fn is_late(&self, py: Python<'_>, now_ns: u64) -> bool {
        self.state.with(py, |s| {
            s.body_ns <= now_ns || s.drain_ns <= now_ns || s.tunnel_deadline.0 <= now_ns
        })
    }

    /// The client reads, although nothing of this stream was sent for its time: what is before it in the socket, or
    /// streams that it wants first, while it lets this one send.
    fn is_taking(&self, py: Python<'_>, now_ns: u64) -> PyResult<bool> {
        let connection = self.connection.get();
        let Some(under) = connection.under(py) else { return Ok(false) };
        let unsent = output::untaken_bytes(&under, py)?;
        let time_ns = connection.open.get().options.send_ns;
        let (is_passed, taken, passing_bytes) = connection.state.with(py, |s| {
            let may_send = s.session.as_ref().is_some_and(|session| session.may_send(self.id));
            let is_passed = may_send && s.moved_ns.saturating_add(time_ns) > now_ns;
            let taken = s.passed_bytes.saturating_sub(unsent as u64);
            // Streams that are sent before it may fill the socket for longer than that.
            (is_passed, taken, if may_send { s.moved_bytes } else { 0 })
        });
        // What comes behind this stream's last part keeps its client from nothing, if it does not let the stream send.
        let is_reading = self.state.with(py, |s| {
            let before_bytes = s.before_bytes.max(passing_bytes);
            std::mem::replace(&mut s.taken_bytes, taken) != taken && taken < before_bytes
        });
        Ok(is_passed || is_reading)
    }

    pub fn set_tunnel_deadline(slf: &Bound<'_, Self>, deadline: TunnelDeadline) {
        let this = slf.get();
        let options = &this.connection.get().open.get().options;
        let time_ns = match deadline {
            TunnelDeadline::Ping => options.ws_ping_interval_ns,
            TunnelDeadline::Pong => options.ws_ping_timeout_ns,
            TunnelDeadline::End => LINGER_NS,
        };
        let now_ns = this.now_ns(slf.py());
        this.state.with(slf.py(), |s| {
            if !s.is_lost {
                s.tunnel_deadline = (now_ns.saturating_add(time_ns), deadline);
            }
        });
    }

    fn time_out(open: &OpenStream, now_ns: u64, py: Python<'_>) -> PyResult<()> {
        let stream = open.stream.bind(py);
        let this = stream.get();
        let exchange = open.exchange.bind(py);
        let (is_body_late, is_drain_late, tunnel) = this.state.with(py, |s| {
            let (body, drain) = (s.body_ns <= now_ns, s.drain_ns <= now_ns);
            let tunnel = (s.tunnel_deadline.0 <= now_ns).then_some(s.tunnel_deadline.1);
            if body {
                s.body_ns = NEVER_NS;
            }
            if tunnel.is_some() {
                s.tunnel_deadline.0 = NEVER_NS;
            }
            (body, drain, tunnel)
        });
        if is_drain_late {
            if !this.is_taking(py, now_ns)? {
                return Exchange::abort(exchange);
            }
            let time_ns = this.connection.get().open.get().options.send_ns;
            this.state.with(py, |s| s.drain_ns = now_ns.saturating_add(time_ns));
        }
        if is_body_late {
            let text = "The body of the request took too long to arrive.";
            return Self::refuse(stream, exchange, 408, text);
        }
        match (&exchange.get().tunnel, tunnel) {
            (Some(tunnel), Some(deadline)) => tunnel.time_out(exchange, deadline),
            _ => Ok(()),
        }
    }
}

/// How `OpenConnections` calls an `Http2Connection`.
struct Calls;

fn of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> &'a Bound<'py, Http2Connection> {
    object.cast_exact().expect("these calls are linked with nothing but an Http2Connection")
}

impl OpenConnection for Calls {
    fn is_late(&self, connection: &Bound<'_, PyAny>, now_ns: u64) -> bool {
        of(connection).get().is_late(connection.py(), now_ns)
    }

    fn time_out(&self, connection: &Bound<'_, PyAny>, now_ns: u64) -> PyResult<()> {
        Http2Connection::time_out(of(connection), now_ns)
    }

    fn shut_down(&self, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        Http2Connection::shut_down(of(connection))
    }

    fn abort(&self, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        Http2Connection::abort(of(connection))
    }
}

impl Http2Connection {
    pub fn entry(slf: &Bound<'_, Self>) -> Entry {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }
}
