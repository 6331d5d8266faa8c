//! The scope of a request for an ASGI application (ASGI 3, HTTP specification 2.5).

use super::connection::HttpConnection;
use super::names;
use crate::imports;
use crate::transport::Under;
use oneloop_http1::{Request, Version};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::borrow::Cow;

/// The initial entries of every scope, in the order of its keys; copied for each request.
pub struct Template {
    scope: Py<PyDict>,
    asgi: Py<PyDict>,
    extensions: Py<PyDict>,
}

impl Template {
    pub fn new(py: Python<'_>, root_path: &str) -> PyResult<Self> {
        let asgi = PyDict::new(py);
        asgi.set_item("version", "3.0")?;
        asgi.set_item("spec_version", "2.5")?;
        let extensions = PyDict::new(py);
        for name in ["http.response.trailers", "http.response.early_hint", "http.response.pathsend"]
        {
            extensions.set_item(name, PyDict::new(py))?;
        }
        let scope = PyDict::new(py);
        let keys = [
            intern!(py, "type"),
            intern!(py, "asgi"),
            intern!(py, "http_version"),
            intern!(py, "server"),
            intern!(py, "client"),
            intern!(py, "scheme"),
            intern!(py, "root_path"),
            intern!(py, "headers"),
            intern!(py, "method"),
            intern!(py, "path"),
            intern!(py, "raw_path"),
            intern!(py, "query_string"),
            intern!(py, "extensions"),
        ];
        for key in keys {
            scope.set_item(key, py.None())?;
        }
        scope.set_item(intern!(py, "type"), intern!(py, "http"))?;
        scope.set_item(intern!(py, "http_version"), intern!(py, "1.1"))?;
        scope.set_item(intern!(py, "scheme"), intern!(py, "http"))?;
        scope.set_item(intern!(py, "root_path"), root_path)?;
        Ok(Self { scope: scope.unbind(), asgi: asgi.unbind(), extensions: extensions.unbind() })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.scope)?;
        visit.call(&self.asgi)?;
        visit.call(&self.extensions)
    }
}

/// The scope of a request. Its dictionaries and lists belong to the application.
pub fn of_request<'py>(
    connection: &Bound<'py, HttpConnection>,
    request: &Request<'_, '_>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = connection.py();
    let this = connection.get();
    let http = this.http.get();
    let options = &http.options;
    let scope = http.template.scope.bind(py).copy()?;
    scope.set_item(intern!(py, "asgi"), http.template.asgi.bind(py).copy()?)?;
    if request.version == Version::Http10 {
        scope.set_item(intern!(py, "http_version"), intern!(py, "1.0"))?;
    }
    let (client, server) = ends(connection)?;
    scope.set_item(intern!(py, "server"), server)?;
    scope.set_item(intern!(py, "client"), client)?;
    if this.state.with(py, |s| s.is_tls) {
        scope.set_item(intern!(py, "scheme"), intern!(py, "https"))?;
    }
    scope.set_item(intern!(py, "headers"), headers(py, request)?)?;
    if let Some(state) = &options.state {
        scope.set_item(intern!(py, "state"), state.bind(py).copy()?)?;
    }
    scope.set_item(intern!(py, "method"), method(py, request.method))?;
    scope.set_item(intern!(py, "path"), path(py, &options.root_path, request.path))?;
    let raw_path = if options.root_path.is_empty() {
        PyBytes::new(py, request.path)
    } else {
        PyBytes::new(py, &[options.root_path.as_bytes(), request.path].concat())
    };
    scope.set_item(intern!(py, "raw_path"), raw_path)?;
    scope.set_item(intern!(py, "query_string"), PyBytes::new(py, request.query))?;
    let extensions = http.template.extensions.bind(py).copy()?;
    if this.state.with(py, |s| s.is_tls) {
        extensions.set_item(intern!(py, "tls"), tls(connection)?.copy()?)?;
    }
    scope.set_item(intern!(py, "extensions"), extensions)?;
    let behind = forwarded(connection, request)?;
    if let Some(client) = behind.client {
        scope.set_item(intern!(py, "client"), client)?;
    }
    if let Some(scheme) = behind.scheme {
        scope.set_item(intern!(py, "scheme"), scheme)?;
    }
    Ok(scope)
}

/// The forwarding fields of a trusted proxy.
#[derive(Default)]
pub struct Forwarded<'py> {
    /// (host, port)
    pub client: Option<End<'py>>,
    pub scheme: Option<End<'py>>,
}

/// The client behind a trusted proxy, if its fields name one.
pub fn forwarded<'py>(
    connection: &Bound<'py, HttpConnection>,
    request: &Request<'_, '_>,
) -> PyResult<Forwarded<'py>> {
    let py = connection.py();
    let this = connection.get();
    let Some(trust) = &this.http.get().options.trust else { return Ok(Forwarded::default()) };
    let values = |name: &str| -> Vec<Bound<'_, PyBytes>> {
        let named = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| PyBytes::new(py, field.value)).collect()
    };
    let (hosts, schemes) = (values("x-forwarded-for"), values("x-forwarded-proto"));
    if hosts.is_empty() && schemes.is_empty() {
        return Ok(Forwarded::default());
    }
    let (client, _) = ends(connection)?;
    let peer = match client.cast::<PyTuple>() {
        Ok(client) => client.get_item(0)?,
        Err(_) => PyString::new(py, "").into_any(),
    };
    let found = imports::client_of(py)?.call1((peer, hosts, schemes, trust))?;
    let host = found.getattr(intern!(py, "host"))?;
    let scheme = found.getattr(intern!(py, "scheme"))?;
    let client = if host.is_none() {
        None
    } else {
        Some((host, found.getattr(intern!(py, "port"))?).into_pyobject(py)?.into_any())
    };
    Ok(Forwarded { client, scheme: Some(scheme).filter(|scheme| !scheme.is_none()) })
}

