//! The environ of a WSGI request: PEP 3333, based on CGI (RFC 3875).
//!
//! Text is "bytes as str": each character is a byte. Names with an underscore are dropped, because `X_Real` would
//! look like `X-Real`. `Proxy` is dropped, because programs use the variable HTTP_PROXY (httpoxy).

use super::file_wrapper::FileWrapper;
use super::input::Input;
use crate::ffi::fallible;
use crate::ffi::text::latin1;
use crate::http::application::options::ApplicationOptions;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::field_names::{self, KNOWN, PLACES};
use crate::http::exchange::request_view::{Ends, decoded, forwarded, headers, method};
use oneloop_http1::{Framing, Request, Version};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::borrow::Cow;

/// A copied dictionary gets a table of the same size, which grows when full. This many keys make the table large
/// enough.
const ROOMY_KEYS: usize = 22;

/// The initial entries of every environ; copied for each request.
pub struct Template {
    environ: Py<PyDict>,
    /// The path of the application, without a slash at its end.
    script_name: String,
}

impl Template {
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.environ)
    }
}

/// The entries that are the same for all requests, and placeholders for those that every request has.
pub fn template(py: Python<'_>, options: &ApplicationOptions) -> PyResult<Template> {
    let environ = fallible::dict(py)?;
    let keys = [
        intern!(py, "REQUEST_METHOD"),
        intern!(py, "SCRIPT_NAME"),
        intern!(py, "PATH_INFO"),
        intern!(py, "QUERY_STRING"),
        intern!(py, "RAW_URI"),
        intern!(py, "REQUEST_URI"),
        intern!(py, "SERVER_PROTOCOL"),
        intern!(py, "SERVER_NAME"),
        intern!(py, "SERVER_PORT"),
        intern!(py, "REMOTE_ADDR"),
    ];
    for key in keys {
        environ.set_item(key, intern!(py, ""))?;
    }
    let script_name = options.root_path.trim_end_matches('/');
    environ.set_item(intern!(py, "SCRIPT_NAME"), script_name)?;
    environ.set_item(intern!(py, "SERVER_PROTOCOL"), intern!(py, "HTTP/1.1"))?;
    environ.set_item(intern!(py, "SERVER_SOFTWARE"), intern!(py, "oneloop"))?;
    environ.set_item(intern!(py, "wsgi.version"), (1, 0))?;
    environ.set_item(intern!(py, "wsgi.url_scheme"), intern!(py, "http"))?;
    environ.set_item(intern!(py, "wsgi.input"), py.None())?;
    environ.set_item(intern!(py, "wsgi.input_terminated"), true)?;
    environ
        .set_item(intern!(py, "wsgi.errors"), py.import("sys")?.getattr(intern!(py, "stderr"))?)?;
    // Green threads can also switch within a request.
    let is_multithread = options.green || options.threads > 1;
    environ.set_item(intern!(py, "wsgi.multithread"), is_multithread)?;
    environ.set_item(intern!(py, "wsgi.multiprocess"), options.multiprocess)?;
    environ.set_item(intern!(py, "wsgi.run_once"), false)?;
    environ.set_item(intern!(py, "wsgi.file_wrapper"), py.get_type::<FileWrapper>())?;
    let mut extra = Vec::new();
    for number in environ.len()..ROOMY_KEYS {
        environ.set_item(number, py.None())?;
        extra.push(number);
    }
    for number in extra {
        environ.del_item(number)?;
    }
    Ok(Template { environ: environ.unbind(), script_name: script_name.to_owned() })
}

