//! `WebSocket`: the part of an exchange that replaces the body for a WebSocket (ASGI's WebSocket specification 2.5).
//!
//! | phase      | the application may send                        | next state on                                    |
//! |------------|-------------------------------------------------|--------------------------------------------------|
//! | Connecting | accept, close, an HTTP response                 | one of these                                     |
//! | Denied     | the rest of an HTTP response                    | its end                                          |
//! | Open       | messages, close                                 | a close frame of either side, a failure, the end |
//! | Closing    | nothing                                         | the peer's close frame, a deadline, the end      |
//! | Closed     | nothing                                         | –                                                |

use super::asgi::message::{bytes_of, item, optional};
use super::asgi::response;
use super::options::ApplicationOptions;
use crate::ffi::fallible;
use crate::ffi::{LoopCell, Object};
use crate::http::exchange::contract::{Exchange, Tunnel, TunnelDeadline};
use crate::http::exchange::error_log::client_gone;
use crate::http::exchange::response_fields;
use crate::http::exchange::response_state::Response;
use oneloop_http1::{Request, Version};
use oneloop_websocket::negotiation::{self, Agreement};
use oneloop_websocket::{Config, Connection, DeflateParams, Event, Role, handshake};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::any::Any;
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Connecting,
    Denied,
    Open,
    Closing,
    Closed,
}

enum Message {
    Text(Object<PyString>),
    Bytes(Object<PyBytes>),
}

pub struct State {
    pub phase: Phase,
    key: Vec<u8>,
    /// Offered by the client.
    protocols: Vec<String>,
    max_message_bytes: usize,
    agreement: Option<Agreement>,
    connection: Option<Box<Connection>>,
    messages: VecDeque<Message>,
    messages_bytes: usize,
    is_connect_told: bool,
    /// The application has closed it.
    has_closed: bool,
    /// Code and reason of the end, for the application.
    end: Option<(u16, String)>,
}

pub struct WebSocket(pub LoopCell<State>);

/// When this much is queued for the application, reading is paused. A message counts as some bytes more than its
/// length.
const HIGH_BYTES: usize = 64 * 1024;
const MESSAGE_BYTES: usize = 64;
/// A message of this length is sent next to its frame's head instead of being copied after it.
const LONG_MESSAGE: usize = 16 * 1024;

/// Without a close frame: RFC 6455 section 7.1.5.
const ABNORMAL: u16 = 1006;
const NO_CODE: u16 = 1005;
const INTERNAL_ERROR: u16 = 1011;
const NORMAL: u16 = 1000;
/// From IANA's registry of close codes.
const SERVICE_RESTART: u16 = 1012;

/// The next message for `receive`.
pub enum News<'py> {
    Message(Bound<'py, PyDict>),
    Nothing,
}

impl WebSocket {
    /// The WebSocket that a request opens; `None` if it is not a WebSocket handshake.
    pub fn of_request(
        request: &Request<'_, '_>,
        options: &ApplicationOptions,
    ) -> Result<Option<Self>, handshake::Refusal> {
        let fields = request.headers.iter().map(|field| (field.name, field.value));
        let checked = if request.version == Version::Http2 {
            handshake::Upgrade::check_connect(fields)
        } else {
            handshake::Upgrade::check(request.method, request.version == Version::Http11, fields)
        };
        let upgrade = match checked {
            Ok(upgrade) => upgrade,
            // A server may ignore an upgrade that it does not support: RFC 9110 section 7.8.
            Err(refusal) if refusal.status == 405 || request.version == Version::Http10 => {
                return Ok(None);
            }
            Err(refusal) => return Err(refusal),
        };
        let agreement = if options.ws_deflate {
            negotiation::negotiate(upgrade.extensions.iter().copied(), DeflateParams::default())?
        } else {
            None
        };
        let state = State {
            phase: Phase::Connecting,
            key: upgrade.key.to_vec(),
            protocols: upgrade.protocols.iter().map(|&protocol| protocol.to_owned()).collect(),
            max_message_bytes: options.ws_max_size,
            agreement,
            connection: None,
            messages: VecDeque::new(),
            messages_bytes: 0,
            is_connect_told: false,
            has_closed: false,
            end: None,
        };
        Ok(Some(Self(LoopCell::new(state))))
    }

