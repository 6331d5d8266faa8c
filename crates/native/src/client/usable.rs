//! What a connection asks its transport: whether it can carry another exchange, and what was not sent.

use super::connection::{ClientConnection, Input};
use crate::tls::TlsTransport;
use crate::transport::{StreamTransport, Under};
use oneloop_engine::sys::socket;
use pyo3::intern;
use pyo3::prelude::*;

impl ClientConnection {
    /// Whether the connection can carry another exchange: the server has neither closed it nor sent anything.
    ///
    /// The socket is asked each time (0.3 µs): the loop may not have polled since, and what a server sends behind an
    /// response must not become the response of the next request.
    pub fn is_usable(slf: &Bound<'_, Self>, now_ns: u64) -> bool {
        let py = slf.py();
        let this = slf.get();
        let (is_open, idle_ns) = this.state.with(py, |s| {
            (!s.is_lost && matches!(s.input, Input::Idle), now_ns.saturating_sub(s.idle_since_ns))
        });
        // A loop that runs only while somebody waits has not ended it in time.
        if !is_open || idle_ns >= this.terms.idle_ns {
            return false;
        }
        if this.is_http2() {
            return Self::is_alive(slf);
        }
        let Some(under) = this.under(py) else { return false };
        // The plain one, which is below TLS; under TLS in TLS, what it has received is not seen.
        let stream = match &under {
            Under::Stream(stream) => Some(stream.clone_ref(py)),
            Under::Other(other) => match tls_below(other.bind(py)) {
                Some(Under::Stream(stream)) => Some(stream),
                _ => None,
            },
        };
        // A descriptor that is gone, like data or an end of file, makes it useless.
        let is_quiet = stream.is_none_or(|stream| {
            let stream = stream.get();
            !stream.is_over(py) && stream.body.descriptor.fd(py).is_ok_and(socket::has_nothing)
        });
        let Under::Other(other) = &under else { return is_quiet };
        let is_closing = other.bind(py).call_method0(intern!(py, "is_closing"));
        is_quiet && is_closing.and_then(|is| is.is_truthy()).is_ok_and(|is_closing| !is_closing)
    }

    /// Whether its transport has ended, or one below, of which those above are told in a later tick.
    pub fn is_over_below(&self, py: Python<'_>) -> bool {
        let mut under = self.under(py);
        loop {
            match under {
                Some(Under::Stream(stream)) => return stream.get().is_over(py),
                Some(Under::Other(other)) => match other.bind(py).cast::<TlsTransport>() {
                    Ok(tls) if tls.get().is_over(py) => return true,
                    // Without one below it is lost.
                    Ok(tls) => under = tls.get().under(py),
                    Err(_) => return false,
                },
                None => return true,
            }
        }
    }

    /// Whether the server does not read what was sent, as far as the kernel knows.
    pub fn is_stuck(&self, py: Python<'_>) -> PyResult<bool> {
        let is_blocked = |stream: &StreamTransport| stream.state.with(py, |s| s.out.blocked);
        match self.under(py) {
            Some(Under::Stream(stream)) => Ok(is_blocked(stream.get())),
            Some(Under::Other(other)) => match tls_below(other.bind(py)) {
                Some(Under::Stream(stream)) => Ok(is_blocked(stream.get())),
                _ => Ok(self.unsent(py)? > 0),
            },
            None => Ok(false),
        }
    }

    /// How many bytes were written and not sent.
    pub fn unsent(&self, py: Python<'_>) -> PyResult<usize> {
        let Some(under) = self.under(py) else { return Ok(0) };
        let queued = |stream: &StreamTransport| stream.state.with(py, |s| s.out.queue.len_bytes());
        match &under {
            Under::Stream(stream) => Ok(queued(stream.get())),
            Under::Other(other) => {
                let other = other.bind(py);
                let len: usize =
                    other.call_method0(intern!(py, "get_write_buffer_size"))?.extract()?;
                match tls_below(other) {
                    Some(Under::Stream(stream)) => Ok(len + queued(stream.get())),
                    _ => Ok(len),
                }
            }
        }
    }
}

/// The transport below one of TLS.
pub fn tls_below(transport: &Bound<'_, PyAny>) -> Option<Under> {
    transport.cast::<TlsTransport>().ok()?.get().under(transport.py())
}
