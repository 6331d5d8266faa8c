//! How a tunnel calls its stream: `TunnelCarrier` in HTTP/2 (RFC 8441).

use super::carrier::{Calls, stream, stream_of};
use super::connection::{Http2Connection, Http2Stream};
use super::stream::HIGH_BYTES;
use crate::event_loop::LoopCore;
use crate::ffi::bytes::SharedBytes;
use crate::http::exchange::contract::{Exchange, TunnelCarrier, TunnelDeadline};
use oneloop_http2::{Chunk, Code};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl Http2Stream {
    /// Gives received bytes to the tunnel. What it does not take is kept.
    pub fn feed_tunnel(
        slf: &Bound<'_, Self>,
        exchange: &Bound<'_, Exchange>,
        data: &[u8],
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(tunnel) = &exchange.get().tunnel else { return Ok(()) };
        let mut input = this.state.with(py, |s| std::mem::take(&mut s.kept));
        input.extend_from_slice(data);
        if this.state.with(py, |s| s.is_input_held) {
            this.state.with(py, |s| s.kept = input);
            return Ok(());
        }
        let used = tunnel.take(exchange, &mut input)?;
        input.drain(..used);
        let is_empty = input.is_empty();
        this.state.with(py, |s| s.kept = input);
        if is_empty { Self::give_back(slf) } else { Ok(()) }
    }

    fn go_on(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let exchange = object.cast_exact::<Exchange>()?;
        let slf = stream(exchange);
        slf.get().state.with(slf.py(), |s| s.will_go_on = false);
        Self::feed_tunnel(slf, exchange, b"")
    }
}

impl TunnelCarrier for Calls {
    fn begin_tunnel_head(&self, _head: &mut Vec<u8>, _key: &[u8]) {}

    fn start_tunnel(&self, exchange: &Bound<'_, Exchange>, head: Vec<u8>) -> PyResult<()> {
        let py = exchange.py();
        // In the access log it is what it is in HTTP/1.1: an opened WebSocket, not a response.
        exchange.get().state.with(py, |s| s.status = 101);
        stream(exchange).get().state.with(py, |s| s.is_tunnel = true);
        Http2Stream::respond(stream(exchange), 200, &head, false)
    }

    fn write(&self, exchange: &Bound<'_, Exchange>, data: &[u8]) -> PyResult<()> {
        Http2Stream::push(stream(exchange), Chunk::Copied(data.into()), false)
    }

    fn write_after(
        &self,
        exchange: &Bound<'_, Exchange>,
        head: &[u8],
        body: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        self.write(exchange, head)?;
        let shared = SharedBytes::new(body);
        Http2Stream::push(stream(exchange), Chunk::Shared(shared), false)
    }

    fn set_deadline(&self, exchange: &Bound<'_, Exchange>, deadline: TunnelDeadline) {
        Http2Stream::set_tunnel_deadline(stream(exchange), deadline);
    }

    fn hold_input(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        stream(exchange).get().state.with(exchange.py(), |s| s.is_input_held = true);
        Ok(())
    }

    fn take_input(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = exchange.py();
        let stream = stream(exchange);
        let is_due = stream.get().state.with(py, |s| {
            s.is_input_held = false;
            let is_due = !s.kept.is_empty() && !s.will_go_on;
            s.will_go_on |= is_due;
            is_due
        });
        if !is_due {
            return Http2Stream::give_back(stream);
        }
        let owner = exchange.get().service.get().owner.get();
        owner.run_soon(py, exchange.clone().into_any().unbind(), Http2Stream::go_on);
        Ok(())
    }

    fn is_stuck(&self, exchange: &Bound<'_, Exchange>) -> bool {
        stream_of(exchange.py(), exchange.get()).get().is_paused(exchange.py())
    }

    fn has_taken(&self, exchange: &Bound<'_, Exchange>) -> PyResult<bool> {
        Ok(stream(exchange).get().state.with(exchange.py(), |s| {
            let before = std::mem::replace(&mut s.drained_bytes, s.queued_bytes);
            s.queued_bytes < before || s.queued_bytes <= HIGH_BYTES
        }))
    }

    fn end_tunnel(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        Http2Stream::set_tunnel_deadline(stream(exchange), TunnelDeadline::End);
        Http2Stream::push_end(stream(exchange))
    }

    fn abort_tunnel(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let stream = stream(exchange).get();
        let connection = stream.connection.bind(exchange.py());
        Http2Connection::reset(connection, stream.id, Code::CANCEL)
    }
}
