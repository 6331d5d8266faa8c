//! `--redirect-https`: requests that did not come by TLS, here or at a trusted proxy, are sent to the same URL with https.

use super::file_response::send_reply;
use super::options::Interface;
use crate::http::exchange::contract::{Exchange, Found};
use crate::http::exchange::reply::Reply;
use oneloop_http1::{Request, Target};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The port of https in URLs that name none.
const USUAL_PORT: u16 = 443;

/// Decides later between a redirect and what was found, because only the application's view knows the scheme.
pub fn unless_secure(
    found: Found,
    request: &Request<'_, '_>,
    port: u16,
    interface: Interface,
) -> Found {
    let reply = redirect(request, port);
    Found::Later(Box::new(move |exchange, view| {
        if let Some(view) = &view
            && is_plain(view, interface)?
        {
            return send_reply(exchange, reply);
        }
        match (found, view) {
            (Found::Reply(other), _) => send_reply(exchange, other),
            (Found::Later(look), view) => look(exchange, view),
            (Found::Nothing, Some(view)) => exchange.get().application.calls.start(exchange, &view),
            (Found::Nothing, None) => send_reply(exchange, Reply::plain(404, "")),
        }
    }))
}

/// Refuses a WebSocket that did not come by TLS: its client would not follow a redirect. Returns whether it was one.
pub fn refuse_tunnel(
    exchange: &Bound<'_, Exchange>,
    view: &Bound<'_, PyDict>,
    interface: Interface,
) -> PyResult<bool> {
    if exchange.get().tunnel.is_none() || !is_plain(view, interface)? {
        return Ok(false);
    }
    exchange.get().service.get().end_request(exchange.py());
    Exchange::respond(exchange, 403, "Use wss: this server has no WebSockets without TLS.")?;
    Ok(true)
}

/// Whether the request came without TLS.
fn is_plain(view: &Bound<'_, PyDict>, interface: Interface) -> PyResult<bool> {
    let py = view.py();
    let name = match interface {
        Interface::Asgi => intern!(py, "scheme"),
        Interface::Wsgi => intern!(py, "wsgi.url_scheme"),
    };
    let Some(scheme) = view.get_item(name)? else { return Ok(false) };
    let scheme: String = scheme.extract()?;
    Ok(matches!(scheme.as_str(), "http" | "ws"))
}

fn redirect(request: &Request<'_, '_>, port: u16) -> Reply {
    // The parser has checked that it is visible ASCII.
    let host = String::from_utf8_lossy(without_port(request.host().unwrap_or_default()));
    if host.is_empty() {
        return Reply::plain(400, "");
    }
    let path = if request.target == Target::Asterisk { b"/" } else { request.path };
    let mut location = format!("location: https://{host}");
    if port != USUAL_PORT {
        location.push(':');
        location.push_str(&port.to_string());
    }
    location.push_str(&String::from_utf8_lossy(path));
    if !request.query.is_empty() {
        location.push('?');
        location.push_str(&String::from_utf8_lossy(request.query));
    }
    location.push_str("\r\n");
    Reply::plain(308, &location)
}

/// The host of an authority; an IPv6 address with its brackets.
fn without_port(authority: &[u8]) -> &[u8] {
    match memchr::memrchr(b':', authority) {
        Some(colon) if !authority[colon..].contains(&b']') => &authority[..colon],
        _ => authority,
    }
}
