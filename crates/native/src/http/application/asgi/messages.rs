//! One message of an ASGI application: which one may come next.

use super::message::item;
use super::{pathsend, response};
use crate::http::application::websocket;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::error_log::client_gone;
use crate::http::exchange::response_state::Response;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Handles one message of the application. Returns a future if sending it takes longer.
pub fn send<'py>(
    exchange: &Bound<'py, Exchange>,
    message: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = exchange.py();
    if let Some(websocket) = websocket::of(exchange.get()) {
        return websocket.send(exchange, message).map(|()| None);
    }
    let kind = item(message, intern!(py, "type"))?;
    let (state, is_disconnected, is_sending_file) =
        exchange.get().state.with(py, |s| (s.response, s.is_disconnected, s.is_sending_file));
    let is = |name: &str| match kind.cast_exact::<PyString>() {
        Ok(kind) => kind.to_str().is_ok_and(|kind| kind == name),
        Err(_) => kind.eq(name).unwrap_or(false),
    };
    if state == Response::Complete {
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
    let expected = match state {
        Response::Awaited if is("http.response.start") => {
            return response::start(exchange, message).map(|()| None);
        }
        Response::Awaited if is("http.response.early_hint") => {
            return response::early_hint(exchange, message).map(|()| None);
        }
        Response::Awaited => "http.response.start",
        Response::Trailing if is("http.response.trailers") => {
            return response::trailers(exchange, message).map(|()| None);
        }
        Response::Trailing => "http.response.trailers",
        _ if is("http.response.body") => {
            return response::body(exchange, message).map(|()| None);
        }
        _ if is("http.response.pathsend") => {
            return pathsend::start(exchange, message);
        }
        _ => "http.response.body",
    };
    let text = format!("Expected ASGI message '{expected}', but got '{kind}'.");
    Err(PyRuntimeError::new_err(text))
}
