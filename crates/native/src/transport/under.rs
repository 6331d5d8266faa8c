//! `Under`: the transport below a native protocol.

use super::stream::StreamTransport;
use pyo3::intern;
use pyo3::prelude::*;

/// The transport below. A `StreamTransport` is used without Python calls.
pub enum Under {
    Stream(Py<StreamTransport>),
    /// TLS, or a transport that is not ours.
    Other(Py<PyAny>),
}

impl Under {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Stream(stream) => Self::Stream(stream.clone_ref(py)),
            Self::Other(other) => Self::Other(other.clone_ref(py)),
        }
    }

    pub fn object<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyAny> {
        match self {
            Self::Stream(stream) => stream.bind(py).as_any(),
            Self::Other(other) => other.bind(py),
        }
    }

    /// The protocol that both ends have agreed on in the TLS handshake (ALPN).
    pub fn agreed_protocol(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let Self::Other(other) = self else { return Ok(None) };
        let name = intern!(py, "ssl_object");
        let object = other.bind(py).call_method1(intern!(py, "get_extra_info"), (name,))?;
        if object.is_none() {
            return Ok(None);
        }
        object.call_method0(intern!(py, "selected_alpn_protocol"))?.extract()
    }
}

impl From<&Bound<'_, PyAny>> for Under {
    fn from(transport: &Bound<'_, PyAny>) -> Self {
        match transport.cast_exact::<StreamTransport>() {
            Ok(stream) => Self::Stream(stream.clone().unbind()),
            Err(_) => Self::Other(transport.clone().unbind()),
        }
    }
}
