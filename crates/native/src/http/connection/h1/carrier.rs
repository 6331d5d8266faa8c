//! How an exchange calls its `HttpConnection`: `Carrier` and `TunnelCarrier` in HTTP/1.1.

use super::connection::{Awaited, HttpConnection, Input};
use super::deadlines::of;
use super::responses::{end_head, write_reason_line, write_status_line};
use crate::ffi::{Link, Object};
use crate::http::exchange::contract::{Carrier, Exchange, TunnelCarrier, TunnelDeadline};
use crate::http::exchange::response_state::{Framed, Framing, Response};
use oneloop_websocket::handshake;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

struct Calls;

impl HttpConnection {
    pub fn link(slf: &Bound<'_, Self>) -> Link<dyn Carrier> {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }
}

#[inline]
fn connection<'a, 'py>(exchange: &'a Bound<'py, Exchange>) -> &'a Bound<'py, HttpConnection> {
    connection_of(exchange.py(), exchange.get())
}

#[inline]
fn connection_of<'a, 'py>(
    py: Python<'py>,
    exchange: &'a Exchange,
) -> &'a Bound<'py, HttpConnection> {
    of(exchange.carrier.object.bind(py))
}

impl Carrier for Calls {
    fn begin_head(&self, head: &mut Vec<u8>, status: u16, reason: Option<&[u8]>) {
        match reason {
            Some(reason) => write_reason_line(head, status, reason),
            None => write_status_line(head, status),
        }
    }

    fn send_head(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let head = exchange.get().state.with(exchange.py(), |s| {
            end_head(exchange.get(), s, None);
            s.response = Response::Streaming;
            std::mem::take(&mut s.head)
        });
        HttpConnection::write(connection(exchange), &head)
    }

    fn send_early_hints(&self, exchange: &Bound<'_, Exchange>, fields: &[u8]) -> PyResult<()> {
        // HTTP/1.0 has no interim responses.
        if exchange.get().is_http10 {
            return Ok(());
        }
        let head = [b"HTTP/1.1 103 Early Hints\r\n", fields, b"\r\n"].concat();
        HttpConnection::write(connection(exchange), &head)
    }

    fn frame(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        data: &[u8],
        more: bool,
    ) -> PyResult<Framed> {
        connection_of(py, exchange).get().frame(py, exchange, data, more)
    }

    fn send_body(
        &self,
        exchange: &Bound<'_, Exchange>,
        framed: &Framed,
        body: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        let connection = connection(exchange);
        match framed.tail {
            None => HttpConnection::write(connection, &framed.out),
            Some(tail) => HttpConnection::write_parts(connection, &framed.out, body, tail),
        }
    }

    fn send_trailers(
        &self,
        exchange: &Bound<'_, Exchange>,
        mut fields: Vec<u8>,
        ends: bool,
    ) -> PyResult<()> {
        // Only a chunked body has them.
        if exchange.get().state.with(exchange.py(), |s| s.framing != Framing::Marked) {
            return Ok(());
        }
        if ends {
            fields.extend_from_slice(b"\r\n");
        }
        HttpConnection::write(connection(exchange), &fields)
    }

    fn send_text(&self, exchange: &Bound<'_, Exchange>, status: u16, text: &str) -> PyResult<()> {
        let connection = connection(exchange);
        let is_head = exchange.get().is_head;
        let response = connection.get().own_response(exchange.py(), status, text, is_head);
        HttpConnection::write(connection, &response)
    }

    fn records_later(&self, exchange: &Bound<'_, Exchange>) -> bool {
        HttpConnection::keep_unrecorded(connection(exchange), exchange)
    }

    fn lost_bytes(&self, py: Python<'_>, exchange: &Exchange) -> usize {
        connection_of(py, exchange).get().state.with(py, |s| s.lost_bytes)
    }

    fn end(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        HttpConnection::response_ended(connection(exchange), exchange)
    }

