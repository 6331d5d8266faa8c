//! The body of a request on its way: in chunks on HTTP/1.1 if its length is not known, in frames on HTTP/2.

use super::connection::ClientConnection;
use super::exchange::ClientExchange;
use crate::ffi::fallible;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

impl ClientConnection {
    /// Sends a head, and the body behind it that is there whole.
    pub fn write_whole(slf: &Bound<'_, Self>, request: &ClientExchange) -> PyResult<()> {
        let py = slf.py();
        let head = request.head.bind(py);
        match (&request.body, request.is_chunked) {
            (Some(body), false) => Self::write(slf, &[head.clone(), body.bind(py).clone()]),
            (Some(body), true) => {
                let body = body.bind(py);
                let size = chunk_size(body)?;
                let end = fallible::bytes(py, &[b"\r\n", LAST_CHUNK].concat())?;
                Self::write(slf, &[head.clone(), size, body.clone(), end])
            }
            (None, true) if request.state.with(py, |s| s.is_sent) => {
                Self::write(slf, &[head.clone(), fallible::bytes(py, LAST_CHUNK)?])
            }
            (None, _) => Self::write(slf, std::slice::from_ref(head)),
        }
    }

    /// Sends a part of a body, or of a tunnel.
    pub fn send_part(
        slf: &Bound<'_, Self>,
        request: &ClientExchange,
        data: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        let py = slf.py();
        let is_tunnel = request.state.with(py, |s| {
            s.is_partly_sent = true;
            s.is_tunnel
        });
        if slf.get().is_http2() {
            return Self::push(slf, request, Some(data), false);
        }
        if !request.is_chunked || is_tunnel {
            return Self::write(slf, std::slice::from_ref(data));
        }
        if data.as_bytes().is_empty() {
            // It would be the last one.
            return Ok(());
        }
        Self::write(slf, &[chunk_size(data)?, data.clone(), fallible::bytes(py, b"\r\n")?])
    }

    /// The body is complete.
    pub fn end_body(slf: &Bound<'_, Self>, request: &ClientExchange) -> PyResult<()> {
        let py = slf.py();
        if slf.get().is_http2() {
            return Self::push(slf, request, None, true);
        }
        if request.is_chunked {
            Self::write(slf, &[fallible::bytes(py, LAST_CHUNK)?])?;
        }
        Self::wait_for_response(slf, request)
    }
}

fn chunk_size<'py>(data: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyBytes>> {
    fallible::bytes(data.py(), format!("{:x}\r\n", data.as_bytes().len()).as_bytes())
}