/// The common methods are interned strings.
pub fn method<'py>(py: Python<'py>, method: &str) -> Bound<'py, PyString> {
    match method {
        "GET" => intern!(py, "GET").clone(),
        "POST" => intern!(py, "POST").clone(),
        "HEAD" => intern!(py, "HEAD").clone(),
        "PUT" => intern!(py, "PUT").clone(),
        "DELETE" => intern!(py, "DELETE").clone(),
        "PATCH" => intern!(py, "PATCH").clone(),
        "OPTIONS" => intern!(py, "OPTIONS").clone(),
        other => PyString::new(py, other),
    }
}

pub fn headers<'py>(py: Python<'py>, request: &Request<'_, '_>) -> PyResult<Bound<'py, PyList>> {
    let mut fields = Vec::with_capacity(request.headers.len());
    for field in request.headers {
        let name = names::lower(py, field.name)?;
        fields.push(PyTuple::new(py, [name, PyBytes::new(py, field.value)])?);
    }
    PyList::new(py, fields)
}

/// The percent-decoded path as text; invalid UTF-8 becomes U+FFFD.
pub fn path<'py>(py: Python<'py>, root: &str, raw: &[u8]) -> Bound<'py, PyString> {
    let decoded = if memchr::memchr(b'%', raw).is_some() {
        Cow::Owned(decoded(raw))
    } else {
        Cow::Borrowed(raw)
    };
    let text = String::from_utf8_lossy(&decoded);
    if root.is_empty() {
        PyString::new(py, &text)
    } else {
        PyString::new(py, &format!("{root}{text}"))
    }
}

/// Like `urllib.parse.unquote_to_bytes`: invalid escapes stay as they are.
pub fn decoded(raw: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let pair = match raw[at..] {
            [b'%', high, low, ..] => digit(high).zip(digit(low)),
            _ => None,
        };
        if let Some((high, low)) = pair {
            decoded.push(high << 4 | low);
            at += 3;
        } else {
            decoded.push(raw[at]);
            at += 1;
        }
    }
    decoded
}

/// The parameters negotiated in the connection's TLS handshake.
fn tls<'py>(connection: &Bound<'py, HttpConnection>) -> PyResult<Bound<'py, PyDict>> {
    let py = connection.py();
    let this = connection.get();
    if let Some(known) = this.state.with(py, |s| s.tls.as_ref().map(|tls| tls.bind(py).clone())) {
        return Ok(known);
    }
    let Some(under) = this.under(py) else { return Ok(PyDict::new(py)) };
    let found = imports::tls_of(py)?.call1((under.object(py),))?;
    let found = found.cast::<PyDict>()?.clone();
    let kept = found.clone().unbind();
    let old = this.state.with(py, |s| s.tls.replace(kept));
    drop(old);
    Ok(found)
}

type End<'py> = Bound<'py, PyAny>;

/// (host, port) of client and server; None for a client on a Unix socket, (path, None) for its server.
pub fn ends<'py>(connection: &Bound<'py, HttpConnection>) -> PyResult<(End<'py>, End<'py>)> {
    let py = connection.py();
    let this = connection.get();
    let known = this.state.with(py, |s| match (&s.client, &s.server) {
        (Some(client), Some(server)) => Some((client.bind(py).clone(), server.bind(py).clone())),
        _ => None,
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let [peer, local] = names(connection)?;
    let client = host_and_port(py, peer);
    let server = match host_and_port(py, local.clone()) {
        // A Unix socket.
        none if none.is_none() && local.is_truthy()? => {
            PyTuple::new(py, [local, py.None().into_bound(py)])?.into_any()
        }
        server => server,
    };
    let server = this.http.get().shared_end(&server)?;
    let kept = (client.clone().unbind(), server.clone().unbind());
    let old = this.state.with(py, |s| (s.client.replace(kept.0), s.server.replace(kept.1)));
    drop(old);
    Ok((client, server))
}

/// The names of both ends, as sockets return them; None if unknown.
fn names<'py>(connection: &Bound<'py, HttpConnection>) -> PyResult<[End<'py>; 2]> {
    let py = connection.py();
    let none = || py.None().into_bound(py);
    let Some(under) = connection.get().under(py) else { return Ok([none(), none()]) };
    if let Under::Stream(stream) = &under {
        let stream = stream.get();
        if let Some(names) = stream.endpoint.names(py, &stream.body.descriptor)? {
            return Ok(names.map(|name| name.unwrap_or_else(none)));
        }
    }
    let ask = |name| under.object(py).call_method1(intern!(py, "get_extra_info"), (name,));
    Ok([ask("peername")?, ask("sockname")?])
}

fn host_and_port<'py>(py: Python<'py>, name: End<'py>) -> End<'py> {
    match name.cast_into::<PyTuple>() {
        // IPv6 has two more parts.
        Ok(parts) if parts.len() >= 2 => parts.get_slice(0, 2).into_any(),
        _ => py.None().into_bound(py),
    }
}
