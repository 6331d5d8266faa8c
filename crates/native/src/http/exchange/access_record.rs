//! The record of a response: its line in the access log, and its place in the counts.
//!
//! Each response is recorded once, and only here, in whichever way it ends:
//!
//! | end                                                    | recorded by             | status    | complete |
//! |--------------------------------------------------------|-------------------------|-----------|----------|
//! | its last part was written, and nothing waits           | `Exchange::complete`    | its own   | yes      |
//! | what waited for the client was sent                    | its `Carrier`           | its own   | yes      |
//! | it is the server's own                                 | `respond`, `refuse`     | its own   | yes      |
//! | a WebSocket was opened; its messages are no response   | `WebSocket::accept`     | 101       | yes      |
//! | the client is gone, or it was broken off               | `Exchange::disconnect`  | its own   | no       |
//! | the same, before any of it was sent                    | `Exchange::disconnect`  | 499       | no       |
//! | HTTP/1: it was broken off, and a part of it waits      | the connection's end    | its own   | no       |
//! | nghttp2 has refused the request's head                 | `record_malformed`      | 400       | no       |

use super::contract::Exchange;
use super::error_log;
use super::request_view::{forwarded, headers, method};
use super::service::Service;
use crate::ffi::fallible;
use crate::ffi::values::ToPython;
use oneloop_http1::Limits;
use oneloop_http1::characters::is_token;
use oneloop_http1::limits::MOST_HEADERS;
use oneloop_http1::{Request, parse_request};
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::mem::MaybeUninit;

/// The client has closed the connection before a response began. Nobody gets this status; nginx logs the same.
const CLIENT_GONE: u16 = 499;

/// What a record says of the request.
struct Asked<'py> {
    client: Bound<'py, PyAny>,
    /// This and the next two are empty if the request is not known: its head was malformed, or is incomplete.
    method: Bound<'py, PyAny>,
    target: Bound<'py, PyAny>,
    version: Bound<'py, PyAny>,
    headers: Bound<'py, PyAny>,
}

/// What a record says of the response.
struct Given {
    status: u16,
    /// The length of the body that was sent.
    sent_bytes: u64,
    duration_s: f64,
    is_complete: bool,
}

impl Exchange {
    /// Keeps the scope for the record.
    pub fn keep_scope(&self, scope: &Bound<'_, PyDict>) {
        let kept = scope.clone().into_any().unbind();
        self.state.with(scope.py(), |s| s.scope = Some(kept));
    }

    /// Records the response. Does nothing if it is recorded already.
    pub fn record(&self, py: Python<'_>, is_complete: bool) -> PyResult<()> {
        if self.state.with(py, |s| std::mem::replace(&mut s.is_recorded, true)) {
            return Ok(());
        }
        let service = self.service.get();
        if service.options.on_response.is_some() {
            self.tell(py, service, is_complete)?;
        }
        service.count_response(py)
    }

    fn tell(&self, py: Python<'_>, service: &Service, is_complete: bool) -> PyResult<()> {
        let (target, scope, status, sent_bytes, began_ns) = self.state.with(py, |s| {
            let is_unsent = s.response.is_unsent();
            let status = if is_unsent && !is_complete { CLIENT_GONE } else { s.status };
            (s.target.take(), s.scope.take(), status, s.sent_bytes, s.began_ns)
        });
        let (Some(target), Some(scope)) = (target, scope) else { return Ok(()) };
        let lost_bytes = if is_complete { 0 } else { self.carrier.calls.lost_bytes(py, self) };
        let sent_bytes = sent_bytes.saturating_sub(lost_bytes as u64);
        let duration_s = (service.owner.get().now_ns(py) - began_ns) as f64 / 1e9;
        let given = Given { status, sent_bytes, duration_s, is_complete };
        service.tell(py, || Asked::of_scope(scope.bind(py), target.into_bound(py)), &given)
    }
}

/// A request that got no exchange.
pub struct Refused<'a, F> {
    /// Begins with the request's head.
    pub input: &'a [u8],
    pub limits: &'a Limits,
    /// Returns the connection's client.
    pub client: F,
    pub status: u16,
    pub sent_bytes: u64,
}

/// Records the server's response to a request that got no exchange.
pub fn record_refused<'py, F: FnOnce() -> PyResult<Bound<'py, PyAny>>>(
    py: Python<'py>,
    service: &Service,
    refused: Refused<'_, F>,
) -> PyResult<()> {
    let Refused { input, limits, client, status, sent_bytes } = refused;
    // The duration begins with the end of the head, where a request is refused at the latest.
    let given = Given { status, sent_bytes, duration_s: 0.0, is_complete: true };
    let told = service.tell(py, || Asked::of_input(service, &client()?, input, limits), &given);
    told.and(service.count_response(py))
}

