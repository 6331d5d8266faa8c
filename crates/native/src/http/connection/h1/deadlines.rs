//! The deadlines of a connection, and its end by the server.

use super::connection::{Awaited, HttpConnection, Input};
use crate::ffi::{Link, Object};
use crate::http::connection::open_connections::{Entry, IDLE_NS, OpenConnection, UNBEGUN_NS};
use crate::http::connection::options::NEVER_NS;
use crate::http::exchange::contract::TunnelDeadline;
use pyo3::prelude::*;

/// How long to wait for the peer's end of file after the last response was sent.
const LINGER_NS: u64 = 2_000_000_000;

impl HttpConnection {
    /// Sets the awaited event and its deadline.
    pub fn wait_for(&self, py: Python<'_>, awaited: Awaited) {
        let options = &self.open.get().options;
        let mut time_ns = match awaited {
            // The time from the start of a connection to the end of its first head is that for a head.
            Awaited::Request if self.state.with(py, |s| s.is_fresh) => options.header_ns,
            Awaited::Request => options.keep_alive_ns,
            Awaited::Head => options.header_ns,
            Awaited::Body => options.body_ns,
            Awaited::Drain => options.send_ns,
            Awaited::End => LINGER_NS,
            Awaited::Ping => options.ws_ping_interval_ns,
            Awaited::Pong => options.ws_ping_timeout_ns,
        };
        if matches!(awaited, Awaited::Request | Awaited::Head) && self.is_shutting_down(py) {
            // Whatever it comes behind: a proxy's header, a handshake of TLS.
            time_ns = time_ns.min(UNBEGUN_NS);
        }
        let now_ns = self.service.get().owner.get().now_ns(py);
        self.state.with(py, |s| {
            if awaited == Awaited::Body && s.is_draining() {
                // A peer that has to read first is not excused by what it sends.
                return;
            }
            s.awaited = awaited;
            s.deadline_ns = now_ns.saturating_add(time_ns);
        });
    }

    /// A head has begun. All of it has one deadline, however its bytes arrive.
    pub fn wait_for_head(&self, py: Python<'_>) {
        if self.state.with(py, |s| s.awaited != Awaited::Head) {
            self.wait_for(py, Awaited::Head);
        }
    }

    fn is_shutting_down(&self, py: Python<'_>) -> bool {
        self.service.get().serving.with(py, |serving| serving.is_shutting_down)
    }

    /// Makes the deadline earlier, if it is later than this.
    fn wait_at_most(&self, py: Python<'_>, time_ns: u64) {
        let now_ns = self.service.get().owner.get().now_ns(py);
        self.state.with(py, |s| s.deadline_ns = s.deadline_ns.min(now_ns + time_ns));
    }

    /// Removes the deadline, unless the transport is paused: then the peer must read what was sent.
    pub fn wait_for_nothing(&self, py: Python<'_>) {
        let is_paused = self.state.with(py, |s| {
            if !s.is_writing_paused {
                s.deadline_ns = NEVER_NS;
            }
            s.is_writing_paused && !s.is_draining()
        });
        if is_paused {
            self.wait_for(py, Awaited::Drain);
        }
    }

    /// Runs no Python code.
    pub fn is_late(&self, py: Python<'_>, now_ns: u64) -> bool {
        self.state.with(py, |s| s.deadline_ns <= now_ns)
    }

