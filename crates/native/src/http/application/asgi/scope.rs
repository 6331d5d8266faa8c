//! The scope of a request for an ASGI application (ASGI 3; HTTP specification 2.3, WebSocket 2.5).

use crate::ffi::fallible;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::request_view::{Ends, decoded, forwarded, headers, method};
use oneloop_http1::{Request, Version};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pyo3::{PyTraverseError, PyVisit};
use std::borrow::Cow;

/// The initial entries of every scope, in the order of its keys; copied for each request.
pub struct Template {
    scope: Py<PyDict>,
    asgi: Py<PyDict>,
    extensions: Py<PyDict>,
    root_path: String,
    /// The state from the lifespan; each request gets a copy.
    state: Option<Py<PyDict>>,
}

impl Template {
    pub fn new(py: Python<'_>, root_path: &str, state: Option<Py<PyDict>>) -> PyResult<Self> {
        let asgi = fallible::dict(py)?;
        asgi.set_item(intern!(py, "version"), intern!(py, "3.0"))?;
        // From 2.4 on, frameworks no longer listen for the client's end, but wait for `send` to raise (Starlette's
        // StreamingResponse, and so FastAPI): a generator that waits for its next event would never end.
        asgi.set_item(intern!(py, "spec_version"), intern!(py, "2.3"))?;
        let extensions = fallible::dict(py)?;
        for name in ["http.response.trailers", "http.response.early_hint", "http.response.pathsend"]
        {
            extensions.set_item(fallible::interned(py, name)?, fallible::dict(py)?)?;
        }
        let scope = fallible::dict(py)?;
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
        Ok(Self {
            scope: scope.unbind(),
            asgi: asgi.unbind(),
            extensions: extensions.unbind(),
            root_path: root_path.to_owned(),
            state,
        })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.scope)?;
        visit.call(&self.asgi)?;
        visit.call(&self.extensions)?;
        visit.call(&self.state)
    }
}

/// The scope of a request. Its dictionaries and lists belong to the application.
pub fn of_request<'py>(
    template: &Template,
    exchange: &Bound<'py, Exchange>,
    request: &Request<'_, '_>,
    ends: &Ends<'_, 'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = exchange.py();
    let scope = template.scope.bind(py).copy()?;
    scope.set_item(intern!(py, "asgi"), template.asgi.bind(py).copy()?)?;
    match request.version {
        Version::Http11 => {}
        Version::Http10 => scope.set_item(intern!(py, "http_version"), intern!(py, "1.0"))?,
        Version::Http2 => scope.set_item(intern!(py, "http_version"), intern!(py, "2"))?,
    }
    scope.set_item(intern!(py, "server"), &ends.server)?;
    scope.set_item(intern!(py, "client"), &ends.client)?;
    if ends.tls.is_some() {
        scope.set_item(intern!(py, "scheme"), intern!(py, "https"))?;
    }
    scope.set_item(intern!(py, "headers"), headers(py, request)?)?;
    if let Some(state) = &template.state {
        scope.set_item(intern!(py, "state"), state.bind(py).copy()?)?;
    }
    scope.set_item(intern!(py, "method"), method(py, request.method)?)?;
    scope.set_item(intern!(py, "path"), path(py, &template.root_path, request.path)?)?;
    let raw_path = if template.root_path.is_empty() {
        fallible::bytes(py, request.path)?
    } else {
        fallible::bytes(py, &[template.root_path.as_bytes(), request.path].concat())?
    };
    scope.set_item(intern!(py, "raw_path"), raw_path)?;
    scope.set_item(intern!(py, "query_string"), fallible::bytes(py, request.query)?)?;
    let extensions = template.extensions.bind(py).copy()?;
    if let Some(tls) = ends.tls {
        extensions.set_item(intern!(py, "tls"), tls()?.copy()?)?;
    }
    scope.set_item(intern!(py, "extensions"), extensions)?;
    let behind = forwarded(exchange.get().service.get(), &ends.client, request)?;
    if let Some(client) = behind.client {
        scope.set_item(intern!(py, "client"), client)?;
    }
    if let Some(scheme) = behind.scheme {
        scope.set_item(intern!(py, "scheme"), scheme)?;
    }
    Ok(scope)
}

/// The percent-decoded path as text; invalid UTF-8 becomes U+FFFD.
pub fn path<'py>(py: Python<'py>, root: &str, raw: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let decoded = if memchr::memchr(b'%', raw).is_some() {
        Cow::Owned(decoded(raw))
    } else {
        Cow::Borrowed(raw)
    };
    let text = String::from_utf8_lossy(&decoded);
    if root.is_empty() {
        fallible::text(py, &text)
    } else {
        fallible::text(py, &format!("{root}{text}"))
    }
}
