//! The end of a connection whose client has broken the rules. The last frame must reach it: it says why.
//!
//! A socket that is closed with unread input resets the connection, and the client may lose what it has not read: RFC
//! 9112 section 9.6. So only this side is ended, and what still comes is dropped: so much, and for so long. With TLS no
//! side can be ended alone: the connection is closed, after what is queued has been sent, and what still comes is dropped.

use super::connection::{Http2Connection, Http2Stream, Life};
use crate::http::connection::options::NEVER_NS;
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;

/// As much may be on its way if the client has used its windows, and something beside.
const DROPPED_BYTES: usize = 2 * 1024 * 1024;

impl Http2Connection {
    /// Nothing more is sent, and nothing is taken. Those that wait for the client are told now, not at its end.
    pub fn linger(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let notified = Self::lose_streams(slf);
        let is_over = this.state.with(py, |s| matches!(s.life, Life::Lingering | Life::Closed));
        let Some(under) = this.under(py).filter(|_| !is_over) else { return notified };
        let (session, has_eof) = this.state.with(py, |s| {
            s.life = Life::Lingering;
            (s.head_ns, s.drain_ns) = (NEVER_NS, NEVER_NS);
            s.unsent_bytes = usize::MAX;
            (s.session.take(), s.has_eof)
        });
        let refused = session.and_then(|mut session| session.take_head());
        let notified = match refused {
            Some(fields) => notified.and(Self::record_refused(slf, &fields)),
            None => notified,
        };
        this.wait_for_end(py);
        let under = under.object(py);
        // With TLS it cannot.
        if has_eof || !under.call_method0(intern!(py, "can_write_eof"))?.is_truthy()? {
            return notified.and(this.close(py));
        }
        let ended = match under.call_method0(intern!(py, "write_eof")) {
            // The client is gone.
            Err(error) if error.is_instance_of::<PyOSError>(py) => this.close(py),
            ended => ended.map(drop),
        };
        notified.and(ended)
    }

    /// What comes after the end.
    pub fn drop_input(&self, py: Python<'_>, len: usize) -> PyResult<()> {
        let dropped = self.state.with(py, |s| {
            s.dropped_bytes = s.dropped_bytes.saturating_add(len);
            s.dropped_bytes
        });
        if dropped > DROPPED_BYTES { self.call_under(py, "abort") } else { Ok(()) }
    }

    /// All streams are over: the connection is lost, or will be.
    pub fn lose_streams(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let streams = slf.get().state.with(py, |s| std::mem::take(&mut s.streams));
        let lose = |open: &super::connection::OpenStream| {
            Http2Stream::lose(open.stream.bind(py)).and(open.exchange.get().disconnect(py))
        };
        streams.values().map(lose).fold(Ok(()), PyResult::and)
    }
}
