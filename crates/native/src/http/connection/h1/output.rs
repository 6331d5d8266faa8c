//! The sending side of an HTTP/1.1 connection. One that has ended takes everything and sends nothing.

use super::connection::HttpConnection;
use crate::ffi::fallible;
use crate::http::connection::output;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl HttpConnection {
    /// Sends immediately, or queues, like the first write of a callback on a transport.
    pub fn write(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        slf.get().under(py).map_or(Ok(()), |under| output::write(&under, py, data))
    }

    /// Like `write`, for a long body between two short parts.
    pub fn write_parts(
        slf: &Bound<'_, Self>,
        head: &[u8],
        body: &Bound<'_, PyBytes>,
        tail: &[u8],
    ) -> PyResult<()> {
        let py = slf.py();
        let under = slf.get().under(py);
        under.map_or(Ok(()), |under| output::write_parts(&under, py, head, body, tail))
    }

    /// Bytes that were written and not yet received by the peer, including those in the kernel.
    pub fn untaken_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.under(py).map_or(Ok(0), |under| output::untaken_bytes(&under, py))
    }

    /// The number of the socket; -1 after it was closed, `None` if the transport has none.
    pub fn descriptor(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        self.under(py).map_or(Ok(None), |under| output::descriptor(&under, py))
    }

    /// What is written from now on is lost, because the transport closes or has failed.
    pub fn is_ending(&self, py: Python<'_>) -> PyResult<bool> {
        self.under(py).map_or(Ok(true), |under| output::is_ending(&under, py))
    }

    /// The end of the connection would be taken for the end of a body of which a part is missing.
    fn would_mark_an_end(&self, py: Python<'_>) -> PyResult<bool> {
        if self.state.with(py, |s| s.will_reset) {
            return Ok(true);
        }
        if let Some(exchange) = self.exchange(py) {
            return Ok(exchange.get().state.with(py, |s| s.ends_by_close()));
        }
        match self.under(py) {
            Some(under) if self.state.with(py, |s| s.ends_by_close) => {
                Ok(output::kept_bytes(&under, py)? > 0)
            }
            _ => Ok(false),
        }
    }

    /// Ends the connection at once, and drops what was not sent.
    pub fn abort_transport(&self, py: Python<'_>) -> PyResult<()> {
        if self.would_mark_an_end(py)? {
            self.reset(py)?;
        }
        self.call_under(py, "abort")
    }

    /// Closing will be a reset, which nobody takes for the end of a body. SO_LINGER with no time makes it one:
    /// socket(7).
    pub fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let Some(under) = self.under(py) else { return Ok(()) };
        let socket = under.object(py).call_method1(intern!(py, "get_extra_info"), ("socket",))?;
        // It may be closed already, and tell so in the next tick.
        if self.descriptor(py)?.is_none_or(|fd| fd < 0) {
            return Ok(());
        }
        let linger = fallible::bytes(py, &[1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat())?;
        socket
            .call_method1(intern!(py, "setsockopt"), (libc::SOL_SOCKET, libc::SO_LINGER, linger))
            .map(drop)
    }
}