/// A request of HTTP/2 whose head is wrong: what could be read of it.
pub struct Malformed<'a, 'py> {
    pub client: Bound<'py, PyAny>,
    pub method: &'a str,
    pub target: &'a [u8],
}

/// Records it with the status that HTTP/1.1 has for it; its connection was ended instead.
pub fn record_malformed(service: &Service, found: Malformed<'_, '_>) -> PyResult<()> {
    let py = found.client.py();
    let given = Given { status: 400, sent_bytes: 0, duration_s: 0.0, is_complete: false };
    let asked = || {
        // Without both, there is no line to show, as with a request line of HTTP/1.1 that is wrong.
        let is_known = is_token(found.method.as_bytes()) && !found.target.is_empty();
        let (name, target, version) =
            if is_known { (found.method, found.target, "2") } else { ("", &b""[..], "") };
        Ok(Asked {
            client: found.client,
            method: method(py, name)?.into_any(),
            target: fallible::bytes(py, target)?.into_any(),
            version: version.to_python(py)?,
            headers: fallible::list(py)?.into_any(),
        })
    };
    service.tell(py, asked, &given).and(service.count_response(py))
}

impl Service {
    /// Calls `on_response`. Its errors are not errors of the application, and the connection continues.
    fn tell<'py>(
        &self,
        py: Python<'py>,
        asked: impl FnOnce() -> PyResult<Asked<'py>>,
        given: &Given,
    ) -> PyResult<()> {
        let Some(on_response) = &self.options.on_response else { return Ok(()) };
        let logged = asked().and_then(|asked| {
            let arguments = (
                asked.client,
                asked.method,
                asked.target,
                asked.version,
                given.status,
                given.sent_bytes,
                given.duration_s,
                asked.headers,
                given.is_complete,
            );
            on_response.call1(py, arguments)
        });
        match logged {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                error_log::log(py, "A response could not be logged or counted", Some(&error))
            }
            logged => logged.map(drop),
        }
    }
}

impl<'py> Asked<'py> {
    /// The application may have changed its scope; so may a middleware, which knows the client behind a proxy.
    fn of_scope(scope: &Bound<'py, PyAny>, target: Bound<'py, PyBytes>) -> PyResult<Self> {
        let py = scope.py();
        // A WebSocket's scope has no method: its handshake is a GET.
        let get = intern!(py, "GET");
        Ok(Self {
            client: scope.get_item(intern!(py, "client"))?,
            method: scope.call_method1(intern!(py, "get"), (intern!(py, "method"), get))?,
            target: target.into_any(),
            version: scope.get_item(intern!(py, "http_version"))?,
            headers: scope.get_item(intern!(py, "headers"))?,
        })
    }

    /// Parses the input once more: this is done only for requests that are refused.
    #[inline(never)]
    fn of_input(
        service: &Service,
        client: &Bound<'py, PyAny>,
        input: &[u8],
        limits: &Limits,
    ) -> PyResult<Self> {
        let py = client.py();
        let mut fields = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        if let Ok(Some(request)) = parse_request(input, &mut fields, limits) {
            return Self::of_request(service, client, &request);
        }
        let (name, target, version) = first_line(input).unwrap_or_default();
        Ok(Self {
            client: client.clone(),
            method: method(py, name)?.into_any(),
            target: fallible::bytes(py, target)?.into_any(),
            version: version.to_python(py)?,
            headers: fallible::list(py)?.into_any(),
        })
    }

    fn of_request(
        service: &Service,
        client: &Bound<'py, PyAny>,
        request: &Request<'_, '_>,
    ) -> PyResult<Self> {
        let py = client.py();
        let behind = forwarded(service, client, request)?.client;
        Ok(Self {
            client: behind.unwrap_or_else(|| client.clone()),
            method: method(py, request.method)?.into_any(),
            target: fallible::bytes(py, request.target_text)?.into_any(),
            version: request.version.name().to_python(py)?,
            headers: headers(py, request)?.into_any(),
        })
    }
}

/// Method, target and version of a request whose head is wrong elsewhere.
fn first_line(input: &[u8]) -> Option<(&str, &[u8], &str)> {
    let start = input.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let input = &input[start..];
    let line = input[..memchr::memchr(b'\n', input)?].trim_ascii_end();
    let mut parts = line.split(|byte| *byte == b' ');
    let (method, target, version) = (parts.next()?, parts.next()?, parts.next()?);
    let version = std::str::from_utf8(version.strip_prefix(b"HTTP/")?).ok()?;
    let is_plain = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if parts.next().is_some() || !is_token(method) || target.is_empty() || !is_plain {
        return None;
    }
    Some((std::str::from_utf8(method).ok()?, target, version))
}
