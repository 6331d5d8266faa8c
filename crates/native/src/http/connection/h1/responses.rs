//! How a response is written in HTTP/1.1: its status line, the framing of its body, a whole one at once.

use super::connection::HttpConnection;
use crate::ffi::Object;
use crate::http::exchange::contract::{Exchange, State};
use crate::http::exchange::reply::Reply;
use crate::http::exchange::response_fields::leave_out;
use crate::http::exchange::response_state::{Framed, Framing, Response};
use oneloop_http1::{Request, Version, response};
use pyo3::prelude::*;
use std::borrow::Cow;

/// A body of this length is sent next to its head instead of being copied after it.
const LONG_BODY: usize = 16 * 1024;

/// A file up to this length is copied after its head; the buffer for heads is kept for the next one.
const SHORT_FILE_BYTES: u64 = 48 * 1024;

pub fn write_status_line(head: &mut Vec<u8>, status: u16) {
    if status == 200 {
        head.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    write_reason_line(head, status, response::reason_phrase(status).as_bytes());
}

/// `status`: of three digits.
pub fn write_reason_line(head: &mut Vec<u8>, status: u16, reason: &[u8]) {
    let digit = |value: u16| b'0' + (value % 10) as u8;
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status), b' ']);
    head.extend_from_slice(reason);
    head.extend_from_slice(b"\r\n");
}

/// Writes the framing fields and the end of the head. `len`: the length of the body, if this part is all of it.
pub fn end_head(exchange: &Exchange, s: &mut State, len: Option<usize>) {
    let mut framing = Cow::Borrowed(&b""[..]);
    if s.framing == Framing::Unknown {
        s.framing = match len {
            Some(len) if exchange.is_http10 => {
                framing = Cow::Owned(format!("content-length: {len}\r\n").into_bytes());
                // All of it follows the head.
                Framing::Length(0)
            }
            None if exchange.is_http10 => {
                s.keeps_alive = false;
                Framing::UntilClose
            }
            _ => {
                framing = Cow::Borrowed(&b"transfer-encoding: chunked\r\n"[..]);
                Framing::Marked
            }
        };
    }
    if s.says_connection && !s.says_close && !s.keeps_alive {
        // The application's field would be wrong: the server has decided otherwise since then.
        leave_out(&mut s.head, b"connection:");
        s.says_connection = false;
    }
    if !s.says_connection {
        if !s.keeps_alive {
            s.head.extend_from_slice(b"connection: close\r\n");
        } else if exchange.is_http10 {
            s.head.extend_from_slice(b"connection: keep-alive\r\n");
        }
    }
    s.head.extend_from_slice(&framing);
    s.head.extend_from_slice(b"\r\n");
}

impl HttpConnection {
    /// Frames a part of the body, together with the head if that was not sent yet. From any thread.
    pub fn frame(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        data: &[u8],
        more: bool,
    ) -> PyResult<Framed> {
        let is_last = self.state.with(py, |s| {
            // A request body with this much left is not read only to keep the connection.
            s.is_ending() || (!more && s.has_long_body())
        });
        let (mut out, framing, ends) = exchange.state.with(py, |s| {
            let ends = !more && !s.has_trailers;
            s.count_part(data.len(), more)?;
            if s.response == Response::Started {
                // A client that got no `100 Continue` may or may not send its body.
                s.keeps_alive &= !is_last && (!s.expects_continue || s.body.is_complete);
                end_head(exchange, s, (!more).then_some(data.len()));
                s.response = Response::Streaming;
            }
            if !more && s.has_trailers {
                s.response = Response::Trailing;
            }
            PyResult::Ok((std::mem::take(&mut s.head), s.framing, ends))
        })?;
        if out.capacity() == 0 {
            out = self.service.get().spare(py);
        }
        let data = if framing == Framing::NoBody { &[] } else { data };
        let body_bytes = data.len() as u64;
        let mut tail: &'static [u8] = b"";
        if framing == Framing::Marked {
            if !data.is_empty() {
                response::write_chunk_head(&mut out, data.len());
                tail = b"\r\n";
            }
            if ends {
                tail = if data.is_empty() { b"0\r\n\r\n" } else { b"\r\n0\r\n\r\n" };
            } else if !more {
                // Trailers follow.
                tail = if data.is_empty() { b"0\r\n" } else { b"\r\n0\r\n" };
            }
        }
        if data.len() >= LONG_BODY {
            return Ok(Framed { out, tail: Some(tail), ends, body_bytes });
        }
        out.extend_from_slice(data);
        out.extend_from_slice(tail);
        Ok(Framed { out, tail: None, ends, body_bytes })
    }

    /// Keeps an exchange whose response is written, if a part of it waits for the peer, or was cut by a connection that is
    /// not lost yet, and knows then what was sent: `record_kept`.
    pub fn keep_unrecorded(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> bool {
        let py = slf.py();
        let this = slf.get();
        let is_cut = exchange.get().state.with(py, |s| s.is_cut);
        let waits = this.state.with(py, |s| {
            // A request that was held by a TLS connection that has ended finds another one waiting.
            let is_free = !s.is_lost && s.unrecorded.is_none();
            debug_assert!(
                is_cut || is_free || s.is_lost,
                "a request was taken while the peer did not read"
            );
            is_free && (is_cut || s.is_writing_paused)
        });
        if waits {
            let kept = Object::new(exchange.clone());
            this.state.with(py, |s| s.unrecorded = Some(kept));
        }
        waits
    }

    /// The peer has read, or the connection is lost: records the response that has waited for that.
    pub fn record_kept(&self, py: Python<'_>, is_complete: bool) -> PyResult<()> {
        match self.state.with(py, |s| s.unrecorded.take()) {
            Some(exchange) => {
                let is_cut = exchange.get().state.with(py, |s| s.is_cut);
                exchange.get().record(py, is_complete && !is_cut)
            }
            None => Ok(()),
        }
    }

    /// Sends head and body in one call, without an exchange. Returns the reply if that is not possible.
    pub fn reply_now(
        slf: &Bound<'_, Self>,
        request: &Request<'_, '_>,
        reply: Reply,
    ) -> PyResult<Option<Reply>> {
        let py = slf.py();
        let this = slf.get();
        let service = this.service.get();
        let is_short = reply.part.as_ref().is_none_or(|part| part.len_bytes <= SHORT_FILE_BYTES);
        if !is_short || service.options.on_response.is_some() {
            return Ok(Some(reply));
        }
        let is_last = this.state.with(py, |s| s.is_last);
        let keeps_alive = request.keeps_alive && !is_last;
        let mut out = service.spare(py);
        write_status_line(&mut out, reply.status);
        service.write_defaults(py, &mut out);
        out.extend_from_slice(&reply.fields);
        if !keeps_alive {
            out.extend_from_slice(b"connection: close\r\n");
        } else if request.version == Version::Http10 {
            out.extend_from_slice(b"connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if let Some(part) = &reply.part
            && !part.read_onto(&mut out)
        {
            // It is not entirely in memory, or was truncated: the code that reads the rest will notice.
            service.keep_spare(py, out);
            return Ok(Some(reply));
        }
        let written = Self::write(slf, &out);
        service.keep_spare(py, out);
        drop(reply);
        written?;
        service.count_response(py)?;
        this.state.with(py, |s| (s.searched, s.is_fresh) = (0, false));
        if keeps_alive {
            this.await_request(py);
        } else {
            this.close(py)?;
        }
        Ok(None)
    }
}
