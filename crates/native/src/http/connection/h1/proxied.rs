//! The PROXY protocol: the client behind a load balancer, sent before everything else
//! (`oneloop_http1::proxy_protocol`).
//!
//! TLS, if used, begins after the header.

use super::connection::{Awaited, HttpConnection, Input};
use super::requests::Progress;
use crate::ffi::fallible;
use crate::ffi::values::ToPython;
use crate::http::exchange::error_log;
use oneloop_http1::proxy_protocol::{self, Header};
use pyo3::intern;
use pyo3::prelude::*;
use std::net::SocketAddr;

impl HttpConnection {
    /// Reads the header at the start of a connection. A peer without the header gets no response.
    pub fn take_proxy_header(slf: &Bound<'_, Self>, input: &[u8]) -> PyResult<Progress> {
        let py = slf.py();
        let this = slf.get();
        if !Self::is_of_proxy(slf)? {
            let client = error_log::client_name(&Self::ends(slf)?.0);
            let text = format!(
                "A connection from {client} was closed: it is no proxy of --proxy-allow-ips."
            );
            error_log::tell(py, "warning", &text)?;
            this.close(py)?;
            return Ok(Progress::Used(input.len()));
        }
        let (header, len) = match proxy_protocol::parse(input) {
            Ok(Some(found)) => found,
            Ok(None) => {
                this.wait_for_head(py);
                return Ok(Progress::Stopped);
            }
            Err(_) => {
                let client = error_log::client_name(&Self::ends(slf)?.0);
                let text = format!("A connection from {client} without a PROXY header was closed.");
                error_log::tell(py, "warning", &text)?;
                this.close(py)?;
                return Ok(Progress::Used(input.len()));
            }
        };
        if let Header::Proxied { source, destination } = header {
            let (client, server) = (end(py, source)?, end(py, destination)?);
            this.ends.set_addresses(py, client.into_bound(py), server.into_bound(py));
        }
        this.state.with(py, |s| s.input = Input::Head);
        this.wait_for(py, Awaited::Request);
        let Some(context) = &this.open.get().options.tls_behind_proxy else {
            return Ok(Progress::Used(len));
        };
        Self::start_tls(slf, context.bind(py), &input[len..])?;
        Ok(Progress::Used(input.len()))
    }

    /// Whether the peer's header is taken.
    fn is_of_proxy(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let Some(proxies) = &slf.get().open.get().options.proxies else { return Ok(true) };
        let client = Self::ends(slf)?.0;
        // A peer on a Unix socket has no address.
        let host =
            if client.is_none() { "".into_pyobject(py)?.into_any() } else { client.get_item(0)? };
        proxies.bind(py).call1((host,))?.is_truthy()
    }

    /// Starts TLS on the rest of the connection; `first` was already received.
    fn start_tls(slf: &Bound<'_, Self>, context: &Bound<'_, PyAny>, first: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(under) = this.under(py) else { return Ok(()) };
        let named = fallible::dict(py)?;
        let header_s = this.open.get().options.header_ns as f64 / 1e9;
        named.set_item(intern!(py, "ssl_handshake_timeout"), header_s)?;
        let class = py.get_type::<crate::tls::TlsTransport>();
        let owner = this.service.get().owner.bind(py);
        let shaken = owner.call_method0(intern!(py, "create_future"))?;
        let handshake_over = slf.getattr(intern!(py, "_handshake_over"))?;
        shaken.call_method1(intern!(py, "add_done_callback"), (handshake_over,))?;
        let given = (owner, slf, context, shaken, true);
        let tls = class.call(given, Some(&named))?;
        let transport = under.object(py);
        transport.call_method1(intern!(py, "set_protocol"), (&tls,))?;
        tls.call_method1(intern!(py, "connection_made"), (transport,))?;
        if !first.is_empty() {
            tls.call_method1(intern!(py, "data_received"), (fallible::bytes(py, first)?,))?;
        }
        Ok(())
    }
}

#[pymethods]
impl HttpConnection {
    /// The handshake has succeeded, or the connection has ended before. TLS does not tell a protocol of its end that it
    /// has not told of its beginning, but this one has begun with the proxy's header.
    fn _handshake_over(slf: &Bound<'_, Self>, shaken: &Bound<'_, PyAny>) -> PyResult<()> {
        // The loop would log an exception that nobody asks for. It is in the log of TLS, if it matters.
        shaken.call_method0(intern!(slf.py(), "exception"))?;
        let is_lost = slf.get().state.with(slf.py(), |s| !s.is_tls && !s.is_lost);
        if is_lost { Self::connection_lost(slf, None) } else { Ok(()) }
    }
}

/// (host, port)
fn end(py: Python<'_>, address: SocketAddr) -> PyResult<Py<PyAny>> {
    Ok((address.ip().to_string(), address.port()).to_python(py)?.unbind())
}
