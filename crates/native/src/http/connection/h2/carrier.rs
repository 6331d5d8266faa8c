//! How an exchange calls its stream: `Carrier` in HTTP/2.

use super::connection::{Http2Connection, Http2Stream};
use super::parts::{self, DATA, END, HEAD};
use super::stream::HIGH_BYTES;
use crate::ffi::bytes::SharedBytes;
use crate::ffi::{Link, Object};
use crate::http::exchange::contract::{Carrier, Exchange};
use crate::http::exchange::response_state::{Framed, Framing, Response};
use oneloop_http2::{Chunk, Code};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Bodies from this length on are sent from their own memory instead of being copied.
const LONG_BODY: usize = 512;
/// How long an application may go on with a response that has no body.
const MOMENT_NS: u64 = 200_000_000;

pub struct Calls;

impl Http2Stream {
    pub fn link(slf: &Bound<'_, Self>) -> Link<dyn Carrier> {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }

    /// Sends a whole response by the server.
    pub fn send_text(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, Exchange>,
        status: u16,
        text: &str,
    ) -> PyResult<()> {
        let py = slf.py();
        let mut lines = Vec::with_capacity(256);
        exchange.get().service.get().write_defaults(py, &mut lines);
        let len = text.len();
        lines.extend_from_slice(
            format!("content-type: text/plain; charset=utf-8\r\ncontent-length: {len}\r\n")
                .as_bytes(),
        );
        let is_head = exchange.get().is_head;
        Self::respond(slf, status, &lines, is_head)?;
        if is_head { Ok(()) } else { Self::push(slf, Chunk::Copied(text.into()), true) }
    }

    /// Sends the head of a response.
    pub fn respond(slf: &Bound<'_, Self>, status: u16, lines: &[u8], ends: bool) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let lines = without_connection(lines);
        let sent = this.connection.get().state.with(py, |s| match &mut s.session {
            Some(session) if s.streams.contains_key(&this.id) => {
                session.respond(this.id, status, &lines, ends)
            }
            _ => Ok(()),
        });
        Http2Connection::checked(sent)?;
        Http2Connection::send_soon(this.connection.bind(py));
        Ok(())
    }

    /// Queues a part of the body.
    pub fn push(slf: &Bound<'_, Self>, chunk: Chunk<SharedBytes>, ends: bool) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let pushed = this.connection.get().state.with(py, |s| match &mut s.session {
            Some(session) => {
                let pushed = session.push(this.id, chunk, ends);
                let queued_bytes = session.unsent_bytes(this.id).unwrap_or(0);
                let is_new = this.state.with(py, |stream| {
                    stream.queued_bytes = queued_bytes;
                    queued_bytes > 0 && !std::mem::replace(&mut stream.is_listed, true)
                });
                if is_new {
                    s.queued.push(this.id);
                }
                (pushed, session.take_used())
            }
            None => (Ok(false), Vec::new()),
        });
        let (pushed, used) = pushed;
        drop(used);
        Http2Connection::checked(pushed.map(drop))?;
        Http2Connection::send_soon(this.connection.bind(py));
        Ok(())
    }

    pub fn push_end(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::push(slf, Chunk::Copied(Vec::new()), true)
    }

    /// The client has to read before more is sent. From any thread.
    pub fn is_paused(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.queued_bytes > HIGH_BYTES && !s.is_lost)
    }
}

/// Leaves out what is about an HTTP/1.1 connection: RFC 9113 section 8.2.2.
fn without_connection(lines: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    const NAMES: [&[u8]; 5] =
        [b"connection:", b"keep-alive:", b"proxy-connection:", b"transfer-encoding:", b"upgrade:"];
    let is_forbidden = |line: &[u8]| {
        matches!(line.first(), Some(b'c' | b'k' | b'p' | b't' | b'u'))
            && NAMES.iter().any(|name| line.starts_with(name))
    };
    let mut all = lines.split_inclusive(|byte| *byte == b'\n');
    if !all.clone().any(is_forbidden) {
        return lines.into();
    }
    let kept: Vec<_> = all.by_ref().filter(|line| !is_forbidden(line)).collect();
    kept.concat().into()
}

