//! Heads become requests, and exchanges: RFC 9113 section 8.3.
//!
//! nghttp2 has checked names, values, the pseudo fields, and that nothing is there that HTTP/2 forbids.

use super::connection::{Http2Connection, Http2Stream, Life, OpenStream};
use crate::ffi::Object;
use crate::http::connection::open_connections::Came;
use crate::http::exchange::access_record::{Malformed, record_malformed};
use crate::http::exchange::contract::{Exchange, Found, Tunnel};
use crate::http::exchange::error_log;
use crate::http::exchange::request_view::Ends;
use oneloop_http1::authority::is_host;
use oneloop_http1::{Framing, Header, Parts, Refusal, Request, Target, Version, split_target};
use oneloop_http2::{Code, FieldList};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// RFC 9110 section 9.1: 501 for methods longer than any that a server implements.
const LONGEST_METHOD_BYTES: usize = 32;

/// A request that is about to be served.
pub struct NewRequest<'py> {
    pub id: i32,
    pub exchange: Bound<'py, Exchange>,
    pub found: Found,
    /// The application's view of it. `None`: only the access log needs it, and there is none.
    pub view: Option<Bound<'py, PyDict>>,
    /// Why it is not served.
    pub refusal: Option<Refusal>,
}

/// What follows the head of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Nothing: the client has ended the stream.
    Ended,
    /// Nothing but the end of the stream.
    Empty,
    Coming,
}

/// The head of a request, in parts.
#[derive(Default)]
struct Head<'a> {
    method: &'a str,
    path: &'a [u8],
    authority: Option<&'a [u8]>,
    protocol: Option<&'a [u8]>,
    fields: Vec<Header<'a>>,
    length: Option<u64>,
    expects_continue: bool,
    has_priority: bool,
}

/// Fields of a cookie may be sent apart, for better compression: RFC 9113 section 8.2.3.
fn joined_cookies(fields: &FieldList) -> Option<Vec<u8>> {
    let cookies: Vec<_> =
        fields.iter().filter(|(name, _)| *name == b"cookie").map(|(_, value)| value).collect();
    (cookies.len() > 1).then(|| cookies.join(&b"; "[..]))
}

fn text(bytes: &[u8]) -> &str {
    // nghttp2 lets only ASCII pass.
    std::str::from_utf8(bytes).unwrap_or_default()
}

impl<'a> Head<'a> {
    fn read(list: &'a FieldList, cookies: Option<&'a [u8]>) -> Self {
        let mut head = Self { fields: Vec::with_capacity(list.len() + 1), ..Self::default() };
        let mut host = None;
        let mut has_cookie = false;
        for (name, value) in list.iter() {
            match name {
                b":method" => head.method = text(value),
                b":path" => head.path = value,
                b":authority" => head.authority = Some(value),
                b":protocol" => head.protocol = Some(value),
                [b':', ..] => {}
                b"host" => host = Some(value),
                b"cookie" => {
                    if !std::mem::replace(&mut has_cookie, true) {
                        let value = cookies.unwrap_or(value);
                        head.fields.push(Header { name: "cookie", value });
                    }
                }
                _ => {
                    match name {
                        b"content-length" => head.length = text(value).parse().ok(),
                        b"expect" => {
                            head.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
                        }
                        b"priority" => head.has_priority = true,
                        _ => {}
                    }
                    head.fields.push(Header { name: text(name), value });
                }
            }
        }
        // As in HTTP/1.1, `host` is the name that the client has asked for.
        if let Some(value) = head.authority.or(host) {
            head.fields.insert(0, Header { name: "host", value });
        }
        head
    }

    /// What cannot be served, whatever the application.
    fn refusal(&self, fields: &FieldList) -> Option<Refusal> {
        if fields.is_cut {
            return Some(Refusal::new(431, "the head of the request is too long"));
        }
        if self.method.len() > LONGEST_METHOD_BYTES {
            return Some(Refusal::new(501, "the method is too long"));
        }
        // As in HTTP/1.1: nghttp2 checks the characters only.
        let has_bad_host = |field: &Header<'_>| field.name == "host" && !is_host(field.value);
        if self.fields.first().is_some_and(has_bad_host) {
            return Some(Refusal::new(400, "Host is malformed"));
        }
        None
    }

    fn parts(&self) -> Result<Parts<'a>, Refusal> {
        if self.method != "CONNECT" {
            return split_target(self.method, self.path);
        }
        if self.protocol.is_some() {
            // RFC 8441: the path is that of a request.
            return split_target("GET", self.path);
        }
        let authority = self.authority.unwrap_or_default();
        let target = Target::Authority { authority };
        Ok(Parts { target, path: authority, query: b"" })
    }
}

