//! Whether a connection still works.
//!
//! A server that is gone without a word responses nothing, and TCP notices it after many minutes. HTTP/1.1 ends a
//! connection with the exchange that was given up; here the other streams, and those to come, would wait on it.

use crate::client::connection::{ClientConnection, Input};
use crate::client::exchange::ClientExchange;
use crate::client::reading;
use crate::client::timeouts::{Awaited, NEVER_NS};
use crate::client::usable::tls_below;
use crate::tls;
use crate::transport::Under;
use pyo3::intern;
use pyo3::prelude::*;
use std::io;

/// A server that has said nothing for so long, while a stream waited that was given up then, is asked for a sign of life.
const SILENCE_NS: u64 = 1_000_000_000;

/// How long a connection without a stream waits for that sign.
const RESPONSE_NS: u64 = 2_000_000_000;

/// More than a server says to a connection that carries nothing.
const MOST_RECEIVES: usize = 16;

impl ClientConnection {
    /// Whether an idle connection can carry an exchange. What has arrived on it meanwhile is processed first: the server
    /// may have said that it ends the connection, or have closed it. The loop may not have polled since.
    pub fn is_alive(slf: &Bound<'_, Self>) -> bool {
        let py = slf.py();
        let is_read = Self::read_now(slf).unwrap_or_else(|error| {
            error.write_unraisable(py, Some(slf.as_any()));
            false
        });
        is_read && slf.get().has_room(py) && slf.get().is_open(py)
    }

    /// A stream is given up before its end. It may be no fault of the connection, which goes on then.
    pub fn doubt(slf: &Bound<'_, Self>, exchange: &ClientExchange) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let is_stuck = this.is_stuck(py)?;
        let now_ns = this.owner().now_ns(py);
        // A response that nobody waits for, such as a stream of events, may be silent for long.
        let (sent_ns, is_awaited) = exchange.state.with(py, |s| (s.sent_ns, s.reader.is_some()));
        let asked = this.state.with(py, |s| {
            let Some(h2) = &mut s.h2 else { return Ok(()) };
            // Nothing else can follow what is not complete.
            if is_stuck || !h2.is_greeted || h2.session.is_in_head() {
                h2.is_leaving = true;
            }
            let silence_ns = now_ns.saturating_sub(h2.received_ns.max(sent_ns));
            let is_silent = is_awaited && silence_ns >= SILENCE_NS;
            if h2.is_leaving || h2.is_doubted || !is_silent {
                return Ok(());
            }
            h2.is_doubted = true;
            h2.session.ping()
        });
        asked.map_err(|failure| super::begin::broken(py, &failure))
    }

    /// It has no stream, and waits for a sign of life.
    pub fn wait_for_sign(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::set_deadline(slf, Awaited::Exchange, RESPONSE_NS, NEVER_NS)
    }

    /// There was one: it gets streams again.
    pub fn trust(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let (is_idle, is_leaving) = slf.get().state.with(py, |s| {
            let is_idle = !s.is_busy() && !s.is_lost && matches!(s.input, Input::Idle);
            (is_idle, s.h2.as_ref().is_none_or(|h2| h2.is_leaving))
        });
        let (home, origin) = slf.get().home(py);
        match (is_idle, is_leaving) {
            // What is below has failed, and that was still to be read: it gets no further stream.
            _ if slf.get().is_over_below(py) => Ok(()),
            (_, true) => Self::close_if_left(slf),
            (true, false) => home.give_back(origin, slf),
            (false, false) => home.share(origin, slf),
        }
    }

    /// The server ends a connection that carries nothing.
    pub fn close_if_left(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let is_left = slf.get().state.with(py, |s| {
            let is_idle = !s.is_busy() && !s.is_lost && matches!(s.input, Input::Idle);
            is_idle && s.h2.as_ref().is_some_and(|h2| h2.is_leaving)
        });
        if is_left { Self::close(slf) } else { Ok(()) }
    }

    /// Whether its transport is open.
    pub fn is_open(&self, py: Python<'_>) -> bool {
        match self.under(py) {
            Some(Under::Stream(stream)) => !stream.get().is_over(py),
            Some(Under::Other(other)) => {
                let is_closing = other.bind(py).call_method0(intern!(py, "is_closing"));
                is_closing.and_then(|is| is.is_truthy()).is_ok_and(|is_closing| !is_closing)
            }
            None => false,
        }
    }

    /// Takes what the socket has. Returns False at its end.
    fn read_now(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let owner = slf.get().terms.owner.bind(py);
        for _ in 0..MOST_RECEIVES {
            let (protocol, stream) = match slf.get().under(py) {
                Some(Under::Stream(stream)) => (slf.as_any().clone(), stream),
                Some(Under::Other(other)) => match tls_below(other.bind(py)) {
                    Some(Under::Stream(stream)) => (other.bind(py).clone(), stream),
                    // A transport that is not ours: only the loop can tell.
                    _ => return Ok(true),
                },
                None => return Ok(false),
            };
            let Ok(fd) = stream.get().body.descriptor.fd(py) else { return Ok(false) };
            let received = if protocol.is(slf) {
                reading::receive(owner, &protocol, fd)?
            } else {
                tls::receive(owner, &protocol, fd)?
            };
            match received {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) => return Ok(error.kind() == io::ErrorKind::WouldBlock),
            }
        }
        Ok(true)
    }
}