#[inline]
pub fn stream<'a, 'py>(exchange: &'a Bound<'py, Exchange>) -> &'a Bound<'py, Http2Stream> {
    stream_of(exchange.py(), exchange.get())
}

#[inline]
pub fn stream_of<'a, 'py>(py: Python<'py>, exchange: &'a Exchange) -> &'a Bound<'py, Http2Stream> {
    let object = exchange.carrier.object.bind(py);
    object.cast_exact().expect("these calls are linked with nothing but an Http2Stream")
}

impl Carrier for Calls {
    /// The status is sent as a pseudo field; the reason phrase has no place.
    fn begin_head(&self, _head: &mut Vec<u8>, _status: u16, _reason: Option<&[u8]>) {}

    fn send_head(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let (status, head, ends) = exchange.get().state.with(exchange.py(), |s| {
            s.response = Response::Streaming;
            (s.status, std::mem::take(&mut s.head), s.framing == Framing::NoBody)
        });
        Http2Stream::respond(stream(exchange), status, &head, ends)
    }

    fn send_early_hints(&self, exchange: &Bound<'_, Exchange>, fields: &[u8]) -> PyResult<()> {
        inform(exchange, 103, fields)
    }

    fn frame(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        data: &[u8],
        more: bool,
    ) -> PyResult<Framed> {
        let (head, ends, is_bodyless) = exchange.state.with(py, |s| {
            s.count_part(data.len(), more)?;
            let ends = !more && !s.has_trailers;
            let is_bodyless = s.framing == Framing::NoBody;
            let is_new = s.response == Response::Started;
            if is_new {
                if s.framing == Framing::Unknown {
                    s.framing = Framing::Marked;
                }
                s.response = Response::Streaming;
            }
            if !more && s.has_trailers {
                s.response = Response::Trailing;
            }
            let head = is_new.then(|| std::mem::take(&mut s.head));
            PyResult::Ok((head, ends, is_bodyless))
        })?;
        let data = if is_bodyless { &[] } else { data };
        let is_beside = data.len() >= LONG_BODY;
        let mut out = exchange.service.get().spare(py);
        if let Some(head) = head {
            // The response ends with its head if it has no data.
            let is_all = is_bodyless || (ends && data.is_empty());
            parts::begin(&mut out, if is_all { HEAD | END } else { HEAD }, head.len());
            out.extend_from_slice(&head);
            exchange.service.get().keep_spare(py, head);
            if is_all {
                return Ok(Framed { out, tail: None, ends, body_bytes: 0 });
            }
        }
        if !is_bodyless {
            parts::begin(&mut out, if ends { DATA | END } else { DATA }, data.len());
            if !is_beside {
                out.extend_from_slice(data);
            }
        }
        let tail = is_beside.then_some(&b""[..]);
        Ok(Framed { out, tail, ends, body_bytes: data.len() as u64 })
    }

    fn send_body(
        &self,
        exchange: &Bound<'_, Exchange>,
        framed: &Framed,
        body: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        let stream = stream(exchange);
        let mut list = &framed.out[..];
        while let Some(part) = parts::next(&mut list) {
            match part.bytes {
                Some(lines) if part.is_head => {
                    let status = exchange.get().state.with(exchange.py(), |s| s.status);
                    Http2Stream::respond(stream, status, lines, part.ends)?;
                }
                Some(bytes) => Http2Stream::push(stream, Chunk::Copied(bytes.into()), part.ends)?,
                None => {
                    let shared = SharedBytes::new(body);
                    Http2Stream::push(stream, Chunk::Shared(shared), part.ends)?;
                }
            }
        }
        Ok(())
    }

    fn send_trailers(
        &self,
        exchange: &Bound<'_, Exchange>,
        fields: Vec<u8>,
        ends: bool,
    ) -> PyResult<()> {
        let py = exchange.py();
        let stream = stream(exchange);
        let lines = stream.get().state.with(py, |s| {
            s.trailers.extend_from_slice(&fields);
            ends.then(|| std::mem::take(&mut s.trailers))
        });
        let Some(lines) = lines else { return Ok(()) };
        let lines = without_connection(&lines).into_owned();
        let connection = stream.get().connection.bind(py);
        let pushed = connection.get().state.with(py, |s| {
            let session = s.session.as_mut();
            session.map_or(Ok(false), |session| session.push_trailers(stream.get().id, lines))
        });
        Http2Connection::checked(pushed.map(drop))?;
        Http2Connection::send_soon(connection);
        Ok(())
    }