    /// Converts the scope of a request to that of a WebSocket.
    pub fn amend_scope(&self, scope: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = scope.py();
        // A proxy may have set it.
        let scheme = item(scope.as_any(), intern!(py, "scheme"))?;
        let is_tls = scheme.eq("https")? || scheme.eq("wss")?;
        scope.set_item(intern!(py, "type"), intern!(py, "websocket"))?;
        let asgi = item(scope.as_any(), intern!(py, "asgi"))?;
        asgi.set_item(intern!(py, "spec_version"), intern!(py, "2.5"))?;
        scope.set_item(intern!(py, "scheme"), if is_tls { "wss" } else { "ws" })?;
        scope.del_item(intern!(py, "method"))?;
        scope.set_item(
            intern!(py, "subprotocols"),
            PyList::new(py, self.0.with(py, |s| std::mem::take(&mut s.protocols)))?,
        )?;
        let extensions = fallible::dict(py)?;
        let before = item(scope.as_any(), intern!(py, "extensions"))?;
        if let Some(tls) = optional(&before, intern!(py, "tls"))? {
            extensions.set_item(intern!(py, "tls"), tls)?;
        }
        extensions.set_item(intern!(py, "websocket.http.response"), fallible::dict(py)?)?;
        scope.set_item(intern!(py, "extensions"), extensions)
    }

    pub fn phase(&self, py: Python<'_>) -> Phase {
        self.0.with(py, |s| s.phase)
    }

    /// It was ended by another side than the application.
    pub fn is_gone(&self, py: Python<'_>) -> bool {
        self.0.with(py, |s| match s.phase {
            Phase::Closed => true,
            Phase::Closing => !s.has_closed,
            Phase::Connecting | Phase::Denied | Phase::Open => false,
        })
    }

    /// Records the end: the connection is gone, or is no longer needed.
    pub fn end(&self, py: Python<'_>, code: u16, reason: &str) {
        let old = self.0.with(py, |s| {
            if s.end.is_none() {
                s.end = Some((code, reason.to_owned()));
            }
            if s.phase != Phase::Denied {
                s.phase = Phase::Closed;
            }
            s.connection.take()
        });
        drop(old);
    }

