//! The sending side of a connection.

use super::answer::Framing;
use super::connection::{HttpConnection, Input};
use super::exchange::{Answer, Exchange};
use super::journal;
use crate::ffi::bytes;
use crate::transport::{StreamTransport, Under};
use oneloop_http1::response;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::IoSlice;

/// Removes the lines of a field, given by its lower-case name and a colon.
pub fn leave_out(head: &mut Vec<u8>, name: &[u8]) {
    let kept: Vec<_> = head
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(name))
        .collect();
    *head = kept.concat();
}

impl HttpConnection {
    /// Sends immediately, or queues, like the first write of a callback on a transport.
    pub fn write(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        let py = slf.py();
        match slf.get().under(py) {
            Some(Under::Stream(stream)) => StreamTransport::write_slice(stream.bind(py), data),
            Some(Under::Other(other)) => {
                let data = PyBytes::new(py, data);
                other.bind(py).call_method1(intern!(py, "write"), (data,)).map(drop)
            }
            // The connection has ended.
            None => Ok(()),
        }
    }

    /// Like `write`, for a long body between two short parts.
    pub fn write_parts(
        slf: &Bound<'_, Self>,
        head: &[u8],
        body: &Bound<'_, PyBytes>,
        tail: &[u8],
    ) -> PyResult<()> {
        let py = slf.py();
        match slf.get().under(py) {
            Some(Under::Stream(stream)) => {
                let mut pieces = Vec::with_capacity(3);
                if !head.is_empty() {
                    pieces.push(PyBytes::new(py, head));
                }
                pieces.push(body.clone());
                if !tail.is_empty() {
                    pieces.push(PyBytes::new(py, tail));
                }
                StreamTransport::write_pieces(stream.bind(py), &pieces)
            }
            Some(Under::Other(other)) => {
                let parts = [IoSlice::new(head), IoSlice::new(body.as_bytes()), IoSlice::new(tail)];
                let data = bytes::joined(py, &parts)?;
                other.bind(py).call_method1(intern!(py, "write"), (data,)).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Sends a response by the server, after which the connection ends.
    pub fn refuse(slf: &Bound<'_, Self>, status: u16, reason: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        journal::refused(slf, status, reason)?;
        let may_answer = match this.exchange(py) {
            // For the request whose body was rejected, if nothing of its answer was sent.
            Some(exchange) => {
                let answer = exchange.get().state.with(py, |s| s.answer);
                exchange.get().disconnect(py)?;
                matches!(answer, Answer::Awaited | Answer::Started)
            }
            None => this.state.with(py, |s| matches!(s.input, Input::Head)),
        };
        let exchange = this.exchange(py);
        if may_answer {
            let is_head = exchange.is_some_and(|exchange| exchange.get().is_head);
            Self::write(slf, &this.own_answer(py, status, reason, is_head))?;
        } else if let Some(exchange) = exchange
            && exchange.get().state.with(py, |s| s.framing == Framing::UntilClose)
        {
            return Self::break_off(slf, &exchange);
        }
        this.linger(py)
    }

    /// Ends the connection within an answer, so that the peer can detect that it is incomplete.
    pub fn break_off(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        exchange.get().disconnect(py)?;
        let ends_by_close = exchange.get().state.with(py, |s| s.framing == Framing::UntilClose);
        if ends_by_close {
            // An orderly close would mark the end of the body. SO_LINGER with no time makes it a reset: socket(7).
            this.reset(py)?;
        }
        this.close(py)
    }

    /// Bytes that were written and not yet received by the peer, including those in the kernel. The kernel's send queue
    /// is so long that a slow peer may take nothing from the transport's own queue for minutes.
    pub fn untaken_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        let Some(under) = self.under(py) else { return Ok(0) };
        let under = under.object(py);
        let kept: usize = under.call_method0(intern!(py, "get_write_buffer_size"))?.extract()?;
        let socket = under.call_method1(intern!(py, "get_extra_info"), ("socket",))?;
        if socket.is_none() {
            return Ok(kept);
        }
        let fd: i32 = socket.call_method0(intern!(py, "fileno"))?.extract()?;
        // A closed socket has no send queue, nor has anything that is not a socket.
        Ok(kept + oneloop_engine::sys::socket::untaken_bytes(fd).unwrap_or(0))
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let Some(under) = self.under(py) else { return Ok(()) };
        let socket = under.object(py).call_method1(intern!(py, "get_extra_info"), ("socket",))?;
        if socket.is_none() {
            return Ok(());
        }
        let linger = PyBytes::new(py, &[1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat());
        socket.call_method1("setsockopt", (libc::SOL_SOCKET, libc::SO_LINGER, linger)).map(drop)
    }

    /// A whole response with a text body, which is left out for HEAD.
    pub fn own_answer(&self, py: Python<'_>, status: u16, text: &str, is_head: bool) -> Vec<u8> {
        let http = self.http.get();
        let mut answer =
            format!("HTTP/1.1 {status} {}\r\n", response::reason_phrase(status)).into_bytes();
        http.write_defaults(py, &mut answer);
        if status == 426 {
            // RFC 6455 section 4.4.
            answer.extend_from_slice(b"upgrade: websocket\r\nsec-websocket-version: 13\r\n");
        }
        let len = text.len();
        answer.extend_from_slice(
            format!(
                "content-type: text/plain; charset=utf-8\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n"
            )
            .as_bytes(),
        );
        if !is_head {
            answer.extend_from_slice(text.as_bytes());
        }
        answer
    }
}
