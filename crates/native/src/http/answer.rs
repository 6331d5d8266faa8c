//! The response of an exchange, from ASGI messages: checked, framed and written.
//!
//! The head waits for the first part of the body and is sent together with it; without one it is sent when the
//! callback ends. A body whose length differs from the head's Content-Length is never sent as if it were complete.

use super::connection::HttpConnection;
use super::exchange::{Answer, Exchange, State};
use super::fields::{Found, check_field, write_fields, write_status_line, write_without};
use super::journal::{self, client_gone};
use super::writing::leave_out;
use crate::event_loop::LoopCore;
use crate::ffi::{Object, buffer};
use oneloop_http1::response;
use pyo3::exceptions::{PyException, PyKeyError, PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::borrow::Cow;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// The head does not say.
    Unknown,
    /// This many bytes are still to come.
    Length(u64),
    Chunked,
    /// HTTP/1.0: closing the connection ends it.
    UntilClose,
    /// The response has no body, whatever its head says: RFC 9110 section 6.4.1.
    NoBody,
}

/// A body of this length is sent next to its head instead of being copied after it.
const LONG_BODY: usize = 16 * 1024;

/// An item of a message; KeyError if it is missing.
pub fn item<'py>(
    message: &Bound<'py, PyAny>,
    name: &Bound<'py, pyo3::types::PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    match optional(message, name)? {
        Some(value) => Ok(value),
        None => Err(PyKeyError::new_err(name.clone().unbind())),
    }
}

pub fn optional<'py>(
    message: &Bound<'py, PyAny>,
    name: &Bound<'py, pyo3::types::PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(message) = message.cast_exact::<PyDict>() {
        return message.get_item(name);
    }
    let value = message.call_method1(intern!(message.py(), "get"), (name,))?;
    Ok((!value.is_none()).then_some(value))
}

/// A part of a response with its framing.
pub struct Framed {
    pub out: Vec<u8>,
    /// If set, the data is sent after `out`, and this after the data; otherwise all of it is in `out`.
    pub tail: Option<&'static [u8]>,
    /// The response is complete after it.
    pub ends: bool,
}