pub fn of_request<'py>(
    template: &Template,
    exchange: &Bound<'py, Exchange>,
    request: &Request<'_, '_>,
    ends: &Ends<'_, 'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = exchange.py();
    let service = exchange.get().service.get();
    let environ = template.environ.bind(py).copy()?;
    environ.set_item(intern!(py, "REQUEST_METHOD"), method(py, request.method)?)?;
    set_target(&environ, &template.script_name, request)?;
    match request.version {
        Version::Http11 => {}
        Version::Http10 => {
            environ.set_item(intern!(py, "SERVER_PROTOCOL"), intern!(py, "HTTP/1.0"))?;
        }
        Version::Http2 => {
            environ.set_item(intern!(py, "SERVER_PROTOCOL"), intern!(py, "HTTP/2.0"))?;
        }
    }
    let behind = forwarded(service, &ends.client, request)?;
    let is_tls = match &behind.scheme {
        Some(scheme) => scheme.eq("https")?,
        None => ends.tls.is_some(),
    };
    if is_tls {
        environ.set_item(intern!(py, "wsgi.url_scheme"), intern!(py, "https"))?;
    }
    let client = behind.client.unwrap_or_else(|| ends.client.clone());
    if let Some((host, port)) = host_and_port(&client)? {
        environ.set_item(intern!(py, "REMOTE_ADDR"), host)?;
        environ.set_item(intern!(py, "REMOTE_PORT"), port)?;
    }
    set_fields(&environ, request)?;
    match host_and_port(&ends.server)? {
        Some((host, port)) => {
            environ.set_item(intern!(py, "SERVER_NAME"), host)?;
            environ.set_item(intern!(py, "SERVER_PORT"), port)?;
        }
        None => set_named_server(&environ, request, is_tls)?,
    }
    if let Framing::Length(len_bytes) = request.framing {
        environ.set_item(intern!(py, "CONTENT_LENGTH"), len_bytes.to_string())?;
    }
    environ.set_item(intern!(py, "wsgi.input"), Input::make(exchange)?)?;
    if service.options.on_response.is_some() {
        keep_for_log(exchange, request, &client)?;
    }
    Ok(environ)
}

/// The decoded path without the application's root path, the query, and both as they were sent.
fn set_target(
    environ: &Bound<'_, PyDict>,
    script_name: &str,
    request: &Request<'_, '_>,
) -> PyResult<()> {
    let py = environ.py();
    let raw = if request.query.is_empty() {
        latin1(py, request.path)?
    } else {
        latin1(py, &[request.path, b"?", request.query].concat())?
    };
    environ.set_item(intern!(py, "RAW_URI"), &raw)?;
    environ.set_item(intern!(py, "REQUEST_URI"), &raw)?;
    if !request.query.is_empty() {
        environ.set_item(intern!(py, "QUERY_STRING"), latin1(py, request.query)?)?;
    }
    // `*`, and the authority of CONNECT, are not paths.
    if request.path.first() != Some(&b'/') {
        return Ok(());
    }
    let decoded = match memchr::memchr(b'%', request.path) {
        Some(_) => Cow::Owned(decoded(request.path)),
        None => Cow::Borrowed(request.path),
    };
    let path = match decoded.strip_prefix(script_name.as_bytes()) {
        // A proxy may or may not have removed the application's root path.
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => rest,
        _ => &decoded,
    };
    let path = if script_name.is_empty()
        && decoded.len() == request.path.len()
        && request.query.is_empty()
    {
        raw
    } else {
        latin1(py, path)?
    };
    environ.set_item(intern!(py, "PATH_INFO"), path)
}

fn host_and_port<'py>(
    address: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyString>)>> {
    let Ok(pair) = address.cast::<PyTuple>() else { return Ok(None) };
    let Ok(port) = pair.get_item(1)?.extract::<u16>() else { return Ok(None) };
    let mut digits = [0; 5];
    let mut at = digits.len();
    let mut left = port;
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(left % 10).unwrap_or(0);
        left /= 10;
        if left == 0 {
            break;
        }
    }
    Ok(Some((pair.get_item(0)?, latin1(address.py(), &digits[at..])?)))
}