    fn abort(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        HttpConnection::break_off(connection(exchange), exchange)
    }

    fn is_paused(&self, py: Python<'_>, exchange: &Exchange) -> bool {
        connection_of(py, exchange).get().state.with(py, |s| s.is_writing_paused && !s.is_lost)
    }

    fn with_waiters(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        change: &mut dyn FnMut(&mut Vec<Py<PyAny>>, bool),
    ) {
        connection_of(py, exchange).get().state.with(py, |s| {
            let is_paused = s.is_writing_paused && !s.is_lost;
            change(&mut s.drain_waiters, is_paused);
        });
    }

    fn is_ending(&self, exchange: &Bound<'_, Exchange>) -> PyResult<bool> {
        connection(exchange).get().is_ending(exchange.py())
    }

    fn ask_for_body(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let connection = connection(exchange);
        // From now on the body's deadline counts.
        connection.get().wait_for(exchange.py(), Awaited::Body);
        HttpConnection::write(connection, b"HTTP/1.1 100 Continue\r\n\r\n")
    }

    fn is_reading_paused(&self, py: Python<'_>, exchange: &Exchange) -> bool {
        connection_of(py, exchange).get().state.with(py, |s| s.is_reading_paused)
    }

    fn read_on(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = exchange.py();
        let this = connection(exchange).get();
        // The exchange may be over, and the connection may serve another request by now.
        if !this.exchange(py).is_some_and(|current| current.is(exchange)) {
            return Ok(());
        }
        if this.state.with(py, |s| s.is_reading_paused) {
            this.wait_for(py, Awaited::Body);
        }
        this.resume_reading(py)
    }

    fn watch_for_end(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        HttpConnection::begin_moment(connection(exchange), exchange)
    }
}

impl TunnelCarrier for Calls {
    fn begin_tunnel_head(&self, head: &mut Vec<u8>, key: &[u8]) {
        handshake::write_accept(head, key);
    }

    fn start_tunnel(&self, exchange: &Bound<'_, Exchange>, mut head: Vec<u8>) -> PyResult<()> {
        let connection = connection(exchange);
        exchange.get().state.with(exchange.py(), |s| s.status = 101);
        connection.get().state.with(exchange.py(), |s| s.input = Input::Tunnel);
        head.extend_from_slice(b"\r\n");
        HttpConnection::write(connection, &head)
    }

    fn write(&self, exchange: &Bound<'_, Exchange>, data: &[u8]) -> PyResult<()> {
        HttpConnection::write(connection(exchange), data)
    }

    fn write_after(
        &self,
        exchange: &Bound<'_, Exchange>,
        head: &[u8],
        body: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        HttpConnection::write_parts(connection(exchange), head, body, b"")
    }

    fn set_deadline(&self, exchange: &Bound<'_, Exchange>, deadline: TunnelDeadline) {
        let awaited = match deadline {
            TunnelDeadline::Ping => Awaited::Ping,
            TunnelDeadline::Pong => Awaited::Pong,
            TunnelDeadline::End => Awaited::End,
        };
        let (py, this) = (exchange.py(), connection(exchange).get());
        this.state.with(py, |s| s.is_tunnel_over = deadline == TunnelDeadline::End);
        this.wait_for(py, awaited);
    }

    fn hold_input(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        connection(exchange).get().pause_reading(exchange.py())
    }

    fn take_input(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        HttpConnection::feed_soon(connection(exchange))
    }

    fn is_stuck(&self, exchange: &Bound<'_, Exchange>) -> bool {
        connection(exchange).get().state.with(exchange.py(), |s| s.is_writing_paused)
    }

    fn has_taken(&self, exchange: &Bound<'_, Exchange>) -> PyResult<bool> {
        connection(exchange).get().has_taken(exchange.py())
    }

    fn end_tunnel(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        connection(exchange).get().linger(exchange.py())
    }

    fn abort_tunnel(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        HttpConnection::abort(connection(exchange))
    }
}