    fn send_text(&self, exchange: &Bound<'_, Exchange>, status: u16, text: &str) -> PyResult<()> {
        Http2Stream::send_text(stream(exchange), exchange, status, text)
    }

    fn records_later(&self, exchange: &Bound<'_, Exchange>) -> bool {
        stream(exchange).get().state.with(exchange.py(), |s| s.queued_bytes > 0 && !s.is_lost)
    }

    fn lost_bytes(&self, py: Python<'_>, exchange: &Exchange) -> usize {
        stream_of(py, exchange).get().state.with(py, |s| s.lost_bytes)
    }

    /// The stream ends when all of it is sent: `sending`.
    fn end(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let stream = stream(exchange);
        stream.get().state.with(exchange.py(), |s| s.body_ns = u64::MAX);
        Http2Stream::give_back(stream)
    }

    fn abort(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = exchange.py();
        let stream = stream(exchange);
        if stream.get().state.with(py, |s| s.is_lost) {
            return exchange.get().disconnect(py);
        }
        // What was sent before comes first. What the client's windows have no room for is lost: then it is recorded.
        let connection = stream.get().connection.bind(py);
        let sent = Http2Connection::send_queued(connection);
        let notified = Http2Stream::lose(stream).and(exchange.get().disconnect(py));
        let reset = Http2Connection::reset(connection, stream.get().id, Code::INTERNAL_ERROR);
        sent.and(notified).and(reset)
    }

    fn is_paused(&self, py: Python<'_>, exchange: &Exchange) -> bool {
        stream_of(py, exchange).get().is_paused(py)
    }

    fn with_waiters(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        change: &mut dyn FnMut(&mut Vec<Py<PyAny>>, bool),
    ) {
        stream_of(py, exchange).get().state.with(py, |s| {
            let is_paused = s.queued_bytes > HIGH_BYTES && !s.is_lost;
            change(&mut s.drain_waiters, is_paused);
        });
    }

    fn is_ending(&self, exchange: &Bound<'_, Exchange>) -> PyResult<bool> {
        Ok(stream(exchange).get().state.with(exchange.py(), |s| s.is_lost))
    }

    fn ask_for_body(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        Http2Stream::wait_for_body(stream(exchange));
        inform(exchange, 100, b"")
    }

    fn is_reading_paused(&self, py: Python<'_>, exchange: &Exchange) -> bool {
        stream_of(py, exchange).get().state.with(py, |s| s.held_bytes > 0 || s.is_input_held)
    }

    fn read_on(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = exchange.py();
        let stream = stream(exchange);
        let is_waiting =
            stream.get().state.with(py, |s| !s.has_input_ended && !s.is_tunnel && !s.is_lost)
                && exchange.get().state.with(py, |s| !s.body.is_enough());
        if is_waiting {
            Http2Stream::wait_for_body(stream);
        }
        Http2Stream::give_back(stream)
    }

    /// A client that leaves says so. But one that has a whole response leaves before its application has ended it.
    fn watch_for_end(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = exchange.py();
        let stream = stream(exchange).get();
        let lost_ns = stream.state.with(py, |s| s.is_lost.then_some(s.lost_ns));
        match lost_ns {
            Some(lost_ns) if stream.now_ns(py) > lost_ns + MOMENT_NS => {
                exchange.get().disconnect(py)
            }
            _ => Ok(()),
        }
    }
}

fn inform(exchange: &Bound<'_, Exchange>, status: u16, lines: &[u8]) -> PyResult<()> {
    let py = exchange.py();
    let stream = stream(exchange).get();
    let connection = stream.connection.bind(py);
    let sent = connection.get().state.with(py, |s| match &mut s.session {
        Some(session) if s.streams.contains_key(&stream.id) => {
            session.inform(stream.id, status, lines)
        }
        _ => Ok(()),
    });
    Http2Connection::checked(sent)?;
    Http2Connection::send_soon(connection);
    Ok(())
}
