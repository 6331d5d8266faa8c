//! What an ASGI application is told of a request (ASGI 3, HTTP specification 2.5).

use super::connection::HttpConnection;
use super::names;
use oneloop_http1::{Request, Version};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use std::borrow::Cow;

/// The scope of a request, whose parts are the application's own: nobody else has them.
pub fn of_request<'py>(
    connection: &Bound<'py, HttpConnection>,
    request: &Request<'_, '_>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = connection.py();
    let this = connection.get();
    let options = &this.http.get().options;
    let scope = PyDict::new(py);
    scope.set_item(intern!(py, "type"), intern!(py, "http"))?;
    scope.set_item(intern!(py, "asgi"), asgi(py)?)?;
    let version = match request.version {
        Version::Http10 => intern!(py, "1.0"),
        Version::Http11 => intern!(py, "1.1"),
    };
    scope.set_item(intern!(py, "http_version"), version)?;
    let (client, server) = ends(connection)?;
    scope.set_item(intern!(py, "server"), server)?;
    scope.set_item(intern!(py, "client"), client)?;
    let is_tls = this.state.with(py, |s| s.is_tls);
    let scheme = if is_tls { intern!(py, "https") } else { intern!(py, "http") };
    scope.set_item(intern!(py, "scheme"), scheme)?;
    scope.set_item(intern!(py, "root_path"), options.root_path.as_str())?;
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
    scope.set_item(intern!(py, "extensions"), extensions(py)?)?;
    Ok(scope)
}

fn asgi(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let asgi = PyDict::new(py);
    asgi.set_item(intern!(py, "version"), intern!(py, "3.0"))?;
    asgi.set_item(intern!(py, "spec_version"), intern!(py, "2.5"))?;
    Ok(asgi)
}

fn extensions(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let extensions = PyDict::new(py);
    extensions.set_item(intern!(py, "http.response.trailers"), PyDict::new(py))?;
    extensions.set_item(intern!(py, "http.response.early_hint"), PyDict::new(py))?;
    Ok(extensions)
}

/// The common methods are strings that exist already.
fn method<'py>(py: Python<'py>, method: &str) -> Bound<'py, PyString> {
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

/// The path with its percent-encoding taken off, as text: what is not UTF-8 becomes U+FFFD.
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

/// As `urllib.parse.unquote_to_bytes`: what is no encoding stays as it is.
pub fn decoded(raw: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let pair = match raw[at..] {
            [b'%', high, low, ..] => digit(high).zip(digit(low)),
            _ => None,
        };
        match pair {
            Some((high, low)) => {
                decoded.push(high << 4 | low);
                at += 3;
            }
            None => {
                decoded.push(raw[at]);
                at += 1;
            }
        }
    }
    decoded
}

type End<'py> = Bound<'py, PyAny>;

/// (host, port) of client and server; None for a client by a Unix socket, (path, None) for its server.
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
    let client = host_and_port(connection, "peername")?;
    let mut server = host_and_port(connection, "sockname")?;
    if client.is_none() && !server.is_none() && !server.is_instance_of::<PyTuple>() {
        server = PyTuple::new(py, [server, py.None().into_bound(py)])?.into_any();
    }
    let kept = (client.clone().unbind(), server.clone().unbind());
    let old = this.state.with(py, |s| (s.client.replace(kept.0), s.server.replace(kept.1)));
    drop(old);
    Ok((client, server))
}

fn host_and_port<'py>(
    connection: &Bound<'py, HttpConnection>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = connection.py();
    let Some(under) = connection.get().under(py) else { return Ok(py.None().into_bound(py)) };
    let address = under.object(py).call_method1(intern!(py, "get_extra_info"), (name,))?;
    match address.cast::<PyTuple>() {
        // IPv6 has two parts more.
        Ok(parts) if parts.len() >= 2 => Ok(parts.get_slice(0, 2).into_any()),
        _ if name == "sockname" && address.is_truthy()? => Ok(address),
        _ => Ok(py.None().into_bound(py)),
    }
}
