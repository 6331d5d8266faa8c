//! Responses of the server itself, and the end within a response.

use super::connection::{Awaited, HttpConnection, Input};
use super::responses::write_status_line;
use crate::http::connection::output;
use crate::http::exchange::access_record::{Refused, record_refused};
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::error_log;
use pyo3::intern;
use pyo3::prelude::*;

/// How soon a reset that waits for the peer is looked at; each further time twice as late, up to the second time.
const FIRST_LOOK_S: f64 = 0.01;
const LAST_LOOK_S: f64 = 1.0;

impl HttpConnection {
    /// Sends a response by the server, after which the connection ends. `head`: for the access log, the input from the
    /// start of a request that has no exchange.
    pub fn refuse(slf: &Bound<'_, Self>, status: u16, reason: &str, head: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        error_log::refused(&Self::ends(slf)?.0, status, reason)?;
        let exchange = this.exchange(py);
        let may_respond = match &exchange {
            // For the request whose body was rejected, if nothing of its response was sent.
            Some(exchange) => exchange.get().state.with(py, |s| s.response.is_unsent()),
            None => this.state.with(py, |s| matches!(s.input, Input::Head)),
        };
        let is_head = exchange.as_ref().is_some_and(|exchange| exchange.get().is_head);
        let len = if is_head { 0 } else { reason.len() as u64 };
        let recorded = match &exchange {
            Some(exchange) if may_respond => {
                exchange.get().state.with(py, |s| (s.status, s.sent_bytes) = (status, len));
                exchange.get().record(py, true)
            }
            None if may_respond => {
                let limits = &this.open.get().options.limits;
                let client = || Self::ends(slf).map(|ends| ends.0);
                let refused = Refused { input: head, limits, client, status, sent_bytes: len };
                record_refused(py, this.service.get(), refused)
            }
            _ => Ok(()),
        };
        if let Some(exchange) = &exchange {
            this.cut(exchange)?;
        }
        if may_respond {
            Self::write(slf, &this.own_response(py, status, reason, is_head))?;
        } else if let Some(exchange) = exchange
            && exchange.get().state.with(py, |s| s.ends_by_close())
        {
            return Self::break_off(slf, &exchange);
        }
        this.linger(py).and(recorded)
    }

    /// Ends the connection within a response, so that the peer can detect that it is incomplete.
    pub fn break_off(slf: &Bound<'_, Self>, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.cut(exchange)?;
        if !exchange.get().state.with(py, |s| s.ends_by_close()) {
            return this.close(py);
        }
        // An orderly close would mark the end of the body. With TLS, so would the close_notify that closing sends: RFC
        // 8446 section 6.1.
        let (is_known, is_over) = this.state.with(py, |s| {
            s.input = Input::Closed;
            s.is_last = true;
            s.buffer = Vec::new();
            // A TLS connection ends with either side, in an orderly way.
            (std::mem::replace(&mut s.will_reset, true), s.is_tls && s.has_eof)
        });
        if is_known {
            return Ok(());
        }
        if is_over {
            return this.abort_transport(py);
        }
        this.state.with(py, |s| s.unsent_bytes = usize::MAX);
        this.wait_for(py, Awaited::End);
        // What the peer still sends is dropped.
        let resumed = this.resume_reading(py);
        Self::reset_when_taken(slf, FIRST_LOOK_S).and(resumed)
    }

    /// Ends a response of which nothing more is written. What still waits may be sent or not: `connection_lost` knows.
    fn cut(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        let py = exchange.py();
        let kept = self.under(py).map_or(Ok(0), |under| output::kept_bytes(&under, py))?;
        if kept > 0 { exchange.get().cut(py) } else { exchange.get().disconnect(py) }
    }

    /// A reset drops what the peer's system does not have yet, and that may be whole responses. So it waits for that; the
    /// connection's deadline ends a peer that does not read.
    pub fn reset_when_taken(slf: &Bound<'_, Self>, wait_s: f64) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.untaken_bytes(py)? == 0 {
            return this.abort_transport(py);
        }
        let look = slf.getattr(intern!(py, "_reset_when_taken"))?;
        let owner = this.service.get().owner.bind(py);
        let next_s = (2.0 * wait_s).min(LAST_LOOK_S);
        owner.call_method1(intern!(py, "call_later"), (wait_s, look, next_s)).map(drop)
    }

    /// A whole response with a text body, which is left out for HEAD.
    pub fn own_response(&self, py: Python<'_>, status: u16, text: &str, is_head: bool) -> Vec<u8> {
        let service = self.service.get();
        let mut out = Vec::with_capacity(256);
        write_status_line(&mut out, status);
        service.write_defaults(py, &mut out);
        if status == 426 {
            // RFC 6455 section 4.4.
            out.extend_from_slice(b"upgrade: websocket\r\nsec-websocket-version: 13\r\n");
        }
        let len = text.len();
        out.extend_from_slice(
            format!(
                "content-type: text/plain; charset=utf-8\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n"
            )
            .as_bytes(),
        );
        if !is_head {
            out.extend_from_slice(text.as_bytes());
        }
        out
    }
}