    /// The next message for the application.
    pub fn news<'py>(&self, exchange: &Bound<'py, Exchange>) -> PyResult<News<'py>> {
        let py = exchange.py();
        let message = fallible::dict(py)?;
        let kind = intern!(py, "type");
        if self.0.with(py, |s| !std::mem::replace(&mut s.is_connect_told, true)) {
            message.set_item(kind, intern!(py, "websocket.connect"))?;
            return Ok(News::Message(message));
        }
        let next = self.0.with(py, |s| {
            let next = s.messages.pop_front();
            if let Some(next) = &next {
                s.messages_bytes -= next.len_bytes(py);
            }
            next
        });
        if next.is_some() {
            self.read_on(exchange)?;
        }
        match next {
            Some(Message::Text(text)) => {
                message.set_item(kind, intern!(py, "websocket.receive"))?;
                message.set_item(intern!(py, "text"), text.bind(py))?;
            }
            Some(Message::Bytes(bytes)) => {
                message.set_item(kind, intern!(py, "websocket.receive"))?;
                message.set_item(intern!(py, "bytes"), bytes.bind(py))?;
            }
            None => match self.0.with(py, |s| s.end.clone()) {
                Some((code, reason)) => {
                    message.set_item(kind, intern!(py, "websocket.disconnect"))?;
                    message.set_item(intern!(py, "code"), code)?;
                    message.set_item(intern!(py, "reason"), reason)?;
                }
                None => return Ok(News::Nothing),
            },
        }
        Ok(News::Message(message))
    }

    /// Handles one message of the application.
    pub fn send(&self, exchange: &Bound<'_, Exchange>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = exchange.py();
        let kind: String = item(message, intern!(py, "type"))?.extract()?;
        let is_gone = exchange.get().state.with(py, |s| s.is_disconnected);
        if is_gone && kind != "websocket.close" {
            return Err(client_gone(py, "the client has closed the connection"));
        }
        // A client that was denied may send another request on the same connection.
        let is_denied = || exchange.get().state.with(py, |s| s.response == Response::Complete);
        match (self.phase(py), kind.as_str()) {
            (Phase::Connecting, "websocket.accept") => self.accept(exchange, message),
            (Phase::Connecting, "websocket.close") => {
                self.end(py, ABNORMAL, "");
                Exchange::respond(exchange, 403, "")
            }
            (Phase::Connecting, "websocket.http.response.start") => {
                self.0.with(py, |s| {
                    s.phase = Phase::Denied;
                    s.end = Some((ABNORMAL, String::new()));
                });
                response::start(exchange, message)
            }
            (Phase::Denied, "websocket.http.response.body") if !is_denied() => {
                response::body(exchange, message)
            }
            (Phase::Open, "websocket.send") => self.send_message(exchange, message),
            (Phase::Open, "websocket.close") => self.close_by(exchange, message),
            (_, "websocket.send") if self.is_gone(py) => {
                Err(client_gone(py, "the WebSocket is closed"))
            }
            // Both sides may close at the same time.
            (_, "websocket.close") if self.is_gone(py) => Ok(()),
            (Phase::Connecting, _) => Err(PyRuntimeError::new_err(format!(
                "Expected ASGI message 'websocket.accept', 'websocket.close' or \
                 'websocket.http.response.start' but got '{kind}'."
            ))),
            (Phase::Denied, _) if !is_denied() => Err(PyRuntimeError::new_err(format!(
                "Expected ASGI message 'websocket.http.response.body' but got '{kind}'."
            ))),
            (Phase::Open, _) => Err(PyRuntimeError::new_err(format!(
                "Expected ASGI message 'websocket.send' or 'websocket.close', but got '{kind}'."
            ))),
            (Phase::Denied | Phase::Closing | Phase::Closed, _) => {
                Err(PyRuntimeError::new_err(format!(
                    "Unexpected ASGI message '{kind}', after sending 'websocket.close' or response already completed."
                )))
            }
        }
    }

    fn accept(&self, exchange: &Bound<'_, Exchange>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = exchange.py();
        let carrier = exchange.get().carrier.calls;
        let service = exchange.get().service.get();
        let protocol: Option<String> = match optional(message, intern!(py, "subprotocol"))? {
            Some(protocol) => protocol.extract()?,
            None => None,
        };
        if let Some(protocol) = &protocol {
            response_fields::check_field(protocol.as_bytes(), b"")?;
        }
        let mut fields = Vec::new();
        if let Some(given) = optional(message, intern!(py, "headers"))? {
            response_fields::write_handshake_fields(&mut fields, &given)?;
        }
        let mut out = Vec::with_capacity(256);
        self.0.with(py, |s| {
            carrier.begin_tunnel_head(&mut out, &s.key);
            handshake::write_agreed(&mut out, protocol.as_deref(), s.agreement.as_ref());
        });
        service.write_defaults(py, &mut out);
        out.extend_from_slice(&fields);
        let mut config = Config::new(Role::Server);
        config.max_message_bytes = self.0.with(py, |s| s.max_message_bytes);
        config.deflate = self.0.with(py, |s| s.agreement.take().map(|agreement| agreement.params));
        let protocol = Box::new(Connection::new(&config));
        self.0.with(py, |s| {
            s.connection = Some(protocol);
            s.phase = Phase::Open;
            s.key = Vec::new();
        });
        exchange.get().state.with(py, |s| s.response = Response::Streaming);
        carrier.start_tunnel(exchange, out)?;
        carrier.set_deadline(exchange, TunnelDeadline::Ping);
        exchange.get().record(py, true)?;
        if service.serving.with(py, |serving| serving.is_shutting_down) {
            self.close(exchange, SERVICE_RESTART, "")?;
        }
        carrier.take_input(exchange)
    }

    fn send_message(
        &self,
        exchange: &Bound<'_, Exchange>,
        message: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = exchange.py();
        let carrier = exchange.get().carrier.calls;
        let text = optional(message, intern!(py, "text"))?.filter(|text| !text.is_none());
        let bytes = optional(message, intern!(py, "bytes"))?.filter(|bytes| !bytes.is_none());
        let (payload, is_text) = match (&bytes, &text) {
            (Some(bytes), _) => (bytes_of(bytes)?, false),
            (None, Some(text)) => (text.cast::<PyString>()?.encode_utf8()?, true),
            (None, None) => {
                let text = "'websocket.send' needs 'text' or 'bytes'";
                return Err(PyValueError::new_err(text));
            }
        };
        let data = payload.as_bytes();
        let mut out = exchange.get().service.get().spare(py);
        let is_beside = self.0.with(py, |s| {
            let Some(protocol) = &mut s.connection else { return Ok(None) };
            let sender = &mut protocol.sender;
            if data.len() >= LONG_MESSAGE && sender.head(&mut out, is_text, data.len())? {
                return Ok(Some(true));
            }
            match std::str::from_utf8(data) {
                Ok(text) if is_text => sender.text(&mut out, text)?,
                _ => sender.binary(&mut out, data)?,
            }
            Ok(Some(false))
        });
        let is_beside: Option<bool> =
            is_beside.map_err(|error: oneloop_websocket::SendError| {
                PyRuntimeError::new_err(error.to_string())
            })?;
        let written = match is_beside {
            Some(true) => carrier.write_after(exchange, &out, &payload),
            Some(false) => carrier.write(exchange, &out),
            None => Ok(()),
        };
        let service = exchange.get().service.get();
        service.serving.with(py, |serving| serving.websocket_bytes += data.len() as u64);
        service.keep_spare(py, out);
        written
    }

    /// Handles the application's close.
    fn close_by(&self, exchange: &Bound<'_, Exchange>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = exchange.py();
        let code = match optional(message, intern!(py, "code"))? {
            Some(code) if !code.is_none() => code.extract()?,
            _ => NORMAL,
        };
        let reason: Option<String> = match optional(message, intern!(py, "reason"))? {
            Some(reason) => reason.extract()?,
            None => None,
        };
        self.close(exchange, code, reason.as_deref().unwrap_or(""))?;
        self.0.with(py, |s| s.has_closed = true);
        Ok(())
    }

    /// Sends a close frame; the peer responds with its own.
    pub fn close(&self, exchange: &Bound<'_, Exchange>, code: u16, reason: &str) -> PyResult<()> {
        let py = exchange.py();
        let carrier = exchange.get().carrier.calls;
        let mut out = Vec::new();
        let closed = self.0.with(py, |s| match &mut s.connection {
            Some(protocol) => protocol.sender.close(&mut out, Some(code), reason),
            None => Ok(()),
        });
        closed.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        self.0.with(py, |s| s.phase = Phase::Closing);
        carrier.set_deadline(exchange, TunnelDeadline::End);
        carrier.write(exchange, &out)?;
        // The peer's close frame may follow messages that nobody will take.
        carrier.take_input(exchange)
    }

    /// The application has ended: closes the WebSocket accordingly.
    pub fn finish(&self, exchange: &Bound<'_, Exchange>, is_failure: bool) -> PyResult<()> {
        let py = exchange.py();
        match self.phase(py) {
            Phase::Connecting => {
                self.end(py, ABNORMAL, "");
                Exchange::respond(exchange, 500, "Internal Server Error")
            }
            Phase::Open if is_failure => self.close(exchange, INTERNAL_ERROR, ""),
            Phase::Open => self.close(exchange, NORMAL, ""),
            Phase::Denied => match exchange.get().state.with(py, |s| s.response) {
                Response::Complete => Ok(()),
                Response::Streaming | Response::Trailing => Exchange::abort(exchange),
                // Nothing of the denial was sent.
                Response::Awaited | Response::Started => {
                    Exchange::respond(exchange, 500, "Internal Server Error")
                }
            },
            Phase::Closing | Phase::Closed => Ok(()),
        }
    }

    /// Whether more messages may be queued. Once the application has closed it, none are.
    pub fn has_room(&self, py: Python<'_>, limit_bytes: usize) -> bool {
        self.0.with(py, |s| s.phase != Phase::Open || s.messages_bytes <= limit_bytes)
    }
}