impl Http2Connection {
    /// Takes a head. `None` if it is refused without a response.
    pub fn open<'py>(
        slf: &Bound<'py, Self>,
        id: i32,
        list: &FieldList,
        ends: bool,
    ) -> PyResult<Option<NewRequest<'py>>> {
        let py = slf.py();
        let this = slf.get();
        this.forget_deadline(py);
        if this.state.with(py, |s| matches!(s.life, Life::Closed | Life::Lingering)) {
            return Ok(None);
        }
        let cookies = joined_cookies(list);
        let head = Head::read(list, cookies.as_deref());
        let mut refusal = head.refusal(list);
        let parts = head.parts().unwrap_or_else(|found| {
            refusal.get_or_insert(found);
            Parts { target: Target::Origin, path: b"/", query: b"" }
        });
        let body = match head.length {
            _ if ends => Body::Ended,
            Some(0) => Body::Empty,
            _ => Body::Coming,
        };
        let request = Request {
            method: head.method,
            path: parts.path,
            query: parts.query,
            target: parts.target,
            target_text: if head.path.is_empty() { parts.path } else { head.path },
            version: Version::Http2,
            headers: &head.fields,
            framing: match head.length {
                Some(length) => Framing::Length(length),
                None if ends => Framing::None,
                None => Framing::Chunked,
            },
            keeps_alive: true,
            expects_continue: head.expects_continue && body == Body::Coming,
            upgrade: head.protocol.filter(|_| head.method == "CONNECT"),
            len: 0,
        };
        if !head.has_priority {
            this.share(py, id);
        }
        Self::serve(slf, id, &request, body, refusal).map(Some)
    }

    /// A head for which the connection has ended: nobody gets a response, and the access log has a line.
    pub fn record_refused(slf: &Bound<'_, Self>, fields: &FieldList) -> PyResult<()> {
        let client = Self::ends(slf)?.0;
        let head = Head::read(fields, None);
        let (method, target) = (head.method, head.path);
        record_malformed(slf.get().service.get(), Malformed { client, method, target })
    }

    /// Streams whose client has named no priority take turns.
    fn share(&self, py: Python<'_>, id: i32) {
        let shared =
            self.state.with(py, |s| s.session.as_mut().map(|session| session.take_turns(id)));
        debug_assert!(!matches!(shared, Some(Err(_))), "{shared:?}");
    }

    fn serve<'py>(
        slf: &Bound<'py, Self>,
        id: i32,
        request: &Request<'_, '_>,
        body: Body,
        refusal: Option<Refusal>,
    ) -> PyResult<NewRequest<'py>> {
        let py = slf.py();
        let this = slf.get();
        let application = &this.open.get().application;
        let mut refusal = refusal.or_else(|| this.open.get().turned_away(py, request));
        let mut tunnel = None;
        if refusal.is_none() && request.upgrade.is_some() {
            match application.calls.tunnel(application.object.bind(py), request) {
                // Nothing can come through it.
                Ok(Some(_)) if body == Body::Ended => {
                    refusal =
                        Some(Refusal::new(400, "the client has ended its side of the tunnel"));
                }
                Ok(Some(found)) => tunnel = Some(found),
                Ok(None) => refusal = Some(Refusal::new(501, "the protocol is not supported")),
                Err(refused) => refusal = Some(refused),
            }
        }
        let found = match (&refusal, &tunnel) {
            (None, None) => application.calls.find(application.object.bind(py), request)?,
            _ => Found::Nothing,
        };
        let is_tunnel = tunnel.is_some();
        let (exchange, stream) = Self::new_exchange(slf, id, request, body, tunnel)?;
        let needs_view = match found {
            Found::Reply(_) => this.service.get().options.on_response.is_some(),
            Found::Nothing if refusal.is_some() => this.service.get().options.on_response.is_some(),
            _ => true,
        };
        let view = if needs_view { Some(Self::view(slf, &exchange, request)?) } else { None };
        let kept = OpenStream {
            exchange: Object::new(exchange.clone()),
            stream: Object::new(stream.clone()),
        };
        let old = this.state.with(py, |s| s.streams.insert(id, kept));
        drop(old);
        if body == Body::Coming && !is_tunnel && !request.expects_continue {
            Http2Stream::wait_for_body(&stream);
        }
        if let Some(refusal) = &refusal {
            error_log::refused(&Self::ends(slf)?.0, refusal.status, refusal.reason)?;
        }
        this.service.get().begin_request(py);
        Ok(NewRequest { id, exchange, found, view, refusal })
    }

    fn view<'py>(
        slf: &Bound<'py, Self>,
        exchange: &Bound<'py, Exchange>,
        request: &Request<'_, '_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (client, server) = Self::ends(slf)?;
        let tls = || Self::tls(slf);
        let is_tls = slf.get().state.with(slf.py(), |s| s.is_tls);
        let ends = Ends { client, server, tls: is_tls.then_some(&tls as _) };
        slf.get().open.get().application.calls.view(exchange, request, &ends)
    }

    fn new_exchange<'py>(
        slf: &Bound<'py, Self>,
        id: i32,
        request: &Request<'_, '_>,
        body: Body,
        tunnel: Option<Box<dyn Tunnel>>,
    ) -> PyResult<(Bound<'py, Exchange>, Bound<'py, Http2Stream>)> {
        let stream = Http2Stream::make(slf, id, body == Body::Ended)?;
        let came = Came { has_body: body == Body::Coming, keeps_alive: true, tunnel };
        let link = Http2Stream::link(&stream);
        let exchange = slf.get().open.get().begin_exchange(slf.py(), link, request, came)?;
        Ok((exchange, stream))
    }

    /// Ends a stream at once.
    pub fn reset(slf: &Bound<'_, Self>, id: i32, code: Code) -> PyResult<()> {
        let reset = slf.get().state.with(slf.py(), |s| {
            s.session.as_mut().map_or(Ok(()), |session| session.reset(id, code))
        });
        Self::checked(reset)?;
        Self::send_soon(slf);
        Ok(())
    }
}
