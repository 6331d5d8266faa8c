//! How long the streams of a connection may wait: each has a deadline, and one timer serves all.

use crate::client::connection::ClientConnection;
use crate::client::exchange::ClientExchange;
use crate::client::failure::{self, Kind};
use crate::client::timeouts::{Awaited, NEVER_NS};
use pyo3::prelude::*;

impl ClientConnection {
    /// Sets the deadline of a stream: for the server to take more of the request, or for more of the response.
    pub fn wait_on_stream(slf: &Bound<'_, Self>, exchange: &ClientExchange) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let timeouts = exchange.timeouts.get();
        if timeouts.read_ns == NEVER_NS
            && timeouts.write_ns == NEVER_NS
            && exchange.deadline_ns == NEVER_NS
        {
            return Ok(());
        }
        let (stream, must_respond) =
            exchange.state.with(py, |s| (s.stream, s.is_sent || s.response.is_some()));
        let now_ns = this.owner().now_ns(py);
        let deadline_ns = this.state.with(py, |s| {
            let open = s.h2.as_mut().and_then(|h2| h2.streams.get_mut(&stream))?;
            let (awaited, time_ns) = match open.queued_bytes {
                // While the program sends the body, the server has nothing to answer yet.
                0 if !must_respond => (Awaited::Response, NEVER_NS),
                0 => (Awaited::Response, timeouts.read_ns),
                queued => {
                    open.undrained = queued;
                    (Awaited::Drain, timeouts.write_ns)
                }
            };
            open.awaited = awaited;
            open.deadline_ns = now_ns.saturating_add(time_ns).min(exchange.deadline_ns);
            (open.deadline_ns < s.timer_ns).then_some(open.deadline_ns)
        });
        match deadline_ns {
            Some(deadline_ns) => Self::arm(slf, deadline_ns, now_ns),
            None => Ok(()),
        }
    }

    /// Called by the timer.
    pub fn expire_streams(slf: &Bound<'_, Self>, now_ns: u64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let due: Vec<_> = this.state.with(py, |s| {
            let Some(h2) = &s.h2 else { return Vec::new() };
            let due = h2.streams.values().filter(|open| open.deadline_ns <= now_ns);
            due.map(|open| {
                let is_slow_reader = open.queued_bytes < open.undrained;
                (open.exchange.clone_ref(py), open.awaited, is_slow_reader)
            })
            .collect()
        });
        let mut outcome = Ok(());
        for (exchange, awaited, is_slow_reader) in due {
            let exchange = exchange.bind(py);
            let done = match Self::verdict(exchange, awaited, is_slow_reader, now_ns) {
                Some((kind, text)) => {
                    this.suspect(py, exchange.get(), now_ns);
                    Self::fail_stream(slf, exchange, failure::error(py, kind, text))
                }
                None if is_slow_reader => Self::wait_on_stream(slf, exchange.get()),
                // A program that does not take the body is no fault of the server: the time runs while somebody waits.
                None => {
                    this.rest(py, exchange.get());
                    Ok(())
                }
            };
            outcome = outcome.and(done);
        }
        let next_ns = this.state.with(py, |s| {
            let next_ns = s.h2.as_ref().and_then(|h2| h2.next_deadline_ns())?;
            (next_ns < s.timer_ns).then_some(next_ns)
        });
        match next_ns {
            Some(next_ns) => outcome.and(Self::arm(slf, next_ns, now_ns)),
            None => outcome,
        }
    }

    fn verdict(
        exchange: &Bound<'_, ClientExchange>,
        awaited: Awaited,
        is_slow_reader: bool,
        now_ns: u64,
    ) -> Option<(Kind, &'static str)> {
        if exchange.get().deadline_ns <= now_ns {
            return Some((Kind::TotalTimeout, "the request took longer than its total timeout"));
        }
        if awaited == Awaited::Drain {
            let text = "the server did not read the request in time";
            return (!is_slow_reader).then_some((Kind::WriteTimeout, text));
        }
        let is_awaited = exchange.get().state.with(exchange.py(), |s| s.reader.is_some());
        is_awaited.then_some((Kind::ReadTimeout, "the server did not send in time"))
    }

    /// Only the time of the whole exchange runs on.
    fn rest(&self, py: Python<'_>, exchange: &ClientExchange) {
        let stream = exchange.state.with(py, |s| s.stream);
        self.state.with(py, |s| {
            if let Some(open) = s.h2.as_mut().and_then(|h2| h2.streams.get_mut(&stream)) {
                open.deadline_ns = exchange.deadline_ns;
            }
        });
    }

    /// A stream's time is over. If nothing came for a good part of it, on any stream, the connection may be dead: it gets
    /// no further one.
    fn suspect(&self, py: Python<'_>, exchange: &ClientExchange, now_ns: u64) {
        let timeouts = exchange.timeouts.get();
        let whole_ns = now_ns.saturating_sub(exchange.state.with(py, |s| s.sent_ns));
        let time_ns = timeouts.read_ns.min(timeouts.write_ns).min(whole_ns);
        let is_silent = self.state.with(py, |s| {
            s.h2.as_ref().is_some_and(|h2| now_ns.saturating_sub(h2.received_ns) >= time_ns / 2)
        });
        if is_silent {
            self.leave_off(py);
        }
    }
}
