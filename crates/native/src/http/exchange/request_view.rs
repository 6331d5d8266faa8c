//! What programs see of a request: its method, path and fields, both ends, the client behind a proxy.

use super::field_names;
use super::service::Service;
use crate::ffi::fallible;
use crate::imports;
use oneloop_http1::{Header, Request};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

type End<'py> = Bound<'py, PyAny>;

/// Both ends of a connection.
pub struct Ends<'a, 'py> {
    /// (host, port); None for a client on a Unix socket.
    pub client: End<'py>,
    /// (host, port); (path, None) on a Unix socket.
    pub server: End<'py>,
    /// With TLS: returns the parameters that its handshake has negotiated.
    pub tls: Option<&'a dyn Fn() -> PyResult<Bound<'py, PyDict>>>,
}

/// The forwarding fields of a trusted proxy.
#[derive(Default)]
pub struct Forwarded<'py> {
    /// (host, port)
    pub client: Option<End<'py>>,
    pub scheme: Option<End<'py>>,
}

/// The fields with the addresses of the client and of further proxies, and with the client's scheme.
const NAMES: [&str; 2] = ["x-forwarded-for", "x-forwarded-proto"];

/// The client behind a trusted proxy, if its fields name one. `client`: the connection's own.
pub fn forwarded<'py>(
    service: &Service,
    client: &Bound<'py, PyAny>,
    request: &Request<'_, '_>,
) -> PyResult<Forwarded<'py>> {
    let py = client.py();
    let Some(trust) = &service.options.trust else { return Ok(Forwarded::default()) };
    let is_any =
        |field: &Header<'_>| NAMES.iter().any(|name| field.name.eq_ignore_ascii_case(name));
    if !request.headers.iter().any(is_any) {
        return Ok(Forwarded::default());
    }
    let values = |name: &str| -> PyResult<Vec<Bound<'_, PyBytes>>> {
        let named = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| fallible::bytes(py, field.value)).collect()
    };
    let [hosts, schemes] = NAMES.map(values);
    let (hosts, schemes) = (hosts?, schemes?);
    let peer = match client.cast::<PyTuple>() {
        Ok(client) => client.get_item(0)?,
        Err(_) => fallible::text(py, "")?.into_any(),
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
pub fn method<'py>(py: Python<'py>, method: &str) -> PyResult<Bound<'py, PyString>> {
    Ok(match method {
        "GET" => intern!(py, "GET").clone(),
        "POST" => intern!(py, "POST").clone(),
        "HEAD" => intern!(py, "HEAD").clone(),
        "PUT" => intern!(py, "PUT").clone(),
        "DELETE" => intern!(py, "DELETE").clone(),
        "PATCH" => intern!(py, "PATCH").clone(),
        "OPTIONS" => intern!(py, "OPTIONS").clone(),
        other => fallible::text(py, other)?,
    })
}

pub fn headers<'py>(py: Python<'py>, request: &Request<'_, '_>) -> PyResult<Bound<'py, PyList>> {
    let mut fields = Vec::with_capacity(request.headers.len() + 1);
    if let Some(host) = request.unnamed_host() {
        let pair =
            [fallible::bytes(py, b"host")?.into_any(), fallible::bytes(py, host)?.into_any()];
        fields.push(fallible::tuple(py, pair)?.into_any());
    }
    for field in request.headers {
        let name = field_names::lower(py, field.name)?;
        let value = fallible::bytes(py, field.value)?;
        fields.push(fallible::tuple(py, [name.into_any(), value.into_any()])?.into_any());
    }
    fallible::list_of(py, fields.into_iter())
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