impl Exchange {
    /// Handles one message of the application. Returns a future if sending it takes longer.
    pub fn send_message<'py>(
        slf: &Bound<'py, Self>,
        message: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        if let Some(websocket) = &slf.get().websocket {
            return websocket.send(slf, message).map(|()| None);
        }
        let kind = item(message, intern!(py, "type"))?;
        let (answer, is_disconnected, is_sending_file) =
            slf.get().state.with(py, |s| (s.answer, s.is_disconnected, s.is_sending_file));
        let is = |name: &Bound<'_, pyo3::types::PyString>| {
            kind.is(name) || kind.eq(name).unwrap_or(false)
        };
        if answer == Answer::Complete {
            let text =
                format!("Unexpected ASGI message '{kind}' sent, after response already completed.");
            return Err(PyRuntimeError::new_err(text));
        }
        if is_disconnected {
            return Err(client_gone(py, "the client has closed the connection"));
        }
        if is_sending_file {
            let text = format!("ASGI message '{kind}' sent while a file is being sent.");
            return Err(PyRuntimeError::new_err(text));
        }
        let expected = match answer {
            Answer::Awaited if is(intern!(py, "http.response.start")) => {
                return Self::start(slf, message).map(|()| None);
            }
            Answer::Awaited if is(intern!(py, "http.response.early_hint")) => {
                return Self::hint(slf, message).map(|()| None);
            }
            Answer::Awaited => "http.response.start",
            Answer::Trailing if is(intern!(py, "http.response.trailers")) => {
                return Self::trailers(slf, message).map(|()| None);
            }
            Answer::Trailing => "http.response.trailers",
            _ if is(intern!(py, "http.response.body")) => {
                return Self::body(slf, message).map(|()| None);
            }
            _ if is(intern!(py, "http.response.pathsend")) => {
                return super::pathsend::start(slf, message);
            }
            _ => "http.response.body",
        };
        let text = format!("Expected ASGI message '{expected}', but got '{kind}'.");
        Err(PyRuntimeError::new_err(text))
    }

    pub fn start(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let status: u16 = item(message, intern!(py, "status"))?.extract()?;
        if !(200..=999).contains(&status) {
            return Err(PyRuntimeError::new_err(format!("Invalid HTTP status: {status}")));
        }
        let fields = optional(message, intern!(py, "headers"))?;
        let has_trailers = match optional(message, intern!(py, "trailers"))? {
            Some(given) => given.is_truthy()?,
            None => false,
        };
        let mut head = this.spare(py);
        let found = this.write_head(
            py,
            &mut head,
            |head| write_status_line(head, status),
            |head, found| {
                fields.as_ref().map_or(Ok(()), |fields| write_fields(head, fields, found))
            },
        )?;
        if status == 204 && found.length.is_some() {
            // RFC 9110 section 8.6: it has none.
            leave_out(&mut head, b"content-length:");
        }
        this.state.with(py, |s| {
            s.status = status;
            // The response to a WebSocket request has no trailers.
            s.has_trailers = has_trailers && this.websocket.is_none();
            s.framing = if this.is_head || status == 204 || status == 304 {
                Framing::NoBody
            } else if let Some(length) = found.length {
                Framing::Length(length)
            } else {
                Framing::Unknown
            };
            // A client that got no `100 Continue` may or may not send its body.
            let may_get_body = s.expects_continue && !s.body.is_complete;
            s.keeps_alive &= !found.closes && !may_get_body;
            if found.has_connection && (s.keeps_alive || found.closes) {
                s.says_connection = true;
            } else if found.has_connection {
                // The application's field would be wrong.
                leave_out(&mut head, b"connection:");
            }
            s.head = head;
            s.answer = Answer::Started;
        });
        // If the application waits between head and body, the client still gets the head.
        let owner = this.connection.get().http.get().owner.get();
        owner.flush_after_callback(py, Object::new(slf.clone().into_any()), flush_head);
        Ok(())
    }

    /// A buffer for a head.
    pub fn spare(&self, py: Python<'_>) -> Vec<u8> {
        let http = self.connection.get().http.get();
        let mut spare = http.serving.with(py, |serving| std::mem::take(&mut serving.spare));
        spare.clear();
        spare
    }

    /// The status line and all fields from the application and the server's options. May be called from any thread.
    pub fn write_head(
        &self,
        py: Python<'_>,
        head: &mut Vec<u8>,
        write_status: impl FnOnce(&mut Vec<u8>),
        write_fields: impl FnOnce(&mut Vec<u8>, &mut Found) -> PyResult<()>,
    ) -> PyResult<Found> {
        let options = &self.connection.get().http.get().options;
        write_status(head);
        let line_len = head.len();
        self.write_defaults(py, head);
        let defaults = line_len..head.len();
        let mut found = Found::default();
        write_fields(head, &mut found)?;
        if (found.has_date && options.date_header) || (found.has_server && options.has_server_field)
        {
            // The application's fields replace ours.
            let own = head.split_off(defaults.end);
            head.truncate(defaults.start);
            if options.date_header && !found.has_date {
                self.write_date(py, head);
            }
            write_without(head, &options.fields, found.has_server);
            head.extend_from_slice(&own);
        }
        Ok(found)
    }

    /// Writes the fields that every response has.
    pub fn write_defaults(&self, py: Python<'_>, head: &mut Vec<u8>) {
        self.connection.get().http.get().write_defaults(py, head);
    }

    /// Sends a whole response by the server, after which the connection ends.
    pub fn answer_at_once(slf: &Bound<'_, Self>, status: u16, text: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.state.with(py, |s| {
            s.status = status;
            s.answer = Answer::Complete;
            s.keeps_alive = false;
        });
        let connection = this.connection.bind(py);
        let answer = connection.get().own_answer(py, status, text, this.is_head);
        HttpConnection::write(connection, &answer)?;
        this.tell_end(py)?;
        HttpConnection::answered(connection, slf)
    }

    fn write_date(&self, py: Python<'_>, head: &mut Vec<u8>) {
        head.extend_from_slice(b"date: ");
        head.extend_from_slice(&self.connection.get().http.get().date(py));
        head.extend_from_slice(b"\r\n");
    }

    /// `103 Early Hints`: RFC 8297. Does nothing for HTTP/1.0.
    fn hint(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        if slf.get().is_http10 {
            return Ok(());
        }
        let mut head = Vec::from(&b"HTTP/1.1 103 Early Hints\r\n"[..]);
        for link in item(message, intern!(py, "links"))?.try_iter()? {
            let link = buffer::to_bytes(&link?)?;
            check_field(b"link", link.as_bytes())?;
            head.extend_from_slice(b"link: ");
            head.extend_from_slice(link.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        HttpConnection::write(slf.get().connection.bind(py), &head)
    }

    /// Writes the framing fields and the end of the head. `len`: the length of the body, if this part is all of it.
    fn end_head(&self, s: &mut State, len: Option<usize>) {
        let mut framing = Cow::Borrowed(&b""[..]);
        if s.framing == Framing::Unknown {
            s.framing = match len {
                Some(len) if self.is_http10 => {
                    framing = Cow::Owned(format!("content-length: {len}\r\n").into_bytes());
                    Framing::Length(len as u64)
                }
                None if self.is_http10 => {
                    s.keeps_alive = false;
                    Framing::UntilClose
                }
                _ => {
                    framing = Cow::Borrowed(&b"transfer-encoding: chunked\r\n"[..]);
                    Framing::Chunked
                }
            };
        }
        if !s.says_connection {
            if !s.keeps_alive {
                s.head.extend_from_slice(b"connection: close\r\n");
            } else if self.is_http10 {
                s.head.extend_from_slice(b"connection: keep-alive\r\n");
            }
        }
        s.head.extend_from_slice(&framing);
        s.head.extend_from_slice(b"\r\n");
    }

    pub fn body(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let body = match optional(message, intern!(py, "body"))? {
            Some(body) => match body.cast_exact::<PyBytes>() {
                Ok(bytes) => bytes.clone(),
                Err(_) => bytes_of(&body)?,
            },
            None => PyBytes::new(py, b""),
        };
        let more = match optional(message, intern!(py, "more_body"))? {
            Some(more) => more.is_truthy()?,
            None => false,
        };
        Self::write_body(slf, &body, more)
    }

    /// Writes a part of the body; it is the last one if `more` is false.
    pub fn write_body(
        slf: &Bound<'_, Self>,
        body: &Bound<'_, PyBytes>,
        more: bool,
    ) -> PyResult<()> {
        let framed = slf.get().frame(slf.py(), body.as_bytes(), more)?;
        Self::put(slf, framed, body)
    }

    /// Frames a part of the body, together with the head if that was not sent yet. Parts must be sent in the order in
    /// which they were framed. May be called from any thread.
    pub fn frame(&self, py: Python<'_>, data: &[u8], more: bool) -> PyResult<Framed> {
        let is_last = self.connection.get().state.with(py, |s| {
            // A request body with this much left is not read only to keep the connection.
            s.is_ending() || (!more && s.has_long_body())
        });
        let (mut out, framing, ends) = self.state.with(py, |s| {
            let ends = !more && !s.has_trailers;
            if let Framing::Length(left) = s.framing {
                check_length(left, data.len(), !more)?;
            }
            if s.answer == Answer::Started {
                s.keeps_alive &= !is_last;
                self.end_head(s, (!more).then_some(data.len()));
                s.answer = Answer::Streaming;
            }
            if !more && s.has_trailers {
                s.answer = Answer::Trailing;
            }
            if let Framing::Length(left) = &mut s.framing {
                *left -= data.len() as u64;
            }
            if s.framing != Framing::NoBody {
                s.sent_bytes += data.len() as u64;
            }
            PyResult::Ok((std::mem::take(&mut s.head), s.framing, ends))
        })?;
        if out.capacity() == 0 {
            out = self.spare(py);
        }
        let data = if framing == Framing::NoBody { &[] } else { data };
        let mut tail: &'static [u8] = b"";
        if framing == Framing::Chunked {
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
            return Ok(Framed { out, tail: Some(tail), ends });
        }
        out.extend_from_slice(data);
        out.extend_from_slice(tail);
        Ok(Framed { out, tail: None, ends })
    }

    /// Sends a framed part; `body` is its data.
    pub fn put(slf: &Bound<'_, Self>, framed: Framed, body: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let connection = this.connection.bind(py);
        let written = match framed.tail {
            None => HttpConnection::write(connection, &framed.out),
            Some(tail) => HttpConnection::write_parts(connection, &framed.out, body, tail),
        };
        this.connection.get().http.get().keep_spare(py, framed.out);
        written?;
        if framed.ends { Self::complete(slf) } else { Ok(()) }
    }

    /// Writes the trailers after a chunked body; does nothing for other bodies.
    fn trailers(slf: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut out = Vec::new();
        let fields = optional(message, intern!(py, "headers"))?;
        if let Some(fields) = fields {
            let mut found = Found::default();
            write_fields(&mut out, &fields, &mut found)?;
            if found.length.is_some() {
                let text = "Content-Length cannot be a trailer";
                return Err(PyRuntimeError::new_err(text));
            }
        }
        let more = match optional(message, intern!(py, "more_trailers"))? {
            Some(more) => more.is_truthy()?,
            None => false,
        };
        if !more {
            out.extend_from_slice(b"\r\n");
        }
        if this.state.with(py, |s| s.framing == Framing::Chunked) {
            HttpConnection::write(this.connection.bind(py), &out)?;
        }
        if more { Ok(()) } else { Self::complete(slf) }
    }

    /// The whole response is written.
    fn complete(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let waiters = this.state.with(py, |s| {
            s.answer = Answer::Complete;
            s.body.pieces.clear();
            std::mem::take(&mut s.receive_waiters)
        });
        let woken = if waiters.is_empty() { Ok(()) } else { super::exchange::wake(py, waiters) };
        let told = this.tell_end(py);
        HttpConnection::answered(this.connection.bind(py), slf).and(woken).and(told)
    }

    /// Writes the access log and counts the request.
    pub fn tell_end(&self, py: Python<'_>) -> PyResult<()> {
        let http = self.connection.get().http.get();
        if let Some(on_response) = &http.options.on_response {
            let (target, scope, status, sent, began_ns) = self.state.with(py, |s| {
                (s.target.take(), s.scope.take(), s.status, s.sent_bytes, s.began_ns)
            });
            let duration_s = (http.owner.get().now_ns(py) - began_ns) as f64 / 1e9;
            if let Some(scope) = scope {
                let scope = scope.bind(py);
                // A WebSocket's scope has no method: its handshake is a GET.
                let get = intern!(py, "GET");
                let arguments = (
                    scope.get_item(intern!(py, "client"))?,
                    scope.call_method1(intern!(py, "get"), (intern!(py, "method"), get))?,
                    target,
                    scope.get_item(intern!(py, "http_version"))?,
                    status,
                    sent,
                    duration_s,
                    scope.get_item(intern!(py, "headers"))?,
                );
                if let Err(error) = on_response.call1(py, arguments) {
                    if !error.is_instance_of::<PyException>(py) {
                        return Err(error);
                    }
                    // Not an error of the application, and the connection continues.
                    journal::log(py, "A response could not be logged or counted", Some(&error))?;
                }
            }
        }
        http.count_response(py)
    }
}

/// At the end of the callback: sends a head that was not sent with a body.
fn flush_head(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast_exact::<Exchange>()?;
    let py = slf.py();
    let this = slf.get();
    let head = this.state.with(py, |s| {
        if s.answer != Answer::Started || s.is_disconnected || s.is_sending_file {
            return None;
        }
        this.end_head(s, None);
        s.answer = Answer::Streaming;
        Some(std::mem::take(&mut s.head))
    });
    match head {
        Some(head) => HttpConnection::write(this.connection.bind(py), &head),
        None => Ok(()),
    }
}

/// The bytes of a bytes-like object.
pub fn bytes_of<'py>(body: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    buffer::to_bytes(body).map_err(|error| {
        let name = body.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        let text = format!("the body of a response must be bytes-like, not '{name}'");
        let wrong = PyTypeError::new_err(text);
        wrong.set_cause(body.py(), Some(error));
        wrong
    })
}

/// RuntimeError for a body that is longer than its Content-Length, or ends before it.
pub fn check_length(left: u64, len: usize, ends: bool) -> PyResult<()> {
    let text = if (len as u64) > left {
        "Response content longer than Content-Length"
    } else if ends && (len as u64) < left {
        "Response content shorter than Content-Length"
    } else {
        return Ok(());
    };
    Err(PyRuntimeError::new_err(text))
}
