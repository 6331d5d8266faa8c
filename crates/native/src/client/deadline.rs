//! The deadline of a connection: for the response, for the server to read, or for the next exchange.

use super::connection::ClientConnection;
use super::exchange::{ClientExchange, cancel_timer};
use super::failure::{self, Kind};
use super::timeouts::{Awaited, NEVER_NS};
use pyo3::intern;
use pyo3::prelude::*;

impl ClientConnection {
    /// Sets the deadline: for more of the response, or for the server to read what was sent.
    pub fn wait_for_response(slf: &Bound<'_, Self>, exchange: &ClientExchange) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.is_http2() {
            return Self::wait_on_stream(slf, exchange);
        }
        let timeouts = exchange.timeouts.get();
        let (must_respond, is_tunnel) =
            exchange.state.with(py, |s| (s.is_sent || s.response.is_some(), s.is_tunnel));
        // A tunnel may stay open for as long as both sides want it.
        let end_ns = if is_tunnel { NEVER_NS } else { exchange.deadline_ns };
        if this.is_full() {
            if timeouts.write_ns != NEVER_NS {
                let undrained = this.unsent(py)?;
                this.state.with(py, |s| s.undrained = undrained);
            }
            return Self::set_deadline(slf, Awaited::Drain, timeouts.write_ns, end_ns);
        }
        // While the program sends the body, the server has nothing to answer yet.
        let time_ns = if must_respond && !is_tunnel { timeouts.read_ns } else { NEVER_NS };
        Self::set_deadline(slf, Awaited::Response, time_ns, end_ns)
    }

    pub fn set_deadline(
        slf: &Bound<'_, Self>,
        awaited: Awaited,
        time_ns: u64,
        end_ns: u64,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if time_ns == NEVER_NS && end_ns == NEVER_NS {
            this.state.with(py, |s| (s.awaited, s.deadline_ns) = (awaited, NEVER_NS));
            return Ok(());
        }
        let now_ns = this.owner().now_ns(py);
        let deadline_ns = now_ns.saturating_add(time_ns).min(end_ns);
        let is_armed = this.state.with(py, |s| {
            (s.awaited, s.deadline_ns) = (awaited, deadline_ns);
            s.timer_ns <= deadline_ns
        });
        if is_armed { Ok(()) } else { Self::arm(slf, deadline_ns, now_ns) }
    }

    /// One timer serves all deadlines of a connection: it is only moved if it would come too late.
    pub fn arm(slf: &Bound<'_, Self>, at_ns: u64, now_ns: u64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.terms.owner.bind(py);
        let time_s = at_ns.saturating_sub(now_ns) as f64 / 1e9;
        let expire = slf.getattr(intern!(py, "_expire"))?;
        let timer = owner.call_method1(intern!(py, "call_later"), (time_s, expire))?;
        let old = this.state.with(py, |s| {
            s.timer_ns = at_ns;
            s.timer.replace(timer.unbind())
        });
        cancel_timer(py, old)
    }

    /// Called by the timer.
    pub fn expire(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let now_ns = this.owner().now_ns(py);
        let (timer, deadline_ns, awaited) = this.state.with(py, |s| {
            s.timer_ns = NEVER_NS;
            (s.timer.take(), s.deadline_ns, s.awaited)
        });
        drop(timer);
        if this.streams(py) > 0 {
            return Self::expire_streams(slf, now_ns);
        }
        if deadline_ns == NEVER_NS {
            return Ok(());
        }
        if deadline_ns > now_ns {
            return Self::arm(slf, deadline_ns, now_ns);
        }
        let Some(exchange) = this.exchange(py) else {
            // Idle for too long.
            return Self::close(slf);
        };
        let (is_tunnel, is_awaited) =
            exchange.get().state.with(py, |s| (s.is_tunnel, s.reader.is_some()));
        if !is_tunnel && exchange.get().deadline_ns <= now_ns {
            let text = "the request took longer than its total timeout";
            return Self::fail(slf, failure::error(py, Kind::TotalTimeout, text));
        }
        if awaited == Awaited::Drain {
            // It is slow, but it reads.
            if this.unsent(py)? < this.state.with(py, |s| s.undrained) {
                return Self::wait_for_response(slf, exchange.get());
            }
            let text = "the server did not read the request in time";
            return Self::fail(slf, failure::error(py, Kind::WriteTimeout, text));
        }
        // A program that does not take the body is no fault of the server: the time runs while somebody waits.
        if !is_awaited || this.state.with(py, |s| s.is_reading_paused) {
            this.state.with(py, |s| s.deadline_ns = NEVER_NS);
            return match exchange.get().deadline_ns {
                NEVER_NS => Ok(()),
                end_ns => Self::set_deadline(slf, Awaited::Response, NEVER_NS, end_ns),
            };
        }
        let text = "the server did not send in time";
        Self::fail(slf, failure::error(py, Kind::ReadTimeout, text))
    }
}