impl Tunnel for WebSocket {
    /// Processes received bytes and returns how many were used. The rest waits until the application has taken
    /// messages.
    fn take(&self, exchange: &Bound<'_, Exchange>, input: &mut [u8]) -> PyResult<usize> {
        let py = exchange.py();
        let carrier = exchange.get().carrier.calls;
        let mut at = 0;
        while at < input.len() {
            if !self.has_room(py, HIGH_BYTES) {
                carrier.hold_input(exchange)?;
                return Ok(at);
            }
            let mut out = Vec::new();
            let taken = self.0.with(py, |s| s.read(py, &mut input[at..], &mut out));
            at += taken.consumed;
            if !out.is_empty() {
                carrier.write(exchange, &out)?;
            }
            match taken.news {
                Heard::Nothing => {}
                Heard::Message => exchange.get().wake_receivers(py)?,
                Heard::Pong => carrier.set_deadline(exchange, TunnelDeadline::Ping),
                Heard::End => {
                    exchange.get().wake_receivers(py)?;
                    carrier.end_tunnel(exchange)?;
                    return Ok(input.len());
                }
            }
        }
        // Stop reading from a peer that sends requests without reading the responses.
        let is_stuck = carrier.is_stuck(exchange);
        if is_stuck || !self.has_room(py, HIGH_BYTES) {
            carrier.hold_input(exchange)?;
        }
        Ok(at)
    }

    /// Resumes reading, if there is room for messages and for the responses to them.
    fn read_on(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = exchange.py();
        let carrier = exchange.get().carrier.calls;
        let (is_paused, is_stuck) =
            (carrier.is_reading_paused(py, exchange.get()), carrier.is_stuck(exchange));
        if is_paused && !is_stuck && self.has_room(py, HIGH_BYTES / 2) {
            carrier.take_input(exchange)
        } else {
            Ok(())
        }
    }

