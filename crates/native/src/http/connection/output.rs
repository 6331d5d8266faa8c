//! The sending side of a connection's transport.

use crate::ffi::bytes;
use crate::ffi::fallible;
use crate::tls::TlsTransport;
use crate::transport::{StreamTransport, Under};
use oneloop_engine::sys::socket;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::IoSlice;

/// Data for a connection that ends is dropped. The application gets an exception from its next `send`; asyncio's
/// transports would also warn of each write, with texts that name neither the client nor the application.
fn is_deaf(under: &Under, py: Python<'_>) -> bool {
    match under {
        Under::Stream(stream) => stream.get().is_over(py),
        Under::Other(other) => {
            other.bind(py).cast_exact::<TlsTransport>().is_ok_and(|tls| tls.get().is_over(py))
        }
    }
}

/// Closes after the written data is sent. With TLS, a client that still sends may read it.
pub fn close(under: &Under, py: Python<'_>) -> PyResult<()> {
    if let Under::Other(other) = under
        && let Ok(tls) = other.bind(py).cast_exact::<TlsTransport>()
    {
        return TlsTransport::close_and_drop(tls);
    }
    under.object(py).call_method0(intern!(py, "close")).map(drop)
}

/// Sends immediately, or queues, like the first write of a callback on a transport.
pub fn write(under: &Under, py: Python<'_>, data: &[u8]) -> PyResult<()> {
    match under {
        Under::Stream(stream) => StreamTransport::write_slice(stream.bind(py), data),
        Under::Other(_) if is_deaf(under, py) => Ok(()),
        Under::Other(other) => {
            let data = fallible::bytes(py, data)?;
            other.bind(py).call_method1(intern!(py, "write"), (data,)).map(drop)
        }
    }
}

/// Like `write`, for a long body between two short parts.
pub fn write_parts(
    under: &Under,
    py: Python<'_>,
    head: &[u8],
    body: &Bound<'_, PyBytes>,
    tail: &[u8],
) -> PyResult<()> {
    if is_deaf(under, py) {
        return Ok(());
    }
    match under {
        Under::Stream(stream) => {
            let mut pieces = Vec::with_capacity(3);
            if !head.is_empty() {
                pieces.push(fallible::bytes(py, head)?);
            }
            pieces.push(body.clone());
            if !tail.is_empty() {
                pieces.push(fallible::bytes(py, tail)?);
            }
            StreamTransport::write_pieces(stream.bind(py), &pieces)
        }
        Under::Other(other) => {
            let parts = [IoSlice::new(head), IoSlice::new(body.as_bytes()), IoSlice::new(tail)];
            let data = bytes::joined(py, &parts)?;
            other.bind(py).call_method1(intern!(py, "write"), (data,)).map(drop)
        }
    }
}

/// Bytes that were written and that the kernel does not have yet.
pub fn kept_bytes(under: &Under, py: Python<'_>) -> PyResult<usize> {
    let kept: usize =
        under.object(py).call_method0(intern!(py, "get_write_buffer_size"))?.extract()?;
    // With TLS, what is encrypted waits in the transport below.
    let below = match under {
        Under::Stream(_) => None,
        Under::Other(other) => {
            other.bind(py).cast_exact::<TlsTransport>().ok().and_then(|tls| tls.get().under(py))
        }
    };
    match below {
        Some(below) => Ok(kept + kept_bytes(&below, py)?),
        None => Ok(kept),
    }
}

/// Bytes that were written, and were still queued when the connection was lost.
pub fn lost_bytes(under: &Under, py: Python<'_>) -> usize {
    match under {
        Under::Stream(stream) => stream.get().lost_bytes(py),
        Under::Other(other) => {
            other.bind(py).cast_exact::<TlsTransport>().map_or(0, |tls| tls.get().lost_bytes(py))
        }
    }
}

/// Bytes that were written and not yet received by the peer, including those in the kernel. The kernel's send queue
/// is so long that a slow peer may take nothing from the transport's own queue for minutes.
pub fn untaken_bytes(under: &Under, py: Python<'_>) -> PyResult<usize> {
    // A closed socket has no send queue, nor has anything that is not a socket.
    let queued = descriptor(under, py)?.and_then(|fd| socket::untaken_bytes(fd).ok());
    Ok(kept_bytes(under, py)? + queued.unwrap_or(0))
}

/// The number of the socket; -1 after it was closed, `None` if the transport has none.
pub fn descriptor(under: &Under, py: Python<'_>) -> PyResult<Option<i32>> {
    let socket = under.object(py).call_method1(intern!(py, "get_extra_info"), ("socket",))?;
    if socket.is_none() {
        return Ok(None);
    }
    socket.call_method0(intern!(py, "fileno"))?.extract().map(Some)
}

/// What is written from now on is lost, because the transport closes or has failed.
pub fn is_ending(under: &Under, py: Python<'_>) -> PyResult<bool> {
    if is_deaf(under, py) {
        return Ok(true);
    }
    if matches!(under, Under::Stream(_)) {
        return Ok(false);
    }
    under.object(py).call_method0(intern!(py, "is_closing"))?.is_truthy()
}