/// A server on a Unix socket uses the name in the request, because neither variable may be empty.
fn set_named_server(
    environ: &Bound<'_, PyDict>,
    request: &Request<'_, '_>,
    is_tls: bool,
) -> PyResult<()> {
    let py = environ.py();
    let host = request.host().unwrap_or_default();
    let (name, port) = match host.iter().rposition(|byte| *byte == b':') {
        Some(at) if host[at + 1..].iter().all(u8::is_ascii_digit) => (&host[..at], &host[at + 1..]),
        _ => (host, &b""[..]),
    };
    let name = if name.is_empty() { b"localhost" } else { name };
    let port = match port {
        b"" if is_tls => b"443",
        b"" => &b"80"[..],
        port => port,
    };
    environ.set_item(intern!(py, "SERVER_NAME"), latin1(py, name)?)?;
    environ.set_item(intern!(py, "SERVER_PORT"), latin1(py, port)?)
}

fn set_fields(environ: &Bound<'_, PyDict>, request: &Request<'_, '_>) -> PyResult<()> {
    let py = environ.py();
    if let Some(host) = request.unnamed_host() {
        environ.set_item(intern!(py, "HTTP_HOST"), latin1(py, host)?)?;
    }
    for field in request.headers {
        let Some(key) = key(py, field.name)? else { continue };
        let value = latin1(py, field.value)?;
        // The dictionary itself checks whether a name occurs for the first time, with a single lookup.
        let before = environ.len();
        let kept = set_default(environ, &key, &value)?;
        if environ.len() == before {
            let separator = if field.name.eq_ignore_ascii_case("cookie") { "; " } else { "," };
            let joined =
                format!("{}{separator}{}", kept.cast::<PyString>()?.to_str()?, value.to_str()?);
            environ.set_item(&key, fallible::text(py, &joined)?)?;
        }
    }
    Ok(())
}

/// `dict.setdefault`
fn set_default<'py>(
    environ: &Bound<'py, PyDict>,
    key: &Bound<'py, PyString>,
    value: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(kept) = environ.get_item(key)? {
        return Ok(kept);
    }
    environ.set_item(key, value)?;
    Ok(value.clone().into_any())
}

type Table = [Option<(&'static str, Py<PyString>)>; PLACES];

/// The variable's name for a field; those of common fields are made once. `None` for fields that are dropped.
fn key<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyString>>> {
    static TABLE: PyOnceLock<Table> = PyOnceLock::new();
    let table = TABLE.get_or_try_init(py, || {
        let mut table: Table = [const { None }; PLACES];
        for known in KNOWN {
            if let Some(variable) = variable(known) {
                let variable = fallible::interned(py, &variable)?.unbind();
                table[field_names::place(known.as_bytes())].get_or_insert((known, variable));
            }
        }
        Ok::<_, PyErr>(table)
    })?;
    if let Some((known, object)) = &table[field_names::place(name.as_bytes())]
        && known.eq_ignore_ascii_case(name)
    {
        return Ok(Some(object.bind(py).clone()));
    }
    match variable(name) {
        Some(variable) => Ok(Some(latin1(py, variable.as_bytes())?)),
        None => Ok(None),
    }
}

fn variable(name: &str) -> Option<String> {
    if name.contains('_')
        || name.eq_ignore_ascii_case("proxy")
        || name.eq_ignore_ascii_case("content-length")
    {
        return None;
    }
    if name.eq_ignore_ascii_case("content-type") {
        return Some("CONTENT_TYPE".to_owned());
    }
    Some(format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_")))
}

/// Keeps what the access log needs, in the format of an ASGI scope.
fn keep_for_log(
    exchange: &Bound<'_, Exchange>,
    request: &Request<'_, '_>,
    client: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = exchange.py();
    let scope = fallible::dict(py)?;
    scope.set_item(intern!(py, "client"), client)?;
    scope.set_item(intern!(py, "method"), method(py, request.method)?)?;
    scope.set_item(intern!(py, "http_version"), request.version.name())?;
    scope.set_item(intern!(py, "headers"), headers(py, request)?)?;
    exchange.get().state.with(py, |s| s.scope = Some(scope.into_any().unbind()));
    Ok(())
}