    /// Sends a ping, or ends the connection if the last one was not answered.
    fn time_out(&self, exchange: &Bound<'_, Exchange>, deadline: TunnelDeadline) -> PyResult<()> {
        let py = exchange.py();
        let carrier = exchange.get().carrier.calls;
        if self.phase(py) != Phase::Open {
            return carrier.abort_tunnel(exchange);
        }
        let (is_paused, is_stuck) =
            (carrier.is_reading_paused(py, exchange.get()), carrier.is_stuck(exchange));
        // While the application takes nothing, reading is paused and a pong cannot be received; the same is true of a
        // peer that reads nothing.
        let is_silent = !is_paused || (is_stuck && !carrier.has_taken(exchange)?);
        if deadline == TunnelDeadline::Pong && is_silent {
            self.close(exchange, INTERNAL_ERROR, "keepalive ping timeout")?;
            self.end(py, ABNORMAL, "keepalive ping timeout");
            exchange.get().wake_receivers(py)?;
            return carrier.end_tunnel(exchange);
        }
        let mut out = Vec::new();
        let pinged = self.0.with(py, |s| match &mut s.connection {
            Some(protocol) => protocol.sender.ping(&mut out, b"oneloop"),
            None => Ok(()),
        });
        pinged.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        carrier.set_deadline(exchange, TunnelDeadline::Pong);
        carrier.write(exchange, &out)
    }

    /// The server shuts down.
    fn go_away(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        match self.phase(exchange.py()) {
            Phase::Open => self.close(exchange, SERVICE_RESTART, ""),
            Phase::Connecting | Phase::Denied | Phase::Closing | Phase::Closed => Ok(()),
        }
    }

    fn lose(&self, py: Python<'_>) {
        self.end(py, ABNORMAL, "");
    }
}

/// The WebSocket of an exchange, if it is one.
#[inline]
pub fn of(exchange: &Exchange) -> Option<&WebSocket> {
    let tunnel: &dyn Any = exchange.tunnel.as_deref()?;
    tunnel.downcast_ref()
}

enum Heard {
    Nothing,
    Message,
    Pong,
    End,
}

struct Taken {
    consumed: usize,
    news: Heard,
}

impl Message {
    fn len_bytes(&self, py: Python<'_>) -> usize {
        MESSAGE_BYTES
            + match self {
                Self::Text(text) => crate::ffi::text::length(text.bind(py)),
                Self::Bytes(bytes) => bytes.bind(py).as_bytes().len(),
            }
    }
}

impl State {
    /// Reads up to the end of one frame or message; responses are appended to `out`. Runs no Python code: texts and
    /// bytes are made without the garbage collector.
    fn read(&mut self, py: Python<'_>, input: &mut [u8], out: &mut Vec<u8>) -> Taken {
        let len = input.len();
        let all = |news| Taken { consumed: len, news };
        let Some(protocol) = &mut self.connection else { return all(Heard::Nothing) };
        let Connection { receiver, sender } = &mut **protocol;
        let step = match receiver.read(input) {
            Ok(step) => step,
            Err(failure) => {
                // Unless one was already sent.
                if !sender.is_closed()
                    && sender.close(out, Some(failure.code), failure.reason).is_err()
                {
                    out.clear();
                }
                self.end = Some((ABNORMAL, failure.reason.to_owned()));
                self.phase = Phase::Closed;
                return all(Heard::End);
            }
        };
        let consumed = step.consumed;
        let is_open = self.phase == Phase::Open;
        let message = match step.event {
            Some(Event::Text(text)) if is_open => {
                Message::Text(Object::new(PyString::new(py, text)))
            }
            Some(Event::Binary(data)) if is_open => {
                Message::Bytes(Object::new(PyBytes::new(py, data)))
            }
            Some(Event::Ping(payload)) if !sender.is_closed() => {
                if sender.pong(out, payload).is_err() {
                    out.clear();
                }
                return Taken { consumed, news: Heard::Nothing };
            }
            Some(Event::Pong(_)) if is_open => return Taken { consumed, news: Heard::Pong },
            Some(Event::Close { code, reason }) => {
                if !sender.is_closed() && sender.close(out, code, "").is_err() {
                    out.clear();
                }
                self.end = Some((code.unwrap_or(NO_CODE), reason.to_owned()));
                self.phase = Phase::Closed;
                return Taken { consumed, news: Heard::End };
            }
            _ => return Taken { consumed, news: Heard::Nothing },
        };
        receiver.release();
        self.messages_bytes += message.len_bytes(py);
        self.messages.push_back(message);
        Taken { consumed, news: Heard::Message }
    }
}