    /// Called when the deadline has passed.
    pub fn time_out(slf: &Bound<'_, Self>, now_ns: u64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.is_late(py, now_ns) {
            return Ok(());
        }
        let awaited = this.state.with(py, |s| {
            s.deadline_ns = NEVER_NS;
            s.awaited
        });
        match awaited {
            Awaited::Request => this.close(py),
            Awaited::Head => {
                let head = this.state.with(py, |s| s.buffer.clone());
                if !this.is_shutting_down(py) {
                    return Self::refuse(slf, 408, "The request took too long to arrive.", &head);
                }
                let text = "The server stops, and the request has not arrived completely.";
                // Its end does not depend on the client.
                Self::refuse(slf, 408, text, &head).and(this.close(py))
            }
            Awaited::Body => {
                Self::refuse(slf, 408, "The body of the request took too long to arrive.", b"")
            }
            Awaited::End | Awaited::Drain => this.end_or_wait(py),
            awaited @ (Awaited::Ping | Awaited::Pong) => match this.exchange(py) {
                Some(exchange) => match &exchange.get().tunnel {
                    Some(tunnel) => tunnel.time_out(&exchange, deadline_of(awaited)),
                    None => Ok(()),
                },
                None => Ok(()),
            },
        }
    }

    /// A peer that reads the sent data gets more time. Otherwise, or if it does not end its side, the connection is
    /// aborted.
    fn end_or_wait(&self, py: Python<'_>) -> PyResult<()> {
        let unsent = self.untaken_bytes(py)?;
        let now_ns = self.service.get().owner.get().now_ns(py);
        let send_ns = self.open.get().options.send_ns;
        let (left_ns, is_over, awaited) = self.state.with(py, |s| {
            if std::mem::replace(&mut s.unsent_bytes, unsent) != unsent {
                s.moved_ns = now_ns;
            }
            (s.moved_ns.saturating_add(send_ns).saturating_sub(now_ns), s.is_over(), s.awaited)
        });
        if unsent > 0 && left_ns > 0 {
            self.wait_for(py, Awaited::Drain);
            if is_over {
                // A peer that has read all of it may not say so, and be the one that has to end the connection (TLS).
                self.wait_at_most(py, LINGER_NS.min(left_ns));
            }
        } else if unsent == 0 && awaited == Awaited::Drain {
            if is_over {
                self.wait_for(py, Awaited::End);
            }
        } else {
            return self.abort_transport(py);
        }
        Ok(())
    }

    /// Whether the peer has read some of the sent data since the last check, or since it paused the transport.
    pub fn has_taken(&self, py: Python<'_>) -> PyResult<bool> {
        let unsent = self.untaken_bytes(py)?;
        Ok(unsent < self.state.with(py, |s| std::mem::replace(&mut s.unsent_bytes, unsent)))
    }

    pub fn shut_down(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.state.with(py, |s| s.is_last = true);
        if let Some(exchange) = this.exchange(py)
            && let Some(tunnel) = &exchange.get().tunnel
        {
            return tunnel.go_away(&exchange);
        }
        if this.state.with(py, |s| s.exchange.is_none() && matches!(s.input, Input::Body(_))) {
            // Its response is sent: the rest of the body is read only to keep the connection.
            return this.linger(py);
        }
        let time_ns = this.state.with(py, |s| {
            let awaits_request = matches!(s.input, Input::Head | Input::Proxy)
                && !s.is_held()
                && s.exchange.is_none();
            // What else is in the buffer will be looked at in the next tick.
            let has_begun = s.awaited == Awaited::Head;
            let time_ns = if has_begun || s.is_fresh { UNBEGUN_NS } else { IDLE_NS };
            (awaits_request && (has_begun || s.buffer.is_empty())).then_some(time_ns)
        });
        if let Some(time_ns) = time_ns {
            this.wait_at_most(py, time_ns);
        }
        Ok(())
    }

    /// Ends the connection immediately. A request without any part of a response gets a 500 if that can be sent at
    /// once.
    pub fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let has_no_response = slf.get().exchange(py).is_some_and(|exchange| {
            exchange.get().tunnel.is_none()
                && exchange.get().state.with(py, |s| !s.is_disconnected && s.response.is_unsent())
        });
        let refused = if has_no_response {
            Self::refuse(slf, 500, "The server has stopped before the response began.", b"")
        } else {
            Ok(())
        };
        slf.get().abort_transport(py).and(refused)
    }
}

fn deadline_of(awaited: Awaited) -> TunnelDeadline {
    match awaited {
        Awaited::Ping => TunnelDeadline::Ping,
        Awaited::Pong => TunnelDeadline::Pong,
        _ => TunnelDeadline::End,
    }
}

/// How `OpenConnections` calls an `HttpConnection`.
struct Calls;

/// The connection behind a link that was made here or in `carrier`.
#[inline]
pub fn of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> &'a Bound<'py, HttpConnection> {
    object.cast_exact().expect("these calls are linked with nothing but an HttpConnection")
}

impl OpenConnection for Calls {
    fn is_late(&self, connection: &Bound<'_, PyAny>, now_ns: u64) -> bool {
        of(connection).get().is_late(connection.py(), now_ns)
    }

    fn time_out(&self, connection: &Bound<'_, PyAny>, now_ns: u64) -> PyResult<()> {
        HttpConnection::time_out(of(connection), now_ns)
    }

    fn shut_down(&self, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        HttpConnection::shut_down(of(connection))
    }

    fn abort(&self, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        HttpConnection::abort(of(connection))
    }
}

impl HttpConnection {
    pub fn entry(slf: &Bound<'_, Self>) -> Entry {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }
}
