//! The ends of an HTTP/1.1 connection.

use super::connection::HttpConnection;
use pyo3::prelude::*;
use pyo3::types::PyDict;

type End<'py> = Bound<'py, PyAny>;

impl HttpConnection {
    /// (host, port) of client and server; None for a client on a Unix socket, (path, None) for its server.
    pub fn ends<'py>(slf: &Bound<'py, Self>) -> PyResult<(End<'py>, End<'py>)> {
        let py = slf.py();
        let this = slf.get();
        this.ends.addresses(this.open.get(), || this.under(py), py)
    }

    /// The parameters negotiated in the connection's TLS handshake.
    pub fn tls<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let this = slf.get();
        this.ends.tls(|| this.under(py), py)
    }
}
