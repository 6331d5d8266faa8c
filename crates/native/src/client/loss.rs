//! A connection of HTTP/1.1 whose exchange is not complete, and which the server has closed.

use super::connection::{ClientConnection, Input};
use super::exchange::ClientExchange;
use super::failure::{self, Kind};
use pyo3::prelude::*;

impl ClientConnection {
    /// The server has closed the connection, or it has failed.
    pub fn lose(slf: &Bound<'_, Self>, cause: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.is_http2() {
            return Self::lose_streams(slf, cause.as_ref());
        }
        let Some(exchange) = this.exchange(py) else { return Ok(()) };
        let (has_begun, is_sent) = exchange.get().state.with(py, |s| (s.has_begun, s.is_sent));
        let is_reused = this.state.with(py, |s| s.exchanges > 1);
        // Nothing of a response came on a kept connection: the server had closed it before it saw the request.
        if is_reused && !has_begun && is_sent && exchange.get().may_repeat {
            let old = this.state.with(py, |s| {
                s.input = Input::Closed;
                s.exchange.take()
            });
            drop(old);
            let (home, origin) = this.home(py);
            return home.repeat(origin, &exchange);
        }
        let error = match cause {
            Some(cause) => failure::lost(&cause),
            None => {
                failure::error(py, Kind::RemoteProtocolError, &this.what_is_missing(py, &exchange))
            }
        };
        Self::fail(slf, error)
    }

    fn what_is_missing(&self, py: Python<'_>, exchange: &Bound<'_, ClientExchange>) -> String {
        if exchange.get().state.with(py, |s| s.response.is_none()) {
            return "Server disconnected without sending a response.".to_owned();
        }
        self.state.with(py, |s| match &s.input {
            Input::Body(reader) => match reader.left() {
                Some(left) => format!(
                    "the server closed the connection {left} bytes before the end of the body"
                ),
                None => "the server closed the connection within a chunked body".to_owned(),
            },
            _ => "the server closed the connection".to_owned(),
        })
    }
}
