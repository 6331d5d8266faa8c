//! `TlsObject`: the program's view of a connection, with the query methods of `ssl.SSLObject`.

use super::context::TlsContext;
use super::missing::missing;
use super::wire::Wire;
use super::{failure, suites};
use crate::ffi::LoopCell;
use crate::ffi::fallible;
use crate::ffi::values::Value;
use crate::imports;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use rustls::{Connection, HandshakeKind, ProtocolVersion};

/// RFC 9266.
const EXPORTER: (&str, &[u8]) = ("tls-exporter", b"EXPORTER-Channel-Binding");

/// A connection made by a `TlsContext`, as returned by `get_extra_info("ssl_object")`.
///
/// It has the attributes and methods of `ssl.SSLObject` that describe a connection. Data goes through the transport.
#[pyclass(frozen, weakref, module = "oneloop.tls")]
pub struct TlsObject {
    context: Py<TlsContext>,
    is_server: bool,
    server_hostname: Option<String>,
    wire: LoopCell<Wire>,
}

impl TlsObject {
    pub fn new(
        context: Py<TlsContext>,
        is_server: bool,
        server_hostname: Option<String>,
        connection: Connection,
    ) -> Self {
        let wire = LoopCell::new(Wire::new(connection));
        Self { context, is_server, server_hostname, wire }
    }

    pub fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Wire) -> R) -> R {
        self.wire.with(py, f)
    }

    pub fn failure(&self, py: Python<'_>, error: &rustls::Error) -> PyErr {
        failure::of(py, error, self.server_hostname.as_deref())
    }

    fn ask<R>(&self, py: Python<'_>, f: impl FnOnce(&Connection) -> R) -> R {
        self.with(py, |wire| f(wire.connection()))
    }

    /// The peer's certificates, its own first. Copied, because the Python objects are made outside of the cell.
    fn chain(&self, py: Python<'_>) -> Vec<Vec<u8>> {
        self.ask(py, |connection| {
            let chain = connection.peer_certificates().unwrap_or_default();
            chain.iter().map(|one| one.as_ref().to_vec()).collect()
        })
    }
}

#[pymethods]
impl TlsObject {
    /// The context that made it.
    #[getter]
    fn context(&self, py: Python<'_>) -> Py<TlsContext> {
        self.context.clone_ref(py)
    }

    #[getter]
    fn server_side(&self) -> bool {
        self.is_server
    }

    /// The name that the client has requested, on the client side.
    #[getter]
    fn server_hostname(&self) -> Value<Option<&str>> {
        Value(self.server_hostname.as_deref())
    }

    /// Whether an earlier session was resumed.
    #[getter]
    fn session_reused(&self, py: Python<'_>) -> bool {
        self.ask(py, |connection| connection.handshake_kind()) == Some(HandshakeKind::Resumed)
    }

    /// Return the peer's certificate, or None if it has sent none.
    ///
    /// Args:
    ///     binary_form: return DER; otherwise the dictionary of `ssl.SSLSocket.getpeercert()`, which is empty for a
    ///         certificate that was not verified.
    ///
    /// Raises:
    ///     ValueError: the handshake is not done yet.
    #[pyo3(signature = (binary_form=false))]
    fn getpeercert<'py>(
        &self,
        py: Python<'py>,
        binary_form: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.ask(py, |connection| connection.is_handshaking()) {
            return Err(PyValueError::new_err("handshake not done yet"));
        }
        let Some(der) = self.ask(py, |connection| {
            connection.peer_certificates().and_then(|all| all.first()).map(|one| one.to_vec())
        }) else {
            return Ok(None);
        };
        let der = fallible::bytes(py, &der)?;
        if binary_form {
            Ok(Some(der.into_any()))
        } else if self.context.get().verifies() {
            imports::decode_certificate(py)?.call1((der,)).map(Some)
        } else {
            Ok(Some(fallible::dict(py)?.into_any()))
        }
    }

    /// Return the certificates that the peer has sent, its own first, as DER.
    fn get_unverified_chain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let chain: Vec<_> = (self.chain(py).iter())
            .map(|der| fallible::bytes(py, der).map(Bound::into_any))
            .collect::<PyResult<_>>()?;
        fallible::list_of(py, chain.into_iter())
    }

    /// Return the name of the cipher suite, its TLS version, and the number of key bits; None before the handshake.
    fn cipher(&self, py: Python<'_>) -> Value<Option<(String, &'static str, u32)>> {
        Value(
            self.ask(py, |connection| connection.negotiated_cipher_suite())
                .map(|suite| suites::describe(suite.suite())),
        )
    }

    /// Return "TLSv1.2" or "TLSv1.3"; None before the handshake.
    fn version(&self, py: Python<'_>) -> Value<Option<&'static str>> {
        Value(match self.ask(py, |connection| connection.protocol_version()) {
            Some(ProtocolVersion::TLSv1_2) => Some("TLSv1.2"),
            Some(ProtocolVersion::TLSv1_3) => Some("TLSv1.3"),
            _ => None,
        })
    }

    /// Return the negotiated application protocol, or None.
    fn selected_alpn_protocol(&self, py: Python<'_>) -> Value<Option<String>> {
        Value(self.ask(py, |connection| {
            connection.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
        }))
    }

    /// Return None: TLS 1.3 has no compression, and that of 1.2 is not used.
    fn compression(&self) -> Value<Option<&'static str>> {
        Value(None)
    }

    /// Return bytes that only the two ends of this connection know; None before the handshake.
    ///
    /// Args:
    ///     cb_type: "tls-exporter" (RFC 9266), which needs TLS 1.3. rustls does not support "tls-unique".
    ///
    /// Raises:
    ///     ValueError: another type, or the connection uses TLS 1.2.
    #[pyo3(signature = (cb_type="tls-exporter"))]
    fn get_channel_binding<'py>(
        &self,
        py: Python<'py>,
        cb_type: &str,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (name, label) = EXPORTER;
        if cb_type != name {
            let text = format!("'{cb_type}' channel binding type not implemented");
            return Err(PyValueError::new_err(text));
        }
        if self.ask(py, |connection| connection.is_handshaking()) {
            return Ok(None);
        }
        if self.version(py).0 != Some("TLSv1.3") {
            return Err(PyValueError::new_err("tls-exporter needs TLS 1.3"));
        }
        self.ask(py, |connection| connection.export_keying_material([0_u8; 32], label, Some(&[])))
            .map_err(|e| self.failure(py, &e))
            .and_then(|secret| fallible::bytes(py, &secret).map(Some))
    }

    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        Err(missing(slf.as_any(), name, "SSLObject"))
    }
}
