//! What a connection knows of its two ends: their addresses, the parameters of TLS.

use super::open_connections::OpenConnections;
use crate::ffi::LoopCell;
use crate::ffi::fallible;
use crate::imports;
use crate::transport::Under;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

type End<'py> = Bound<'py, PyAny>;

#[derive(Default)]
struct Known {
    addresses: Option<(Py<PyAny>, Py<PyAny>)>,
    tls: Option<Py<PyDict>>,
}

/// Both ends for applications, found for the first request and kept for the others.
#[derive(Default)]
pub struct Ends(LoopCell<Known>);

impl Ends {
    /// (host, port) of client and server; None for a client on a Unix socket, (path, None) for its server.
    pub fn addresses<'py>(
        &self,
        open: &OpenConnections,
        under: impl FnOnce() -> Option<Under>,
        py: Python<'py>,
    ) -> PyResult<(End<'py>, End<'py>)> {
        let bound = |(client, server): &(Py<PyAny>, Py<PyAny>)| {
            (client.bind(py).clone(), server.bind(py).clone())
        };
        if let Some(known) = self.0.with(py, |known| known.addresses.as_ref().map(bound)) {
            return Ok(known);
        }
        let (client, server) = find(open, under().as_ref(), py)?;
        self.set_addresses(py, client.clone(), server.clone());
        Ok((client, server))
    }

    /// Names them instead of the transport: a proxy has done so.
    pub fn set_addresses(&self, py: Python<'_>, client: End<'_>, server: End<'_>) {
        let kept = (client.unbind(), server.unbind());
        let old = self.0.with(py, |known| known.addresses.replace(kept));
        drop(old);
    }

    /// The `tls` extension for scopes: the parameters negotiated in the connection's handshake.
    pub fn tls<'py>(
        &self,
        under: impl FnOnce() -> Option<Under>,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let known = self.0.with(py, |known| known.tls.as_ref().map(|tls| tls.bind(py).clone()));
        if let Some(known) = known {
            return Ok(known);
        }
        let found = find_tls(under().as_ref(), py)?;
        let kept = found.clone().unbind();
        let old = self.0.with(py, |known| known.tls.replace(kept));
        drop(old);
        Ok(found)
    }

    /// What is known goes to another protocol of the same connection.
    pub fn take(&self, py: Python<'_>) -> Self {
        Self(LoopCell::new(self.0.with(py, std::mem::take)))
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let all = self.0.peek(|known| {
            if let Some((client, server)) = &known.addresses {
                visit.call(client)?;
                visit.call(server)?;
            }
            visit.call(&known.tls)
        });
        all.unwrap_or(Ok(()))
    }
}

/// The addresses of client and server, as `Ends` has them.
fn find<'py>(
    open: &OpenConnections,
    under: Option<&Under>,
    py: Python<'py>,
) -> PyResult<(End<'py>, End<'py>)> {
    let [peer, local] = names(under, py)?;
    let client = host_and_port(py, peer);
    let server = match host_and_port(py, local.clone()) {
        // A Unix socket.
        none if none.is_none() && local.is_truthy()? => {
            fallible::tuple(py, [local, py.None().into_bound(py)])?.into_any()
        }
        server => server,
    };
    let server = open.shared_end(&server)?;
    Ok((client, server))
}

/// The names of both ends, as sockets return them; None if unknown.
fn names<'py>(under: Option<&Under>, py: Python<'py>) -> PyResult<[End<'py>; 2]> {
    let none = || py.None().into_bound(py);
    let Some(under) = under else { return Ok([none(), none()]) };
    if let Under::Stream(stream) = under {
        let stream = stream.get();
        if let Some(names) = stream.endpoint.names(py, &stream.body.descriptor)? {
            return Ok(names.map(|name| name.unwrap_or_else(none)));
        }
    }
    let ask = |name| under.object(py).call_method1(intern!(py, "get_extra_info"), (name,));
    Ok([ask("peername")?, ask("sockname")?])
}

fn find_tls<'py>(under: Option<&Under>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let Some(under) = under else { return fallible::dict(py) };
    let found = imports::tls_of(py)?.call1((under.object(py),))?;
    Ok(found.cast::<PyDict>()?.clone())
}

/// Whether there is TLS below.
pub fn is_tls(under: &Under, py: Python<'_>) -> PyResult<bool> {
    match under {
        Under::Stream(_) => Ok(false),
        Under::Other(other) => Ok(!other
            .bind(py)
            .call_method1(intern!(py, "get_extra_info"), (intern!(py, "sslcontext"),))?
            .is_none()),
    }
}

fn host_and_port<'py>(py: Python<'py>, name: End<'py>) -> End<'py> {
    match name.cast_into::<PyTuple>() {
        // IPv6 has two more parts.
        Ok(parts) if parts.len() >= 2 => parts.get_slice(0, 2).into_any(),
        _ => py.None().into_bound(py),
    }
}
