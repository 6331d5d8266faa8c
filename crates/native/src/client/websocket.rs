//! `WebSocketFrames`: the client's side of a WebSocket connection without its I/O (RFC 6455, RFC 7692).

use crate::ffi::LoopCell;
use crate::ffi::fallible;
use crate::ffi::values::{ToPython, Value};
use oneloop_websocket::{
    Config, Connection, DeflateParams, Event, Failure, Role, SendError, Step, handshake,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::hash::{BuildHasher, Hasher, RandomState};

struct State {
    connection: Connection,
    /// Received and not processed, from `at` on.
    input: Vec<u8>,
    at: usize,
}

/// What was received; copied out of the state, because making Python objects can run Python code.
enum News {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
    Failed(Failure),
}

/// The opcode and the payload.
type Frame<'py> = (u8, Bound<'py, PyAny>);

/// The frames of one connection.
#[pyclass(frozen, module = "oneloop._native")]
pub struct WebSocketFrames(LoopCell<State>);

/// The key of a frame: a hash with a key that the system made, which nobody else knows.
fn mask() -> [u8; 4] {
    let hash = RandomState::new().build_hasher().finish().to_ne_bytes();
    [hash[0], hash[1], hash[2], hash[3]]
}

impl WebSocketFrames {
    fn send(
        &self,
        py: Python<'_>,
        write: impl FnOnce(&mut Connection, &mut Vec<u8>) -> Result<(), SendError>,
    ) -> PyResult<Py<PyBytes>> {
        let mut out = Vec::new();
        let written = self.0.with(py, |s| write(&mut s.connection, &mut out));
        match written {
            Ok(()) => Ok(fallible::bytes(py, &out)?.unbind()),
            Err(error @ SendError::Closed) => Err(PyRuntimeError::new_err(error.to_string())),
            Err(error) => Err(PyValueError::new_err(error.to_string())),
        }
    }

    fn next_news(s: &mut State) -> Option<News> {
        let State { connection, input, at } = s;
        while *at < input.len() {
            let Step { consumed, event } = match connection.receiver.read(&mut input[*at..]) {
                Ok(step) => step,
                Err(failure) => {
                    *at = input.len();
                    return Some(News::Failed(failure));
                }
            };
            let news = event.map(|event| match event {
                Event::Text(text) => News::Text(text.to_owned()),
                Event::Binary(bytes) => News::Binary(bytes.to_vec()),
                Event::Ping(payload) => News::Ping(payload.to_vec()),
                Event::Pong(payload) => News::Pong(payload.to_vec()),
                Event::Close { code, reason } => News::Close(code, reason.to_owned()),
            });
            *at += consumed;
            if news.is_some() {
                return news;
            }
            if consumed == 0 {
                break;
            }
        }
        input.drain(..*at);
        *at = 0;
        if input.is_empty() {
            // An idle connection holds no buffer.
            *input = Vec::new();
        }
        None
    }
}

#[pymethods]
impl WebSocketFrames {
    /// Args: the most bytes of a message; what was agreed of permessage-deflate: whether the server and the client forget
    /// the context of each message, and the bits of their windows (8 to 15). None: no compression.
    #[new]
    #[pyo3(signature = (max_message_bytes, deflate))]
    fn new(max_message_bytes: usize, deflate: Option<(bool, bool, u8, u8)>) -> Self {
        let mut config = Config::new(Role::Client { mask });
        config.max_message_bytes = max_message_bytes;
        config.deflate =
            deflate.map(|(server_forgets, client_forgets, server_bits, client_bits)| {
                DeflateParams {
                    server_no_context_takeover: server_forgets,
                    client_no_context_takeover: client_forgets,
                    server_max_window_bits: server_bits.clamp(8, 15),
                    // A smaller window than allowed costs less memory.
                    client_max_window_bits: client_bits
                        .clamp(8, DeflateParams::default().client_max_window_bits),
                }
            });
        let state = State { connection: Connection::new(&config), input: Vec::new(), at: 0 };
        Self(LoopCell::new(state))
    }

    /// Add received bytes.
    fn feed(&self, py: Python<'_>, data: &[u8]) {
        self.0.with(py, |s| s.input.extend_from_slice(data));
    }

    /// Return the next message or control frame: its opcode and payload, ("close", (code, reason)) or ("failure", (code,
    /// reason)); None if more bytes are needed. Nothing is left of a message that was returned.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Value<Option<Frame<'py>>>> {
        let Some(news) = self.0.with(py, Self::next_news) else { return Ok(Value(None)) };
        Ok(Value(Some(match news {
            News::Text(text) => (1, fallible::text(py, &text)?.into_any()),
            News::Binary(bytes) => (2, fallible::bytes(py, &bytes)?.into_any()),
            News::Close(code, reason) => (8, (code, reason).to_python(py)?),
            News::Ping(payload) => (9, fallible::bytes(py, &payload)?.into_any()),
            News::Pong(payload) => (10, fallible::bytes(py, &payload)?.into_any()),
            News::Failed(Failure { code, reason }) => (0, (code, reason).to_python(py)?),
        })))
    }

    fn text(&self, py: Python<'_>, text: &str) -> PyResult<Py<PyBytes>> {
        self.send(py, |connection, out| connection.sender.text(out, text))
    }

    fn binary(&self, py: Python<'_>, data: &[u8]) -> PyResult<Py<PyBytes>> {
        self.send(py, |connection, out| connection.sender.binary(out, data))
    }

    fn ping(&self, py: Python<'_>, payload: &[u8]) -> PyResult<Py<PyBytes>> {
        self.send(py, |connection, out| connection.sender.ping(out, payload))
    }

    fn pong(&self, py: Python<'_>, payload: &[u8]) -> PyResult<Py<PyBytes>> {
        self.send(py, |connection, out| connection.sender.pong(out, payload))
    }

    #[pyo3(signature = (code, reason = ""))]
    fn close(&self, py: Python<'_>, code: Option<u16>, reason: &str) -> PyResult<Py<PyBytes>> {
        self.send(py, |connection, out| connection.sender.close(out, code, reason))
    }

    /// What the server has to answer to a key.
    #[staticmethod]
    fn accept_of<'py>(py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        fallible::bytes(py, &handshake::accept_key(key))
    }
}
